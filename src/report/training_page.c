// SPDX-License-Identifier: Apache-2.0
/* training_page.c -- see training.h: opens runs, computes their series, and builds the training report.
 * training_figures.c has the figures. */
#include "report/training.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/version.h"
#include "report/cards.h"
#include "report/glossary.h"
#include "report/lines.h"
#include "report/parts.h"
#include "report/training_figures.h"

enum { ROWS_SHOWN = 100 };                // rows per run in a table of the page
static const double SMOOTHED_PART = 0.02; // window of smoothing, as a part of the run

/* ---- runs ---- */

/* Names runs by the last part of the path, or by the whole path if two runs share it. */
static void name_runs(mba_trainings *r)
{
    for (int i = 0; i < r->n; i++) {
        bool alone = true;
        for (int k = 0; k < r->n; k++) alone &= k == i || strcmp(r->run[i].t->label, r->run[k].t->label) != 0;
        r->run[i].name = mba_short(alone ? r->run[i].t->label : r->run[i].t->path, 60);
    }
}

/* A unit and its scale; measure_of chooses the largest unit in which the value is at least 2. */
typedef struct measure {
    double      scale;
    const char *words;
} measure;

static const measure times[] = {
    { 1, "seconds" }, { 1 / 60., "minutes" }, { 1 / 3600., "hours" }, { 1 / 86400., "days" }, { 0, NULL }
};

static measure measure_of(double most, const measure *from)
{
    while (from[1].words && most * from[1].scale >= 2) from++;
    return *from;
}

static void choose_units(mba_trainings *r)
{
    static const measure counts[] = {
        { 1, "" }, { 1e-3, "thousand " }, { 1e-6, "million " }, { 1e-9, "billion " }, { 0, NULL }
    };
    double units = 0, seconds = 0, speed = 0;
    for (int i = 0; i < r->n; i++) {
        units = fmax(units, r->run[i].sum.units);
        seconds = fmax(seconds, r->run[i].sum.seconds);
        speed = fmax(speed, r->run[i].sum.rate);
    }
    const measure u = measure_of(units / 5, counts), t = measure_of(seconds, times), s = measure_of(speed / 50, counts);
    r->unit_scale = u.scale, r->time_scale = t.scale, r->speed_scale = s.scale;
    snprintf(r->unit_words, sizeof r->unit_words, "%s%s", u.words, r->unit);
    snprintf(r->time_words, sizeof r->time_words, "%s", t.words);
    snprintf(r->speed_words, sizeof r->speed_words, "%s%s/s", s.words, r->unit);
}

/* Smooths a series over steps that were not skipped: a skipped step changed nothing, and its loss may be anything. */
static void smooth(mba_training_run *run, mba_series to, mba_series from, double window)
{
    for (int64_t i = 0; i < run->t->n; i++) run->series[to][i] = run->t->step[i].skipped ? NAN : run->series[from][i];
    mba_training_smooth(run->series[to], run->series[to], run->t->n, window);
}

static void fill_series(mba_training_run *run, const mba_trainings *r)
{
    const double window = SMOOTHED_PART * (double)run->t->n;
    mba_assert(run->t->n > 0 && r->unit_scale > 0 && r->time_scale > 0 && r->speed_scale > 0);
    for (int64_t i = 0; i < run->t->n; i++) {
        const mba_trained *s = &run->t->step[i];
        const double       v[MBA_SERIES] = { [MBA_BY_STEP] = (double)s->step,
                                             [MBA_BY_UNITS] = s->units * r->unit_scale,
                                             [MBA_BY_TIME] = s->seconds * r->time_scale,
                                             [MBA_OF_LOSS] = s->skipped ? NAN : s->loss,
                                             [MBA_OF_VALID_LOSS] = s->valid_loss,
                                             [MBA_OF_NORM] = s->grad_norm,
                                             [MBA_OF_RATE] = s->lr,
                                             [MBA_OF_SPEED] = s->rate * r->speed_scale };
        for (int k = 0; k < MBA_OF_SCORE_0; k++) run->series[k][i] = v[k];
        for (int k = 0; k < MBA_TRAINING_SCORES; k++) run->series[MBA_OF_SCORE_0 + k][i] = s->score[k];
    }
    smooth(run, MBA_OF_LOSS_SMOOTH, MBA_OF_LOSS, window);
    smooth(run, MBA_OF_NORM_SMOOTH, MBA_OF_NORM, window);
    smooth(run, MBA_OF_SPEED_SMOOTH, MBA_OF_SPEED, window);
}

