// SPDX-License-Identifier: Apache-2.0
/* heads.h -- a tensor (B, L, H, P) as kernels index it: one stride per axis, the last axis contiguous.
 *
 *     mba_heads x;
 *     MBA_NEED(mba_heads_of(&x, n->in[X]), "rotary: the heads of %s do not lie at even strides", ..);
 *     const float *row = (const float *)c->in[X] + b * x.batch + l * x.row + h * x.head;   // P values
 *
 * This covers dense tensors, columns of a packed projection (q | k | v), concatenated heads and ranges of rows. */
#ifndef MBA_HEADS_H
#define MBA_HEADS_H

#include "core/tensor.h"

typedef struct mba_heads {
    int64_t B, L, H, P;
    int64_t batch, row, head; /* strides, in elements */
} mba_heads;

/* The stride of an axis, in elements. Returns false if the view has no single stride there. */
static inline bool mba_axis_stride(int64_t *out, const mba_tensor *t, int axis)
{
    const int64_t d = t->type.dim[axis];
    int64_t       inner = 1;
    for (int i = axis + 1; i < t->type.rank; i++) inner *= t->type.dim[i];
    *out = inner % t->run ? inner : inner / t->run * t->pitch;
    return d == 1 || inner % t->run == 0 || t->run % (d * inner) == 0;
}

static inline bool mba_heads_of(mba_heads *h, const mba_tensor *t)
{
    const int64_t *d = t->type.dim;
    if (t->type.rank != 4 || t->run % d[3]) return false;
    h->B = d[0];
    h->L = d[1];
    h->H = d[2];
    h->P = d[3]; /* no compound literal: kernels include this as C++ */
    return mba_axis_stride(&h->batch, t, 0) && mba_axis_stride(&h->row, t, 1) && mba_axis_stride(&h->head, t, 2);
}

#endif
