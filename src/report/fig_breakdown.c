// SPDX-License-Identifier: Apache-2.0
/* fig_breakdown.c -- Fig. 1: the time of a step by operator class, for all runs; and the longest operators of one
 * run. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "report/figure.h"

enum { PERCENT, MILLISECONDS, PHASES };
static const char *const breakdown_views[] = { "percent", "ms with idle", "by phase", NULL };

static bool has_timeline(const mba_stores *r, int run)
{
    if (run >= 0) return r->run[run].a->busy_s > 0;
    for (int i = 0; i < r->n; i++)
        if (r->run[i].a->busy_s > 0) return true;
    return false;
}

/* ---- Fig. 1 ---- */

static int largest_kind(const mba_analysis *a)
{
    int top = 0;
    for (int k = 1; k < MBA_BREAKDOWN_KINDS; k++)
        if (mba_class_s(a, k) > mba_class_s(a, top)) top = k;
    return top;
}

static double share(const mba_analysis *a, int kind) { return 100 * mba_class_s(a, kind) / a->busy_s; }

static void fig1_heading(mba_buf *b, const mba_stores *r, int run)
{
    int gemm_first = 0, known = 0, one = 0;
    (void)run;
    for (int i = 0; i < r->shown; i++) {
        if (!(r->run[i].a->busy_s > 0)) continue;
        known++;
        one = i;
        gemm_first += largest_kind(r->run[i].a) == MBA_GEMM;
    }
    if (known == 1) {
        const mba_analysis *a = r->run[one].a;
        const int           top = largest_kind(a);
        mba_buf_add(b, "%s is the largest class: %s %% of the kernel time; GEMM %s %%, SSM %s %%", mba_kind_long(top),
                    mba_num(share(a, top)).s, mba_num(share(a, MBA_GEMM)).s, mba_num(share(a, MBA_SSM)).s);
        return;
    }
    double lo = NAN, hi = NAN;
    for (int i = 0; i < r->shown; i++) {
        const double ssm = share(r->run[i].a, MBA_SSM);
        if (isnan(ssm)) continue;
        if (!(lo <= ssm)) lo = ssm;
        if (!(hi >= ssm)) hi = ssm;
    }
    mba_buf_add(b, "GEMM is the largest class in %d of %d models; SSM operators take %s to %s %% of the kernel time",
                gemm_first, known, mba_num(lo).s, mba_num(hi).s);
}

static const mba_grid_column fig1_columns[] = { { "run", "run" },
                                                { "class", "class" },
                                                { "phase", "phase" },
                                                { "time_ms", "ms per step" },
                                                { "percent_of_busy", "% of kernel time" },
                                                { "launches", "launches" },
                                                { "percent_of_floor", "% of floor" },
                                                { 0 } };

static mba_status fig1_numbers(mba_grid *g, const mba_stores *r, int run)
{
    (void)run;
    for (int i = 0; i < r->n; i++) {
        const mba_analysis *a = r->run[i].a;
        for (int k = 0; k < MBA_BREAKDOWN_KINDS && !mba_run_is_size(r, i); k++)
            for (int p = 0; p < MBA_PHASES; p++) {
                if (!(a->launches[k][p] > 0)) continue;
                mba_grid_text(g, mba_run_label(r, i));
                mba_grid_text(g, mba_breakdown_kind_name(k));
                mba_grid_text(g, mba_phase_name(p));
                mba_grid_number(g, 1e3 * a->time_s[k][p]);
                mba_grid_number(g, 100 * a->time_s[k][p] / a->busy_s);
                mba_grid_number(g, a->launches[k][p]);
                mba_grid_number(g, 100 * a->floor_s[k][p] / a->time_s[k][p]);
            }
    }
    return MBA_OK;
}

/* One stacked bar: the classes of one run, or of one of its phases (phase -1: all). */
typedef struct stack {
    const mba_analysis *a;
    const char         *name;
    int                 phase;
    double              total_s, idle_s;
} stack;

