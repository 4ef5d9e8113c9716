// SPDX-License-Identifier: Apache-2.0
/* training.h -- one page from one or more training runs: loss, norm, rate, speed, skipped steps, samples; runs
 * compared.
 *
 *     mba_trainings runs;
 *     MBA_TRY(mba_trainings_open(&runs, (const char *const[]){ "base", "wide" }, 2));      // folders of `train --out`
 *     MBA_TRY(mba_training_page_write(&runs, "report.html"));
 *     mba_trainings_close(&runs);
 *
 * Every number comes from scope/training.h. The same folders give the same bytes. */
#ifndef MBA_REPORT_TRAINING_H
#define MBA_REPORT_TRAINING_H

#include "report/buf.h"
#include "scope/training.h"

enum { MBA_TRAININGS_MAX = 8 }; /* as many as there are colours */

/* What curves are drawn of, number by number beside the steps of the log. */
typedef enum mba_series {
    MBA_BY_STEP,
    MBA_BY_UNITS,
    MBA_BY_TIME, /* units and time in the words below */
    MBA_OF_LOSS,
    MBA_OF_LOSS_SMOOTH,
    MBA_OF_VALID_LOSS,
    MBA_OF_NORM,
    MBA_OF_NORM_SMOOTH,
    MBA_OF_RATE,
    MBA_OF_SPEED,
    MBA_OF_SPEED_SMOOTH,
    MBA_OF_SCORE_0,
    MBA_SERIES = MBA_OF_SCORE_0 + MBA_TRAINING_SCORES
} mba_series;

typedef struct mba_training_run {
    mba_training        *t;
    mba_training_summary sum;
    mba_name             name; /* told apart from the others */
    double              *series[MBA_SERIES];
} mba_training_run;

typedef struct mba_trainings {
    mba_training_run run[MBA_TRAININGS_MAX];
    int              n;
    char             unit[32], loss_unit[32]; /* "tokens", "nats/token" */
    double           unit_scale, time_scale, speed_scale;
    char             unit_words[64], time_words[16], speed_words[64]; /* "million tokens", "hours" */
} mba_trainings;

/* Nothing is left open on failure. MBA_E_ARG where they train on different things: tokens and images. */
MBA_MUST mba_status mba_trainings_open(mba_trainings *r, const char *const *path, int n);
void                mba_trainings_close(mba_trainings *r);

MBA_MUST mba_status mba_training_page(mba_buf *out, const mba_trainings *r);
MBA_MUST mba_status mba_training_page_write(const mba_trainings *r, const char *path); /* whole or not at all */

/* One figure alone, and its numbers: those of every step. */
MBA_MUST mba_status mba_training_svg(mba_buf *out, const mba_trainings *r, const char *figure, const char *view);
MBA_MUST mba_status mba_training_csv(mba_buf *out, const mba_trainings *r, const char *figure);
const char         *mba_training_figure_name(int i); /* NULL behind the last */
const char         *mba_training_figure_title(int i);

#endif
