// SPDX-License-Identifier: Apache-2.0
/* grad_norm.h -- the global gradient norm: sqrt of the sum of squares over all parameters.
 *
 *     MBA_TRY(mba_backward(g, loss));
 *     mba_tensor *norm = mba_grad_norm(g);             // a result of two floats, named "grad_norm"
 *
 * The second value is 1 if the update must be skipped, else 0: norm or loss is not finite, or above step.norm_max or
 * step.loss_max. Optimizers obey it, so that one run of all passes can decide on its own step. mba_adamw_all and
 * mba_lamb_all append it. A graph without gradients fails. */
#ifndef MBA_GRAD_NORM_H
#define MBA_GRAD_NORM_H

#include "core/graph.h"
#include "ops/collectives/collectives.h"

enum { MBA_NORM_BLOCK = 16384 }; /* values per partial sum, 64 KB: constant, so that the order of sums is */

mba_tensor *mba_grad_norm(mba_graph *g);

/* The same if reduce_scatter has left the gradient in pieces, bucket by bucket: a rank sums the blocks of its pieces,
 * the sums of all ranks are gathered, and each rank adds them in the order of one rank: the same bits at any number.
 * A bucket is a multiple of ranks x MBA_NORM_BLOCK elements that divides the group. On GPUs the loss that decides is
 * the sum over ranks, so that all of them skip the same updates. */
mba_tensor *mba_grad_norm_shards(mba_graph *g, mba_place p, const mba_buckets *b);

extern const mba_op mba_op_grad_norm;

#endif
