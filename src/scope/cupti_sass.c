/* cupti_sass.c -- how often every instruction of a kernel runs: CUPTI's SASS metrics, for one launch that is patched. */
#include <cupti_sass_metrics.h>
#include <stdio.h>
#include <stdlib.h>

#include "scope/cupti_api.h"
#include "scope/cupti_collect.h"

#define FUNCTIONS(X)                                                                                              \
    X(cuptiSassMetricsGetProperties) X(cuptiSassMetricsSetConfig) X(cuptiSassMetricsUnsetConfig)                    \
    X(cuptiSassMetricsEnable) X(cuptiSassMetricsDisable) X(cuptiSassMetricsGetDataProperties) X(cuptiSassMetricsFlushData) \
    X(cuptiGetSassToSourceCorrelation) X(cuptiGetCubinCrc)
typedef struct functions { FUNCTIONS(MBA_LIBRARY_FIELD) } functions;
#define ENTRY(f) MBA_LIBRARY_ENTRY(functions, f)
static const mba_library_name names[] = { FUNCTIONS(ENTRY) { NULL, 0 } };

const char *const mba_sass_metrics[MBA_SASS_METRICS] = { "smsp__sass_inst_executed",
                                                         "smsp__sass_thread_inst_executed_pred_on" };

enum { CUBINS_MAX = 64 };

/* The code of a module, as the driver shows it while it is patched; known by a checksum that the records carry too. */
typedef struct cubin { uint32_t crc; void *bytes; size_t n; } cubin;

static struct {
    const mba_cupti         *c;
    bool                     opened, ready;
    functions                f;
    CUcontext                context;
    CUpti_SassMetrics_Config config[MBA_SASS_METRICS];
    CUpti_SubscriberHandle   subscriber;
    cubin                    cubins[CUBINS_MAX];
    int                      ncubins;
} on;

static mba_status open_library(void)
{
    if (on.opened) return MBA_OK;
    MBA_TRY(mba_cupti_open(&on.c));
    MBA_TRY(mba_library_open(mba_cupti_file(), names, &on.f));
    on.opened = true;
    return MBA_OK;
}

/* ---- source lines ---- */

mba_status mba_sass_line(const void *code, size_t n, const char *function, uint32_t pc, char *file, size_t room,
                         int *line)
{
    CUpti_GetSassToSourceCorrelationParams p;
    MBA_TRY(open_library());
    memset(&p, 0, sizeof p);
    p.size         = CUpti_GetSassToSourceCorrelationParamsSize;
    p.cubin        = code;
    p.cubinSize    = n;
    p.functionName = function;
    p.pcOffset     = pc;
    CUPTI_TRY(on.c, on.f.cuptiGetSassToSourceCorrelation(&p));
    snprintf(file, room, "%s", p.fileName ? p.fileName : "");
    *line = (int)p.lineNumber;
    free(p.fileName);                              // both are the caller's
    free(p.dirName);
    return MBA_OK;
}

static void CUPTIAPI module_seen(void *ctx, CUpti_CallbackDomain domain, CUpti_CallbackId id, const void *data)
{
    const CUpti_ModuleResourceData *m = ((const CUpti_ResourceData *)data)->resourceDescriptor;
    CUpti_GetCubinCrcParams         p;
    (void)ctx, (void)domain, (void)id;
    if (!m || !m->pCubin || on.ncubins == CUBINS_MAX) return;
    memset(&p, 0, sizeof p);
    p.size      = CUpti_GetCubinCrcParamsSize;
    p.cubinSize = m->cubinSize;
    p.cubin     = m->pCubin;
    if (on.f.cuptiGetCubinCrc(&p) != CUPTI_SUCCESS) return;
    for (int i = 0; i < on.ncubins; i++)
        if (on.cubins[i].crc == (uint32_t)p.cubinCrc) return; // it comes dozens of times
    cubin *c = &on.cubins[on.ncubins];
    *c = (cubin){ (uint32_t)p.cubinCrc, malloc(m->cubinSize), m->cubinSize };
    if (!c->bytes) return;
    memcpy(c->bytes, m->pCubin, m->cubinSize);
    on.ncubins++;
}

/* Lines are worth having, not worth failing for. */
static void watch_modules(void)
{
    if (on.c->cuptiSubscribe(&on.subscriber, (CUpti_CallbackFunc)module_seen, NULL) != CUPTI_SUCCESS) {
        on.subscriber = NULL;
        return;
    }
    on.c->cuptiEnableCallback(1, on.subscriber, CUPTI_CB_DOMAIN_RESOURCE, CUPTI_CBID_RESOURCE_MODULE_LOADED);
    on.c->cuptiEnableCallback(1, on.subscriber, CUPTI_CB_DOMAIN_RESOURCE, CUPTI_CBID_RESOURCE_MODULE_PROFILED);
}

