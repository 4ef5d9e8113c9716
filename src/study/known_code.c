// SPDX-License-Identifier: Apache-2.0
/* known_code.c -- see known_code.h. */
#include "study/known_code.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "study/validation.h"

/* What the plan of a launch says, as far as counts are scaled by it. */
typedef struct extent {
    double pipe[MBA_PIPES], moved[2], missed[2]; /* bytes read and written; those that reach DRAM */
    double grid, warps, smem_bytes;
} extent;

typedef struct row {
    const mba_profiled_kernel *counted;
    extent                     plan;
    bool                       planned; /* false: no launch of today's plans is the counted one */
} row;

/* A launch and what became of it: the layers of a model are alike. */
typedef struct done {
    mba_sim_kernel before, after;
} done;
enum { DONE_MOST = 256 };

struct mba_known_code {
    mba_profiled_set *set;
    mba_gpu           home; /* where the launches were counted */
    mba_gpu           gpu;
    row              *row;   /* of set->one */
    bool             *asked; /* per row: its workload was planned */
    char              except[sizeof(((mba_profiled_kernel *)0)->workload)];
    const char       *planning; /* workload, while it is planned */
    done             *done;
    int               ndone;
};

static extent extent_of(const mba_sim_kernel *k)
{
    extent e = { .grid = (double)k->grid, .warps = (double)k->warps, .smem_bytes = (double)k->smem_bytes };
    for (int p = 0; p < MBA_PIPES; p++) e.pipe[p] = k->total[p];
    for (int64_t s = 0; s < k->nstreams; s++) {
        const int w = k->stream[s].writes != 0;
        e.moved[w] += k->stream[s].moved;
        e.missed[w] += k->stream[s].moved * (double)(256 - k->stream[s].hit) / 256;
    }
    return e;
}

void mba_known_code_leave_out(mba_known_code *c, const char *workload)
{
    snprintf(c->except, sizeof c->except, "%s", workload ? workload : "");
    c->ndone = 0;
}

mba_status mba_known_code_load(mba_known_code **out)
{
    mba_known_code *c = calloc(1, sizeof *c);
    if (!c) return mba_fail(MBA_E_NOMEM, "no memory for the code of known kernels");
    mba_status st = mba_gpu_load(&c->home, "h200");
    c->gpu = c->home;
    if (st == MBA_OK) st = mba_profiled_load(&c->set, NULL);
    if (st == MBA_OK) {
        c->row = calloc((size_t)c->set->n, sizeof *c->row);
        c->asked = calloc((size_t)c->set->n, sizeof *c->asked);
        c->done = calloc(DONE_MOST, sizeof *c->done);
        if (!c->row || !c->asked || !c->done) st = mba_fail(MBA_E_NOMEM, "no memory for %d known kernels", c->set->n);
    }
    for (int i = 0; st == MBA_OK && i < c->set->n; i++) c->row[i].counted = &c->set->one[i];
    if (st == MBA_OK) *out = c;
    else mba_known_code_free(c);
    return st;
}

void mba_known_code_free(mba_known_code *c)
{
    if (!c) return;
    mba_profiled_destroy(c->set);
    free(c->row);
    free(c->asked);
    free(c->done);
    free(c);
}

void mba_known_code_on(mba_known_code *c, const mba_gpu *m)
{
    c->gpu = *m;
    c->ndone = 0;
}

/* ---- plans of the counted launches ---- */

static void take_extent(void *of, const mba_program *p, int32_t node, int launch, mba_sim_kernel *k)
{
    mba_known_code      *c = of;
    mba_profiled_kernel *found = mba_validation_row(c->set, c->planning, p, node, launch);
    if (!found) return;
    row *r = &c->row[found - c->set->one];
    if (r->planned || (double)k->threads != found->block) return;
    r->planned = true;
    r->plan = extent_of(k);
}

