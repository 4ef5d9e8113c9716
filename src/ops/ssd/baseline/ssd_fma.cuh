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
 * launch     one tile of 64 x 64 per block of four warps; three stages of 16 k in shared memory, by cp.async
 * resources  sm_90a, CUDA 13.0: 92 to 162 registers, 28672 to 45056 B of shared memory, no spill  [docs]
 * moves      every operand once per tile that needs it, from L2: DRAM, tensor cores at most 38 % busy
 * measured   not yet  [docs]
 * order      fixed: k and heads in ascending order, partial sums in order */
#ifndef MBA_SSD_FMA_CUH
#define MBA_SSD_FMA_CUH

#include "ops/ssd/baseline/ssd_fma_product.cuh"

/* Blocks per SM of the split products with decays, whose registers are short. */
#if defined __CUDA_ARCH__ && __CUDA_ARCH__ >= 1000
enum { SCAN_BLOCKS = 2 }; // with three the compiler spills 24 bytes
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
template <typename A> static __device__ __forceinline__ operand<float> state_of(const A &a, const float *states)
{
    return { states, a.N, a.P, a.N };
}
template <typename A> static __device__ __forceinline__ int64_t cb_index(const A &a, int b, int c, int g)
{
    return (((int64_t)b * a.K + c) * a.G + g) * a.Q * a.Q;
}

/* A cumulative logarithm, of base 2, as a sum of two: the difference of two is exact to 2^-24 of itself. */
static __device__ __forceinline__ float2 log_of(double cs)
{
    const double log2 = cs * 1.4426950408889634;
    const float  high = (float)log2;
    return make_float2(high, (float)(log2 - high));
}
static __device__ __forceinline__ float decay_between(float2 l, float high, float low)
{
    return fast_exp2((l.x - high) + (l.y - low));
}

/* ---- states: (P, N) = sum over a chunk of x (dt out) B^T, or of dy in C^T ---- */

template <bool OUTPUT, typename A> static __device__ __forceinline__ void chunk_sum_fma(const A &a)
{
    __shared__ fma_tiles t;
    unsigned             z = blockIdx.x;
    const int            n0 = unravel_next(z, (a.N + 63) / 64) * 64, p0 = unravel_next(z, (a.P + 63) / 64) * 64,
              h = unravel_next(z, a.H), c = unravel_next(z, a.K), b = (int)z;
    const int     real = min(a.Q, a.L - c * a.Q);
    const int64_t at = steps_at(a, b, h, c);
    const auto    u = operand_of(OUTPUT ? a.dy : a.x, b, (int64_t)c * a.Q, h, real, a.P);
    const auto    v = operand_of(OUTPUT ? a.cm : a.bm, b, (int64_t)c * a.Q, h / a.J, real, a.N);
    float         acc[8][4] = {};
    const auto    copy = [&](float *to, int step) {
        copy_part<false>(to, u, FMA_K * step, p0);
        copy_part<false>(to + FMA_PART, v, FMA_K * step, n0);
    };
    auto steps = stream_of(t, fma_steps(real), copy);
    for (int first = 0; first < real; first += FMA_TABLE) {
        if (first > 0) __syncthreads();
        for (int i = (int)threadIdx.x; i < FMA_TABLE; i += FMA_THREADS) {
            const int l = first + i;
            t.factor[i] = l >= real ? 0 : OUTPUT ? a.in[at + l] : a.step[at + l] * a.out[at + l];
        }
        multiply<A::SPLIT, false, false>(acc, steps, min(FMA_TABLE, real - first), [&](float(&f)[2][4], int k) {
            float factor[4];
            load(factor, t.factor + k);
            for (int e = 0; e < 4; e++) f[0][e] *= factor[e], f[1][e] *= factor[e];
        });
    }
    typename A::ST *to = (OUTPUT ? a.dstates : a.states) + state_at(a, b, c, h);
    for_quads(acc, [&](int quad, int r, float(&f)[4]) {
        const int p = p0 + row_of(r), n = n0 + column_of(quad);
        if (p < a.P) store_quad(to + p * a.N + n, f, a.N - n);
    });
}

