// SPDX-License-Identifier: Apache-2.0
/* segment_pool.h -- mean or maximum over the rows of each graph.
 *
 *     mba_tensor *ptr = mba_index(g, "graph_ptr", MBA_TYPE(MBA_I32, G + 1), N + 1);
 *     mba_tensor *y   = mba_segment_pool(g, h, ptr, MBA_POOL_MEAN);           // (G, C) from (N, C)
 *
 * Graph s has the rows ptr[s] .. ptr[s+1]-1; a graph without rows gives 0. If x is ragged (has a count of nodes), y has
 * the count of graphs, and rows beyond it are 0. */
#ifndef MBA_SEGMENT_POOL_H
#define MBA_SEGMENT_POOL_H

#include "core/graph.h"

typedef enum mba_pool { MBA_POOL_MEAN, MBA_POOL_MAX } mba_pool;

mba_tensor *mba_segment_pool(mba_graph *g, mba_tensor *x, mba_tensor *ptr, mba_pool kind);

extern const mba_op mba_op_segment_pool, mba_op_segment_pool_bwd;

#endif
