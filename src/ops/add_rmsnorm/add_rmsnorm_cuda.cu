// SPDX-License-Identifier: Apache-2.0
/* add_rmsnorm_cuda.cu -- launchers of norm_fwd_group, norm_bwd_group and the *_loop kernels of ops/norm_rows.cuh. The
 * residual stream is fp32; the branch and the normalised output are fp32 or bf16. */
#include "ops/norm_rows.cuh"
extern "C" {
#include "ops/add_rmsnorm/add_rmsnorm_slots.h"
}

template <typename T> static norm_rows<float, T> rows_of(const mba_call *c)
{
    const mba_node     *n = c->node;
    norm_rows<float, T> a = {};
    a.x = mba_strided_view<const float>(n->in[RES], c->in[RES]);
    a.m = mba_strided_view<const T>(n->in[M], c->in[M]);
    a.sum = mba_strided_view<float>(n->out[SUM], c->out[SUM]);
    a.y = mba_strided_view<T>(n->out[Y], c->out[Y]);
    a.w = (const float *)c->in[W];
    a.rstd = (float *)c->out[RSTD];
    a.rows = mba_rows(n->in[RES]);
    a.cols = mba_cols(n->in[RES]);
    a.eps = ((const add_rmsnorm_attr *)n->attr)->eps;
    return a;
}

extern "C" mba_status add_rmsnorm_cuda(const mba_call *c)
{
    const mba__thread_group t = add_rmsnorm_threads(c->node->in[RES]);
    MBA_WITH_DTYPE(c->node->out[Y]->type.dtype, T, norm_rows<float, T> a = rows_of<T>(c); a.threads = t.threads;
                   MBA_WITH_VECTORS(t.vectors, NV, MBA_KERNEL(c, 0, (norm_fwd_group<float, T, 4, NV>), a)));
    return MBA_OK;
}

extern "C" mba_status add_rmsnorm_loop_cuda(const mba_call *c)
{
    MBA_WITH_DTYPE(c->node->out[Y]->type.dtype, T, MBA_KERNEL(c, 0, (norm_fwd_loop<float, T>), rows_of<T>(c)));
    return MBA_OK;
}

template <typename T> static norm_grads<float, T> grads_of(const mba_call *c)
{
    const mba_node      *n = c->node;
    norm_grads<float, T> a = {};
    a.dy = mba_strided_view<const T>(n->in[DY], c->in[DY]);
    a.ds = mba_strided_view<const float>(n->in[DSUM], c->in[DSUM]);
    a.x = mba_strided_view<const float>(n->in[STREAM], c->in[STREAM]);
    a.dx = mba_strided_view<float>(n->out[DRES], c->out[DRES]);
    a.dm = mba_strided_view<T>(n->out[DM], c->out[DM]);
    a.w = (const float *)c->in[WB];
    a.rstd = (const float *)c->in[RSTDB];
    a.part = (float *)mba_cuda_scratch(c, 0);
    a.rows = mba_rows(n->in[STREAM]);
    a.cols = mba_cols(n->in[STREAM]);
    a.dx_adds = mba_adds(n, DRES);
    a.dm_adds = mba_adds(n, DM);
    return a;
}

extern "C" mba_status add_rmsnorm_bwd_cuda(const mba_call *c)
{
    const mba__thread_group t = add_rmsnorm_threads(c->node->in[STREAM]);
    MBA_WITH_DTYPE(c->node->in[DY]->type.dtype, T, norm_grads<float, T> a = grads_of<T>(c); a.threads = t.threads;
                   MBA_WITH_VECTORS(t.vectors, NV,
                                    MBA_KERNEL(c, 0, (norm_bwd_group<float, T, 4, NV, ADD_RMSNORM_STAGES>), a)));
    return mba__norm_dw(c, DW, mba_cols(c->node->in[STREAM]));
}

extern "C" mba_status add_rmsnorm_bwd_loop_cuda(const mba_call *c)
{
    MBA_WITH_DTYPE(c->node->in[DY]->type.dtype, T, MBA_KERNEL(c, 0, (norm_bwd_loop<float, T>), grads_of<T>(c)));
    return mba__norm_dw(c, DW, mba_cols(c->node->in[STREAM]));
}
