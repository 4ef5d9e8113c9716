// SPDX-License-Identifier: Apache-2.0
/* matmul_plan.h -- launches of matrix products on CUDA, for the plans of matmul and of operators that are made of
 * them.
 *
 *     MBA_REFUSE_IF(!mba__library_takes(x, MBA_BF16), "rows are not aligned");
 *     mba__plan_library(p, &(mba__product){ .m = R, .n = V, .k = M, .in_bytes = 2, .out_bytes = 2,
 *                                           .a = MBA_ARG_IN(X), .. }); */
#ifndef MBA_MATMUL_PLAN_H
#define MBA_MATMUL_PLAN_H

#include "core/op.h"

enum { MBA__LIBRARY_WORK_BYTES = 32 << 20 }; /* scratch of the library, as device/cuda/gemm.h says */

typedef struct mba__product {
    int64_t m, n, k;
    double  in_bytes, out_bytes; /* of an element of A and B, and of C */
    int     a, b, c;             /* MBA_ARG_* */
    bool    adds;                /* to C, which is read then */
    int     bias;                /* MBA_ARG_*, of C's type; 0: none */
} mba__product;

/* cuBLASLt's kernel, as tiles of 128 x 128 with a producer warp and a ring of four stages. */
void mba__plan_library(mba_plan *p, const mba__product *x);

/* device/cuda/gemm_simt.cuh: tiles of 32 x 32 in shared memory, plain fp32 sums. Slow, and right. */
void mba__plan_tiles(mba_plan *p, const mba__product *x);

/* The library's bf16 kernels want rows that begin at multiples of 16 bytes; fp32 goes from anywhere. */
bool mba__library_takes(const mba_tensor *t, mba_dtype in);

#endif
