// SPDX-License-Identifier: Apache-2.0
/* fig_ladder.c -- two open questions of the study, answered by one model at one size with other kernels for SSD: do
 * persistent blocks help (Q1), and what does fusing kernels give (Q3). Both are compared with the study's division of
 * work, one kernel for each step of SSD. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "report/questions.h"
#include "report/ssm_runs.h"

static const char BASELINE[] = "chunked";

/* ---- the runs of a ladder ---- */

enum { RUNGS_MAX = 8, GROUPS_MAX = 4 };

/* Runs of one model at one size: the baseline first, then the others in the order of the question. */
typedef struct ladder {
    int run[RUNGS_MAX], n;
} ladder;

/* Prefixes of the variants that belong to a question, the baseline first; NULL at the end. */
typedef const char *const question_variants[];
static question_variants  persistent_variants = { BASELINE, "persistent", NULL }; // all three of them
static question_variants  fusion_variants = { BASELINE, "bc_fused", "fused", NULL };

static bool is_new_group(const mba_stores *r, const ladder *all, int n, int run)
{
    for (int i = 0; i < n; i++) {
        const mba_run *first = &r->run[all[i].run[0]];
        if (mba_same_model(first, &r->run[run]) && mba_same_size(first, &r->run[run])) return false;
    }
    return true;
}

/* All ladders: a baseline and at least one other variant. Several runs of the same variants: the first. */
static int ladders_of(ladder out[GROUPS_MAX], const mba_stores *r, question_variants *variants)
{
    int n = 0;
    for (int i = 0; i < r->n && n < GROUPS_MAX; i++) {
        if (!mba_has_variant(r->run[i].a, (*variants)[0]) || !is_new_group(r, out, n, i)) continue;
        ladder l = { { i }, 1 };
        for (int v = 1; (*variants)[v]; v++)
            for (int k = 0; k < r->n && l.n < RUNGS_MAX; k++) {
                bool known = k == i || !mba_has_variant(r->run[k].a, (*variants)[v])
                             || !mba_same_model(&r->run[i], &r->run[k]) || !mba_same_size(&r->run[i], &r->run[k]);
                for (int j = 0; j < l.n && !known; j++)
                    known = !strcmp(mba_variants_of(r->run[l.run[j]].a).s, mba_variants_of(r->run[k].a).s);
                if (!known) l.run[l.n++] = k;
            }
        if (l.n > 1) out[n++] = l;
    }
    return n;
}

/* The ladder that is drawn and answers: the one with most variants, then with the largest step. */
static ladder chosen(const mba_stores *r, question_variants *variants)
{
    ladder    all[GROUPS_MAX];
    const int n = ladders_of(all, r, variants);
    int       best = 0;
    for (int i = 1; i < n; i++) {
        const bool larger = r->run[all[i].run[0]].a->units > r->run[all[best].run[0]].a->units;
        if (all[i].n > all[best].n || (all[i].n == all[best].n && larger)) best = i;
    }
    return n ? all[best] : (ladder){ .n = 0 };
}

/* ---- what is compared ---- */

static double life_us(const mba_analysis *a) { return 1e6 * mba_ssm_of(a).block_s; }
static double dram_gb(const mba_analysis *a) { return 1e-9 * mba_ssm_of(a).bytes; }
static double l2_gb(const mba_analysis *a) { return 1e-9 * mba_ssm_of(a).l2_bytes; }
static double ssm_ms(const mba_analysis *a) { return 1e3 * mba_kind_s(a, MBA_SSM); }
static double step_ms(const mba_analysis *a) { return 1e3 * a->plain_s; }
static double counted_ms(const mba_analysis *a) { return 1e3 * mba_ssm_of(a).counted_s; }

static double phase_ms(const mba_analysis *a, const char *phase)
{
    for (int p = 0; p < MBA_PHASES; p++)
        if (!strcmp(mba_phase_name(p), phase)) return 1e3 * a->time_s[MBA_SSM][p];
    return NAN;
}
static double forward_ms(const mba_analysis *a) { return phase_ms(a, "forward"); }
static double backward_ms(const mba_analysis *a) { return phase_ms(a, "backward"); }

