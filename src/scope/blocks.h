// SPDX-License-Identifier: Apache-2.0
/* blocks.h -- lifetimes of thread blocks, and reuse of data between operators. Both read tables that the analysis does
 * not load.
 *
 *     mba_blocks_view *b; int64_t n;
 *     MBA_TRY(mba_blocks_of(a, &b, &n));          // kernels with records of their blocks; free(b)
 */
#ifndef MBA_SCOPE_BLOCKS_H
#define MBA_SCOPE_BLOCKS_H

#include "scope/analysis.h"

/* From records of single blocks. prologue and epilogue are shares of the lifetime; NaN if the record has no such mark.
 */
typedef struct mba_blocks_view {
    int64_t kernel, blocks; /* kernel: an index of a->kernel */
    double  median_s, p95_s, mean_s, prologue, epilogue;
} mba_blocks_view;
MBA_MUST mba_status mba_blocks_of(const mba_analysis *a, mba_blocks_view **out, int64_t *n);

/* Reads by pairs of operators: the one that touched the memory last, and the one that reads it. A read is within reach
 * if the bytes touched in between, and its own, fit into the last-level cache. */
typedef struct mba_reuse {
    const char *from, *to;
    int64_t     reads;
    double      bytes, reach_bytes;
} mba_reuse;
/* free(*out) */
MBA_MUST mba_status mba_reuse_of(const mba_analysis *a, double cache_bytes, mba_reuse **out, int64_t *n);

#endif
