// SPDX-License-Identifier: Apache-2.0
/* cupti_samples.c -- program-counter sampling by CUPTI (cupti_collect.h): which instructions warps wait at, and why.
 *
 * Sampling must be enabled before the first kernel of a process is loaded. CUPTI counts code that was loaded earlier as
 * foreign, without an error. Therefore sampling runs in a process of its own (gpu_samples.c). */
#include <stdlib.h>
#include <unistd.h>

#include "scope/cupti_api.h"
#include "scope/cupti_collect.h"

/* PCS: instructions per buffer. ROUNDS: buffers per stop. WAITS, WAIT_US: retries of an empty answer and the pause
 * between them. PERIOD: 2^10 cycles between samples. */
enum { PCS = 8192, ROUNDS = 64, WAITS = 6, WAIT_US = 50000, PERIOD = 10 };

static struct {
    const mba_cupti     *c;
    CUcontext            context;
    size_t               nreasons;
    uint32_t            *index;
    char               **reason;
    CUpti_PCSamplingData asked, spare; // for data that we request; for data that CUPTI delivers by itself
} on;

#define PC_PARAMS(T, v) \
    T v; \
    memset(&v, 0, sizeof v); \
    v.size = T##Size; \
    v.ctx = on.context

static mba_status ask_reasons(void)
{
    PC_PARAMS(CUpti_PCSamplingGetNumStallReasonsParams, count);
    count.numStallReasons = &on.nreasons;
    CUPTI_TRY(on.c, on.c->cuptiPCSamplingGetNumStallReasons(&count));
    on.index = calloc(on.nreasons + 1, sizeof *on.index);
    on.reason = calloc(on.nreasons + 1, sizeof *on.reason);
    bool room = on.index && on.reason;
    for (size_t i = 0; room && i < on.nreasons; i++)
        room = (on.reason[i] = calloc(1, CUPTI_STALL_REASON_STRING_SIZE)) != NULL;
    if (!room) return mba_fail(MBA_E_NOMEM, "no memory for reasons of stalls");
    PC_PARAMS(CUpti_PCSamplingGetStallReasonsParams, names);
    names.numStallReasons = on.nreasons;
    names.stallReasonIndex = on.index;
    names.stallReasons = on.reason;
    CUPTI_TRY(on.c, on.c->cuptiPCSamplingGetStallReasons(&names));
    return MBA_OK;
}

static mba_status take_buffer(CUpti_PCSamplingData *d)
{
    *d = (CUpti_PCSamplingData){ .size = sizeof *d, .collectNumPcs = PCS };
    d->pPcData = calloc(PCS, sizeof *d->pPcData);
    CUpti_PCSamplingStallReason *all = calloc(PCS * (on.nreasons + 1), sizeof *all);
    if (!d->pPcData || !all) {
        free(all);
        return mba_fail(MBA_E_NOMEM, "no memory for samples");
    }
    for (size_t i = 0; i < PCS; i++) {
        d->pPcData[i].size = sizeof *d->pPcData;
        d->pPcData[i].stallReason = all + i * on.nreasons;
    }
    return MBA_OK;
}

static void give_buffer(CUpti_PCSamplingData *d)
{
    if (d->pPcData) free(d->pPcData[0].stallReason);
    free(d->pPcData);
}

static mba_status configure(void)
{
    CUpti_PCSamplingConfigurationInfo c[5];
    memset(c, 0, sizeof c);
    c[0].attributeType = CUPTI_PC_SAMPLING_CONFIGURATION_ATTR_TYPE_COLLECTION_MODE;
    c[0].attributeData.collectionModeData.collectionMode = CUPTI_PC_SAMPLING_COLLECTION_MODE_CONTINUOUS;
    c[1].attributeType = CUPTI_PC_SAMPLING_CONFIGURATION_ATTR_TYPE_SAMPLING_PERIOD;
    c[1].attributeData.samplingPeriodData.samplingPeriod = PERIOD;
    c[2].attributeType = CUPTI_PC_SAMPLING_CONFIGURATION_ATTR_TYPE_STALL_REASON;
    c[2].attributeData.stallReasonData.stallReasonCount = on.nreasons;
    c[2].attributeData.stallReasonData.pStallReasonIndex = on.index;
    c[3].attributeType = CUPTI_PC_SAMPLING_CONFIGURATION_ATTR_TYPE_ENABLE_START_STOP_CONTROL;
    c[3].attributeData.enableStartStopControlData.enableStartStopControl = 1;
    c[4].attributeType = CUPTI_PC_SAMPLING_CONFIGURATION_ATTR_TYPE_SAMPLING_DATA_BUFFER;
    c[4].attributeData.samplingDataBufferData.samplingDataBuffer = &on.spare;
    PC_PARAMS(CUpti_PCSamplingConfigurationInfoParams, set);
    set.numAttributes = sizeof c / sizeof *c;
    set.pPCSamplingConfigurationInfo = c;
    CUPTI_TRY(on.c, on.c->cuptiPCSamplingSetConfigurationAttribute(&set));
    for (size_t i = 0; i < sizeof c / sizeof *c; i++)
        if (c[i].attributeStatus != CUPTI_SUCCESS)
            return mba_cupti_failed(on.c, c[i].attributeStatus, "an attribute of PC sampling");
    return MBA_OK;
}

