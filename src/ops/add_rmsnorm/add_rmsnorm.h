// SPDX-License-Identifier: Apache-2.0
/* add_rmsnorm.h -- the first operator of every block: adds the last branch to the residual stream and normalises it.
 *
 *     mba_tensor *m = NULL;                                        // no branch before the first block
 *     for (..) {
 *         mba_tensor *u = mba_add_rmsnorm(g, &res, m, w, MBA_F32, 1e-5f);   // res += m; u = norm(res) * w
 *         m = mixer(g, u);
 *     }
 */
#ifndef MBA_ADD_RMSNORM_H
#define MBA_ADD_RMSNORM_H

#include "core/graph.h"

/* res, m (.., C); w (C). Returns norm(res + m) * w over the last axis, of dtype `out`. *res becomes the sum; if m is
 * NULL, *res does not change. */
mba_tensor *mba_add_rmsnorm(mba_graph *g, mba_tensor **res, mba_tensor *m, mba_tensor *w, mba_dtype out, float eps);

extern const mba_op mba_op_add_rmsnorm, mba_op_add_rmsnorm_bwd;

#endif
