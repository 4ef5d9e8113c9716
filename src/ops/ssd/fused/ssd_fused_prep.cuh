// SPDX-License-Identifier: Apache-2.0
/* ssd_fused_prep.cuh -- the first kernel of ssd's `fused`: C B^T per (chunk, group) and the decay factors
 * per (chunk, head), which the scan kernels load. The maths and the layout of a record are in ssd_fused.cuh.
 *
 * For the backward pass it also writes C B^T between neighbouring chunks (cb_low) and two more records per (chunk,
 * head). With ids it writes copies of B and C whose rows are zero where a reset cuts them off from the state.
 *
 * kernel     ssd_prep        one block per (chunk, group) for C B^T, and per (chunk, 32 heads) for records
 * launch     grid chunks B (G + ceil(H/32)), block 256
 * moves      reads B, C, dt once; writes 8 KB per (chunk, group) and 528 bytes per (chunk, head); for a backward pass
 *            12 KB on average and 1584 bytes
 * resources  sm_90a, CUDA 13.0: 64 registers, 35840 B of shared memory, no spill  [docs] */
#ifndef MBA_SSD_FUSED_PREP_CUH
#define MBA_SSD_FUSED_PREP_CUH

#include "ops/ssd/fused/ssd_fused.cuh"

static __device__ __forceinline__ bool reset_at(const fused_task &a, int b, int64_t l)
{
    return a.ids.at && l > 0 && l < a.L && *a.ids.row(b, l, 0) != *a.ids.row(b, l - 1, 0);
}

/* Counts the resets at or before each position of a chunk. Warp 0 writes; others read after a barrier. */
static __device__ __forceinline__ void count_resets(int (&count)[FQ], const fused_task &a, int b, int c)
{
    if (threadIdx.x >= 32) return;
    const int      lane = threadIdx.x & 31, l = c * FQ + lane;
    const unsigned low = __ballot_sync(0xffffffffu, reset_at(a, b, l));
    const unsigned high = __ballot_sync(0xffffffffu, reset_at(a, b, l + 32));
    const unsigned mine = 0xffffffffu >> (31 - lane);
    count[lane] = __popc(low & mine);
    count[lane + 32] = __popc(low) + __popc(high & mine);
}

typedef bf16 wide_rows[FQ][FN + 8];

/* Copies 64 rows of B or C of a group to shared memory; rows beyond L are zero, and columns beyond N (TILED; n0: first
 * column). All loads are issued before the first store: a conditional load, or one whose value is stored at once, would
 * serialize them. */
template <int TILED>
static __device__ __forceinline__ void load_rows(uint4 (&v)[4], const strided<const bf16> &from, const fused_task &a,
                                                 int b, int g, int l0, int n0)
{
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const int e = (int)threadIdx.x + 256 * i, l = min(l0 + (e >> 4), a.L - 1);
        v[i] = *(const uint4 *)(from.row(b, l, g) + (TILED ? min(n0 + (e & 15) * 8, (a.N - 1) & ~7) : (e & 15) * 8));
    }
}
template <int TILED>
static __device__ __forceinline__ void store_rows(wide_rows &to, const uint4 (&v)[4], const fused_task &a, int l0,
                                                  int n0)
{
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const int  e = (int)threadIdx.x + 256 * i, r = e >> 4;
        const bool real = l0 + r < a.L && (!TILED || n0 + (e & 15) * 8 < a.N);
        *(uint4 *)&to[r][(e & 15) * 8] = real ? v[i] : make_uint4(0, 0, 0, 0);
    }
}

/* acc += left right^T, a tile of 16 x 32 per warp: rows r0 + lane/4 (+ 8), columns n0 + 8 j + 2 (lane % 4) (+ 1). */
static __device__ __forceinline__ void rows_product(float (&acc)[4][4], const wide_rows &left, const wide_rows &right,
                                                    int r0, int n0)
{
    const int lane = threadIdx.x & 31;
#pragma unroll
    for (int k = 0; k < FN; k += 16) {
        uint32_t A[4];
        ldmatrix(A, &left[r0 + lane % 16][k + lane / 16 * 8]);
#pragma unroll
        for (int j = 0; j < 4; j += 2) {
            uint32_t B[4];
            ldmatrix(B, &right[n0 + 8 * j + lane % 8 + lane / 16 * 8][k + lane / 8 % 2 * 8]);
            mma(acc[j], A, B[0], B[1]);
            mma(acc[j + 1], A, B[2], B[3]);
        }
    }
}

/* Stores C B^T with zeros where source s does not reach position l: above the diagonal and across resets. LOW: sources
 * are one chunk earlier. */
