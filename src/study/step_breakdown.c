// SPDX-License-Identifier: Apache-2.0
/* step_breakdown.c -- see step_breakdown.h. */
#include "study/step_breakdown.h"

#include <math.h>
#include <stdlib.h>

#include "study/validation.h"

enum { OPERATORS_MAX = 128 };

/* ---- operators ---- */

/* `part` gets for every node the operator that it belongs to. */
static int gather(mba_step_operator *g, int *part, const mba_simulated *r)
{
    int n = 0;
    for (int32_t i = 0; i < r->session.graph->nnodes; i++) {
        const mba_node     *node = r->session.graph->nodes[i];
        const mba_sim_node *t = &r->step.node[i];
        int                 k = 0;
        while (k < n && !(g[k].op == node->op && g[k].pass == node->pass)) k++;
        mba_assert(k < OPERATORS_MAX);
        if (k == n) g[n++] = (mba_step_operator){ .op = node->op, .pass = node->pass };
        part[i] = k;
        g[k].nodes++;
        g[k].sum.launches += t->launches;
        g[k].sum.seconds += t->seconds;
        g[k].sum.dram_read += t->dram_read;
        g[k].sum.dram_write += t->dram_write;
        g[k].sum.floor_s += t->floor_s;
        for (int p = 0; p < MBA_PIPES; p++) g[k].sum.busy[p] += t->busy[p] * t->kernels_s;
        g[k].sum.kernels_s += t->kernels_s;
        if (t->seconds > g[k].longest_s) {
            g[k].longest_s = t->seconds;
            g[k].limit = t->limit;
        }
    }
    return n;
}

static mba_status find_bands(mba_step_operators *o, double *times, const int *part, const mba_simulated *r,
                             const mba_workload *w, mba_sim *sim)
{
    mba_error_bands operators;
    MBA_TRY(mba_simulated_draws(times, r, w, sim, part, o->n));
    MBA_TRY(mba_validation_bands(&o->validated, &operators, sim, w->code));
    o->spread = mba_band_of_samples(times);
    o->both = mba_band_combine(o->spread, o->validated);
    for (int k = 0; k < o->n; k++) {
        mba_step_operator    *g = &o->one[k];
        const mba_sim_limiter cause = mba_sim_limiter_of(g->limit, g->sum.floor_s, g->sum.seconds);
        g->band = mba_band_combine(mba_band_of_samples(times + (1 + k) * MBA_GPU_SAMPLES), operators.of[cause].band);
    }
    return MBA_OK;
}

static void sort_longest_first(mba_step_operator *g, int n)
{
    for (int k = 0; k < n; k++) {
        int top = k;
        for (int j = k + 1; j < n; j++)
            if (g[j].sum.seconds > g[top].sum.seconds) top = j;
        const mba_step_operator x = g[top];
        g[top] = g[k];
        g[k] = x;
    }
}

mba_status mba_step_operators_find(mba_step_operators *out, const mba_simulated *r, const mba_workload *w, mba_sim *sim)
{
    int    *part = calloc((size_t)r->session.graph->nnodes + 1, sizeof *part);
    double *times = calloc((1 + OPERATORS_MAX) * MBA_GPU_SAMPLES, sizeof *times);
    *out = (mba_step_operators){ .one = calloc(OPERATORS_MAX, sizeof *out->one) };
    mba_status st = out->one && part && times ? MBA_OK : mba_fail(MBA_E_NOMEM, "no memory for the operators of a step");
    if (st == MBA_OK) {
        out->n = gather(out->one, part, r);
        st = find_bands(out, times, part, r, w, sim);
    }
    if (st == MBA_OK) sort_longest_first(out->one, out->n);
    else mba_step_operators_free(out);
    free(part);
    free(times);
    return st;
}

void mba_step_operators_free(mba_step_operators *o)
{
    free(o->one);
    *o = (mba_step_operators){ 0 };
}

/* ---- uncertainty of the machine's numbers ---- */

/* Moves each number that has a spread by one standard deviation in both directions while all others stay. The numbers
 * are independent, so squares add. */
mba_status mba_step_deviation_find(mba_step_deviation *out, const mba_simulated *r, const mba_workload *w, mba_sim *sim)
{
    double sum = 0, most = 0;
    *out = (mba_step_deviation){ 0 };
    for (int k = 0; k < MBA_GPU_KEYS; k++) {
        double t[2] = { 0, 0 };
        if (!(r->gpu.sigma[k] > 0)) continue;
        for (int side = 0; side < 2; side++) {
            mba_gpu      m = r->gpu;
            mba_sim_step moved;
            m.v[k] += side ? m.sigma[k] : -m.sigma[k];
            if (m.v[k] < mba_gpu_keys[k].least) m.v[k] = mba_gpu_keys[k].least;
            if (m.v[k] > mba_gpu_keys[k].most) m.v[k] = mba_gpu_keys[k].most;
            MBA_TRY(mba_sim_program(&moved, sim, r->session.program, &m,
                                    &(mba_sim_how){ .passes = MBA_STEP, .stream = w->stream }));
            t[side] = moved.seconds;
            mba_sim_step_free(&moved);
        }
        const double half = (t[1] - t[0]) / 2;
        sum += half * half;
        if (fabs(half) > most) {
            most = fabs(half);
            out->key = k;
        }
    }
    out->percent = 100 * sqrt(sum) / r->step.seconds;
    out->most_percent = 100 * most / r->step.seconds;
    return MBA_OK;
}

/* ---- shares ---- */

mba_step_shares mba_step_shares_of(const mba_simulated *r)
{
    mba_step_shares s = { 0 };
    for (int32_t i = 0; i < r->session.graph->nnodes; i++) {
        const mba_sim_node *n = &r->step.node[i];
        double              busiest = n->busy[MBA_P_FMA];
        if (n->busy[MBA_P_ALU] > busiest) busiest = n->busy[MBA_P_ALU];
        if (n->busy[MBA_P_XU] > busiest) busiest = n->busy[MBA_P_XU];
        s.kind[r->session.graph->nodes[i]->op->kind] += n->seconds;
        s.tensor += n->busy[MBA_P_MMA] * n->kernels_s;
        s.vector += busiest * n->kernels_s;
    }
    for (int k = 0; k < MBA_KINDS; k++) s.kind[k] = 100 * s.kind[k] / r->step.seconds;
    s.tensor = 100 * s.tensor / r->step.seconds;
    s.vector = 100 * s.vector / r->step.seconds;
    return s;
}
