// SPDX-License-Identifier: Apache-2.0
/* ssd_fma.cuh -- variant `fma` of ssd: products of fp32 operands as three of TF32 (ssd_fma_product.cuh), for any size,
 * any chunk, fp32 or bf16; as one in sessions with --precision tf32. It takes everything that the other variants
 * refuse. The kernels correspond to those of ssd_mma*.cuh; the vector kernels between them are in ssd_steps.cuh, the
 * launchers in ssd_cuda.cu.
 *
 * kernel     chunk_state_fwd_fma, chunk_scan_bwd_dstates_fma, bmm_chunk_fwd_fma, chunk_scan_fwd_fma,
 *            chunk_scan_chunk_state_bwd_dx_fma, chunk_state_bwd_db_fma, chunk_scan_bwd_dc_fma, chunk_scan_bwd_dcb_fma,
 *            bmm_chunk_bwd_fma
 * takes      everything
 * launch     one tile of 64 x 64 per block of four warps; two stages of 16 k in shared memory
 * resources  sm_90a, CUDA 13.0: 114 to 201 registers, 17408 to 33792 B of shared memory, no spill  [docs]
 * moves      every operand once per tile that needs it: bound by tensor cores
 * measured   not yet  [docs]
 * order      fixed: k and heads in ascending order, partial sums in order */
#ifndef MBA_SSD_FMA_CUH
#define MBA_SSD_FMA_CUH

#include "ops/ssd/baseline/ssd_fma_product.cuh"

#if defined __CUDA_ARCH__ && __CUDA_ARCH__ >= 1000
enum { SCAN_BLOCKS = 2 }; // with three the compiler spills 12 bytes
#else
enum { SCAN_BLOCKS = 3 };
#endif

template <typename A> static __device__ __forceinline__ int64_t steps_at(const A &a, int b, int h, int c)
{
    return ((int64_t)b * a.H + h) * a.KQ + (int64_t)c * a.Q;
}
template <typename A> static __device__ __forceinline__ int64_t state_at(const A &a, int b, int c, int h)
{
    return (((int64_t)b * a.K + c) * a.H + h) * a.P * a.N;
}
template <typename A> static __device__ __forceinline__ int64_t cb_index(const A &a, int b, int c, int g)
{
    return (((int64_t)b * a.K + c) * a.G + g) * a.Q * a.Q;
}

template <typename A> static __device__ __forceinline__ float decay_between(const A &a, int64_t at, int l, int s)
{
    return expf((float)(a.cs[at + l] - a.cs[at + s]));
}

/* ---- states: (P, N) = sum over a chunk of x (dt out) B^T, or of dy in C^T ---- */

template <bool OUTPUT, typename A> static __device__ __forceinline__ void chunk_sum_fma(const A &a)
{
    __shared__ fma_tiles s;
    unsigned             z = blockIdx.x;
    const int            n0 = unravel_next(z, (a.N + 63) / 64) * 64, p0 = unravel_next(z, (a.P + 63) / 64) * 64,
              h = unravel_next(z, a.H), c = unravel_next(z, a.K), b = (int)z;
    const int     real = min(a.Q, a.L - c * a.Q);
    const int64_t at = steps_at(a, b, h, c);
    const auto    u = operand_of(OUTPUT ? a.dy : a.x, b, (int64_t)c * a.Q, h, real, a.P);
    const auto    v = operand_of(OUTPUT ? a.cm : a.bm, b, (int64_t)c * a.Q, h / a.J, real, a.N);
    float         acc[8][4] = {};
    multiply<A::SPLIT, false, false>(
        acc, s, real, [&](float(&f)[4], int i, int l) { u.across(f, l, p0 + i); },
        [&](float(&f)[4], int j, int l) { v.across(f, l, n0 + j); },
        [&](int l) { return l >= real ? 0
                            : OUTPUT  ? a.in[at + l]
                                      : a.step[at + l] * a.out[at + l]; });
    typename A::ST *to = (OUTPUT ? a.dstates : a.states) + state_at(a, b, c, h);
    for_pairs(acc, [&](int i, int j, float(&f)[2]) {
        if (p0 + i < a.P) store_pair(to + (p0 + i) * a.N + n0 + j, f, a.N - n0 - j);
    });
}

