/* train.h -- the loop: batches in, updates, checkpoints and reports out.
 *
 *     mba_train_options o = { .session = { .model = c, .adamw = mba_adamw_defaults() }, .data = "shards",
 *                             .schedule = { .lr = 3e-3, .lr_min = 1e-5, .warmup = 50, .steps = 1000 }, .report = show };
 *     MBA_TRY(mba_train(&o));
 *
 * A run is exact: the same options give the same bits, whatever the number of threads, and a run that was
 * stopped and resumed gives the bits of one that was not. */
#ifndef MBA_TRAIN_H
#define MBA_TRAIN_H

#include <signal.h>

#include "data/loader.h"
#include "train/schedule.h"
#include "train/session.h"

/* What the loop tells after every step, and after every validation (valid_loss is NaN elsewhere). */
typedef struct mba_train_report {
    int64_t     step, steps, tokens;              /* steps done; of how many; tokens seen by this run */
    double      loss, grad_norm, lr, valid_loss;
    double      step_s, run_s, tokens_per_s;
    bool        skipped;                          /* the guard or a NaN kept the update back */
    const char *note;                             /* why, or NULL */
} mba_train_report;

typedef struct mba_train_options {
    mba_session_options session;                  /* .backward and .update are set here */
    mba_schedule        schedule;
    int64_t             micros;                   /* micro-batches per update; 0: 1 */
    uint64_t            seed;
    double              guard;                    /* skip norms above this multiple of their median; 0: only NaN */

    const char *data;                             /* token files (loader.h); must be given */
    double      validation;                       /* the last part of them is held out; 0: none */
    bool        in_order;                         /* not shuffled */
    bool        carry;                            /* in order, states carried from batch to batch: truncated back-propagation */
    bool        targets_within_documents;

    const char *out;                              /* run directory: log.jsonl, step-*; NULL: nothing is kept */
    const char *resume;                           /* a checkpoint, or a run directory: its newest one */
    int64_t     save_every, keep;                 /* steps; 0: only at the end. keep 0: all */
    int64_t     valid_every, valid_batches;       /* 0: at the end only; 0: all */
    int64_t     stop_after;                       /* steps of this session; 0: no limit */

    volatile sig_atomic_t *stop;                  /* set by a signal: the step is finished, saved, and that is all */
    void (*planned)(void *ctx, const mba_session *s, const mba_loader *data);     /* before memory is taken; or NULL */
    void (*report)(void *ctx, const mba_train_report *r);
    void *ctx;
} mba_train_options;

MBA_MUST mba_status mba_train(const mba_train_options *o);

#endif
