// SPDX-License-Identifier: Apache-2.0
/* soft_cross_entropy.h -- losses of an image classifier: with soft targets, or with smoothed labels.
 *
 *     mba_tensor *t    = mba_input(g, "targets", MBA_TYPE(MBA_F32, B, V));                     // mixup: rows sum to 1
 *     mba_tensor *loss = mba_result(g, "loss", mba_soft_cross_entropy(g, logits, t));          // logits (B, V)
 *     mba_tensor *hard = mba_label_cross_entropy(g, logits, labels, 0.1);                      // labels: mba_targets
 *
 * loss = scale * sum over rows r and classes v of -t[r,v] log softmax(logits)[r,v]. A label y with smoothing s means
 * t = (1-s) [v = y] + s/V; negative labels are ignored. The scale is step.loss_scale or, if that is 0, one over the
 * rows that count: the valid rows of a ragged batch whose label is not ignored. Without any the loss is 0. */
#ifndef MBA_SOFT_CROSS_ENTROPY_H
#define MBA_SOFT_CROSS_ENTROPY_H

#include "core/graph.h"

mba_tensor *mba_soft_cross_entropy(mba_graph *g, mba_tensor *logits, mba_tensor *targets);
mba_tensor *mba_label_cross_entropy(mba_graph *g, mba_tensor *logits, mba_tensor *label, double smoothing);

extern const mba_op mba_op_soft_cross_entropy, mba_op_soft_cross_entropy_bwd;

#endif