template <typename A> __global__ void __launch_bounds__(FMA_THREADS, 3) chunk_state_fwd_fma(const __grid_constant__ A a)
{
    chunk_sum_fma<false>(a);
}
template <typename A>
__global__ void __launch_bounds__(FMA_THREADS, 3) chunk_scan_bwd_dstates_fma(const __grid_constant__ A a)
{
    chunk_sum_fma<true>(a);
}

/* ---- C B^T, zero where the source does not reach the position ---- */

/* Tile number z of a chunk is tile (i, j) of the lower triangle. */
static __device__ __forceinline__ void tile_of(int z, int &i, int &j)
{
    for (i = 0; z > i; i++) z -= i + 1;
    j = z;
}

template <typename A> static __device__ __forceinline__ bool reaches(const A &a, int b, int c, int l, int s)
{
    return s <= l && (!a.since || s >= a.since[(int64_t)b * a.KQ + (int64_t)c * a.Q + l]);
}

template <typename A> __global__ void __launch_bounds__(FMA_THREADS, 3) bmm_chunk_fwd_fma(const __grid_constant__ A a)
{
    __shared__ fma_tiles t;
    unsigned             z = blockIdx.x;
    const int tile = unravel_next(z, a.tiles * (a.tiles + 1) / 2), g = unravel_next(z, a.G), c = unravel_next(z, a.K),
              b = (int)z;
    int l0, s0;
    tile_of(tile, l0, s0);
    l0 *= SSD_TILE;
    s0 *= SSD_TILE;
    const int  real = min(a.Q, a.L - c * a.Q);
    const auto u = operand_of(a.cm, b, (int64_t)c * a.Q, g, real, a.N),
               v = operand_of(a.bm, b, (int64_t)c * a.Q, g, real, a.N);
    float acc[8][4] = {};
    multiply<A::SPLIT, true, true>(
        acc, t, a.N, [&](float(&f)[4], int i, int k) { u.along(f, l0 + i, k); },
        [&](float(&f)[4], int j, int k) { v.along(f, s0 + j, k); });
    for_pairs(acc, [&](int i, int j, float(&f)[2]) {
        const int l = l0 + i, s = s0 + j;
        if (l >= a.Q) return;
        for (int e = 0; e < 2; e++) f[e] = reaches(a, b, c, l, s + e) ? f[e] : 0;
        store_pair(a.cb + cb_index(a, b, c, g) + (int64_t)l * a.Q + s, f, a.Q - s);
    });
}

/* ---- y: the sources, the state term; REV, dx: the destinations, the gradient of the next state ---- */

/* One tile of rows r0 .. r0 + 63 and columns from p0 on, of a head. */
template <typename A> struct row_tile {
    int     b, c, h, r0, p0, real;
    int64_t at, pairs; // of the head's steps, of C B^T
};

/* acc = (C B^T decays) x, REV its transpose times dy. Outside the tile of the diagonal all pairs of a row have the
 * pivot p: exp(cs_l - cs_s) is exp(cs_l - cs_p) exp(cs_p - cs_s), neither above 1. */
template <bool REV, typename A, typename V>
static __device__ __forceinline__ void multiply_pairs(float (&acc)[8][4], fma_tiles &t, const A &a,
                                                      const row_tile<A> &k, const V &v)
{
    const int    r0 = k.r0, real = k.real, beyond = r0 + SSD_TILE, p = REV ? beyond - 1 : r0;
    const float *cb = a.cb + k.pairs;
    if (!REV)
        multiply<A::SPLIT, true, false>(
            acc, t, r0,
            [&](float(&f)[4], int i, int s) { load_some(f, cb + (int64_t)(r0 + i) * a.Q + s, r0 + i < real ? 4 : 0); },
            [&](float(&f)[4], int j, int s) { v.across(f, s, k.p0 + j); },
            [&](int s) { return s < r0 ? decay_between(a, k.at, p, s) * a.step[k.at + s] : 0; });
    else
        multiply<A::SPLIT, false, false>(
            acc, t, real - beyond,
            [&](float(&f)[4], int i, int l) {
                load_across(f, cb + (int64_t)(beyond + l) * a.Q + r0 + i, a.Q, real - beyond - l);
            },
            [&](float(&f)[4], int j, int l) { v.across(f, beyond + l, k.p0 + j); },
            [&](int l) { return beyond + l < real ? decay_between(a, k.at, beyond + l, p) : 0; });
    if (REV ? beyond < real : r0 > 0)
        for_pairs(acc, [&](int i, int, float(&f)[2]) {
            const int   l = r0 + i;
            const float d = l >= real ? 0 : REV ? decay_between(a, k.at, p, l) : decay_between(a, k.at, l, p);
            for (int e = 0; e < 2; e++) f[e] *= d;
        });
    const int warp = (int)threadIdx.x / 32 * 16;
    multiply<A::SPLIT, !REV, false>(
        acc, t, min(SSD_TILE, real - r0),
        [&](float(&f)[4], int i, int j) {
            for (int e = 0; e < 4; e++) {
                const int l = r0 + (REV ? j + e : i), s = r0 + (REV ? i : j + e);
                f[e] = s > l || l >= real
                           ? 0
                           : cb[(int64_t)l * a.Q + s] * decay_between(a, k.at, l, s) * (REV ? 1 : a.step[k.at + s]);
            }
        },
        [&](float(&f)[4], int j, int s) { v.across(f, r0 + s, k.p0 + j); }, no_scale(),
        REV ? k_range{ warp, INT_MAX } : k_range{ 0, warp + 15 });
}

