// SPDX-License-Identifier: Apache-2.0
/* gpu_isolated.c -- the DRAM bytes of our kernels, each between two sweeps of L2: what a plan can be held to.
 *
 * In a step a kernel finds part of what it reads in L2, and of what it writes up to half an L2 leaves for DRAM only
 * while the next ones run. Here every launch begins with an L2 full of clean lines of nobody's, and a sweep follows it:
 * what that sweep drives out, it has written. Reads are its own, for the same reason.
 *
 * Of every plan the first node is looked at, if one of its launches moves more than twice the L2. The step runs twice,
 * node by node: once to see what is launched, sweeps among it, once with counters, whose ranges come in that order. */
#include <stdlib.h>
#include <string.h>

#include "core/lookup.h"
#include "core/plan_work.h"
#include "device/cuda/cuda.h"
#include "device/cuda/launch_hook.h"
#include "scope/cupti_collect.h"
#include "scope/gpu_profile.h"
#include "scope/launch_trace.h"

static const int         SWEEPS_OF_L2 = 6; // a sweep reads so many L2s: what is dirty goes
static const char *const metric[] = { "dram__bytes_read.sum", "dram__bytes_write.sum" };
enum { READ, WRITTEN, METRICS };

/* What was launched for the nodes that are looked at, in order. */
typedef struct item {
    int32_t node, place, grid[3];
    bool    sweep;
} item;

typedef struct settling {
    mba_gpu_profile *g;
    mba_program     *p;
    void            *zeros;
    size_t           bytes;
    const mba_plan **seen;
    int32_t          nseen, node; /* node: looked at now; -1: none */
    item            *item;
    int64_t          n, room, at, ranges, skipped; /* at: of the items, where the second run has come to */
    mba_counters    *session;                      /* NULL: the first run */
    mba_status       st;
} settling;

static double bytes_of(const mba_launch *l)
{
    return mba_launch_work(l, MBA_LOAD) + mba_launch_work(l, MBA_ASYNC) + mba_launch_work(l, MBA_STORE);
}

static bool is_wanted(settling *x, const mba_plan *plan)
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
    settling *x = ctx;
    if (x->node >= 0) mba__cuda_flush_l2(x->zeros, x->bytes, x->p->device->stream);
}

/* ---- first run: what is launched ---- */

static void saw_launch(void *ctx, const mba_launch_seen *l)
{
    settling *x = ctx;
    if (x->node < 0 || l->is_graph || mba_launch_trace_node() != x->node) return; // the sweep before it is of no node
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

static mba_status keep(settling *x, int64_t first, int64_t n)
{
    double v[METRICS];
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
        if (k + 1 == n || !i[1].sweep) continue; // a library's: its writes are still in L2
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
    settling *x = ctx;
    if (x->st != MBA_OK || !is_wanted(x, plan)) return;
    x->node = n->id;
    sweep(x);
    x->st = x->p->device->wait();
    if (x->session && x->st == MBA_OK) x->st = mba_counters_start(x->session);
}

static void after(void *ctx, const mba_node *n, const mba_plan *plan)
{
    settling *x = ctx;
    int64_t   first = x->at, ranges = x->ranges;
    bool      all = true;
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

static mba_status run(settling *x, const mba_step *step)
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

static mba_status settle(settling *x, const mba_step *step)
{
    MBA_TRY(mba_launches_begin(saw_launch, NULL, NULL, x));
    const mba_status looked = run(x, step);
    mba_launches_end();
    MBA_TRY(looked);
    if (!x->n) return MBA_OK; // nothing moves that much
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
    settling x = { .g = g, .p = p, .bytes = (size_t)SWEEPS_OF_L2 * (size_t)p->options.machine->l2_bytes };
    x.seen = calloc((size_t)p->graph->nnodes + 1, sizeof *x.seen);
    mba_status st = x.seen ? p->device->alloc(&x.zeros, x.bytes) : mba_fail(MBA_E_NOMEM, "no memory for plans");
    if (st == MBA_OK) st = settle(&x, step);
    if (x.zeros) p->device->dealloc(x.zeros);
    free(x.seen);
    free(x.item);
    return st;
}
