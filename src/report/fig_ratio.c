// SPDX-License-Identifier: Apache-2.0
/* fig_ratio.c -- Fig. 6: ratios of tensor, vector and special-function work against those of the hardware, and the four
 * floors of each kernel. Fig. 7: what binds, and the vector-bound share. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/figure.h"

enum { MOST = 24 };

static double hardware_special(const mba_analysis *a)
{
    return (isnan(a->sheet.tensor) ? a->best.tensor : a->sheet.tensor)
           / (isnan(a->sheet.special) ? a->best.special : a->sheet.special);
}

static double special_ratio(const mba_kernel_view *k) { return k->counted.tensor_flops / k->counted.special_ops; }

/* ---- Fig. 6: ratios ---- */

static bool has_ratio(const mba_kernel_view *k) { return !isnan(k->ratio_a) || !isnan(k->ratio_b); }
static bool has_ratios(const mba_stores *r, int run)
{
    return mba_any_kernel(r->run[run].a, has_ratio) && mba_hardware_ratio(r->run[run].a) > 0;
}

static const mba_grid_column fig6_columns[] = { { "kernel", "kernel" },
                                                { "kernel_class", "class" },
                                                { "ratio_a", "tensor : vector (a)" },
                                                { "ratio_b", "tensor : vector (b)" },
                                                { "ratio_special", "tensor : special" },
                                                { "hardware", "hardware (a)" },
                                                { "limits", "takes longer (a)" },
                                                { 0 } };

static mba_status fig6_numbers(mba_grid *g, const mba_stores *r, int run)
{
    mba_assert(run >= 0 && run < r->n);
    const mba_analysis *a = r->run[run].a;
    mba_chosen          c;
    MBA_TRY(mba_choose(&c, a, has_ratio, mba_marks_max(r, MOST)));
    for (int i = 0; i < c.n; i++) {
        mba_grid_text(g, mba_kernel_label(a, c.k[i], 60).s);
        mba_grid_text(g, mba_kernel_class_name(c.k[i]->cls));
        mba_grid_number(g, c.k[i]->ratio_a);
        mba_grid_number(g, c.k[i]->ratio_b);
        mba_grid_number(g, special_ratio(c.k[i]));
        mba_grid_number(g, mba_hardware_ratio(a));
        mba_grid_text(g, c.k[i]->ratio_a < mba_hardware_ratio(a) ? "vector" : "tensor");
    }
    free(c.k);
    return MBA_OK;
}

static void fig6_heading(mba_buf *b, const mba_stores *r, int run)
{
    const mba_analysis *a = r->run[run].a;
    int                 below = 0, slots = 0, mixed = 0;
    for (int64_t i = 0; i < a->nkernels; i++) {
        const mba_kernel_view *k = &a->kernel[i];
        if (k->launches <= 0 || k->cls != MBA_CLASS_MIXED || isnan(k->ratio_a)) continue;
        mixed++;
        below += k->ratio_a < mba_hardware_ratio(a);
        slots += k->ratio_b < mba_hardware_ratio(a);
    }
    if (!mixed) {
        mba_buf_put(b, "No kernel is mixed: none does comparable tensor and vector work");
        return;
    }
    mba_buf_add(
        b,
        "Vector work takes longer than tensor work in %d of %d mixed kernels by arithmetic, in %d by issue slots: "
        "their ratio is below the hardware's %s : 1",
        below, mixed, slots, mba_num(mba_hardware_ratio(a)).s);
}

/* Draws the hardware's ratio of tensor FLOPs to special functions, for the triangles. `other`: x of the other line. */
static void draw_special_line(mba_svg *s, mba_scale x, const mba_lanes *lanes, const mba_analysis *a, double other)
{
    const double v = hardware_special(a), at = mba_at(x, v);
    if (!(v > x.lo && v < x.hi)) return;
    mba_svg_line(s, at, lanes->top - 4, at, lanes->bottom, "ref dash", NULL);
    if (!s->narrow && at - other > 160) mba_svg_text(s, at, lanes->top - 11, "t3", 'm', "▲ %s : 1", mba_num(v).s);
}

