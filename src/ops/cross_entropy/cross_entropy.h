// SPDX-License-Identifier: Apache-2.0
/* cross_entropy.h -- the loss of a classifier: scale * sum over rows of -log softmax(logits)[target].
 *
 *     mba_tensor *targets = mba_targets(g, "targets", MBA_TYPE(MBA_I32, B, L), V);
 *     mba_tensor *loss    = mba_result(g, "loss", mba_cross_entropy(g, logits, targets));   // logits (B, L, V)
 *
 * Negative targets are ignored. The scale is that of the step (step.loss_scale, one over the valid targets of the
 * global batch) or, if that is 0, one over the valid targets of this batch. Without valid targets the loss is 0. */
#ifndef MBA_CROSS_ENTROPY_H
#define MBA_CROSS_ENTROPY_H

#include "core/graph.h"

mba_tensor *mba_cross_entropy(mba_graph *g, mba_tensor *logits, mba_tensor *target);

extern const mba_op mba_op_cross_entropy, mba_op_cross_entropy_bwd;

#endif
