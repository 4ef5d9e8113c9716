// SPDX-License-Identifier: Apache-2.0
/* ssd_fused_prep.cuh -- what the walks of `fused` find ready: C B^T of a chunk and group, and the factors of a chunk
 * and head (ssd_fused.cuh).
 *
 * kernel     ssd_prep        block = one chunk: C B^T of a group, or the records of 32 heads
 * launch     grid chunks B (G + ceil(H/32)), block 256
 * moves      reads B, C, dt once; writes 8 KB per chunk and group, 528 bytes per chunk and head (backward thrice that)
 * resources  sm_90a, CUDA 13.0: 64 registers, 35840 B of shared memory, no spill  [docs] */
#ifndef MBA_SSD_FUSED_PREP_CUH
#define MBA_SSD_FUSED_PREP_CUH

#include "ops/ssd/ssd_fused.cuh"

static __device__ __forceinline__ bool reset_at(const fused_task &a, int b, int64_t l)
{
    return a.ids.at && l > 0 && l < a.L && *a.ids.row(b, l, 0) != *a.ids.row(b, l - 1, 0);
}

/* How many resets lie at or before each position of a chunk; by one warp. Others see it after a barrier. */
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

/* 64 rows of B or C of a group; beyond L zero. First asked for, then put: a load under a condition, or one whose value
 * is stored at once, would be waited for before the next. */
static __device__ __forceinline__ void fetch_rows(uint4 (&v)[4], const strided<const bf16> &from, const fused_task &a,
                                                  int b, int g, int l0)
{
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const int e = (int)threadIdx.x + 256 * i, l = min(l0 + (e >> 4), a.L - 1);
        v[i] = *(const uint4 *)(from.row(b, l, g) + (e & 15) * 8);
    }
}
static __device__ __forceinline__ void put_rows(wide_rows &to, const uint4 (&v)[4], const fused_task &a, int l0)
{
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const int e = (int)threadIdx.x + 256 * i, r = e >> 4;
        *(uint4 *)&to[r][(e & 15) * 8] = l0 + r < a.L ? v[i] : make_uint4(0, 0, 0, 0);
    }
}

/* C B^T, 16 x 32 per warp: rows r0 + lane/4 (+ 8), columns n0 + 8 j + 2 (lane % 4). */
static __device__ __forceinline__ void rows_product(float (&acc)[4][4], const wide_rows &left, const wide_rows &right,
                                                    int r0, int n0)
{
    const int g = (threadIdx.x & 31) >> 2, t = threadIdx.x & 3;
#pragma unroll
    for (int k = 0; k < FN; k += 16) {
        const uint32_t A[4] = { *(const uint32_t *)&left[r0 + g][k + 2 * t],
                                *(const uint32_t *)&left[r0 + g + 8][k + 2 * t],
                                *(const uint32_t *)&left[r0 + g][k + 2 * t + 8],
                                *(const uint32_t *)&left[r0 + g + 8][k + 2 * t + 8] };
#pragma unroll
        for (int j = 0; j < 4; j++)
            mma(acc[j], A, *(const uint32_t *)&right[n0 + 8 * j + g][k + 2 * t],
                *(const uint32_t *)&right[n0 + 8 * j + g][k + 2 * t + 8]);
    }
}

/* Stores what reaches: `low` is the block of sources one chunk earlier. Exact: and what rounding lost of it. */
template <bool EXACT, bool LOW>
static __device__ __forceinline__ void store_pairs(const fused_task &a, bf16 *to, const float (&acc)[4][4], int r0,
                                                   int n0, const int (&here)[FQ], const int (&before)[FQ])
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
            const uint2 w = split(one ? acc[j][2 * q] : 0, two ? acc[j][2 * q + 1] : 0);
            ((uint32_t *)to)[(l * FQ + s) / 2] = w.x;
            if (EXACT) ((uint32_t *)(to + (int64_t)residual_offset_pairs(a) * FQ * FQ))[(l * FQ + s) / 2] = w.y;
        }
}

/* The copies of C and B for states: rows beyond a reset, or before the last one, are zero. */
static __device__ __forceinline__ void store_reach(const fused_task &a, const wide_rows &cm, const wide_rows &bm,
                                                   const int (&resets)[FQ], int b, int c, int g)
{
    for (int e = (int)threadIdx.x; e < FQ * 16; e += 256) {
        const int     r = e >> 4, piece = (e & 15) * 8;
        const int64_t at = (((int64_t)b * a.K * FQ + (int64_t)c * FQ + r) * a.G + g) * FN + piece;
        const uint4   zero = make_uint4(0, 0, 0, 0);
        *(uint4 *)(a.c_begin + at) = resets[r] == 0 ? *(const uint4 *)&cm[r][piece] : zero;
        *(uint4 *)(a.b_end + at) = resets[r] == resets[FQ - 1] ? *(const uint4 *)&bm[r][piece] : zero;
    }
}

