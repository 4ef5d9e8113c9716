// SPDX-License-Identifier: Apache-2.0
/* ssd_fused_sums.cuh -- the last two kernels of the backward pass of `fused`.
 *
 * ssd_finish computes ddA from the sums of ssd_bwd_bc (formula: ssd_fused_bc.cuh), from it ddt, and one partial sum of
 * dA_log and ddt_bias per pair of chunks and head. ssd_sums adds the partial sums of dA_log, ddt_bias and dD.
 *
 * kernel     ssd_finish      one block per 128 positions x 32 heads, one warp per head
 * kernel     ssd_sums        8 columns per block, 32 threads each
 * order      fixed: partial sums in order */
#ifndef MBA_SSD_FUSED_SUMS_CUH
#define MBA_SSD_FUSED_SUMS_CUH

#include "ops/ssd/fused/ssd_fused_pairs.cuh"

/* A lane's inputs for one head of a pair of chunks: positions 4 lane .. 4 lane + 3, and one value of `ends`. All loads
 * are issued before the first use: latency is the cost of this kernel. */
struct pair_values {
    float4 src, q, row;
    float  end, bias, A;
    bool   slow;
};

static __device__ __forceinline__ pair_values values_of_one(const fused_task &a, int b, int h, int c2)
{
    const int     lane = threadIdx.x & 31, half = lane & 15, more = lane & 16 ? END_OUT : END_Q;
    const int64_t pair = ((int64_t)b * a.H + h) * (a.K / 2) + c2, at = pair * PAIR + 4 * lane;
    const int     end = half < DOT_WARPS ? END_DOT + half : more + min(half - DOT_WARPS, 3);
    pair_values   v;
    v.src = *(const float4 *)(a.src + at);
    v.q = *(const float4 *)(a.q + at);
    v.row = *(const float4 *)(a.row + at);
    v.end = a.ends[pair * SSD_ENDS + end];
    v.slow = false;
    v.bias = v.A = 0;
    if (half >= DOT_WARPS + 4) v.end = 0;
    return v;
}

static __device__ __forceinline__ void add_to(float4 &sum, const float4 &v)
{
    sum.x += v.x;
    sum.y += v.y;
    sum.z += v.z;
    sum.w += v.w;
}
/* The values of a head: the sums over its tiles, in order. ssd_scan_rev stores src for the first tile of n. */
template <int TILED> static __device__ __forceinline__ pair_values values_of(const fused_task &a, int b, int h, int c2)
{
    const int   first = TILED ? h * a.tiles : h;
    pair_values v = values_of_one(a, b, first, c2);
    for (int i = 1; TILED && i < a.tiles; i++) {
        const pair_values more = values_of_one(a, b, first + i, c2);
        if (!tile_n<TILED>(i)) add_to(v.src, more.src);
        add_to(v.q, more.q);
        add_to(v.row, more.row);
        v.end += more.end;
    }
    v.slow = is_wide_range_pair<TILED>(a, b, first, c2);
    v.bias = a.bias ? a.bias[h] : 0;
    v.A = a.A_log[h];
    return v;
}

/* ddA of positions 4 lane .. 4 lane + 3 of a pair; 16 lanes per chunk. */
static __device__ __forceinline__ void decay_gradient(float (&ddA)[4], const pair_values &v)
{
    ddA[0] = v.q.x;
    ddA[1] = v.q.y;
    ddA[2] = v.q.z;
    ddA[3] = v.q.w;
    if (v.slow) return;
    float ends = v.end;
#pragma unroll
    for (int d = 1; d < 16; d *= 2) ends += __shfl_xor_sync(0xffffffffu, ends, d);
    const float q = v.q.x + v.q.y + v.q.z + v.q.w;
    ddA[3] += warp_suffix_sum<16>(q) - q + ends;
    ddA[2] += ddA[3];
    ddA[1] += ddA[2];
    ddA[0] += ddA[1];
    const float g0 = v.src.x - v.row.x, g1 = v.src.y - v.row.y, g2 = v.src.z - v.row.z, g3 = v.src.w - v.row.w;
    const float g = g0 + g1 + g2 + g3, before = warp_prefix_sum<16>(g) - g;
    ddA[0] += before;
    ddA[1] += before + g0;
    ddA[2] += before + g0 + g1;
    ddA[3] += before + g0 + g1 + g2;
}

