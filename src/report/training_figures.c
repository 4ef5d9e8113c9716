// SPDX-License-Identifier: Apache-2.0
/* training_figures.c -- see training_figures.h: curves over the steps (loss, scores, gradient norm, learning rate,
 * speed) and skipped steps. training_tables.c has the figures that are tables. */
#include "report/training_figures.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "report/curves.h"
#include "report/lines.h"

static bool always(const mba_trainings *r) { return r->n > 0; }

/* The label of a loss axis; sentences omit an unknown unit. */
static const char *loss_words(const mba_trainings *r) { return *r->loss_unit ? r->loss_unit : "loss"; }

/* ---- curves ---- */

static const char *x_words(const mba_trainings *r, mba_series x)
{
    return x == MBA_BY_UNITS ? r->unit_words : x == MBA_BY_TIME ? r->time_words : "step";
}

typedef struct drawn {
    mba_series    series;
    mba_curve_how how;
    const char   *what;
} drawn;

static bool any_of(const mba_trainings *r, mba_series s)
{
    mba_assert(s < MBA_SERIES);
    for (int i = 0; i < r->n; i++)
        for (int64_t k = 0; k < r->run[i].t->n; k++)
            if (isfinite(r->run[i].series[s][k])) return true;
    return false;
}

/* The largest x of all runs. */
static double end_of(const mba_trainings *r, mba_series x)
{
    double end = 0;
    for (int i = 0; i < r->n; i++) {
        mba_assert(r->run[i].t->n > 0);
        const double last = r->run[i].series[x][r->run[i].t->n - 1];
        if (last > end) end = last;
    }
    return end;
}

typedef struct chart {
    const char *label, *y_label;
    mba_series  x;
    bool        zero, half;
} chart;

static void draw_series(mba_canvas *c, double w, const mba_trainings *r, const chart *k, const drawn *d, int n)
{
    mba_curve curve[MBA_TRAININGS_MAX * 3];
    int       curves = 0;
    for (int i = 0; i < r->n; i++)
        for (int j = 0; j < n; j++) {
            const mba_training_run *run = &r->run[i];
            mba_assert(n <= 3);
            curve[curves++] = (mba_curve){ run->name.s, d[j].what,         i,
                                           d[j].how,    run->series[k->x], run->series[d[j].series],
                                           run->t->n };
        }
    mba_curves_draw(c, w,
                    &(mba_curves){ .label = k->label,
                                   .x_label = x_words(r, k->x),
                                   .y_label = k->y_label,
                                   .curve = curve,
                                   .n = curves,
                                   .zero = k->zero,
                                   .from = k->half ? end_of(r, k->x) / 2 : 0 });
}

/* ---- rows: every k-th step, and every step with a validation ---- */

static bool shown(const mba_training *t, int64_t i, int64_t most)
{
    mba_debug_assert(most > 0 && i >= 0 && i < t->n);
    const int64_t every = most < t->n ? (t->n + most - 1) / most : 1;
    return i % every == 0 || i == t->n - 1 || (!isnan(t->step[i].valid_loss) && every > 1);
}

static void common_columns(mba_grid_column *to, const mba_trainings *r, const mba_grid_column *more)
{
    int n = 0;
    to[n++] = (mba_grid_column){ "run", "run" };
    to[n++] = (mba_grid_column){ "step", "step" };
    to[n++] = (mba_grid_column){ "units", r->unit };
    to[n++] = (mba_grid_column){ "seconds", "seconds" };
    while (more->key) to[n++] = *more++;
    mba_assert(n < MBA_TRAINING_COLUMNS);
    to[n] = (mba_grid_column){ 0 };
}

static void common_cells(mba_grid *g, const mba_training_run *run, const mba_trained *s)
{
    mba_grid_text(g, run->name.s);
    mba_grid_number(g, (double)s->step);
    mba_grid_number(g, s->units);
    mba_grid_number(g, s->seconds);
}

/* ---- loss ---- */

