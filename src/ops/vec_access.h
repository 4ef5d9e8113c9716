// SPDX-License-Identifier: Apache-2.0
/* vec_access.h -- alignment of strided views for CUDA kernels, and the launch plan of map_rows.cuh. Plain C.
 *
 *     const int V = mba__map_width(n);                // 16 bytes of the output's type, or one element
 *
 * Storages are aligned, so the offset of a view determines the alignment of its address. */
#ifndef MBA_OPS_VEC_ACCESS_H
#define MBA_OPS_VEC_ACCESS_H

#include "core/op.h"

/* True if every row of t begins at a multiple of n elements and its length is a multiple of n, or if t is absent. */
static inline bool mba__vec_aligned(const mba_tensor *t, int64_t n)
{
    return !t
           || (t->offset % n == 0 && mba_cols(t) % n == 0 && (mba_dense(t) || (t->run % n == 0 && t->pitch % n == 0)));
}

/* The same for all tensors of the node. */
static inline bool mba__all_vec_aligned(const mba_node *n, int64_t width)
{
    bool fits = true;
    for (int k = 0; k < MBA_IN_MAX; k++) fits &= mba__vec_aligned(n->in[k], width);
    for (int k = 0; k < MBA_OUT_MAX; k++) fits &= mba__vec_aligned(n->out[k], width);
    return fits;
}

/* ---- map_rows.cuh: element-wise work; every tensor has the rows of output 0, or is a vector over its columns ---- */

static inline int mba__map_width(const mba_node *n)
{
    const int V = 16 / (int)mba_dtype_bytes(n->out[0]->type.dtype);
    return mba__all_vec_aligned(n, V) ? V : 1;
}

enum { MBA__MAP_THREADS = 256, MBA__MAP_DEPTH = 2 }; /* threads per block; vectors per thread */

/* Implements mba_plan_fn. */
static inline mba_status mba__map_plan(mba_plan *p, const mba_node *n, const mba_machine *m)
{
    MBA_REFUSE_IF(m->cc < 80, "a device of compute capability %d", m->cc);
    for (int k = 0; k < MBA_IN_MAX; k++)
        MBA_REFUSE_IF(n->in[k] && !mba_dense(n->in[k]) && n->in[k]->run % mba_cols(n->in[k]),
                      "rows of %s that are split into runs", n->in[k]->name);
    for (int k = 0; k < MBA_OUT_MAX; k++)
        MBA_REFUSE_IF(n->out[k] && !mba_dense(n->out[k]) && n->out[k]->run % mba_cols(n->out[k]),
                      "rows of %s that are split into runs", n->out[k]->name);
    const int64_t blocks = mba_ceil(mba_elems(n->out[0]),
                                    (int64_t)MBA__MAP_THREADS * MBA__MAP_DEPTH * mba__map_width(n));
    mba_launch   *l = mba_plan_launch(p, n->op->name, MBA_VECTOR, blocks, MBA__MAP_THREADS);
    l->regs = 48;
    mba_phases_evenly(l, n, (double)blocks);
    return MBA_OK;
}

#endif
