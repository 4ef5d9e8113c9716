// SPDX-License-Identifier: Apache-2.0
/* ssd_fused_pairs.cuh -- pairs of chunks, the unit of work of the backward kernels of `fused` that follow ssd_scan_rev.
 *
 * ssd_bwd_bc, ssd_bwd_slow and ssd_finish work on 128 tokens at a time: chunks 2 c2 and 2 c2 + 1 of one sequence.
 * States are therefore saved for every second chunk only. */
#ifndef MBA_SSD_FUSED_PAIRS_CUH
#define MBA_SSD_FUSED_PAIRS_CUH

#include "ops/ssd/fused/ssd_fused.cuh"

enum { PAIR = 2 * FQ }; /* positions of two chunks */

/* Column order of saved states (save_state): word w of a row holds n = 32 (w / 16) + 8 (w % 4) + 2 (w / 4 % 4), n +
 * 1. */

/* 128 positions of one group: sequence, group, pair of chunks. */
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

/* TILED: the tiles of a group's state are further groups, innermost. The group of the operator, the first n, and tile i
 * of the heads of one tile of the state. */
template <int TILED> static __device__ __forceinline__ int group_of(int g) { return TILED > 1 ? g / TILED : g; }
template <int TILED> static __device__ __forceinline__ int group_n(int g) { return tile_n<TILED>(g); }
template <int TILED> static __device__ __forceinline__ int tile_of_group(const fused_task &a, int g, int i)
{
    return TILED > 1 ? group_of<TILED>(g) * a.J + i * TILED + g % TILED : g * a.J + i;
}
/* Groups and heads, or tiles, of a group that ssd_bwd_bc and ssd_bwd_slow loop over. */
template <int TILED> static __device__ __forceinline__ int pair_groups(const fused_task &a)
{
    return a.G * (TILED > 1 ? TILED : 1);
}
template <int TILED> static __device__ __forceinline__ int group_heads(const fused_task &a)
{
    return TILED ? a.group_tiles : a.J;
}

/* What ssd_bwd_slow leaves of work item z, a pair of chunks of a group, at slow_sums + z SLOW_VALUES: dC and dB of its
 * wide-range heads, in register order. These are 32 vectors of four accumulators, vector i of all 256 threads before
 * vector i + 1, dC first. Where blocks without such heads have helped, theirs are parts of the sum: bit i of y % 2^16
 * of slow_helpers[z] stands for what is left as item x + i (y / 2^16). */
enum { SLOW_VALUES = 2 * PAIR * FN };

/* Adds the helpers' parts to the item's own, in order: what one thread has. */
static __device__ __forceinline__ void add_slow_helpers(const fused_task &a, int2 helpers, unsigned item)
{
#pragma unroll 1
    for (unsigned left = (unsigned)helpers.y & 0xffff; left; left &= left - 1) {
        const int64_t helper = helpers.x + (helpers.y >> 16) * (__ffs((int)left) - 1);
        float4       *to = (float4 *)(a.slow_sums + (int64_t)item * SLOW_VALUES) + threadIdx.x;
        const float4 *from = (const float4 *)(a.slow_sums + helper * SLOW_VALUES) + threadIdx.x;
#pragma unroll
        for (int i = 0; i < 2; i++, to += 16 * 256, from += 16 * 256) {
            float4 u[16], v[16];
#pragma unroll
            for (int e = 0; e < 16; e++) { // all loads before the first store: latency is the cost
                u[e] = to[256 * e];
                v[e] = from[256 * e];
            }
#pragma unroll
            for (int e = 0; e < 16; e++)
                to[256 * e] = make_float4(u[e].x + v[e].x, u[e].y + v[e].y, u[e].z + v[e].z, u[e].w + v[e].w);
        }
    }
}

template <int TILED = 0>
static __device__ __forceinline__ const float *plain_record(const fused_task &a, int b, int h, int c)
{
    return a.rec_plain + (((int64_t)b * record_heads<TILED>(a) + record_head<TILED>(a, h)) * a.K + c) * REC;
}
/* Whether head or tile h has a wide-range chunk in the pair. */
template <int TILED = 0>
static __device__ __forceinline__ bool is_wide_range_pair(const fused_task &a, int b, int h, int c2)
{
    const int flags = (int)plain_record<TILED>(a, b, h, 2 * c2)[REC_FLAGS]
                      | (int)plain_record<TILED>(a, b, h, 2 * c2 + 1)[REC_FLAGS];
    return flags & IS_WIDE_RANGE;
}

#endif
