// SPDX-License-Identifier: Apache-2.0
/* session.h -- a model with its graph, plans and memory. Train, eval, generate and bench start from one.
 *
 *     mba_session s = { 0 };
 *     mba_status st = mba_session_plan(&s, &(mba_session_options){ .model = m, .backward = true, .update = true });
 *     if (st == MBA_OK) st = mba_session_bind(&s, seed);       // allocates memory, initialises parameters
 *     if (st == MBA_OK) st = mba_program_run(s.program, MBA_STEP, &step, NULL);
 *     mba_session_end(&s);
 *
 * A session that is only planned has no memory: its costs and its memory plan can be printed.
 *
 * With MBA_ZERO=1 in the environment, a world of one has the collectives of several ranks too, on a GPU by NCCL. */
#ifndef MBA_SESSION_H
#define MBA_SESSION_H

#include "core/program.h"
#include "models/model.h"
#include "ops/adamw/adamw.h"

/* AUTO saves as much for the backward pass as fits the limit. It first recomputes what is saved only for speed, node by
 * node as far as necessary: v of gated norms, then states of ssd (STATES: all of both). Without a stated limit it
 * begins at three quarters of the machine's memory. Then it recomputes cheap outputs, as many as necessary (ON: all of
 * them, and all states of scans). OFF recomputes nothing. */
typedef enum mba_recompute {
    MBA_RECOMPUTE_AUTO,
    MBA_RECOMPUTE_OFF,
    MBA_RECOMPUTE_ON,
    MBA_RECOMPUTE_STATES
} mba_recompute;

typedef enum mba_optimizer { MBA_ADAMW, MBA_LAMB } mba_optimizer;

typedef struct mba_session_options {
    mba_model         model;            /* may be incomplete */
    const mba_device *device;           /* NULL: the CPU */
    mba_dtype         compute;          /* type of activations and products; MBA_NONE: fp32 */
    bool              tf32;             /* with fp32, on a GPU: products in TF32 (core/graph.h) */
    bool              backward, update; /* update: with the optimizer, in training mode */
    bool              train;            /* training mode: batch statistics, drop path, dropout */
    bool              accumulate;       /* several micro-batches per update */
    mba_recompute     recompute;
    int64_t           memory_bytes; /* limit of the plan; 0: nine tenths of the machine's memory */
    mba_optimizer     optimizer;
    mba_adamw_options adamw;        /* LAMB uses them too, and clips a second time, to norm 1 */
    double            ema;          /* decay of the averaged model; 0: none */
    const char       *variants;     /* "ssd=chunked": see program.h */
    mba_place         place;        /* of this rank among several, which share the optimizer (shards.h); ranks 0: one */
    mba_world        *world;        /* of several ranks; NULL: one, or only a plan */
    int64_t           bucket_bytes; /* fp32 bytes of gradients that ranks add at once; 0: 128 MB */
} mba_session_options;

typedef struct mba_tokenizer_files mba_tokenizer_files; /* data/tokenizer_files.h */

typedef struct mba_session {
    mba_model                  model; /* complete */
    const mba_device          *device;
    mba_graph                 *graph;
    mba_program               *program;
    mba_model_graph            io;
    bool                       recomputes, averages; /* averages: the session keeps an averaged model (ops/ema) */
    mba_place                  place;
    mba_world                 *world;
    mba_buckets                buckets;   /* 0: the moments are not sharded */
    const mba_tokenizer_files *tokenizer; /* text: saved with every checkpoint; NULL: none */
} mba_session;

MBA_MUST mba_status mba_session_plan(mba_session *s, const mba_session_options *o);
/* Builds the graph alone, without launch plans and memory: what a rank of a world that is not here computes and
 * sends. */
MBA_MUST mba_status mba_session_outline(mba_session *s, const mba_session_options *o);
MBA_MUST mba_status mba_session_bind(mba_session *s, uint64_t seed); /* allocates memory, initialises parameters */
MBA_MUST mba_status mba_session_take(mba_session *s);                /* only allocates: a checkpoint is loaded next */
void                mba_session_end(mba_session *s);                 /* partly created and zeroed ones are fine */

/* The host address of an input or result of a bound session, which must exist. */
void *mba_session_at(const mba_session *s, const char *name);

/* The same; NULL if there is none. */
void *mba_session_find(const mba_session *s, const char *name);

/* True for what the model learns: parameters and running statistics (mba_is_param, mba_is_state), without averages. */
bool mba_learned(const mba_tensor *t);
/* Its address on the host, or with `averaged` that of its running average. On a GPU, call mba_program_pull before. */
float *mba_session_learned_at(const mba_session *s, const mba_tensor *t, bool averaged);

/* What the names of moments in graphs and files begin with: m (`which` 0), v (1). */
static inline char mba_moment_letter(int which) { return which ? 'v' : 'm'; }

/* The host address of m or v of a parameter, whose moments are not sharded. */
float *mba_session_moment(const mba_session *s, const mba_tensor *param, int which);

/* Copies what `from` has learned into another session of the same model, which may be planned for another purpose. */
MBA_MUST mba_status mba_session_copy(mba_session *to, const mba_session *from, bool averaged);

/* True for an input that is the final state of the previous segment (models that carry states). */
bool mba_session_carries(const mba_session *s, const mba_tensor *t);

/* Copies the final states of the last segment into the inputs of the next one. */
void mba_session_carry(mba_session *s);

/* Row b continues after before[b] tokens of its document (loader.h): clears from its carried states what precedes those
 * tokens. NULL: 0 for all rows. */
void mba_session_reset_state(mba_session *s, const int32_t *before);

/* The number of parameters; a tied matrix counts once. */
int64_t mba_session_parameters(const mba_session *s);

#endif
