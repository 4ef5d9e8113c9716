// SPDX-License-Identifier: Apache-2.0
/* best_ratio.c -- see best_ratio.h. */
#include "study/best_ratio.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "study/simulated_step.h"

const double mba_ratio_tensor[MBA_RATIO_TENSOR] = { 0.25, 0.5, 0.75, 1, 1.5, 2, 4 };
const double mba_ratio_special[MBA_RATIO_SPECIAL] = { 0.5, 1, 2 };
const double MBA_RATIO_FLAT = 1.02;

/* The study's division of work: one kernel for each step of SSD. */
static const char STUDY[] = "ssd=chunked,ssd_bwd=chunked";

/* Shares of the area, or of the power, of the units of today's chip. */
typedef struct shares {
    double tensor, vector, special;
} shares;
static const shares share_of[MBA_EQUALS] = { [MBA_EQUAL_AREA] = { 0.50, 0.40, 0.10 },
                                             [MBA_EQUAL_AREA_LITTLE] = { 0.25, 0.65, 0.10 },
                                             [MBA_EQUAL_AREA_MUCH] = { 0.75, 0.15, 0.10 },
                                             [MBA_EQUAL_POWER] = { 0.50, 0.40, 0.10 } };
static const double POWER_OF_UNITS = 0.5; /* the part of the chip's power that goes into these units */

const char *mba_equal_name(mba_equal e)
{
    mba_assert(e < MBA_EQUALS);
    return (const char *const[]){ "equal area, tensor units 50 % of it", "equal area, tensor units 25 % of it",
                                  "equal area, tensor units 75 % of it", "equal power" }[e];
}

/* The changes of the machine: rates of the units, and of the clock at equal power. */
static void changes_of(char *out, size_t room, mba_equal e, double tensor, double special)
{
    static const char *const vectors[] = { "fma", "alu", "half2", "issue" };
    static const char *const clocks[] = { "clk", "clk_tc", "clk_busy", "clk_mma" };
    const shares             s = share_of[e];
    const double             all = s.tensor * tensor + s.vector + s.special * special;
    const bool               power = e == MBA_EQUAL_POWER;
    const double             vector = power ? 1 : 1 / all;
    const double             clock = power ? pow(1 + POWER_OF_UNITS * (all - 1), -1.0 / 3) : 1;
    mba_assert(fabs(s.tensor + s.vector + s.special - 1) < 1e-9);
    int n = snprintf(out, room, "mma16=x%.6g,mma32=x%.6g,xu=x%.6g", vector * tensor, vector * tensor, vector * special);
    for (size_t i = 0; i < 4; i++)
        n += snprintf(out + n, room - (size_t)n, ",%s=x%.6g", power ? clocks[i] : vectors[i], power ? clock : vector);
    mba_assert((size_t)n < room);
}

/* ---- rows ---- */

/* Milliseconds of an operator in a simulated step; "": of the step. */
static double ms_of(const mba_simulated *r, const char *op)
{
    double s = 0;
    if (!*op) return 1e3 * r->step.seconds;
    for (int32_t i = 0; i < r->session.graph->nnodes; i++)
        if (!strcmp(r->session.graph->nodes[i]->op->name, op)) s += r->step.node[i].seconds;
    return 1e3 * s;
}

static bool has_row(const mba_best_ratio *b, const char *kernels, const char *op)
{
    for (int i = 0; i < b->n; i++)
        if (!strcmp(b->row[i].kernels, kernels) && !strcmp(b->row[i].op, op)) return true;
    return false;
}

static void add_row(mba_best_ratio *b, const mba_workload *w, const char *kernels, const char *op)
{
    if (b->n == MBA_RATIO_ROWS || (*op && has_row(b, kernels, op))) return;
    mba_ratio_row *row = &b->row[b->n++];
    snprintf(row->model, sizeof row->model, "%s", w->model.name);
    snprintf(row->kernels, sizeof row->kernels, "%s", kernels);
    snprintf(row->op, sizeof row->op, "%s", op);
}