static mba_status make_series(mba_trainings *r)
{
    for (int i = 0; i < r->n; i++) {
        mba_training_run *run = &r->run[i];
        for (int k = 0; k < MBA_SERIES; k++)
            if (!(run->series[k] = calloc((size_t)run->t->n, sizeof(double))))
                return mba_fail(MBA_E_NOMEM, "no memory for %lld steps", (long long)run->t->n);
        fill_series(run, r);
    }
    return MBA_OK;
}

static mba_status same_unit(const mba_trainings *r)
{
    for (int i = 1; i < r->n; i++)
        if (strcmp(r->run[i].t->unit, r->run[0].t->unit))
            return mba_fail(
                MBA_E_ARG,
                "'%s' trains on %s, '%s' on %s\nwhy: their losses have no axis in common\nfix: make a page of each",
                r->run[0].t->path, r->run[0].t->unit, r->run[i].t->path, r->run[i].t->unit);
    return MBA_OK;
}

mba_status mba_trainings_open(mba_trainings *r, const char *const *path, int n)
{
    mba_status st = MBA_OK;
    *r = (mba_trainings){ .n = 0 };
    if (n < 1 || n > MBA_TRAININGS_MAX)
        return mba_fail(
            MBA_E_ARG,
            "a page cannot show %d runs\nwhy: so many curves cannot be told apart\nfix: name 1 to %d of them", n,
            MBA_TRAININGS_MAX);
    for (int i = 0; i < n && st == MBA_OK; i++) {
        st = mba_training_read(&r->run[i].t, path[i]);
        if (st != MBA_OK) break;
        r->n++;
        r->run[i].sum = mba_training_sum(r->run[i].t);
        if (!*r->loss_unit) snprintf(r->loss_unit, sizeof r->loss_unit, "%s", r->run[i].t->loss_unit);
    }
    if (st == MBA_OK) st = same_unit(r);
    if (st == MBA_OK) {
        snprintf(r->unit, sizeof r->unit, "%s", r->run[0].t->unit);
        name_runs(r);
        choose_units(r);
        st = make_series(r);
    }
    if (st != MBA_OK) mba_trainings_close(r);
    return st;
}

void mba_trainings_close(mba_trainings *r)
{
    for (int i = 0; i < r->n; i++) {
        for (int k = 0; k < MBA_SERIES; k++) free(r->run[i].series[k]);
        mba_training_free(r->run[i].t);
    }
    *r = (mba_trainings){ .n = 0 };
}

/* ---- a figure ---- */

static bool fits(const mba_training_figure *f, const mba_trainings *r) { return !f->fits || f->fits(r); }

/* False if the drawing would be empty: no step was skipped, and the table says 0. */
static bool has_drawing(const mba_training_figure *f, const mba_trainings *r)
{
    if (!f->draw || strcmp(f->name, "skipped")) return f->draw != NULL;
    for (int i = 0; i < r->n; i++)
        if (r->run[i].sum.skipped) return true;
    return false;
}

static void legend(mba_buf *b, const mba_trainings *r)
{
    if (r->n < 2) return;
    mba_buf_put(b, "<ul class=\"legend\">");
    for (int i = 0; i < r->n; i++) mba_lines_legend(b, &(mba_line){ .name = r->run[i].name.s, .look = i }, -1);
    mba_buf_put(b, "</ul>");
}

