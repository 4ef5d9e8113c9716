// SPDX-License-Identifier: Apache-2.0
/* cupti_counters.c -- hardware counters per kernel (cupti_collect.h): CUPTI's range profiler with one range per launch
 * and replay by the caller.
 *
 * docs/scope.md lists how CUPTI behaves on the H200. Two rules matter most: a new set of metrics needs a new profiler
 * object, because CUPTI silently ignores a second configuration; and both images must outlive the object. */
#include <stdio.h>
#include <stdlib.h>

#include "scope/cupti_api.h"
#include "scope/cupti_collect.h"
#include "scope/metrics.h"

static const size_t IMAGE_BYTES_MAX = (size_t)16 << 30;

/* The host object: it turns metrics into a configuration image, and raw values into metrics. */
typedef struct host {
    CUpti_Profiler_Host_Object *object;
    uint8_t                    *image;
    size_t                      bytes, passes;
} host;

struct mba_counters {
    host                        host;
    CUpti_RangeProfiler_Object *object;
    uint8_t                    *data;
    size_t                      bytes;
    const char                **metric;
    int                         n;
};

static struct {
    const mba_cupti *c;
    bool             ready;
    CUcontext        context;
    const char      *chip;
    uint8_t         *available;
} gpu;

static mba_status read_available(void)
{
    CUPTI_PARAMS(CUpti_Profiler_GetCounterAvailability_Params, a);
    a.ctx = gpu.context;
    CUPTI_TRY(gpu.c, gpu.c->cuptiProfilerGetCounterAvailability(&a));
    free(gpu.available); // of an earlier attempt that failed
    if (!(gpu.available = calloc(1, a.counterAvailabilityImageSize + 16)))
        return mba_fail(MBA_E_NOMEM, "no memory for the list of counters");
    a.pCounterAvailabilityImage = gpu.available;
    CUPTI_TRY(gpu.c, gpu.c->cuptiProfilerGetCounterAvailability(&a));
    return MBA_OK;
}

/* Once per process: takes 0.1 s, and up to 0.5 s more to list the counters of this GPU. */
static mba_status prepare(void)
{
    if (gpu.ready) return MBA_OK;
    MBA_TRY(mba_cupti_open(&gpu.c));
    MBA_TRY(mba_cupti_context(&gpu.context));
    CUPTI_PARAMS(CUpti_Profiler_Initialize_Params, init);
    CUPTI_TRY(gpu.c, gpu.c->cuptiProfilerInitialize(&init));
    CUPTI_PARAMS(CUpti_Device_GetChipName_Params, name);
    CUPTI_TRY(gpu.c, gpu.c->cuptiDeviceGetChipName(&name));
    MBA_TRY(read_available());
    gpu.chip = name.pChipName;
    gpu.ready = true;
    return MBA_OK;
}

static void host_end(host *h)
{
    if (h->object) {
        CUPTI_PARAMS(CUpti_Profiler_Host_Deinitialize_Params, end);
        end.pHostObject = h->object;
        gpu.c->cuptiProfilerHostDeinitialize(&end);
    }
    free(h->image);
    *h = (host){ 0 };
}

static mba_status host_begin(host *h, const char *chip, const uint8_t *available)
{
    CUPTI_PARAMS(CUpti_Profiler_Host_Initialize_Params, init);
    init.profilerType = CUPTI_PROFILER_TYPE_RANGE_PROFILER;
    init.pChipName = chip;
    init.pCounterAvailabilityImage = available;
    CUPTI_TRY(gpu.c, gpu.c->cuptiProfilerHostInitialize(&init));
    h->object = init.pHostObject;
    return MBA_OK;
}

static CUptiResult host_add(host *h, const char *const *metric, int n)
{
    CUPTI_PARAMS(CUpti_Profiler_Host_ConfigAddMetrics_Params, add);
    add.pHostObject = h->object;
    add.ppMetricNames = (const char **)(void *)metric;
    add.numMetrics = (size_t)n;
    return gpu.c->cuptiProfilerHostConfigAddMetrics(&add);
}

/* Names the metric that CUPTI does not know. CUPTI refuses the whole list without saying which, and the object is
 * unusable then, so each metric is tried alone with a new object. */