/* Plans a workload on the machine where it was counted. One that this tree cannot plan teaches nothing. */
static void plan_workload(mba_known_code *c, const char *workload)
{
    char          words[sizeof c->except];
    mba_workload  w = { .machine = "h200" };
    mba_simulated r = { 0 };
    mba_sim      *sim = NULL;
    mba_sim_step  step = { 0 };
    snprintf(words, sizeof words, "%s", workload);
    c->planning = workload;
    mba_status st = mba_workload_parse(&w, words);
    if (st == MBA_OK) st = mba_simulated_plan(&r, &w);
    if (st == MBA_OK) st = mba_sim_create(&sim);
    if (st == MBA_OK)
        st = mba_sim_program(&step, sim, r.session.program, &r.gpu,
                             &(mba_sim_how){
                                 .passes = MBA_STEP, .bounds = true, .before_launch = take_extent, .of = c });
    mba_sim_step_free(&step);
    mba_sim_destroy(sim);
    mba_simulated_end(&r);
    for (int i = 0; i < c->set->n; i++)
        if (!strcmp(c->set->one[i].workload, workload)) c->asked[i] = true;
    (void)st;
}

/* ---- the nearest launch ---- */

/* Plans the workload of row i if need be. */
static bool may_teach(mba_known_code *c, int i, const char *kernel, int64_t threads)
{
    const mba_profiled_kernel *r = c->row[i].counted;
    if (strcmp(r->kernel, kernel) || r->block != (double)threads || !r->program || isnan(r->n[MBA_N_PATH])
        || !mba_profiled_complete(r) || !strcmp(r->workload, c->except))
        return false;
    if (!c->asked[i]) plan_workload(c, r->workload);
    return c->row[i].planned;
}

static double work_of_warp(const extent *e) { return e->pipe[MBA_P_ISSUE] / e->grid / e->warps; }

/* For validation, a launch that was counted at the same shape in another workload teaches nothing either. */
static bool same_launch(const extent *a, const extent *b)
{
    return a->grid == b->grid && a->moved[0] == b->moved[0] && a->moved[1] == b->moved[1]
           && a->pipe[MBA_P_ISSUE] == b->pipe[MBA_P_ISSUE];
}

/* The launch whose warps do most nearly as much, then the one with most nearly as many blocks. */
static const row *nearest(mba_known_code *c, const mba_sim_kernel *k, const extent *here)
{
    static const double GRID = 0.1;
    const row          *best = NULL;
    double              least = INFINITY;
    for (int i = 0; i < c->set->n; i++) {
        const row *r = &c->row[i];
        if (!may_teach(c, i, k->name, k->threads) || (*c->except && same_launch(&r->plan, here))) continue;
        const double a = work_of_warp(&r->plan), b = work_of_warp(here), work = a > 0 && b > 0 ? fabs(log(a / b)) : 0,
                     far = work + GRID * fabs(log(here->grid / r->plan.grid));
        if (!(far < least)) continue;
        least = far;
        best = r;
    }
    return best;
}

/* ---- counts of a launch from those of another ---- */

static double ratio(double here, double there, double otherwise) { return there > 0 ? here / there : otherwise; }

/* Bytes that reach DRAM: what the L2 model finds here, corrected as it was found to be wrong there. */
static double dram_bytes(const row *r, const extent *here, bool writes)
{
    static const double SEEN = 0.05, LEAST = 0.5, MOST = 2;
    const double        counted = r->counted->n[writes ? MBA_N_DRAM_WR : MBA_N_DRAM_RD], there = r->plan.missed[writes];
    if (isnan(counted) || !(there > SEEN * r->plan.moved[writes])) return here->missed[writes];
    return here->missed[writes] * fmin(MOST, fmax(LEAST, counted / there));
}

/* Instructions of the busiest sub-partition: as many more than with equal blocks as there. */
static double busiest(const row *r, const mba_profiled_kernel *c, const mba_gpu *home, const mba_gpu *m)
{
    enum { PARTITIONS = 4 };
    const mba_profiled_kernel *k = r->counted;
    const double               warps = ceil(k->block / 32),
                 there = ceil(ceil(k->grid / home->v[MBA_GPU_sm]) * warps / PARTITIONS) / k->grid / warps,
                 here = ceil(ceil(c->grid / m->v[MBA_GPU_sm]) * warps / PARTITIONS) / c->grid / warps;
    return k->n[MBA_N_MOST] / (k->n[MBA_N_INST] * there) * c->n[MBA_N_INST] * here;
}

