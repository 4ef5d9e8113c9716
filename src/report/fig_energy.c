// SPDX-License-Identifier: Apache-2.0
/* fig_energy.c -- energy of a step, of every store whose meter ran long enough: per unit, by class, ours and peers. */
#include <math.h>
#include <string.h>

#include "report/figure.h"
#include "report/ssm_runs.h"

static bool has_energy(const mba_stores *r, int run)
{
    (void)run;
    for (int i = 0; i < r->n; i++)
        if (!isnan(r->run[i].energy.step_j)) return true;
    return false;
}

static const mba_grid_column columns[] = { { "run", "run" },
                                           { "whose", "whose" },
                                           { "step_j", "J per step" },
                                           { "unit_mj", "mJ per unit" },
                                           { "units_per_j", "units per J" },
                                           { "watts", "mean power, W" },
                                           { "limit_w", "limit, W" },
                                           { "step_ms", "step, ms" },
                                           { "gemm_j", "GEMM with head, J" },
                                           { "ssm_j", "SSM, J" },
                                           { "rest_j", "other kernels, J" },
                                           { "gaps_j", "gaps, J" },
                                           { "window_s", "window, s" },
                                           { 0 } };

static mba_status numbers(mba_grid *g, const mba_stores *r, int run)
{
    (void)run;
    for (int i = 0; i < r->n; i++) {
        const mba_analysis *a = r->run[i].a;
        const mba_energy    e = r->run[i].energy;
        if (isnan(e.step_j)) continue;
        const double in_gemm = mba_kind_s(a, MBA_GEMM), head = in_gemm > 0 ? mba_products_s(a) / in_gemm : 1;
        const double gemm = head * mba_energy_kind_j(&e, a, MBA_GEMM), ssm = mba_energy_kind_j(&e, a, MBA_SSM),
                     gaps = mba_energy_gaps_j(&e, a);
        mba_grid_text(g, mba_run_label(r, i));
        mba_grid_text(g, mba_run_is_foreign(a) ? "peer" : "ours");
        mba_grid_number(g, e.step_j);
        mba_grid_number(g, 1e3 * e.unit_j);
        mba_grid_number(g, e.units_per_j);
        mba_grid_number(g, e.watts);
        mba_grid_number(g, e.limit_w);
        mba_grid_number(g, 1e3 * a->plain_s);
        mba_grid_number(g, gemm);
        mba_grid_number(g, ssm);
        mba_grid_number(g, e.step_j - gemm - ssm - gaps);
        mba_grid_number(g, gaps);
        mba_grid_number(g, e.window_s);
    }
    return MBA_OK;
}

static bool differs_in_power_only(const mba_analysis *x, const mba_analysis *y)
{
    return !strcmp(x->workload, y->workload) && !strcmp(x->parameters, y->parameters) && !strcmp(x->batch, y->batch)
           && x->units == y->units && mba_run_is_foreign(x) == mba_run_is_foreign(y)
           && !strcmp(mba_run_device(x), mba_run_device(y)) && !strcmp(mba_variants_of(x).s, mba_variants_of(y).s);
}

/* "token", "image", "graph" */
static const char *one_unit(const mba_analysis *a)
{
    return !strcmp(a->unit, "images") ? "image" : !strcmp(a->unit, "graphs") ? "graph" : "token";
}

/* The power limit at which a unit takes the least energy, of stores that differ in nothing else. */
static void add_sweep(mba_buf *b, const mba_stores *r, int run)
{
    const mba_analysis *a = r->run[run].a;
    int                 best = run;
    for (int i = 0; i < r->n; i++) {
        const mba_analysis *x = r->run[i].a;
        if (isnan(mba_env_value(x, "run.power_limit")) || !differs_in_power_only(x, a)) continue;
        if (r->run[i].energy.unit_j < r->run[best].energy.unit_j) best = i;
    }
    if (best == run) return;
    mba_buf_add(b, "; limited to %s W it takes %s mJ and %s\u00a0× the time",
                mba_num(mba_env_value(r->run[best].a, "run.power_limit")).s,
                mba_num(1e3 * r->run[best].energy.unit_j).s, mba_num(r->run[best].a->plain_s / a->plain_s).s);
}

/* A peer's step beside ours of the same workload and units; else the extent over all stores. */
static void heading(mba_buf *b, const mba_stores *r, int run)
{
    (void)run;
    for (int i = 0; i < r->n; i++)
        for (int j = 0; j < r->n; j++) {
            const mba_analysis *ours = r->run[i].a, *peer = r->run[j].a;
            if (mba_run_is_foreign(ours) || !mba_run_is_foreign(peer) || strcmp(ours->workload, peer->workload))
                continue;
            const double x = r->run[i].energy.unit_j, y = r->run[j].energy.unit_j;
            if (!(x > 0) || !(y > 0) || ours->units != peer->units) continue;
            mba_buf_html(b, ours->workload);
            mba_buf_add(b, ": %s mJ per %s in ours, %s in the peer's program, %s\u00a0×", mba_num(1e3 * x).s,
                        one_unit(ours), mba_num(1e3 * y).s, mba_num(y / x).s);
            add_sweep(b, r, i);
            return;
        }
    mba_range seen = { NAN, NAN };
    for (int i = 0; i < r->n; i++) mba_range_extend(&seen, r->run[i].energy.watts);
    mba_buf_add(b, "Steps draw %s to %s W", mba_num(seen.lo).s, mba_num(seen.hi).s);
}

const mba_figure mba_figure_energy = {
    "energy",
    "Energy",
    "Energy · per step, per unit, by class",
    "Energy of a step by the driver's meter, and its division into classes by their GPU time.",
    "Units per J is the rate per watt. The meter does not separate kernels: a class that draws less power than the "
    "mean "
    "gets too large a share. A {peer}'s steps run with our library attached, recording nothing. Stores named by "
    "watts ran under that power limit (profile --power-limit).",
    "stores with 2 s of metered steps: mambascope profile --device cuda --model mamba2-headline",
    true,
    NULL,
    columns,
    has_energy,
    heading,
    numbers,
    NULL,
    NULL
};