template <bool LOW>
static __device__ __forceinline__ void store_cb(bf16 *to, const float (&acc)[4][4], int r0, int n0,
                                                const int (&here)[FQ], const int (&before)[FQ])
{
    const int g = (threadIdx.x & 31) >> 2, t = threadIdx.x & 3;
#pragma unroll
    for (int j = 0; j < 4; j++)
#pragma unroll
        for (int q = 0; q < 2; q++) {
            const int l = r0 + g + 8 * q, s = n0 + 8 * j + 2 * t;
            bool      one, two;
            if (LOW) {
                one = here[l] == 0 && before[s] == before[FQ - 1];
                two = here[l] == 0 && before[s + 1] == before[FQ - 1];
            } else {
                one = s <= l && here[s] == here[l];
                two = s + 1 <= l && here[s + 1] == here[l];
            }
            ((uint32_t *)to)[(l * FQ + s) / 2] = pack(one ? acc[j][2 * q] : 0, two ? acc[j][2 * q + 1] : 0);
        }
}

/* Writes the masked copies: C with zero rows after the first reset, B with zero rows before the last one. Rows have 128
 * columns per tile of n. */
template <int TILED>
static __device__ __forceinline__ void store_masked_rows(const fused_task &a, const wide_rows &cm, const wide_rows &bm,
                                                         const int (&resets)[FQ], int b, int c, int g, int n0)
{
    constexpr int WIDTH = (TILED > 1 ? TILED : 1) * FN;
    for (int e = (int)threadIdx.x; e < FQ * 16; e += 256) {
        const int     r = e >> 4, col = (e & 15) * 8;
        const int64_t at = (((int64_t)b * a.K * FQ + (int64_t)c * FQ + r) * a.G + g) * WIDTH + n0 + col;
        const uint4   zero = make_uint4(0, 0, 0, 0);
        *(uint4 *)(a.c_begin + at) = resets[r] == 0 ? *(const uint4 *)&cm[r][col] : zero;
        *(uint4 *)(a.b_end + at) = resets[r] == resets[FQ - 1] ? *(const uint4 *)&bm[r][col] : zero;
    }
}

/* acc += C B^T of tile n0 of the state, with B of chunk cb. Leaves both in shared memory. */
template <int TILED>
static __device__ __forceinline__ void add_cb(float (&acc)[4][4], const fused_task &a, wide_rows &cm, wide_rows &bm,
                                              int b, int c, int cb, int g, int n0)
{
    const int warp = (int)threadIdx.x >> 5;
    uint4     rows[4], others[4];
    load_rows<TILED>(rows, a.cm, a, b, g, c * FQ, n0);
    load_rows<TILED>(others, a.bm, a, b, g, cb * FQ, n0);
    __syncthreads(); // what is there has been read
    store_rows<TILED>(cm, rows, a, c * FQ, n0);
    store_rows<TILED>(bm, others, a, cb * FQ, n0);
    __syncthreads();
    rows_product(acc, cm, bm, 16 * (warp & 3), 32 * (warp >> 2));
}

/* TILED: the block of one (chunk, group), one tile of the state after the other. */
template <int TILED>
static __device__ __forceinline__ void prepare_cb_tiled(const fused_task &a, wide_rows &cm, wide_rows &bm,
                                                        int (&here)[FQ], int (&before)[FQ], int b, int c, int g)
{
    const int warp = (int)threadIdx.x >> 5, r0 = 16 * (warp & 3), n0 = 32 * (warp >> 2);
    float     acc[4][4] = {}, low[4][4] = {};
    count_resets(here, a, b, c);
    for (int n = 0; n < TILED * FN; n += FN) {
        add_cb<TILED>(acc, a, cm, bm, b, c, c, g, n);
        if (a.c_begin) store_masked_rows<TILED>(a, cm, bm, here, b, c, g, n);
    }
    store_cb<false>(a.cb + (((int64_t)b * a.K + c) * a.G + g) * FQ * FQ, acc, r0, n0, here, here);
    if (!a.cb_low || !(c & 1)) return;
    count_resets(before, a, b, c - 1);
    for (int n = 0; n < TILED * FN; n += FN) add_cb<TILED>(low, a, cm, bm, b, c, c - 1, g, n);
    store_cb<true>(a.cb_low + (((int64_t)b * (a.K / 2) + c / 2) * a.G + g) * FQ * FQ, low, r0, n0, here, before);
}

