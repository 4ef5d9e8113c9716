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

/* From this gain on a ratio helps an operator. */
static const double HELPS = 1.05;

/* Operators by one set of kernels of one model, from row `first` on: the best ratios as a range, and the largest gain.
 * Returns the row after them, which are the operators and then their step. */
typedef struct range {
    double low, high, gain, step_ratio, step_gain;
} range;
static int range_from(range *out, const mba_best_ratio *all, int first, mba_equal e)
{
    int i = first;
    *out = (range){ INFINITY, 0, 0, NAN, NAN };
    for (; i < all->n && *all->row[i].op; i++) {
        const mba_ratio_point p = mba_ratio_best(&all->row[i], e);
        out->low = fmin(out->low, all->tensor * mba_ratio_tensor[p.tensor]);
        out->high = fmax(out->high, all->tensor * mba_ratio_tensor[p.tensor]);
        out->gain = fmax(out->gain, p.gain);
    }
    mba_assert(i > first && i < all->n);
    const mba_ratio_point p = mba_ratio_best(&all->row[i], e);
    out->step_ratio = all->tensor * mba_ratio_tensor[p.tensor];
    out->step_gain = p.gain;
    return i + 1;
}

/* "selective_scan, ours, at 4 to 12 : 1", the kernels that gain less than HELPS by any ratio apart. */
static void ratio_heading(mba_buf *b, const mba_stores *r, int run)
{
    const mba_best_ratio *all = &r->whatif->ratio;
    double                little = 0, step = 0, step_ratio = NAN, power = 0;
    bool                  any = false;
    range                 x;
    (void)run;
    mba_buf_put(b, "SIMULATED at equal area: ");
    for (int i = 0, next; i < all->n; i = next) {
        range_from(&x, all, i, MBA_EQUAL_POWER);
        power = fmax(power, x.gain);
        next = range_from(&x, all, i, MBA_EQUAL_AREA);
        if (x.step_gain > step) step = x.step_gain, step_ratio = x.step_ratio;
        if (x.gain < HELPS) little = fmax(little, x.gain);
        if (x.gain < HELPS) continue;
        mba_buf_add(b, "%s%s is fastest at %s", any ? "; " : "", row_name(&all->row[i]).s, mba_num(x.low).s);
        if (x.high > x.low) mba_buf_add(b, " to %s", mba_num(x.high).s);
        mba_buf_add(b, "\u00a0:\u00a01 (at most %s ×)", mba_two_digits(x.gain).s);
        any = true;
    }
    if (little > 0)
        mba_buf_add(b, "%s%s SSM operators gain at most %.2f × by any ratio", any ? "; " : "",
                    any ? "the other" : "the", little);
    mba_buf_add(b,
                " (at equal power %.2f ×), whole steps up to %s × at %s\u00a0:\u00a01. The %s has "
                "%s\u00a0:\u00a01",
                power, mba_two_digits(step).s, mba_num(step_ratio).s, all->machine, mba_num(all->tensor).s);
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
    const mba_wi_score *s = &r->whatif->score[2];
    mba_buf_put(b, "simulated, shares of area and power assumed");
    if (s->points)
        mba_buf_add(b,
                    "; %d machines imitated on an H200 were predicted with errors of up to %s %%, none of them with an "
                    "SSM kernel, so a smaller gain is not a finding",
                    s->points, mba_two_digits(s->worst).s);
}