template <typename A>
__global__ void __launch_bounds__(FMA_THREADS, A::SPLIT ? 3 : 4) chunk_state_fwd_fma(const __grid_constant__ A a)
{
    chunk_sum_fma<false>(a);
}
template <typename A>
__global__ void __launch_bounds__(FMA_THREADS, A::SPLIT ? 3 : 4) chunk_scan_bwd_dstates_fma(const __grid_constant__ A a)
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

template <typename A> __global__ void __launch_bounds__(FMA_THREADS, 4) bmm_chunk_fwd_fma(const __grid_constant__ A a)
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
    float      acc[8][4] = {};
    const auto copy = [&](float *to, int step) {
        copy_part<true>(to, u, l0, FMA_K * step);
        copy_part<true>(to + FMA_PART, v, s0, FMA_K * step);
    };
    auto steps = stream_of(t, fma_steps(a.N), copy);
    multiply<A::SPLIT, true, true>(acc, steps, a.N);
    for_quads(acc, [&](int quad, int r, float(&f)[4]) {
        const int l = l0 + row_of(r), s = s0 + column_of(quad);
        if (l >= a.Q) return;
        for (int e = 0; e < 4; e++) f[e] = reaches(a, b, c, l, s + e) ? f[e] : 0;
        store_quad(a.cb + cb_index(a, b, c, g) + (int64_t)l * a.Q + s, f, a.Q - s);
    });
}

/* ---- y: the sources, the state term; REV, dx: the destinations, the gradient of the next state ---- */

/* One tile of rows r0 .. r0 + 63 and columns from p0 on, of a head. */
template <typename A> struct row_tile {
    int     b, c, h, r0, p0, real;
    int64_t at, pairs; // of the head's steps, of C B^T
};

/* acc += (C B^T decays) x, REV its transpose times dy, of the next steps. */
template <bool REV, typename A, typename F>
static __device__ __forceinline__ void multiply_pairs(float (&acc)[8][4], fma_tiles &t, const A &a,
                                                      const row_tile<A> &k, fma_stream<F> &steps)
{
    const int begin = REV ? k.r0 : 0, K = (REV ? k.real : min(k.r0 + SSD_TILE, k.real)) - begin,
              warp = k.r0 - begin + (int)threadIdx.x / 32 * 16;
    float2 own[2];
    for (int r = 0; r < 2; r++) own[r] = log_of(a.cs[k.at + min(k.r0 + row_of(r), k.real - 1)]);
    for (int first = 0; first < K; first += FMA_TABLE) {
        if (first > 0) __syncthreads();
        for (int i = (int)threadIdx.x; i < FMA_TABLE; i += FMA_THREADS) {
            const int64_t at = k.at + begin + first + i;
            const bool    in = first + i < K;
            const float2  log = in ? log_of(a.cs[at]) : make_float2(REV ? -INFINITY : 0, 0); // REV: a decay of zero
            t.high[i] = log.x;
            t.low[i] = log.y;
            if (!REV) t.factor[i] = in ? a.step[at] : 0;
        }
        const auto decay = [&](float(&f)[2][4], int i) {
            float high[4], low[4], factor[4];
            load(high, t.high + i);
            load(low, t.low + i);
            if (!REV) load(factor, t.factor + i);
            for (int r = 0; r < 2; r++)
                for (int e = 0; e < 4; e++) {
                    const int ahead = first + i + e - (k.r0 - begin) - row_of(r); // of the row
                    f[r][e] *= REV ? decay_between(make_float2(high[e], low[e]), own[r].x, own[r].y)
                                   : decay_between(own[r], high[e], low[e]) * factor[e];
                    if (REV ? ahead < 0 : ahead > 0) f[r][e] = 0;
                }
        };
        multiply<A::SPLIT, !REV, false>(acc, steps, min(FMA_TABLE, K - first), decay,
                                        REV ? k_range{ warp - first, INT_MAX } : k_range{ 0, warp + 15 - first });
    }
}

