// SPDX-License-Identifier: Apache-2.0
/* fig_bandwidth.c -- Fig. 4: DRAM bandwidth of every kernel, its two means, and the bandwidth over time, which shows
 * why they differ. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "report/figure.h"

enum { MOST = 28 };
static const double H100_BYTES = 3350e9;

/* Bytes of one launch: counted in the counter run, else the compulsory bytes over the time of the timeline. */
static double bytes_of(const mba_kernel_view *k)
{
    return isnan(k->counted.dram_bytes) ? k->least.bytes : k->counted.dram_bytes;
}

static double seconds_of(const mba_kernel_view *k)
{
    return isnan(k->counted.dram_bytes) || isnan(k->counted.time_s) ? k->median_s : k->counted.time_s;
}

static double rate_of(const mba_kernel_view *k) { return bytes_of(k) / seconds_of(k); }
static bool   has_rate(const mba_kernel_view *k) { return rate_of(k) > 0 && isfinite(rate_of(k)); }
static bool   has_bandwidth(const mba_stores *r, int run) { return mba_any_kernel(r->run[run].a, has_rate); }

static const mba_grid_column fig4_columns[] = { { "kernel", "kernel" },
                                                { "class", "class" },
                                                { "bytes_are", "bytes are" },
                                                { "dram_mb", "MB per launch" },
                                                { "time_us", "µs" },
                                                { "gb_s", "GB/s" },
                                                { "percent_measured", "% of measured copy" },
                                                { "percent_data_sheet", "% "
                                                                        "of data sheet" },
                                                { "percent_h100", "% of 3350 GB/s" },
                                                { "launches", "launches per step" },
                                                { 0 } };

static void rate_row(mba_grid *g, const mba_analysis *a, const char *name, const char *kind, const char *what,
                     double bytes, double s, double rate, double launches)
{
    mba_grid_text(g, name);
    mba_grid_text(g, kind);
    mba_grid_text(g, what);
    mba_grid_number(g, bytes / 1e6);
    mba_grid_number(g, 1e6 * s);
    mba_grid_number(g, rate / 1e9);
    mba_grid_number(g, 100 * rate / a->measured.dram);
    mba_grid_number(g, 100 * rate / a->sheet.dram);
    mba_grid_number(g, 100 * rate / H100_BYTES);
    mba_grid_number(g, launches);
}

static mba_status fig4_numbers(mba_grid *g, const mba_stores *r, int run)
{
    const mba_analysis *a = r->run[run].a;
    mba_chosen          c;
    MBA_TRY(mba_choose(&c, a, has_rate, mba_marks_max(r, MOST)));
    for (int i = 0; i < c.n; i++) {
        const mba_kernel_view *k = c.k[i];
        rate_row(g, a, mba_kernel_label(a, k, 60).s, mba_breakdown_kind_name(k->kind),
                 isnan(k->counted.dram_bytes) ? "compulsory" : "counted", bytes_of(k), seconds_of(k), rate_of(k),
                 k->per_step);
    }
    free(c.k);
    for (int group = 0; group < MBA_KERNEL_GROUPS; group++) {
        const mba_bandwidth w = mba_bandwidth_of(a, (mba_group_of)group);
        if (isnan(w.mean)) continue;
        rate_row(g, a, "mean over launches", mba_group_name((mba_group_of)group), w.least ? "compulsory" : "counted",
                 NAN, NAN, w.mean, NAN);
        rate_row(g, a, "time-weighted mean", mba_group_name((mba_group_of)group), w.least ? "compulsory" : "counted",
                 NAN, NAN, w.weighted, NAN);
    }
    return MBA_OK;
}