static mba_status fig6_draw(mba_canvas *c, double w, const mba_stores *r, int run, int view)
{
    mba_assert(run >= 0 && run < r->n);
    mba_assert(run >= 0 && run < r->n);
    const mba_analysis *a = r->run[run].a;
    const double        hardware = mba_hardware_ratio(a);
    mba_range           seen = { NAN, NAN };
    mba_chosen          chosen;
    (void)view;
    MBA_TRY(mba_choose(&chosen, a, has_ratio, mba_marks_max(r, MOST)));
    for (int i = 0; i < chosen.n; i++)
        mba_range_extend(&seen, chosen.k[i]->ratio_a), mba_range_extend(&seen, chosen.k[i]->ratio_b),
            mba_range_extend(&seen, special_ratio(chosen.k[i]));
    mba_range_extend(&seen, hardware / 4);
    mba_range_extend(&seen, 4 * hardware);
    seen = mba_decades(seen, 1, 1000);
    const mba_lanes lanes = mba_lanes_for(w, chosen.n, 42, 22);
    mba_svg         s = mba_svg_begin(c, w, lanes.bottom + 40, "Tensor to vector and tensor to special-function ratio");
    const mba_scale x = mba_log(seen.lo, seen.hi, lanes.left, w - 10);
    const double    at = mba_at(x, hardware);
    mba_svg_axis(&s, x, lanes.top - 4, lanes.bottom, "tensor FLOP per vector FLOP or special function (log)");
    mba_svg_shade(&s, x.a, lanes.top - 4, at - x.a, lanes.bottom - lanes.top + 4, "vector");
    mba_svg_line(&s, at, lanes.top - 4, at, lanes.bottom, "ref", NULL);
    mba_svg_text(&s, at, lanes.top - 26, "b", 'm', "hardware %s : 1", mba_num(hardware).s);
    mba_svg_text(&s, at - 5, lanes.top - 11, "t3", 'e', "← vector longer");
    mba_svg_text(&s, at + 5, lanes.top - 11, "t3", 's', "tensor longer →");
    draw_special_line(&s, x, &lanes, a, at);
    for (int i = 0; i < chosen.n; i++) {
        const mba_kernel_view *k = chosen.k[i];
        const double           y = mba_lanes_at(&lanes, i);
        const mba_name         name = mba_kernel_label(a, k, 60);
        mba_lanes_label(&s, &lanes, i, a, k);
        if (k->ratio_a > 0 && k->ratio_b > 0)
            mba_svg_line(&s, mba_at(x, k->ratio_a), y, mba_at(x, k->ratio_b), y, "stem", NULL);
        if (special_ratio(k) > 0 && isfinite(special_ratio(k)))
            mba_svg_mark(&s, MBA_TRIANGLE, mba_at(x, special_ratio(k)), y, 4.6, "sfu", false,
                         mba_tip(c, "%s · tensor : special functions|%s : 1", name.s, mba_num(special_ratio(k)).s),
                         NULL);
        if (k->ratio_b > 0)
            mba_svg_mark(&s, MBA_DIAMOND, mba_at(x, k->ratio_b), y, 4.6, "ssm", false,
                         mba_tip(c,
                                 "%s · rule (b), "
                                 "issue slots × 2|%s : 1",
                                 name.s, mba_num(k->ratio_b).s),
                         NULL);
        if (k->ratio_a > 0)
            mba_svg_mark(&s, MBA_CIRCLE, mba_at(x, k->ratio_a), y, 4.8, "gemm", false,
                         mba_tip(c,
                                 "%s · rule (a), "
                                 "arithmetic|%s : 1, %s kernel",
                                 name.s, mba_num(k->ratio_a).s, mba_kernel_class_name(k->cls)),
                         NULL);
    }
    mba_svg_end(&s);
    free(chosen.k);
    return MBA_OK;
}

static void fig6_legend(mba_buf *b, const mba_stores *r, int run)
{
    (void)r, (void)run;
    mba_legend_mark(b, "●", "tensor : vector by rule (a), arithmetic FLOPs");
    mba_legend_mark(b, "◆", "by rule (b), issue slots × 2");
    mba_legend_mark(b, "▲", "tensor : special functions");
}

