// SPDX-License-Identifier: Apache-2.0
/* train.h -- the loop: batches in, updates, checkpoints and reports out.
 *
 *     mba_train_options o = { .session = { .model = c, .adamw = mba_adamw_defaults() }, .feed.data = "shards",
 *                             .schedule = { .lr = 3e-3, .lr_min = 1e-5, .warmup = 50, .steps = 1000 },
 *                             .report = show };
 *     MBA_TRY(mba_train(&o));
 *
 * A run is exact: the same options give the same bits, whatever the number of threads, and a run that was
 * stopped and resumed gives the bits of one that was not. */
#ifndef MBA_TRAIN_H
#define MBA_TRAIN_H

#include <jansson.h>
#include <signal.h>

#include "core/lock.h"
#include "train/feed.h"
#include "train/schedule.h"
#include "train/session.h"

/* What the loop tells after every step, and after every validation (elsewhere valid.units is 0); once, with no units
 * and a loss that is no number, where no step is left to take. */
typedef struct mba_train_report {
    int64_t               step, steps, units; /* steps done; of how many; tokens, images, graphs of this session */
    const char           *unit;               /* "tokens" */
    double                loss, grad_norm, lr;
    mba_validation_result valid;
    bool                  best;      /* this validation has the least loss of the run so far */
    int64_t               best_step; /* the step that has it, 0: none yet; and its loss */
    double                best_loss;
    double                step_s, run_s, units_per_s;
    bool                  skipped;  /* the guard or a NaN kept the update back */
    const char           *note;     /* why, or NULL */
    int64_t               left_out; /* damaged items of the data that were passed over, so far */
    const char           *story;    /* of the last of them */
} mba_train_report;

typedef struct mba_train_options {
    mba_session_options session; /* .backward and .update are set here */
    mba_schedule        schedule;
    int64_t             micros; /* micro-batches per update; 0: 1 */
    uint64_t            seed;
    double              guard; /* skip norms above this multiple of their median; 0: only NaN */

    mba_feed_options feed;  /* the data; .held_out, .seed and .micros are set here */
    bool             carry; /* text: rows go on where they ended, with their states: truncated
                                                     back-propagation */

    const char     *out;                        /* run directory: log.jsonl, step-*, best; NULL: nothing is kept */
    const mba_lock *lock;                       /* of `out`, of a caller that has looked into it; NULL: taken here */
    const char     *resume;                     /* a checkpoint, or a run directory: its newest one */
    const char     *init;                       /* the same, of its weights alone: a new run begins with them */
    int64_t         save_every, keep;           /* steps; 0: only at the end. keep 0: all */
    int64_t         valid_every, valid_batches; /* 0: at the end only, and no best checkpoint is kept; 0: all */
    int64_t         stop_after;                 /* steps of this session; 0: no limit */
    const json_t   *options;    /* every option of the run, kept with it (run_folder.h); NULL: none are */
    const json_t   *changes;    /* texts: options of the resumed run that are others now; the log names them */
    bool            other_data; /* the resumed run may go on with data of another size: from its beginning, then */

    volatile sig_atomic_t *stop; /* set by a signal: the step is finished, saved, and that is all */
    /* Before memory is taken; or NULL. `judge`: the second session that validates, NULL where there is none. */
    void (*planned)(void *ctx, const mba_session *s, const mba_session *judge, const mba_feed *data);
    void (*restored)(void *ctx); /* when `resume` and `init` are read; or NULL */
    void (*report)(void *ctx, const mba_train_report *r);
    void (*saved)(void *ctx, const char *checkpoint, int64_t step); /* after each step-*; or NULL */
    void *ctx;
} mba_train_options;

MBA_MUST mba_status mba_train(const mba_train_options *o);

#endif