static double stack_s(const stack *t, int kind)
{
    return t->phase < 0 ? mba_kind_s(t->a, kind) : t->a->time_s[kind][t->phase];
}

static void draw_stack(mba_svg *s, const stack *t, mba_scale x, double unit, double y, double h)
{
    double at = 0;
    for (int k = 0; k < MBA_BREAKDOWN_KINDS; k++) {
        const double v = stack_s(t, k) * unit, x0 = mba_at(x, at), w = mba_at(x, at + v) - x0;
        at += v;
        // too thin to draw; the table has it
        if (!(w >= 0.6)) continue;
        mba_svg_bar(s, x0, y, w, h, "bar", mba_kind_paint(k),
                    mba_tip(s->c, "%s · %s|%s ms, %s %% of the kernel time", t->name, mba_kind_long(k),
                            mba_num(1e3 * stack_s(t, k)).s, mba_num(100 * stack_s(t, k) / t->total_s).s),
                    NULL);
        if (w > 22) mba_svg_text(s, x0 + w / 2, y + h / 2 + 4, mba_kind_is_light(k) ? "inv2" : "inv", 'm', "%.0f", v);
    }
    if (!(t->idle_s > 0)) return;
    const double x0 = mba_at(x, at), w = mba_at(x, at + t->idle_s * unit) - x0;
    if (w > 1)
        mba_svg_hatch(s, x0, y, w, h,
                      mba_tip(s->c, "%s · idle between kernels|%s ms", t->name, mba_num(1e3 * t->idle_s).s));
}

static int gather(stack *t, const mba_stores *r, int view)
{
    int n = 0;
    for (int i = 0; i < r->n; i++) {
        const mba_analysis *a = r->run[i].a;
        if (!(a->busy_s > 0) || mba_run_is_size(r, i)) continue; // Fig. 11 shows other sizes
        for (int p = 0; view == PHASES && p < MBA_PHASES; p++) {
            stack one = { a, mba_run_label(r, i), p, 0, 0 };
            for (int k = 0; k < MBA_BREAKDOWN_KINDS; k++) one.total_s += a->time_s[k][p];
            if (one.total_s > 0) t[n++] = one;
        }
        if (view != PHASES)
            t[n++] = (stack){ a, mba_run_label(r, i), -1, a->busy_s, view == MILLISECONDS ? a->idle_s : 0 };
    }
    return n;
}

static void stack_labels(mba_svg *s, const stack *t, double left, double right, double y)
{
    const bool     narrow = s->narrow;
    const mba_name name = mba_short(t->name, narrow ? 30 : 24);
    char           sub[96], count[64];
    if (t->phase < 0) snprintf(sub, sizeof sub, "%.90s", mba_short(mba_run_device(t->a), 30).s);
    else snprintf(sub, sizeof sub, "%s", mba_phase_name(t->phase));
    if (t->phase < 0) snprintf(count, sizeof count, "%s launches", mba_num(mba_launches_of(t->a)).s);
    else snprintf(count, sizeof count, "%s %% of the step", mba_num(100 * t->total_s / t->a->busy_s).s);
    const double ms = 1e3 * (t->total_s + (t->idle_s > 0 ? t->idle_s : 0));
    mba_svg_text(s, narrow ? 0 : left - 10, y + 13, "b halo", narrow ? 's' : 'e', "%s", name.s);
    mba_svg_text(s, narrow ? 0 : left - 10, y + 26, "t3 halo", narrow ? 's' : 'e', "%s", sub);
    mba_svg_text(s, narrow ? s->w : s->w - right + 6, y + 13, "halo", narrow ? 'e' : 's', "%s ms", mba_num(ms).s);
    mba_svg_text(s, narrow ? s->w : s->w - right + 6, y + 26, "t3 halo", narrow ? 'e' : 's', "%s", count);
}

