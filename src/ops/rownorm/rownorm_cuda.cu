// SPDX-License-Identifier: Apache-2.0
/* rownorm_cuda.cu -- rows divided by their L2 norm, and the gradient.
 *
 *   y[r,c] = x[r,c] / l[r],   l[r] = max(sqrt(sum_c x[r,c]^2), 1e-12),   dx[r,c] = (dy[r,c] - y[r,c] sum_c dy y) / l[r]
 *   x, y, dy, dx (R, C) fp32 or bf16     l (R) fp32, saved
 *
 * kernel     rownorm_fwd_rows     a group of 32 or 256 threads per row; the row is read again from L1
 * kernel     rownorm_bwd_rows     the same
 * takes      everything; one value per thread where rows are not whole 16-byte vectors
 * launch     grid ceil(R / (256 / group)), block 256
 * resources  sm_90a, CUDA 13.0: rownorm_fwd_rows 28 to 32 registers, 32 B of shared memory, no spill  [docs]
 *            rownorm_bwd_rows 30 to 37 registers, 32 B of shared memory, no spill  [docs]
 * moves      each operand once: bound by DRAM
 * measured   H200: rownorm 8 us, 19 % of the copy rate; PascalVOC-SP, 32 graphs  [docs: op rownorm rownorm_bwd]
 *            rownorm_bwd 8 us, 27 % of the copy rate; PascalVOC-SP, 32 graphs  [docs]
 * order      fixed: a thread adds its columns in ascending order, then a tree adds the threads
 *
 * y may share the memory of x, and dx that of dy: a thread reads what it is about to overwrite. */
#include "device/cuda/common.cuh"
extern "C" {
#include "ops/rownorm/rownorm_slots.h"
}

enum { BLOCK = 256 };

template <typename T, int V, int GROUP>
__global__ void __launch_bounds__(BLOCK)
    rownorm_fwd_rows(strided_view<T> y, float *length, strided_view<const T> x, int64_t rows, int cols)
{
    const int64_t r = (int64_t)blockIdx.x * (BLOCK / GROUP) + threadIdx.x / GROUP;
    const int     lane = threadIdx.x % GROUP;
    if (r >= rows) return; // uniform per thread group
    const T *from = x.row(r, cols);
    float    v[V], ss = 0;
#pragma unroll 4
    for (int c = lane * V; c < cols; c += GROUP * V) {
        load(v, from + c);
#pragma unroll
        for (int i = 0; i < V; i++) ss += v[i] * v[i];
    }
    float l = sqrtf(block_sum<GROUP>(ss));
    l = l < (float)ROWNORM_FLOOR ? (float)ROWNORM_FLOOR : l; // NaN is not replaced
    if (lane == 0) length[r] = l;
    T *to = y.row(r, cols);
    for (int c = lane * V; c < cols; c += GROUP * V) {
        load(v, from + c);
#pragma unroll
        for (int i = 0; i < V; i++) v[i] /= l;
        store(to + c, v);
    }
}

template <typename T, int V, int GROUP, bool ADDS>
__global__ void __launch_bounds__(BLOCK)
    rownorm_bwd_rows(strided_view<T> dx, strided_view<const T> dy, strided_view<const T> y, const float *length,
                     int64_t rows, int cols)
{
    const int64_t r = (int64_t)blockIdx.x * (BLOCK / GROUP) + threadIdx.x / GROUP;
    const int     lane = threadIdx.x % GROUP;
    if (r >= rows) return;
    const T *g = dy.row(r, cols), *u = y.row(r, cols);
    float    a[V], b[V], old[V], dot = 0;
#pragma unroll 2
    for (int c = lane * V; c < cols; c += GROUP * V) {
        load(a, g + c);
        load(b, u + c);
#pragma unroll
        for (int i = 0; i < V; i++) dot += a[i] * b[i];
    }
    const float l = length[r], k = 1 / l;
    dot = block_sum<GROUP>(dot);
    if (l <= (float)ROWNORM_FLOOR) dot = 0; // there the norm is a constant
    T *to = dx.row(r, cols);
#pragma unroll 2
    for (int c = lane * V; c < cols; c += GROUP * V) {
        load(a, g + c);
        load(b, u + c);
        if (ADDS) load(old, to + c);
#pragma unroll
        for (int i = 0; i < V; i++) a[i] = (a[i] - b[i] * dot) * k + (ADDS ? old[i] : 0);
        store(to + c, a);
    }
}

#define WITH_GROUP(cols, GROUP, ...) \
    do { \
        if (rownorm_group_threads(cols) == BLOCK) { \
            constexpr int GROUP = BLOCK; \
            __VA_ARGS__; \
        } else { \
            constexpr int GROUP = 32; \
            __VA_ARGS__; \
        } \
    } while (0)

static bool vec_aligned(const mba_tensor *t, const void *at)
{
    return mba_vec_aligned(t, at, 16 / (int)mba_dtype_bytes(t->type.dtype));
}

extern "C" mba_status rownorm_cuda(const mba_call *c)
{
    const mba_tensor *x = c->node->in[X], *y = c->node->out[Y];
    const int64_t     C = mba_cols(x);
    MBA_WITH_DTYPE(x->type.dtype, T,
                   MBA_WITH_BOOL(vec_aligned(x, c->in[X]) && vec_aligned(y, c->out[Y]), VECTORS,
                                 WITH_GROUP(C, GROUP, auto *kernel = rownorm_fwd_rows < T,
                                            VECTORS ? (int)vec16<T>::N : 1, GROUP > ;
                                            MBA_KERNEL(c, 0, kernel, mba_strided_view<T>(y, c->out[Y]),
                                                       (float *)c->out[LENGTH], mba_strided_view<const T>(x, c->in[X]),
                                                       mba_rows(x), (int)C))));
    return MBA_OK;
}

extern "C" mba_status rownorm_bwd_cuda(const mba_call *c)
{
    const mba_node   *n = c->node;
    const mba_tensor *dy = n->in[DY], *y = n->in[YB], *dx = n->out[DX];
    const int64_t     C = mba_cols(y);
    const bool        vectors = vec_aligned(dy, c->in[DY]) && vec_aligned(y, c->in[YB]) && vec_aligned(dx, c->out[DX]);
    MBA_WITH_DTYPE(y->type.dtype, T,
                   MBA_WITH_BOOL(vectors, VECTORS,
                                 MBA_WITH_BOOL(mba_adds(n, DX), ADDS,
                                               WITH_GROUP(C, GROUP, auto *kernel = rownorm_bwd_rows < T,
                                                          VECTORS ? (int)vec16<T>::N : 1, GROUP, ADDS > ;
                                                          MBA_KERNEL(c, 0, kernel, mba_strided_view<T>(dx, c->out[DX]),
                                                                     mba_strided_view<const T>(dy, c->in[DY]),
                                                                     mba_strided_view<const T>(y, c->in[YB]),
                                                                     (const float *)c->in[LENGTHB], mba_rows(y),
                                                                     (int)C)))));
    return MBA_OK;
}