mba_status mba_samples_begin(void)
{
    MBA_TRY(mba_cupti_open(&on.c));
    MBA_TRY(mba_cupti_context(&on.context));
    mba_modules_watch();
    PC_PARAMS(CUpti_PCSamplingEnableParams, enable);
    CUPTI_TRY(on.c, on.c->cuptiPCSamplingEnable(&enable));
    MBA_TRY(ask_reasons());
    MBA_TRY(take_buffer(&on.asked));
    MBA_TRY(take_buffer(&on.spare));
    return configure();
}

mba_status mba_samples_start(void)
{
    PC_PARAMS(CUpti_PCSamplingStartParams, start);
    CUPTI_TRY(on.c, on.c->cuptiPCSamplingStart(&start));
    return MBA_OK;
}

static const char *reason_of(uint32_t index)
{
    for (size_t i = 0; i < on.nreasons; i++)
        if (on.index[i] == index) return on.reason[i];
    return "unknown";
}

static void put_pc(const CUpti_PCSamplingPCData *p, mba_sass_fn *fn, void *ctx)
{
    char           file[512];
    mba_sass_count c = { .kernel = p->functionName, .file = file, .pc = (uint32_t)p->pcOffset };
    mba_modules_line(p->cubinCrc, p->functionName, p->pcOffset, file, sizeof file, &c.line);
    for (size_t k = 0; k < p->stallReasonCount; k++) {
        c.metric = reason_of(p->stallReason[k].pcSamplingStallReasonIndex);
        c.value = p->stallReason[k].samples;
        if (c.value > 0) fn(ctx, &c);
    }
}

/* Delivers the samples of a buffer and empties it. */
static void deliver(CUpti_PCSamplingData *d, const char *only, mba_sass_fn *fn, void *ctx, mba_samples_seen *seen)
{
    for (size_t i = 0; i < d->totalNumPcs && i < PCS; i++)
        if (mba_sass_is(d->pPcData[i].functionName, only)) put_pc(&d->pPcData[i], fn, ctx);
    seen->samples += (int64_t)d->totalSamples;
    seen->dropped += (int64_t)d->droppedSamples;
    seen->foreign += (int64_t)d->nonUsrKernelsTotalSamples;
    d->totalNumPcs = d->remainingNumPcs = 0;
    d->totalSamples = d->droppedSamples = d->nonUsrKernelsTotalSamples = 0;
}

/* A thread of CUPTI decodes the samples, so the first answers may be empty. */
mba_status mba_samples_stop(const char *only, mba_sass_fn *fn, void *ctx, mba_samples_seen *seen)
{
    int empty = 0;
    PC_PARAMS(CUpti_PCSamplingStopParams, stop);
    CUPTI_TRY(on.c, on.c->cuptiPCSamplingStop(&stop));
    for (int round = 0; round < ROUNDS; round++) {
        PC_PARAMS(CUpti_PCSamplingGetDataParams, get);
        get.pcSamplingData = &on.asked;
        CUPTI_TRY(on.c, on.c->cuptiPCSamplingGetData(&get));
        const bool done = !on.asked.totalNumPcs && !on.asked.remainingNumPcs;
        deliver(&on.asked, only, fn, ctx, seen);
        deliver(&on.spare, only, fn, ctx, seen);
        if (!done) continue;
        if (seen->samples || empty++ == WAITS) break;
        usleep(WAIT_US);
    }
    return MBA_OK;
}

/* Disabling delivers what CUPTI had buffered into `spare`. */
void mba_samples_end(const char *only, mba_sass_fn *fn, void *ctx, mba_samples_seen *seen)
{
    PC_PARAMS(CUpti_PCSamplingDisableParams, disable);
    if (on.context) on.c->cuptiPCSamplingDisable(&disable);
    deliver(&on.spare, only, fn, ctx, seen);
    mba_modules_forget();
    give_buffer(&on.asked);
    give_buffer(&on.spare);
    for (size_t i = 0; on.reason && i < on.nreasons; i++) free(on.reason[i]);
    free(on.reason);
    free(on.index);
    memset(&on, 0, sizeof on);
}