template <bool EXACT>
static __device__ __forceinline__ void prepare_pairs(const fused_task &a, wide_rows &cm, wide_rows &bm, int (&here)[FQ],
                                                     int (&before)[FQ], int b, int c, int g)
{
    const int warp = (int)threadIdx.x >> 5, r0 = 16 * (warp & 3), n0 = 32 * (warp >> 2);
    uint4     rows[4], others[4];
    fetch_rows(rows, a.cm, a, b, g, c * FQ);
    fetch_rows(others, a.bm, a, b, g, c * FQ);
    put_rows(cm, rows, a, c * FQ);
    put_rows(bm, others, a, c * FQ);
    count_resets(here, a, b, c);
    __syncthreads();
    float acc[4][4] = {};
    rows_product(acc, cm, bm, r0, n0);
    store_pairs<EXACT, false>(a, a.cb + (((int64_t)b * a.K + c) * a.G + g) * FQ * FQ, acc, r0, n0, here, here);
    if (a.c_begin) store_reach(a, cm, bm, here, b, c, g);
    if (!a.cb_low || !(c & 1)) return;
    fetch_rows(rows, a.bm, a, b, g, (c - 1) * FQ);
    __syncthreads();
    put_rows(bm, rows, a, (c - 1) * FQ);
    count_resets(before, a, b, c - 1);
    __syncthreads();
    float low[4][4] = {};
    rows_product(low, cm, bm, r0, n0);
    store_pairs<EXACT, true>(a, a.cb_low + (((int64_t)b * (a.K / 2) + c / 2) * a.G + g) * FQ * FQ, low, r0, n0, here,
                             before);
}

/* What a lane knows of a chunk of a head: positions 2 lane and 2 lane + 1. */
struct lane_steps {
    float2 dt, cs, e, f;
    float  m, all, flags;
};