const mba_figure mba_figure_fig6 = {
    "fig6",
    "Tensor : vector",
    "Fig. 6 · tensor : vector : special functions",
    "Executed tensor FLOPs per vector FLOP of kernels that do both, by two counting rules; log axis.",
    "{Mixed kernel|mixed kernel}: its FMA pipe is at least half as busy as its tensor pipe. Left of the hardware line, "
    "vector "
    "work takes longer than tensor work. Rule (b) also counts conversions, selects and integer work, because "
    "they occupy the same lanes. The dashed line is the hardware's ratio for special functions.",
    "counters of kernels with tensor work, on a GPU: mambascope profile --metric-sets roofline,pipes",
    false,
    NULL,
    fig6_columns,
    has_ratios,
    fig6_heading,
    fig6_numbers,
    fig6_draw,
    fig6_legend
};

/* ---- the four floors ---- */

static bool has_floor(const mba_kernel_view *k) { return k->least_s > 0 && k->median_s > 0; }
static bool has_floors(const mba_stores *r, int run) { return mba_any_kernel(r->run[run].a, has_floor); }

static const mba_grid_column floor_columns[] = { { "kernel", "kernel" },
                                                 { "time_us", "measured, µs" },
                                                 { "memory_us", "memory, µs" },
                                                 { "tensor_us", "tensor, µs" },
                                                 { "vector_us", "vector, µs" },
                                                 { "special_us", "special, µs" },
                                                 { "floor_by", "floor set by" },
                                                 { "percent_of_floor", "% of floor" },
                                                 { "busiest", "busiest unit" },
                                                 { "busiest_pct", "%" },
                                                 { 0 } };

static mba_status floor_numbers(mba_grid *g, const mba_stores *r, int run)
{
    const mba_analysis *a = r->run[run].a;
    mba_chosen          c;
    MBA_TRY(mba_choose(&c, a, has_floor, mba_marks_max(r, MOST)));
    for (int i = 0; i < c.n; i++) {
        const mba_kernel_view *k = c.k[i];
        mba_grid_text(g, mba_kernel_label(a, k, 60).s);
        mba_grid_number(g, 1e6 * k->median_s);
        for (int f = 0; f < MBA_FLOORS; f++) mba_grid_number(g, 1e6 * k->floor_s[f]);
        mba_grid_text(g, mba_floor_name(k->bound));
        mba_grid_number(g, 100 * k->least_s / k->median_s);
        mba_grid_text(g, k->busiest);
        mba_grid_number(g, k->busiest_pct);
    }
    free(c.k);
    return MBA_OK;
}

static void floor_heading(mba_buf *b, const mba_stores *r, int run)
{
    const mba_bounds all = mba_bounds_of(r->run[run].a, MBA_ALL_KERNELS),
                     ssm = mba_bounds_of(r->run[run].a, MBA_SSM_KERNELS);
    mba_buf_add(b, "The kernels of a step run at %s %% of their floors", mba_num(all.percent_of_floor).s);
    if (!isnan(ssm.percent_of_floor)) mba_buf_add(b, ", SSM kernels at %s %%", mba_num(ssm.percent_of_floor).s);
}