static void fig4_heading(mba_buf *b, const mba_stores *r, int run)
{
    const mba_analysis *a = r->run[run].a;
    const mba_bandwidth ssm = mba_bandwidth_of(a, MBA_SSM_KERNELS), all = mba_bandwidth_of(a, MBA_ALL_KERNELS);
    const mba_bandwidth w = isnan(ssm.mean) ? all : ssm;
    const double        own = isnan(a->sheet.dram) ? a->best.dram : a->sheet.dram;
    mba_buf_add(b, "%s move %s%s GB/s, mean over launches: %s %% of %s; time-weighted %s %%",
                isnan(ssm.mean) ? "Kernels" : "SSM kernels", w.least ? "at least " : "", mba_num(w.mean / 1e9).s,
                mba_num(100 * w.mean / own).s, isnan(a->sheet.dram) ? "the measured copy" : "the data sheet",
                mba_num(100 * w.weighted / own).s);
}

typedef struct ref_line {
    const char *name, *cls;
    double      bytes_s;
} ref_line;

static int higher_first(const void *x, const void *y)
{
    const double a = ((const ref_line *)x)->bytes_s, b = ((const ref_line *)y)->bytes_s;
    return a < b ? 1 : a > b ? -1 : 0;
}

/* Draws lines with their names on the left. The highest value comes first, so that no line crosses another name. */
static void draw_refs(mba_svg *s, mba_scale x, ref_line *all, int n, double bottom)
{
    int known = 0;
    for (int i = 0; i < n; i++)
        if (all[i].bytes_s > 0 && all[i].bytes_s / 1e9 <= x.hi) all[known++] = all[i];
    mba_assert(known <= n);
    qsort(all, (size_t)known, sizeof *all, higher_first);
    for (int i = 0; i < known; i++) {
        const double   v = all[i].bytes_s / 1e9, at = mba_at(x, v), y = 12 + 13 * i;
        const mba_word number = mba_num(v);
        const bool     fits = at - 4 > 0.9 * MBA_LETTER * (mba_characters(all[i].name) + 1 + mba_characters(number.s));
        mba_svg_line(s, at, y - 9, at, bottom, all[i].cls, NULL);
        mba_svg_text(s, fits ? at - 4 : at + 4, y, "t3 halo", fits ? 'e' : 's', "%s %s", all[i].name, number.s);
    }
}

static mba_status fig4_draw(mba_canvas *c, double w, const mba_stores *r, int run, int view)
{
    mba_assert(run >= 0 && run < r->n);
    const mba_analysis *a = r->run[run].a;
    const mba_bandwidth ssm = mba_bandwidth_of(a, MBA_SSM_KERNELS), all = mba_bandwidth_of(a, MBA_ALL_KERNELS);
    mba_chosen          chosen;
    double              most = fmax(isnan(a->best.dram) ? 0 : a->best.dram, isnan(a->sheet.dram) ? 0 : a->sheet.dram);
    (void)view;
    MBA_TRY(mba_choose(&chosen, a, has_rate, mba_marks_max(r, MOST)));
    for (int i = 0; i < chosen.n; i++) most = fmax(most, rate_of(chosen.k[i]));
    const mba_lanes lanes = mba_lanes_for(w, chosen.n, 96, 18);
    mba_svg         s = mba_svg_begin(c, w, lanes.bottom + 40, "DRAM bandwidth of the longest kernels");
    const mba_scale x = mba_lin(0, 1.02 * most / 1e9, lanes.left, w - 12);
    mba_svg_axis(&s, x, lanes.top - 4, lanes.bottom, "DRAM GB/s");
    for (int i = 0; i < chosen.n; i++) {
        const mba_kernel_view *k = chosen.k[i];
        const double           y = mba_lanes_at(&lanes, i), v = rate_of(k) / 1e9;
        mba_lanes_label(&s, &lanes, i, a, k);
        mba_svg_bar(&s, x.a, y - 6, fmax(1, mba_at(x, v) - x.a), 12, "bar", mba_kind_paint(k->kind),
                    mba_tip(c, "%s|%s GB/s: %s MB in %s µs (%s)|%s %% of the measured copy",
                            mba_kernel_label(a, k, 60).s, mba_num(v).s, mba_num(bytes_of(k) / 1e6).s,
                            mba_num(1e6 * seconds_of(k)).s,
                            isnan(k->counted.dram_bytes) ? "compulsory bytes" : "counted",
                            mba_num(100 * rate_of(k) / a->measured.dram).s),
                    NULL);
    }
    ref_line refs[] = { { "data sheet", "ref dash", a->sheet.dram },
                        { "copy, measured", "ref", a->measured.dram },
                        { "H100 data sheet", "ref dash", isnan(a->best.tensor) ? NAN : H100_BYTES },
                        { "SSM, mean over launches", "ref strong", ssm.mean },
                        { "SSM, time-weighted", "ref strong dash", ssm.weighted },
                        { "all, time-weighted", "ref dash", all.weighted } };
    draw_refs(&s, x, refs, sizeof refs / sizeof *refs, lanes.bottom);
    mba_svg_end(&s);
    free(chosen.k);
    return MBA_OK;
}