/* One head of a pair of chunks, by one warp. `tile` holds dt (token, head) and is overwritten with its gradient. */
template <int TILED>
static __device__ __forceinline__ void finish_head(const fused_task &a, float (&tile)[PAIR][33], const pair_values &v,
                                                   int i, int b, int h, int c2)
{
    const int   lane = threadIdx.x & 31, real = min(PAIR, a.L - c2 * PAIR);
    const float A = -expf(v.A), src[4] = { v.src.x, v.src.y, v.src.z, v.src.w };
    float       ddA[4], dA = 0, dbias = 0;
    decay_gradient(ddA, v);
#pragma unroll
    for (int e = 0; e < 4; e++) {
        const int l = 4 * lane + e;
        if (l >= real) continue;
        const float raw = tile[l][i] + v.bias, soft = softplus_dt(raw), step = clamp_dt(a, soft);
        const float slope = soft < a.dt_min || soft > a.dt_max ? 0 : raw > 20 ? 1 : 1 / (1 + __expf(-raw));
        const float draw = fmaf(A, ddA[e], step > 0 ? src[e] / step : 0) * slope;
        tile[l][i] = draw;
        dbias += draw;
        dA = fmaf(ddA[e], step * A, dA);
    }
    dA = warp_sum(dA);
    dbias = warp_sum(dbias);
    if (lane) return;
    const int64_t pairs = (int64_t)a.B * (a.K / 2), heads = record_heads<TILED>(a);
    const int64_t at = ((int64_t)b * (a.K / 2) + c2) * heads + h;
    a.dpar[at] = dA;
    a.dpar[pairs * heads + at] = dbias;
}

/* One warp per head: there are few blocks, so all heads of a block must be in flight at once. */
template <int TILED> static __device__ __forceinline__ void finish_block(const fused_task &a)
{
    __shared__ float tile[PAIR][33];
    unsigned         z = blockIdx.x;
    const int        all = record_heads<TILED>(a);
    const int        part = unravel_next(z, (all + 31) / 32), c2 = unravel_next(z, a.K / 2), b = (int)z;
    const int        warp = (int)threadIdx.x >> 5;
    const int        lane = threadIdx.x & 31, h0 = part * 32, heads = min(32, all - h0);
    const int        real = min(PAIR, a.L - c2 * PAIR);
    bf16             v[PAIR / 32];
#pragma unroll
    for (int i = 0; i < PAIR / 32; i++) // all loads before the first store
        v[i] = *a.dt.row(b, min(c2 * PAIR + warp + 32 * i, a.L - 1), h0 + min(lane, heads - 1));
    const pair_values values = values_of<TILED>(a, b, h0 + min(warp, heads - 1), c2);
#pragma unroll
    for (int i = 0; i < PAIR / 32; i++) tile[warp + 32 * i][lane] = to_float(v[i]);
    __syncthreads();
    if (warp < heads) finish_head<TILED>(a, tile, values, warp, b, h0 + warp, c2);
    __syncthreads();
#pragma unroll
    for (int i = 0; i < PAIR / 32; i++) {
        const int r = warp + 32 * i;
        if (r >= real || lane >= heads) continue;
        bf16 *to = a.ddt.row(b, (int64_t)c2 * PAIR + r, h0 + lane);
        *to = from_float<bf16>(tile[r][lane] + (a.adds[DDT] ? to_float(*to) : 0));
    }
}

