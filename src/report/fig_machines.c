// SPDX-License-Identifier: Apache-2.0
/* fig_machines.c -- the models on other GPUs, simulated: with equal kernels, which compares hardware, and with the
 * kernels that this program has for each, which compares what users get (N2). */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "report/figure.h"
#include "report/lines.h"
#include "report/questions.h"

static bool has_whatif(const mba_stores *r, int run)
{
    (void)run;
    return r->whatif && r->whatif->nmodels > 0;
}

/* In the order of the switch. */
static const char *const machine_views[] = { "equal kernels", "software as it is", NULL };
static const mba_wi_set  sets[] = { MBA_WI_EQUAL, MBA_WI_AS_IT_IS };

static const mba_grid_column machine_columns[] = { { "model", "model" },
                                                   { "batch", "batch" },
                                                   { "kernels", "kernels" },
                                                   { "machine", "machine" },
                                                   { "grade", "grade" },
                                                   { "step_ms", "step, ms" },
                                                   { "low_ms", "band from, ms" },
                                                   { "high_ms", "to, ms" },
                                                   { "units_per_s", "units per s" },
                                                   { "faster", "× the first machine" },
                                                   { "measured_ms", "measured, ms" },
                                                   { 0 } };

/* The place of the machine that the runs had. */
static int own_machine(const mba_whatif *w)
{
    for (int k = 0; k < w->nmachines; k++)
        if (!strcmp(w->machines[k], w->machine)) return k;
    return 0;
}

/* Measured times are of the kernels that this program has for the machine: equal kernels may be others. */
static double measured_on(const mba_whatif *w, int model, int machine, mba_wi_set set)
{
    const bool same = set == MBA_WI_AS_IT_IS || !*w->model[model].equal;
    return same && !strcmp(w->machines[machine], w->machine) ? w->model[model].measured_ms[MBA_WI_STEP] : NAN;
}

static mba_status machine_numbers(mba_grid *g, const mba_stores *r, int run)
{
    const mba_whatif *w = r->whatif;
    const int         own = own_machine(w);
    (void)run;
    for (int m = 0; m < w->nmodels; m++)
        for (int v = 0; v < 2; v++)
            for (int k = 0; k < w->nmachines; k++) {
                const mba_wi_on *x = &w->model[m].machine[sets[v]][k];
                mba_grid_text(g, mba_model_label(r, m));
                mba_grid_text(g, w->model[m].batch);
                mba_grid_text(g, v ? "as it is" : *w->model[m].equal ? w->model[m].equal : "equal");
                mba_grid_text(g, w->machines[k]);
                mba_grid_text(g, (const char[]){ w->grades[k], 0 });
                mba_grid_number(g, x->ms);
                mba_grid_number(g, x->low_ms);
                mba_grid_number(g, x->high_ms);
                mba_grid_number(g, 1e3 * w->model[m].units / x->ms);
                mba_grid_number(g, w->model[m].machine[sets[v]][own].ms / x->ms);
                mba_grid_number(g, measured_on(w, m, k, sets[v]));
            }
    return MBA_OK;
}

/* Speed relative to the machine of the runs: the geometric mean over the models that fit both; 0: none does. */
static double times_faster(const mba_whatif *w, int machine, mba_wi_set set, int *of)
{
    double sum = 0;
    int    n = 0;
    for (int m = 0; m < w->nmodels; m++) {
        const double ratio = w->model[m].machine[set][own_machine(w)].ms / w->model[m].machine[set][machine].ms;
        if (isfinite(ratio) && ratio > 0) sum += log(ratio), n++;
    }
    if (of) *of = n;
    return n ? exp(sum / n) : 0;
}

static void machine_heading(mba_buf *b, const mba_stores *r, int run)
{
    const mba_whatif *w = r->whatif;
    bool              any = false;
    (void)run;
    mba_buf_put(b, "SIMULATED with equal kernels:");
    for (int k = 0; k < w->nmachines; k++) {
        int          n;
        const double faster = times_faster(w, k, MBA_WI_EQUAL, &n);
        if (k == own_machine(w) || !(faster > 0)) continue;
        mba_buf_add(b, "%s %s %s (%d)", any ? "," : "", w->machines[k], mba_two_digits(faster).s, n);
        any = true;
    }
    mba_buf_add(b, " × the %s; in brackets, of how many of %d model%s that is the mean", w->machine, w->nmodels,
                w->nmodels == 1 ? "" : "s");
}

