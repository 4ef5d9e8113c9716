// SPDX-License-Identifier: Apache-2.0
/* ssd.h -- state-space duality (Mamba-2): a recurrence with one decay per head, evaluated in chunks.
 *
 *     mba_tensor *last;
 *     mba_tensor *y = mba_ssd(g, .x = x, .dt = dt, .B = Bm, .C = Cm, .A_log = A_log, .D = D, .dt_bias = dt_bias,
 *                             .chunk = 256, .dt_max = INFINITY, .final = &last);
 *
 *   step_t = clamp(softplus(dt_t + dt_bias), dt_min, dt_max)
 *   h_t    = exp(-exp(A_log) step_t) h_{t-1} + step_t x_t B_t^T          y_t = h_t C_t + D x_t
 *
 * x, y (B, L, H, P)   dt (B, L, H)   B, C (B, L, G, N)   A_log, dt_bias (H)   D (H) or (H, P)
 * Head i uses group i / (H/G) of B and C.
 * initial, *final (B, H, P, N): the state before the first and after the last token. */
#ifndef MBA_SSD_H
#define MBA_SSD_H

#include "core/graph.h"

typedef struct mba_ssd_args {
    mba_tensor  *x, *dt, *B, *C, *A_log;
    mba_tensor  *D, *dt_bias;    /* optional: 0 */
    mba_tensor  *ids;            /* optional, (B, L) i32: the state is set to 0 before a token whose id differs
                                          from the previous token's; the first token always takes `initial` */
    mba_tensor  *initial;        /* optional: 0 */
    mba_tensor **final;          /* optional: receives the second output; a gradient flows through it */
    int64_t      chunk;          /* chunk of the CUDA variants, a choice of speed; 0 means 256 */
    double       dt_min, dt_max; /* dt_max <= 0 or INFINITY: no upper bound */
} mba_ssd_args;

mba_tensor *mba_ssd_(mba_graph *g, mba_ssd_args a);
#define mba_ssd(g, ...) mba_ssd_((g), (mba_ssd_args){ __VA_ARGS__ })

extern const mba_op mba_op_ssd, mba_op_ssd_bwd;

#endif