/* dD of a tile: sums over its rows of x dy. */
template <typename A>
static __device__ __forceinline__ void store_dD(const A &a, fma_tiles &t, const row_tile<A> &k, float (&products)[4][4])
{
    const float   sum = column_sum(t, products);
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
    const int            r0 = k.r0, p0 = k.p0, of_state = fma_steps(a.N);
    const int64_t        l0 = (int64_t)k.c * a.Q;
    const auto           v = operand_of(REV ? a.dy : a.x, k.b, l0, k.h, k.real, a.P); // right operand of C B^T
    const auto           u = operand_of(REV ? a.bm : a.cm, k.b, l0, k.h / a.J, k.real, a.N);
    const auto           state = state_of(a, (REV ? a.dstates : a.states) + state_at(a, k.b, k.c, k.h));
    const operand<float> cb = { a.cb + k.pairs, a.Q, k.real, a.Q };
    const auto           copy = [&](float *to, int step) {
        const int first = FMA_K * (step - of_state) + (REV ? r0 : 0);
        if (step < of_state) {
            copy_part<true>(to, u, r0, FMA_K * step);
            copy_part<true>(to + FMA_PART, state, p0, FMA_K * step);
        } else {
            if (REV) copy_part<false>(to, cb, first, r0);
            else copy_part<true>(to, cb, r0, first);
            copy_part<false>(to + FMA_PART, v, first, p0);
        }
    };
    auto  steps = stream_of(t, of_state + fma_steps(REV ? k.real - r0 : min(r0 + SSD_TILE, k.real)), copy);
    float acc[8][4] = {}, products[4][4] = {}, dot[2] = {}, step[2];
    multiply<A::SPLIT, true, true>(acc, steps, a.N);
    for_quads(acc, [&](int, int r, float(&f)[4]) {
        const int   l = r0 + row_of(r);
        const float d = l < k.real ? (REV ? a.out : a.in)[k.at + l] : 0;
        for (int e = 0; e < 4; e++) f[e] *= d;
    });
    multiply_pairs<REV>(acc, t, a, k, steps);
    const auto  w = operand_of(REV ? a.x : a.dy, k.b, l0, k.h, k.real, a.P);
    const float D1 = a.skip_cols == 1 ? a.skip[k.h] : 0;
    for (int r = 0; r < 2; r++) step[r] = REV && r0 + row_of(r) < k.real ? a.step[k.at + r0 + row_of(r)] : 1;
    for_quads(acc, [&](int quad, int r, float(&f)[4]) {
        const int l = r0 + row_of(r), p = p0 + column_of(quad);
        T        *to = (REV ? a.dx : a.y).row(k.b, l0 + l, k.h) + p;
        float     direct[4], other[4], D[4] = { D1, D1, D1, D1 }, before[4] = {};
        v.along(direct, l, p);
        if (REV) w.along(other, l, p);
        if (a.skip_cols > 1) load_some(D, a.skip + k.h * a.P + p, a.P - p);
        if (REV && a.adds[DX]) load_some(before, to, l < k.real ? a.P - p : 0);
        for (int e = 0; e < 4; e++) {
            if (REV) dot[r] += f[e] * other[e];
            if (REV) products[quad][e] = fmaf(direct[e], other[e], products[quad][e]);
            f[e] = step[r] * f[e] + D[e] * direct[e] + before[e];
        }
        if (l < k.real) store_quad(to, f, a.P - p);
    });
    if constexpr (REV) {
        for (int r = 0; r < 2; r++) {
            const int l = r0 + row_of(r);
            dot[r] = row_sum(dot[r]);
            if (threadIdx.x % 4 == 0 && l < k.real) a.dstep[(int64_t)(p0 / 64) * a.B * a.H * a.KQ + k.at + l] = dot[r];
        }
        if (a.skip_cols) store_dD(a, t, k, products);
    }
}

template <typename A>
__global__ void __launch_bounds__(FMA_THREADS, A::SPLIT ? SCAN_BLOCKS : 4)
    chunk_scan_fwd_fma(const __grid_constant__ A a)
{
    chunk_scan_fma<false>(a);
}
template <typename A>
__global__ void __launch_bounds__(FMA_THREADS, A::SPLIT ? SCAN_BLOCKS : 4)
    chunk_scan_chunk_state_bwd_dx_fma(const __grid_constant__ A a)
{
    chunk_scan_fma<true>(a);
}

/* ---- contributions to dB and dC through the states, summed over the heads of a group; r and q of each head ---- */