static mba_status fig1_draw(mba_canvas *c, double w, const mba_stores *r, int run, int view)
{
    stack     t[MBA_RUNS_MAX * MBA_PHASES];
    const int n = gather(t, r, view);
    mba_assert(n <= MBA_RUNS_MAX * MBA_PHASES);
    const bool   narrow = w <= MBA_NARROW;
    const double left = narrow ? 0 : 214, right = narrow ? 0 : 128, rh = narrow ? 56 : 32, top = 6,
                 bottom = top + rh * n;
    mba_svg s = mba_svg_begin(c, w, bottom + 40,
                              view == PERCENT ? "Operator classes, percent of the kernel time"
                                              : "Operator classes, milliseconds per step");
    double  most = 0;
    (void)run;
    for (int i = 0; i < n; i++) most = fmax(most, 1e3 * (t[i].total_s + (t[i].idle_s > 0 ? t[i].idle_s : 0)));
    const mba_scale x = mba_lin(0, view == PERCENT ? 100 : most, left, w - right - (narrow ? 0 : 6));
    mba_svg_axis(&s, x, top, bottom, view == PERCENT ? "% of the kernel time" : "ms per training step");
    for (int i = 0; i < n; i++) {
        const double y = top + rh * i;
        stack_labels(&s, &t[i], left, right, y);
        draw_stack(&s, &t[i], x, view == PERCENT ? 100 / t[i].total_s : 1e3, narrow ? y + 31 : y + 5,
                   narrow ? 18 : rh - 10);
    }
    mba_svg_end(&s);
    return MBA_OK;
}

static void kinds_legend(mba_buf *b, const mba_stores *r, int run)
{
    for (int k = 0; k < MBA_BREAKDOWN_KINDS; k++) {
        bool seen = false;
        for (int i = run < 0 ? 0 : run; i < (run < 0 ? r->n : run + 1); i++) seen |= mba_kind_s(r->run[i].a, k) > 0;
        if (seen) mba_legend_item(b, mba_kind_paint(k), mba_kind_long(k));
    }
    if (run < 0) mba_buf_put(b, "<li><i class=\"hatch\"></i>idle between kernels</li>");
}

const mba_figure mba_figure_fig1 = {
    "fig1",
    "Operators",
    "Fig. 1 · operator breakdown",
    "Time of a training step by operator class: median step of the timeline, forward, loss, backward and optimizer.",
    "Each stack is one run. Percentages are of the {GPU time} (kernels and copies); the second view adds the idle "
    "time between them, the third splits by phase. A kernel has the class of the operator that launched it, so "
    "the head's products are in the class of the loss here; the heading, F1 and all other shares of GEMM count them as "
    "GEMM. Kernels of {external programs|external program} are classified by the rules file.",
    "a timeline: mambascope profile --model NAME --out run.db",
    true,
    breakdown_views,
    fig1_columns,
    has_timeline,
    fig1_heading,
    fig1_numbers,
    fig1_draw,
    kinds_legend
};

/* ---- operators of a run ---- */

static const mba_grid_column operator_columns[] = { { "operator", "operator" },
                                                    { "class", "class" },
                                                    { "phase", "phase" },
                                                    { "launches", "launches" },
                                                    { "time_ms", "ms per step" },
                                                    { "spread_ms", "spread, ms" },
                                                    { "percent_of_busy", "% of kernel time" },
                                                    { "percent_of_floor", "% of floor" },
                                                    { 0 } };

static mba_status operator_numbers(mba_grid *g, const mba_stores *r, int run)
{
    const mba_analysis *a = r->run[run].a;
    for (int i = 0; i < a->nops && i < mba_marks_max(r, 80); i++) {
        const mba_operator_view *o = a->op[i];
        mba_grid_text(g, o->op);
        mba_grid_text(g, mba_breakdown_kind_name(o->kind));
        mba_grid_text(g, mba_phase_name(o->phase));
        mba_grid_number(g, o->per_step);
        mba_grid_number(g, 1e3 * o->median_s);
        mba_grid_number(g, 1e3 * o->spread_s);
        mba_grid_number(g, 100 * o->median_s / a->busy_s);
        mba_grid_number(g, 100 * o->least_s / o->median_s);
    }
    return MBA_OK;
}

