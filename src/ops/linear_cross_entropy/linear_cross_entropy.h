// SPDX-License-Identifier: Apache-2.0
/* linear_cross_entropy.h -- the head of a language model and its loss in one operator: no full matrix of logits.
 *
 *     mba_tensor *targets = mba_targets(g, "targets", MBA_TYPE(MBA_I32, B, L), V);
 *     mba_tensor *loss    = mba_linear_cross_entropy(g, h, table, targets);    // h (B, L, M), table (V, M)
 *
 * The value equals mba_cross_entropy(g, mba_linear(g, x, w), target), but instead of 4 R V bytes of logits there is one
 * block of rows (see the .md). A step computes the logits once: the backward node computes the loss, too, and the
 * forward node serves evaluation. */
#ifndef MBA_LINEAR_CROSS_ENTROPY_H
#define MBA_LINEAR_CROSS_ENTROPY_H

#include "core/graph.h"

mba_tensor *mba_linear_cross_entropy(mba_graph *g, mba_tensor *x, mba_tensor *w, mba_tensor *target);

extern const mba_op mba_op_linear_cross_entropy, mba_op_linear_cross_entropy_bwd;

#endif
