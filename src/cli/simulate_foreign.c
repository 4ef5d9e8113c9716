// SPDX-License-Identifier: Apache-2.0
/* simulate_foreign.c -- see simulate_foreign.h. */
#include "cli/simulate_foreign.h"

#include <math.h>
#include <stdio.h>

#include "cli/say.h"
#include "sim/signature.h"
#include "study/prediction_error.h"
#include "study/profile_prediction.h"

#define SIGNATURE_COLUMNS \
    { "kernel", "kernel", NULL }, { "grid", "grid", "%.0f" }, { "resident", "blocks/SM", "%.0f" }, \
        { "us", "us", "%.1f" }, { "dram_gbs", "DRAM, GB/s", "%.0f" }, { "dram_percent", "of peak, %", "%.0f" }, \
        { "tensor", "tensor, %", "%.0f" }, { "fma", "FMA, %", "%.0f" }, { "alu", "ALU, %", "%.0f" }, \
        { "sfu", "SFU, %", "%.0f" }, \
    { \
        "bound", "limited by", NULL \
    }
static const mba_column signature_columns[] = { SIGNATURE_COLUMNS, { 0 } };

static void signature_row(mba_table *t, const mba_sim_result *r, const mba_sim_kernel *k, const mba_gpu *m)
{
    const double gbs = (r->dram_read + r->dram_write) / r->seconds / 1e9;
    mba_table_text(t, "%s", k->name);
    mba_table_number(t, (double)k->grid);
    mba_table_number(t, (double)r->resident);
    mba_table_number(t, 1e6 * r->seconds);
    mba_table_number(t, gbs);
    mba_table_number(t, 100 * gbs / m->v[MBA_GPU_hbm]);
    mba_table_number(t, 100 * r->busy[MBA_P_MMA]);
    mba_table_number(t, 100 * r->busy[MBA_P_FMA]);
    mba_table_number(t, 100 * r->busy[MBA_P_ALU]);
    mba_table_number(t, 100 * r->busy[MBA_P_XU]);
    mba_table_text(t, "%s", mba_sim_limits[r->limit]);
}

static mba_status signature_rows(mba_table *t, int *n, const char *path, const mba_gpu *m)
{
    mba_signatures s;
    mba_sim_kernel k;
    mba_sim_result r;
    MBA_TRY(mba_signatures_load(&s, path));
    mba_status st = MBA_OK;
    for (int i = 0; i < s.n && st == MBA_OK; i++) {
        st = mba_signature_kernel(&k, &s.one[i], m);
        if (st == MBA_OK) st = mba_sim_run(&r, &k, m, MBA_SIM_ONE_SM);
        if (st == MBA_OK) signature_row(t, &r, &k, m);
    }
    *n = s.n;
    mba_signatures_free(&s);
    return st;
}

/* ---- kernels from their counters, with bands ---- */

#define BAND_COLUMNS \
    { "at_least_us", "at least, us", "%.1f" }, { "at_most_us", "at most", "%.1f" }
static const mba_column counted_columns[] = {
    SIGNATURE_COLUMNS, BAND_COLUMNS, { "measured_us", "measured there, us", "%.1f" }, { 0 }
};
static const mba_column stored_columns[] = { SIGNATURE_COLUMNS,
                                             BAND_COLUMNS,
                                             { "launches", "launches per step", "%.0f" },
                                             { "measured_us", "measured, us", "%.1f" },
                                             { "error", "error there, %", "%+.0f" },
                                             { "operator", "operator", NULL },
                                             { 0 } };

static mba_status counted_row(mba_table *t, mba_profile_sum *s, const mba_profiled_kernel *c, const mba_gpu *m)
{
    mba_profile_prediction p;
    MBA_TRY(mba_profile_predict(&p, s, c, m));
    signature_row(t, &p.result, &p.kernel, m);
    mba_table_number(t, 1e6 * p.result.seconds * p.band.low);
    mba_table_number(t, 1e6 * p.result.seconds * p.band.high);
    return MBA_OK;
}

/* Leaves out kernels that lack counters and reports them, as for a store. */
static mba_status counted_rows(mba_table *t, int *n, const char *path, const mba_gpu *m)
{
    mba_profiled_set *d;
    mba_profile_sum   s;
    double            without_us = 0;
    MBA_TRY(mba_profiled_load(&d, path));
    mba_status st = mba_profile_sum_begin(&s, m);
    for (int i = 0; i < d->n && st == MBA_OK; i++) {
        if (!mba_profiled_complete(&d->one[i])) {
            without_us += d->one[i].launches * d->one[i].us;
            continue;
        }
        ++*n;
        st = counted_row(t, &s, &d->one[i], m);
        if (st == MBA_OK) mba_table_number(t, d->one[i].us);
    }
    if (st == MBA_OK && !*n)
        st = mba_fail(MBA_E_FORMAT,
                      "%s has no kernel with counters\nwhy: kernels without launch plans need "
                      "counters of instructions, loads and bytes\nfix: tools/kernel_points, of a store with the sets "
                      "roofline, cache "
                      "and signature",
                      path);
    if (st == MBA_OK && *n < d->n)
        fprintf(stderr, "%d kernels of %.2f ms without counters are left out\n", d->n - *n, 1e-3 * without_us);
    mba_profiled_destroy(d);
    return st;
}

