// SPDX-License-Identifier: Apache-2.0
/* gemm.h -- C (m, n) = op(A) op(B), row-major, by cuBLASLt. The kernel is chosen the first time a shape is seen
 * (before a step is captured) and kept: the library's first candidate, or another one that was measured to be faster
 * (gemm_choices.def). The same shape gives the same kernel, hence the same bits.
 *
 *     MBA_TRY(mba_cuda_gemm(&(mba_cuda_gemm_args){ .m = R, .n = N, .k = K, .tb = true, .a = x, .lda = K, .b = w,
 *                                                  .ldb = K, .c = y, .ldc = N, .in = MBA_BF16, .out = MBA_BF16,
 *                                                  .work = .., .stream = .. }));
 *
 * MBA_E_UNSUPPORTED: the library has no kernel for the shape (odd rows in bf16); nothing was done.
 * fp32 operands are multiplied in fp32 (no TF32); bf16 ones are summed in fp32. */
#ifndef MBA_CUDA_GEMM_H
#define MBA_CUDA_GEMM_H

#include "device/cuda/cuda.h"

enum { MBA_CUDA_GEMM_WORK_BYTES = 32 << 20 };

typedef struct mba_cuda_gemm_args {
    int64_t     m, n, k, lda, ldb, ldc;
    int64_t     batch, step_a, step_b, step_c; /* batch 0: one; steps in elements */
    const void *a, *b;
    void       *c, *work; /* work: MBA_CUDA_GEMM_WORK_BYTES of scratch */
    mba_dtype   in, out;
    const void *bias; /* (n), of C's type, added to every row; NULL: none */
    bool        ta, tb, adds;
    bool        cut; /* two products instead of one, where that takes fewer rounds of tiles */
    void       *stream;
} mba_cuda_gemm_args;

#ifdef __cplusplus
extern "C" {
#endif
mba_status mba_cuda_gemm(const mba_cuda_gemm_args *g);
#ifdef __cplusplus
}
#endif

#endif