static void drawings(mba_canvas *c, const mba_training_figure *f, const mba_trainings *r)
{
    mba_buf *b = &c->out;
    if (f->views) {
        mba_buf_add(
            b,
            "<div class=\"ctl\"><span class=\"lab\">show</span><div class=\"seg\" data-for=\"p-%s\" role=\"group\" "
            "aria-label=\"view\">",
            f->name);
        for (int v = 0; f->views[v]; v++)
            mba_buf_add(b, "<button value=\"%d\" aria-pressed=\"%s\">%s</button>", v, v ? "false" : "true",
                        f->views[v]);
        mba_buf_put(b, "</div></div>");
    }
    mba_buf_add(b, "<div class=\"plot\" id=\"p-%s\">", f->name);
    legend(b, r);
    for (int v = 0; v == 0 || (f->views && f->views[v]); v++) {
        mba_buf_add(b, "<div data-view=\"%d\"%s>", v, v ? " hidden" : "");
        f->draw(c, MBA_WIDE, r, v);
        f->draw(c, MBA_NARROW, r, v);
        mba_buf_put(b, "</div>");
    }
    mba_buf_put(b, "</div>");
}

static void fill_grid(mba_grid *g, mba_grid_column *columns, const mba_training_figure *f, const mba_trainings *r,
                      int64_t most)
{
    f->columns(columns, r);
    mba_grid_begin(g, columns);
    f->numbers(g, r, most);
    mba_assert(mba_grid_is_whole(g));
}

static void numbers(mba_buf *b, const mba_training_figure *f, const mba_trainings *r)
{
    mba_grid        g;
    mba_grid_column columns[MBA_TRAINING_COLUMNS];
    const bool      hidden = f->draw && strcmp(f->name, "skipped");
    fill_grid(&g, columns, f, r, ROWS_SHOWN);
    b->failed |= g.failed;
    if (hidden) mba_buf_put(b, "<details class=\"dt\"><summary>Numbers of this figure</summary>");
    mba_buf_add(b, "<div class=\"scroll%s\" tabindex=\"0\" role=\"region\" aria-label=\"numbers of %s\">",
                f->runs_in_columns ? " beside" : "", f->name);
    mba_grid_html(&g, b, f->nav);
    mba_buf_put(b, hidden ? "</div></details>" : "</div>");
    mba_grid_end(&g);
}

static void frame(mba_canvas *c, const mba_training_figure *f)
{
    char why[256];
    snprintf(why, sizeof why, "needs %s", f->needs);
    mba_buf_add(&c->out, "<h2>%s: no data yet</h2><p class=\"sub\">", f->nav);
    mba_terms_html(&c->out, f->sub);
    mba_buf_put(&c->out, "</p><div class=\"plot\">");
    mba_svg_frame(c, MBA_WIDE, f->nav, "", "", why);
    mba_svg_frame(c, MBA_NARROW, f->nav, "", "", why);
    mba_buf_put(&c->out, "</div>");
}

static void section(mba_canvas *c, const mba_training_figure *f, const mba_trainings *r)
{
    mba_buf *b = &c->out;
    mba_buf_add(b, "<section id=\"%s\" aria-label=\"%s\"><p class=\"eyebrow\">%s</p>", f->name, f->eyebrow, f->eyebrow);
    if (!f->has(r)) {
        frame(c, f);
    } else {
        mba_buf_put(b, "<h2>");
        f->heading(b, r);
        mba_buf_put(b, "</h2><p class=\"sub\">");
        mba_terms_html(b, f->sub);
        mba_buf_add(b, "</p><div class=\"cols%s\"><div>", f->runs_in_columns && r->n > 3 ? " full" : "");
        if (has_drawing(f, r)) drawings(c, f, r);
        numbers(b, f, r);
        mba_buf_put(b, "</div><div class=\"notes\"><p><b>How to read.</b> ");
        mba_terms_html(b, f->reading);
        mba_buf_put(b, "</p>");
        if (f->draw && strcmp(f->name, "skipped"))
            mba_buf_add(b, "<p class=\"src\">all steps: <code>mambascope report RUN --figure %s --csv</code></p>",
                        f->name);
        mba_buf_put(b, "</div></div>");
    }
    mba_buf_put(b, "</section>\n");
}

/* ---- the first screen ---- */

