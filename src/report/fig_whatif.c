// SPDX-License-Identifier: Apache-2.0
/* fig_whatif.c -- what the simulator says: Fig. 13, other sizes, and its errors. fig_machines.c has other machines.
 *
 * Simulated marks are hollow. The sliders of Fig. 13 are made by the script from what whatif_json.c writes. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "report/lines.h"
#include "report/parts.h"
#include "report/questions.h"

static bool has_whatif(const mba_stores *r, int run)
{
    (void)run;
    return r->whatif && r->whatif->nmodels > 0;
}

static void model_legend(mba_buf *b, const mba_stores *r, int run)
{
    (void)run;
    for (int i = 0; i < r->whatif->nmodels; i++)
        mba_lines_legend(b, &(mba_line){ .name = mba_model_label(r, i), .look = i, .simulated = true }, -1);
    mba_buf_put(b, "<li>hollow: SIMULATED</li>");
}

/* ---- one axis at a time: Fig. 13 changes the machine, `sizes` the workload ---- */

typedef double value_fn(const mba_whatif *w, int model, int axis, int i);
typedef struct family {
    const mba_wi_axis *axis;
    int                n;
    value_fn          *at;
} family;

static bool has_line(const mba_whatif *w, const family *f, int model, int axis)
{
    for (int i = 0; i < f->axis[axis].n; i++)
        if (isfinite(f->at(w, model, axis, i))) return true;
    return false;
}

static mba_status family_draw(mba_canvas *c, double width, const mba_stores *r, const family *f, int view,
                              mba_lines chart)
{
    const mba_whatif  *w = r->whatif;
    const mba_wi_axis *a = &f->axis[view];
    mba_line           line[MBA_WI_MODELS];
    int                n = 0;
    for (int m = 0; m < w->nmodels; m++) {
        mba_line l = { .name = mba_model_label(r, m), .look = m, .simulated = true, .n = a->n };
        for (int i = 0; i < a->n; i++) l.x[i] = a->value[i], l.y[i] = f->at(w, m, view, i);
        if (has_line(w, f, m, view)) line[n++] = l;
    }
    chart.line = line;
    chart.n = n;
    mba_lines_draw(c, width, &chart);
    return MBA_OK;
}

/* ---- Fig. 13 ---- */

static double speedup(const mba_whatif *w, int model, int view, int i)
{
    return mba_wi_speedup(w, model, MBA_WI_STEP, view, i);
}

static const mba_grid_column fig13_columns[] = {
    { "model", "model" },      { "axis", "what is changed" },      { "factor", "times" },
    { "step_ms", "step, ms" }, { "speedup", "against unchanged" }, { 0 }
};

/* A row for each model, axis and value: `before`, where there is one, and what is drawn. */
static mba_status family_numbers(mba_grid *g, const mba_stores *r, const family *f, value_fn *before)
{
    const mba_whatif *w = r->whatif;
    for (int m = 0; m < w->nmodels; m++)
        for (int k = 0; k < f->n; k++)
            for (int i = 0; i < f->axis[k].n && has_line(w, f, m, k); i++) {
                mba_grid_text(g, mba_model_label(r, m));
                mba_grid_text(g, f->axis[k].name);
                mba_grid_number(g, f->axis[k].value[i]);
                if (before) mba_grid_number(g, before(w, m, k, i));
                mba_grid_number(g, f->at(w, m, k, i));
            }
    return MBA_OK;
}

static double changed_ms(const mba_whatif *w, int model, int axis, int i)
{
    return w->model[model].curve_ms[MBA_WI_STEP][axis][i];
}

static family curves_of(const mba_whatif *w) { return (family){ w->curve, w->ncurves, speedup }; }

static mba_status fig13_numbers(mba_grid *g, const mba_stores *r, int run)
{
    const family f = curves_of(r->whatif);
    (void)run;
    return family_numbers(g, r, &f, changed_ms);
}

static void fig13_heading(mba_buf *b, const mba_stores *r, int run)
{
    const mba_whatif *w = r->whatif;
    const mba_doubled best = mba_wi_doubled(w, -1, MBA_WI_STEP);
    (void)run;
    mba_buf_add(b, "SIMULATED %s: doubling the %s helps most, %s × for ", w->machine, w->curve[best.axis].name,
                mba_num(best.gain).s);
    mba_buf_html(b, mba_model_label(r, best.model));
}

