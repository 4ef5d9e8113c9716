// SPDX-License-Identifier: Apache-2.0
/* pool_mean_cuda.cu -- the mean over the positions of an image, and its gradient.
 *
 *   y[b,c] = mean_p x[b,p,c],   dx[b,p,c] = dy[b,c] / P
 *   x, dx (B, P, C), y, dy (B, C), fp32 or bf16
 *
 * kernel     pool_mean_fwd_images     a block per image and 32 vectors of channels; its 8 warps share the positions
 * takes      everything; one value per lane where rows are not whole 16-byte vectors
 * launch     grid B ceil(C / (32 V)), block 256, static smem 8 KB
 * resources  sm_90a, CUDA 13.0: 32 to 36 registers, 1024 to 8192 B of shared memory, no spill  [docs]
 * moves      each operand once: bound by DRAM
 * floor      B=128 P=49 C=640 bf16: 8.2 MB, 2 us at 4.3 TB/s
 * measured   H200: 3.97 us, 52 % of floor (memory), ALU 22 % busy; mambavision-t, 128 images  [docs]
 * order      fixed: a warp adds positions 8 apart in ascending order, then the warps are added
 *
 * kernel     pool_mean_bwd_vec16     a thread per vector of dx
 * launch     grid ceil(B P C / V / 256), block 256
 * resources  sm_90a, CUDA 13.0: 24 to 32 registers, no spill  [docs]
 * moves      each operand once: bound by DRAM
 * measured   H200: 4.03 us, 52 % of floor (memory), ALU 45 % busy; mambavision-t, 128 images  [docs]
 * order      no sums */
#include "device/cuda/common.cuh"
extern "C" {
#include "ops/pool_mean/pool_mean_slots.h"
}

enum { WARPS = 8 };

template <typename T, int V>
__global__ void __launch_bounds__(WARPS * 32)
    pool_mean_fwd_images(strided_view<T> y, strided_view<const T> x, int64_t positions, int64_t cols, int64_t tiles)
{
    __shared__ float sums[WARPS][V][32];
    const int        lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int64_t    b = blockIdx.x / tiles, c = (blockIdx.x % tiles * 32 + lane) * V;
    float            s[V], v[V];
#pragma unroll
    for (int i = 0; i < V; i++) s[i] = 0;
#pragma unroll 2
    for (int64_t p = warp; p < positions && c < cols; p += WARPS) {
        load(v, x.row(b * positions + p, cols) + c);
#pragma unroll
        for (int i = 0; i < V; i++) s[i] += v[i];
    }
#pragma unroll
    for (int i = 0; i < V; i++) sums[warp][i][lane] = s[i];
    __syncthreads();
    if (warp || c >= cols) return;
#pragma unroll
    for (int i = 0; i < V; i++) {
        for (int w = 1; w < WARPS; w++) s[i] += sums[w][i][lane];
        s[i] /= (float)positions;
    }
    store(y.row(b, cols) + c, s);
}

template <typename T, int V, bool ADDS>
__global__ void __launch_bounds__(256)
    pool_mean_bwd_vec16(strided_view<T> dx, strided_view<const T> dy, int64_t rows, int64_t positions, int64_t cols)
{
    const int64_t i = ((int64_t)blockIdx.x * 256 + threadIdx.x) * V, r = i / cols, c = i % cols;
    if (r >= rows) return;
    const float part = 1 / (float)positions;
    float       v[V], old[V];
    load(v, dy.row(r / positions, cols) + c);
    if (ADDS) load(old, dx.row(r, cols) + c);
#pragma unroll
    for (int k = 0; k < V; k++) v[k] = part * v[k] + (ADDS ? old[k] : 0);
    store(dx.row(r, cols) + c, v);
}

extern "C" mba_status pool_mean_cuda(const mba_call *c)
{
    const mba_tensor *x = c->node->in[X], *y = c->node->out[Y];
    const int         at_once = pool_mean_at_once(x, y);
    const int64_t     C = mba_cols(x), positions = mba_rows(x) / x->type.dim[0];
    MBA_WITH_DTYPE(
        x->type.dtype, T,
        MBA_WITH_BOOL(at_once > 1, VECTORS, auto *kernel = pool_mean_fwd_images < T, VECTORS ? (int)vec16<T>::N : 1 > ;
                      MBA_KERNEL(c, 0, kernel, mba_strided_view<T>(y, c->out[Y]),
                                 mba_strided_view<const T>(x, c->in[X]), positions, C, pool_mean_tiles(C, at_once))));
    return MBA_OK;
}

extern "C" mba_status pool_mean_bwd_cuda(const mba_call *c)
{
    const mba_tensor *dx = c->node->out[DX], *dy = c->node->in[DY];
    const int64_t     rows = mba_rows(dx), positions = rows / dx->type.dim[0];
    MBA_WITH_DTYPE(dx->type.dtype, T,
                   MBA_WITH_BOOL(pool_mean_at_once(dx, dy) > 1, VECTORS,
                                 MBA_WITH_BOOL(mba_adds(c->node, DX), ADDS, auto *kernel = pool_mean_bwd_vec16 < T,
                                               VECTORS ? (int)vec16<T>::N : 1, ADDS > ;
                                               MBA_KERNEL(c, 0, kernel, mba_strided_view<T>(dx, c->out[DX]),
                                                          mba_strided_view<const T>(dy, c->in[DY]), rows, positions,
                                                          mba_cols(dx)))));
    return MBA_OK;
}
