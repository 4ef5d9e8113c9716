// SPDX-License-Identifier: Apache-2.0
/* fig_best_ratio.c -- an open question of the study, simulated: which ratio of tensor to vector to special-function
 * units is best (Q2). study/best_ratio.h has the assumptions. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "report/figure.h"
#include "report/lines.h"
#include "report/questions.h"

static bool has_ratio(const mba_stores *r, int run)
{
    (void)run;
    return r->whatif && r->whatif->ratio.n > 0;
}

/* "ssd, ours"; the whole step: "step of mamba2, ours". */
static mba_name row_name(const mba_ratio_row *row)
{
    mba_name w;
    snprintf(w.s, sizeof w.s, "%s%s, %s", *row->op ? row->op : "step of ", *row->op ? "" : row->model, row->kernels);
    return w;
}

/* ---- table ---- */

static const mba_grid_column ratio_columns[] = { { "operator", "operator" },
                                                 { "kernels", "kernels" },
                                                 { "model", "model" },
                                                 { "held", "what stays equal" },
                                                 { "tensor_vector", "best tensor : vector" },
                                                 { "vector_special", "best vector : special" },
                                                 { "faster", "× as fast as today" },
                                                 { "from", "within 2 %: from" },
                                                 { "to", "to" },
                                                 { "ms", "today, ms" },
                                                 { 0 } };

static mba_status ratio_numbers(mba_grid *g, const mba_stores *r, int run)
{
    const mba_best_ratio *all = &r->whatif->ratio;
    (void)run;
    for (int i = 0; i < all->n; i++)
        for (int e = 0; e < MBA_EQUALS; e++) {
            const mba_ratio_row  *row = &all->row[i];
            const mba_ratio_point p = mba_ratio_best(row, (mba_equal)e);
            mba_grid_text(g, *row->op ? row->op : "whole step");
            mba_grid_text(g, row->kernels);
            mba_grid_text(g, row->model);
            mba_grid_text(g, mba_equal_name((mba_equal)e));
            mba_grid_number(g, all->tensor * mba_ratio_tensor[p.tensor]);
            mba_grid_number(g, all->vector / mba_ratio_special[p.special]);
            mba_grid_number(g, p.gain);
            mba_grid_number(g, all->tensor * p.low);
            mba_grid_number(g, all->tensor * p.high);
            mba_grid_number(g, row->base_ms);
        }
    return MBA_OK;
}

/* ---- heading ---- */

/* The shares of area that the answer must hold for, from little to much. */
static const mba_equal   areas[] = { MBA_EQUAL_AREA_LITTLE, MBA_EQUAL_AREA, MBA_EQUAL_AREA_MUCH };
static const char *const area_words[] = { "25", "50", "75" };
enum { AREAS = sizeof areas / sizeof *areas };

/* From this gain on a ratio helps: beyond the errors of imitated machines, and at least a twentieth. */
static double helps_from(const mba_whatif *w) { return 1 + 0.01 * fmax(5, w->score[2].points ? w->score[2].worst : 0); }

/* The best of all rows of an operator ("": of whole steps), by any set of kernels. */
typedef struct best {
    double gain, ratio;
} best;
static best best_of(const mba_best_ratio *all, const char *op, mba_equal e)
{
    best out = { 0, NAN };
    for (int i = 0; i < all->n; i++) {
        if (strcmp(all->row[i].op, op)) continue;
        const mba_ratio_point p = mba_ratio_best(&all->row[i], e);
        if (p.gain > out.gain) out = (best){ p.gain, all->tensor * mba_ratio_tensor[p.tensor] };
    }
    return out;
}

static best best_of_areas(const mba_best_ratio *all, const char *op)
{
    best out = { 0, NAN };
    for (int e = 0; e < AREAS; e++) {
        const best x = best_of(all, op, areas[e]);
        if (x.gain > out.gain) out = x;
    }
    return out;
}

