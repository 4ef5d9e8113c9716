// SPDX-License-Identifier: Apache-2.0
/* rmsnorm.h -- y = x * w / sqrt(mean(x^2) + eps), over the last axis.
 *
 *     mba_tensor *B = mba_rmsnorm(g, mba_slice(g, s, 2, R, N), wB, 1e-6f);     // Jamba's inner norms
 */
#ifndef MBA_RMSNORM_H
#define MBA_RMSNORM_H

#include "core/graph.h"

/* x (.., C), may be columns of a wider matrix; w (C). */
mba_tensor *mba_rmsnorm(mba_graph *g, mba_tensor *x, mba_tensor *w, float eps);

extern const mba_op mba_op_rmsnorm, mba_op_rmsnorm_bwd;

#endif
