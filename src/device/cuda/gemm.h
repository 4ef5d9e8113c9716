// SPDX-License-Identifier: Apache-2.0
/* gemm.h -- C (m, n) = op(A) op(B), row-major, by cuBLASLt. The kernel is chosen when a shape first occurs (before a
 * step is captured) and cached: the library's first candidate, or one that was measured to be faster
 * (gemm_choices.def). The same shape gives the same kernel, hence the same bits.
 *
 *     MBA_TRY(mba_cuda_gemm(&(mba_cuda_gemm_args){ .m = R, .n = N, .k = K, .tb = true, .a = x, .lda = K, .b = w, .ldb =
 *     K,
 *                                                  .c = y, .ldc = N, .in = MBA_BF16, .out = MBA_BF16, .work = ..,
 *                                                  .stream = .. }));
 *
 * Returns MBA_E_UNSUPPORTED, and does nothing, if the library has no kernel for the shape (unaligned bf16 rows). fp32
 * operands are multiplied in fp32, or with `tf32` in TF32. Sums are fp32. */
#ifndef MBA_CUDA_GEMM_H
#define MBA_CUDA_GEMM_H

#include "device/cuda/cuda.h"

enum { MBA_CUDA_GEMM_WORK_BYTES = 32 << 20 };

typedef struct mba_cuda_gemm_args {
    int64_t     m, n, k, lda, ldb, ldc;
    int64_t     batch, step_a, step_b, step_c; /* batch 0 means 1; steps in elements */
    const void *a, *b;
    void       *c, *work; /* work: MBA_CUDA_GEMM_WORK_BYTES of scratch */
    mba_dtype   in, out;
    const void *bias; /* (n), of C's type, added to every row; NULL: none */
    bool        ta, tb, adds;
    bool        tf32; /* of fp32 operands */
    bool        cut;  /* may be split in two if that takes fewer waves of tiles */
    void       *stream;
} mba_cuda_gemm_args;

#ifdef __cplusplus
extern "C"
#endif
    mba_status
    mba_cuda_gemm(const mba_cuda_gemm_args *g);

#endif
