// SPDX-License-Identifier: Apache-2.0
/* matmul_plan.h -- plans of matrix products on CUDA, for matmul and for operators that contain products.
 *
 *     MBA_REFUSE_IF(!mba__library_takes(x, MBA_BF16), "rows are not aligned");
 *     mba__plan_library(p, &(mba__product){ .m = R, .n = V, .k = M, .in_bytes = 2, .out_bytes = 2,
 *                                           .a = MBA_ARG_IN(X), .. }); */
#ifndef MBA_MATMUL_PLAN_H
#define MBA_MATMUL_PLAN_H

#include "core/op.h"

enum { MBA__LIBRARY_WORK_BYTES = 32 << 20 }; /* workspace of the library, as in device/cuda/gemm.h */

typedef struct mba__product {
    int64_t m, n, k;
    double  in_bytes, out_bytes; /* per element of A and B, and of C */
    int     a, b, c;             /* MBA_ARG_* */
    bool    adds;                /* adds to C, which is then read */
    int     bias;                /* MBA_ARG_*, of C's type; 0: none */
} mba__product;

/* cuBLASLt's kernel, modelled as tiles of 128 x 128 with a producer and a ring of four stages. */
void mba__plan_library(mba_plan *p, const mba__product *x);

/* device/cuda/gemm_simt.cuh: tiles of 32 x 32 in shared memory, plain fp32 sums; slow, but takes everything. */
void mba__plan_tiles(mba_plan *p, const mba__product *x);

/* The library's bf16 kernels require rows that begin at multiples of 16 bytes; fp32 needs no alignment. */
bool mba__library_takes(const mba_tensor *t, mba_dtype in);

#endif
