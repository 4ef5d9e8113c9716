// SPDX-License-Identifier: Apache-2.0
/* matmul.h -- the GEMM of the graph, as models use it: a linear layer.
 *
 *     mba_tensor *y = mba_linear(g, x, w);             // y (.., N) = x (.., K) w (N, K)^T
 *     mba_tensor *z = mba_linear_bias(g, x, w, b);     // the same + b (N)
 *
 * b has the type of x. The batch must not be ragged if there is a bias. */
#ifndef MBA_MATMUL_H
#define MBA_MATMUL_H

#include "core/graph.h"

mba_tensor *mba_linear(mba_graph *g, mba_tensor *x, mba_tensor *w);
mba_tensor *mba_linear_bias(mba_graph *g, mba_tensor *x, mba_tensor *w, mba_tensor *b);

/* For a linear layer of whose result only column ranges are used: if its bf16 rows would not begin at multiples of 16
 * bytes, as the library's kernels and vectorised loads need, they begin at multiples of 32. Returns y. */
mba_tensor *mba_align_rows(mba_graph *g, mba_tensor *y);

extern const mba_op mba_op_matmul;

#endif