static bool is_first(const mba_best_ratio *all, int row)
{
    for (int i = 0; i < row; i++)
        if (!strcmp(all->row[i].op, all->row[row].op)) return false;
    return *all->row[row].op != 0;
}

/* What another rate of special functions alone gives any SSM operator or step. */
static double most_special(const mba_best_ratio *all)
{
    double most = 0;
    for (int i = 0; i < all->n; i++)
        for (int e = 0; e < AREAS; e++)
            for (int t = 0; t < MBA_RATIO_TENSOR; t++)
                for (int x = 0; x < MBA_RATIO_SPECIAL && mba_ratio_tensor[t] == 1; x++)
                    most = fmax(most, all->row[i].base_ms / all->row[i].ms[areas[e]][t][x]);
    return most;
}

/* "Keep 16 : 1 for SSM kernels (another gives at most 1.04 ×)": those that no ratio makes faster, at any share. */
static int say_kept(mba_buf *b, const mba_best_ratio *all, double helps)
{
    int    kept = 0, changed = 0;
    double most = 0;
    for (int i = 0; i < all->n; i++) {
        if (!is_first(all, i)) continue;
        const double gain = best_of_areas(all, all->row[i].op).gain;
        if (gain >= helps) changed++;
        else kept++, most = fmax(most, gain);
    }
    if (kept)
        mba_buf_add(b, "Keep %s\u00a0:\u00a01 for %sSSM kernels (another gives at most %.2f\u00a0×)",
                    mba_num(all->tensor).s, changed ? "most " : "", most);
    return kept;
}

/* "; selective_scan 4 : 1 (1.1 ×) with 25 % of the area, 8 : 1 (1.2 ×) with 50 %". */
static void say_changed(mba_buf *b, const mba_best_ratio *all, double helps, bool any)
{
    for (int i = 0; i < all->n; i++) {
        if (!is_first(all, i) || best_of_areas(all, all->row[i].op).gain < helps) continue;
        mba_buf_add(b, "%s%s ", any ? "; " : "", all->row[i].op);
        any = true;
        for (int e = 0; e < AREAS; e++) {
            const best x = best_of(all, all->row[i].op, areas[e]);
            mba_buf_add(b, "%s%s\u00a0:\u00a01 (%s\u00a0×) with %s\u00a0%% of the area", e ? ", " : "",
                        mba_num(x.ratio).s, mba_two_digits(x.gain).s, area_words[e]);
        }
    }
}

/* What to do for SSM operators, at all shares of the area that tensor units may have; then for whole steps, and for
 * special functions. */
static void ratio_heading(mba_buf *b, const mba_stores *r, int run)
{
    const mba_best_ratio *all = &r->whatif->ratio;
    const double          helps = helps_from(r->whatif);
    (void)run;
    say_changed(b, all, helps, say_kept(b, all, helps) > 0);
    double most = 0, gain = 0;
    for (int e = 0; e < AREAS; e++) {
        const best x = best_of(all, "", areas[e]);
        if (x.gain >= helps && x.ratio > most) most = x.ratio;
        gain = fmax(gain, x.gain);
    }
    if (most > 0)
        mba_buf_add(b, "; up to %s\u00a0:\u00a01 helps steps that are mostly GEMM (at most %s\u00a0×)", mba_num(most).s,
                    mba_two_digits(gain).s);
    const double special = most_special(all);
    mba_buf_add(b, "; vector : special is %s\u00a0:\u00a01, and changing it alone %s (at most %.2f\u00a0×). SIMULATED",
                mba_num(all->vector).s, special < helps ? "does not help" : "helps", special);
}

/* ---- drawing ---- */

static const char *const ratio_views[] = { "equal area", "equal power", NULL };
static const mba_equal   held[] = { MBA_EQUAL_AREA, MBA_EQUAL_POWER };

