// SPDX-License-Identifier: Apache-2.0
/* rownorm.h -- L2 normalisation of rows: y = x / max(||x||, 1e-12), over the last axis.
 *
 *     h = mba_rownorm(g, mba_relu(g, mba_linear(g, h, w)));
 */
#ifndef MBA_ROWNORM_H
#define MBA_ROWNORM_H

#include "core/graph.h"

mba_tensor *mba_rownorm(mba_graph *g, mba_tensor *x);

extern const mba_op mba_op_rownorm, mba_op_rownorm_bwd;

#endif
