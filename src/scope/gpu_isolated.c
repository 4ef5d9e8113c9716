// SPDX-License-Identifier: Apache-2.0
/* gpu_isolated.c -- measures the cold-L2 bytes of our kernels: DRAM bytes of each launch between two flushes of L2,
 * which can be compared with a plan.
 *
 * Within a step, a kernel finds part of its inputs in L2, and up to half an L2 of its outputs reaches DRAM only while
 * later kernels run. Here every launch starts with an L2 full of unrelated clean lines, and a flush follows it: what
 * that flush writes back, the launch has written. All DRAM reads are its own, for the same reason.
 *
 * For every plan the first node is measured, if one of its launches moves more than twice the size of L2. The step runs
 * twice, node by node: once to list the launches, flushes included, and once with counters, whose ranges have that
 * order. */
#include <stdlib.h>
#include <string.h>

#include "core/lookup.h"
#include "core/plan_work.h"
#include "device/cuda/cuda.h"
#include "device/cuda/launch_hook.h"
#include "scope/cupti_collect.h"
#include "scope/gpu_profile.h"
#include "scope/launch_trace.h"

static const int         SWEEPS_OF_L2 = 6; // a flush reads this many times the size of L2: all dirty lines go
static const char *const metric[] = { "dram__bytes_read.sum", "dram__bytes_write.sum" };
enum { READ, WRITTEN, METRICS };

/* A launch of a measured node, in order; sweep: it is a flush. */
typedef struct item {
    int32_t node, place, grid[3];
    bool    sweep;
} item;

typedef struct isolating {
    mba_gpu_profile *g;
    mba_program     *p;
    void            *zeros;
    size_t           bytes;
    const mba_plan **seen;
    int32_t          nseen, node; /* node: being measured; -1: none */
    item            *item;
    int64_t          n, room, at, ranges, skipped; /* at: next item of the second run */
    mba_counters    *session;                      /* NULL: the first run */
    mba_status       st;
} isolating;

static double bytes_of(const mba_launch *l)
{
    return mba_launch_work(l, MBA_LOAD) + mba_launch_work(l, MBA_ASYNC) + mba_launch_work(l, MBA_STORE);
}

static bool is_wanted(isolating *x, const mba_plan *plan)
{
    double most = 0;
    for (int32_t i = 0; i < x->nseen; i++)
        if (x->seen[i] == plan) return false;
    x->seen[x->nseen++] = plan;
    for (int k = 0; k < plan->nlaunches; k++)
        if (bytes_of(&plan->launch[k]) > most) most = bytes_of(&plan->launch[k]);
    return most > 2 * (double)x->p->options.machine->l2_bytes;
}

static void sweep(void *ctx)
{
    isolating *x = ctx;
    if (x->node >= 0) mba__cuda_flush_l2(x->zeros, x->bytes, x->p->device->stream);
}

/* ---- first run: list the launches ---- */

static void on_launch(void *ctx, const mba_launch_seen *l)
{
    isolating *x = ctx;
    if (x->node < 0 || l->is_graph || mba_launch_trace_node() != x->node) return; // the flush before it has no node
    item *more = mba_grow(x->item, x->n, &x->room, sizeof *more);
    if (!more) {
        x->st = mba_fail(MBA_E_NOMEM, "no memory for the launches of a step");
        return;
    }
    x->item = more;
    item i = { .node = x->node, .sweep = strstr(l->name, "sweep_caches") != NULL };
    for (int64_t k = x->n - 1; k >= 0 && x->item[k].node == x->node; k--) i.place += !x->item[k].sweep;
    memcpy(i.grid, l->grid, sizeof i.grid);
    x->item[x->n++] = i;
}

/* ---- second run: with counters ---- */

