// SPDX-License-Identifier: Apache-2.0
/* gemm_candidates.h -- how fast other kernels of the library would have been: every product that this process has asked
 * for, by each of the candidates the library names.
 *
 *     MBA_TRY(mba_cuda_gemm_candidates(8, 5, 0, print_one, table));       // after a step, on whose operands they run
 *
 * A GPU at its limit of power runs slower than one that does a product now and then, and not all kernels want the same
 * power: `hold_s` > 0 asks for the mean over so many seconds, back to back, after as many of warming up.
 *
 * Results are overwritten, and sums added to: for a bench, not for training. Plain C. */
#ifndef MBA_DEVICE_CUDA_GEMM_CANDIDATES_H
#define MBA_DEVICE_CUDA_GEMM_CANDIDATES_H

#include "core/tensor.h"

/* What the library says of a kernel: its attributes of these names. */
typedef struct mba_cuda_algorithm {
    int32_t id, tile, stages, split, swizzle, option, inner, cluster;
} mba_cuda_algorithm;

typedef struct mba_cuda_gemm_candidate {
    int64_t            m, n, k, batch, calls; /* calls: how often it was asked for so far */
    mba_dtype          in, out;
    bool               ta, tb, adds, bias;
    int                rank, used; /* candidate of the library, 0 its first; the one that gemm.c uses */
    mba_cuda_algorithm is;
    size_t             work_bytes;
    double             seconds; /* best of `repeats`, caches swept before each, or the mean; 0: it refused */
} mba_cuda_gemm_candidate;

typedef void mba_cuda_gemm_candidate_fn(void *ctx, const mba_cuda_gemm_candidate *p);

MBA_MUST mba_status mba_cuda_gemm_candidates(int most, int repeats, double hold_s, mba_cuda_gemm_candidate_fn *fn,
                                             void *ctx);

#endif
