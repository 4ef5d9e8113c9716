// SPDX-License-Identifier: Apache-2.0
/* ssd_fused_pairs.cuh -- pairs of chunks, the unit of work of the backward kernels of `fused` that follow ssd_scan_rev.
 *
 * ssd_bwd_bc, ssd_bwd_slow and ssd_finish work on 128 tokens at a time: chunks 2 c2 and 2 c2 + 1 of one sequence.
 * States are therefore saved for every second chunk only. Factors, sums and stores that ssd_bwd_bc (wgmma) and
 * ssd_mma_bc (mma.sync) have in common are here too. */
#ifndef MBA_SSD_FUSED_PAIRS_CUH
#define MBA_SSD_FUSED_PAIRS_CUH

#include "ops/ssd/fused/ssd_fused.cuh"

enum { PAIR = 2 * FQ }; /* positions of two chunks */

/* Layout of `ends`, partial sums per warp: kappa <H1, G1>; the sum of out_s over chunk 0; the sum of q_l over chunk
 * 1. */
enum { DOT_WARPS = 2, END_DOT = 0, END_OUT = DOT_WARPS, END_Q = END_OUT + 4 };
static_assert(END_Q + 4 == SSD_ENDS, "what the plan asks for");

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

/* ---- what ssd_bwd_bc and ssd_mma_bc share: a thread has rows `row` and row + 8 of chunk I of the pair ---- */

/* Factors of rows of one head; a head with a wide-range chunk gets zeros. They are read from shared memory where they
 * are used, because registers are short. Without resets the flags are only 0 or 1, so they are compared as floats: a
 * conversion would delay the products. */
template <int I, bool DOCS> struct pair_factors {
    const float (&rec)[2][REC]; /* plain records */
    const int (&resets)[2][FQ];

    __device__ __forceinline__ bool is_wide_range() const
    {
        if (!DOCS) return rec[0][REC_FLAGS] + rec[1][REC_FLAGS] > 0;
        return ((int)rec[0][REC_FLAGS] | (int)rec[1][REC_FLAGS]) & IS_WIDE_RANGE;
    }
    __device__ __forceinline__ float e(int r) const { return is_wide_range() ? 0 : rec[I][r]; }
    __device__ __forceinline__ float f(int r) const { return is_wide_range() ? 0 : rec[I][FQ + r]; }
    /* The same times kappa, in an order in which no intermediate underflows; kappa alone may. */
    __device__ __forceinline__ float e_kappa(int r) const
    {
        return e(r) * __expf(rec[1][REC_BEFORE]) * __expf(rec[0][REC_AFTER]);
    }
    __device__ __forceinline__ float f_kappa(int r) const
    {
        return f(r) * __expf(rec[0][REC_AFTER]) * __expf(rec[1][REC_BEFORE]);
    }
    /* Factors with the decay until the end of the pair, and since its beginning; 0 where a reset lies between. */
    __device__ __forceinline__ float f_to_end(int r) const
    {
        if (DOCS && (resets[I][r] != resets[I][FQ - 1] || (I == 0 && resets[1][FQ - 1]))) return 0;
        return I ? f(r) : f_kappa(r);
    }
    __device__ __forceinline__ float e_from_begin(int r) const
    {
        if (DOCS && (resets[I][r] || (I == 1 && resets[0][FQ - 1]))) return 0;
        return I ? e_kappa(r) : e(r);
    }
};

/* sum += <u, v>, eight bf16 each. */
static __device__ __forceinline__ void add_dot(float &sum, uint4 u, uint4 v)
{
    sum += low_of(u.x) * low_of(v.x) + high_of(u.x) * high_of(v.x);
    sum += low_of(u.y) * low_of(v.y) + high_of(u.y) * high_of(v.y);
    sum += low_of(u.z) * low_of(v.z) + high_of(u.z) * high_of(v.z);
    sum += low_of(u.w) * low_of(v.w) + high_of(u.w) * high_of(v.w);
}

/* This thread's part of the dot products of accumulator rows with tile rows: row (x) and row + 8 (y). load(v, i) loads
 * columns 16 i .. 16 i + 15 of this warp's rows of the tile. */
