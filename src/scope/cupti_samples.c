/* cupti_samples.c -- where warps of a kernel are, and why they wait: CUPTI's samples of the program counter.
 *
 * Sampling must be switched on before the first kernel of a process is loaded: code that is there already counts as
 * somebody else's, without an error. So it has a process of its own (gpu_samples.c). */
#include <stdlib.h>

#include "scope/cupti_api.h"
#include "scope/cupti_collect.h"

enum { PCS = 8192, ROUNDS = 64, PERIOD = 10 };     // instructions of a buffer; buffers of a stretch; 2^10 cycles

static struct {
    const mba_cupti     *c;
    CUcontext            context;
    size_t               nreasons;
    uint32_t            *index;
    char               **reason;
    CUpti_PCSamplingData data;
} on;

#define PC_PARAMS(T, v) T v; memset(&v, 0, sizeof v); v.size = T##Size; v.ctx = on.context

static mba_status ask_reasons(void)
{
    PC_PARAMS(CUpti_PCSamplingGetNumStallReasonsParams, count);
    count.numStallReasons = &on.nreasons;
    CUPTI_TRY(on.c, on.c->cuptiPCSamplingGetNumStallReasons(&count));
    on.index  = calloc(on.nreasons + 1, sizeof *on.index);
    on.reason = calloc(on.nreasons + 1, sizeof *on.reason);
    bool room = on.index && on.reason;
    for (size_t i = 0; room && i < on.nreasons; i++)
        room = (on.reason[i] = calloc(1, CUPTI_STALL_REASON_STRING_SIZE)) != NULL;
    if (!room) return mba_fail(MBA_E_NOMEM, "no memory for reasons of stalls");
    PC_PARAMS(CUpti_PCSamplingGetStallReasonsParams, names);
    names.numStallReasons  = on.nreasons;
    names.stallReasonIndex = on.index;
    names.stallReasons     = on.reason;
    CUPTI_TRY(on.c, on.c->cuptiPCSamplingGetStallReasons(&names));
    return MBA_OK;
}

static mba_status take_buffer(void)
{
    on.data = (CUpti_PCSamplingData){ .size = sizeof on.data, .collectNumPcs = PCS };
    on.data.pPcData = calloc(PCS, sizeof *on.data.pPcData);
    CUpti_PCSamplingStallReason *all = calloc(PCS * (on.nreasons + 1), sizeof *all);
    if (!on.data.pPcData || !all) {
        free(all);
        return mba_fail(MBA_E_NOMEM, "no memory for samples");
    }
    for (size_t i = 0; i < PCS; i++) {
        on.data.pPcData[i].size        = sizeof *on.data.pPcData;
        on.data.pPcData[i].stallReason = all + i * on.nreasons;
    }
    return MBA_OK;
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
    c[2].attributeData.stallReasonData.stallReasonCount  = on.nreasons;
    c[2].attributeData.stallReasonData.pStallReasonIndex = on.index;
    c[3].attributeType = CUPTI_PC_SAMPLING_CONFIGURATION_ATTR_TYPE_ENABLE_START_STOP_CONTROL;
    c[3].attributeData.enableStartStopControlData.enableStartStopControl = 1;
    c[4].attributeType = CUPTI_PC_SAMPLING_CONFIGURATION_ATTR_TYPE_SAMPLING_DATA_BUFFER;
    c[4].attributeData.samplingDataBufferData.samplingDataBuffer = &on.data;
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
    MBA_TRY(take_buffer());
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
    for (size_t i = 0; i < on.nreasons; i++) if (on.index[i] == index) return on.reason[i];
    return "unknown";
}

/* What the buffer has; it is empty then. */
static void hand_over(mba_sass_fn *fn, void *ctx, mba_samples_seen *seen)
{
    for (size_t i = 0; i < on.data.totalNumPcs && i < PCS; i++) {
        const CUpti_PCSamplingPCData *p = &on.data.pPcData[i];
        char                          file[512];
        mba_sass_count c = { .kernel = p->functionName, .file = file, .pc = (uint32_t)p->pcOffset };
        mba_modules_line(p->cubinCrc, p->functionName, p->pcOffset, file, sizeof file, &c.line);
        for (size_t k = 0; k < p->stallReasonCount; k++) {
            c.metric = reason_of(p->stallReason[k].pcSamplingStallReasonIndex);
            c.value  = p->stallReason[k].samples;
            if (c.value > 0) fn(ctx, &c);
        }
    }
    seen->samples += (int64_t)on.data.totalSamples;
    seen->dropped += (int64_t)on.data.droppedSamples;
    seen->foreign += (int64_t)on.data.nonUsrKernelsTotalSamples;
    on.data.totalNumPcs = on.data.remainingNumPcs = 0;
    on.data.totalSamples = on.data.droppedSamples = on.data.nonUsrKernelsTotalSamples = 0;
}

mba_status mba_samples_stop(mba_sass_fn *fn, void *ctx, mba_samples_seen *seen)
{
    PC_PARAMS(CUpti_PCSamplingStopParams, stop);
    CUPTI_TRY(on.c, on.c->cuptiPCSamplingStop(&stop));
    for (int round = 0; round < ROUNDS; round++) {
        hand_over(fn, ctx, seen);
        PC_PARAMS(CUpti_PCSamplingGetDataParams, get);
        get.pcSamplingData = &on.data;
        CUPTI_TRY(on.c, on.c->cuptiPCSamplingGetData(&get));
        if (!on.data.totalNumPcs && !on.data.remainingNumPcs) break;
    }
    hand_over(fn, ctx, seen);
    return MBA_OK;
}

void mba_samples_end(void)
{
    PC_PARAMS(CUpti_PCSamplingDisableParams, disable);
    if (on.c) on.c->cuptiPCSamplingDisable(&disable);
    mba_modules_forget();
    if (on.data.pPcData) free(on.data.pPcData[0].stallReason);
    free(on.data.pPcData);
    for (size_t i = 0; on.reason && i < on.nreasons; i++) free(on.reason[i]);
    free(on.reason);
    free(on.index);
    memset(&on, 0, sizeof on);
}
