// SPDX-License-Identifier: Apache-2.0
/* gated_rmsnorm.h -- the norm after the SSD of Mamba-2, gate first: v = w q / rms(q), q = y silu(z).
 *
 *     v = mba_gated_rmsnorm(g, y, z, w, 1, 1e-5f);        // z: columns of the input projection
 */
#ifndef MBA_GATED_RMSNORM_H
#define MBA_GATED_RMSNORM_H

#include "core/graph.h"

/* y, z (.., C), may be columns of a wider matrix; w (C). The mean is over each of `groups` equal groups of adjacent
 * channels. */
mba_tensor *mba_gated_rmsnorm(mba_graph *g, mba_tensor *y, mba_tensor *z, mba_tensor *w, int64_t groups, float eps);

extern const mba_op mba_op_gated_rmsnorm, mba_op_gated_rmsnorm_bwd;

#endif