static const char *const loss_views[] = { "by step", "by units trained on", "by time", "second half", NULL };

double mba_training_loss(const mba_training_run *run, bool valid)
{
    return valid ? run->sum.best_valid_loss : run->sum.loss;
}

/* The run with the lowest loss, except run `not`; -1: none has a loss. */
static int lowest(const mba_trainings *r, bool valid, int not )
{
    int best = -1;
    for (int i = 0; i < r->n; i++) {
        const double v = mba_training_loss(&r->run[i], valid);
        if (i != not &&!isnan(v) && (best < 0 || v < mba_training_loss(&r->run[best], valid))) best = i;
    }
    return best;
}

int mba_trainings_best(const mba_trainings *r, bool *valid)
{
    *valid = true;
    for (int i = 0; i < r->n; i++) *valid &= !isnan(r->run[i].sum.best_valid_loss);
    return lowest(r, *valid, -1);
}

static void best_words(mba_buf *b, const mba_trainings *r, int best, bool valid)
{
    mba_assert(best >= 0 && best < r->n);
    const int    next = lowest(r, valid, best);
    const double low = mba_training_loss(&r->run[best], valid);
    mba_buf_html(b, mba_short(r->run[best].name.s, 40).s);
    mba_buf_add(b, " reaches the lowest %s loss, %.4f%s%s", valid ? "validation" : "training", low,
                *r->loss_unit ? " " : "", r->loss_unit);
    if (valid) mba_buf_add(b, " at step %s", mba_num((double)r->run[best].sum.best_step).s);
    if (next < 0) return;
    mba_buf_add(b, ", %.4f below ", mba_training_loss(&r->run[next], valid) - low);
    mba_buf_html(b, mba_short(r->run[next].name.s, 40).s);
}

static void loss_heading(mba_buf *b, const mba_trainings *r)
{
    bool      valid;
    const int best = mba_trainings_best(r, &valid);
    if (best < 0) {
        mba_buf_put(b, "No step has a finite loss");
    } else if (r->n > 1) {
        best_words(b, r, best, valid);
    } else {
        const mba_training_run *run = &r->run[0];
        mba_buf_add(b, "Training loss ends at %.4f%s%s", run->sum.loss, *r->loss_unit ? " " : "", r->loss_unit);
        if (valid)
            mba_buf_add(b, "; validation was lowest at step %s: %.4f", mba_num((double)run->sum.best_step).s,
                        run->sum.best_valid_loss);
    }
}

static void loss_columns(mba_grid_column *to, const mba_trainings *r)
{
    common_columns(to, r,
                   (const mba_grid_column[]){
                       { "loss", "training" }, { "smoothed", "smoothed" }, { "valid_loss", "validation" }, { 0 } });
}

static void loss_numbers(mba_grid *g, const mba_trainings *r, int64_t most)
{
    for (int i = 0; i < r->n; i++) {
        const mba_training_run *run = &r->run[i];
        for (int64_t k = 0; k < run->t->n; k++) {
            if (!shown(run->t, k, most)) continue;
            common_cells(g, run, &run->t->step[k]);
            mba_grid_fixed(g, run->t->step[k].loss, 4);
            mba_grid_fixed(g, run->series[MBA_OF_LOSS_SMOOTH][k], 4);
            mba_grid_fixed(g, run->t->step[k].valid_loss, 4);
        }
    }
}

static void loss_draw(mba_canvas *c, double w, const mba_trainings *r, int view)
{
    static const drawn      all[] = { { MBA_OF_LOSS, MBA_FAINT, "step" },
                                      { MBA_OF_LOSS_SMOOTH, MBA_STRONG, "smoothed" },
                                      { MBA_OF_VALID_LOSS, MBA_MARKED, "validation" } };
    static const mba_series by[] = { MBA_BY_STEP, MBA_BY_UNITS, MBA_BY_TIME, MBA_BY_STEP };
    draw_series(c, w, r, &(chart){ "loss", loss_words(r), by[view], false, view == 3 }, all, 3);
}