static double times_of(mba_profiled_metric metric, const extent *here, const extent *there)
{
    const double all = ratio(here->pipe[MBA_P_ISSUE], there->pipe[MBA_P_ISSUE], 1);
    switch (metric) {
    case MBA_N_ALU: return ratio(here->pipe[MBA_P_ALU], there->pipe[MBA_P_ALU], all);
    case MBA_N_FMA:
    case MBA_N_HEAVY: return ratio(here->pipe[MBA_P_FMA], there->pipe[MBA_P_FMA], all);
    case MBA_N_XU: return ratio(here->pipe[MBA_P_XU], there->pipe[MBA_P_XU], all);
    case MBA_N_TENSOR: return ratio(here->pipe[MBA_P_MMA], there->pipe[MBA_P_MMA], all);
    case MBA_N_SHARED_LD:
    case MBA_N_SHARED_ST:
    case MBA_N_LDSM:
    case MBA_N_SHARED_WF:
    case MBA_N_LSU_WF: return ratio(here->pipe[MBA_P_SMEM], there->pipe[MBA_P_SMEM], all);
    case MBA_N_GLOBAL_LD:
    case MBA_N_LDGSTS:
    case MBA_N_L2_RD:
    case MBA_N_L1_LD: return ratio(here->moved[0], there->moved[0], all);
    case MBA_N_GLOBAL_ST:
    case MBA_N_L2_WR:
    case MBA_N_L2_SUM: return ratio(here->moved[1], there->moved[1], all);
    default: return all;
    }
}

static mba_profiled_kernel scaled(const mba_known_code *k, const row *r, const extent *here)
{
    mba_profiled_kernel c = *r->counted;
    for (int i = 0; i <= MBA_N_L2_SUM; i++) c.n[i] *= times_of((mba_profiled_metric)i, here, &r->plan);
    c.grid = here->grid;
    c.smem_bytes += here->smem_bytes - r->plan.smem_bytes;
    c.n[MBA_N_MOST] = busiest(r, &c, &k->home, &k->gpu);
    c.n[MBA_N_DRAM_RD] = dram_bytes(r, here, false);
    c.n[MBA_N_DRAM_WR] = dram_bytes(r, here, true);
    c.like_blocks = here->grid / r->plan.grid;
    c.like_trips = c.n[MBA_N_INST] / r->counted->n[MBA_N_INST] / c.like_blocks;
    return c;
}

static void apply(mba_known_code *known, mba_sim_kernel *k)
{
    enum { SCHEDULERS = 4 };
    const extent   here = extent_of(k);
    mba_sim_kernel with;
    if (here.grid * here.warps < SCHEDULERS * known->gpu.v[MBA_GPU_sm]) return; // latencies decide, not counts
    const row *r = nearest(known, k, &here);
    if (!r) return;
    const mba_profiled_kernel c = scaled(known, r, &here);
    if (mba_profiled_lower(&with, &c, &known->gpu) != MBA_OK || !with.counted) return;
    memcpy(with.name, k->name, sizeof with.name);
    with.resets = k->resets;
    *k = with;
}

void mba_known_code_apply(void *of, const mba_program *p, int32_t node, int launch, mba_sim_kernel *k)
{
    mba_known_code *c = of;
    (void)p, (void)node, (void)launch;
    for (int i = 0; i < c->ndone; i++)
        if (!memcmp(&c->done[i].before, k, sizeof *k)) {
            *k = c->done[i].after;
            return;
        }
    if (c->ndone == DONE_MOST) c->ndone = 0;
    done *d = &c->done[c->ndone++];
    d->before = *k;
    apply(c, k);
    d->after = *k;
}