static mba_status floor_draw(mba_canvas *c, double w, const mba_stores *r, int run, int view)
{
    mba_assert(run >= 0 && run < r->n);
    static const struct {
        mba_shape   shape;
        const char *paint, *text;
    } by[MBA_FLOORS] = { [MBA_BY_MEMORY] = { MBA_SQUARE, "memory", "memory" },
                         [MBA_BY_TENSOR] = { MBA_CIRCLE, "tensor", "tensor" },
                         [MBA_BY_VECTOR] = { MBA_DIAMOND, "vector", "vector" },
                         [MBA_BY_SPECIAL] = { MBA_TRIANGLE, "sfu", "special-function" } };
    const mba_analysis *a = r->run[run].a;
    mba_range           seen = { NAN, NAN };
    mba_chosen          chosen;
    (void)view;
    MBA_TRY(mba_choose(&chosen, a, has_floor, mba_marks_max(r, MOST)));
    for (int i = 0; i < chosen.n; i++)
        mba_range_extend(&seen, 1e6 * chosen.k[i]->median_s), mba_range_extend(&seen, 1e6 * chosen.k[i]->least_s);
    seen = mba_decades(seen, 1, 1000);
    seen.lo = fmax(seen.lo / 10, seen.hi * 1e-6);
    const mba_lanes lanes = mba_lanes_for(w, chosen.n, 10, 20);
    mba_svg         s = mba_svg_begin(c, w, lanes.bottom + 40, "Four floors and the measured time of each kernel");
    const mba_scale x = mba_log(seen.lo, seen.hi, lanes.left, w - 12);
    mba_svg_axis(&s, x, lanes.top - 4, lanes.bottom, "µs of a launch (log)");
    for (int i = 0; i < chosen.n; i++) {
        const mba_kernel_view *k = chosen.k[i];
        const double           y = mba_lanes_at(&lanes, i), us = 1e6 * k->median_s;
        const mba_name         name = mba_kernel_label(a, k, 60);
        mba_lanes_label(&s, &lanes, i, a, k);
        mba_svg_line(&s, mba_at(x, 1e6 * k->least_s), y, mba_at(x, us), y, "stem", NULL);
        for (int f = 0; f < MBA_FLOORS; f++) {
            const double v = 1e6 * k->floor_s[f];
            if (v >= x.lo)
                mba_svg_mark(&s, by[f].shape, mba_at(x, v), y, 4.4, by[f].paint, false,
                             mba_tip(c,
                                     "%s|%s floor %s µs, "
                                     "%s %% of measured",
                                     name.s, by[f].text, mba_num(v).s, mba_num(100 * v / us).s),
                             NULL);
        }
        if (k->p90_s > k->p10_s)
            mba_svg_line(&s, mba_at(x, 1e6 * k->p10_s), y, mba_at(x, 1e6 * k->p90_s), y, "ref", NULL);
        mba_svg_bar(&s, mba_at(x, us) - 1.5, y - 8, 3, 16, "", "measured",
                    mba_tip(c, "%s · measured|%s µs (p10 to p90 %s to %s); floor %s µs by %s = %s %%%s", name.s,
                            mba_num(us).s, mba_num(1e6 * k->p10_s).s, mba_num(1e6 * k->p90_s).s,
                            mba_num(1e6 * k->least_s).s, mba_floor_name(k->bound),
                            mba_num(100 * k->least_s / k->median_s).s,
                            k->from_counters ? "|floor of the "
                                               "executed work: the least work is unknown"
                                             : ""),
                    NULL);
    }
    mba_svg_end(&s);
    free(chosen.k);
    return MBA_OK;
}

static void floor_legend(mba_buf *b, const mba_stores *r, int run)
{
    (void)r, (void)run;
    mba_legend_item(b, "memory", "■ bytes / DRAM");
    mba_legend_item(b, "tensor", "● tensor");
    mba_legend_item(b, "vector", "◆ vector");
    mba_legend_item(b, "sfu", "▲ special functions");
    mba_legend_item(b, "measured", "▮ measured: median, line from p10 to p90");
}

const mba_figure mba_figure_roofline_time = {
    "roofline_time",
    "Floors",
    "Floors · measured time and the four floors",
    "The floor of a launch by each resource, from {least work} and {ceilings|ceiling}, and its median time on the "
    "timeline.",
    "The rightmost floor is the {kernel floor}; the line to the measured tick is what could be saved. \"{Floor "
    "set by|floor set by}\" is about work, \"{limited by}\" about the run; the table has both."
    "",
    "least work and ceilings: mambascope profile --model NAME --out run.db",
    false,
    NULL,
    floor_columns,
    has_floors,
    floor_heading,
    floor_numbers,
    floor_draw,
    floor_legend
};

/* ---- Fig. 7: what sets the floors, and vector against tensor work ---- */

static const mba_grid_column fig7_columns[] = {
    { "kernels", "kernels" }, { "reading", "reading" }, { "percent", "% of their time" }, { 0 }
};

typedef struct reading {
    char        text[96];
    double      share;
    const char *paint;
} reading;
enum { READINGS = MBA_FLOORS + 4 };