/* Reports the error of such predictions with every table. No file of the program has measured times of signatures. */
static mba_status say_how_far_off(bool counted)
{
    mba_prediction_error *off = NULL;
    if (counted) MBA_TRY(mba_prediction_error_held_out(&off));
    if (off)
        fprintf(stderr,
                "error, held out, of %d kernels of our steps from counters only, on the H200: %.0f %% "
                "on average,\n90th percentile %.0f, worst %.0f (%.48s)\n",
                off->n, off->mean, off->p90, off->worst, off->worst_kernel);
    else fputs("error: not measured for these kernels; docs/results/simulator.md has the peers' SSD kernels\n", stderr);
    mba_prediction_error_destroy(off);
    return MBA_OK;
}

static mba_status run_signatures(const mba_simulate_foreign_options *o, const mba_gpu *m)
{
    mba_table *t = NULL;
    int        n = 0;
    MBA_TRY(mba_table_create(&t, o->counted ? counted_columns : signature_columns));
    mba_status st = o->counted ? counted_rows(t, &n, o->counted, m) : signature_rows(t, &n, o->signatures, m);
    if (st == MBA_OK) st = mba_table_print(t, stdout, o->form);
    if (st == MBA_OK)
        mba_say(stderr, "SIMULATED on %s%s%s from %d signatures (grade C)\n", m->name, o->changes ? " with " : "",
                o->changes ? o->changes : "", n);
    if (st == MBA_OK) st = say_how_far_off(o->counted != NULL);
    mba_table_destroy(t);
    return st;
}

/* ---- a store ---- */

static mba_status stored_rows(mba_table *t, mba_profile_sum *sum, const mba_store_kernels *s,
                              const mba_prediction_error *off, const mba_gpu *m)
{
    for (int i = 0; i < s->kernels.n; i++) {
        const mba_profiled_kernel *c = &s->kernels.one[i];
        MBA_TRY(counted_row(t, sum, c, m));
        mba_table_number(t, c->launches);
        mba_table_number(t, c->us);
        mba_table_number(t, off->percent[i]);
        mba_table_text(t, "%s", c->op);
    }
    return MBA_OK;
}

static void say_store(const mba_simulate_foreign_options *o, const mba_store_kernels *s,
                      const mba_prediction_error *off, const mba_profile_sum *sum, const mba_gpu *m)
{
    const mba_band b = mba_profile_sum_band(sum);
    mba_say(stderr,
            "SIMULATED on %s%s%s from counters of the %s (grade C)\n"
            "kernels of a step: %.2f ms (%.1f to %.1f); measured there %.2f ms",
            m->name, o->changes ? " with " : "", o->changes ? o->changes : "", s->gpu, 1e-3 * sum->us,
            1e-3 * sum->us * b.low, 1e-3 * sum->us * b.high, 1e-3 * sum->measured_us);
    if (s->without)
        fprintf(stderr, "; %d kernels of %.2f ms without counters are left out", s->without, 1e-3 * s->without_us);
    if (off->machine)
        mba_say(stderr,
                "\nerror of these kernels on %s, where they were measured: %.0f %% on average (90th "
                "percentile %.0f,\nworst %.0f: %.48s), of their sum %+.1f %%\n",
                off->machine, off->mean, off->p90, off->worst, off->worst_kernel, off->sum);
    else
        mba_say(
            stderr,
            "\nerror: unknown, because there is no machine file for the %s; mambascope calibrate writes one there\n",
            s->gpu);
    fprintf(stderr,
            "bands: measured over predicted time of %d kernels of the H200, by what limits them (%.0f "
            "%% lie in the bands of the others;\n80 are expected); whole steps took %.2f to %.2f times as "
            "long%s\n",
            sum->kernels.points, 100.0 * sum->kernels.inside / sum->kernels.points, sum->steps.low, sum->steps.high,
            sum->draws ? "; with the uncertainty of this machine's numbers" : "");
}

/* Simulates every kernel of a store from its counters. Beside it stand its measured time on the GPU that was profiled,
 * and the error of a simulation of that GPU: the error of kernels that the simulator knows by counters alone. */
static mba_status run_store(const mba_simulate_foreign_options *o, const mba_gpu *m)
{
    mba_store_kernels     s;
    mba_profile_sum       sum;
    mba_table            *t = NULL;
    mba_prediction_error *off = NULL;
    MBA_TRY(mba_store_kernels_load(&s, o->store));
    mba_status st = mba_profile_sum_begin(&sum, m);
    if (st == MBA_OK) st = mba_table_create(&t, stored_columns);
    if (st == MBA_OK) st = mba_prediction_error_of_store(&off, &s);
    if (st == MBA_OK) st = stored_rows(t, &sum, &s, off, m);
    if (st == MBA_OK) {
        st = mba_table_print(t, stdout, o->form);
        say_store(o, &s, off, &sum, m);
    }
    mba_prediction_error_destroy(off);
    mba_table_destroy(t);
    mba_store_kernels_free(&s);
    return st;
}

mba_status mba_simulate_foreign(const mba_simulate_foreign_options *o)
{
    mba_gpu m;
    MBA_TRY(mba_gpu_load(&m, o->machine));
    MBA_TRY(mba_gpu_set(&m, o->changes));
    return o->store ? run_store(o, &m) : run_signatures(o, &m);
}