/* The block of one (chunk, group). */
static __device__ __forceinline__ void prepare_cb(const fused_task &a, wide_rows &cm, wide_rows &bm, int (&here)[FQ],
                                                  int (&before)[FQ], int b, int c, int g)
{
    const int warp = (int)threadIdx.x >> 5, r0 = 16 * (warp & 3), n0 = 32 * (warp >> 2);
    uint4     rows[4], others[4];
    load_rows<0>(rows, a.cm, a, b, g, c * FQ, 0);
    load_rows<0>(others, a.bm, a, b, g, c * FQ, 0);
    store_rows<0>(cm, rows, a, c * FQ, 0);
    store_rows<0>(bm, others, a, c * FQ, 0);
    count_resets(here, a, b, c);
    __syncthreads();
    float acc[4][4] = {};
    rows_product(acc, cm, bm, r0, n0);
    store_cb<false>(a.cb + (((int64_t)b * a.K + c) * a.G + g) * FQ * FQ, acc, r0, n0, here, here);
    if (a.c_begin) store_masked_rows<0>(a, cm, bm, here, b, c, g, 0);
    if (!a.cb_low || !(c & 1)) return;
    load_rows<0>(rows, a.bm, a, b, g, (c - 1) * FQ, 0);
    __syncthreads();
    store_rows<0>(bm, rows, a, (c - 1) * FQ, 0);
    count_resets(before, a, b, c - 1);
    __syncthreads();
    float low[4][4] = {};
    rows_product(low, cm, bm, r0, n0);
    store_cb<true>(a.cb_low + (((int64_t)b * (a.K / 2) + c / 2) * a.G + g) * FQ * FQ, low, r0, n0, here, before);
}

/* Factors of a (chunk, head) in one lane: positions 2 lane and 2 lane + 1, and the pivot m, total and flags. */
struct lane_steps {
    float2 dt, cs, e, f;
    float  m, all, flags;
};

/* Writes the record of ssd_scan, or of ssd_scan_rev (layout: ssd_fused.cuh). */
static __device__ __forceinline__ void write_scan_record(float *r, const lane_steps &s, bool rev)
{
    const int    lane = threadIdx.x & 31, k = lane >> 3, j = (lane >> 2) & 1, t = lane & 3;
    const int    out = t * 16 + k * 4 + j * 2, in = t * 8 + k * 2 + j;
    const bool   wide_range = (int)s.flags & IS_WIDE_RANGE;
    const float2 enters = rev ? s.e : s.f;
    if (wide_range) {
        *(float2 *)(r + out) = s.cs;
        *(float2 *)(r + 64 + out) = s.dt;
    } else {
        const uint2 w = split(enters.x, enters.y);
        *(float2 *)(r + out) = rev ? s.f : s.e;
        ((uint32_t *)r)[64 + in] = w.x;
        ((uint32_t *)r)[96 + in] = w.y;
    }
    if (lane) return;
    const float before = rev ? s.all - s.m : s.m, after = rev ? s.m : s.all - s.m;
    *(float4 *)(r + REC_BEFORE) = make_float4(wide_range ? 0 : before, wide_range ? 0 : after, s.flags, s.all);
}

/* Writes the plain record of ssd_bwd_bc. */
static __device__ __forceinline__ void write_plain_record(float *r, const lane_steps &s)
{
    const int lane = threadIdx.x & 31;
    ((float2 *)r)[lane] = s.e;
    ((float2 *)r)[32 + lane] = s.f;
    if (lane == 0) *(float4 *)(r + REC_BEFORE) = make_float4(s.m, s.all - s.m, s.flags, s.all);
}

/* Exclusive prefix sum over the lanes of a warp. */
static __device__ __forceinline__ float sum_of_lanes_before(float x)
{
    const float before = __shfl_up_sync(0xffffffffu, warp_prefix_sum(x), 1);
    return threadIdx.x & 31 ? before : 0;
}

/* Whether the gradient of the decays would cancel catastrophically under a pivot. It is a difference of two sums that
 * both contain what each token gives to itself. Where tokens receive far less than that from earlier tokens (decays
 * stronger than STRONG_LOG_DECAY), the rounding of the former is as large as the latter. Measured at steps near 8,
 * where tokens receive 7.5e-5 of what they give: dA is wrong by 0.033 of its norm. The error is proportional to
 * 1 / ratio, so MIN_RATIO limits it to 5e-3 without catching a chunk of an ordinary model. Such a chunk counts as
 * wide-range: ssd_bwd_slow leaves what a token gives to itself out of both sums. */
static constexpr float                 STRONG_LOG_DECAY = -2.5f, MIN_RATIO = 5e-4f;
static __device__ __forceinline__ bool decay_gradient_cancels(const lane_steps &s)
{
    const float f = sum_of_lanes_before(s.f.x + s.f.y), self2 = sum_of_lanes_before(s.dt.x * s.dt.x + s.dt.y * s.dt.y);
    const float received = s.dt.x * s.e.x * f + s.dt.y * s.e.y * (f + s.f.x);
    const float given = s.dt.x * sqrtf(self2) + s.dt.y * sqrtf(self2 + s.dt.x * s.dt.x);
    return warp_sum(received) < MIN_RATIO * warp_sum(given);
}

/* Computes the factors of a (chunk, head) by one warp. raw: steps before softplus of positions 2 lane and 2 lane + 1;
 * decay: A; real: positions of the chunk that exist (others get step 0). */
