// SPDX-License-Identifier: Apache-2.0
/* embed.h -- embedding lookup: y[r, :] = table[token[r], :].
 *
 *     mba_tensor *tokens = mba_index(g, "tokens", MBA_TYPE(MBA_I32, B, L), V);
 *     mba_tensor *x      = mba_embed(g, tokens, table, MBA_F32);      // (B, L, M) from a table (V, M)
 */
#ifndef MBA_EMBED_H
#define MBA_EMBED_H

#include "core/graph.h"

mba_tensor *mba_embed(mba_graph *g, mba_tensor *tokens, mba_tensor *table, mba_dtype out);

/* The same, but rows of the padding token (-1: none) add nothing to the gradient, as in PyTorch. */
mba_tensor *mba_embed_padded(mba_graph *g, mba_tensor *tokens, mba_tensor *table, mba_dtype out, int64_t padding);

extern const mba_op mba_op_embed, mba_op_embed_bwd;

#endif