static mba_status keep(isolating *x, int64_t first, int64_t n)
{
    double v[METRICS];
    mba_assert(first >= 0 && first + n <= x->n);
    for (int64_t k = 0; k < n; k++) {
        const item *i = &x->item[first + k];
        MBA_TRY(mba_counters_values(x->session, x->ranges + k, v));
        mba_gpu_isolated *last = x->g->nsettled ? &x->g->settled[x->g->nsettled - 1] : NULL;
        if (i->sweep) {
            if (k > 0 && last) last->written += v[WRITTEN];
            continue;
        }
        mba_gpu_isolated *more = realloc(x->g->settled, (size_t)(x->g->nsettled + 1) * sizeof *more);
        if (!more) return mba_fail(MBA_E_NOMEM, "no memory for cold-L2 bytes");
        x->g->settled = more;
        if (k + 1 == n || !i[1].sweep) continue; // of a library, without a flush: its writes are still in L2
        more[x->g->nsettled++] = (mba_gpu_isolated){ .node = i->node,
                                                     .launch = i->place,
                                                     .read = v[READ],
                                                     .written = v[WRITTEN],
                                                     .grid = { i->grid[0], i->grid[1], i->grid[2] } };
    }
    return MBA_OK;
}

static void before(void *ctx, const mba_node *n, const mba_plan *plan)
{
    isolating *x = ctx;
    if (x->st != MBA_OK || !is_wanted(x, plan)) return;
    x->node = n->id;
    sweep(x);
    x->st = x->p->device->wait();
    if (x->session && x->st == MBA_OK) x->st = mba_counters_start(x->session);
}

static void after(void *ctx, const mba_node *n, const mba_plan *plan)
{
    isolating *x = ctx;
    int64_t    first = x->at, ranges = x->ranges;
    bool       all = true;
    (void)plan;
    if (x->node < 0) return;
    x->node = -1;
    if (!x->session || x->st != MBA_OK) return;
    x->st = mba_counters_stop(x->session, &all);
    if (x->st == MBA_OK) x->st = mba_counters_decode(x->session, &ranges);
    while (x->at < x->n && x->item[x->at].node == n->id) x->at++;
    if (x->st == MBA_OK && ranges - x->ranges == x->at - first) x->st = keep(x, first, x->at - first);
    else x->skipped++;
    x->ranges = ranges;
}

/* ---- both ---- */

static mba_status run(isolating *x, const mba_step *step)
{
    const mba_hooks h = { before, after, x };
    x->nseen = 0;
    x->node = -1;
    mba_cuda_on_launch(sweep, x);
    const mba_status st = mba_program_run(x->p, MBA_STEP, step, &h);
    mba_cuda_on_launch(NULL, NULL);
    MBA_TRY(x->p->device->wait());
    return st == MBA_OK ? x->st : st;
}

static mba_status isolate(isolating *x, const mba_step *step)
{
    MBA_TRY(mba_launches_begin(on_launch, NULL, NULL, x));
    const mba_status looked = run(x, step);
    mba_launches_end();
    MBA_TRY(looked);
    if (!x->n) return MBA_OK; // no launch moves that much
    MBA_TRY(mba_counters_open(&x->session, metric, METRICS, x->n + 64));
    const mba_status st = run(x, step);
    mba_counters_close(x->session);
    MBA_TRY(st);
    if (x->skipped)
        return mba_fail(MBA_E_DEVICE, "CUPTI and the driver disagree about the kernels of %lld nodes",
                        (long long)x->skipped);
    return MBA_OK;
}

mba_status mba_gpu_measure_isolated(mba_gpu_profile *g, mba_program *p, const mba_step *step)
{
    isolating x = { .g = g, .p = p, .bytes = (size_t)SWEEPS_OF_L2 * (size_t)p->options.machine->l2_bytes };
    x.seen = calloc((size_t)p->graph->nnodes + 1, sizeof *x.seen);
    mba_status st = x.seen ? p->device->alloc(&x.zeros, x.bytes) : mba_fail(MBA_E_NOMEM, "no memory for plans");
    if (st == MBA_OK) st = isolate(&x, step);
    if (x.zeros) p->device->dealloc(x.zeros);
    free(x.seen);
    free(x.item);
    return st;
}
