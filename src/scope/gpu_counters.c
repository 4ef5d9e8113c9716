// SPDX-License-Identifier: Apache-2.0
/* gpu_counters.c -- hardware counters of a step: every distinct kernel once, in its place within the step.
 *
 * The whole step is launched node by node, once per group of metrics that one pass can read. CUPTI reads only the
 * ranges of nodes in which a distinct kernel runs (node_ranges.h), so caches are as the step leaves them and no
 * kernel is replayed. For a metric that takes several passes, everything from the first to the last of these ranges
 * is read. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/lookup.h"
#include "scope/clock.h"
#include "scope/cupti_collect.h"
#include "scope/gpu_profile.h"
#include "scope/node_ranges.h"
#include "scope/launch_trace.h"

enum { GROUPS_MAX = 32, PASSES_MAX = 64 };

/* Kernels of one step in launch order, which is the order of the profiler's ranges. Two sources list them: the driver's
 * calls and the timeline. The number of ranges decides which of the two CUPTI follows. */
typedef struct launched {
    const char *name;
    int32_t     node, place, grid[3], block[3];
} launched;
typedef struct launches {
    mba_gpu_profile *g;
    launched        *l;
    int64_t          n, room;
    mba_status       st;
} launches;
enum { BY_CALLS, BY_TIMELINE, SOURCES };

/* The state of one measurement: what is read, and the progress of a run. */
typedef struct counting {
    mba_gpu_profile      *g;
    mba_program          *p;
    const mba_step       *step;
    launches              seen[SOURCES];
    mba_node_range       *range, whole; /* whole: from the first of them to the last */
    int                   n;
    mba_counters         *session;
    const mba_node_range *now; /* ranges of this run; `at`: the next of them */
    int                   nnow, at;
    bool                  all; /* no pass is left */
    int64_t               ranges;
    mba_status            st;
} counting;

/* ---- launches of a step ---- */

static void add_launch(launches *x, launched l)
{
    const int64_t name = mba_events_name(&x->g->names, l.name);
    launched     *more = mba_grow(x->l, x->n, &x->room, sizeof *more);
    if (more) x->l = more;
    if (name < 0 || !more) {
        x->st = mba_fail(MBA_E_NOMEM, "no memory for the launches of a step");
        return;
    }
    l.name = x->g->names.names[name];
    x->l[x->n++] = l;
}

static void on_launch(void *ctx, const mba_launch_seen *s)
{
    launches       *x = ctx;
    const int32_t   node = mba_launch_trace_node();
    const launched *last = x->n ? &x->l[x->n - 1] : NULL;
    launched        l = { .name = s->name, .node = node, .place = last && last->node == node ? last->place + 1 : 0 };
    if (s->is_graph || x->st != MBA_OK) return;
    memcpy(l.grid, s->grid, sizeof l.grid);
    memcpy(l.block, s->block, sizeof l.block);
    add_launch(x, l);
}

static void from_timeline(launches *x)
{
    for (int64_t i = 0; i < x->g->events.n; i++) {
        const mba_event *e = &x->g->events.event[i];
        launched         l = { .name = e->name, .node = e->node, .place = e->launch };
        if (e->kind != MBA_EVENT_KERNEL || !e->graph || e->step != 0 || x->st != MBA_OK) continue;
        memcpy(l.grid, e->grid, sizeof l.grid);
        memcpy(l.block, e->block, sizeof l.block);
        add_launch(x, l);
    }
}

static int64_t kernel_of(mba_gpu_profile *g, const mba_program *p, const launched *l)
{
    for (int64_t i = g->nkernels - 1; i >= 0; i--) {
        const mba_gpu_kernel *k = &g->kernel[i];
        const bool same_plan = l->node < 0 || k->node < 0 ? l->node == k->node : p->plan[l->node] == p->plan[k->node];
        if (same_plan && k->launch == l->place && k->name == l->name && !memcmp(k->grid, l->grid, sizeof k->grid))
            return i;
    }
    mba_gpu_kernel *more = realloc(g->kernel, (size_t)(g->nkernels + 1) * sizeof *more);
    if (!more) return -1;
    g->kernel = more;
    mba_gpu_kernel *k = &g->kernel[g->nkernels];
    *k = (mba_gpu_kernel){ .name = l->name, .node = l->node, .launch = l->place, .data_flops = NAN };
    memcpy(k->grid, l->grid, sizeof k->grid);
    memcpy(k->block, l->block, sizeof k->block);
    for (int s = 0; s < MBA_GPU_SETS_MAX; s++)
        for (int m = 0; m < MBA_METRICS_MAX; m++) k->value[s][m] = NAN;
    return g->nkernels++;
}

/* ---- ranges that are read ---- */

