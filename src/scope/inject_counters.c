// SPDX-License-Identifier: Apache-2.0
/* inject_counters.c -- see inject_counters.h: the groups of metrics, one profiler session per group, and the choice of
 * launches that are read. */
#include "scope/inject_counters.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "scope/clock.h"

/* TAKEN: launches that are read per distinct kernel and group. GAP: other launches in a row that are read along,
 * because stopping and starting the profiler costs more. */
enum { GROUPS_MAX = 64, RANGES_MAX = 512, TAKEN = 2, GAP = 8 };

/* A distinct kernel of the group that is being read. */
typedef struct kernel {
    int64_t     name;
    int32_t     grid[3], block[3], smem_dynamic;
    const void *function; // distinguishes different code of the same name
    int64_t     taken, launches;
    double      mean[MBA_METRICS_MAX];
} kernel;

static struct {
    char                sets[256];
    int64_t             room, seen, n; // launches per group; seen so far; ranges read
    int64_t             idle;          // launches in a row that need not be read
    mba_put_counter_fn *put;
    mba_put_cost_fn    *cost;
    void               *ctx;
    mba_counter_group   groups[GROUPS_MAX];
    int                 ngroups, at;
    bool                planned, running;
    _Atomic bool        done;
    mba_counters       *session;
    double              began_s;
    mba_events          names;
    kernel             *kernels;
    int64_t             nkernels, of[RANGES_MAX]; // of: the kernel of each range
    pthread_mutex_t     lock;
} in = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* ---- groups ---- */

/* Drops metrics that need several passes: they would require replay. */
static void drop_replayed(void)
{
    int n = 0;
    for (int i = 0; i < in.ngroups; i++)
        if (in.groups[i].passes == 1) in.groups[n++] = in.groups[i];
    in.ngroups = n;
}

static mba_status plan(void)
{
    char text[256];
    snprintf(text, sizeof text, "%s", in.sets);
    for (char *save = NULL, *name = strtok_r(text, ",", &save); name; name = strtok_r(NULL, ",", &save)) {
        const mba_metric_set *s = mba_metric_set_find(name);
        if (!s) return mba_fail(MBA_E_ARG, "there is no counter set '%s'", name);
        MBA_TRY(mba_counters_group(in.groups, &in.ngroups, GROUPS_MAX, NULL, s));
    }
    drop_replayed();
    in.planned = true;
    return MBA_OK;
}

