// SPDX-License-Identifier: Apache-2.0
/* gemm_candidates.h -- times every matrix product that this process has run with each of cuBLASLt's candidate kernels.
 *
 *     MBA_TRY(mba_cuda_gemm_candidates(8, 5, 0, print_one, table));       // after a step; uses its operands
 *
 * A GPU at its power limit runs slower than one that runs single products, and kernels differ in power. hold_s > 0
 * gives the mean over that many seconds of back-to-back runs, after as many of warm-up.
 *
 * Results are overwritten and sums added to: for benchmarks, not for training. */
#ifndef MBA_DEVICE_CUDA_GEMM_CANDIDATES_H
#define MBA_DEVICE_CUDA_GEMM_CANDIDATES_H

#include "core/tensor.h"

/* The library's attributes of a kernel. */
typedef struct mba_cuda_algorithm {
    int32_t id, tile, stages, split, swizzle, option, inner, cluster;
} mba_cuda_algorithm;

typedef struct mba_cuda_gemm_candidate {
    int64_t            m, n, k, batch, calls; /* calls: how often it has run so far */
    mba_dtype          in, out;
    bool               ta, tb, adds, bias, tf32;
    int                rank, used; /* rank among the library's candidates; rank of the one in use */
    mba_cuda_algorithm is;
    size_t             work_bytes;
    double             seconds; /* best of `repeats` with cold L2, or the mean; 0: refused */
} mba_cuda_gemm_candidate;

typedef void mba_cuda_gemm_candidate_fn(void *ctx, const mba_cuda_gemm_candidate *p);

MBA_MUST mba_status mba_cuda_gemm_candidates(int most, int repeats, double hold_s, mba_cuda_gemm_candidate_fn *fn,
                                             void *ctx);

#endif