static mba_status choose_nodes(counting *x, bool *wanted, int64_t *kernel, int32_t *node)
{
    const launches *l = &x->seen[BY_CALLS];
    for (int64_t i = 0; i < l->n; i++) {
        kernel[i] = kernel_of(x->g, x->p, &l->l[i]);
        node[i] = l->l[i].node;
        if (kernel[i] < 0) return mba_fail(MBA_E_NOMEM, "no memory for kernels");
    }
    mba_wanted_nodes(wanted, kernel, node, l->n);
    MBA_TRY(mba_node_ranges_of(&x->range, &x->n, wanted, x->p->graph->nnodes));
    if (!x->n) return mba_fail(MBA_E_DEVICE, "no launch of this step was recorded\nfix: this is a bug of mambascope");
    x->whole = (mba_node_range){ x->range[0].first, x->range[x->n - 1].last };
    mba_assert(x->whole.first <= x->whole.last);
    return MBA_OK;
}

static mba_status choose_ranges(counting *x)
{
    const size_t     n = (size_t)x->seen[BY_CALLS].n + 1;
    bool            *wanted = calloc((size_t)x->p->graph->nnodes + 1, sizeof *wanted);
    int64_t         *kernel = calloc(n, sizeof *kernel);
    int32_t         *node = calloc(n, sizeof *node);
    const mba_status st = wanted && kernel && node ? choose_nodes(x, wanted, kernel, node)
                                                   : mba_fail(MBA_E_NOMEM, "no memory for %zu launches", n);
    free(wanted);
    free(kernel);
    free(node);
    return st;
}

static int64_t launches_in(const counting *x, const launches *l)
{
    int64_t n = 0;
    for (int64_t i = 0; i < l->n; i++) n += mba_in_node_range(x->now, x->nnow, l->l[i].node);
    return n;
}

/* ---- one run of the step ---- */

static void before(void *ctx, const mba_node *n, const mba_plan *plan)
{
    counting *x = ctx;
    (void)plan;
    if (x->st == MBA_OK && x->at < x->nnow && n->id == x->now[x->at].first) x->st = mba_counters_start(x->session);
}

static void after(void *ctx, const mba_node *n, const mba_plan *plan)
{
    counting *x = ctx;
    (void)plan;
    if (x->st != MBA_OK || x->at == x->nnow || n->id != x->now[x->at].last) return;
    x->st = mba_counters_stop(x->session, &x->all);
    x->at++;
    if (x->st == MBA_OK && x->all) x->st = mba_counters_decode(x->session, &x->ranges);
}

static mba_status run_step(counting *x, double *took_s)
{
    const mba_hooks h = { before, after, x };
    const double    began = mba_clock_s();
    x->at = 0;
    MBA_TRY(mba_program_run(x->p, MBA_STEP, x->step, &h));
    MBA_TRY(x->p->device->wait());
    *took_s = mba_clock_s() - began;
    return x->st;
}

/* ---- one group ---- */

static bool counts_products(const mba_counter_group *group)
{
    for (int m = 0; m < group->n; m++)
        if (strstr(group->metric[m], "ops_path_tensor")) return true;
    return false;
}

static void add_to_mean(double *mean, double v, double n) { *mean = n > 1 ? *mean + (v - *mean) / n : v; }

/* Means over the measured launches of each kernel. */
static mba_status take_values(counting *x, const launches *l, const mba_counter_group *group, int set)
{
    double  v[MBA_METRICS_MAX];
    int64_t range = 0;
    mba_assert(set >= 0 && set < MBA_GPU_SETS_MAX && group->n <= MBA_METRICS_MAX);
    for (int64_t i = 0; i < x->g->nkernels; i++) x->g->kernel[i].launches = 0;
    for (int64_t i = 0; i < l->n; i++) {
        if (!mba_in_node_range(x->now, x->nnow, l->l[i].node)) continue;
        const int64_t at = kernel_of(x->g, x->p, &l->l[i]);
        if (at < 0) return mba_fail(MBA_E_NOMEM, "no memory for kernels");
        MBA_TRY(mba_counters_values(x->session, range++, v));
        mba_gpu_kernel *k = &x->g->kernel[at];
        const double    n = (double)++k->launches;
        for (int m = 0; m < group->n; m++) add_to_mean(&k->value[set][group->place[m]], v[m], n);
        if (counts_products(group))
            add_to_mean(&k->data_flops, mba_gpu_data_flops(x->g, l->l[i].node, l->l[i].place), n);
    }
    mba_assert(range == x->ranges); // every range of CUPTI belongs to one launch
    return MBA_OK;
}