/* dD of a tile: sums over its rows of x dy. */
template <typename A, typename V, typename W>
static __device__ __forceinline__ void store_dD(const A &a, fma_tiles &t, const row_tile<A> &k, const V &x, const W &dy)
{
    const int column = (int)threadIdx.x % SSD_TILE, half = (int)threadIdx.x / SSD_TILE;
    float     sum = 0;
    for (int i = 0; i < SSD_TILE / 2; i++) {
        float     v[1], w[1];
        const int l = k.r0 + half * SSD_TILE / 2 + i;
        x.along(v, l, k.p0 + column);
        dy.along(w, l, k.p0 + column);
        sum = fmaf(v[0], w[0], sum);
    }
    __syncthreads();
    t.red[half][column] = sum;
    __syncthreads();
    sum = half == 0 ? sum + t.red[1][column] : 0;
    const int64_t part = ((int64_t)k.b * a.K + k.c) * a.xtiles + k.r0 / SSD_TILE;
    if (a.skip_cols > 1) {
        if (threadIdx.x < SSD_TILE && k.p0 + (int)threadIdx.x < a.P)
            a.dD[(part * a.H + k.h) * a.P + k.p0 + threadIdx.x] = sum;
        return;
    }
    const float all = block_sum<FMA_THREADS>(sum);
    if (threadIdx.x == 0) a.dD[(part * a.ptiles + k.p0 / SSD_TILE) * a.H + k.h] = all;
}

template <bool REV, typename A> static __device__ __forceinline__ void chunk_scan_fma(const A &a)
{
    typedef typename A::T T;
    __shared__ fma_tiles  t;
    unsigned              z = blockIdx.x;
    row_tile<A>           k;
    k.p0 = unravel_next(z, a.ptiles) * 64;
    k.h = unravel_next(z, a.H);
    k.r0 = unravel_next(z, a.tiles) * SSD_TILE;
    k.c = unravel_next(z, a.K);
    k.b = (int)z;
    k.real = min(a.Q, a.L - k.c * a.Q);
    k.at = steps_at(a, k.b, k.h, k.c);
    k.pairs = cb_index(a, k.b, k.c, k.h / a.J);
    const int     r0 = k.r0, p0 = k.p0;
    const int64_t l0 = (int64_t)k.c * a.Q;
    const auto    v = operand_of(REV ? a.dy : a.x, k.b, l0, k.h, k.real, a.P); // right operand of C B^T
    float         acc[8][4] = {}, dot[2] = {};
    multiply_pairs<REV>(acc, t, a, k, v);
    const auto            u = operand_of(REV ? a.bm : a.cm, k.b, l0, k.h / a.J, k.real, a.N);
    const typename A::ST *state = (REV ? a.dstates : a.states) + state_at(a, k.b, k.c, k.h);
    multiply<A::SPLIT, true, true>(
        acc, t, a.N,
        [&](float(&f)[4], int i, int n) {
            u.along(f, r0 + i, n);
            const float d = r0 + i < k.real ? (REV ? a.out : a.in)[k.at + r0 + i] : 0;
            for (int e = 0; e < 4; e++) f[e] *= d;
        },
        [&](float(&f)[4], int j, int n) { load_some(f, state + (p0 + j) * a.N + n, p0 + j < a.P ? a.N - n : 0); });
    const auto  w = operand_of(REV ? a.x : a.dy, k.b, l0, k.h, k.real, a.P);
    const float D1 = a.skip_cols == 1 ? a.skip[k.h] : 0;
#pragma unroll
    for (int n = 0; n < 8; n++) {
        const int p = p0 + column_of(n);
        float     D[2] = { D1, D1 };
        if (a.skip_cols > 1) load_some(D, a.skip + k.h * a.P + p, a.P - p);
#pragma unroll
        for (int r = 0; r < 2; r++) {
            const int   l = r0 + row_of(r);
            const float step = REV && l < k.real ? a.step[k.at + l] : 1;
            T          *to = (REV ? a.dx : a.y).row(k.b, l0 + l, k.h) + p;
            float       direct[2], other[2], f[2], before[2] = {};
            v.along(direct, l, p);
            if (REV) w.along(other, l, p);
            if (REV && a.adds[DX]) load_some(before, to, l < k.real ? a.P - p : 0);
            for (int e = 0; e < 2; e++) {
                f[e] = step * acc[n][2 * r + e] + D[e] * direct[e] + before[e];
                if (REV) dot[r] += acc[n][2 * r + e] * other[e];
            }
            if (l < k.real) store_pair(to, f, a.P - p);
        }
    }
    if constexpr (REV) {
        for (int r = 0; r < 2; r++) {
            const int l = r0 + row_of(r);
            dot[r] = row_sum(dot[r]);
            if (threadIdx.x % 4 == 0 && l < k.real) a.dstep[(int64_t)(p0 / 64) * a.B * a.H * a.KQ + k.at + l] = dot[r];
        }
        if (a.skip_cols) store_dD(a, t, k, w, v);
    }
}