static double launches(const mba_analysis *a)
{
    double n = 0;
    for (int p = 0; p < MBA_PHASES; p++) n += a->launches[MBA_SSM][p];
    return n;
}

typedef struct aspect {
    const char *what, *unit;
    double (*of)(const mba_analysis *a);
} aspect;
enum { ASPECTS = 6 };
/* Lifetime, bytes, time and so bandwidth by counters; only then do bytes over time give the bandwidth. In the step: by
 * the timeline, at whatever clock that run had. */
static const aspect persistent_aspects[ASPECTS] = {
    { "block lifetime, mean", "µs", life_us }, { "DRAM traffic of SSM", "GB", dram_gb },
    { "time of SSM", "ms", counted_ms },       { "DRAM bandwidth", "GB/s", mba_ssm_gb_s },
    { "SSM in the step", "ms", ssm_ms },       { "whole step", "ms", step_ms }
};
static const aspect fusion_aspects[ASPECTS] = {
    { "SSM operators, forward", "ms", forward_ms }, { "SSM operators, backward", "ms", backward_ms },
    { "launches of SSM kernels", "", launches },    { "DRAM traffic of SSM", "GB", dram_gb },
    { "L2 traffic of SSM", "GB", l2_gb },           { "whole step", "ms", step_ms }
};

static double times(const mba_stores *r, const ladder *l, int rung, double (*of)(const mba_analysis *a))
{
    mba_assert(rung > 0 && rung < l->n);
    return of(r->run[l->run[rung]].a) / of(r->run[l->run[0]].a);
}

/* ---- table and drawing ---- */

#define LADDER_COLUMNS \
    { "run", "run" }, { "variants", "SSM operators by" }, { "units", "units a step" }

static const mba_grid_column persistent_columns[] = { LADDER_COLUMNS,
                                                      { "block_us", "block lifetime, µs" },
                                                      { "dram_gb", "DRAM, GB a step" },
                                                      { "counted_ms", "SSM by counters, ms" },
                                                      { "dram_gb_s", "DRAM, GB/s" },
                                                      { "ssm_ms", "SSM in the step, ms" },
                                                      { "step_ms", "step, ms" },
                                                      { "forward_ms", "SSM forward, ms" },
                                                      { "backward_ms", "SSM backward, ms" },
                                                      { "ssm_faster", "SSM in the step, × the baseline" },
                                                      { 0 } };
static const mba_grid_column fusion_columns[] = { LADDER_COLUMNS,
                                                  { "forward_ms", "SSM forward, ms" },
                                                  { "backward_ms", "SSM backward, ms" },
                                                  { "launches", "SSM launches" },
                                                  { "dram_gb", "DRAM, GB a step" },
                                                  { "l2_gb", "L2, GB a step" },
                                                  { "step_ms", "step, ms" },
                                                  { "ssm_ms", "SSM, ms" },
                                                  { "ssm_faster", "SSM, × the baseline" },
                                                  { 0 } };

/* `more`: further columns behind the aspects; NULL at the end. */
typedef double (*const more_columns[])(const mba_analysis *a);
static more_columns persistent_more = { forward_ms, backward_ms, NULL }, fusion_more = { ssm_ms, NULL };

static void add_ladders(mba_grid *g, const mba_stores *r, question_variants *variants, const aspect *what,
                        more_columns *more)
{
    ladder    all[GROUPS_MAX];
    const int n = ladders_of(all, r, variants);
    for (int i = 0; i < n; i++)
        for (int k = 0; k < all[i].n; k++) {
            const mba_analysis *a = r->run[all[i].run[k]].a;
            mba_grid_text(g, mba_run_label(r, all[i].run[k]));
            mba_grid_text(g, mba_variants_of(a).s);
            mba_grid_number(g, a->units);
            for (int j = 0; j < ASPECTS; j++) mba_grid_number(g, what[j].of(a));
            for (int j = 0; (*more)[j]; j++) mba_grid_number(g, (*more)[j](a));
            mba_grid_number(g, ssm_ms(r->run[all[i].run[0]].a) / ssm_ms(a));
        }
}

