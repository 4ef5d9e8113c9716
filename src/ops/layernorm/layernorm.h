// SPDX-License-Identifier: Apache-2.0
/* layernorm.h -- y = (x - mean) / sqrt(variance + eps) * w + b, over the last axis.
 *
 *     mba_tensor *y = mba_layernorm(g, x, w, b, 1e-5f);
 */
#ifndef MBA_LAYERNORM_H
#define MBA_LAYERNORM_H

#include "core/graph.h"

/* x (.., C), may be columns of a wider matrix; w, b (C). */
mba_tensor *mba_layernorm(mba_graph *g, mba_tensor *x, mba_tensor *w, mba_tensor *b, float eps);

extern const mba_op mba_op_layernorm, mba_op_layernorm_bwd;

#endif