static mba_status machine_draw(mba_canvas *c, double width, const mba_stores *r, int run, int view)
{
    const mba_whatif *w = r->whatif;
    const bool        narrow = width <= MBA_NARROW;
    const double      left = narrow ? 78 : 96, rh = 30;
    mba_range         seen = { NAN, NAN };
    (void)run;
    for (int m = 0; m < w->nmodels; m++)
        for (int k = 0; k < w->nmachines; k++)
            mba_range_extend(&seen, w->model[m].machine[0][k].ms),
                mba_range_extend(&seen, w->model[m].machine[1][k].ms);
    seen = mba_decades(seen, 1, 1000);
    mba_svg         s = mba_svg_begin(c, width, 12 + rh * w->nmachines + 40, "Simulated steps on every machine");
    const mba_scale x = mba_log(seen.lo, seen.hi, left, width - 12);
    mba_svg_axis(&s, x, 6, 10 + rh * w->nmachines, "ms per step (log), SIMULATED");
    for (int k = 0; k < w->nmachines; k++) {
        const double y = 10 + rh * (k + 0.5);
        mba_svg_text(&s, left - 8, y + 4, "b halo", 'e', "%s %c", w->machines[k], w->grades[k]);
        for (int m = 0; m < w->nmodels; m++) {
            const mba_wi_on *on = &w->model[m].machine[sets[view]][k];
            const double     measured = measured_on(w, m, k, sets[view]);
            if (!isfinite(on->ms)) continue;
            mba_svg_line(&s, mba_at(x, on->low_ms), y, mba_at(x, on->high_ms), y, "stem", NULL);
            mba_svg_mark(&s, mba_look_shape(m), mba_at(x, on->ms), y, 5, mba_look_paint(m), true,
                         mba_tip(c, "%s on %s · SIMULATED, grade %c, %s|%s ms a step; band %s to %s",
                                 mba_model_label(r, m), w->machines[k], w->grades[k], machine_views[view],
                                 mba_num(on->ms).s, mba_num(on->low_ms).s, mba_num(on->high_ms).s),
                         NULL);
            if (measured > 0)
                mba_svg_mark(&s, mba_look_shape(m), mba_at(x, measured), y, 3, mba_look_paint(m), false,
                             mba_tip(c, "%s on %s · measured|%s ms a step", mba_model_label(r, m), w->machines[k],
                                     mba_num(measured).s),
                             NULL);
        }
    }
    mba_svg_end(&s);
    return MBA_OK;
}

static void machine_legend(mba_buf *b, const mba_stores *r, int run)
{
    (void)run;
    for (int i = 0; i < r->whatif->nmodels; i++)
        mba_lines_legend(b, &(mba_line){ .name = mba_model_label(r, i), .look = i, .simulated = true }, -1);
    mba_buf_put(b, "<li>hollow: SIMULATED</li>");
}

const mba_figure mba_figure_machines = {
    "machines",
    "Other GPUs",
    "N2 · other machines",
    "SIMULATED step time of each model on every machine that comes with the program; filled marks: measured.",
    "Equal kernels: where this program would choose other kernels on other machines, all run the variant that most "
    "choose; "
    "this compares hardware. Software as it is: fused SSD exists for some machines only. The {band} is that of "
    "`mambascope "
    "simulate`: the uncertainty of the machine's numbers, and the errors of whole steps on the H200. {Grade|grade} B: "
    "validated against measured times of that machine; C: not validated.",
    "the simulator: mambascope report without --no-simulation",
    true,
    machine_views,
    machine_columns,
    has_whatif,
    machine_heading,
    machine_numbers,
    machine_draw,
    machine_legend
};

void mba_machines_sure(mba_buf *b, const mba_stores *r)
{
    const mba_whatif *w = r->whatif;
    int               unchecked = 0;
    double            least = INFINITY, most = 0;
    for (int k = 0; k < w->nmachines; k++) {
        const double faster = times_faster(w, k, MBA_WI_AS_IT_IS, NULL);
        unchecked += w->grades[k] == 'C';
        if (k == own_machine(w) || !(faster > 0)) continue;
        least = fmin(least, faster);
        most = fmax(most, faster);
    }
    mba_buf_add(b, "simulated; %d of %d machines were never checked against measured times (grade C)", unchecked,
                w->nmachines);
    if (most > 0)
        mba_buf_add(b, "; with the software as it is, %s to %s ×", mba_two_digits(least).s, mba_two_digits(most).s);
}
