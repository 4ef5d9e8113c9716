// SPDX-License-Identifier: Apache-2.0
/* relu.h -- y = max(0, x), element by element.
 *
 *     mba_tensor *a = mba_relu(g, mba_linear(g, x, w));
 */
#ifndef MBA_RELU_H
#define MBA_RELU_H

#include "core/graph.h"

mba_tensor *mba_relu(mba_graph *g, mba_tensor *x);

extern const mba_op mba_op_relu, mba_op_relu_bwd;

#endif
