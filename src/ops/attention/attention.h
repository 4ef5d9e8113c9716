// SPDX-License-Identifier: Apache-2.0
/* attention.h -- softmax attention with grouped heads, without storing the (L, L) matrix.
 *
 *     mba_tensor *y = mba_attention(g, .q = q, .k = k, .v = v, .ids = NULL, .causal = true, .scale = 0);
 *
 * q (B, L, H, P), k and v (B, Lk, Hk, P), y as q; dense, or columns of one packed projection (q | k | v). H is
 * a multiple of Hk: query head h reads key head h / (H/Hk). A scale of 0 means 1/sqrt(P). `causal`: the
 * queries are the last L of Lk rows, and row t sees keys 0 .. t + Lk - L (GPUs: Lk == L). `ids` (B, L), optional: rows
 * see only keys of the same id (packed documents); requires Lk == L. For a gradient, q, k and v must not share
 * memory. */
#ifndef MBA_ATTENTION_H
#define MBA_ATTENTION_H

#include "core/graph.h"

typedef struct mba_attention_args {
    mba_tensor *q, *k, *v, *ids;
    bool        causal;
    double      scale;
} mba_attention_args;

#define mba_attention(g, ...) mba__attention((g), (mba_attention_args){ __VA_ARGS__ })
mba_tensor *mba__attention(mba_graph *g, mba_attention_args a);

extern const mba_op mba_op_attention, mba_op_attention_bwd;

#endif
