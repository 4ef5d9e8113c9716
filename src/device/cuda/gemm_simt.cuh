// SPDX-License-Identifier: Apache-2.0
/* gemm_simt.cuh -- matrix products without tensor cores, for shapes that cuBLASLt refuses: unaligned bf16 rows, tiny
 * layers. matmul uses it as its last variant.
 *
 *     MBA_TRY(mba_cuda_gemm_simt(c, k, &g));                  // g as for mba_cuda_gemm, launch k as mba__plan_tiles
 *     planned it
 *
 * kernel     matmul_tiles     32 x 32 of C per block, 32 columns of A and B at a time in shared memory
 * takes      everything but batches
 * launch     grid (ceil(n/32), ceil(m/32)), block 256, static smem 8.4 KB
 * moves      every operand n/32 or m/32 times: for unaligned shapes and tiny layers, not for speed
 * measured   none yet
 * order      fixed: k ascends */
#ifndef MBA_DEVICE_CUDA_GEMM_SIMT_CUH
#define MBA_DEVICE_CUDA_GEMM_SIMT_CUH

#include "device/cuda/gemm.h"
#include "device/cuda/common.cuh"

/* Strides of (row, col) of op(M); transposed operands swap them. */
struct side {
    int64_t row, col;
};

template <typename T, typename TC, bool ADDS>
__global__ void __launch_bounds__(256) matmul_tiles(TC *c, int64_t ldc, const T *a, side sa, const T *b, side sb,
                                                    const TC *bias, int64_t m, int64_t n, int64_t k)
{
    __shared__ float ta[32][33], tb[32][33];
    const int        x = threadIdx.x % 32, y = threadIdx.x / 32;
    const int64_t    row = (int64_t)blockIdx.y * 32, col = (int64_t)blockIdx.x * 32;
    float            sum[4] = { 0, 0, 0, 0 };
    for (int64_t k0 = 0; k0 < k; k0 += 32) {
        for (int i = y; i < 32; i += 8) {
            ta[i][x] = row + i < m && k0 + x < k ? to_float(a[(row + i) * sa.row + (k0 + x) * sa.col]) : 0;
            tb[i][x] = k0 + i < k && col + x < n ? to_float(b[(k0 + i) * sb.row + (col + x) * sb.col]) : 0;
        }
        __syncthreads();
        for (int j = 0; j < 32; j++)
#pragma unroll
            for (int i = 0; i < 4; i++) sum[i] = fmaf(ta[y + 8 * i][j], tb[j][x], sum[i]);
        __syncthreads();
    }
    const float more = bias && col + x < n ? to_float(bias[col + x]) : 0;
    for (int i = 0; i < 4; i++) {
        if (row + y + 8 * i >= m || col + x >= n) continue;
        TC *to = c + (row + y + 8 * i) * ldc + col + x;
        *to = from_float<TC>(sum[i] + more + (ADDS ? to_float(*to) : 0));
    }
}

/* Without a plan, for products that the plan gave to the library, which then had no kernel. */
static inline mba_status mba_cuda_gemm_simt_fallback(const mba_cuda_gemm_args *g)
{
    const side sa = { g->ta ? 1 : g->lda, g->ta ? g->lda : 1 }, sb = { g->tb ? 1 : g->ldb, g->tb ? g->ldb : 1 };
    const dim3 grid((unsigned)mba_ceil(g->n, 32), (unsigned)mba_ceil(g->m, 32));
    MBA_WITH_DTYPE(g->in, T,
                   MBA_WITH_DTYPE(g->out, TC,
                                  MBA_WITH_BOOL(g->adds, ADDS,
                                                (matmul_tiles<T, TC, ADDS><<<grid, 256, 0, (cudaStream_t)g->stream>>>(
                                                    (TC *)g->c, g->ldc, (const T *)g->a, sa, (const T *)g->b, sb,
                                                    (const TC *)g->bias, g->m, g->n, g->k)))));
    CUDA_TRY(cudaGetLastError());
    return MBA_OK;
}

static inline mba_status mba_cuda_gemm_simt(const mba_call *c, int k, const mba_cuda_gemm_args *g)
{
    const side sa = { g->ta ? 1 : g->lda, g->ta ? g->lda : 1 }, sb = { g->tb ? 1 : g->ldb, g->tb ? g->ldb : 1 };
    MBA_WITH_DTYPE(g->in, T,
                   MBA_WITH_DTYPE(g->out, TC,
                                  MBA_WITH_BOOL(g->adds, ADDS, auto *kernel = matmul_tiles<T, TC, ADDS>;
                                                MBA_KERNEL(c, k, kernel, (TC *)g->c, g->ldc, (const T *)g->a, sa,
                                                           (const T *)g->b, sb, (const TC *)g->bias, g->m, g->n,
                                                           g->k))));
    return MBA_OK;
}

#endif