static mba_status fig13_draw(mba_canvas *c, double width, const mba_stores *r, int run, int view)
{
    const family f = curves_of(r->whatif);
    char         label[96];
    (void)run;
    snprintf(label, sizeof label, "%s, times what it is (log)", f.axis[view].name);
    return family_draw(c, width, r, &f, view,
                       (mba_lines){ "Simulated speed-up on changed machines", label, "speed-up of the step",
                                    "× as fast", NULL, 0 });
}

static const char *const fig13_views[] = { "DRAM",          "tensor",    "vector",   "special", "L2", "L2 size",
                                           "shared memory", "registers", "launches", "clock",   NULL };

const mba_figure mba_figure_fig13 = {
    "fig13",
    "What-if",
    "Fig. 13 · what-if",
    "SIMULATED training steps on a machine with one number changed; below, sliders over a grid of three.",
    "Hollow marks are simulated, with the errors of {#validation}. Launches: 0.5 is half "
    "the cost. A flat line: this number does not limit the step.",
    "the simulator: mambascope report without --no-simulation",
    true,
    fig13_views,
    fig13_columns,
    has_whatif,
    fig13_heading,
    fig13_numbers,
    fig13_draw,
    model_legend
};

/* ---- sensitivity: every number of the machine doubled; the step, and its SSM operators only ---- */

static const char *const sensitivity_views[] = { "SSM operators", "whole step", NULL };
static const mba_wi_of   sensitivity_part[] = { MBA_WI_SSM, MBA_WI_STEP };

/* The index of the value that is better by a factor of two: twice a rate, half the cost of launches; -1: none. */
static int better_by_two(const mba_wi_axis *a)
{
    const double want = strcmp(a->key, "launch") ? 2 : 0.5;
    for (int i = 0; i < a->n; i++)
        if (a->value[i] == want) return i;
    return -1;
}

static const mba_grid_column sensitivity_columns[] = {
    { "model", "model" },           { "axis", "what is changed" },
    { "factor", "times" },          { "ssm_ms", "SSM operators, ms" },
    { "ssm_speedup", "× as fast" }, { "step_ms", "step, ms" },
    { "speedup", "× as fast" },     { 0 }
};

static mba_status sensitivity_numbers(mba_grid *g, const mba_stores *r, int run)
{
    const mba_whatif *w = r->whatif;
    (void)run;
    for (int m = 0; m < w->nmodels; m++)
        for (int k = 0; k < w->ncurves; k++) {
            const int i = better_by_two(&w->curve[k]);
            if (i < 0) continue;
            mba_grid_text(g, mba_model_label(r, m));
            mba_grid_text(g, w->curve[k].name);
            mba_grid_number(g, w->curve[k].value[i]);
            for (int v = 0; v < 2; v++) {
                mba_grid_number(g, w->model[m].curve_ms[sensitivity_part[v]][k][i]);
                mba_grid_number(g, mba_wi_speedup(w, m, sensitivity_part[v], k, i));
            }
        }
    return MBA_OK;
}

/* A gain below this does not count: then only the clock helps, because latency is the limit. */
static const double WORTH = 1.1;

static void sensitivity_heading(mba_buf *b, const mba_stores *r, int run)
{
    const mba_whatif *w = r->whatif;
    const mba_doubled best = mba_wi_doubled(w, -1, MBA_WI_SSM);
    int               little = 0, known = 0;
    (void)run;
    for (int m = 0; m < w->nmodels; m++) {
        const mba_doubled own = mba_wi_doubled(w, m, MBA_WI_SSM);
        known += own.gain > 0;
        little += own.gain > 0 && own.gain < WORTH;
    }
    mba_buf_add(b, "SIMULATED %s, SSM operators only: doubling the %s helps most, %s × in ", w->machine,
                w->curve[best.axis].name, mba_num(best.gain).s);
    mba_buf_html(b, mba_model_label(r, best.model));
    if (little)
        mba_buf_add(b, "; in %d of %d model%s only the clock gives %s ×", little, known, known == 1 ? "" : "s",
                    mba_num(WORTH).s);
}

static mba_range sensitivity_range(const mba_whatif *w, mba_wi_of part)
{
    mba_range seen = { 1, 1.2 };
    for (int m = 0; m < w->nmodels; m++)
        for (int k = 0; k < w->ncurves; k++) {
            const int    i = better_by_two(&w->curve[k]);
            const double v = i < 0 ? NAN : mba_wi_speedup(w, m, part, k, i);
            if (isfinite(v)) mba_range_extend(&seen, v);
        }
    return (mba_range){ 0.1 * floor(10 * seen.lo), 0.1 * ceil(10 * seen.hi) };
}

