// SPDX-License-Identifier: Apache-2.0
/* training_tables.c -- see training_figures.h: the figures of the training report that are tables: samples, the runs
 * side by side, and their options. */
#include "report/training_figures.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static bool always(const mba_trainings *r) { return r->n > 0; }

/* ---- samples ---- */

static bool has_samples(const mba_trainings *r)
{
    for (int i = 0; i < r->n; i++)
        if (r->run[i].t->nsamples) return true;
    return false;
}

static bool is_text(const mba_trainings *r) { return !strcmp(r->unit, "tokens"); }

static void samples_heading(mba_buf *b, const mba_trainings *r)
{
    int64_t step = 0;
    for (int i = 0; i < r->n; i++)
        for (int k = 0; k < r->run[i].t->nsamples; k++)
            if (r->run[i].t->sample[k].step > step) step = r->run[i].t->sample[k].step;
    mba_buf_add(b, "What the model writes, up to step %s", mba_num((double)step).s);
}

static void samples_columns(mba_grid_column *to, const mba_trainings *r)
{
    (void)r;
    memcpy(to,
           (const mba_grid_column[]){
               { "run", "run" }, { "step", "step" }, { "prompt", "given" }, { "text", "written" }, { 0 } },
           5 * sizeof *to);
}

static void samples_numbers(mba_grid *g, const mba_trainings *r, int64_t most)
{
    enum { SHOWN = 8 }; // the first, the last, and some in between
    for (int i = 0; i < r->n; i++) {
        const mba_training *t = r->run[i].t;
        const int           every = most < INT64_MAX && t->nsamples > SHOWN ? (t->nsamples + SHOWN - 1) / SHOWN : 1;
        for (int k = 0; k < t->nsamples; k++) {
            if (k % every && k != t->nsamples - 1) continue;
            mba_grid_text(g, r->run[i].name.s);
            mba_grid_number(g, (double)t->sample[k].step);
            mba_grid_text(g, t->sample[k].prompt);
            mba_grid_text(g, t->sample[k].text);
        }
    }
}

/* ---- runs side by side ---- */

static void runs_columns(mba_grid_column *to, const mba_trainings *r)
{
    static const char *const key[MBA_TRAININGS_MAX] = { "run_1", "run_2", "run_3", "run_4",
                                                        "run_5", "run_6", "run_7", "run_8" };
    mba_assert(r->n <= MBA_TRAININGS_MAX && r->n + 1 < MBA_TRAINING_COLUMNS);
    to[0] = (mba_grid_column){ "what", "" };
    for (int i = 0; i < r->n; i++) to[1 + i] = (mba_grid_column){ key[i], r->run[i].name.s };
    to[1 + r->n] = (mba_grid_column){ 0 };
}

typedef double number_fn(const mba_training_run *run);
static double  of_loss(const mba_training_run *u) { return u->sum.loss; }
static double  of_valid(const mba_training_run *u) { return u->sum.valid_loss; }
static double  of_best(const mba_training_run *u) { return u->sum.best_valid_loss; }
static double  of_best_step(const mba_training_run *u) { return u->sum.best_step ? (double)u->sum.best_step : NAN; }
static double  of_steps(const mba_training_run *u) { return (double)u->sum.steps; }
static double  of_units(const mba_training_run *u) { return u->sum.units; }
static double  of_speed(const mba_training_run *u) { return u->sum.rate; }
static double  of_time(const mba_training_run *u) { return u->series[MBA_BY_TIME][u->t->n - 1]; }
static double  of_skipped(const mba_training_run *u) { return (double)u->sum.skipped; }
static double  of_sessions(const mba_training_run *u) { return (double)u->t->sessions; }

static void fact_row(mba_grid *g, const mba_trainings *r, const char *name)
{
    mba_grid_text(g, name);
    for (int i = 0; i < r->n; i++) mba_grid_text(g, mba_training_fact_of(r->run[i].t, name));
}

/* Facts that have rows of their own above the options, and the output folder, which always differs. */
static bool is_told(const char *name)
{
    return !strcmp(name, "model") || !strcmp(name, "data") || !strcmp(name, "--out");
}

/* True if a fact is not the same in all runs; a run without it differs from one that has it. */
static bool differs(const mba_trainings *r, const char *name)
{
    const char *first = mba_training_fact_of(r->run[0].t, name);
    for (int i = 1; i < r->n; i++) {
        const char *v = mba_training_fact_of(r->run[i].t, name);
        if ((first == NULL) != (v == NULL) || (v && strcmp(first, v))) return true;
    }
    return false;
}

static void fact_rows(mba_grid *g, const mba_trainings *r, bool only_different)
{
    for (int i = 0; i < r->n; i++)
        for (int k = 0; k < r->run[i].t->nfacts; k++) {
            const char *name = r->run[i].t->fact[k].name;
            bool        before = false;
            for (int j = 0; j < i; j++) before |= mba_training_fact_of(r->run[j].t, name) != NULL;
            if (before || (only_different && (is_told(name) || !differs(r, name)))) continue;
            fact_row(g, r, name);
        }
}

