// SPDX-License-Identifier: Apache-2.0
/* conv1d.h -- depthwise convolution over time, causal by default, optionally followed by SiLU.
 *
 *     x = mba_conv1d(g, .x = x, .w = w, .bias = b, .silu = true);
 *
 *     a[t,c] = bias[c] + sum_k w[c,k] x[t-(W-1)+k, c]          the last tap is multiplied by the current input
 *
 * A sequence may be processed in several calls: `final` of one call is `initial` of the next. With `ahead`, output t
 * depends on that many later inputs: tap W-1-ahead is multiplied by the current input. Inputs outside the sequence are
 * zeros. */
#ifndef MBA_CONV1D_H
#define MBA_CONV1D_H

#include "core/graph.h"

typedef struct mba_conv1d_args {
    mba_tensor  *x;       /* (B, L, C); may be columns of a wider matrix */
    mba_tensor  *w;       /* C * W elements in this order: (C, 1, W), (C, W); W <= 16 taps */
    mba_tensor  *bias;    /* (C), optional */
    mba_tensor  *ids;     /* (B, L) i32, optional: inputs with another id than that of t count as 0;
                                        a negative id gives 0 */
    mba_tensor  *initial; /* (B, W-1, C), optional: inputs before time 0, with the id of token 0;
                                        without it they are 0 */
    mba_tensor **final;   /* optional: receives (B, W-1, C), the last W-1 inputs */
    int64_t      ahead;   /* later inputs per output, 0 .. W-1; not with ids, initial or final */
    bool         silu;
} mba_conv1d_args;

/* Returns (B, L, C). */
mba_tensor *mba_conv1d_(mba_graph *g, mba_conv1d_args a);
#define mba_conv1d(g, ...) mba_conv1d_((g), (mba_conv1d_args){ __VA_ARGS__ })

extern const mba_op mba_op_conv1d, mba_op_conv1d_bwd;

#endif
