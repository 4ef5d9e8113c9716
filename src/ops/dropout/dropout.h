// SPDX-License-Identifier: Apache-2.0
/* dropout.h -- y = 0 with probability p, else x / (1 - p), which preserves the mean.
 *
 *     x = mba_dropout(g, x, 0.1f);                        // p = 0 appends nothing
 *
 * The mask is never stored: it is a function of the step's seed and the node's name. The backward node draws the same
 * numbers again. */
#ifndef MBA_DROPOUT_H
#define MBA_DROPOUT_H

#include "core/graph.h"

mba_tensor *mba_dropout(mba_graph *g, mba_tensor *x, float p); /* 0 <= p < 1 */

extern const mba_op mba_op_dropout;

#endif