static void paint_legend(mba_buf *b, const mba_stores *r, int run)
{
    for (int k = 0; k < MBA_BREAKDOWN_KINDS; k++)
        if (mba_kind_s(r->run[run].a, k) > 0) mba_legend_item(b, mba_kind_paint(k), mba_kind_long(k));
}

const mba_figure mba_figure_fig4 = {
    "fig4",
    "Bandwidth",
    "Fig. 4 · DRAM bandwidth",
    "DRAM GB/s of one launch of the longest kernels: counted bytes over the time of the counter run; without "
    "counters, the {compulsory bytes}, a lower bound.",
    "Bars short of the copy line leave bandwidth unused. The two means answer different questions: over "
    "launches, every launch counts the same; time-weighted, every microsecond does. {The study|the study}'s 57.5 % "
    "refers "
    "to the H100's 3350 GB/s.",
    "bytes: mambascope profile --metric-sets roofline (counted), or a store of our own models (compulsory)",
    false,
    NULL,
    fig4_columns,
    has_bandwidth,
    fig4_heading,
    fig4_numbers,
    fig4_draw,
    paint_legend
};

/* ---- bandwidth over time ---- */

static const mba_grid_column over_time_columns[] = { { "kernel", "kernel" },       { "class", "class" },
                                                     { "step_us", "µs per step" }, { "gb_s", "GB/s" },
                                                     { "step_mb", "MB per step" }, { 0 } };

static int fastest_first(const void *x, const void *y)
{
    const double a = rate_of(*(const mba_kernel_view *const *)x), b = rate_of(*(const mba_kernel_view *const *)y);
    return (a < b) - (a > b);
}

static mba_status choose_over_time(mba_chosen *c, const mba_stores *r, int run)
{
    MBA_TRY(mba_choose(c, r->run[run].a, has_rate, mba_marks_max(r, 50)));
    if (c->n) qsort(c->k, (size_t)c->n, sizeof *c->k, fastest_first);
    return MBA_OK;
}

static mba_status over_time_numbers(mba_grid *g, const mba_stores *r, int run)
{
    const mba_analysis *a = r->run[run].a;
    mba_chosen          c;
    MBA_TRY(choose_over_time(&c, r, run));
    for (int i = 0; i < c.n; i++) {
        mba_grid_text(g, mba_kernel_label(a, c.k[i], 60).s);
        mba_grid_text(g, mba_breakdown_kind_name(c.k[i]->kind));
        mba_grid_number(g, 1e6 * c.k[i]->per_step * seconds_of(c.k[i]));
        mba_grid_number(g, rate_of(c.k[i]) / 1e9);
        mba_grid_number(g, c.k[i]->per_step * bytes_of(c.k[i]) / 1e6);
    }
    free(c.k);
    return MBA_OK;
}

static void over_time_heading(mba_buf *b, const mba_stores *r, int run)
{
    const mba_bandwidth w = mba_bandwidth_of(r->run[run].a, MBA_ALL_KERNELS);
    mba_buf_add(b, "All kernels together: %s GB/s over launches, %s GB/s over time", mba_num(w.mean / 1e9).s,
                mba_num(w.weighted / 1e9).s);
}