static mba_status read_group(counting *x, const mba_counter_group *group, int set)
{
    x->all = false;
    x->ranges = 0;
    x->st = MBA_OK;
    for (int pass = 0; !x->all; pass++) {
        if (pass > PASSES_MAX)
            return mba_fail(MBA_E_DEVICE,
                            "CUPTI needs more than %d passes\nwhy: it asks for %d\nfix: leave this set out", PASSES_MAX,
                            mba_counters_passes(x->session));
        MBA_TRY(run_step(x, &x->g->pass_s[set]));
    }
    const launches *l = NULL;
    for (int k = SOURCES - 1; k >= 0; k--)
        if (x->ranges == launches_in(x, &x->seen[k])) l = &x->seen[k];
    if (!l)
        return mba_fail(
            MBA_E_DEVICE,
            "CUPTI has counters of %lld kernels\nwhy: the driver launched %lld, the timeline shows %lld\nfix: "
            "this is a bug of mambascope; the timeline is not affected",
            (long long)x->ranges, (long long)launches_in(x, &x->seen[BY_CALLS]),
            (long long)launches_in(x, &x->seen[BY_TIMELINE]));
    return take_values(x, l, group, set);
}

static mba_status try_group(counting *x, const mba_counter_group *group, int set, const mba_node_range *s, int n)
{
    x->now = s;
    x->nnow = n;
    const int64_t called = launches_in(x, &x->seen[BY_CALLS]), timed = launches_in(x, &x->seen[BY_TIMELINE]);
    MBA_TRY(mba_counters_open(&x->session, group->metric, group->n, (called > timed ? called : timed) + 16));
    const mba_status st = read_group(x, group, set);
    mba_counters_close(x->session);
    x->session = NULL;
    return st;
}

/* Reads by ranges if one pass is enough; else, or if CUPTI fails, everything between the first and the last range. */
static mba_status measure_group(counting *x, const mba_counter_group *group, int set)
{
    if (group->passes == 1 && try_group(x, group, set, x->range, x->n) == MBA_OK) return MBA_OK;
    if (group->passes == 1) mba_gpu_note_failure(x->g, "counters by stretches");
    return try_group(x, group, set, &x->whole, 1);
}

/* ---- all of it ---- */

static void put_cost(const counting *x, const mba_metric_set *m, int passes, double began_s)
{
    mba_gpu_profile *g = x->g;
    mba_assert(g->ncosts < (int)(sizeof g->cost / sizeof *g->cost));
    g->cost[g->ncosts++] = (mba_gpu_cost){ .mode = "counters",
                                           .set = m->name,
                                           .passes = passes,
                                           .seconds = mba_clock_s() - began_s,
                                           .launches = x->ranges,
                                           .kernels = g->nkernels };
}

static mba_status measure_set(counting *x, const mba_metric_set *m)
{
    mba_counter_group group[GROUPS_MAX];
    const double      began = mba_clock_s();
    int               n = 0, passes = 0;
    MBA_TRY(mba_counters_group(group, &n, GROUPS_MAX, NULL, m));
    mba_assert(x->g->nsets < MBA_GPU_SETS_MAX);
    const int  set = x->g->nsets++;
    mba_status st = MBA_OK;
    x->g->set[set] = m;
    for (int i = 0; i < n && st == MBA_OK; i++) {
        st = measure_group(x, &group[i], set);
        passes += group[i].passes;
    }
    put_cost(x, m, passes, began);
    return st;
}

/* Runs the step once to list its launches, and chooses the ranges. */
static mba_status list_launches(counting *x)
{
    static const mba_hooks none = { NULL, NULL, NULL }; // a run with hooks is not captured
    MBA_TRY(mba_launches_begin(on_launch, NULL, NULL, &x->seen[BY_CALLS]));
    mba_status st = mba_program_run(x->p, MBA_STEP, x->step, &none);
    if (st == MBA_OK) st = x->p->device->wait();
    mba_launches_end();
    from_timeline(&x->seen[BY_TIMELINE]);
    for (int k = 0; k < SOURCES && st == MBA_OK; k++) st = x->seen[k].st;
    return st == MBA_OK ? choose_ranges(x) : st;
}

mba_status mba_gpu_counters(mba_gpu_profile *g, mba_program *p, const mba_step *step, const mba_gpu_options *o)
{
    counting   x = { .g = g, .p = p, .step = step, .seen = { { .g = g }, { .g = g } } };
    mba_status st = list_launches(&x);
    for (int i = 0; i < o->nsets && st == MBA_OK; i++)
        if (measure_set(&x, o->set[i]) != MBA_OK) mba_gpu_note_failure(g, "counters"); // the next set may succeed
    free(x.range);
    for (int k = 0; k < SOURCES; k++) free(x.seen[k].l);
    return st;
}