static int readings_of(reading *out, const mba_analysis *a, mba_group_of g)
{
    static const char *const paint[] = { "memory", "tensor", "vector", "sfu" };
    const mba_bounds         b = mba_bounds_of(a, g);
    const mba_vector_bound   v = mba_vector_bound_of(a, g);
    const struct {
        const char *text;
        double      share;
    } mixed[] = { { "mixed: vector floor above tensor floor (a)", v.floor_a },
                  { "mixed: vector floor above tensor floor (b)", v.floor_b },
                  { "mixed: FMA pipe busier than tensor pipe", v.pipe_fma },
                  { "mixed: busiest vector pipe above tensor pipe", v.pipe_any } };
    int n = 0;
    for (int f = 0; f < MBA_FLOORS; f++) {
        if (isnan(b.share[f])) continue;
        out[n].share = b.share[f], out[n].paint = paint[f];
        snprintf(out[n++].text, sizeof out->text, "floor set by %s", mba_floor_words((mba_floor)f));
    }
    for (int i = 0; i < 4 && g != MBA_GEMM_KERNELS; i++) {
        if (isnan(mixed[i].share)) continue;
        out[n].share = mixed[i].share, out[n].paint = "mixed";
        snprintf(out[n++].text, sizeof out->text, "%s", mixed[i].text);
    }
    mba_assert(n <= READINGS);
    return n;
}

static mba_status fig7_numbers(mba_grid *g, const mba_stores *r, int run)
{
    mba_assert(run >= 0 && run < r->n);
    for (int group = 0; group < MBA_KERNEL_GROUPS; group++) {
        reading   all[READINGS];
        const int n = readings_of(all, r->run[run].a, (mba_group_of)group);
        for (int i = 0; i < n; i++) {
            mba_grid_text(g, mba_group_name((mba_group_of)group));
            mba_grid_text(g, all[i].text);
            mba_grid_number(g, 100 * all[i].share);
        }
    }
    return MBA_OK;
}

/* The heading answers two questions: vector against tensor work alone (the study's), and which of four resources
 * sets the floor. */
static void fig7_heading(mba_buf *b, const mba_stores *r, int run)
{
    const mba_vector_bound v = mba_vector_bound_of(r->run[run].a, MBA_SSM_KERNELS);
    const mba_bounds       s = mba_bounds_of(r->run[run].a, MBA_SSM_KERNELS);
    const double           all[] = { v.floor_a, v.floor_b, v.pipe_fma, v.pipe_any };
    double                 least = NAN, most = NAN;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) least = fmin(least, all[i]), most = fmax(most, all[i]);
    if (isnan(s.percent_of_floor)) {
        mba_buf_put(b, "What sets the floors of the kernels");
        return;
    }
    if (!isnan(v.floor_a) && most - least > 0.005)
        mba_buf_add(b,
                    "Vector work takes longer than tensor work in mixed SSM kernels for %s to %s %% of their time: the "
                    "counting rule decides. ",
                    mba_num(100 * least).s, mba_num(100 * most).s);
    else if (!isnan(v.floor_a))
        mba_buf_add(b, "Vector work takes longer than tensor work in mixed SSM kernels for %s %% of their time by %s. ",
                    mba_num(100 * most).s, isnan(v.pipe_any) ? "their floors" : "every counting rule");
    mba_buf_add(b, "SSM time by what sets the floor: memory %s %%, tensor %s %%, vector %s %%, special functions %s %%",
                mba_num(100 * s.share[MBA_BY_MEMORY]).s, mba_num(100 * s.share[MBA_BY_TENSOR]).s,
                mba_num(100 * s.share[MBA_BY_VECTOR]).s, mba_num(100 * s.share[MBA_BY_SPECIAL]).s);
}

/* The readings of a group that answer one question: the floors, or those of mixed kernels. */
typedef struct question {
    const char *words;
    int         from, to;
} question;

static int questions_of(question out[2], const reading *all, int n)
{
    int floors = 0;
    while (floors < n && !strncmp(all[floors].text, "floor", 5)) floors++;
    out[0] = (question){ "by what sets the floor", 0, floors };
    out[1] = (question){ "the mixed ones, vector against tensor", floors, n };
    mba_assert(floors <= MBA_FLOORS);
    return n > floors ? 2 : 1;
}

