// SPDX-License-Identifier: Apache-2.0
/* weighted_cross_entropy.h -- cross entropy that weights classes by how rare they are in the batch.
 *
 *     mba_tensor *loss = mba_weighted_cross_entropy(g, logits, target);       // (N, V), (N) i32 -> (1)
 *
 *     w_c = 1 - n_c / n    over the n rows with a target, n_c of class c
 *     loss = sum_i w_t(i) (-log softmax(z_i)[t(i)]) / sum_i w_t(i)
 *
 * Negative targets and rows beyond the count of the logits are ignored. If all weights vanish (one class only, or no
 * target at all), the loss and its gradient are 0. The weights include the scale, so step.loss_scale is not applied. */
#ifndef MBA_WEIGHTED_CROSS_ENTROPY_H
#define MBA_WEIGHTED_CROSS_ENTROPY_H

#include "core/graph.h"

mba_tensor *mba_weighted_cross_entropy(mba_graph *g, mba_tensor *logits, mba_tensor *target);

extern const mba_op mba_op_weighted_cross_entropy, mba_op_weighted_cross_entropy_bwd;

#endif
