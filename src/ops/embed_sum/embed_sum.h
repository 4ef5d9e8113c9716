// SPDX-License-Identifier: Apache-2.0
/* embed_sum.h -- a sum of several embeddings: y[r, :] = sum_f table[index[r, f], :].
 *
 *     mba_tensor *index = mba_index(g, "atoms", MBA_TYPE(MBA_I32, N, 9), 174);    // nine tables, stacked
 *     mba_tensor *x     = mba_embed_sum(g, index, table);                         // (N, M) from a table (174, M)
 *
 * Several small tables are stacked in one storage, and an index counts from the start of all of them: whoever makes the
 * batch adds the first row of table f to column f (mba_graph_batch does this, and checks it). Rows beyond the count of
 * the index are 0 and add nothing to the gradient. */
#ifndef MBA_EMBED_SUM_H
#define MBA_EMBED_SUM_H

#include "core/graph.h"

mba_tensor *mba_embed_sum(mba_graph *g, mba_tensor *index, mba_tensor *table);

extern const mba_op mba_op_embed_sum, mba_op_embed_sum_bwd;

#endif