static __global__ void __launch_bounds__(1024) ssd_finish(const __grid_constant__ fused_task a)
{
#if MBA_HOPPER // only `fused` calls it; compute_80 on sm_90 would spill
    finish_block<0>(a);
#endif
}

/* What ssd_sums adds: a column of the result is the sum of `parts` rows x `wide` values. blockIdx.y: 0 for dA_log, 1
 * for ddt_bias, 2 for dD. Where D has one value per head, the columns of the head's tiles are contiguous and count as
 * further partial sums; where it has one per channel, the tiles of n do. */
struct sum_source {
    int cols, parts, wide;
};
template <int TILED> static __device__ __forceinline__ sum_source sum_source_of(const fused_task &a, int what)
{
    const int heads = record_heads<TILED>(a), tiles = TILED ? a.tiles : 1;
    if (what < 2) return { heads, a.B * (a.K / 2), 1 };
    if (a.skip_cols == 1) return { heads, a.B * a.segments, tiles * FP };
    return { heads * (TILED ? a.P : FP), a.B * a.segments, TILED > 1 ? TILED : 1 };
}
/* The n-th partial sum of column `col`. */
template <int TILED>
static __device__ __forceinline__ const float *partial_sum(const fused_task &a, int what, const sum_source &s, int col,
                                                           int n)
{
    const float *from = what < 2 ? a.dpar + (int64_t)what * s.parts * s.cols : a.dD;
    if (!TILED || what < 2)
        return from + (int64_t)col * s.wide + (int64_t)(s.wide > 1 ? n / FP : n) * s.cols * s.wide
               + (s.wide > 1 ? n % FP : 0);
    const int64_t row = (int64_t)(n / s.wide) * a.H, in = n % s.wide;
    if (a.skip_cols == 1) return from + (row + (int64_t)col * a.tiles) * FP + in;
    const int h = col / a.P, p = col % a.P;
    return from + (row + (int64_t)h * a.tiles + p / FP * (TILED > 1 ? TILED : 1) + in) * FP + p % FP;
}

/* Each block sums SUM_COLS columns with 32 threads per column: a column is short, and the latency of its loads is the
 * cost. */
enum { SUM_COLS = SSD_SUM_COLS, IN_FLIGHT = 8 };
template <int TILED> static __device__ __forceinline__ void sums_block(const fused_task &a)
{
    __shared__ double part[32][SUM_COLS];
    const int         what = (int)blockIdx.y;
    const sum_source  s = sum_source_of<TILED>(a, what);
    const int         x = s.wide > 1 ? (int)threadIdx.x / 32 : (int)threadIdx.x % SUM_COLS;
    const int         y = s.wide > 1 ? (int)threadIdx.x % 32 : (int)threadIdx.x / SUM_COLS;
    const int         col = (int)blockIdx.x * SUM_COLS + x, count = s.parts * s.wide;
    float            *to = what == 0 ? a.dA_log : what == 1 ? a.dbias : a.dskip;
    const bool        adds = what == 0 ? a.adds[DA_LOG] : what == 1 ? a.adds[DDT_BIAS] : a.adds[DSKIP];
    double            sum = 0;
    for (int i = y; col < s.cols && to && i < count; i += 32 * IN_FLIGHT) {
        float v[IN_FLIGHT];
#pragma unroll
        for (int j = 0; j < IN_FLIGHT; j++) v[j] = *partial_sum<TILED>(a, what, s, col, min(i + 32 * j, count - 1));
#pragma unroll
        for (int j = 0; j < IN_FLIGHT; j++) sum += i + 32 * j < count ? (double)v[j] : 0;
    }
    part[y][x] = sum;
    __syncthreads();
    if (y || col >= s.cols || !to) return;
    for (int i = 1; i < 32; i++) sum += part[i][x];
    to[col] = (float)sum + (adds ? to[col] : 0);
}
static __global__ void __launch_bounds__(32 * SUM_COLS) ssd_sums(const __grid_constant__ fused_task a)
{
    sums_block<0>(a);
}

#endif