/* ---- scores ---- */

static bool has_scores(const mba_trainings *r) { return any_of(r, MBA_OF_SCORE_0); }

static void score_heading(mba_buf *b, const mba_trainings *r)
{
    int    best = -1;
    double top = NAN;
    for (int i = 0; i < r->n; i++)
        for (int64_t k = 0; k < r->run[i].t->n; k++) {
            const double v = r->run[i].series[MBA_OF_SCORE_0][k];
            if (isfinite(v) && !(top >= v)) top = v, best = i;
        }
    mba_buf_add(b, "The highest %s is %.4f", r->run[best < 0 ? 0 : best].t->score[0], top);
    if (r->n < 2 || best < 0) return;
    mba_buf_put(b, ", of ");
    mba_buf_html(b, mba_short(r->run[best].name.s, 40).s);
}

static void score_columns(mba_grid_column *to, const mba_trainings *r)
{
    mba_grid_column more[MBA_TRAINING_SCORES + 1] = { 0 };
    for (int k = 0; k < r->run[0].t->nscores; k++)
        more[k] = (mba_grid_column){ r->run[0].t->score[k], r->run[0].t->score[k] };
    common_columns(to, r, more);
}

static void score_numbers(mba_grid *g, const mba_trainings *r, int64_t most)
{
    for (int i = 0; i < r->n; i++)
        for (int64_t k = 0, rows = 0; k < r->run[i].t->n && rows < most; k++) {
            if (isnan(r->run[i].series[MBA_OF_SCORE_0][k])) continue;
            common_cells(g, &r->run[i], &r->run[i].t->step[k]);
            for (int j = 0; j < r->run[0].t->nscores; j++)
                mba_grid_fixed(g, r->run[i].series[MBA_OF_SCORE_0 + j][k], 4);
            rows++;
        }
}

static void score_draw(mba_canvas *c, double w, const mba_trainings *r, int view)
{
    const drawn all[] = { { MBA_OF_SCORE_0, MBA_MARKED, r->run[0].t->score[0] } };
    (void)view;
    draw_series(c, w, r, &(chart){ "scores of validations", r->run[0].t->score[0], MBA_BY_STEP, false, false }, all, 1);
}

/* ---- norm, rate, speed ---- */

static bool has_norm(const mba_trainings *r) { return any_of(r, MBA_OF_NORM); }

static void norm_heading(mba_buf *b, const mba_trainings *r)
{
    double  top = NAN;
    int     of = 0;
    int64_t at = 0;
    for (int i = 0; i < r->n; i++)
        for (int64_t k = 0; k < r->run[i].t->n; k++) {
            const double v = r->run[i].series[MBA_OF_NORM][k];
            if (isfinite(v) && !(top >= v)) top = v, of = i, at = r->run[i].t->step[k].step;
        }
    mba_buf_add(b, "The largest gradient norm is %s, at step %s", mba_num(top).s, mba_num((double)at).s);
    if (r->n < 2) return;
    mba_buf_put(b, " of ");
    mba_buf_html(b, mba_short(r->run[of].name.s, 40).s);
}

static void norm_columns(mba_grid_column *to, const mba_trainings *r)
{
    common_columns(to, r,
                   (const mba_grid_column[]){
                       { "grad_norm", "gradient norm" }, { "smoothed", "smoothed" }, { "skipped", "skipped" }, { 0 } });
}

static void norm_numbers(mba_grid *g, const mba_trainings *r, int64_t most)
{
    for (int i = 0; i < r->n; i++) {
        const mba_training_run *run = &r->run[i];
        for (int64_t k = 0; k < run->t->n; k++) {
            if (!shown(run->t, k, most)) continue;
            common_cells(g, run, &run->t->step[k]);
            mba_grid_number(g, run->t->step[k].grad_norm);
            mba_grid_number(g, run->series[MBA_OF_NORM_SMOOTH][k]);
            mba_grid_number(g, run->t->step[k].skipped);
        }
    }
}

