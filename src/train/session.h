// SPDX-License-Identifier: Apache-2.0
/* session.h -- a model made ready: graph, plan, memory. Train, eval, generate and bench begin here.
 *
 *     mba_session s = { 0 };
 *     mba_status st = mba_session_plan(&s, &(mba_session_options){ .model = m, .backward = true, .update = true });
 *     if (st == MBA_OK) st = mba_session_bind(&s, seed);       // takes the memory, starts the parameters
 *     if (st == MBA_OK) st = mba_program_run(s.program, MBA_STEP, &step, NULL);
 *     mba_session_end(&s);
 *
 * A planned session has no memory yet: it can be counted and printed. */
#ifndef MBA_SESSION_H
#define MBA_SESSION_H

#include "core/program.h"
#include "models/model.h"
#include "ops/adamw/adamw.h"

/* AUTO keeps as much as fits the limit. What speed alone keeps is given up first, node by node as far as it must be: v
 * of gated norms, then states of ssd (STATES: all of both), and where nobody stated a limit already beyond three
 * quarters of the machine's; then what is cheap is recomputed, as much of it as must be (ON: all, and no state of a
 * scan kept). */
typedef enum mba_recompute {
    MBA_RECOMPUTE_AUTO,
    MBA_RECOMPUTE_OFF,
    MBA_RECOMPUTE_ON,
    MBA_RECOMPUTE_STATES
} mba_recompute;

typedef enum mba_optimizer { MBA_ADAMW, MBA_LAMB } mba_optimizer;

typedef struct mba_session_options {
    mba_model         model;            /* need not be complete */
    const mba_device *device;           /* NULL: the CPU */
    mba_dtype         compute;          /* of activations and products; MBA_NONE: fp32 */
    bool              backward, update; /* update: the optimizer too, and training mode */
    bool              train;            /* training mode: batch statistics, drop path, dropout */
    bool              accumulate;       /* several micro-batches per update */
    mba_recompute     recompute;
    int64_t           memory_bytes; /* the plan may not exceed it; 0: nine tenths of the machine's */
    mba_optimizer     optimizer;
    mba_adamw_options adamw;    /* LAMB takes the same numbers, and clips once more, to 1 */
    double            ema;      /* decay of the averaged model; 0: none */
    const char       *variants; /* "ssd=chunked": see program.h */
} mba_session_options;

typedef struct mba_tokenizer_files mba_tokenizer_files; /* data/tokenizer_files.h */

typedef struct mba_session {
    mba_model                  model; /* complete */
    const mba_device          *device;
    mba_graph                 *graph;
    mba_program               *program;
    mba_model_graph            io;
    bool                       recomputes, averages; /* averages: there is an averaged model (ops/ema) */
    const mba_tokenizer_files *tokenizer;            /* text: lies in every checkpoint that is saved; NULL: none */
} mba_session;

MBA_MUST mba_status mba_session_plan(mba_session *s, const mba_session_options *o);
MBA_MUST mba_status mba_session_bind(mba_session *s, uint64_t seed); /* takes the memory, starts the parameters */
MBA_MUST mba_status mba_session_take(mba_session *s); /* takes the memory; what is in it comes from a file */
void                mba_session_end(mba_session *s);  /* half-made and zeroed ones are fine */

/* The host address of an input or result of a bound session, which must exist. */
void *mba_session_at(const mba_session *s, const char *name);

/* The same, NULL where there is none. */
void *mba_session_find(const mba_session *s, const char *name);

/* What the model has learned, tensor by tensor: parameters and running statistics (mba_is_param, mba_is_state), without
 * averages. `averaged`: its running average instead. */
bool mba_learned(const mba_tensor *t);
/* On the host: after mba_program_pull, where that is not the device. */
float *mba_session_learned_at(const mba_session *s, const mba_tensor *t, bool averaged);

/* Copies what `from` has learned into a session of the same model, planned for something else. */
MBA_MUST mba_status mba_session_copy(mba_session *to, const mba_session *from, bool averaged);

/* True of an input that is the state of the segment before (models that carry). */
bool mba_session_carries(const mba_session *s, const mba_tensor *t);

/* Copies the states that left the last segment into the inputs of the next one. */
void mba_session_carry(mba_session *s);

/* Row b goes on after before[b] tokens of its document (loader.h): its carried states forget what was before those.
 * NULL: 0. */
void mba_session_reset_state(mba_session *s, const int32_t *before);

/* The number of parameters; a tied matrix counts once. */
int64_t mba_session_parameters(const mba_session *s);

#endif
