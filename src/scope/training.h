// SPDX-License-Identifier: Apache-2.0
/* training.h -- reads the folder that `train --out RUN` writes, for the training report and exports.
 *
 *     mba_training *t;
 *     MBA_TRY(mba_training_read(&t, "run"));               // run/log.jsonl; options and checkpoints if they exist
 *     printf("%lld steps, loss %g\n", (long long)t->step[t->n - 1].step, t->step[t->n - 1].loss);
 *     mba_training_free(t);                                // NULL is fine
 *
 * A run that continues, was killed or filled the disk may leave half a line at the end of its log; it is skipped, and
 * `half` is set. Lines that are not JSON, or whose step does not exceed the previous one, are skipped and counted. */
#ifndef MBA_SCOPE_TRAINING_H
#define MBA_SCOPE_TRAINING_H

#include <stdbool.h>
#include <stdint.h>

#include "core/status.h"

enum { MBA_TRAINING_SCORES = 4 };

/* One step. NaN: missing in the log, or not a number. */
typedef struct mba_trained {
    int64_t step;
    double  units; /* tokens, images or graphs so far */
    double  loss, grad_norm, lr;
    double  seconds; /* of all sessions of the run so far */
    double  rate;    /* units per second */
    double  valid_loss, score[MBA_TRAINING_SCORES];
    bool    skipped;
} mba_trained;

typedef struct mba_training_fact {
    char *name, *value;
} mba_training_fact;
typedef struct mba_training_sample {
    int64_t step;
    char   *prompt, *text;
} mba_training_sample;

typedef struct mba_training {
    char                 path[1024], label[128]; /* label: the last part of the path */
    char                 unit[32];               /* "tokens" */
    char                 loss_unit[32];          /* "nats/token"; "" if not known */
    mba_trained         *step;
    int64_t              n;
    char                 score[MBA_TRAINING_SCORES][32]; /* "accuracy" */
    int                  nscores;
    mba_training_fact   *fact; /* model, data, options; by name */
    int                  nfacts;
    mba_training_sample *sample; /* text generated during training */
    int                  nsamples;
    char               **note; /* lines of the log that are not steps */
    int                  nnotes;
    int64_t              sessions;              /* starts and resumes */
    int64_t              damaged, damaged_line; /* skipped lines; number of the first of them */
    bool                 half;                  /* the last line is incomplete */
    bool                 synthetic;             /* the data is synthetic */
} mba_training;

/* True if the folder has a log.jsonl, as `train --out` writes it. */
bool                mba_training_is(const char *path);
MBA_MUST mba_status mba_training_read(mba_training **out, const char *path);
void                mba_training_free(mba_training *t);
const char         *mba_training_fact_of(const mba_training *t, const char *name); /* NULL: not known */

/* The summary of a run for tables. NaN or 0: not known. */
typedef struct mba_training_summary {
    double  loss; /* mean of the last `mean_of` steps that were not skipped */
    int64_t mean_of;
    double  valid_loss, best_valid_loss; /* of the last validation; the lowest */
    int64_t best_step;
    double  rate, seconds, units; /* rate: median */
    int64_t steps, skipped;
} mba_training_summary;
mba_training_summary mba_training_sum(const mba_training *t);

/* An exponential moving average of v[0 .. n-1] over about `steps` values, with TensorBoard's correction of the start;
 * at a NaN the previous value is kept. */
void mba_training_smooth(double *out, const double *v, int64_t n, double steps);

#endif