/* The step of a stream over the P of heads from `h` on. */
struct head_step {
    int                             h, p;
    __device__ __forceinline__ void advance(int P)
    {
        p += FMA_K;
        if (p >= P) h++, p = 0;
    }
};

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
    head_step     next = { g * a.J, 0 };
    const auto    copy = [&](float *to, int) {
        copy_part<true>(to, operand_of(OUTPUT ? a.dy : a.x, b, l0, next.h, real, a.P), r0, next.p);
        copy_part<false>(to + FMA_PART, state_of(a, (OUTPUT ? a.states : a.dstates) + state_at(a, b, c, next.h)),
                         next.p, n0);
        next.advance(a.P);
    };
    auto steps = stream_of(t, a.J * fma_steps(a.P), copy);
    totals.clear();
    for (int h = g * a.J; h < (g + 1) * a.J; h++) {
        const int64_t at = steps_at(a, b, h, c);
        float         acc[8][4] = {}, factor[2], dot[2] = {};
        multiply<A::SPLIT, true, false>(acc, steps, a.P);
        const int zero = unknown_zero();
        for (int r = 0; r < 2; r++) {
            const int l = r0 + row_of(r);
            factor[r] = l >= real ? 0 : OUTPUT ? a.in[at + l] : a.step[at + l] * a.out[at + l];
        }
        for_quads(acc, [&](int quad, int r, float(&f)[4]) {
            float other[4];
            m.along(other, r0 + row_of(r) + zero, n0 + column_of(quad) + zero);
            for (int e = 0; e < 4; e++) {
                f[e] *= factor[r];
                dot[r] = fmaf(f[e], other[e], dot[r]);
            }
            totals.add(quad, r, f);
        });
        for (int r = 0; r < 2; r++) {
            const int   l = r0 + row_of(r);
            const float sum = row_sum(dot[r]);
            if (threadIdx.x % 4 == 0 && l < real) (OUTPUT ? a.q : a.r)[(int64_t)nt * a.B * a.H * a.KQ + at + l] = sum;
        }
    }
    float *to = (OUTPUT ? a.dcs : a.dbs) + ((int64_t)b * a.KQ + l0 + r0) * a.G * a.N;
    totals.for_each([&](int quad, int r, float(&f)[4]) {
        const int i = row_of(r), n = n0 + column_of(quad);
        if (r0 + i < real) store_quad(to + ((int64_t)i * a.G + g) * a.N + n, f, a.N - n);
    });
}

template <typename A>
__global__ void __launch_bounds__(FMA_THREADS, 4) chunk_state_bwd_db_fma(const __grid_constant__ A a)
{
    sum_over_heads_fma<false>(a);
}
template <typename A>
__global__ void __launch_bounds__(FMA_THREADS, 4) chunk_scan_bwd_dc_fma(const __grid_constant__ A a)
{
    sum_over_heads_fma<true>(a);
}

/* ---- the gradient of C B^T, summed over the heads of a group; row and column sums of M of each head ---- */