/* The variant of ssd, which names the whole set. */
static mba_word variant_word(const mba_analysis *a)
{
    mba_word       w = { "" };
    const mba_name all = mba_variants_of(a);
    const char    *at = strchr(all.s, ' ');
    if (at) snprintf(w.s, sizeof w.s, "%.*s", (int)strcspn(at + 1, ","), at + 1);
    return w;
}

static const char *const paints[RUNGS_MAX] = { "mem", "ssm", "gemm", "norm", "msg", "conv", "attn", "elt" };

static void draw_ladder(mba_canvas *c, double w, const mba_stores *r, const ladder *l, const aspect *what,
                        const char *label)
{
    const bool   narrow = w <= MBA_NARROW;
    const double left = narrow ? 0 : 190, bar = 15, rh = bar * l->n + (narrow ? 30 : 14);
    mba_svg      s = mba_svg_begin(c, w, 8 + rh * ASPECTS, label);
    for (int i = 0; i < ASPECTS; i++) {
        const double y = 6 + rh * i, top = y + (narrow ? 18 : 4);
        double       most = 0;
        for (int k = 0; k < l->n; k++) most = fmax(most, what[i].of(r->run[l->run[k]].a));
        const mba_scale x = mba_lin(0, most > 0 ? most : 1, left, w - 150);
        mba_svg_text(&s, narrow ? 0 : left - 10, narrow ? y + 12 : top + bar * l->n / 2 + 3, "halo", narrow ? 's' : 'e',
                     "%s", what[i].what);
        for (int k = 0; k < l->n; k++) {
            const mba_analysis *a = r->run[l->run[k]].a;
            const double        v = what[i].of(a), width = isnan(v) ? 0 : mba_at(x, v) - x.a;
            mba_svg_bar(&s, x.a, top + bar * k, fmax(1, width), bar - 2, "", paints[k],
                        mba_tip(c, "%s · %s|%s %s|%s", mba_run_label(r, l->run[k]), what[i].what, mba_num(v).s,
                                what[i].unit, mba_variants_of(a).s),
                        NULL);
            if (k && !isnan(times(r, l, k, what[i].of)))
                mba_svg_text(&s, x.a + width + 5, top + bar * k + 11, "", 's', "%s %s, × %s", mba_num(v).s,
                             what[i].unit, mba_num(times(r, l, k, what[i].of)).s);
            else mba_svg_text(&s, x.a + width + 5, top + bar * k + 11, "", 's', "%s %s", mba_num(v).s, what[i].unit);
        }
    }
    mba_svg_end(&s);
}

static void legend_of(mba_buf *b, const mba_stores *r, const ladder *l)
{
    for (int k = 0; k < l->n; k++) {
        char text[160];
        snprintf(text, sizeof text, "%s%s", variant_word(r->run[l->run[k]].a).s, k ? "" : " (baseline)");
        mba_legend_item(b, paints[k], text);
    }
}

/* ---- Q1 ---- */

/* Persistent blocks help if SSM kernels take at most this part of their time, by counters. */
static const double HELPS = 0.95;

static bool has_persistent(const mba_stores *r, int run)
{
    (void)run;
    return chosen(r, &persistent_variants).n > 1;
}

static mba_status persistent_numbers(mba_grid *g, const mba_stores *r, int run)
{
    (void)run;
    add_ladders(g, r, &persistent_variants, persistent_aspects, &persistent_more);
    return MBA_OK;
}

/* The least and most of an aspect over all rungs, × the baseline. */
static mba_range times_of_all(const mba_stores *r, const ladder *l, double (*of)(const mba_analysis *a))
{
    mba_range all = { NAN, NAN };
    for (int k = 1; k < l->n; k++) mba_range_extend(&all, times(r, l, k, of));
    return all;
}

