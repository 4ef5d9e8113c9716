// SPDX-License-Identifier: Apache-2.0
/* cross_entropy_cuda.cu -- launches the kernels of cross_entropy_rows.cuh over all logits. */
#include "ops/cross_entropy/cross_entropy_rows.cuh"
extern "C" {
#include "ops/cross_entropy/cross_entropy_slots.h"
}

static ce_rows rows_of(const mba_call *c, const mba_tensor *z, const mba_tensor *target, void *at)
{
    ce_rows a = {
        c->step, mba_strided_view<const int32_t>(target, at), mba_all(mba_rows(z)), 0, (int)mba_cols(z), false
    };
    return a;
}

static bool vec_aligned(const mba_tensor *t, const void *at)
{
    return mba_vec_aligned(t, at, 16 / (int)mba_dtype_bytes(t->type.dtype));
}

extern "C" mba_status cross_entropy_cuda(const mba_call *c)
{
    const mba_tensor *z = c->node->in[Z];
    float            *each = (float *)mba_cuda_scratch(c, 0);
    ce_rows           a = rows_of(c, z, c->node->in[TARGET], c->in[TARGET]);
    a.vectors = vec_aligned(z, c->in[Z]);
    MBA_WITH_DTYPE(z->type.dtype, T,
                   MBA_TRY(
                       ce_fwd_rows<T>(c, 0, &a, mba_strided_view<const T>(z, c->in[Z]), (float *)c->out[LSE], each)));
    MBA_KERNEL(c, 1, cross_entropy_fwd_total, (float *)c->out[LOSS], each, a.target, NULL, a.rows, c->step);
    return MBA_OK;
}

extern "C" mba_status cross_entropy_bwd_cuda(const mba_call *c)
{
    const mba_node   *n = c->node;
    const mba_tensor *z = n->in[ZB];
    float            *scale = (float *)mba_cuda_scratch(c, 0);
    ce_rows           a = rows_of(c, z, n->in[TARGETB], c->in[TARGETB]);
    a.vectors = vec_aligned(z, c->in[ZB]) && vec_aligned(n->out[DZ], c->out[DZ]);
    MBA_KERNEL(c, 0, cross_entropy_bwd_scale, scale, (const float *)c->in[DLOSS], a.target, a.rows, c->step);
    MBA_WITH_DTYPE(z->type.dtype, T,
                   MBA_TRY(ce_bwd_rows<T>(c, 1, &a, mba_strided_view<T>(n->out[DZ], c->out[DZ]),
                                          mba_strided_view<const T>(z, c->in[ZB]), (const float *)c->in[LSEB], scale,
                                          NULL, mba_adds(n, DZ))));
    return MBA_OK;
}
