// SPDX-License-Identifier: Apache-2.0
/* fig_study.c -- `report --study`: the numbers of the study (arXiv 2508.17679, one H100) beside those of the stores.
 *
 * A target is a range; "up to" in the study starts at 0. This figure says only whether a number lies inside; the claims
 * have the verdicts and their reasons. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "report/figure.h"
#include "report/lines.h"

typedef struct quantity {
    const char *where, *what, *unit;
    double      low, high; /* the study's */
    double (*here)(const mba_analysis *a);
} quantity;

static const double H100_BYTES = 3350e9;

static double gemm(const mba_analysis *a) { return a->busy_s > 0 ? 100 * mba_products_s(a) / a->busy_s : NAN; }
static double ssm(const mba_analysis *a) { return a->busy_s > 0 ? 100 * mba_kind_s(a, MBA_SSM) / a->busy_s : NAN; }
static double vector_dram(const mba_analysis *a) { return mba_intensity_of(a, MBA_ALL_KERNELS).executed[1][0]; }
static double both_dram(const mba_analysis *a) { return mba_intensity_of(a, MBA_ALL_KERNELS).executed[2][0]; }
static double least_vector(const mba_analysis *a) { return mba_intensity_of(a, MBA_ALL_KERNELS).least[1]; }
static double bound_memory(const mba_analysis *a)
{
    return 100 * mba_bounds_of(a, MBA_ALL_KERNELS).share[MBA_BY_MEMORY];
}

static double counted_mean(const mba_analysis *a)
{
    const mba_bandwidth b = mba_bandwidth_of(a, MBA_SSM_KERNELS);
    return b.least ? NAN : b.mean; // the study measured bytes; least bytes are a lower bound
}

static double counted_weighted(const mba_analysis *a)
{
    const mba_bandwidth b = mba_bandwidth_of(a, MBA_SSM_KERNELS);
    return b.least ? NAN : b.weighted;
}

static double mean_sheet(const mba_analysis *a) { return 100 * counted_mean(a) / a->sheet.dram; }
static double weighted_sheet(const mba_analysis *a) { return 100 * counted_weighted(a) / a->sheet.dram; }
static double mean_h100(const mba_analysis *a) { return 100 * counted_mean(a) / H100_BYTES; }
static double mean_gb_s(const mba_analysis *a) { return counted_mean(a) / 1e9; }
static double floor_a(const mba_analysis *a) { return 100 * mba_vector_bound_of(a, MBA_SSM_KERNELS).floor_a; }
static double floor_b(const mba_analysis *a) { return 100 * mba_vector_bound_of(a, MBA_SSM_KERNELS).floor_b; }
static double pipe_fma(const mba_analysis *a) { return 100 * mba_vector_bound_of(a, MBA_SSM_KERNELS).pipe_fma; }
static double pipe_any(const mba_analysis *a) { return 100 * mba_vector_bound_of(a, MBA_SSM_KERNELS).pipe_any; }

/* Ratio of tensor to vector work of the mixed SSM kernels by rule (a) or (b), averaged with their time as weight. */
static double ratio_of(const mba_analysis *a, bool slots)
{
    double sum = 0, s = 0;
    for (int64_t i = 0; i < a->nkernels; i++) {
        const mba_kernel_view *k = &a->kernel[i];
        const double           v = slots ? k->ratio_b : k->ratio_a;
        if (!mba_in_group(k, MBA_SSM_KERNELS) || k->cls != MBA_CLASS_MIXED || !isfinite(v)) continue;
        sum += v * k->step_s;
        s += k->step_s;
    }
    return s > 0 ? sum / s : NAN;
}
static double ratio_a(const mba_analysis *a) { return ratio_of(a, false); }
static double ratio_b(const mba_analysis *a) { return ratio_of(a, true); }

