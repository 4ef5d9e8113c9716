// SPDX-License-Identifier: Apache-2.0
/* bce.h -- binary cross entropy of logits: the mean of -t log sigmoid(y) - (1-t) log(1 - sigmoid(y)).
 *
 *     mba_tensor *loss = mba_bce(g, logits, target, false);          // both (R, T) fp32 -> (1)
 *
 * A target of NaN is missing: the mean is over the targets that exist. Rows beyond the count of the logits are ignored.
 * `weighted`: targets are 0 or 1, and an entry weighs 1 - n_t / n, where n_t of the n entries have its class; the sum
 * is divided by n, not by the weights. step.loss_scale is not applied. */
#ifndef MBA_BCE_H
#define MBA_BCE_H

#include "core/graph.h"

mba_tensor *mba_bce(mba_graph *g, mba_tensor *logits, mba_tensor *target, bool weighted);

extern const mba_op mba_op_bce, mba_op_bce_bwd;

#endif