static void operator_heading(mba_buf *b, const mba_stores *r, int run)
{
    mba_assert(run >= 0 && run < r->n && r->run[run].a->nops > 0);
    const mba_analysis      *a = r->run[run].a;
    const mba_operator_view *o = a->op[0];
    mba_buf_html(b, o->op);
    mba_buf_add(b, " (%s) is the longest operator: %s ms, %s %% of the kernel time", mba_phase_name(o->phase),
                mba_num(1e3 * o->median_s).s, mba_num(100 * o->median_s / a->busy_s).s);
    if (!isnan(o->least_s)) mba_buf_add(b, ", at %s %% of its floor", mba_num(100 * o->least_s / o->median_s).s);
}

static mba_status operator_draw(mba_canvas *c, double w, const mba_stores *r, int run, int view)
{
    mba_assert(run >= 0 && run < r->n);
    const mba_analysis *a = r->run[run].a;
    const int           n = a->nops < 20 ? a->nops : 20;
    const mba_lanes     rows = mba_lanes_for(w, n, 8, 20);
    mba_svg             s = mba_svg_begin(c, w, rows.bottom + 40, "Time and floor of the longest operators");
    const mba_scale     x = mba_lin(0, 1e3 * (n ? a->op[0]->median_s : 1), rows.left, w - 60);
    (void)view;
    mba_svg_axis(&s, x, rows.top - 4, rows.bottom, "ms per step; tick: floor");
    for (int i = 0; i < n; i++) {
        const mba_operator_view *o = a->op[i];
        const double             y = mba_lanes_at(&rows, i), ms = 1e3 * o->median_s, least = 1e3 * o->least_s;
        char                     label[160];
        bool                     again = false; // the operator is listed before, with another class
        for (int k = 0; k < i; k++) again |= !strcmp(a->op[k]->op, o->op) && a->op[k]->phase == o->phase;
        snprintf(label, sizeof label, "%.100s%s%s", o->op, again ? ", " : "",
                 again ? mba_breakdown_kind_name(o->kind) : "");
        mba_svg_text(&s, rows.left - 8, y + 4, "mono", 'e', "%s%s",
                     mba_short(label, rows.characters - (o->phase == 1 ? 3 : 0)).s, o->phase == 1 ? " ↩" : "");
        mba_svg_bar(&s, x.a, y - 7, mba_at(x, ms) - x.a, 14, "bar", mba_kind_paint(o->kind),
                    mba_tip(c, "%s, %s|%s ms per step, %s launches|floor %s ms", o->op, mba_phase_name(o->phase),
                            mba_num(ms).s, mba_num(o->per_step).s, mba_num(least).s),
                    NULL);
        if (least > 0) mba_svg_bar(&s, mba_at(x, least) - 1.5, y - 9, 3, 18, "", "measured", -1, NULL);
        mba_svg_text(&s, mba_at(x, fmax(ms, isnan(least) ? 0 : least)) + 6, y + 4, "t2 halo", 's', "%s", mba_num(ms).s);
    }
    mba_svg_end(&s);
    return MBA_OK;
}

static bool has_operators(const mba_stores *r, int run) { return r->run[run].a->nops > 0 && r->run[run].a->busy_s > 0; }

const mba_figure mba_figure_operators = {
    "operators",
    "Longest operators",
    "Operators · the longest twenty",
    "Median time of an operator in a phase over the steps profiled (↩ backward), and its floor.",
    "The {operator floor} is the time for the {least work} at the {ceilings|ceiling} of this machine. The distance "
    "between "
    "bar and tick is what a better kernel could save.",
    "a timeline: mambascope profile --model NAME --out run.db",
    false,
    NULL,
    operator_columns,
    has_operators,
    operator_heading,
    operator_numbers,
    operator_draw,
    kinds_legend
};