static double l1_hits(const mba_analysis *a)
{
    double sum = 0, s = 0;
    for (int64_t i = 0; i < a->nkernels; i++) {
        const mba_kernel_view *k = &a->kernel[i];
        if (!mba_in_group(k, MBA_SSM_KERNELS) || k->cls != MBA_CLASS_VECTOR || !isfinite(k->counted.l1_hit_pct))
            continue;
        sum += k->counted.l1_hit_pct * k->step_s;
        s += k->step_s;
    }
    return s > 0 ? sum / s : NAN;
}

static const quantity quantities[] = {
    { "Fig. 1, F1", "GEMM, of the step", "%", 0, 60, gemm },
    { "Fig. 1, F2", "SSM operators, of the step", "%", 0, 20, ssm },
    { "Fig. 2, F3", "time, floor set by memory", "%", 50, 100, bound_memory },
    { "Fig. 2, F3", "vector FLOP per DRAM byte", "FLOP/byte", 0, 3.5, vector_dram },
    { "Fig. 2, F3", "all FLOP per DRAM byte", "FLOP/byte", 0, 3.5, both_dram },
    { "Fig. 2, F3", "least vector FLOP per compulsory byte", "FLOP/byte", 0, 3.5, least_vector },
    { "Fig. 4, F4", "SSM bandwidth, of data sheet, mean of launches", "%", 57.5, 57.5, mean_sheet },
    { "Fig. 4, F4", "the same, weighted by time", "%", 57.5, 57.5, weighted_sheet },
    { "Fig. 4, F4", "mean over launches, of the H100's 3350 GB/s", "%", 57.5, 57.5, mean_h100 },
    { "Fig. 4, F4", "mean over launches", "GB/s", 1926, 1926, mean_gb_s },
    { "Fig. 7, F7", "vector-bound: floors, arithmetic", "%", 89, 92, floor_a },
    { "Fig. 7, F7", "vector-bound: floors, issue slots", "%", 89, 92, floor_b },
    { "Fig. 7, F7", "vector-bound: FMA pipe busier than tensor", "%", 89, 92, pipe_fma },
    { "Fig. 7, F7", "vector-bound: any vector pipe busier", "%", 89, 92, pipe_any },
    { "Fig. 6, F7", "tensor : vector of mixed kernels, arithmetic", ": 1", 0, 16, ratio_a },
    { "Fig. 6, F7", "tensor : vector of mixed kernels, issue slots", ": 1", 0, 16, ratio_b },
    { "Fig. 3, F8", "L1 hits of vector-only SSM kernels", "%", 0, 10, l1_hits },
};
enum { QUANTITIES = sizeof quantities / sizeof *quantities };

static const double ABOUT = 0.1; /* relative distance from the target that counts as "about" */

static const char *place(const quantity *q, double v)
{
    mba_assert(q->low <= q->high);
    if (isnan(v)) return "not measured";
    if (v > q->high * (1 + ABOUT)) return "above";
    if (v < q->low * (1 - ABOUT)) return "below";
    return q->low == q->high ? "about the same" : "inside";
}

static bool asked(const mba_stores *r, int run)
{
    (void)run;
    return r->study;
}

static const mba_grid_column study_columns[] = { { "where", "in the study" },
                                                 { "what", "what" },
                                                 { "unit", "unit" },
                                                 { "study_low", "study, from" },
                                                 { "study_high", "to" },
                                                 { "run", "run" },
                                                 { "here", "here" },
                                                 { "place", "it lies" },
                                                 { 0 } };

static mba_status study_numbers(mba_grid *g, const mba_stores *r, int run)
{
    (void)run;
    for (int q = 0; q < QUANTITIES; q++)
        for (int i = 0; i < r->shown; i++) {
            const double v = quantities[q].here(r->run[i].a);
            mba_grid_text(g, quantities[q].where);
            mba_grid_text(g, quantities[q].what);
            mba_grid_text(g, quantities[q].unit);
            mba_grid_number(g, quantities[q].low);
            mba_grid_number(g, quantities[q].high);
            mba_grid_text(g, mba_run_label(r, i));
            mba_grid_number(g, v);
            mba_grid_text(g, place(&quantities[q], v));
        }
    return MBA_OK;
}

