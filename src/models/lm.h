// SPDX-License-Identifier: Apache-2.0
/* lm.h -- language models: one configuration, one skeleton, a mixer per symbol of the pattern.
 *
 *     mba_lm c = *mba_lm_preset("mamba2-130m");
 *     c.batch = 1; c.length = 1024;
 *     MBA_TRY(mba_lm_complete(&c));                    // fills derived fields, checks everything
 *     mba_tensor *loss = mba_lm_build(g, &c).loss;
 *
 *   res = E[tokens];  for each symbol: res += Mixer(RMSNorm(res));  logits = RMSNorm(res) W_head^T
 *
 * Symbols of the pattern: m Mamba-1, M Mamba-2, * attention, - squared-ReLU MLP, + SwiGLU MLP, and those that other
 * families define (mba_lm_mixer, below). In a paired skeleton (Bamba, Jamba) a mixer and its MLP, two symbols, make one
 * block. */
#ifndef MBA_LM_H
#define MBA_LM_H

#include "core/graph.h"
#include "models/fields.h"
#include "ops/collectives/collectives.h"

enum { MBA_PATTERN_MAX = 512 };

/* What the head computes. */
typedef enum mba_head {
    MBA_HEAD_LOSS,   /* loss, in blocks of rows: the logits never exist as a whole */
    MBA_HEAD_LOGITS, /* logits as a result, no loss */
    MBA_HEAD_BOTH,   /* loss, and logits as a result */
} mba_head;

/* The integer fields of a configuration: name, default, range for --set, meaning. In a preset, 0 means the default; a
 * default of 0 means "derived from others" or "off". --set width=512,state=64 overrides them; `list fields` and
 * config.json show them. */
// clang-format off
#define MBA_LM_FIELDS(X) \
    X(width,        0,   1, MBA_FIELD_MOST, "model width, M") \
    X(layers,       0,   1, MBA_FIELD_MOST, "blocks (pairs in a paired skeleton)") \
    X(vocab,        0,   2, MBA_FIELD_MOST, "rows of the embedding, padding included") \
    X(untied,       0,   0, 1,              "1: the head has a matrix of its own") \
    X(paired,       0,   0, 1,              "1: blocks of a mixer and an MLP") \
    X(inner,        0,   0, MBA_FIELD_MOST, "inner width of the Mamba mixers, D (0: 2 x width)") \
    X(state,        128, 1, MBA_FIELD_MOST, "state size, N") \
    X(heads,        0,   0, MBA_FIELD_MOST, "Mamba-2 heads, H (0: inner / head_dim)") \
    X(head_dim,     64,  1, MBA_FIELD_MOST, "Mamba-2 head width, P") \
    X(groups,       1,   1, MBA_FIELD_MOST, "groups of B and C, G") \
    X(norm_groups,  0,   0, MBA_FIELD_MOST, "groups of the gated norm (0: groups)") \
    X(chunk,        256, 1, MBA_FIELD_MOST, "SSD chunk, Q") \
    X(conv,         4,   1, 16,             "width of the causal convolution") \
    X(no_conv_bias, 0,   0, 1,              "1: the convolution has no bias") \
    X(bias,         0,   0, 1,              "1: the projections of the Mamba mixers have a bias") \
    X(dt_rank,      0,   0, MBA_FIELD_MOST, "Mamba-1 rank of the step projection (0: width / 16, rounded up)") \
    X(inner_norms,  0,   0, 1,              "1: Jamba's norms on dt, B and C") \
    X(q_heads,      0,   0, MBA_FIELD_MOST, "attention query heads") \
    X(kv_heads,     0,   0, MBA_FIELD_MOST, "attention key and value heads (0: q_heads)") \
    X(attn_dim,     0,   0, MBA_FIELD_MOST, "attention head width (0: width / q_heads)") \
    X(attn_bias,    0,   0, 1,              "1: the projections of the attention have a bias") \
    X(attn_conv,    0,   0, MBA_FIELD_MOST, "width of the causal convolution on q, k, v; 0: none") \
    X(rotary,       0,   0, MBA_FIELD_MOST, "rotated dimensions of each head; 0: no positions") \
    X(mlp,          0,   0, MBA_FIELD_MOST, "hidden width of the MLPs") \
    X(mlp_bias,     0,   0, 1,              "1: the projections of the MLPs have a bias")
// clang-format on