static mba_status over_time_draw(mba_canvas *c, double w, const mba_stores *r, int run, int view)
{
    mba_assert(run >= 0 && run < r->n);
    const mba_analysis *a = r->run[run].a;
    const double        left = 52, right = w - 8, top = 18, bottom = 190,
                 weighted = mba_bandwidth_of(a, MBA_ALL_KERNELS).weighted / 1e9;
    mba_chosen chosen;
    double     all_us = 0, most = isnan(a->best.dram) ? 0 : a->best.dram, at = 0, tick[16];
    (void)view;
    MBA_TRY(choose_over_time(&chosen, r, run));
    for (int i = 0; i < chosen.n; i++)
        all_us += 1e6 * chosen.k[i]->per_step * seconds_of(chosen.k[i]), most = fmax(most, rate_of(chosen.k[i]));
    mba_svg         s = mba_svg_begin(c, w, bottom + 40, "Bandwidth over time: width is time, height GB/s, area bytes");
    const mba_scale x = mba_lin(0, all_us, left, right), y = mba_lin(0, most / 1e9, bottom, top);
    const int       n = mba_ticks(y, tick);
    for (int i = 0; i < n; i++) {
        mba_svg_line(&s, left, mba_at(y, tick[i]), right, mba_at(y, tick[i]), "g", NULL);
        mba_svg_text(&s, left - 5, mba_at(y, tick[i]) + 4, "t3", 'e', "%s", mba_num(tick[i]).s);
    }
    mba_svg_axis(&s, x, bottom, bottom,
                 s.narrow ? "time of a step by kernel, µs"
                          : "time of a step by kernel, sorted "
                            "by bandwidth, µs");
    mba_svg_text(&s, 0, 10, "t2", 's', "DRAM GB/s; area = bytes");
    for (int i = 0; i < chosen.n; i++) {
        const mba_kernel_view *k = chosen.k[i];
        const double           us = 1e6 * k->per_step * seconds_of(k), v = rate_of(k) / 1e9;
        const double           px = mba_at(x, at + us) - mba_at(x, at);
        const mba_name         name = mba_short(k->kind == MBA_GEMM && k->row->op ? k->row->op
                                                : k->row->name                    ? k->row->name
                                                                                  : "?",
                                        40);
        if (px >= 0.4)
            mba_svg_bar(&s, mba_at(x, at), mba_at(y, v), mba_at(x, at + us) - mba_at(x, at), bottom - mba_at(y, v),
                        "bar", mba_kind_paint(k->kind),
                        mba_tip(c, "%s|%s GB/s for %s µs of the step = %s MB", mba_kernel_label(a, k, 60).s,
                                mba_num(v).s, mba_num(us).s, mba_num(k->per_step * bytes_of(k) / 1e6).s),
                        NULL);
        if (px > MBA_LETTER * mba_characters(name.s) + 4 && bottom - mba_at(y, v) > 18)
            mba_svg_text(&s, mba_at(x, at) + px / 2, bottom - 6, mba_kind_is_light(k->kind) ? "inv2" : "inv", 'm', "%s",
                         name.s);
        at += us;
    }
    mba_svg_line(&s, left, mba_at(y, weighted), right, mba_at(y, weighted), "ref strong dash", NULL);
    mba_svg_text(&s, right - 2, mba_at(y, weighted) - 5, "t3 halo", 'e', "time-weighted mean %s", mba_num(weighted).s);
    mba_svg_end(&s);
    free(chosen.k);
    return MBA_OK;
}

const mba_figure mba_figure_bandwidth_time = {
    "bandwidth_time",
    "Bandwidth over time",
    "Bandwidth over time · kernels of a step",
    "Kernels of a step, sorted by bandwidth: the width is their time, the area is the bytes that they moved.",
    "A low wide block is where the step loses bandwidth. Short fast kernels lift the mean over launches, not the "
    "mean over time.",
    "bytes: mambascope profile --metric-sets roofline (counted), or a store of our own models (compulsory)",
    false,
    NULL,
    over_time_columns,
    has_bandwidth,
    over_time_heading,
    over_time_numbers,
    over_time_draw,
    paint_legend
};
