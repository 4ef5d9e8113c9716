// SPDX-License-Identifier: Apache-2.0
/* lm.h -- language models: one configuration, one skeleton, a mixer per symbol of the pattern.
 *
 *     mba_lm c = *mba_lm_preset("mamba2-130m");
 *     c.batch = 1; c.length = 1024;
 *     MBA_TRY(mba_lm_complete(&c));                    // fills what follows from the rest, checks it all
 *     mba_tensor *loss = mba_lm_build(g, &c).loss;
 *
 *   res = E[tokens];  for each symbol: res += Mixer(RMSNorm(res));  logits = RMSNorm(res) W_head^T
 *
 * Symbols of the pattern: m Mamba-1, M Mamba-2, * attention, - squared-ReLU MLP, + SwiGLU MLP, and what other families
 * bring (mba_lm_mixer, below). A paired skeleton (Bamba, Jamba) is the same list read two by two: a mixer and its MLP
 * make one block. */
#ifndef MBA_LM_H
#define MBA_LM_H

#include "core/graph.h"
#include "models/fields.h"

enum { MBA_PATTERN_MAX = 512 };

/* What the last projection is used for. */
typedef enum mba_head {
    MBA_HEAD_LOSS,   /* loss, in blocks of rows: the logits never exist whole */
    MBA_HEAD_LOGITS, /* logits as a result, no loss */
    MBA_HEAD_BOTH,   /* loss, and logits as a result */
} mba_head;

/* Every number of a configuration: field, default, smallest and largest that --set takes, meaning. In a preset 0 stands
 * for the default, and a default of 0 for "follows from others" (or off). They can be overridden by name
 * (--set width=512,state=64) and are what `list models` and config.json show. */
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
    const char *name;          /* of the preset it came from */
    int64_t     batch, length; /* B, L */
    mba_dtype   compute;
    mba_head    head;
    bool        documents; /* takes document ids: states and attention stop at borders */
    bool        carry;     /* takes and gives the states, for truncated back-propagation, decoding */
#define X(field, value, least, most, text) int64_t field;
    MBA_LM_FIELDS(X)
#undef X
    double  eps, eps_inner; /* of the norms; of Jamba's inner ones (0: eps) */
    double  dt_min, dt_max; /* limits of the Mamba-2 step; dt_max 0: none */
    double  rope_base;
    int64_t padding;                  /* 1 + the token whose look-ups give the embedding no gradient; 0: none */
    char    pattern[MBA_PATTERN_MAX]; /* "": `symbol` repeated */
    char    symbol;                   /* what a homogeneous model is made of */
} mba_lm;

/* Presets, of all families; NULL where there is none of that name. */
const mba_lm *mba_lm_preset(const char *name);

/* Fills the fields that follow from others and checks that all fit together. */
MBA_MUST mba_status mba_lm_complete(mba_lm *c);

/* The table of all fields (fields.h), and changes by name before mba_lm_complete: "width=512,pattern=M-M*". */
extern const mba_field mba_lm_fields[];
MBA_MUST mba_status    mba_lm_set(mba_lm *c, const char *assignments);

/* What a built model offers; NULL where it does not. All of them are also found by name in the graph
 * ("tokens", "targets", "ids", "logits", "loss"). A carried state is an input X with a result "X.out". */
typedef struct mba_lm_graph {
    mba_tensor *tokens, *targets, *ids, *logits, *loss;
} mba_lm_graph;
mba_lm_graph mba_lm_build(mba_graph *g, const mba_lm *c);

/* ---- for the mixers ---- */

/* What one mixer needs to know beside the configuration. */
typedef struct mba_lm_site {
    mba_tensor *u, *ids;
    int         branches;
} mba_lm_site;

/* A state that enters and leaves a segment; both stay NULL unless the model carries states. */
typedef struct mba_lm_state {
    mba_tensor *in, *out;
} mba_lm_state;
mba_lm_state mba_lm_state_in(mba_graph *g, const mba_lm *c, const char *name, mba_type type);
void         mba_lm_state_out(mba_graph *g, const mba_lm_state *state);

/* y = x W^T (+ b): the weight (rows, columns of x) is named `name`.weight and starts uniform within
 * 1/sqrt(columns); `last` marks the last projection of a residual branch, divided by sqrt(branches). */
typedef struct mba_lm_linear_args {
    mba_tensor *x;
    const char *name;
    int64_t     rows;
    bool        bias, last;
} mba_lm_linear_args;
mba_tensor *mba_lm_linear_(mba_graph *g, const mba_lm *c, const mba_lm_site *s, mba_lm_linear_args a);
#define mba_lm_linear(g, c, s, ...) mba_lm_linear_((g), (c), (s), (mba_lm_linear_args){ __VA_ARGS__ })

/* What a family brings: a symbol of the pattern and what stands there, (B, L, width) in site.u to (B, L, width).
 * `check` (or NULL) sees the complete configuration of a model that has the symbol. */
typedef struct mba_lm_mixer {
    char        symbol;
    bool        mlp; /* the second of a pair */
    const char *what;
    mba_tensor *(*build)(mba_graph *g, const mba_lm *c, const mba_lm_site *s);
    mba_status (*check)(const mba_lm *c);
} mba_lm_mixer;

/* Of any family; NULL: nobody has the symbol. */
const mba_lm_mixer *mba_lm_mixer_of(char symbol);

/* Why a field does not fit, in the words of all checks: need(c->heads >= 1, "heads", c->heads, "..."). */
MBA_MUST mba_status mba_lm_need(bool fact, const char *field, int64_t value, const char *why);

#endif
