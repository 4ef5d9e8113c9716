// SPDX-License-Identifier: Apache-2.0
/* selective_scan.h -- the selective scan of Mamba-1: the recurrence with step size, skip and gate.
 *
 *     mba_tensor *y = mba_selective_scan(g, .u = u, .delta = delta, .A_log = A_log, .B = B, .C = C, .D = D,
 *                                        .z = z, .dt_bias = bias);
 *     mba_tensor *h, *y2 = mba_selective_scan(g, .u = u2, .., .initial = h1, .final = &h);    // continues from h1
 *
 * Returns out (B, L, D). A sequence may hold several documents: with `ids` the state starts from zero at every token
 * whose id differs from the previous token's; `initial` belongs to the document of token 0. */
#ifndef MBA_SELECTIVE_SCAN_H
#define MBA_SELECTIVE_SCAN_H

#include "core/graph.h"

typedef struct mba_selective_scan_args {
    mba_tensor  *u, *delta; /* (B, L, D); the step size is softplus(delta + dt_bias) */
    mba_tensor  *A_log;     /* (D, N); A = -exp(A_log) */
    mba_tensor  *B, *C;     /* (B, L, G, N), or (B, L, N) for one group; G divides D */
    mba_tensor  *D;         /* (D): y += D u;            optional, like all below */
    mba_tensor  *z;         /* (B, L, D): y *= silu(z) */
    mba_tensor  *dt_bias;   /* (D) */
    mba_tensor  *initial;   /* (B, D, N): the state before token 0; default zero */
    mba_tensor  *ids;       /* (B, L) i32: documents */
    mba_tensor **final;     /* receives the state after the last token (B, D, N); a gradient flows through it */
} mba_selective_scan_args;

mba_tensor *mba_selective_scan_of(mba_graph *g, const mba_selective_scan_args *a);
#define mba_selective_scan(g, ...) mba_selective_scan_of((g), &(mba_selective_scan_args){ __VA_ARGS__ })

extern const mba_op mba_op_selective_scan, mba_op_selective_scan_bwd;

#endif
