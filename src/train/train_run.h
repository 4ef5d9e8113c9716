// SPDX-License-Identifier: Apache-2.0
/* train_run.h -- the state of one training run, shared by train.c (the loop) and train_state.c (what it keeps on
 * disk). */
#ifndef MBA_TRAIN_RUN_H
#define MBA_TRAIN_RUN_H

#include <stdio.h>

#include "data/tokenizer_files.h"
#include "train/guard.h"
#include "train/train.h"

typedef struct mba__run {
    const mba_train_options *o;
    mba_session              s;
    mba_session              judge; /* for validation, if it computes something else than training */
    mba_feed                *train, *valid;
    mba_tokenizer_files      tokenizer; /* of text, if known */
    mba_step                 step;
    bool                     ahead;       /* the next micro-batch is bound and being uploaded: */
    mba_step                 next;        /* its step, */
    mba_position             at;          /* and the data position before it */
    mba_status               unread;      /* the failure of a batch that cannot be read; it begins at `at` */
    char                     story[1024]; /* the message of that failure */
    mba_guard                guard;
    int64_t                  micros, began_at;    /* micro-batches per step; the step at which this session began */
    int64_t                  units, units_before; /* tokens, images or graphs of this session; of earlier sessions */
    int64_t                  best_step;           /* with the lowest validation loss; 0: none yet */
    double                   best_loss;
    double                   began_s, start_s; /* start_s, start_units: mba_train_report */
    int64_t                  start_units;
    const float             *loss, *norm; /* results of a step, on the host */
    FILE                    *log;
    mba_lock                *lock; /* of the folder, unless the caller holds it */
    char                     note[512];
} mba__run;

/* Loads what --resume or --init name, and checks that the options fit the resumed run. */
MBA_MUST mba_status mba__run_restore(mba__run *r);

/* Opens log.jsonl. That of a resumed run is cut at the step of its checkpoint. */
MBA_MUST mba_status mba__run_open_log(mba__run *r);

/* Completes the save of a run that was killed after it wrote a step: removes old checkpoints, links `best`. */
MBA_MUST mba_status mba__run_finish_save(mba__run *r);

/* Saves step-NNNNNN and removes old checkpoints. */
MBA_MUST mba_status mba__run_save(mba__run *r);

/* Saves `best`; `saved`: the step-* of this step exists, and its files are linked instead of written. */
MBA_MUST mba_status mba__run_save_best(mba__run *r, bool saved);

/* Completes a report, writes its line to the log and hands it to the caller. */
void mba__run_report(mba__run *r, mba_train_report *p);

/* Fails if a line of the log could not be written. Call it before a checkpoint of this step is saved: a run that
 * resumes from it would lack the line. */
MBA_MUST mba_status mba__run_check_log(const mba__run *r);

#endif
