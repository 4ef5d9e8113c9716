// SPDX-License-Identifier: Apache-2.0
/* gemm.h -- C (m, n) = op(A) (m, k) op(B) (k, n), fp32, row-major, in tiles that only the shape decides.
 *
 *     mba_gemm(&(mba_gemm_args){ .m = R, .n = N, .k = K, .tb = 1, .a = x, .lda = K, .b = w, .ldb = K,
 *                                .c = y, .ldc = N });
 *
 * Each tile is one single-threaded product over all of k (for a small C with a long k, one per part of k, added in
 * order), so the bits are the same at any number of threads. C must not overlap A or B. mba_gemm_serial is one such
 * product, for operators that are parallel themselves: by gemm_cpu.c on Arm, by OpenBLAS on x86-64; MBA_GEMM=packed or
 * openblas in the environment overrides. */
#ifndef MBA_GEMM_H
#define MBA_GEMM_H

#include <stdbool.h>
#include <stdint.h>

#include "core/status.h"

typedef struct mba_gemm_args {
    int64_t      m, n, k;
    bool         ta, tb, adds; /* stored transposed; C += instead of C = */
    const float *a;
    int64_t      lda;
    const float *b;
    int64_t      ldb;
    float       *c;
    int64_t      ldc;
    float        alpha; /* 0 means 1 */
} mba_gemm_args;

void mba_gemm(const mba_gemm_args *g);
void mba_gemm_serial(const mba_gemm_args *g);

/* Returns MBA_E_NOMEM if OpenBLAS could not get the buffers that it allocates at the first product of each thread; it
 * would retry forever. Operators call it before their products; from the second call on it costs nothing. */
MBA_MUST mba_status mba_gemm_ready(void);

/* gemm_cpu.c, once per instruction set. */
typedef void mba_gemm_fn(const mba_gemm_args *g);
#ifdef __x86_64__
mba_gemm_fn mba_gemm_packed_base, mba_gemm_packed_avx2, mba_gemm_packed_avx512;
#else
mba_gemm_fn mba_gemm_packed_base;
#endif

/* Call it first in main(). OpenBLAS selects its kernels when it is loaded, the generic ones for an unknown core. In
 * that case, unless OPENBLAS_CORETYPE is set, this restarts the program with a better core type (measured: gemm.c).
 * Returns if there is nothing to gain, or if the restart fails. */
void mba_gemm_choose_kernels(char **argv);

#endif