static void top(mba_buf *b, const mba_trainings *r)
{
    mba_buf_add(b, "<header class=\"top\"><b>mambascope " MBA_VERSION "</b><span>%d training run%s</span>", r->n,
                r->n == 1 ? "" : "s");
    mba_buf_put(b, "<span class=\"sp\"></span><button id=\"theme\" class=\"noprint\">theme: auto</button></header>");
}

static void navigation(mba_buf *b, const mba_trainings *r)
{
    mba_buf_put(b, "<nav aria-label=\"sections\"><ol>");
    for (int i = 0; mba_training_figures[i]; i++) {
        const mba_training_figure *f = mba_training_figures[i];
        if (fits(f, r))
            mba_buf_add(b, "<li><a href=\"#%s\"%s>%s</a></li>", f->name, f->has(r) ? "" : " class=\"nodata\"", f->nav);
    }
    mba_buf_put(b, "<li><a href=\"#raw\">Raw data</a></li></ol></nav>");
}

static void title(mba_buf *b, const mba_trainings *r)
{
    mba_buf_put(b, "<p class=\"eyebrow\">Training</p><h1>");
    for (int i = 0; i < r->n && i < 4; i++) {
        if (i) mba_buf_put(b, i == r->n - 1 ? " and " : ", ");
        mba_buf_html(b, mba_short(r->run[i].name.s, 40).s);
    }
    if (r->n > 4) mba_buf_add(b, " and %d more", r->n - 4);
    mba_buf_put(b, r->n > 1 ? ", compared</h1>" : "</h1>");
}

static void card(mba_buf *b, const char *question, const char *big, const char *unit)
{
    mba_buf_add(b, "<div class=\"find\"><h3>%s</h3><div class=\"big\">%s <small>%s</small></div><p>", question, big,
                unit);
}

static void card_end(mba_buf *b, const char *figure, const char *link)
{
    mba_buf_put(b, "</p>");
    mba_card_end(b, figure, link);
}

static void loss_card(mba_buf *b, const mba_trainings *r)
{
    bool                    valid;
    char                    low[32] = "–";
    const int               at = mba_trainings_best(r, &valid);
    const mba_training_run *best = at < 0 ? NULL : &r->run[at];
    if (best) snprintf(low, sizeof low, "%.4f", mba_training_loss(best, valid));
    card(b, valid ? "Lowest validation loss" : "Lowest training loss", low, r->loss_unit);
    if (best && r->n > 1) mba_buf_html(b, best->name.s), mba_buf_put(b, ", ");
    if (best && valid)
        mba_buf_add(b, "at step %s of %s", mba_num((double)best->sum.best_step).s, mba_num((double)best->sum.steps).s);
    else if (best)
        mba_buf_add(b, "mean of the last %s step%s of %s", mba_num((double)best->sum.mean_of).s,
                    best->sum.mean_of == 1 ? "" : "s", mba_num((double)best->sum.steps).s);
    card_end(b, "loss", "curves");
}

static void speed_card(mba_buf *b, const mba_trainings *r)
{
    const mba_training_run *best = NULL;
    char                    unit[64];
    for (int i = 0; i < r->n; i++)
        if (r->run[i].sum.rate > (best ? best->sum.rate : 0)) best = &r->run[i];
    snprintf(unit, sizeof unit, "%s/s", r->unit);
    card(b, r->n > 1 ? "Fastest" : "Speed", best ? mba_num(best->sum.rate).s : "–", unit);
    if (best && r->n > 1) mba_buf_html(b, best->name.s), mba_buf_put(b, ", ");
    mba_buf_put(b, "median of its steps");
    card_end(b, "speed", "curves");
}

static void time_card(mba_buf *b, const mba_trainings *r)
{
    double  seconds = 0, units = 0;
    int64_t steps = 0;
    for (int i = 0; i < r->n; i++) {
        seconds += isnan(r->run[i].sum.seconds) ? 0 : r->run[i].sum.seconds;
        units += isnan(r->run[i].sum.units) ? 0 : r->run[i].sum.units;
        steps += r->run[i].sum.steps;
    }
    const measure t = measure_of(seconds, times);
    card(b, r->n > 1 ? "Time, all runs" : "Time", mba_num(seconds * t.scale).s, t.words);
    mba_buf_add(b, "%s steps, %s %s", mba_num((double)steps).s, mba_num(units).s, r->unit);
    card_end(b, "runs", "numbers");
}