static mba_status unknown_metric(const char *chip, const uint8_t *available, const char *const *metric, int n)
{
    for (int i = 0; i < n; i++) {
        host h = { 0 };
        MBA_TRY(host_begin(&h, chip, available));
        const CUptiResult r = host_add(&h, &metric[i], 1);
        host_end(&h);
        if (r != CUPTI_SUCCESS)
            return mba_fail(MBA_E_UNSUPPORTED,
                            "this GPU has no counter '%s'\nwhy: CUPTI does not know the name\nfix: leave its set out",
                            metric[i]);
    }
    return mba_fail(
        MBA_E_UNSUPPORTED,
        "CUPTI refuses these %d metrics together\nwhy: each one alone is accepted\nfix: put fewer into a set", n);
}

static mba_status host_configure(host *h, const char *chip, const uint8_t *available, const char *const *metric, int n)
{
    MBA_TRY(host_begin(h, chip, available));
    if (host_add(h, metric, n) != CUPTI_SUCCESS) return unknown_metric(chip, available, metric, n);
    CUPTI_PARAMS(CUpti_Profiler_Host_GetConfigImageSize_Params, size);
    size.pHostObject = h->object;
    CUPTI_TRY(gpu.c, gpu.c->cuptiProfilerHostGetConfigImageSize(&size));
    h->bytes = size.configImageSize;
    if (!(h->image = calloc(1, h->bytes + 16)))
        return mba_fail(MBA_E_NOMEM, "no memory for a configuration of counters");
    CUPTI_PARAMS(CUpti_Profiler_Host_GetConfigImage_Params, get);
    get.pHostObject = h->object;
    get.configImageSize = h->bytes;
    get.pConfigImage = h->image;
    CUPTI_TRY(gpu.c, gpu.c->cuptiProfilerHostGetConfigImage(&get));
    CUPTI_PARAMS(CUpti_Profiler_Host_GetNumOfPasses_Params, passes);
    passes.configImageSize = h->bytes;
    passes.pConfigImage = h->image;
    CUPTI_TRY(gpu.c, gpu.c->cuptiProfilerHostGetNumOfPasses(&passes));
    h->passes = passes.numOfPasses;
    return MBA_OK;
}

mba_status mba_counters_count_passes(int *passes, const char *chip, const char *const *metric, int n)
{
    host h = { 0 };
    MBA_TRY(mba_cupti_open(&gpu.c));
    if (!chip) MBA_TRY(prepare());
    const mba_status st = host_configure(&h, chip ? chip : gpu.chip, chip ? NULL : gpu.available, metric, n);
    *passes = (int)h.passes;
    host_end(&h);
    return st;
}

/* ---- a profiling session ---- */

static mba_status take_image(mba_counters *s, int64_t ranges)
{
    CUPTI_PARAMS(CUpti_RangeProfiler_GetCounterDataSize_Params, size);
    size.pRangeProfilerObject = s->object;
    size.pMetricNames = s->metric;
    size.numMetrics = (size_t)s->n;
    size.maxNumOfRanges = (size_t)ranges;
    size.maxNumRangeTreeNodes = (uint32_t)ranges;
    CUPTI_TRY(gpu.c, gpu.c->cuptiRangeProfilerGetCounterDataSize(&size));
    s->bytes = size.counterDataSize;
    if (s->bytes > IMAGE_BYTES_MAX || !(s->data = calloc(1, s->bytes + 16)))
        return mba_fail(MBA_E_NOMEM,
                        "the counters of %lld kernels would need %.1f GB\nfix: collect fewer sets at a time, or use a "
                        "model with fewer layers",
                        (long long)ranges, (double)s->bytes * 1e-9);
    CUPTI_PARAMS(CUpti_RangeProfiler_CounterDataImage_Initialize_Params, init);
    init.pRangeProfilerObject = s->object;
    init.counterDataSize = s->bytes;
    init.pCounterData = s->data;
    CUPTI_TRY(gpu.c, gpu.c->cuptiRangeProfilerCounterDataImageInitialize(&init));
    return MBA_OK;
}

static mba_status configure(mba_counters *s, int64_t ranges)
{
    CUPTI_PARAMS(CUpti_RangeProfiler_SetConfig_Params, set);
    set.pRangeProfilerObject = s->object;
    set.configSize = s->host.bytes;
    set.pConfig = s->host.image;
    set.counterDataImageSize = s->bytes;
    set.pCounterDataImage = s->data;
    set.range = CUPTI_AutoRange;
    set.replayMode = CUPTI_UserReplay;
    set.maxRangesPerPass = (size_t)ranges;
    set.numNestingLevels = 1;
    set.minNestingLevel = 1;
    set.targetNestingLevel = 1;
    CUPTI_TRY(gpu.c, gpu.c->cuptiRangeProfilerSetConfig(&set));
    return MBA_OK;
}