template <typename A>
__global__ void __launch_bounds__(FMA_THREADS, SCAN_BLOCKS) chunk_scan_fwd_fma(const __grid_constant__ A a)
{
    chunk_scan_fma<false>(a);
}
template <typename A>
__global__ void __launch_bounds__(FMA_THREADS, SCAN_BLOCKS)
    chunk_scan_chunk_state_bwd_dx_fma(const __grid_constant__ A a)
{
    chunk_scan_fma<true>(a);
}

/* ---- contributions to dB and dC through the states, summed over the heads of a group; r and q of each head ---- */

template <bool OUTPUT, typename A> static __device__ __forceinline__ void sum_over_heads_fma(const A &a)
{
    __shared__ fma_tiles  t;
    __shared__ fma_totals totals;
    unsigned              z = blockIdx.x;
    const int             nt = unravel_next(z, a.ntiles), n0 = nt * 64, r0 = unravel_next(z, a.tiles) * SSD_TILE,
              g = unravel_next(z, a.G), c = unravel_next(z, a.K), b = (int)z;
    const int     real = min(a.Q, a.L - c * a.Q);
    const int64_t l0 = (int64_t)c * a.Q;
    const auto    m = operand_of(OUTPUT ? a.cm : a.bm, b, l0, g, real, a.N);
    totals.clear();
    for (int h = g * a.J; h < (g + 1) * a.J; h++) {
        const auto            u = operand_of(OUTPUT ? a.dy : a.x, b, l0, h, real, a.P);
        const int64_t         at = steps_at(a, b, h, c);
        const typename A::ST *state = (OUTPUT ? a.states : a.dstates) + state_at(a, b, c, h);
        float                 acc[8][4] = {};
        multiply<A::SPLIT, true, false>(
            acc, t, a.P, [&](float(&f)[4], int i, int p) { u.along(f, r0 + i, p); },
            [&](float(&f)[4], int j, int p) {
                load_across(f, state + p * a.N + n0 + j, a.N, n0 + j < a.N ? a.P - p : 0);
            });
        const int zero = unknown_zero();
        float     f[2], dot[2] = {};
        for (int r = 0; r < 2; r++) {
            const int l = r0 + row_of(r);
            f[r] = l >= real ? 0 : OUTPUT ? a.in[at + l] : a.step[at + l] * a.out[at + l];
        }
#pragma unroll
        for (int n = 0; n < 8; n++) {
#pragma unroll
            for (int r = 0; r < 2; r++) {
                float other[2];
                m.along(other, r0 + row_of(r) + zero, n0 + column_of(n) + zero);
                for (int e = 0; e < 2; e++) {
                    acc[n][2 * r + e] *= f[r];
                    dot[r] = fmaf(acc[n][2 * r + e], other[e], dot[r]);
                }
            }
            totals.add(n, acc[n]);
        }
        for (int r = 0; r < 2; r++) {
            const int   l = r0 + row_of(r);
            const float sum = row_sum(dot[r]);
            if (threadIdx.x % 4 == 0 && l < real) (OUTPUT ? a.q : a.r)[(int64_t)nt * a.B * a.H * a.KQ + at + l] = sum;
        }
    }
    float *to = (OUTPUT ? a.dcs : a.dbs) + ((int64_t)b * a.KQ + l0 + r0) * a.G * a.N;
    totals.for_each([&](int i, int j, float(&f)[2]) {
        if (r0 + i < real) store_pair(to + ((int64_t)i * a.G + g) * a.N + n0 + j, f, a.N - n0 - j);
    });
}

