/* matmul_cuda.cu -- cuBLASLt (device/cuda/gemm.h): bf16 operands with fp32 sums, or fp32 throughout; and plain tiles for
 * the rest.
 *
 * kernel     matmul_tiles     32 x 32 of C per block, 32 columns of A and B at a time in shared memory
 * takes      everything
 * launch     grid (ceil(n/32), ceil(m/32)), block 256, static smem 8.4 KB
 * moves      every operand n/32 or m/32 times: for odd shapes of tests and tiny layers, not for speed
 * measured   none yet
 * order      fixed: k ascends */
#include "device/cuda/gemm.h"
#include "device/cuda/vocab.cuh"
extern "C" {
#include "ops/matmul/matmul_slots.h"
}

extern "C" mba_status matmul_cuda(const mba_call *c)
{
    const mba_node    *n = c->node;
    const matmul_attr *t = (const matmul_attr *)n->attr;
    const matmul_dims  d = matmul_dims_of(n);
    mba_cuda_gemm_args g = {};
    g.m = d.m; g.n = d.n; g.k = d.k; g.ta = t->ta; g.tb = t->tb; g.adds = mba_adds(n, C);
    g.a = c->in[A];  g.lda = mba_ld(n->in[A]);  g.in = n->in[A]->type.dtype;
    g.b = c->in[B];  g.ldb = mba_ld(n->in[B]);
    g.c = c->out[C]; g.ldc = mba_ld(n->out[C]); g.out = n->out[C]->type.dtype;
    g.work = mba_cuda_scratch(c, 0); g.stream = c->stream;
    return mba_cuda_gemm(&g);
}

/* Where (row, col) of op(M) lies: transposed operands swap the two. */
struct side { int64_t row, col; };

template <typename T, typename TC, bool ADDS>
__global__ void __launch_bounds__(256)
matmul_tiles(TC *c, int64_t ldc, const T *a, side sa, const T *b, side sb, int64_t m, int64_t n, int64_t k)
{
    __shared__ float ta[32][33], tb[32][33];
    const int     x = threadIdx.x % 32, y = threadIdx.x / 32;
    const int64_t row = (int64_t)blockIdx.y * 32, col = (int64_t)blockIdx.x * 32;
    float         sum[4] = { 0, 0, 0, 0 };
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
    for (int i = 0; i < 4; i++) {
        if (row + y + 8 * i >= m || col + x >= n) continue;
        TC *to = c + (row + y + 8 * i) * ldc + col + x;
        *to = from_float<TC>(sum[i] + (ADDS ? to_float(*to) : 0));
    }
}

extern "C" mba_status matmul_tiles_cuda(const mba_call *c)
{
    const mba_node    *n = c->node;
    const matmul_attr *t = (const matmul_attr *)n->attr;
    const matmul_dims  d = matmul_dims_of(n);
    const int64_t      lda = mba_ld(n->in[A]), ldb = mba_ld(n->in[B]);
    const side         sa = { t->ta ? 1 : lda, t->ta ? lda : 1 }, sb = { t->tb ? 1 : ldb, t->tb ? ldb : 1 };
    MBA_WITH_DTYPE(n->in[A]->type.dtype, T, MBA_WITH_DTYPE(n->out[C]->type.dtype, TC, MBA_WITH_BOOL(mba_adds(n, C), ADDS,
        auto *kernel = matmul_tiles<T, TC, ADDS>;
        MBA_KERNEL(c, 0, kernel, (TC *)c->out[C], mba_ld(n->out[C]), (const T *)c->in[A], sa, (const T *)c->in[B], sb, d.m, d.n, d.k))));
    return MBA_OK;
}