/* An operator over the ratio, with the best special-function rate of each. */
static mba_line line_of(const mba_best_ratio *all, int i, mba_equal e, int look, mba_name *name)
{
    const mba_ratio_row *row = &all->row[i];
    *name = row_name(row);
    mba_line l = { .name = name->s, .look = look, .simulated = true, .n = MBA_RATIO_TENSOR };
    for (int t = 0; t < MBA_RATIO_TENSOR; t++) {
        double ms = INFINITY;
        for (int x = 0; x < MBA_RATIO_SPECIAL; x++) ms = fmin(ms, row->ms[e][t][x]);
        l.x[t] = all->tensor * mba_ratio_tensor[t];
        l.y[t] = row->base_ms / ms;
    }
    return l;
}

static int lines_of(mba_line *line, mba_name *name, const mba_best_ratio *all, mba_equal e)
{
    int n = 0;
    for (int i = 0; i < all->n; i++)
        if (*all->row[i].op) line[n] = line_of(all, i, e, n, &name[n]), n++;
    return n;
}

static mba_status ratio_draw(mba_canvas *c, double w, const mba_stores *r, int run, int view)
{
    mba_line  line[MBA_RATIO_ROWS];
    mba_name  name[MBA_RATIO_ROWS];
    const int n = lines_of(line, name, &r->whatif->ratio, held[view]);
    (void)run;
    mba_lines_draw(c, w,
                   &(mba_lines){ "Simulated speed-up of SSM operators at other ratios of units",
                                 "tensor FLOPs per vector FLOP of the machine (log)", "speed-up of the operator",
                                 "× as fast", line, n });
    return MBA_OK;
}

static void ratio_legend(mba_buf *b, const mba_stores *r, int run)
{
    mba_line  line[MBA_RATIO_ROWS];
    mba_name  name[MBA_RATIO_ROWS];
    const int n = lines_of(line, name, &r->whatif->ratio, MBA_EQUAL_AREA);
    (void)run;
    for (int i = 0; i < n; i++) mba_lines_legend(b, &line[i], -1);
    mba_buf_put(b, "<li>hollow: SIMULATED</li>");
}

const mba_figure mba_figure_ratio = {
    "ratio",
    "Best ratio",
    "Q2 · the best tensor : vector : special ratio",
    "SIMULATED speed-up of each SSM operator if the units of an SM are divided in another way, each with the best rate "
    "of "
    "special functions; with the kernels of this program, and SSD also by the study's division of work.",
    "Equal area: the area of a unit goes with its rate, and the sum stays; tensor units are assumed to have 50 % of "
    "it, "
    "special functions 10 %; the table has 25 and 75 % too. Equal power: the vector rate stays, and all clocks change "
    "so that power, units times the cube of the clock, stays; half of the chip's power is assumed to go into these "
    "units. "
    "A flat line: the ratio does not limit the operator. Fig. 6 has what the kernels execute.",
    "the simulator: mambascope report without --no-simulation",
    true,
    ratio_views,
    ratio_columns,
    has_ratio,
    ratio_heading,
    ratio_numbers,
    ratio_draw,
    ratio_legend
};

void mba_ratio_sure(mba_buf *b, const mba_stores *r)
{
    const mba_wi_score   *s = &r->whatif->score[2];
    const mba_best_ratio *all = &r->whatif->ratio;
    double                power = 0;
    for (int i = 0; i < all->n; i++)
        if (*all->row[i].op) power = fmax(power, mba_ratio_best(&all->row[i], MBA_EQUAL_POWER).gain);
    mba_buf_add(b, "simulated at equal area (equal power: at most %.2f\u00a0×); shares of area and power are assumed",
                power);
    mba_effects_words(b, "; ", r->whatif);
    if (s->points)
        mba_buf_add(b, "; a gain below %s\u00a0%% is no finding", mba_two_digits(100 * (helps_from(r->whatif) - 1)).s);
}
