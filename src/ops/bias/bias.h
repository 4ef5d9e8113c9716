// SPDX-License-Identifier: Apache-2.0
/* bias.h -- y = x + b over the last axis.
 *
 *     y = mba_bias(g, mba_linear(g, x, w), b);     // for ragged batches, which mba_linear_bias (matmul.h) refuses
 */
#ifndef MBA_BIAS_H
#define MBA_BIAS_H

#include "core/graph.h"

mba_tensor *mba_bias(mba_graph *g, mba_tensor *x, mba_tensor *b);

/* For the backward pass of any operator that adds a bias: the sum of the rows of dy, in fp32. */
mba_tensor *mba_bias_grad(mba_graph *g, mba_tensor *dy);

extern const mba_op mba_op_bias, mba_op_bias_bwd;

#endif
