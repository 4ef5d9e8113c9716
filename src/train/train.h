// SPDX-License-Identifier: Apache-2.0
/* train.h -- the training loop: reads batches, updates the model, saves checkpoints, reports.
 *
 *     mba_train_options o = { .session = { .model = c, .adamw = mba_adamw_defaults() }, .feed.data = "shards",
 *                             .schedule = { .lr = 3e-3, .lr_min = 1e-5, .warmup = 50, .steps = 1000 },
 *                             .report = show };
 *     MBA_TRY(mba_train(&o));
 *
 * A run is exact: the same options give the same bits for any number of threads, and a run that was
 * stopped and resumed gives the same bits as one that was not. With `tree`, the number of ranks does not matter either:
 * only that of micro-batches over all ranks does. Rank 0 writes, logs and validates; it alone needs `out`, `report`,
 * `saved`. */
#ifndef MBA_TRAIN_H
#define MBA_TRAIN_H

#include <jansson.h>
#include <signal.h>

#include "core/lock.h"
#include "train/feed.h"
#include "train/schedule.h"
#include "train/session.h"

enum { MBA_START_STEPS = 2 };

/* The report after every step. valid.units is 0 unless the step was followed by a validation. If no step is left to
 * take, there is one report with no units and a loss of NaN. */
typedef struct mba_train_report {
    int64_t               step, steps, units; /* steps done; planned; tokens, images or graphs of this session */
    const char           *unit;               /* "tokens" */
    double                loss, grad_norm, lr;
    mba_validation_result valid;
    bool                  best;      /* this validation has the lowest loss of the run so far */
    int64_t               best_step; /* the step with the lowest loss, 0: none yet; and that loss */
    double                best_loss;
    double                step_s, run_s, units_per_s;
    /* What the first MBA_START_STEPS of this session took and trained; 0 before they are done. On a GPU they load
     * libraries and kernels and capture the step. */
    double      start_s;
    int64_t     start_units;
    bool        skipped;  /* the guard or a NaN prevented the update */
    const char *note;     /* why, or NULL */
    int64_t     left_out; /* damaged items of the data that were skipped so far */
    const char *story;    /* message about the last of them */
} mba_train_report;

typedef struct mba_train_options {
    mba_session_options session; /* .backward and .update are set here */
    mba_schedule        schedule;
    int64_t             micros; /* micro-batches per update and rank; 0: 1 */
    mba_world          *world;  /* of several ranks, which all call mba_train with the same options; NULL: one */
    bool                tree;   /* add micro-batches as several ranks would (slots.h); always so with a world */
    uint64_t            seed;
    double              guard; /* skip norms above this multiple of their median; 0: only NaN */

    mba_feed_options feed; /* the data; .held_out, .seed and .micros are set here */
    /* Text: each row continues its document with its states (truncated back-propagation through time). */
    bool carry;

    const char     *out;              /* run directory: log.jsonl, step-*, best; NULL: nothing is saved */
    const mba_lock *lock;             /* of `out`, if the caller holds it; NULL: taken here */
    const char     *resume;           /* a checkpoint, or a run directory: its newest checkpoint */
    const char     *init;             /* likewise, but only its weights, with which a new run starts */
    int64_t         save_every, keep; /* steps, 0: only at the end; newest checkpoints to keep, 0: all */
    int64_t         valid_every;      /* steps; 0: only at the end, and no best checkpoint is kept */
    int64_t         valid_batches;    /* of a validation; 0: the whole held-out part */
    int64_t         stop_after;       /* steps of this session; 0: no limit */
    const json_t   *options;          /* every option of the run, saved with it (run_folder.h); or NULL */
    const json_t   *changes;          /* strings: options that differ from the resumed run, for the log */
    bool            other_data;       /* a resumed run may use data of another size, from its start */

    volatile sig_atomic_t *stop; /* set by a signal: the loop finishes the step, saves and ends */
    /* Called before memory is allocated; or NULL. `judge`: the second session for validation; NULL: none. */
    void (*planned)(void *ctx, const mba_session *s, const mba_session *judge, const mba_feed *data);
    void (*restored)(void *ctx); /* called once `resume` or `init` is loaded; or NULL */
    void (*report)(void *ctx, const mba_train_report *r);
    /* Called after each step-*; or NULL. apart: rank 0 wrote for the others, which do not share the folder. */
    void (*saved)(void *ctx, const char *checkpoint, int64_t step, bool apart);
    void *ctx;
} mba_train_options;

MBA_MUST mba_status mba_train(const mba_train_options *o);

/* Units per second since the start of this session; without its first steps if there are others. */
double mba_train_rate(const mba_train_report *r);

#endif
