// SPDX-License-Identifier: Apache-2.0
/* rmsnorm_cuda.cu -- launchers of norm_fwd_group, norm_bwd_group and the *_loop kernels of ops/norm_rows.cuh, without a
 * branch. */
#include "ops/norm_rows.cuh"
extern "C" {
#include "ops/rmsnorm/rmsnorm_slots.h"
}

template <typename T> static norm_rows<T, T> rows_of(const mba_call *c)
{
    const mba_node *n = c->node;
    norm_rows<T, T> a = {};
    a.x = mba_strided_view<const T>(n->in[X], c->in[X]);
    a.y = mba_strided_view<T>(n->out[Y], c->out[Y]);
    a.w = (const float *)c->in[W];
    a.rstd = (float *)c->out[RSTD];
    a.rows = mba_rows(n->in[X]);
    a.cols = mba_cols(n->in[X]);
    a.eps = ((const rmsnorm_attr *)n->attr)->eps;
    return a;
}

extern "C" mba_status rmsnorm_cuda(const mba_call *c)
{
    const mba__thread_group t = rmsnorm_fwd_threads(c->node->in[X]);
    MBA_WITH_DTYPE(c->node->in[X]->type.dtype, T, norm_rows<T, T> a = rows_of<T>(c); a.threads = t.threads;
                   MBA_WITH_VECTORS(t.vectors, NV, MBA_KERNEL(c, 0, (norm_fwd_group<T, T, 16 / sizeof(T), NV>), a)));
    return MBA_OK;
}

extern "C" mba_status rmsnorm_loop_cuda(const mba_call *c)
{
    MBA_WITH_DTYPE(c->node->in[X]->type.dtype, T, MBA_KERNEL(c, 0, (norm_fwd_loop<T, T>), rows_of<T>(c)));
    return MBA_OK;
}

template <typename T> static norm_grads<T, T> grads_of(const mba_call *c)
{
    const mba_node  *n = c->node;
    norm_grads<T, T> a = {};
    a.dy = mba_strided_view<const T>(n->in[DY], c->in[DY]);
    a.x = mba_strided_view<const T>(n->in[XB], c->in[XB]);
    a.dx = mba_strided_view<T>(n->out[DX], c->out[DX]);
    a.w = (const float *)c->in[WB];
    a.rstd = (const float *)c->in[RSTDB];
    a.part = (float *)mba_cuda_scratch(c, 0);
    a.rows = mba_rows(n->in[XB]);
    a.cols = mba_cols(n->in[XB]);
    a.dx_adds = mba_adds(n, DX);
    return a;
}

extern "C" mba_status rmsnorm_bwd_cuda(const mba_call *c)
{
    const mba__thread_group t = rmsnorm_bwd_threads(c->node->in[XB]);
    MBA_WITH_DTYPE(c->node->in[XB]->type.dtype, T, norm_grads<T, T> a = grads_of<T>(c); a.threads = t.threads;
                   MBA_WITH_VECTORS(t.vectors, NV,
                                    MBA_KERNEL(c, 0, (norm_bwd_group<T, T, 16 / sizeof(T), NV, RMSNORM_STAGES>), a)));
    return mba__norm_dw(c, DW, mba_cols(c->node->in[XB]));
}

extern "C" mba_status rmsnorm_bwd_loop_cuda(const mba_call *c)
{
    MBA_WITH_DTYPE(c->node->in[XB]->type.dtype, T, MBA_KERNEL(c, 0, (norm_bwd_loop<T, T>), grads_of<T>(c)));
    return mba__norm_dw(c, DW, mba_cols(c->node->in[XB]));
}
