// SPDX-License-Identifier: Apache-2.0
/* conv2d.h -- convolution of images, channels last, for the stem, the conv blocks and the downsampling of MambaVision.
 *
 *     x = mba_conv2d(g, .x = x, .w = w, .bias = b, .stride = 1, .pad = 1);
 *
 *     y[b,p,q,co] = bias[co] + sum_{ci,i,j} w[co,ci,i,j] x[b, s p + i - pad, s q + j - pad, ci]      0 outside */
#ifndef MBA_CONV2D_H
#define MBA_CONV2D_H

#include "core/graph.h"

typedef struct mba_conv2d_args {
    mba_tensor *x;      /* (B, H, W, Ci); may be channels of a wider image */
    mba_tensor *w;      /* (Co, Ci, kh, kw), as checkpoints store it */
    mba_tensor *bias;   /* (Co), optional */
    int64_t     stride; /* 0 means 1 */
    int64_t     pad;    /* zeros on each of the four sides */
} mba_conv2d_args;

/* Returns (B, Ho, Wo, Co) with Ho = floor((H + 2 pad - kh) / stride) + 1, and Wo likewise. */
mba_tensor *mba_conv2d_(mba_graph *g, mba_conv2d_args a);
#define mba_conv2d(g, ...) mba_conv2d_((g), (mba_conv2d_args){ __VA_ARGS__ })

extern const mba_op mba_op_conv2d, mba_op_conv2d_bwd;

#endif
