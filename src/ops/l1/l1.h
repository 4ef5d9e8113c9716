// SPDX-License-Identifier: Apache-2.0
/* l1.h -- mean absolute error.
 *
 *     mba_tensor *loss = mba_l1(g, y, target);           // both (R, T) fp32 -> (1)
 *
 * A target of NaN is missing: the mean is over the targets that exist. Rows beyond the count of y are ignored. The
 * gradient is 0 where y equals its target. step.loss_scale is not applied. */
#ifndef MBA_L1_H
#define MBA_L1_H

#include "core/graph.h"

mba_tensor *mba_l1(mba_graph *g, mba_tensor *y, mba_tensor *target);

extern const mba_op mba_op_l1, mba_op_l1_bwd;

#endif