void mba_inject_count_begin(const char *sets, int64_t launches, mba_put_counter_fn *put, mba_put_cost_fn *cost,
                            void *ctx)
{
    snprintf(in.sets, sizeof in.sets, "%s", sets);
    in.room = launches;
    in.put = put;
    in.cost = cost;
    in.ctx = ctx;
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

/* True if a SASS counter is not reliable: where CUPTI cannot patch the code, it reads 0 without an error, and then all
 * SASS counters of all kernels are 0. */
static bool is_blind(const mba_counter_group *g, int m)
{
    if (!strstr(g->metric[m], "__sass_")) return false;
    for (int64_t i = 0; i < in.nkernels; i++)
        for (int s = 0; s < g->n && in.kernels[i].launches; s++)
            if (strstr(g->metric[s], "__sass_") && in.kernels[i].mean[s] > 0) return false;
    return true;
}

static void put_all(const mba_counter_group *g)
{
    for (int64_t i = 0; i < in.nkernels; i++) {
        const kernel *k = &in.kernels[i];
        for (int m = 0; m < g->n && k->launches; m++) {
            if (is_blind(g, m)) continue;
            mba_trace_counter c = { .name = in.names.names[k->name],
                                    .set = g->set->name,
                                    .metric = g->metric[m],
                                    .smem_dynamic = k->smem_dynamic,
                                    .launches = k->launches,
                                    .value = k->mean[m] };
            memcpy(c.grid, k->grid, sizeof c.grid);
            memcpy(c.block, k->block, sizeof c.block);
            if (isfinite(c.value)) in.put(in.ctx, &c);
        }
    }
}

static mba_status stop(void)
{
    int64_t ranges = 0;
    bool    all;
    in.running = false;
    MBA_TRY(mba_counters_stop(in.session, &all));
    MBA_TRY(mba_counters_decode(in.session, &ranges));
    return ranges == in.n
               ? MBA_OK
               : mba_fail(MBA_E_DEVICE,
                          "CUPTI has counters of %lld kernels\nwhy: %lld launches were recorded: the process "
                          "launches in a way that we do not trace",
                          (long long)ranges, (long long)in.n);
}

static mba_status start(void)
{
    in.running = true;
    return mba_counters_start(in.session);
}

/* Ends the session of a group and writes its counters. */
static mba_status end_group(void)
{
    mba_assert(in.at < in.ngroups);
    const mba_counter_group *g = &in.groups[in.at];
    mba_status               st = in.running ? stop() : MBA_OK;
    for (int64_t i = 0; i < in.n && st == MBA_OK; i++) st = take(i, g);
    if (st == MBA_OK) put_all(g);
    mba_counters_close(in.session);
    in.session = NULL;
    const mba_trace_cost c = {
        .set = g->set->name, .passes = 1, .launches = in.n, .seconds = mba_clock_s() - in.began_s
    };
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
    in.n = in.seen = in.idle = 0;
    in.began_s = mba_clock_s();
    return mba_counters_open(&in.session, g->metric, g->n, RANGES_MAX);
}

static mba_status kernel_of(int64_t *out, const mba_launch_seen *l)
{
    const int64_t name = mba_events_name(&in.names, l->name);
    int64_t       k = in.nkernels - 1;
    while (k >= 0
           && !(in.kernels[k].name == name && in.kernels[k].function == l->function
                && in.kernels[k].smem_dynamic == l->smem_dynamic && !memcmp(in.kernels[k].grid, l->grid, sizeof l->grid)
                && !memcmp(in.kernels[k].block, l->block, sizeof l->block)))
        k--;
    if (k < 0) {
        kernel *more = name < 0 ? NULL : realloc(in.kernels, (size_t)(in.nkernels + 1) * sizeof *more);
        if (!more) return mba_fail(MBA_E_NOMEM, "no memory for kernels");
        in.kernels = more;
        k = in.nkernels++;
        in.kernels[k] = (kernel){ .name = name, .function = l->function, .smem_dynamic = l->smem_dynamic };
        memcpy(in.kernels[k].grid, l->grid, sizeof l->grid);
        memcpy(in.kernels[k].block, l->block, sizeof l->block);
    }
    *out = k;
    return MBA_OK;
}

/* Called before a launch: starts the profiler if the launch is to be read, stops it after GAP launches that are not. */
static mba_status before_launch(const mba_launch_seen *l)
{
    int64_t k = 0;
    MBA_TRY(kernel_of(&k, l));
    const bool wanted = in.kernels[k].taken < TAKEN && in.n < RANGES_MAX;
    in.seen++;
    in.idle = wanted ? 0 : in.idle + 1;
    if (in.running && (in.idle > GAP || in.n == RANGES_MAX)) MBA_TRY(stop());
    if (!in.running && wanted) MBA_TRY(start());
    if (!in.running) return MBA_OK;
    mba_assert(in.n < RANGES_MAX && k < in.nkernels);
    in.kernels[k].taken++;
    in.of[in.n++] = k;
    return MBA_OK;
}

static mba_status count(const mba_launch_seen *l)
{
    if (in.done) return MBA_OK;
    if (!in.planned) MBA_TRY(plan());
    if (in.session && in.seen == in.room) MBA_TRY(end_group());
    if (in.at == in.ngroups) {
        in.done = true;
        return MBA_OK;
    }
    if (!in.session) MBA_TRY(begin_group());
    return before_launch(l);
}

/* Ignores launches that CUPTI itself makes during these calls. */
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

bool mba_inject_count_done(void) { return in.done; }

void mba_inject_count_end(void)
{
    pthread_mutex_lock(&in.lock);
    if (in.session && !in.done && end_group() != MBA_OK) in.done = true;
    pthread_mutex_unlock(&in.lock);
}