static void sensitivity_row(mba_svg *s, mba_scale x, double y, const mba_stores *r, mba_wi_of part, int axis)
{
    const mba_whatif  *w = r->whatif;
    const mba_wi_axis *a = &w->curve[axis];
    const int          i = better_by_two(a);
    const bool         half = a->value[i] < 1;
    if (s->narrow) mba_svg_text(s, 0, y - 10, "halo", 's', "%s × %g", a->name, a->value[i]);
    else mba_svg_text(s, x.a - 12, y + 4, "halo", 'e', "%s × %g", a->name, a->value[i]);
    mba_svg_line(s, x.a, y, x.b, y, "g", NULL);
    for (int m = 0; m < w->nmodels; m++) {
        const double v = mba_wi_speedup(w, m, part, axis, i), ms = w->model[m].curve_ms[part][axis][i];
        if (!isfinite(v)) continue;
        mba_svg_mark(s, mba_look_shape(m), mba_at(x, v), y, 5, mba_look_paint(m), true,
                     mba_tip(s->c, "%s · %s the %s, SIMULATED|%s of a step %s ms instead of %s: %s × as fast",
                             mba_model_label(r, m), half ? "half" : "twice", a->name,
                             part == MBA_WI_SSM ? "SSM operators" : "all", mba_num(ms).s,
                             mba_num(w->model[m].base.of[part].ms).s, mba_num(v).s),
                     NULL);
    }
}

static mba_status sensitivity_draw(mba_canvas *c, double width, const mba_stores *r, int run, int view)
{
    const mba_whatif *w = r->whatif;
    const bool        narrow = width <= MBA_NARROW;
    const double      rh = narrow ? 34 : 24;
    const mba_range   seen = sensitivity_range(w, sensitivity_part[view]);
    int               rows = 0;
    (void)run;
    for (int k = 0; k < w->ncurves; k++) rows += better_by_two(&w->curve[k]) >= 0;
    mba_svg         s = mba_svg_begin(c, width, 10 + rh * rows + 40, "Simulated gain of every number of the machine");
    const mba_scale x = mba_lin(seen.lo, seen.hi, narrow ? 8 : 250, width - 14);
    mba_svg_axis(&s, x, 4, 8 + rh * rows, view ? "speed-up of the step" : "speed-up of its SSM operators");
    for (int k = 0, row = 0; k < w->ncurves; k++)
        if (better_by_two(&w->curve[k]) >= 0)
            sensitivity_row(&s, x, 8 + rh * row++ + (narrow ? 24 : 12), r, sensitivity_part[view], k);
    mba_svg_end(&s);
    return MBA_OK;
}

const mba_figure mba_figure_sensitivity = {
    "sensitivity",
    "What helps SSM",
    "What helps SSM · every number of the machine doubled",
    "SIMULATED speed-up of the SSM operators of a step, and of the whole step, if one number of the machine is "
    "doubled (launches: half the cost).",
    "Hollow marks are simulated. The step time hides what SSM operators gain, because GEMM takes most of it. If "
    "only the clock helps, latency is the limit. The simulator is less accurate for single operators than for "
    "steps; {#validation} has both. The sliders above can show the SSM operators only.",
    "the simulator: mambascope report without --no-simulation",
    true,
    sensitivity_views,
    sensitivity_columns,
    has_whatif,
    sensitivity_heading,
    sensitivity_numbers,
    sensitivity_draw,
    model_legend
};

/* ---- other sizes ---- */

static bool has_sizes(const mba_stores *r, int run)
{
    bool any = false;
    for (int m = 0; has_whatif(r, run) && m < r->whatif->nmodels; m++) any |= r->whatif->model[m].text;
    return any;
}

static double size_at(const mba_whatif *w, int model, int axis, int i)
{
    return w->model[model].text ? w->model[model].size_us[axis][i] : NAN;
}

static family sizes_of(const mba_whatif *w) { return (family){ w->size, w->nsizes, size_at }; }

static const mba_grid_column size_columns[] = {
    { "model", "model" }, { "parameter", "parameter" }, { "value", "value" }, { "us_per_token", "µs per token" }, { 0 }
};

static mba_status size_numbers(mba_grid *g, const mba_stores *r, int run)
{
    const family f = sizes_of(r->whatif);
    (void)run;
    return family_numbers(g, r, &f, NULL);
}