static void norm_draw(mba_canvas *c, double w, const mba_trainings *r, int view)
{
    static const drawn all[] = { { MBA_OF_NORM, MBA_FAINT, "step" }, { MBA_OF_NORM_SMOOTH, MBA_STRONG, "smoothed" } };
    (void)view;
    draw_series(c, w, r, &(chart){ "gradient norm", "gradient norm", MBA_BY_STEP, false, false }, all, 2);
}

static bool has_rate(const mba_trainings *r) { return any_of(r, MBA_OF_RATE); }

/* One number per run; of more than three runs, the smallest and the largest. */
static void numbers_of_runs(mba_buf *b, const mba_trainings *r, const double *v, const char *unit)
{
    double least = NAN, most = NAN;
    for (int i = 0; i < r->n; i++) {
        if (!(least <= v[i])) least = v[i];
        if (!(most >= v[i])) most = v[i];
        if (r->n > 3) continue;
        mba_buf_add(b, "%s%s%s", i ? ", " : "", mba_num(v[i]).s, unit);
        if (r->n > 1) mba_buf_put(b, " ("), mba_buf_html(b, mba_short(r->run[i].name.s, 24).s), mba_buf_put(b, ")");
    }
    if (r->n > 3) mba_buf_add(b, "%s to %s%s", mba_num(least).s, mba_num(most).s, unit);
}

static void rate_heading(mba_buf *b, const mba_trainings *r)
{
    double top[MBA_TRAININGS_MAX];
    for (int i = 0; i < r->n; i++) {
        top[i] = NAN;
        for (int64_t k = 0; k < r->run[i].t->n; k++)
            if (!(top[i] >= r->run[i].series[MBA_OF_RATE][k])) top[i] = r->run[i].series[MBA_OF_RATE][k];
    }
    mba_buf_put(b, "Learning rate: at most ");
    numbers_of_runs(b, r, top, "");
}

static void rate_columns(mba_grid_column *to, const mba_trainings *r)
{
    common_columns(to, r, (const mba_grid_column[]){ { "lr", "learning rate" }, { 0 } });
}

static void rate_numbers(mba_grid *g, const mba_trainings *r, int64_t most)
{
    for (int i = 0; i < r->n; i++)
        for (int64_t k = 0; k < r->run[i].t->n; k++) {
            if (!shown(r->run[i].t, k, most)) continue;
            common_cells(g, &r->run[i], &r->run[i].t->step[k]);
            mba_grid_number(g, r->run[i].t->step[k].lr);
        }
}

static void rate_draw(mba_canvas *c, double w, const mba_trainings *r, int view)
{
    static const drawn all[] = { { MBA_OF_RATE, MBA_STRONG, "learning rate" } };
    (void)view;
    draw_series(c, w, r, &(chart){ "learning rate", "learning rate", MBA_BY_STEP, true, false }, all, 1);
}

static bool has_speed(const mba_trainings *r) { return any_of(r, MBA_OF_SPEED); }

static void speed_heading(mba_buf *b, const mba_trainings *r)
{
    double v[MBA_TRAININGS_MAX];
    char   unit[64];
    for (int i = 0; i < r->n; i++) v[i] = r->run[i].sum.rate;
    snprintf(unit, sizeof unit, " %s/s", r->unit);
    mba_buf_put(b, "Median speed: ");
    numbers_of_runs(b, r, v, unit);
}

static void speed_columns(mba_grid_column *to, const mba_trainings *r)
{
    common_columns(to, r,
                   (const mba_grid_column[]){ { "units_per_s", "a second" }, { "smoothed", "smoothed" }, { 0 } });
}

static void speed_numbers(mba_grid *g, const mba_trainings *r, int64_t most)
{
    for (int i = 0; i < r->n; i++)
        for (int64_t k = 0; k < r->run[i].t->n; k++) {
            if (!shown(r->run[i].t, k, most)) continue;
            common_cells(g, &r->run[i], &r->run[i].t->step[k]);
            mba_grid_number(g, r->run[i].t->step[k].rate);
            mba_grid_number(g, r->run[i].series[MBA_OF_SPEED_SMOOTH][k] / r->speed_scale);
        }
}