static void runs_numbers(mba_grid *g, const mba_trainings *r, int64_t most)
{
    char speed[64], units[64], loss[96], time[32];
    snprintf(time, sizeof time, "time, %s", r->time_words);
    snprintf(speed, sizeof speed, "median speed, %s/s", r->unit);
    snprintf(units, sizeof units, "%s seen", r->unit);
    snprintf(loss, sizeof loss, "training loss at the end%s%s", *r->loss_unit ? ", " : "", r->loss_unit);
    const struct {
        const char *what;
        number_fn  *of;
        int         places;
    } row[] = {
        { "best validation loss", of_best, 4 },
        { "at step", of_best_step, 0 },
        { "last validation loss", of_valid, 4 },
        { loss, of_loss, 4 },
        { "steps", of_steps, 0 },
        { units, of_units, 0 },
        { speed, of_speed, 0 },
        { time, of_time, 0 },
        { "sessions", of_sessions, 0 },
        { "skipped steps", of_skipped, 0 },
    };
    (void)most;
    for (size_t k = 0; k < sizeof row / sizeof *row; k++) {
        bool any = false;
        for (int i = 0; i < r->n; i++) any |= !isnan(row[k].of(&r->run[i]));
        if (!any) continue;
        mba_grid_text(g, row[k].what);
        for (int i = 0; i < r->n; i++) mba_grid_fixed(g, row[k].of(&r->run[i]), row[k].places);
    }
    for (int k = 0; k < 2; k++) {
        const char *name = k ? "data" : "model";
        bool        any = false;
        for (int i = 0; i < r->n; i++) any |= mba_training_fact_of(r->run[i].t, name) != NULL;
        if (any) fact_row(g, r, name);
    }
    if (r->n > 1) fact_rows(g, r, true);
}

static void runs_heading(mba_buf *b, const mba_trainings *r)
{
    int different = 0;
    for (int i = 0; i < r->n; i++)
        for (int k = 0; k < r->run[i].t->nfacts; k++) {
            const char *name = r->run[i].t->fact[k].name;
            bool        before = false;
            for (int j = 0; j < i; j++) before |= mba_training_fact_of(r->run[j].t, name) != NULL;
            different += !before && !is_told(name) && differs(r, name);
        }
    if (r->n == 1) mba_buf_put(b, "The run in numbers");
    else if (!different) mba_buf_add(b, "%d runs side by side; no known option differs", r->n);
    else
        mba_buf_add(b, "%d runs side by side; %d option%s differ%s", r->n, different, different == 1 ? "" : "s",
                    different == 1 ? "s" : "");
}

static bool has_facts(const mba_trainings *r)
{
    for (int i = 0; i < r->n; i++)
        if (r->run[i].t->nfacts) return true;
    return false;
}

static void options_heading(mba_buf *b, const mba_trainings *r)
{
    mba_buf_put(b, r->n == 1 ? "Options of the run" : "Options of the runs");
}

static void options_numbers(mba_grid *g, const mba_trainings *r, int64_t most)
{
    (void)most;
    fact_rows(g, r, false);
}

/* ---- the figures ---- */

const mba_training_figure mba_training_fig_runs = {
    .name = "runs",
    .nav = "Runs",
    .eyebrow = "Runs · results side by side",
    .runs_in_columns = true,
    .sub = "Results, then model, data, and the options in which the runs differ.",
    .reading = "The training loss at the end is the mean of the last 5 % of the steps, at most 100. Speed is "
               "the median of all steps. Time is the sum over all sessions of a resumed run.",
    .has = always,
    .heading = runs_heading,
    .columns = runs_columns,
    .numbers = runs_numbers,
};

const mba_training_figure mba_training_fig_samples = {
    .name = "samples",
    .nav = "Samples",
    .eyebrow = "Samples · text at each checkpoint",
    .sub = "A text, continued by the model of that step.",
    .reading = "Prompt and random numbers are the same at every step, so that only the model differs.",
    .needs = "samples: mambascope train --sample \"In the beginning\" --save-every 500",
    .has = has_samples,
    .fits = is_text,
    .heading = samples_heading,
    .columns = samples_columns,
    .numbers = samples_numbers,
};

const mba_training_figure mba_training_fig_options = {
    .name = "options",
    .nav = "Options",
    .eyebrow = "Options · all of them",
    .runs_in_columns = true,
    .sub = "Model, data, optimizer and order, from the folders of the runs.",
    .reading = "If a run was resumed with other values, the notes above say at which step.",
    .needs = "a checkpoint in the run's folder",
    .has = has_facts,
    .heading = options_heading,
    .columns = runs_columns,
    .numbers = options_numbers,
};
