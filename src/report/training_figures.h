// SPDX-License-Identifier: Apache-2.0
/* training_figures.h -- the interface of the figures of the training report; training_page.c puts them in order. */
#ifndef MBA_REPORT_TRAINING_FIGURES_H
#define MBA_REPORT_TRAINING_FIGURES_H

#include "report/grid.h"
#include "report/svg.h"
#include "report/training.h"

enum { MBA_TRAINING_COLUMNS = MBA_TRAININGS_MAX + 4 };

typedef struct mba_training_figure {
    const char        *name, *nav, *eyebrow, *sub, *reading;
    const char        *needs; /* what is missing if has() is false */
    const char *const *views; /* NULL: one */
    bool (*has)(const mba_trainings *r);
    bool (*fits)(const mba_trainings *r); /* false: the figure does not apply to these runs; NULL: it does */
    void (*heading)(mba_buf *b, const mba_trainings *r);
    void (*columns)(mba_grid_column *to, const mba_trainings *r);            /* ends with an entry without a key */
    void (*numbers)(mba_grid *g, const mba_trainings *r, int64_t most);      /* about `most` rows per run */
    void (*draw)(mba_canvas *c, double w, const mba_trainings *r, int view); /* NULL: a table */
    bool runs_in_columns;                                                    /* one column per run, for comparison */
} mba_training_figure;

/* The run with the lowest loss; -1: none has one. By validation loss if every run has one, else by training loss. */
int    mba_trainings_best(const mba_trainings *r, bool *valid);
double mba_training_loss(const mba_training_run *run, bool valid); /* the loss that is compared */

extern const mba_training_figure mba_training_fig_runs, mba_training_fig_samples, mba_training_fig_options; /* tables */
extern const mba_training_figure *const mba_training_figures[]; /* in the order of the page, NULL at the end */

#endif
