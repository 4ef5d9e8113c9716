// SPDX-License-Identifier: Apache-2.0
/* gemm.h -- C (m, n) = op(A) (m, k) op(B) (k, n), fp32, row-major, in tiles that only the shape decides.
 *
 *     mba_gemm(&(mba_gemm_args){ .m = R, .n = N, .k = K, .tb = 1, .a = x, .lda = K, .b = w, .ldb = K,
 *                                .c = y, .ldc = N });
 *
 * Each tile is one single-threaded product over the whole of k (a small C with a long k: one per piece of
 * k, added in order), so two runs give the same bits at any number of threads. C must not overlap A or B.
 * mba_gemm_serial is one such product, for operators that are themselves parallel: by gemm_cpu.c on Arm, by
 * OpenBLAS on x86-64; MBA_GEMM=packed or openblas in the environment asks for one of them. */
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
    float        alpha; /* 0 stands for 1 */
} mba_gemm_args;

void mba_gemm(const mba_gemm_args *g);
void mba_gemm_serial(const mba_gemm_args *g);

/* MBA_E_NOMEM where OpenBLAS would not get the buffers it takes at the first product of each thread: it asks for them
 * again without end. Operators call it before their products; it costs nothing from the second time on. */
MBA_MUST mba_status mba_gemm_ready(void);

/* gemm_cpu.c, once per instruction set. */
typedef void mba_gemm_fn(const mba_gemm_args *g);
#ifdef __x86_64__
mba_gemm_fn mba_gemm_packed_base, mba_gemm_packed_avx2, mba_gemm_packed_avx512;
#else
mba_gemm_fn mba_gemm_packed_base;
#endif

/* To be called first in main(). OpenBLAS picks its kernels when it is loaded; a core it does not know gets the
 * plainest. Where it had to guess, and nobody has set OPENBLAS_CORETYPE, this starts the program again with a
 * better guess, measured: see gemm.c; and without OpenBLAS's threads where the address space is limited. Returns
 * where there is nothing to gain, or where that fails. */
void mba_gemm_choose_kernels(char **argv);

#endif