template <typename A>
__global__ void __launch_bounds__(FMA_THREADS, 2) chunk_state_bwd_db_fma(const __grid_constant__ A a)
{
    sum_over_heads_fma<false>(a);
}
template <typename A>
__global__ void __launch_bounds__(FMA_THREADS, 2) chunk_scan_bwd_dc_fma(const __grid_constant__ A a)
{
    sum_over_heads_fma<true>(a);
}

/* ---- the gradient of C B^T, summed over the heads of a group; row and column sums of M of each head ---- */

/* Decays of the pairs of one head and a tile: below the diagonal from a pivot, as in multiply_pairs. */
template <typename A> struct pair_decays {
    const A                   &a;
    int64_t                    at;
    int                        l0, s0, real;
    float                      row[2], column[2]; // columns 2 lane and + 1
    __device__ __forceinline__ pair_decays(const A &task, int64_t first, int rows, int columns, int end)
        : a(task), at(first), l0(rows), s0(columns), real(end)
    {
        if (l0 == s0) return;
        for (int r = 0; r < 2; r++) row[r] = l0 + row_of(r) < real ? decay_between(a, at, l0 + row_of(r), l0) : 0;
        for (int c = 0; c < 2; c++) {
            const int s = s0 + 2 * (int)(threadIdx.x & 31) + c;
            column[c] = l0 < real ? decay_between(a, at, l0, s) * a.step[at + s] : 0;
        }
    }
    /* Of two columns; all lanes call it. */
    __device__ __forceinline__ void columns(float (&f)[2], int n) const
    {
        for (int c = 0; c < 2 && l0 > s0; c++)
            f[c] = __shfl_sync(0xffffffffu, column[c], 4 * n + (int)(threadIdx.x & 3));
    }
    /* Of the same in row r, with dt. */
    __device__ __forceinline__ void of(float (&d)[2], const float (&f)[2], int r, int n) const
    {
        const int l = l0 + row_of(r), s = s0 + column_of(n);
        for (int c = 0; c < 2; c++)
            if (l0 > s0) d[c] = row[r] * f[c];
            else d[c] = l >= real || s + c > l ? 0 : decay_between(a, at, l, s + c) * a.step[at + s + c];
    }
};