static mba_status open_session(mba_counters *s, int64_t ranges)
{
    MBA_TRY(host_configure(&s->host, gpu.chip, gpu.available, s->metric, s->n));
    CUPTI_PARAMS(CUpti_RangeProfiler_Enable_Params, enable);
    enable.ctx = gpu.context;
    CUPTI_TRY(gpu.c, gpu.c->cuptiRangeProfilerEnable(&enable));
    s->object = enable.pRangeProfilerObject;
    MBA_TRY(take_image(s, ranges));
    return configure(s, ranges);
}

mba_status mba_counters_open(mba_counters **out, const char *const *metric, int n, int64_t ranges)
{
    mba_assert(n > 0 && ranges > 0);
    *out = NULL;
    MBA_TRY(prepare());
    mba_counters *s = calloc(1, sizeof *s);
    if (!s || !(s->metric = calloc((size_t)n, sizeof *s->metric))) {
        free(s);
        return mba_fail(MBA_E_NOMEM, "no memory for counters");
    }
    s->n = n;
    memcpy(s->metric, metric, (size_t)n * sizeof *s->metric);
    const mba_status st = open_session(s, ranges);
    if (st == MBA_OK) *out = s;
    else mba_counters_close(s);
    return st;
}

mba_status mba_counters_start(mba_counters *s)
{
    CUPTI_PARAMS(CUpti_RangeProfiler_Start_Params, start);
    start.pRangeProfilerObject = s->object;
    CUPTI_TRY(gpu.c, gpu.c->cuptiRangeProfilerStart(&start));
    return MBA_OK;
}

mba_status mba_counters_stop(mba_counters *s, bool *all)
{
    CUPTI_PARAMS(CUpti_RangeProfiler_Stop_Params, stop);
    stop.pRangeProfilerObject = s->object;
    *all = true;
    CUPTI_TRY(gpu.c, gpu.c->cuptiRangeProfilerStop(&stop));
    *all = stop.isAllPassSubmitted != 0;
    return MBA_OK;
}

mba_status mba_counters_decode(mba_counters *s, int64_t *ranges)
{
    CUPTI_PARAMS(CUpti_RangeProfiler_DecodeData_Params, decode);
    decode.pRangeProfilerObject = s->object;
    CUPTI_TRY(gpu.c, gpu.c->cuptiRangeProfilerDecodeData(&decode));
    if (decode.numOfRangeDropped)
        return mba_fail(MBA_E_DEVICE,
                        "CUPTI dropped the counters of %zu kernels\nwhy: more were launched than in the "
                        "previous run\nfix: this is a bug of mambascope: a step must launch the same kernels "
                        "every time",
                        decode.numOfRangeDropped);
    CUPTI_PARAMS(CUpti_RangeProfiler_GetCounterDataInfo_Params, info);
    info.pCounterDataImage = s->data;
    info.counterDataImageSize = s->bytes;
    CUPTI_TRY(gpu.c, gpu.c->cuptiRangeProfilerGetCounterDataInfo(&info));
    *ranges = (int64_t)info.numTotalRanges;
    return MBA_OK;
}

mba_status mba_counters_values(mba_counters *s, int64_t range, double *values)
{
    mba_assert(range >= 0);
    CUPTI_PARAMS(CUpti_Profiler_Host_EvaluateToGpuValues_Params, e);
    e.pHostObject = s->host.object;
    e.pCounterDataImage = s->data;
    e.counterDataImageSize = s->bytes;
    e.rangeIndex = (size_t)range;
    e.ppMetricNames = s->metric;
    e.numMetrics = (size_t)s->n;
    e.pMetricValues = values;
    CUPTI_TRY(gpu.c, gpu.c->cuptiProfilerHostEvaluateToGpuValues(&e));
    return MBA_OK;
}

int mba_counters_passes(const mba_counters *s) { return (int)s->host.passes; }

void mba_counters_close(mba_counters *s)
{
    if (!s) return;
    if (s->object) { // first, while both images exist
        CUPTI_PARAMS(CUpti_RangeProfiler_Disable_Params, disable);
        disable.pRangeProfilerObject = s->object;
        gpu.c->cuptiRangeProfilerDisable(&disable);
    }
    host_end(&s->host);
    free(s->data);
    free(s->metric);
    free(s);
}