typedef struct mba_lm {
    const char *name;          /* of its preset */
    int64_t     batch, length; /* B, L */
    mba_dtype   compute;
    mba_head    head;
    bool        documents; /* reads document ids: states and attention stop at document borders */
    bool        carry;     /* has initial and final states, for truncated back-propagation and decoding */
    mba_place   sequence;  /* which part of every sequence the graph computes (docs/ranks.md); ranks 0: the whole. The
                                  parts of a sequence are on neighbouring ranks of a world, in order */
#define X(field, value, least, most, text) int64_t field;
    MBA_LM_FIELDS(X)
#undef X
    double  eps, eps_inner; /* of the norms; of Jamba's inner norms (0: eps) */
    double  dt_min, dt_max; /* limits of the Mamba-2 step; dt_max 0: none */
    double  rope_base;
    int64_t padding;                  /* 1 + the token whose look-ups give the embedding no gradient; 0: none */
    char    pattern[MBA_PATTERN_MAX]; /* "": `symbol` repeated */
    char    symbol;                   /* of a homogeneous model */
} mba_lm;

/* A preset of any family; NULL: no such preset. */
const mba_lm *mba_lm_preset(const char *name);

/* Fills derived fields and checks that all fields fit together. */
MBA_MUST mba_status mba_lm_complete(mba_lm *c);

/* The table of all fields (fields.h), and changes by name before mba_lm_complete: "width=512,pattern=M-M*". */
extern const mba_field mba_lm_fields[];
MBA_MUST mba_status    mba_lm_set(mba_lm *c, const char *assignments);

/* The inputs and results of a built model; NULL: it does not have it. The graph also has them by name
 * ("tokens", "targets", "ids", "logits", "loss"). A carried state is an input X with a result "X.out". */
typedef struct mba_lm_graph {
    mba_tensor *tokens, *targets, *ids, *logits, *loss;
} mba_lm_graph;
mba_lm_graph mba_lm_build(mba_graph *g, const mba_lm *c);

/* ---- for the mixers ---- */

/* What a mixer needs besides the configuration: its input, the document ids or NULL, the number of residual
 * branches. */
typedef struct mba_lm_site {
    mba_tensor *u, *ids;
    int         branches;
} mba_lm_site;

/* The initial and final state of a segment; both NULL unless the model carries states, or passes them from rank to
 * rank. */
typedef struct mba_lm_state {
    mba_tensor *in, *out;
} mba_lm_state;
mba_lm_state mba_lm_state_in(mba_graph *g, const mba_lm *c, const char *name, mba_type type);
void         mba_lm_state_out(mba_graph *g, const mba_lm *c, const mba_lm_state *state);

/* y = x W^T (+ b). The weight (rows, columns of x) has the name `name`.weight and is initialised uniformly within
 * 1/sqrt(columns). `last` marks the last projection of a residual branch, whose range is divided by sqrt(branches).
 * `sliced`: only column ranges of y are used. In bf16 y then has zero columns behind them, to a multiple of 8: the
 * library's products and vectorised loads need rows of whole 16-byte vectors. */
typedef struct mba_lm_linear_args {
    mba_tensor *x;
    const char *name;
    int64_t     rows;
    bool        bias, last, sliced;
} mba_lm_linear_args;
mba_tensor *mba_lm_linear_(mba_graph *g, const mba_lm *c, const mba_lm_site *s, mba_lm_linear_args a);
#define mba_lm_linear(g, c, s, ...) mba_lm_linear_((g), (c), (s), (mba_lm_linear_args){ __VA_ARGS__ })

/* A mixer that a family defines: its symbol in the pattern, and its graph, from site.u (B, L, width) to (B, L, width).
 * `check` (or NULL) checks the complete configuration of a model with the symbol. */
typedef struct mba_lm_mixer {
    char        symbol;
    bool        mlp; /* the second of a pair */
    const char *what;
    mba_tensor *(*build)(mba_graph *g, const mba_lm *c, const mba_lm_site *s);
    mba_status (*check)(const mba_lm *c);
} mba_lm_mixer;

/* The mixer of a symbol, of any family; NULL: no such symbol. */
const mba_lm_mixer *mba_lm_mixer_of(char symbol);

/* Fails unless `fact` holds, with the message that all checks share: need(c->heads >= 1, "heads", c->heads, "..."). */
MBA_MUST mba_status mba_lm_need(bool fact, const char *field, int64_t value, const char *why);

#endif
