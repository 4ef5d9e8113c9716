// SPDX-License-Identifier: Apache-2.0
/* training.h -- the training report: one page from one or more training runs with loss, gradient norm, learning rate,
 * speed, skipped steps and samples, compared between runs.
 *
 *     mba_trainings runs;
 *     MBA_TRY(mba_trainings_open(&runs, (const char *const[]){ "base", "wide" }, 2));      // folders of `train --out`
 *     MBA_TRY(mba_training_page_write(&runs, "report.html"));
 *     mba_trainings_close(&runs);
 *
 * All numbers come from scope/training.h. The same folders give the same bytes. */
#ifndef MBA_REPORT_TRAINING_H
#define MBA_REPORT_TRAINING_H

#include "report/buf.h"
#include "scope/training.h"

enum { MBA_TRAININGS_MAX = 8 }; /* as many as there are colours */

/* The series that curves show, each with one value per step of the log. */
typedef enum mba_series {
    MBA_BY_STEP,
    MBA_BY_UNITS,
    MBA_BY_TIME, /* x axes; units and time are scaled as unit_words and time_words */
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
    mba_name             name; /* distinct among the runs */
    double              *series[MBA_SERIES];
} mba_training_run;

typedef struct mba_trainings {
    mba_training_run run[MBA_TRAININGS_MAX];
    int              n;
    char             unit[32], loss_unit[32]; /* "tokens", "nats/token" */
    double           unit_scale, time_scale, speed_scale;
    char             unit_words[64], time_words[16], speed_words[64]; /* "million tokens", "hours" */
} mba_trainings;

/* Nothing stays open on failure. MBA_E_ARG if the runs have different units, such as tokens and images. */
MBA_MUST mba_status mba_trainings_open(mba_trainings *r, const char *const *path, int n);
void                mba_trainings_close(mba_trainings *r);

MBA_MUST mba_status mba_training_page(mba_buf *out, const mba_trainings *r);
MBA_MUST mba_status mba_training_page_write(const mba_trainings *r, const char *path); /* atomic */

/* One figure as a standalone SVG, and its numbers for every step as CSV. */
MBA_MUST mba_status mba_training_svg(mba_buf *out, const mba_trainings *r, const char *figure, const char *view);
MBA_MUST mba_status mba_training_csv(mba_buf *out, const mba_trainings *r, const char *figure);
const char         *mba_training_figure_name(int i); /* NULL past the last */
const char         *mba_training_figure_title(int i);

#endif