static void study_heading(mba_buf *b, const mba_stores *r, int run)
{
    int inside = 0, known = 0;
    (void)run;
    for (int q = 0; q < QUANTITIES; q++)
        for (int i = 0; i < r->shown; i++) {
            const double v = quantities[q].here(r->run[i].a);
            const char  *p = place(&quantities[q], v);
            known += !isnan(v);
            inside += !strcmp(p, "inside") || !strcmp(p, "about the same");
        }
    mba_assert(inside <= known);
    if (known) mba_buf_add(b, "%d of %d numbers agree with the study", inside, known);
    else mba_buf_put(b, "None of the study's numbers was measured here");
}

static bool is_percent(const quantity *q) { return !strcmp(q->unit, "%"); }

static mba_status study_draw(mba_canvas *c, double w, const mba_stores *r, int run, int view)
{
    const bool   narrow = w <= MBA_NARROW;
    const double left = narrow ? 4 : 330, rh = narrow ? 40 : 24;
    int          rows = 0, row = 0;
    (void)run, (void)view;
    for (int q = 0; q < QUANTITIES; q++) rows += is_percent(&quantities[q]);
    mba_svg         s = mba_svg_begin(c, w, 10 + rh * rows + 40, "Numbers of the study and of these stores");
    const mba_scale x = mba_lin(0, 100, left, w - 14);
    mba_svg_axis(&s, x, 6, 10 + rh * rows, "%; shaded: the study");
    for (int q = 0; q < QUANTITIES; q++) {
        if (!is_percent(&quantities[q])) continue;
        const quantity *k = &quantities[q];
        const double    y = 10 + rh * row++ + (narrow ? 28 : 12), from = mba_at(x, k->low), to = mba_at(x, k->high);
        mba_svg_text(&s, narrow ? 0 : left - 8, narrow ? y - 13 : y + 4, "halo", narrow ? 's' : 'e', "%s",
                     mba_short(k->what, narrow ? 47 : 46).s);
        mba_svg_shade(&s, from - 1, y - 7, fmax(3, to - from + 2), 14, "vector");
        mba_svg_line(&s, to, y - 8, to, y + 8, "ref dash", NULL);
        if (k->low > 0 && k->low < k->high) mba_svg_line(&s, from, y - 8, from, y + 8, "ref dash", NULL);
        for (int i = 0; i < r->shown; i++) {
            const double v = k->here(r->run[i].a);
            if (isnan(v)) continue;
            mba_svg_mark(&s, mba_look_shape(i), mba_at(x, fmin(v, 100)), y, 4.6, mba_look_paint(i), false,
                         mba_tip(c, "%s · %s|%s %% here, %s to %s in the study: %s", mba_run_label(r, i), k->what,
                                 mba_num(v).s, mba_num(k->low).s, mba_num(k->high).s, place(k, v)),
                         NULL);
        }
    }
    mba_assert(row == rows);
    mba_svg_end(&s);
    return MBA_OK;
}

static void study_legend(mba_buf *b, const mba_stores *r, int run)
{
    (void)run;
    for (int i = 0; i < r->shown; i++) mba_lines_legend(b, &(mba_line){ .name = mba_run_label(r, i), .look = i }, -1);
}

const mba_figure mba_figure_study = {
    "study",
    "The study",
    "Comparison with the study · arXiv 2508.17679",
    "Numbers of {the study}, from one H100, and the same quantities of these stores; ratios and intensities are "
    "in the table.",
    "The study does not publish the sizes of its models, so exact agreement is not expected; what counts is on "
    "which side of a threshold the numbers lie. \"Up to\" is drawn from 0. Counting rules change some numbers "
    "more than hardware does.",
    "the flag: mambascope report --study A.db ..",
    true,
    NULL,
    study_columns,
    asked,
    study_heading,
    study_numbers,
    study_draw,
    study_legend
};
