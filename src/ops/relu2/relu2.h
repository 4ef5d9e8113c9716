// SPDX-License-Identifier: Apache-2.0
/* relu2.h -- y = max(0, x)^2, element by element.
 *
 *     mba_tensor *a = mba_relu2(g, mba_linear(g, x, up));
 */
#ifndef MBA_RELU2_H
#define MBA_RELU2_H

#include "core/graph.h"

mba_tensor *mba_relu2(mba_graph *g, mba_tensor *x);

extern const mba_op mba_op_relu2, mba_op_relu2_bwd;

#endif