static void speed_draw(mba_canvas *c, double w, const mba_trainings *r, int view)
{
    static const drawn all[] = { { MBA_OF_SPEED, MBA_FAINT, "step" }, { MBA_OF_SPEED_SMOOTH, MBA_STRONG, "smoothed" } };
    draw_series(c, w, r, &(chart){ "speed", r->speed_words, view ? MBA_BY_TIME : MBA_BY_STEP, true, false }, all, 2);
}

static const char *const speed_views[] = { "by step", "by time", NULL };

/* ---- skipped steps ---- */

static void skipped_heading(mba_buf *b, const mba_trainings *r)
{
    int64_t all = 0;
    for (int i = 0; i < r->n; i++) all += r->run[i].sum.skipped;
    if (all) mba_buf_add(b, "%s step%s skipped", mba_num((double)all).s, all == 1 ? " was" : "s were");
    else mba_buf_put(b, "No step was skipped");
}

static void skipped_columns(mba_grid_column *to, const mba_trainings *r)
{
    (void)r;
    memcpy(to,
           (const mba_grid_column[]){ { "run", "run" },
                                      { "steps", "steps" },
                                      { "skipped", "skipped" },
                                      { "percent", "%" },
                                      { "no_number", "loss or norm not finite" },
                                      { "first", "first at step" },
                                      { "last", "last at step" },
                                      { 0 } },
           8 * sizeof *to);
}

static void skipped_numbers(mba_grid *g, const mba_trainings *r, int64_t most)
{
    (void)most;
    for (int i = 0; i < r->n; i++) {
        const mba_training *t = r->run[i].t;
        double              no_number = 0, first = NAN, last = NAN;
        for (int64_t k = 0; k < t->n; k++) {
            if (!t->step[k].skipped) continue;
            no_number += isnan(t->step[k].loss) || isnan(t->step[k].grad_norm);
            if (isnan(first)) first = (double)t->step[k].step;
            last = (double)t->step[k].step;
        }
        mba_grid_text(g, r->run[i].name.s);
        mba_grid_number(g, (double)r->run[i].sum.steps);
        mba_grid_number(g, (double)r->run[i].sum.skipped);
        mba_grid_number(g, 100 * (double)r->run[i].sum.skipped / (double)t->n);
        mba_grid_number(g, no_number);
        mba_grid_number(g, first);
        mba_grid_number(g, last);
    }
}

/* One row per run with a mark for each skipped step; steps too close to the previous mark share it. */
static void skipped_draw(mba_canvas *c, double w, const mba_trainings *r, int view)
{
    const double    top = 10, rh = 30, bottom = top + rh * r->n;
    const mba_scale x = mba_lin(0, end_of(r, MBA_BY_STEP), w <= MBA_NARROW ? 92 : 170, w - 16);
    double          tick[16];
    mba_svg         s = mba_svg_begin(c, w, bottom + 40, "skipped steps");
    (void)view;
    mba_svg_axis_at(&s, x, tick, mba_ticks_round(x, tick), top, bottom, "step");
    for (int i = 0; i < r->n; i++) {
        const mba_training *t = r->run[i].t;
        double              taken = -1e9;
        mba_svg_text(&s, x.a - 10, top + rh * (i + 0.5) + 4, "", 'e', "%s",
                     mba_short(r->run[i].name.s, s.narrow ? 11 : 22).s);
        for (int64_t k = 0; k < t->n; k++) {
            const double at = mba_at(x, (double)t->step[k].step);
            if (!t->step[k].skipped || at < taken + 3) continue;
            taken = at;
            mba_svg_mark(&s, mba_look_shape(i), at, top + rh * (i + 0.5), 4.4, mba_look_paint(i), false,
                         mba_tip(c, "%.60s · skipped|step: %s|loss: %s|gradient norm: %s", r->run[i].name.s,
                                 mba_num((double)t->step[k].step).s, mba_num(t->step[k].loss).s,
                                 mba_num(t->step[k].grad_norm).s),
                         NULL);
        }
    }
    mba_svg_end(&s);
}