template <typename A>
__global__ void __launch_bounds__(FMA_THREADS, 2) chunk_scan_bwd_dcb_fma(const __grid_constant__ A a)
{
    __shared__ fma_tiles  t;
    __shared__ fma_totals totals;
    unsigned              z = blockIdx.x;
    const int tile = unravel_next(z, a.tiles * (a.tiles + 1) / 2), g = unravel_next(z, a.G), c = unravel_next(z, a.K),
              b = (int)z;
    int li, sj;
    tile_of(tile, li, sj);
    const int     real = min(a.Q, a.L - c * a.Q), l0 = li * SSD_TILE, s0 = sj * SSD_TILE;
    const int64_t first = (int64_t)c * a.Q, pairs = cb_index(a, b, c, g), all = (int64_t)a.B * a.H * a.KQ;
    totals.clear();
    for (int h = g * a.J; h < (g + 1) * a.J; h++) {
        const auto           u = operand_of(a.dy, b, first, h, real, a.P), v = operand_of(a.x, b, first, h, real, a.P);
        const int64_t        at = steps_at(a, b, h, c);
        const pair_decays<A> decays(a, at, l0, s0, real);
        float                acc[8][4] = {}, cols[8][2] = {}, rows[2] = {};
        multiply<A::SPLIT, true, true>(
            acc, t, a.P, [&](float(&f)[4], int i, int p) { u.along(f, l0 + i, p); },
            [&](float(&f)[4], int j, int p) { v.along(f, s0 + j, p); });
        const int zero = unknown_zero();
#pragma unroll
        for (int n = 0; n < 8; n++) {
            const int s = s0 + column_of(n) + zero;
            float     of_columns[2];
            decays.columns(of_columns, n);
#pragma unroll
            for (int r = 0; r < 2; r++) {
                const int l = l0 + row_of(r);
                float     d[2], cb[2];
                decays.of(d, of_columns, r, n);
                load_some(cb, a.cb + pairs + (int64_t)l * a.Q + s, l < real ? a.Q - s : 0);
                for (int e = 0; e < 2; e++) {
                    d[e] *= acc[n][2 * r + e];
                    const float M = s + e < l ? d[e] * cb[e] : 0;
                    acc[n][2 * r + e] = d[e];
                    rows[r] += M;
                    cols[n][e] += M;
                }
            }
            totals.add(n, acc[n]);
        }
        for (int r = 0; r < 2; r++) {
            const int   l = l0 + row_of(r);
            const float row = row_sum(rows[r]);
            if (threadIdx.x % 4 == 0 && l < real) a.rowsum[sj * all + at + l] = row;
        }
        const float col = column_sum(t, cols);
        if (threadIdx.x < SSD_TILE && s0 + (int)threadIdx.x < real) a.colsum[li * all + at + s0 + threadIdx.x] = col;
    }
    totals.for_each([&](int i, int j, float(&f)[2]) {
        const int l = l0 + i, s = s0 + j;
        if (l >= a.Q) return;
        for (int e = 0; e < 2; e++)
            if (!reaches(a, b, c, l, s + e)) f[e] = 0;
        store_pair(a.dcb + pairs + (int64_t)l * a.Q + s, f, a.Q - s);
    });
}

/* ---- dB and dC: contributions through the states plus those through C B^T ---- */

template <bool OUTPUT, typename A>
__global__ void __launch_bounds__(FMA_THREADS, 3) bmm_chunk_bwd_fma(const __grid_constant__ A a)
{
    typedef typename A::T T;
    __shared__ fma_tiles  t;
    unsigned              z = blockIdx.x;
    const int n0 = unravel_next(z, a.ntiles) * 64, r0 = unravel_next(z, a.tiles) * SSD_TILE, g = unravel_next(z, a.G),
              c = unravel_next(z, a.K), b = (int)z;
    const int     real = min(a.Q, a.L - c * a.Q);
    const int64_t l0 = (int64_t)c * a.Q, pairs = cb_index(a, b, c, g);
    const auto    v = operand_of(OUTPUT ? a.bm : a.cm, b, l0, g, real, a.N);
    const float  *dcb = a.dcb + pairs;
    float         acc[8][4] = {};
    if (OUTPUT)
        multiply<A::SPLIT, true, false>(
            acc, t, min(r0 + SSD_TILE, real),
            [&](float(&f)[4], int i, int s) {
                const int l = r0 + i;
                load_some(f, dcb + (int64_t)l * a.Q + s, l < real ? l + 1 - s : 0);
            },
            [&](float(&f)[4], int j, int s) { v.across(f, s, n0 + j); });
    else
        multiply<A::SPLIT, false, false>(
            acc, t, real - r0,
            [&](float(&f)[4], int i, int k) {
                for (int e = 0; e < 4; e++)
                    f[e] = i <= k + e && r0 + k + e < real ? dcb[(int64_t)(r0 + k + e) * a.Q + r0 + i] : 0;
            },
            [&](float(&f)[4], int j, int k) { v.across(f, r0 + k, n0 + j); });
    for_pairs(acc, [&](int i, int j, float(&f)[2]) {
        const int l = r0 + i, n = n0 + j;
        if (l >= real) return;
        const float *more = (OUTPUT ? a.dcs : a.dbs) + (((int64_t)b * a.KQ + l0 + l) * a.G + g) * a.N + n;
        T           *to = (OUTPUT ? a.dcm : a.dbm).row(b, l0 + l, g) + n;
        for (int e = 0; e < 2; e++)
            if (n + e < a.N) f[e] += more[e] + (a.adds[OUTPUT ? DCM : DBM] ? to_float(to[e]) : 0);
        store_pair(to, f, a.N - n);
    });
}

#endif