static void size_heading(mba_buf *b, const mba_stores *r, int run)
{
    const mba_whatif *w = r->whatif;
    double            most = 0;
    int               model = 0;
    (void)run;
    for (int m = 0; m < w->nmodels; m++) { // view 0: length at as many tokens a step
        const int    last = w->size[0].n - 1;
        const double ratio = size_at(w, m, 0, last) / size_at(w, m, 0, 0);
        if (ratio > most) most = ratio, model = m;
    }
    mba_buf_add(b, "SIMULATED: from %s to %s tokens a sequence a token costs at most %s × as much, in ",
                mba_num(w->size[0].value[0]).s, mba_num(w->size[0].value[w->size[0].n - 1]).s, mba_num(most).s);
    mba_buf_html(b, mba_model_label(r, model));
}

static mba_status size_draw(mba_canvas *c, double width, const mba_stores *r, int run, int view)
{
    const family f = sizes_of(r->whatif);
    char         label[96];
    (void)run;
    snprintf(label, sizeof label, "%s (log)", f.axis[view].name);
    return family_draw(c, width, r, &f, view,
                       (mba_lines){ "Simulated time per token at other sizes", label, "µs per token", "µs per token",
                                    NULL, 0 });
}

static void size_legend(mba_buf *b, const mba_stores *r, int run)
{
    (void)run;
    for (int i = 0; i < r->whatif->nmodels; i++)
        if (r->whatif->model[i].text)
            mba_lines_legend(b, &(mba_line){ .name = mba_model_label(r, i), .look = i, .simulated = true }, -1);
    mba_buf_put(b, "<li>hollow: SIMULATED</li>");
}

static const char *const size_views[] = { "length", "batch", "chunk", "state", "head width", NULL };

const mba_figure mba_figure_sizes = {
    "sizes",
    "Other sizes",
    "Other sizes · simulated",
    "SIMULATED time per token of the language models at other lengths, batches, chunks, states and head widths.",
    "Hollow marks are simulated. Sizes that a model does not have are left out. Where our kernels choose their "
    "own chunk size, the line is flat.",
    "a language model: mambascope report mamba2.db",
    true,
    size_views,
    size_columns,
    has_sizes,
    size_heading,
    size_numbers,
    size_draw,
    size_legend
};

/* ---- how far it is to be believed ---- */

static const mba_grid_column validation_columns[] = { { "what", "what" },
                                                      { "points", "points" },
                                                      { "measured_ms", "measured, ms" },
                                                      { "predicted_ms", "predicted, ms" },
                                                      { "error_percent", "error, %" },
                                                      { "p90_percent", "90th percentile, %" },
                                                      { "worst_percent", "worst, %" },
                                                      { "correlation", "correlation of logs" },
                                                      { "roofline_percent", "roofline's error, %" },
                                                      { 0 } };

static double error_of(const mba_wi_measured *s) { return 100 * (s->predicted_ms / s->measured_ms - 1); }

static mba_status validation_numbers(mba_grid *g, const mba_stores *r, int run)
{
    const mba_whatif *w = r->whatif;
    (void)run;
    for (int i = 0; i < MBA_WI_SCORES; i++) {
        const mba_wi_score *s = &w->score[i];
        if (!s->points) continue;
        const double v[] = { s->points, NAN, NAN, s->mean, s->p90, s->worst, s->correlation, s->roofline };
        mba_grid_text(g, s->name);
        for (int k = 0; k < 8; k++) mba_grid_number(g, v[k]);
    }
    for (int i = 0; i < w->nsteps; i++) {
        const double v[] = { 1,  w->step[i].measured_ms, w->step[i].predicted_ms, error_of(&w->step[i]), NAN, NAN, NAN,
                             NAN };
        mba_grid_text(g, w->step[i].subject);
        for (int k = 0; k < 8; k++) mba_grid_number(g, v[k]);
    }
    return MBA_OK;
}

void mba_effects_words(mba_buf *b, const char *before, const mba_whatif *w)
{
    if (!w->effects) return;
    mba_buf_add(
        b,
        "%sof %d changes of 3\u00a0%% or more that were emulated beside SSM kernels on an H200, %d are simulated "
        "with the right sign, at %s\u00a0%% of their size",
        before, w->effects, w->effects_right, mba_two_digits(w->effects_share).s);
}