static void fig7_bar(mba_svg *s, mba_scale x, double y, mba_group_of g, const reading *one)
{
    const double v = 100 * one->share, top = s->narrow ? y + 17 : y + 3;
    mba_svg_text(s, s->narrow ? 0 : x.a - 10, s->narrow ? y + 12 : y + 14, "halo", s->narrow ? 's' : 'e', "%s",
                 one->text);
    mba_svg_bar(s, x.a, top, fmax(1, mba_at(x, v) - x.a), 13, "bar", one->paint,
                mba_tip(s->c, "%s kernels|%s: %s %% of their time", mba_group_name(g), one->text, mba_num(v).s), NULL);
    mba_svg_text(s, mba_at(x, v) + 5, top + 11, "t2 halo", 's', "%s", mba_num(v).s);
}

static mba_status fig7_draw(mba_canvas *c, double w, const mba_stores *r, int run, int view)
{
    mba_assert(run >= 0 && run < r->n);
    const bool   narrow = w <= MBA_NARROW;
    const double left = narrow ? 0 : 330, rh = narrow ? 36 : 20, head = 20;
    double       y = 20, height = 0;
    reading      all[MBA_KERNEL_GROUPS][READINGS];
    question     asked[MBA_KERNEL_GROUPS][2];
    int          n[MBA_KERNEL_GROUPS], questions[MBA_KERNEL_GROUPS];
    (void)view;
    for (int g = 0; g < MBA_KERNEL_GROUPS; g++) {
        n[g] = readings_of(all[g], r->run[run].a, (mba_group_of)g);
        questions[g] = questions_of(asked[g], all[g], n[g]);
        height += rh * n[g] + head * questions[g];
    }
    mba_assert(run >= 0 && run < r->n && height > 0);
    mba_svg         s = mba_svg_begin(c, w, 20 + height + 40,
                                      "What sets the floors of the kernels, percent of the group's time");
    const mba_scale x = mba_lin(0, 100, left, w - 44);
    mba_svg_axis(&s, x, 16, 20 + height, "% of the time of the group");
    const bool study = !isnan(r->run[run].a->best.tensor);
    if (study) mba_svg_text(&s, mba_at(x, 89) - 4, 12, "t3", 'e', "shaded: the study, mixed kernels, 89–92 %%");
    for (int g = 0; g < MBA_KERNEL_GROUPS; g++)
        for (int q = 0; q < questions[g]; q++) {
            mba_svg_text(&s, 0, y + 15, "b halo", 's', "%s: %s",
                         g == MBA_ALL_KERNELS   ? "all"
                         : g == MBA_SSM_KERNELS ? "SSM"
                                                : "GEMM",
                         asked[g][q].words);
            y += head;
            if (study && q)
                mba_svg_shade(&s, mba_at(x, 89), y, mba_at(x, 92) - mba_at(x, 89),
                              rh * (asked[g][q].to - asked[g][q].from), "norm");
            for (int i = asked[g][q].from; i < asked[g][q].to; i++, y += rh)
                fig7_bar(&s, x, y, (mba_group_of)g, &all[g][i]);
        }
    mba_svg_end(&s);
    return MBA_OK;
}

static bool has_bounds(const mba_stores *r, int run)
{
    return !isnan(mba_bounds_of(r->run[run].a, MBA_ALL_KERNELS).percent_of_floor);
}

const mba_figure mba_figure_fig7 = {
    "fig7",
    "Vector-bound share",
    "Fig. 7 · vector-bound share",
    "Share of the time in kernels whose floor each resource sets, and of {mixed kernels|mixed kernel} in which vector "
    "work takes longer than tensor work, by each rule ({vector-bound share}).",
    "The figure answers two questions. {Floor set by|floor set by}: which of four resources, including memory, needs "
    "most time for a kernel's work. Vector against tensor (the study's question, card F7): which of the two takes "
    "longer in kernels "
    "that do both, regardless of memory. {Floors|kernel floor} use {least work}; pipes use counters. Where the rules "
    "disagree, "
    "the claim depends on the convention.",
    "least work and ceilings; for mixed kernels: mambascope profile --metric-sets roofline,pipes",
    false,
    NULL,
    fig7_columns,
    has_bounds,
    fig7_heading,
    fig7_numbers,
    fig7_draw,
    NULL
};