static __device__ __forceinline__ void write_scan_record(float *r, const lane_steps &s, bool rev)
{
    const int    lane = threadIdx.x & 31, k = lane >> 3, j = (lane >> 2) & 1, t = lane & 3;
    const int    out = t * 16 + k * 4 + j * 2, in = t * 8 + k * 2 + j;
    const bool   slow = (int)s.flags & IS_SLOW;
    const float2 enters = rev ? s.e : s.f;
    if (slow) {
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
    *(float4 *)(r + REC_BEFORE) = make_float4(slow ? 0 : before, slow ? 0 : after, s.flags, s.all);
}

/* Exact: factors are applied behind products, where one that is infinite (beyond the range) would not count as zero. */
template <bool EXACT> static __device__ __forceinline__ void write_plain(float *r, const lane_steps &s)
{
    const int    lane = threadIdx.x & 31;
    const bool   none = EXACT && (int)s.flags & IS_SLOW;
    const float2 zero = make_float2(0, 0);
    ((float2 *)r)[lane] = none ? zero : s.e;
    ((float2 *)r)[32 + lane] = none ? zero : s.f;
    if (lane == 0) *(float4 *)(r + REC_BEFORE) = make_float4(s.m, s.all - s.m, s.flags, s.all);
}

/* The sum of x over the lanes before mine. */
static __device__ __forceinline__ float sum_of_lanes_before(float x)
{
    const int lane = threadIdx.x & 31;
#pragma unroll
    for (int d = 1; d < 32; d *= 2) {
        const float v = __shfl_up_sync(0xffffffffu, x, d);
        if (lane >= d) x += v;
    }
    const float before = __shfl_up_sync(0xffffffffu, x, 1);
    return lane ? before : 0;
}

/* Under a pivot the gradient of a decay is a difference of sums which both contain what tokens give to themselves.
 * Where tokens take far less than that from those before them (decays beyond FORGETS_TOKEN), the rounding of the one is
 * the size of the other: at steps near 8 `exact` lost 0.41 of dA and `fused`, both of whose sums meet the same
 * operands, 0.033, where tokens took 7.5e-5 of what they gave. Errors go as 1 over that part, hence LEAST_TAKEN: errors
 * of 6e-3 and 5e-3 at most, and no chunk of an ordinary model. Such a chunk goes token by token, where nothing
 * cancels. */
static constexpr float                                       FORGETS_TOKEN = -2.5f;
template <bool EXACT> static __device__ __forceinline__ bool forgets(const lane_steps &s)
{
    constexpr float LEAST_TAKEN = EXACT ? 5e-3f : 5e-4f;
    const float f = sum_of_lanes_before(s.f.x + s.f.y), own = sum_of_lanes_before(s.dt.x * s.dt.x + s.dt.y * s.dt.y);
    const float takes = s.dt.x * s.e.x * f + s.dt.y * s.e.y * (f + s.f.x);
    const float gives = s.dt.x * sqrtf(own) + s.dt.y * sqrtf(own + s.dt.x * s.dt.x);
    return warp_sum(takes) < LEAST_TAKEN * warp_sum(gives);
}

/* raw: of positions 2 lane, 2 lane + 1; real: how many positions of the chunk there are. */
template <bool EXACT>
static __device__ __forceinline__ lane_steps steps_of(const fused_task &a, float2 raw, float decay, int real)
{
    const int  lane = threadIdx.x & 31;
    lane_steps s;
    s.dt.x = 2 * lane < real ? limited(a, softplus_dt(raw.x)) : 0;
    s.dt.y = 2 * lane + 1 < real ? limited(a, softplus_dt(raw.y)) : 0;
    s.cs.x = s.dt.x * decay;
    s.cs.y = s.cs.x + s.dt.y * decay;
    float run = s.cs.y;
#pragma unroll
    for (int d = 1; d < 32; d *= 2) {
        const float v = __shfl_up_sync(0xffffffffu, run, d);
        if (lane >= d) run += v;
    }
    const float before = run - s.cs.y;
    s.cs.x += before;
    s.cs.y += before;
    const float first = __shfl_sync(0xffffffffu, s.cs.x, 0);
    s.all = __shfl_sync(0xffffffffu, s.cs.y, 31);
    s.m = 0.5f * (first + s.all);
    s.e = make_float2(__expf(s.cs.x - s.m), __expf(s.cs.y - s.m));
    s.f = make_float2(s.dt.x * __expf(s.m - s.cs.x), s.dt.y * __expf(s.m - s.cs.y));
    s.flags = first - s.all > RANGE_MAX ? IS_SLOW : 0;
    if (!s.flags && __any_sync(0xffffffffu, fmaxf(s.dt.x, s.dt.y) * decay < FORGETS_TOKEN) && forgets<EXACT>(s))
        s.flags = IS_SLOW;
    return s;
}

/* 32 heads: raw steps come in by rows, leave by columns. */
template <bool EXACT>
static __device__ __forceinline__ void prepare_steps(const fused_task &a, float (&raw)[FQ][33], int b, int c, int part,
                                                     bool reset)
{
    const int h0 = part * 32, heads = min(32, a.H - h0), warp = (int)threadIdx.x >> 5, lane = threadIdx.x & 31;
    const int real = min(FQ, a.L - c * FQ);
    bf16      v[8];
#pragma unroll
    for (int i = 0; i < 8; i++) // all asked for before any is stored, as fetch_rows
        v[i] = *a.dt.row(b, min(c * FQ + warp + 8 * i, a.L - 1), h0 + min(lane, heads - 1));
    const float biases = a.bias ? a.bias[h0 + min(lane, heads - 1)] : 0; // a head per lane
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
        const int64_t at = (((int64_t)b * a.H + h0 + i) * a.K + c) * REC;
        lane_steps    s = steps_of<EXACT>(a, make_float2(raw[2 * lane][i] + bias, raw[2 * lane + 1][i] + bias), decay,
                                       real);
        s.flags += reset ? HAS_RESET : 0;
        write_scan_record(a.rec + at, s, false);
        if (!a.rec_rev) continue;
        write_scan_record(a.rec_rev + at, s, true);
        write_plain<EXACT>(a.rec_plain + at, s);
    }
}

template <bool EXACT> static __device__ __forceinline__ void prepare_block(const fused_task &a)
{
    __shared__ __align__(16) wide_rows cm, bm;
    __shared__ int                     here[FQ], before[FQ];
    unsigned                           z = blockIdx.x;
    const int                          c = unravel_next(z, a.K), b = unravel_next(z, a.B), what = (int)z;
#if MBA_HOPPER
    launch_dependents(); // a walk that keeps nothing (launch_scan_inference)
#endif
    if (a.handed && blockIdx.x == 0)
        for (int i = (int)threadIdx.x; i < a.states * HEADS; i += 256) a.handed[i] = 0;
    if (what < a.G) {
        prepare_pairs<EXACT>(a, cm, bm, here, before, b, c, what);
    } else {
        bool reset = false;
        if (a.ids.at) {
            count_resets(here, a, b, c);
            __syncthreads();
            reset = here[FQ - 1] > 0;
        }
        prepare_steps<EXACT>(a, *(float(*)[FQ][33])cm, b, c, what - a.G, reset);
    }
}

#endif