static void skipped_card(mba_buf *b, const mba_trainings *r)
{
    int64_t skipped = 0, steps = 0;
    for (int i = 0; i < r->n; i++) skipped += r->run[i].sum.skipped, steps += r->run[i].t->n;
    card(b, "Skipped steps", mba_num((double)skipped).s, "");
    mba_buf_add(b, "of %s; loss or norm was not finite, or far above its median", mba_num((double)steps).s);
    card_end(b, "skipped", "when");
}

static void list_runs(mba_buf *b, const mba_trainings *r, bool of(const mba_training *t))
{
    bool any = false;
    for (int i = 0; i < r->n; i++) {
        if (!of(r->run[i].t)) continue;
        if (any) mba_buf_put(b, ", ");
        mba_buf_html(b, r->run[i].name.s);
        any = true;
    }
}

static bool is_synthetic(const mba_training *t) { return t->synthetic; }
static bool is_half(const mba_training *t) { return t->half; }
static bool is_damaged(const mba_training *t) { return t->damaged > 0; }

/* What a reader must know before the first number: synthetic data, incomplete or damaged logs. */
static void banner(mba_buf *b, const mba_trainings *r)
{
    const struct {
        bool (*of)(const mba_training *t);
        const char *before, *behind;
    } word[] = {
        { is_synthetic, "SYNTHETIC data, generated by the program: ", ". Its losses say nothing about real data. " },
        { is_half, "The last line of the log is incomplete and is left out: ",
          ". The run is still writing, was killed, or the disk is full. " },
        { is_damaged, "Lines of the log that could not be read are left out: ", ". " },
    };
    bool any = false;
    for (size_t k = 0; k < sizeof word / sizeof *word; k++) {
        bool here = false;
        for (int i = 0; i < r->n; i++) here |= word[k].of(r->run[i].t);
        if (!here) continue;
        mba_buf_put(b, any ? "" : "<p class=\"banner\">");
        mba_buf_put(b, word[k].before);
        list_runs(b, r, word[k].of);
        mba_buf_put(b, word[k].behind);
        any = true;
    }
    if (any) mba_buf_put(b, "</p>");
}

/* Notes that the runs wrote between their steps. */
static void notes(mba_buf *b, const mba_trainings *r)
{
    bool any = false;
    for (int i = 0; i < r->n; i++)
        for (int k = 0; k < r->run[i].t->nnotes; k++) {
            mba_buf_put(b, any ? "<li>" : "<details class=\"dt\"><summary>Notes of the logs</summary><ul><li>");
            mba_buf_html(b, r->run[i].name.s);
            mba_buf_put(b, ": <code>");
            mba_buf_html(b, mba_short(r->run[i].t->note[k], 300).s);
            mba_buf_put(b, "</code></li>");
            any = true;
        }
    if (any) mba_buf_put(b, "</ul></details>");
}

static void head(mba_buf *b, const mba_trainings *r)
{
    char name[400];
    snprintf(name, sizeof name, "%s%s", r->run[0].name.s, r->n > 1 ? " and others" : "");
    mba_page_begin(b, name);
    top(b, r);
    navigation(b, r);
    mba_buf_put(b, "<main id=\"main\"><div class=\"head\">");
    title(b, r);
    mba_buf_put(b, "<div class=\"band four\">");
    loss_card(b, r);
    speed_card(b, r);
    time_card(b, r);
    skipped_card(b, r);
    mba_buf_put(b, "</div>");
    banner(b, r);
    notes(b, r);
    mba_buf_put(b, "</div>\n");
}

/* ---- the page ---- */