/* "0.99–1.12", or one number where both ends read alike; with two digits or two decimals. */
static void say_range(mba_buf *b, mba_range x, bool two_digits)
{
    char low[16], high[16];
    snprintf(low, sizeof low, "%.2f", x.lo);
    snprintf(high, sizeof high, "%.2f", x.hi);
    if (two_digits) {
        snprintf(low, sizeof low, "%.15s", mba_two_digits(x.lo).s);
        snprintf(high, sizeof high, "%.15s", mba_two_digits(x.hi).s);
    }
    mba_buf_put(b, low);
    if (strcmp(low, high)) mba_buf_add(b, "–%s", high);
}

static void persistent_heading(mba_buf *b, const mba_stores *r, int run)
{
    const ladder l = chosen(r, &persistent_variants);
    int          best = 1, help = 0;
    (void)run;
    mba_assert(l.n > 1);
    for (int k = 1; k < l.n; k++) {
        help += times(r, &l, k, counted_ms) <= HELPS;
        if (times(r, &l, k, counted_ms) < times(r, &l, best, counted_ms)) best = k;
    }
    if (l.n == 2) mba_buf_put(b, help ? "Yes: their blocks" : "No: their blocks");
    else if (!help) mba_buf_add(b, "No, in none of %d ways to take tiles: blocks", l.n - 1);
    else mba_buf_add(b, "Yes, in %d of %d ways to take tiles: blocks", help, l.n - 1);
    mba_buf_put(b, " live ");
    say_range(b, times_of_all(r, &l, life_us), true);
    mba_buf_put(b, " × as long, and SSM kernels move ");
    say_range(b, times_of_all(r, &l, dram_gb), false);
    mba_buf_put(b, " × the bytes in ");
    say_range(b, times_of_all(r, &l, counted_ms), false);
    mba_buf_put(b, " × the time, at ");
    say_range(b, times_of_all(r, &l, mba_ssm_gb_s), false);
    mba_buf_put(b, " × the bandwidth (all by counters; in the step ");
    say_range(b, times_of_all(r, &l, ssm_ms), false);
    mba_buf_put(b, " × the time)");
    if (l.n > 2) mba_buf_add(b, "; best: %s", variant_word(r->run[l.run[best]].a).s);
}

static mba_status persistent_draw(mba_canvas *c, double w, const mba_stores *r, int run, int view)
{
    const ladder l = chosen(r, &persistent_variants);
    (void)run, (void)view;
    draw_ladder(c, w, r, &l, persistent_aspects, "SSD with short-lived and with persistent blocks");
    return MBA_OK;
}

static void persistent_legend(mba_buf *b, const mba_stores *r, int run)
{
    const ladder l = chosen(r, &persistent_variants);
    (void)run;
    legend_of(b, r, &l);
}

const mba_figure mba_figure_persistent = {
    "persistent",
    "Persistent blocks",
    "Q1 · persistent blocks",
    "One model at one size with the study's division of work, and with the same kernels whose blocks stay and take one "
    "tile after another; each row has its own scale, × is against the baseline.",
    "The study supposes that short lives of blocks keep bandwidth low (claim F5). With `persistent` only the lifetime "
    "differs: its tiles are assigned to blocks beforehand, and the bytes are equal. In `persistent_dynamic` a block "
    "takes its next tile from a counter; in `persistent_prefetch` it prefetches the inputs of its next tile into L2. "
    "The lifetime is the mean of the kernels' means, weighted by their times. Lifetime, bytes, time and bandwidth are "
    "those of the counter runs, one launch at a time; SSM in the step is on the timeline, at the clock of that run. "
    "Fig. 5 has the lifetimes of all kernels.",
    "two stores of one model and size with counters, parts baseline and persistent of mambascope suite --full --device "
    "cuda; or mambascope profile --op ssd=persistent,ssd_bwd=persistent",
    true,
    NULL,
    persistent_columns,
    has_persistent,
    persistent_heading,
    persistent_numbers,
    persistent_draw,
    persistent_legend
};

/* ---- Q3 ---- */

static bool has_fusion(const mba_stores *r, int run)
{
    (void)run;
    return chosen(r, &fusion_variants).n > 1;
}

static mba_status fusion_numbers(mba_grid *g, const mba_stores *r, int run)
{
    (void)run;
    add_ladders(g, r, &fusion_variants, fusion_aspects, &fusion_more);
    return MBA_OK;
}