template <typename A>
__global__ void __launch_bounds__(FMA_THREADS, 4) chunk_scan_bwd_dcb_fma(const __grid_constant__ A a)
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
    head_step     next = { g * a.J, 0 };
    const auto    copy = [&](float *to, int) {
        copy_part<true>(to, operand_of(a.dy, b, first, next.h, real, a.P), l0, next.p);
        copy_part<true>(to + FMA_PART, operand_of(a.x, b, first, next.h, real, a.P), s0, next.p);
        next.advance(a.P);
    };
    auto steps = stream_of(t, a.J * fma_steps(a.P), copy);
    totals.clear();
    for (int h = g * a.J; h < (g + 1) * a.J; h++) {
        const int64_t at = steps_at(a, b, h, c);
        const int     table = h % 2 * SSD_TILE; // some warps still read that of the head before
        float         acc[8][4] = {}, columns[4][4] = {}, rows[2] = {};
        float2        own[2];
        if (threadIdx.x < SSD_TILE) {
            const int    s = min(s0 + (int)threadIdx.x, real - 1);
            const float2 log = log_of(a.cs[at + s]);
            t.high[table + threadIdx.x] = log.x;
            t.low[table + threadIdx.x] = log.y;
            t.factor[table + threadIdx.x] = a.step[at + s];
        }
        multiply<A::SPLIT, true, true>(acc, steps, a.P);
        for (int r = 0; r < 2; r++) own[r] = log_of(a.cs[at + min(l0 + row_of(r), real - 1)]);
        const int zero = unknown_zero();
        for_quads(acc, [&](int quad, int r, float(&f)[4]) {
            const int l = l0 + row_of(r), i = column_of(quad), s = s0 + i;
            float     high[4], low[4], factor[4], cb[4];
            load(high, t.high + table + i);
            load(low, t.low + table + i);
            load(factor, t.factor + table + i);
            load_some(cb, a.cb + pairs + (int64_t)l * a.Q + s + zero, l < real ? a.Q - s : 0);
            for (int e = 0; e < 4; e++) {
                f[e] = l >= real || s + e > l ? 0 : f[e] * decay_between(own[r], high[e], low[e]) * factor[e];
                const float M = s + e < l ? f[e] * cb[e] : 0;
                rows[r] += M;
                columns[quad][e] += M;
            }
            totals.add(quad, r, f);
        });
        for (int r = 0; r < 2; r++) {
            const int   l = l0 + row_of(r);
            const float row = row_sum(rows[r]);
            if (threadIdx.x % 4 == 0 && l < real) a.rowsum[sj * all + at + l] = row;
        }
        const float col = column_sum(t, columns);
        if (threadIdx.x < SSD_TILE && s0 + (int)threadIdx.x < real) a.colsum[li * all + at + s0 + threadIdx.x] = col;
    }
    totals.for_each([&](int quad, int r, float(&f)[4]) {
        const int l = l0 + row_of(r), s = s0 + column_of(quad);
        if (l >= a.Q) return;
        for (int e = 0; e < 4; e++)
            if (!reaches(a, b, c, l, s + e)) f[e] = 0;
        store_quad(a.dcb + pairs + (int64_t)l * a.Q + s, f, a.Q - s);
    });
}

/* ---- dB and dC: contributions through the states plus those through C B^T ---- */

template <bool OUTPUT, typename A>
__global__ void __launch_bounds__(FMA_THREADS, A::SPLIT ? 3 : 4) bmm_chunk_bwd_fma(const __grid_constant__ A a)
{
    typedef typename A::T T;
    __shared__ fma_tiles  t;
    unsigned              z = blockIdx.x;
    const int n0 = unravel_next(z, a.ntiles) * 64, r0 = unravel_next(z, a.tiles) * SSD_TILE, g = unravel_next(z, a.G),
              c = unravel_next(z, a.K), b = (int)z;
    const int            real = min(a.Q, a.L - c * a.Q), begin = OUTPUT ? 0 : r0;
    const int            K = (OUTPUT ? min(r0 + SSD_TILE, real) : real) - begin;
    const int64_t        l0 = (int64_t)c * a.Q;
    const auto           v = operand_of(OUTPUT ? a.bm : a.cm, b, l0, g, real, a.N);
    const operand<float> dcb = { a.dcb + cb_index(a, b, c, g), a.Q, real, a.Q };
    float                acc[8][4] = {};
    const auto           copy = [&](float *to, int step) {
        if (OUTPUT) copy_part<true>(to, dcb, r0, FMA_K * step);
        else copy_part<false>(to, dcb, begin + FMA_K * step, r0);
        copy_part<false>(to + FMA_PART, v, begin + FMA_K * step, n0);
    };
    auto steps = stream_of(t, fma_steps(K), copy);
    multiply<A::SPLIT, OUTPUT, false>(acc, steps, K);
    for_quads(acc, [&](int quad, int r, float(&f)[4]) {
        const int l = r0 + row_of(r), n = n0 + column_of(quad);
        if (l >= real) return;
        float more[4], before[4] = {};
        T    *to = (OUTPUT ? a.dcm : a.dbm).row(b, l0 + l, g) + n;
        load_some(more, (OUTPUT ? a.dcs : a.dbs) + (((int64_t)b * a.KQ + l0 + l) * a.G + g) * a.N + n, a.N - n);
        if (a.adds[OUTPUT ? DCM : DBM]) load_some(before, to, a.N - n);
        for (int e = 0; e < 4; e++) f[e] += more[e] + before[e];
        store_quad(to, f, a.N - n);
    });
}

#endif
