/* inject_counters.c -- see inject_counters.h. */
#include "scope/inject_counters.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { GROUPS_MAX = 64 };

/* A distinct kernel of the group that is being read. */
typedef struct kernel {
    int64_t name;
    int32_t grid[3], block[3];
    int64_t launches;
    double mean[MBA_METRICS_MAX];
} kernel;

static struct {
    char                sets[256];
    int64_t             room, n;                             // launches of a group; so far
    mba_put_counter_fn *put;
    mba_put_cost_fn    *cost;
    void               *ctx;
    mba_counter_group   groups[GROUPS_MAX];
    int                 ngroups, at;
    bool                planned, done;
    mba_counters       *session;
    double              began_s;
    mba_events          names;
    kernel             *kernels;
    int64_t             nkernels, *of;                       // of: the kernel of each launch
    pthread_mutex_t     lock;
} in = { .lock = PTHREAD_MUTEX_INITIALIZER };

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- groups ---- */

/* A metric that needs more than one pass by itself cannot be had without replaying. */
static void drop_replayed(void)
{
    int n = 0;
    for (int i = 0; i < in.ngroups; i++) if (in.groups[i].passes == 1) in.groups[n++] = in.groups[i];
    in.ngroups = n;
}

static mba_status plan(void)
{
    char text[256];
    snprintf(text, sizeof text, "%s", in.sets);
    for (char *save = NULL, *name = strtok_r(text, ",", &save); name; name = strtok_r(NULL, ",", &save)) {
        const mba_metric_set *s = mba_metric_set_find(name);
        if (!s) return mba_fail(MBA_E_ARG, "no counter set '%s'", name);
        MBA_TRY(mba_counters_group(in.groups, &in.ngroups, GROUPS_MAX, NULL, s));
    }
    drop_replayed();
    in.planned = true;
    return MBA_OK;
}

mba_status mba_inject_count_begin(const char *sets, int64_t launches, mba_put_counter_fn *put, mba_put_cost_fn *cost,
                                  void *ctx)
{
    snprintf(in.sets, sizeof in.sets, "%s", sets);
    in.room = launches;
    in.put  = put;
    in.cost = cost;
    in.ctx  = ctx;
    in.of   = calloc((size_t)launches, sizeof *in.of);
    return in.of ? MBA_OK : mba_fail(MBA_E_NOMEM, "no memory for the counters of %lld launches", (long long)launches);
}

/* ---- one group ---- */

static mba_status take(int64_t i, const mba_counter_group *g)
{
    double  v[MBA_METRICS_MAX];
    kernel *k = &in.kernels[in.of[i]];
    MBA_TRY(mba_counters_values(in.session, i, v));
    k->launches++;
    for (int m = 0; m < g->n; m++) k->mean[m] += (v[m] - k->mean[m]) / (double)k->launches;
    return MBA_OK;
}

static void put_all(const mba_counter_group *g)
{
    for (int64_t i = 0; i < in.nkernels; i++) {
        const kernel *k = &in.kernels[i];
        for (int m = 0; m < g->n && k->launches; m++) {
            mba_trace_counter c = { .name = in.names.names[k->name],
                                    .set = g->set->name,
                                    .metric = g->metric[m],
                                    .launches = k->launches,
                                    .value = k->mean[m] };
            memcpy(c.grid, k->grid, sizeof c.grid);
            memcpy(c.block, k->block, sizeof c.block);
            if (isfinite(c.value)) in.put(in.ctx, &c);
        }
    }
}

/* Ends the session; what it has is written. */
static mba_status end_group(void)
{
    const mba_counter_group *g = &in.groups[in.at];
    int64_t      ranges = 0;
    bool         all;
    mba_status   st = mba_counters_stop(in.session, &all);
    if (st == MBA_OK) st = mba_counters_decode(in.session, &ranges);
    if (st == MBA_OK && ranges != in.n)
        st = mba_fail(MBA_E_DEVICE,
                      "CUPTI has counters of %lld kernels\nwhy: %lld launches were seen: the process launches in a way "
                      "we do not follow",
                      (long long)ranges, (long long)in.n);
    for (int64_t i = 0; i < in.n && st == MBA_OK; i++) st = take(i, g);
    if (st == MBA_OK) put_all(g);
    mba_counters_close(in.session);
    in.session = NULL;
    const mba_trace_cost c = { .set = g->set->name, .passes = 1, .launches = in.n, .seconds = now_s() - in.began_s };
    in.cost(in.ctx, &c);
    free(in.kernels);
    in.kernels = NULL;
    in.nkernels = 0;
    in.at++;
    return st;
}

static mba_status begin_group(void)
{
    const mba_counter_group *g = &in.groups[in.at];
    in.n = 0;
    in.began_s = now_s();
    MBA_TRY(mba_counters_open(&in.session, g->metric, g->n, in.room));
    return mba_counters_start(in.session);
}

static mba_status remember(const mba_launch_seen *l)
{
    const int64_t name = mba_events_name(&in.names, l->name);
    int64_t       k = in.nkernels - 1;
    while (k >= 0 && !(in.kernels[k].name == name && !memcmp(in.kernels[k].grid, l->grid, sizeof l->grid) &&
                       !memcmp(in.kernels[k].block, l->block, sizeof l->block))) k--;
    if (k < 0) {
        kernel *more = name < 0 ? NULL : realloc(in.kernels, (size_t)(in.nkernels + 1) * sizeof *more);
        if (!more) return mba_fail(MBA_E_NOMEM, "no memory for kernels");
        in.kernels = more;
        k = in.nkernels++;
        in.kernels[k] = (kernel){ .name = name };
        memcpy(in.kernels[k].grid, l->grid, sizeof l->grid);
        memcpy(in.kernels[k].block, l->block, sizeof l->block);
    }
    in.of[in.n++] = k;
    return MBA_OK;
}

static mba_status count(const mba_launch_seen *l)
{
    if (in.done) return MBA_OK;
    if (!in.planned) MBA_TRY(plan());
    if (in.session && in.n == in.room) MBA_TRY(end_group());
    if (in.at == in.ngroups) {
        in.done = true;
        return MBA_OK;
    }
    if (!in.session) MBA_TRY(begin_group());
    return remember(l);
}

/* Launches that CUPTI makes while it prepares itself come back to us: they are not the process's. */
mba_status mba_inject_count(const mba_launch_seen *l)
{
    static _Thread_local bool inside;
    if (inside) return MBA_OK;
    pthread_mutex_lock(&in.lock);
    inside = true;
    const mba_status st = count(l);
    if (st != MBA_OK) in.done = true;
    inside = false;
    pthread_mutex_unlock(&in.lock);
    return st;
}

void mba_inject_count_end(void)
{
    pthread_mutex_lock(&in.lock);
    if (in.session && !in.done && end_group() != MBA_OK) in.done = true;
    pthread_mutex_unlock(&in.lock);
}
