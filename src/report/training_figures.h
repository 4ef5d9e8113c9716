// SPDX-License-Identifier: Apache-2.0
/* training_figures.h -- the figures of the page of training runs; training_page.c puts them in order. */
#ifndef MBA_REPORT_TRAINING_FIGURES_H
#define MBA_REPORT_TRAINING_FIGURES_H

#include "report/grid.h"
#include "report/svg.h"
#include "report/training.h"

enum { MBA_TRAINING_COLUMNS = MBA_TRAININGS_MAX + 4 };

typedef struct mba_training_figure {
    const char        *name, *nav, *eyebrow, *sub, *reading;
    const char        *needs; /* what is missing where has() is false */
    const char *const *views; /* NULL: one */
    bool (*has)(const mba_trainings *r);
    bool (*fits)(const mba_trainings *r); /* false: not for these runs at all; NULL: for all */
    void (*heading)(mba_buf *b, const mba_trainings *r);
    void (*columns)(mba_grid_column *to, const mba_trainings *r);            /* ends with one without a key */
    void (*numbers)(mba_grid *g, const mba_trainings *r, int64_t most);      /* at most so many rows a run */
    void (*draw)(mba_canvas *c, double w, const mba_trainings *r, int view); /* NULL: a table */
    bool runs_in_columns;                                                    /* one column a run: what is compared */
} mba_training_figure;

/* The run with the lowest loss; -1: none has one. By validations where every run has some, else by training. */
int    mba_trainings_best(const mba_trainings *r, bool *valid);
double mba_training_loss(const mba_training_run *run, bool valid); /* what it is the lowest by */

/* training_tables.c */
extern const mba_training_figure mba_training_table_runs, mba_training_table_samples, mba_training_table_options;

extern const mba_training_figure *const mba_training_figures[]; /* in the order of the page, NULL at the end */

#endif