/* Adds the SSM operators of a simulated step that have no row yet, and after them the step. */
static void add_rows(mba_best_ratio *b, const mba_simulated *r, const mba_workload *w, const char *kernels)
{
    const int first = b->n;
    for (int32_t i = 0; i < r->session.graph->nnodes; i++)
        if (r->session.graph->nodes[i]->op->kind == MBA_SSM)
            add_row(b, w, kernels, r->session.graph->nodes[i]->op->name);
    if (b->n > first) add_row(b, w, kernels, "");
    for (int i = first; i < b->n; i++) {
        b->row[i].base_ms = ms_of(r, b->row[i].op);
        for (int e = 0; e < MBA_EQUALS; e++)
            for (int t = 0; t < MBA_RATIO_TENSOR; t++)
                for (int x = 0; x < MBA_RATIO_SPECIAL; x++) b->row[i].ms[e][t][x] = NAN;
    }
}

/* The kernels stay those that were planned for the unchanged machine. */
static mba_status fill(mba_best_ratio *b, int first, mba_simulated *r, const mba_workload *w, mba_sim *sim)
{
    char changes[256];
    for (int e = 0; e < MBA_EQUALS; e++)
        for (int t = 0; t < MBA_RATIO_TENSOR; t++)
            for (int x = 0; x < MBA_RATIO_SPECIAL; x++) {
                const mba_gpu own = r->gpu;
                changes_of(changes, sizeof changes, (mba_equal)e, mba_ratio_tensor[t], mba_ratio_special[x]);
                MBA_TRY(mba_gpu_set(&r->gpu, changes));
                mba_sim_step_free(&r->step);
                const mba_status st = mba_simulated_step(r, w, sim);
                for (int i = first; i < b->n && st == MBA_OK; i++) b->row[i].ms[e][t][x] = ms_of(r, b->row[i].op);
                r->gpu = own;
                MBA_TRY(st);
            }
    return MBA_OK;
}

static mba_status find_with(mba_best_ratio *b, mba_sim *sim, const mba_workload *w, const char *kernels)
{
    mba_simulated r = { 0 };
    const int     first = b->n;
    mba_status    st = mba_simulated_run(&r, w, sim);
    if (st == MBA_OK) add_rows(b, &r, w, kernels);
    if (st == MBA_OK && !(b->tensor > 0)) {
        b->tensor = r.gpu.v[MBA_GPU_mma16] / (2 * r.gpu.v[MBA_GPU_fma]);
        b->vector = 2 * r.gpu.v[MBA_GPU_fma] / r.gpu.v[MBA_GPU_xu];
    }
    if (st == MBA_OK && b->n > first) st = fill(b, first, &r, w, sim);
    mba_simulated_end(&r);
    return st;
}

mba_status mba_best_ratio_find(mba_best_ratio *out, mba_sim *sim, const mba_workload *w, int n)
{
    *out = (mba_best_ratio){ .n = 0 };
    for (int i = 0; i < n; i++) {
        const int first = out->n;
        snprintf(out->machine, sizeof out->machine, "%s", w[i].machine);
        MBA_TRY(find_with(out, sim, &w[i], "ours"));
        bool ssd = false;
        for (int k = first; k < out->n; k++) ssd |= !strcmp(out->row[k].op, "ssd");
        if (!ssd) continue;
        mba_workload study = w[i];
        study.model.variants = STUDY;
        MBA_TRY(find_with(out, sim, &study, "the study's division"));
    }
    return MBA_OK;
}

/* ---- answers ---- */

mba_ratio_point mba_ratio_best(const mba_ratio_row *r, mba_equal e)
{
    mba_ratio_point p = { 0, 0, 0, NAN, NAN };
    for (int t = 0; t < MBA_RATIO_TENSOR; t++)
        for (int x = 0; x < MBA_RATIO_SPECIAL; x++)
            if (r->base_ms / r->ms[e][t][x] > p.gain)
                p = (mba_ratio_point){ t, x, r->base_ms / r->ms[e][t][x], NAN, NAN };
    for (int t = 0; t < MBA_RATIO_TENSOR; t++) {
        double ms = INFINITY;
        for (int x = 0; x < MBA_RATIO_SPECIAL; x++) ms = fmin(ms, r->ms[e][t][x]);
        if (!(ms <= MBA_RATIO_FLAT * r->base_ms / p.gain)) continue;
        if (isnan(p.low)) p.low = mba_ratio_tensor[t];
        p.high = mba_ratio_tensor[t];
    }
    return p;
}