static int rung_of(const mba_stores *r, const ladder *l, const char *prefix)
{
    for (int k = 1; k < l->n; k++)
        if (mba_has_variant(r->run[l->run[k]].a, prefix)) return k;
    return 0;
}

static void fusion_heading(mba_buf *b, const mba_stores *r, int run)
{
    const ladder l = chosen(r, &fusion_variants);
    const int    product = rung_of(r, &l, "bc_fused"), whole = rung_of(r, &l, "fused");
    (void)run;
    mba_assert(l.n > 1);
    if (whole)
        mba_buf_add(b, "All of SSD fused: %s × as fast forward, %s × backward, the step %s ×",
                    mba_two_digits(1 / times(r, &l, whole, forward_ms)).s,
                    mba_two_digits(1 / times(r, &l, whole, backward_ms)).s,
                    mba_two_digits(1 / times(r, &l, whole, step_ms)).s);
    if (product)
        mba_buf_add(b, "%s alone: %s × as fast", whole ? "; C·Bᵀ" : "C·Bᵀ fused",
                    mba_two_digits(1 / times(r, &l, product, ssm_ms)).s);
}

static mba_status fusion_draw(mba_canvas *c, double w, const mba_stores *r, int run, int view)
{
    const ladder l = chosen(r, &fusion_variants);
    (void)run, (void)view;
    draw_ladder(c, w, r, &l, fusion_aspects, "SSD with more and more of it in one kernel");
    return MBA_OK;
}

static void fusion_legend(mba_buf *b, const mba_stores *r, int run)
{
    const ladder l = chosen(r, &fusion_variants);
    (void)run;
    legend_of(b, r, &l);
}

const mba_figure mba_figure_fusion = {
    "fusion",
    "Fusion",
    "Q3 · fusion, rung by rung",
    "One model at one size with the study's division of work, then with C·Bᵀ inside the kernel that uses it, then with "
    "the whole product in few kernels; each row has its own scale, × is against the baseline.",
    "Launches and bytes say what a rung saves; the times say whether that was the limit. Fused kernels also divide the "
    "work in another way, so not all of their gain is saved bytes. Fig. 12 compares all variants.",
    "stores of one model and size, parts baseline and bc_fused of mambascope suite --full --device cuda; or mambascope "
    "profile --op ssd=chunked,ssd_bwd=chunked",
    true,
    NULL,
    fusion_columns,
    has_fusion,
    fusion_heading,
    fusion_numbers,
    fusion_draw,
    fusion_legend
};

/* ---- how sure ---- */

/* The runs of a ladder, the spread of their step times, and what is missing. */
static void say_sure(mba_buf *b, const mba_stores *r, question_variants *variants)
{
    const ladder        l = chosen(r, variants);
    const mba_analysis *a = r->run[l.run[0]].a;
    double              spread = 0;
    mba_assert(l.n > 1);
    for (int k = 0; k < l.n; k++)
        spread = fmax(spread, 100 * r->run[l.run[k]].a->plain_spread_s / r->run[l.run[k]].a->plain_s);
    mba_buf_put(b, "measured: ");
    mba_buf_html(b, a->workload);
    mba_buf_put(b, ", ");
    mba_buf_html(b, *a->batch ? a->batch : "one size");
    mba_buf_add(b, ", %d variants; step times spread by at most %s %%", l.n, mba_two_digits(spread).s);
}

void mba_persistent_sure(mba_buf *b, const mba_stores *r)
{
    const ladder l = chosen(r, &persistent_variants);
    say_sure(b, r, &persistent_variants);
    if (l.n == 2) mba_buf_put(b, "; one way of three to take tiles");
}

void mba_fusion_sure(mba_buf *b, const mba_stores *r)
{
    const ladder l = chosen(r, &fusion_variants);
    say_sure(b, r, &fusion_variants);
    if (!rung_of(r, &l, "bc_fused")) mba_buf_put(b, "; without C·Bᵀ alone (part bc_fused of the suite)");
}