template <int COUNT, typename LOAD>
static __device__ __forceinline__ float2 dot_of_rows(const float *sums, const LOAD &load)
{
    float2 u = make_float2(0, 0);
#pragma unroll
    for (int i = 0; i < COUNT / 8; i++) {
        uint32_t     v[4];
        const float *d = sums + 8 * i;
        load(v, i);
        u.x += low_of(v[0]) * d[0] + high_of(v[0]) * d[1] + low_of(v[2]) * d[4] + high_of(v[2]) * d[5];
        u.y += low_of(v[1]) * d[2] + high_of(v[1]) * d[3] + low_of(v[3]) * d[6] + high_of(v[3]) * d[7];
    }
    return u;
}
static __device__ __forceinline__ float sum_over_lanes_of_row(float x) /* four lanes share a row */
{
    x += __shfl_xor_sync(0xffffffffu, x, 1);
    return x + __shfl_xor_sync(0xffffffffu, x, 2);
}

/* Sums of one head: products with the running sums (q, row, and what goes into `ends`), less those before this head. */
struct decay_sums {
    float q0, q1, row0, row1, end;
};
static __device__ __forceinline__ decay_sums decay_sums_of(float4 &previous, float &previous_end, float2 q, float2 row,
                                                           float2 end)
{
    const float4 before = previous;
    decay_sums   s;
    s.q0 = sum_over_lanes_of_row(q.x - before.x);
    s.q1 = sum_over_lanes_of_row(q.y - before.y);
    s.row0 = sum_over_lanes_of_row(row.x - before.z);
    s.row1 = sum_over_lanes_of_row(row.y - before.w);
    s.end = warp_sum(end.x + end.y - previous_end);
    previous = make_float4(q.x, q.y, row.x, row.y);
    previous_end = end.x + end.y;
    return s;
}
/* Stores them, by one lane of the four of a row. slow: wide-range; then ssd_bwd_slow has stored the gradient itself in
 * q. */
template <int I>
static __device__ __forceinline__ void store_decay_sums(const fused_task &a, const decay_sums &s, int pair, bool slow,
                                                        int row, int warp, int lane)
{
    const int64_t at = (2 * (int64_t)pair + I) * FQ + row;
    if (lane == 0) a.ends[(int64_t)pair * SSD_ENDS + (I ? END_Q : END_OUT) + warp] = s.end;
    a.row[at] = s.row0;
    a.row[at + 8] = s.row1;
    if (slow) return;
    a.q[at] = s.q0;
    a.q[at + 8] = s.q1;
}

/* Stores vector v of row q of a gradient: the sums, plus what ssd_bwd_slow computed, plus the old value if `adds`. */
static __device__ __forceinline__ void store_vector(bf16 *to, const float *sums, const float *slow, bool adds, int q,
                                                    int v)
{
    const uint4    old = adds ? *(const uint4 *)to : make_uint4(0, 0, 0, 0);
    const uint32_t was[4] = { old.x, old.y, old.z, old.w };
    uint32_t       w[4];
#pragma unroll
    for (int c = 0; c < 4; c++) {
        const float *d = sums + 4 * (4 * v + c) + 2 * q;
        const float2 s = slow ? *(const float2 *)(slow + 1024 * c) : make_float2(0, 0);
        w[c] = pack(d[0] + s.x + low_of(was[c]), d[1] + s.y + high_of(was[c]));
    }
    *(uint4 *)to = make_uint4(w[0], w[1], w[2], w[3]);
}
/* Stores this thread's rows of dB and dC of a work item; l: position of the first in the pair; lane t4 of four has
 * columns 8 t4 .. of every 32. `slow`: ssd_bwd_slow has some of it, as work item `block`. */
template <int TILED>
static __device__ __forceinline__ void store_rows_of_group(const fused_task &a, const pair_block &at, int l, int t4,
                                                           const float *dC, const float *dB, bool slow,
                                                           const unsigned &block)
{
#pragma unroll
    for (int q = 0; q < 2; q++) {
        const int token = at.c2 * PAIR + l + 8 * q;
        if (token >= a.L) continue;
        const int     g = group_of<TILED>(at.g), n = group_n<TILED>(at.g) + 8 * t4;
        const int64_t from = (int64_t)block * SLOW_VALUES + 4 * (int)threadIdx.x + 2 * q;
        bf16         *dc = a.dcm.row(at.b, token, g) + n, *db = a.dbm.row(at.b, token, g) + n;
#pragma unroll
        for (int v = 0; v < 4; v++) {
            if (TILED && n + 32 * v >= a.N) break;
            store_vector(dc + 32 * v, dC, slow ? a.slow_sums + from + 4096 * v : NULL, a.adds[DCM], q, v);
            store_vector(db + 32 * v, dB, slow ? a.slow_sums + from + 4096 * (v + 4) : NULL, a.adds[DBM], q, v);
        }
    }
}

#endif
