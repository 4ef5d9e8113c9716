// SPDX-License-Identifier: Apache-2.0
/* cupti_sass.c -- execution counts of every instruction of a kernel (cupti_collect.h): CUPTI's SASS metrics, which
 * patch the code of a launch. */
#include <cupti_sass_metrics.h>
#include <stdio.h>
#include <stdlib.h>

#include "scope/cupti_api.h"
#include "scope/cupti_collect.h"

// clang-format off
#define FUNCTIONS(X) \
    X(cuptiSassMetricsGetProperties) X(cuptiSassMetricsSetConfig) X(cuptiSassMetricsUnsetConfig) \
    X(cuptiSassMetricsEnable) X(cuptiSassMetricsDisable) X(cuptiSassMetricsGetDataProperties) \
    X(cuptiSassMetricsFlushData)
// clang-format on
typedef struct functions {
    FUNCTIONS(MBA_LIBRARY_FIELD)
} functions;
#define ENTRY(f) MBA_LIBRARY_ENTRY(functions, f)
static const mba_library_name names[] = { FUNCTIONS(ENTRY){ NULL, 0 } };

const char *const mba_sass_metrics[MBA_SASS_METRICS] = { "smsp__sass_inst_executed",
                                                         "smsp__sass_thread_inst_executed_pred_on" };

static struct {
    const mba_cupti         *c;
    bool                     opened, ready;
    functions                f;
    CUcontext                context;
    CUpti_SassMetrics_Config config[MBA_SASS_METRICS];
} on;

static mba_status open_library(void)
{
    if (on.opened) return MBA_OK;
    MBA_TRY(mba_cupti_open(&on.c));
    MBA_TRY(mba_library_open(mba_cupti_file(), names, &on.f));
    on.opened = true;
    return MBA_OK;
}

/* ---- counts ---- */

static mba_status prepare(void)
{
    const char *const probe = "gpu__time_duration.sum";
    int               passes;
    if (on.ready) return MBA_OK;
    MBA_TRY(open_library());
    MBA_TRY(mba_counters_count_passes(&passes, NULL, &probe, 1)); // initialises the profiler
    MBA_TRY(mba_cupti_context(&on.context));
    CUPTI_PARAMS(CUpti_Device_GetChipName_Params, chip);
    CUPTI_TRY(on.c, on.c->cuptiDeviceGetChipName(&chip));
    for (int i = 0; i < MBA_SASS_METRICS; i++) {
        CUPTI_PARAMS(CUpti_SassMetrics_GetProperties_Params, p);
        p.pChipName = chip.pChipName;
        p.pMetricName = mba_sass_metrics[i];
        CUPTI_TRY(on.c, on.f.cuptiSassMetricsGetProperties(&p));
        on.config[i] = (CUpti_SassMetrics_Config){ .metricId = p.metric.metricId,
                                                   .outputGranularity = CUPTI_SASS_METRICS_OUTPUT_GRANULARITY_GPU };
    }
    on.ready = true;
    return MBA_OK;
}

mba_status mba_sass_begin(void)
{
    MBA_TRY(prepare());
    mba_modules_watch();
    CUPTI_PARAMS(CUpti_SassMetricsSetConfig_Params, set);
    set.numOfMetricConfig = MBA_SASS_METRICS;
    set.pConfigs = on.config;
    CUPTI_TRY(on.c, on.f.cuptiSassMetricsSetConfig(&set));
    CUPTI_PARAMS(CUpti_SassMetricsEnable_Params, enable);
    enable.ctx = on.context;
    enable.enableLazyPatching = 1;
    CUPTI_TRY(on.c, on.f.cuptiSassMetricsEnable(&enable));
    return MBA_OK;
}

static int metric_of(uint64_t id)
{
    for (int i = 0; i < MBA_SASS_METRICS; i++)
        if (on.config[i].metricId == id) return i;
    return -1;
}

bool mba_sass_is(const char *kernel, const char *only) { return !only || (kernel && strstr(kernel, only)); }

static void put_record(const CUpti_SassMetrics_Data *d, size_t instances, mba_sass_fn *fn, void *ctx)
{
    char           file[512];
    mba_sass_count c = { .kernel = d->functionName, .file = file, .pc = d->pcOffset };
    mba_modules_line(d->cubinCrc, d->functionName, d->pcOffset, file, sizeof file, &c.line);
    for (size_t k = 0; k < instances; k++) {
        const int m = metric_of(d->pInstanceValues[k].metricId);
        c.value = (double)d->pInstanceValues[k].value;
        if (m < 0) continue;
        c.metric = mba_sass_metrics[m];
        fn(ctx, &c);
    }
}

/* FlushData requires the struct size of the macro and refuses sizeof. */
static mba_status flush(CUpti_SassMetrics_Data *d, CUpti_SassMetrics_InstanceValue *v, size_t records, size_t instances,
                        const char *only, mba_sass_fn *fn, void *ctx)
{
    for (size_t i = 0; i < records; i++) {
        d[i].structSize = sizeof *d;
        d[i].pInstanceValues = v + i * instances;
    }
    CUPTI_PARAMS(CUpti_SassMetricsFlushData_Params, f);
    f.ctx = on.context;
    f.numOfPatchedInstructionRecords = records;
    f.numOfInstances = instances;
    f.pMetricsData = d;
    CUPTI_TRY(on.c, on.f.cuptiSassMetricsFlushData(&f));
    for (size_t i = 0; i < records; i++)
        if (mba_sass_is(d[i].functionName, only)) put_record(&d[i], instances, fn, ctx);
    return MBA_OK;
}

static mba_status read_all(const char *only, mba_sass_fn *fn, void *ctx)
{
    CUPTI_PARAMS(CUpti_SassMetricsGetDataProperties_Params, size);
    size.ctx = on.context;
    CUPTI_TRY(on.c, on.f.cuptiSassMetricsGetDataProperties(&size));
    const size_t records = size.numOfPatchedInstructionRecords, instances = size.numOfInstances;
    if (!records) return MBA_OK;
    CUpti_SassMetrics_Data          *d = calloc(records, sizeof *d);
    CUpti_SassMetrics_InstanceValue *v = calloc(records * instances + 1, sizeof *v);
    const mba_status                 st = d && v ? flush(d, v, records, instances, only, fn, ctx)
                                                 : mba_fail(MBA_E_NOMEM, "no memory for %zu instructions", records);
    free(d);
    free(v);
    return st;
}

mba_status mba_sass_end(const char *only, mba_sass_fn *fn, void *ctx)
{
    const mba_status st = read_all(only, fn, ctx);
    CUPTI_PARAMS(CUpti_SassMetricsDisable_Params, disable);
    disable.ctx = on.context;
    const CUptiResult off = on.f.cuptiSassMetricsDisable(&disable);
    CUPTI_PARAMS(CUpti_SassMetricsUnsetConfig_Params, unset);
    on.f.cuptiSassMetricsUnsetConfig(&unset);
    mba_modules_forget();
    MBA_TRY(st);
    CUPTI_TRY(on.c, off);
    return MBA_OK;
}