/* The JSON that report.js expects; training runs have no kernels and events. */
static void data(mba_canvas *c, const mba_trainings *r)
{
    mba_buf *b = &c->out;
    mba_buf_put(b, "<script type=\"application/json\" id=\"data\">{\"meta\":{\"program\":\"mambascope " MBA_VERSION
                   "\",\"runs\":[");
    for (int i = 0; i < r->n; i++) {
        if (i) mba_buf_put(b, ",");
        mba_buf_json(b, r->run[i].name.s);
    }
    mba_buf_put(b, "]},\"events\":[],\"kernels\":{\"keys\":[],\"rows\":[],\"stalls\":[]},\"whatif\":null,\n\"tips\":");
    mba_page_tips(c);
    mba_buf_put(b, "}</script>\n");
}

mba_status mba_training_page(mba_buf *out, const mba_trainings *r)
{
    mba_canvas c = { 0 };
    head(&c.out, r);
    for (int i = 0; mba_training_figures[i]; i++)
        if (fits(mba_training_figures[i], r)) section(&c, mba_training_figures[i], r);
    mba_page_raw(&c.out);
    mba_buf_put(&c.out, "</main></div><div id=\"tip\" role=\"tooltip\"></div>\n");
    data(&c, r);
    mba_page_end(&c.out);
    const bool failed = c.out.failed;
    if (!failed) *out = c.out, c.out = (mba_buf){ 0 };
    mba_canvas_free(&c);
    return failed ? mba_fail(MBA_E_NOMEM, "no memory for the page of %d runs", r->n) : MBA_OK;
}

mba_status mba_training_page_write(const mba_trainings *r, const char *path)
{
    mba_buf b = { 0 };
    MBA_TRY(mba_training_page(&b, r));
    const mba_status st = mba_page_save(&b, path);
    mba_buf_free(&b);
    return st;
}

/* ---- one figure ---- */

const char *mba_training_figure_name(int i) { return mba_training_figures[i] ? mba_training_figures[i]->name : NULL; }
const char *mba_training_figure_title(int i)
{
    return mba_training_figures[i] ? mba_training_figures[i]->eyebrow : NULL;
}

static mba_status figure_named(const mba_training_figure **out, const mba_trainings *r, const char *name)
{
    for (int i = 0; mba_training_figures[i]; i++) {
        const mba_training_figure *f = mba_training_figures[i];
        if (strcmp(f->name, name)) continue;
        *out = f;
        return f->has(r) ? MBA_OK
                         : mba_fail(MBA_E_ARG, "these runs have no data for '%s'\nfix: it needs %s", name, f->needs);
    }
    return mba_fail(MBA_E_ARG, "training runs have no figure '%s'\nfix: mambascope report --list names them", name);
}

mba_status mba_training_svg(mba_buf *out, const mba_trainings *r, const char *figure, const char *view)
{
    const mba_training_figure *f = NULL;
    mba_canvas                 c = { .alone = true };
    int                        which;
    MBA_TRY(figure_named(&f, r, figure));
    if (!f->draw) return mba_fail(MBA_E_ARG, "'%s' is a table\nfix: use --csv instead of --svg", figure);
    MBA_TRY(mba_view_named(&which, f->name, f->views, view));
    f->draw(&c, MBA_WIDE, r, which);
    mba_drawing_alone(out, &c, true);
    mba_canvas_free(&c);
    return mba_buf_status(out, figure);
}

mba_status mba_training_csv(mba_buf *out, const mba_trainings *r, const char *figure)
{
    const mba_training_figure *f = NULL;
    mba_grid                   g;
    mba_grid_column            columns[MBA_TRAINING_COLUMNS];
    MBA_TRY(figure_named(&f, r, figure));
    fill_grid(&g, columns, f, r, INT64_MAX);
    out->failed |= g.failed;
    if (f->runs_in_columns) { // their columns are numbered: the first row has their names
        mba_grid_csv_heading(&g, out, false);
        mba_grid names;
        mba_grid_begin(&names, columns);
        mba_grid_text(&names, "run");
        for (int i = 0; i < r->n; i++) mba_grid_text(&names, r->run[i].name.s);
        mba_grid_csv_rows(&names, out, NULL);
        mba_grid_end(&names);
    } else {
        mba_grid_csv_heading(&g, out, false);
    }
    mba_grid_csv_rows(&g, out, NULL);
    mba_grid_end(&g);
    return mba_buf_status(out, figure);
}
