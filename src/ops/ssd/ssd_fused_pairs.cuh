// SPDX-License-Identifier: Apache-2.0
/* ssd_fused_pairs.cuh -- pairs of chunks, in which the backward pass of `fused` goes after its walks. */
#ifndef MBA_SSD_FUSED_PAIRS_CUH
#define MBA_SSD_FUSED_PAIRS_CUH

#include "ops/ssd/ssd_fused.cuh"

enum { PAIR = 2 * FQ }; /* positions of two chunks */

/* Word w of a row that save_state wrote holds n = 32 (w / 16) + 8 (w % 4) + 2 (w / 4 % 4) and n + 1. */

/* A block of 128 positions of a group. */
struct pair_block {
    int b, g, c2;
};
static __device__ __forceinline__ pair_block pair_block_of(const fused_task &a, unsigned z)
{
    pair_block k;
    k.c2 = unravel_next(z, a.K / 2);
    k.b = unravel_next(z, a.B);
    k.g = (int)z;
    return k;
}

static __device__ __forceinline__ const float *plain_record(const fused_task &a, int b, int h, int c)
{
    return a.rec_plain + (((int64_t)b * a.H + h) * a.K + c) * REC;
}
static __device__ __forceinline__ bool slow_pair(const fused_task &a, int b, int h, int c2)
{
    const int flags = (int)plain_record(a, b, h, 2 * c2)[REC_FLAGS] | (int)plain_record(a, b, h, 2 * c2 + 1)[REC_FLAGS];
    return flags & IS_SLOW;
}

#endif
