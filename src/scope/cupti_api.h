// SPDX-License-Identifier: Apache-2.0
/* cupti_api.h -- CUPTI 13, opened at run time when profiling starts.
 *
 *     const mba_cupti *c;
 *     MBA_TRY(mba_cupti_open(&c));                          // or a clear error: not there, another version
 *     CUPTI_TRY(c, c->cuptiActivityEnable(CUPTI_ACTIVITY_KIND_MEMCPY));
 *
 * Only the cupti_*.c files include this. CUPTI's host header includes <string> without using it; CMake gives these
 * files an empty one. */
#ifndef MBA_SCOPE_CUPTI_API_H
#define MBA_SCOPE_CUPTI_API_H

#include <cuda.h>
#include <cupti.h>
#include <cupti_pcsampling.h>
#include <cupti_profiler_host.h>
#include <cupti_profiler_target.h>
#include <cupti_range_profiler.h>
#include <cupti_target.h>
#include <stdint.h>
#include <string.h>

#include "device/cuda/library.h"

// clang-format off
#define MBA_CUPTI_FUNCTIONS(X) \
    X(cuptiGetResultString) X(cuptiGetVersion) X(cuptiGetTimestamp) X(cuptiSubscribe) X(cuptiUnsubscribe) \
    X(cuptiEnableCallback) X(cuptiActivityRegisterCallbacks) X(cuptiActivityEnable) X(cuptiActivityDisable) \
    X(cuptiActivityFlushAll) X(cuptiActivityFlushPeriod) X(cuptiActivityGetNextRecord) \
    X(cuptiActivityGetNumDroppedRecords) \
    X(cuptiProfilerInitialize) X(cuptiProfilerGetCounterAvailability) X(cuptiProfilerDeviceSupported) \
    X(cuptiDeviceGetChipName) X(cuptiProfilerHostInitialize) X(cuptiProfilerHostDeinitialize) \
    X(cuptiProfilerHostConfigAddMetrics) X(cuptiProfilerHostGetConfigImageSize) X(cuptiProfilerHostGetConfigImage) \
    X(cuptiProfilerHostGetNumOfPasses) X(cuptiProfilerHostEvaluateToGpuValues) X(cuptiRangeProfilerEnable) \
    X(cuptiRangeProfilerDisable) X(cuptiRangeProfilerGetCounterDataSize) \
    X(cuptiRangeProfilerCounterDataImageInitialize) \
    X(cuptiRangeProfilerSetConfig) X(cuptiRangeProfilerStart) X(cuptiRangeProfilerStop) \
    X(cuptiRangeProfilerDecodeData) \
    X(cuptiRangeProfilerGetCounterDataInfo) X(cuptiPCSamplingEnable) X(cuptiPCSamplingDisable) X(cuptiPCSamplingStart) \
    X(cuptiPCSamplingStop) X(cuptiPCSamplingGetData) X(cuptiPCSamplingSetConfigurationAttribute) \
    X(cuptiPCSamplingGetNumStallReasons) X(cuptiPCSamplingGetStallReasons)
// clang-format on

typedef struct mba_cupti {
    MBA_CUPTI_FUNCTIONS(MBA_LIBRARY_FIELD)
} mba_cupti;

MBA_MUST mba_status mba_cupti_open(const mba_cupti **out);

/* The context of the calling thread; there must be one. */
MBA_MUST mba_status mba_cupti_context(CUcontext *out);

/* Memory of the GPU, in bytes; both -1: not known. */
void mba_cupti_memory(int64_t *free, int64_t *total);

/* Reports a CUPTI error; missing permission, a second profiler and lack of memory get a `fix:` of their own. */
mba_status mba_cupti_failed(const mba_cupti *c, CUptiResult r, const char *call);

#define CUPTI_TRY(c, call) \
    do { \
        const CUptiResult cupti_ = (call); \
        if (cupti_ != CUPTI_SUCCESS) return mba_cupti_failed((c), cupti_, #call); \
    } while (0)

/* Declares a parameter struct as CUPTI requires it: zero, with its size set. */
#define CUPTI_PARAMS(T, v) \
    T v; \
    memset(&v, 0, sizeof v); \
    v.structSize = T##_STRUCT_SIZE

#endif