/* ---- the list ---- */

static const mba_training_figure fig_loss = {
    .name = "loss",
    .nav = "Loss",
    .eyebrow = "Loss · training and validation",
    .views = loss_views,
    .sub = "Faint: every step. Strong: smoothed. Marks on a dashed line: validation.",
    .reading = "Lower is better. The strong line is an exponential moving average over 2 % of the run, corrected for "
               "its start, as "
               "TensorBoard draws it. The axis covers 99 % of the single steps; steps beyond it are drawn at "
               "its edge. Point at the drawing, or use the arrow keys, to read values.",
    .has = always,
    .heading = loss_heading,
    .columns = loss_columns,
    .numbers = loss_numbers,
    .draw = loss_draw,
};
static const mba_training_figure fig_scores = {
    .name = "scores",
    .nav = "Scores",
    .eyebrow = "Scores · of validations",
    .sub = "Scores of validations besides the loss.",
    .reading = "Each mark is one validation.",
    .needs = "a run with validations whose task has scores",
    .has = has_scores,
    .fits = has_scores,
    .heading = score_heading,
    .columns = score_columns,
    .numbers = score_numbers,
    .draw = score_draw,
};
static const mba_training_figure fig_norm = {
    .name = "norm",
    .nav = "Gradient norm",
    .eyebrow = "Gradient norm · before clipping",
    .sub = "The global gradient norm, before clipping. Faint: every step. Strong: smoothed.",
    .reading = "A norm that grows over many steps announces divergence: use a lower rate or a longer warm-up. "
               "Clipping and the guard handle single peaks.",
    .needs = "grad_norm in the log",
    .has = has_norm,
    .heading = norm_heading,
    .columns = norm_columns,
    .numbers = norm_numbers,
    .draw = norm_draw,
};
static const mba_training_figure fig_rate = {
    .name = "lr",
    .nav = "Learning rate",
    .eyebrow = "Learning rate",
    .sub = "The learning rate of each step.",
    .reading = "Warm-up, then the schedule of the run.",
    .needs = "lr in the log",
    .has = has_rate,
    .heading = rate_heading,
    .columns = rate_columns,
    .numbers = rate_numbers,
    .draw = rate_draw,
};
static const mba_training_figure fig_speed = {
    .name = "speed",
    .nav = "Speed",
    .eyebrow = "Speed · data a second",
    .views = speed_views,
    .sub = "Tokens, images or graphs a second, step by step, without validations and checkpoints. Strong: smoothed.",
    .reading = "The first steps prepare kernels and are slower. A line that falls in the middle of a run points "
               "to the data, to another job on the machine, or to a GPU that lowers its clock.",
    .needs = "a rate in the log",
    .has = has_speed,
    .heading = speed_heading,
    .columns = speed_columns,
    .numbers = speed_numbers,
    .draw = speed_draw,
};
static const mba_training_figure fig_skipped = {
    .name = "skipped",
    .nav = "Skipped steps",
    .eyebrow = "Skipped steps · by the guard",
    .sub = "Steps without an update: loss or norm was not finite, or far above its median.",
    .reading = "A few in many thousand do no harm. Many in a row mean that the learning rate is too high or the "
               "data is damaged; eight in a row end a run.",
    .has = always,
    .heading = skipped_heading,
    .columns = skipped_columns,
    .numbers = skipped_numbers,
    .draw = skipped_draw,
};

const mba_training_figure *const mba_training_figures[] = {
    &mba_training_fig_runs,
    &fig_loss,
    &fig_scores,
    &fig_norm,
    &fig_rate,
    &fig_speed,
    &fig_skipped,
    &mba_training_fig_samples,
    &mba_training_fig_options,
    NULL,
};