static void validation_heading(mba_buf *b, const mba_stores *r, int run)
{
    const mba_whatif *w = r->whatif;
    double            least = INFINITY, most = -INFINITY;
    (void)run;
    for (int i = 0; i < w->nsteps; i++)
        least = fmin(least, error_of(&w->step[i])), most = fmax(most, error_of(&w->step[i]));
    mba_effects_words(b, "What-ifs: ", w);
    mba_buf_add(b,
                "%she mean error of unchanged operators is %s %% over %d held-out points, that of whole steps %s to %s "
                "%%",
                w->effects ? "; t" : "T", mba_num(w->score[0].mean).s, w->score[0].points, mba_num(least).s,
                mba_num(most).s);
}

/* "mamba2-headline --batch 4 --length 4096 --op X" as "mamba2-headline, 4 × 4096, X". */
static mba_name words_of(const char *subject, int room)
{
    static const struct {
        const char *option, *word;
    } as[] = { { " --batch ", ", " }, { " --length ", " × " }, { " --graphs ", ", " }, { " --op ", ", " } };
    char   text[160] = "";
    size_t n = 0;
    while (*subject && n + 8 < sizeof text) {
        size_t k = 0;
        while (k < sizeof as / sizeof *as && strncmp(subject, as[k].option, strlen(as[k].option))) k++;
        if (k == sizeof as / sizeof *as) {
            text[n++] = *subject++;
            continue;
        }
        n += (size_t)snprintf(text + n, sizeof text - n, "%s", as[k].word);
        subject += strlen(as[k].option);
    }
    return mba_short(text, room);
}

static mba_status validation_draw(mba_canvas *c, double width, const mba_stores *r, int run, int view)
{
    const mba_whatif *w = r->whatif;
    const bool        narrow = width <= MBA_NARROW;
    const double      left = narrow ? 8 : 330, rh = narrow ? 36 : 22;
    double            far = 5;
    (void)run, (void)view;
    for (int i = 0; i < w->nsteps; i++) far = fmax(far, fabs(error_of(&w->step[i])));
    mba_svg         s = mba_svg_begin(c, width, 10 + rh * w->nsteps + 40, "Error of predicted steps");
    const double    end = 3 * mba_round_up(far / 3); // ticks at 0 and at thirds
    const mba_scale x = mba_lin(-end, end, left, width - 14);
    mba_svg_axis(&s, x, 4, 8 + rh * w->nsteps, "error of the prediction, %");
    mba_svg_line(&s, mba_at(x, 0), 4, mba_at(x, 0), 8 + rh * w->nsteps, "ax", NULL);
    for (int i = 0; i < w->nsteps; i++) {
        const mba_wi_measured *p = &w->step[i];
        const double           y = 8 + rh * i + (narrow ? 26 : 11), at = mba_at(x, error_of(p));
        mba_svg_text(&s, narrow ? 0 : left - 8, narrow ? y - 12 : y + 4, "halo", narrow ? 's' : 'e', "%s",
                     words_of(p->subject, narrow ? 46 : 44).s);
        mba_svg_line(&s, mba_at(x, 0), y, at, y, "stem", NULL);
        mba_svg_mark(&s, MBA_DIAMOND, at, y, 5, "ssm", true,
                     mba_tip(c, "%s · H200|measured %s ms, predicted %s ms: error %s %%", p->subject,
                             mba_num(p->measured_ms).s, mba_num(p->predicted_ms).s, mba_num(error_of(p)).s),
                     NULL);
    }
    mba_svg_end(&s);
    return MBA_OK;
}

const mba_figure mba_figure_validation = {
    "validation",
    "Error budget",
    "Validation · errors of simulated numbers",
    "The simulator against times measured on an H200: whole steps, and in the table all operators, {fitted} and "
    "{held out}.",
    "The split into fitted and held-out points was made before the first comparison. The error that holds for a "
    "what-if is that of changes: an H200 with fewer SMs, registers or shared memory, slower units or busy DRAM was "
    "emulated beside SSM kernels, and the slow-down predicted: a real gain may be larger than the simulated one by as "
    "much as the part that is not predicted. The table has plain loops on imitated machines. A speed-up smaller than "
    "their worst error, or than the error of a step, is not a finding. `mambascope validate --points` prints every "
    "point, `--counterfactual operators` every change.",
    "the simulator: mambascope report without --no-simulation",
    true,
    NULL,
    validation_columns,
    has_whatif,
    validation_heading,
    validation_numbers,
    validation_draw,
    NULL
};