static __device__ __forceinline__ lane_steps lane_steps_of(const fused_task &a, float2 raw, float decay, int real)
{
    const int  lane = threadIdx.x & 31;
    lane_steps s;
    s.dt.x = 2 * lane < real ? clamp_dt(a, softplus_dt(raw.x)) : 0;
    s.dt.y = 2 * lane + 1 < real ? clamp_dt(a, softplus_dt(raw.y)) : 0;
    s.cs.x = s.dt.x * decay;
    s.cs.y = s.cs.x + s.dt.y * decay;
    const float before = warp_prefix_sum(s.cs.y) - s.cs.y;
    s.cs.x += before;
    s.cs.y += before;
    const float first = __shfl_sync(0xffffffffu, s.cs.x, 0);
    s.all = __shfl_sync(0xffffffffu, s.cs.y, 31);
    s.m = 0.5f * (first + s.all);
    s.e = make_float2(__expf(s.cs.x - s.m), __expf(s.cs.y - s.m));
    s.f = make_float2(s.dt.x * __expf(s.m - s.cs.x), s.dt.y * __expf(s.m - s.cs.y));
    s.flags = first - s.all > RANGE_MAX ? IS_WIDE_RANGE : 0;
    if (!s.flags && __any_sync(0xffffffffu, fmaxf(s.dt.x, s.dt.y) * decay < STRONG_LOG_DECAY)
        && decay_gradient_cancels(s))
        s.flags = IS_WIDE_RANGE;
    return s;
}

/* The block of one (chunk, 32 heads): steps are read by rows of tokens, transposed in shared memory, and each warp
 * writes the records of four heads. */
template <int TILED>
static __device__ __forceinline__ void prepare_records(const fused_task &a, float (&raw)[FQ][33], int b, int c,
                                                       int part, bool reset)
{
    const int h0 = part * 32, heads = min(32, record_heads<TILED>(a) - h0), warp = (int)threadIdx.x >> 5,
              lane = threadIdx.x & 31;
    const int real = min(FQ, a.L - c * FQ);
    bf16      v[8];
#pragma unroll
    for (int i = 0; i < 8; i++) // all loads before the first store, as in load_rows()
        v[i] = *a.dt.row(b, min(c * FQ + warp + 8 * i, a.L - 1), h0 + min(lane, heads - 1));
    const float biases = a.bias ? a.bias[h0 + min(lane, heads - 1)] : 0; // one head per lane
    const float decays = a.A_log[h0 + min(lane, heads - 1)];
#pragma unroll
    for (int i = 0; i < 8; i++) {
        const int r = warp + 8 * i;
        raw[r][lane] = r < real && lane < heads ? to_float(v[i]) : 0;
    }
    __syncthreads();
#pragma unroll 1
    for (int i = warp; i < heads; i += 8) {
        const float   bias = __shfl_sync(0xffffffffu, biases, i), decay = -expf(__shfl_sync(0xffffffffu, decays, i));
        const int64_t at = (((int64_t)b * record_heads<TILED>(a) + h0 + i) * a.K + c) * REC;
        const float2  steps = make_float2(raw[2 * lane][i] + bias, raw[2 * lane + 1][i] + bias);
        lane_steps    s = lane_steps_of(a, steps, decay, real);
        s.flags += reset ? HAS_RESET : 0;
        write_scan_record(a.rec + at, s, false);
        if (!a.rec_rev) continue;
        write_scan_record(a.rec_rev + at, s, true);
        write_plain_record(a.rec_plain + at, s);
    }
}

template <int TILED = 0> static __device__ __forceinline__ void prepare_block(const fused_task &a)
{
    __shared__ __align__(16) wide_rows cm, bm;
    __shared__ int                     here[FQ], before[FQ];
    unsigned                           z = blockIdx.x;
    const int                          c = unravel_next(z, a.K), b = unravel_next(z, a.B), what = (int)z;
#if MBA_HOPPER
    launch_dependents(); // lets ssd_scan start early in inference (launch_scan_inference)
#endif
    if (a.state_ready && blockIdx.x == 0)
        for (int i = (int)threadIdx.x; i < a.states * HEADS; i += 256) a.state_ready[i] = 0;
    if (what < a.G) {
        if constexpr (TILED > 0) prepare_cb_tiled<TILED>(a, cm, bm, here, before, b, c, what);
        else prepare_cb(a, cm, bm, here, before, b, c, what);
    } else {
        bool reset = false;
        if (a.ids.at) {
            count_resets(here, a, b, c);
            __syncthreads();
            reset = here[FQ - 1] > 0;
        }
        prepare_records<TILED>(a, *(float(*)[FQ][33])cm, b, c, what - a.G, reset);
    }
}

#endif
