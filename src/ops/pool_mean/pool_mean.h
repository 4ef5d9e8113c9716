// SPDX-License-Identifier: Apache-2.0
/* pool_mean.h -- global average pooling: the mean of an image over its positions, per channel, before the classifier.
 *
 *     mba_tensor *f = mba_pool_mean(g, x);             // (B, H, W, C) -> (B, C); (B, L, C) works, too
 */
#ifndef MBA_POOL_MEAN_H
#define MBA_POOL_MEAN_H

#include "core/graph.h"

mba_tensor *mba_pool_mean(mba_graph *g, mba_tensor *x);

extern const mba_op mba_op_pool_mean, mba_op_pool_mean_bwd;

#endif
