// SPDX-License-Identifier: Apache-2.0
/* train_run.h -- the state of one training run, shared by train.c (the loop) and train_state.c (what it keeps on
 * disk). */
#ifndef MBA_TRAIN_RUN_H
#define MBA_TRAIN_RUN_H

#include <stdio.h>

#include "data/tokenizer_files.h"
#include "train/guard.h"
#include "train/slots.h"
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
    int64_t                  micros, slots; /* micro-batches per step, of this rank and of all */
    int64_t                  parts; /* neighbouring ranks that share each of them, a part of every sequence each; 1 */
    int64_t                  began_at; /* the step at which this session began */
    mba_world               *world;    /* NULL: one rank */
    mba__slots              *sums;     /* over slots; NULL: micro-batches are added one after the other */
    int64_t                  all_units, all_left_out; /* several ranks: of all of them */
    double                   own_loss;                /* of this rank's slots */
    bool                     told_to_stop;            /* several ranks: one of them was interrupted */
    bool                     apart;                   /* several ranks: they do not share the folder */
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

/* True for the rank that writes. */
static inline bool mba__run_writes(const mba__run *r) { return !r->world || r->world->rank == 0; }

/* train_ranks.c: what several ranks agree on. Each fails, on all ranks alike, with the message of the first rank whose
 * status is not MBA_OK. */
/* After a step is staged: the loss scale and units of all ranks, and whether one was interrupted. */
MBA_MUST mba_status mba__run_agree_staged(mba__run *r, mba_step *step, mba_status mine);
/* After the passes: *loss is the sum over slots, in their order; *good: slots before one whose loss is not finite. */
MBA_MUST mba_status mba__run_agree_losses(mba__run *r, const float *loss, double *sum, int64_t *good, mba_status mine);
/* *flag becomes that of rank 0; with `any`, true if one rank has it set. */
MBA_MUST mba_status mba__run_agree_flag(mba__run *r, bool *flag, bool any);
/* The note of the first rank that has one. */
MBA_MUST mba_status mba__run_agree_note(mba__run *r);
/* Before the first step: all ranks have the same model, options and data. */
MBA_MUST mba_status mba__run_agree_start(mba__run *r);

/* Loads what --resume or --init name, and checks that the options fit the resumed run. */
MBA_MUST mba_status mba__run_restore(mba__run *r);

/* Opens log.jsonl. That of a resumed run is cut at the step of its checkpoint. */
MBA_MUST mba_status mba__run_open_log(mba__run *r);

/* Completes the save of a run that was killed after it wrote a step: removes old checkpoints, links `best`. */
MBA_MUST mba_status mba__run_finish_save(mba__run *r);

/* Saves step-NNNNNN and removes old checkpoints. A call of all ranks, as are the other saves: rank 0 writes, with the
 * moments that it gathers in s.whole. */
MBA_MUST mba_status mba__run_save(mba__run *r);

/* Saves `best`; `saved`: the step-* of this step exists, and its files are linked instead of written. */
MBA_MUST mba_status mba__run_save_best(mba__run *r, bool saved);

/* Completes a report, writes its line to the log and hands it to the caller. */
void mba__run_report(mba__run *r, mba_train_report *p);

/* Fails if a line of the log could not be written. Call it before a checkpoint of this step is saved: a run that
 * resumes from it would lack the line. */
MBA_MUST mba_status mba__run_check_log(const mba__run *r);

#endif
