// SPDX-License-Identifier: Apache-2.0
/* adamw.h -- Adam with decoupled weight decay over all parameters, with clipping of the global gradient norm.
 *
 *     MBA_TRY(mba_backward(g, loss));
 *     mba_adamw_all(g, &(mba_adamw_options){ .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .decay = 0.1, .clip = 1 });
 *
 * Appends the norm (a result named "grad_norm") and one node per parameter group. The learning rate and the step
 * number are those of the step. Parameters of MBA_NO_DECAY do not decay. An update is skipped if the norm is not
 * finite, or above step.norm_max where that is set (grad_norm.h decides): parameters and moments then stay unchanged.
 * With several micro-batches (g->accumulate) the update clears the gradients, even if it is skipped.
 *
 * The moments of group k are states of role MBA_OPTIM, named "m.decay", "v.decay", "m.no_decay" and
 * "v.no_decay" (call this outside of every scope). They have the layout of g->params[k]: the moments of a
 * parameter are elements offset .. offset + elems of them, with the parameter's own offset. */
#ifndef MBA_ADAMW_H
#define MBA_ADAMW_H

#include "core/graph.h"
#include "ops/collectives/collectives.h"

typedef struct mba_adamw_options {
    double beta1, beta2, eps, decay;
    double clip; /* clips the global gradient norm; 0 = off */
} mba_adamw_options;

/* The settings of the Mamba papers: 0.9, 0.95, 1e-8, decay 0.1, clip 1. */
static inline mba_adamw_options mba_adamw_defaults(void) { return (mba_adamw_options){ 0.9, 0.95, 1e-8, 0.1, 1 }; }

void mba_adamw_all(mba_graph *g, const mba_adamw_options *o);

/* The same for one of several ranks, bucket by bucket: gradients are added over ranks and scattered, the rank updates
 * its pieces, and the parameters and compute copies of all are gathered. The moments have 1/ranks of the elements:
 * those of the pieces, one after the other. Buckets as for mba_grad_norm_shards.
 *
 * The collectives are of lane MBA_COMM. Each sum stands behind the last node of the backward pass that writes to its
 * bucket: a run of all passes sends it beside the rest of that pass, a run of MBA_UPDATE alone sends all at its
 * beginning. */
void mba_adamw_shards(mba_graph *g, const mba_adamw_options *o, mba_place p, const mba_buckets *b);

extern const mba_op mba_op_adamw;

#endif