static void forget_modules(void)
{
    if (on.subscriber) on.c->cuptiUnsubscribe(on.subscriber);
    on.subscriber = NULL;
    while (on.ncubins) free(on.cubins[--on.ncubins].bytes);
}

static void find_line(const CUpti_SassMetrics_Data *d, char *file, size_t room, int *line)
{
    *file = 0;
    *line = 0;
    for (int i = 0; i < on.ncubins; i++)
        if (on.cubins[i].crc == d->cubinCrc &&
            mba_sass_line(on.cubins[i].bytes, on.cubins[i].n, d->functionName, d->pcOffset, file, room, line) == MBA_OK)
            return;
}

/* ---- counts ---- */

static mba_status prepare(void)
{
    const char *const probe = "gpu__time_duration.sum";
    int               passes;
    if (on.ready) return MBA_OK;
    MBA_TRY(open_library());
    MBA_TRY(mba_counters_count_passes(&passes, NULL, &probe, 1));          // initialises the profiler
    MBA_TRY(mba_cupti_context(&on.context));
    CUPTI_PARAMS(CUpti_Device_GetChipName_Params, chip);
    CUPTI_TRY(on.c, on.c->cuptiDeviceGetChipName(&chip));
    for (int i = 0; i < MBA_SASS_METRICS; i++) {
        CUPTI_PARAMS(CUpti_SassMetrics_GetProperties_Params, p);
        p.pChipName   = chip.pChipName;
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
    watch_modules();
    CUPTI_PARAMS(CUpti_SassMetricsSetConfig_Params, set);
    set.numOfMetricConfig = MBA_SASS_METRICS;
    set.pConfigs          = on.config;
    CUPTI_TRY(on.c, on.f.cuptiSassMetricsSetConfig(&set));
    CUPTI_PARAMS(CUpti_SassMetricsEnable_Params, enable);
    enable.ctx = on.context;
    enable.enableLazyPatching = 1;
    CUPTI_TRY(on.c, on.f.cuptiSassMetricsEnable(&enable));
    return MBA_OK;
}

static int metric_of(uint64_t id)
{
    for (int i = 0; i < MBA_SASS_METRICS; i++) if (on.config[i].metricId == id) return i;
    return -1;
}

/* The size of FlushData's struct must be the macro's: sizeof is refused. */
static mba_status flush(CUpti_SassMetrics_Data *d, CUpti_SassMetrics_InstanceValue *v, size_t records, size_t instances,
                        mba_sass_fn *fn, void *ctx)
{
    for (size_t i = 0; i < records; i++) {
        d[i].structSize      = sizeof *d;
        d[i].pInstanceValues = v + i * instances;
    }
    CUPTI_PARAMS(CUpti_SassMetricsFlushData_Params, f);
    f.ctx = on.context;
    f.numOfPatchedInstructionRecords = records;
    f.numOfInstances = instances;
    f.pMetricsData   = d;
    CUPTI_TRY(on.c, on.f.cuptiSassMetricsFlushData(&f));
    for (size_t i = 0; i < records; i++) {
        char           file[512];
        mba_sass_count c = { .kernel = d[i].functionName, .file = file, .pc = d[i].pcOffset };
        find_line(&d[i], file, sizeof file, &c.line);
        for (size_t k = 0; k < instances; k++) {
            const int m = metric_of(d[i].pInstanceValues[k].metricId);
            c.value = (double)d[i].pInstanceValues[k].value;
            if (m < 0) continue;
            c.metric = mba_sass_metrics[m];
            fn(ctx, &c);
        }
    }
    return MBA_OK;
}

static mba_status read_all(mba_sass_fn *fn, void *ctx)
{
    CUPTI_PARAMS(CUpti_SassMetricsGetDataProperties_Params, size);
    size.ctx = on.context;
    CUPTI_TRY(on.c, on.f.cuptiSassMetricsGetDataProperties(&size));
    const size_t records = size.numOfPatchedInstructionRecords, instances = size.numOfInstances;
    if (!records) return MBA_OK;
    CUpti_SassMetrics_Data          *d = calloc(records, sizeof *d);
    CUpti_SassMetrics_InstanceValue *v = calloc(records * instances + 1, sizeof *v);
    const mba_status st = d && v ? flush(d, v, records, instances, fn, ctx)
                                 : mba_fail(MBA_E_NOMEM, "no memory for %zu instructions", records);
    free(d);
    free(v);
    return st;
}

mba_status mba_sass_end(mba_sass_fn *fn, void *ctx)
{
    const mba_status st = read_all(fn, ctx);
    CUPTI_PARAMS(CUpti_SassMetricsDisable_Params, disable);
    disable.ctx = on.context;
    const CUptiResult off = on.f.cuptiSassMetricsDisable(&disable);
    CUPTI_PARAMS(CUpti_SassMetricsUnsetConfig_Params, unset);
    on.f.cuptiSassMetricsUnsetConfig(&unset);
    forget_modules();
    MBA_TRY(st);
    CUPTI_TRY(on.c, off);
    return MBA_OK;
}
