/* matmul.h -- the GEMM of the graph, as models use it: a linear layer without bias.
 *
 *     mba_tensor *y = mba_linear(g, x, w);             // y (.., N) = x (.., K) w (N, K)^T
 */
#ifndef MBA_MATMUL_H
#define MBA_MATMUL_H

#include "core/graph.h"

mba_tensor *mba_linear(mba_graph *g, mba_tensor *x, mba_tensor *w);

extern const mba_op mba_op_matmul;

#endif
