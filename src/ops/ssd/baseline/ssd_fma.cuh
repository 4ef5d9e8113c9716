// SPDX-License-Identifier: Apache-2.0
/* ssd_fma.cuh -- variant `fma` of ssd: the products in fp32 tiles without tensor cores, for any size, any chunk, fp32
 * or bf16. It is slow and takes everything that the other variants refuse. The kernels correspond to those of
 * ssd_mma*.cuh; the vector kernels between them are in ssd_steps.cuh, the launchers in ssd_cuda.cu.
 *
 * kernel     chunk_state_fwd_fma, chunk_scan_bwd_dstates_fma, bmm_chunk_fwd_fma, chunk_scan_fwd_fma,
 *            chunk_scan_chunk_state_bwd_dx_fma, chunk_state_bwd_db_fma, chunk_scan_bwd_dc_fma, chunk_scan_bwd_dcb_fma,
 *            bmm_chunk_bwd_fma
 * takes      everything
 * launch     one tile of 64 x 64 per block of 256 threads; shared memory holds 16 steps of k, 8.5 KB
 * resources  sm_90a, CUDA 13.0: 71 to 163 registers, 9216 to 13312 B of shared memory, no spill  [docs]
 * moves      every operand once per tile that needs it: bound by shared memory
 * measured   not yet  [docs]
 * order      fixed: k and heads in ascending order, partial sums in order */
#ifndef MBA_SSD_FMA_CUH
#define MBA_SSD_FMA_CUH

#include "ops/ssd/ssd_task.cuh"

enum { FMA_K = 16, FMA_LD = SSD_TILE + 4 };
struct fma_tiles {
    float a[FMA_K][FMA_LD], b[FMA_K][FMA_LD];
};

/* acc += A B for the tile; thread (y, x) owns rows 4y .. 4y + 3 and columns 4x .. 4x + 3. a(i, k) and b(k, j) return
 * the operands, zero out of range. AK, BK: k is the contiguous axis of A, of B. */
template <bool AK, bool BK, typename FA, typename FB>
static __device__ __forceinline__ void multiply(float (&acc)[4][4], fma_tiles &s, int K, const FA &a, const FB &b)
{
    const int tid = threadIdx.x, y = tid / 16 * 4, x = tid % 16 * 4;
    for (int k0 = 0; k0 < K; k0 += FMA_K) {
        __syncthreads();
#pragma unroll 1
        for (int e = tid; e < FMA_K * SSD_TILE; e += 256) {
            const int ka = AK ? e % FMA_K : e / SSD_TILE, i = AK ? e / FMA_K : e % SSD_TILE;
            const int kb = BK ? e % FMA_K : e / SSD_TILE, j = BK ? e / FMA_K : e % SSD_TILE;
            s.a[ka][i] = k0 + ka < K ? a(i, k0 + ka) : 0;
            s.b[kb][j] = k0 + kb < K ? b(k0 + kb, j) : 0;
        }
        __syncthreads();
#pragma unroll
        for (int k = 0; k < FMA_K; k++) {
            const float4 u = *(const float4 *)&s.a[k][y], v = *(const float4 *)&s.b[k][x];
            const float  p[4] = { u.x, u.y, u.z, u.w }, q[4] = { v.x, v.y, v.z, v.w };
#pragma unroll
            for (int i = 0; i < 4; i++)
#pragma unroll
                for (int j = 0; j < 4; j++) acc[i][j] = fmaf(p[i], q[j], acc[i][j]);
        }
    }
}

/* Sum over the sixteen threads that share a row; all of them get it. */
static __device__ __forceinline__ float row_sum(float x)
{
#pragma unroll
    for (int d = 8; d; d >>= 1) x += __shfl_xor_sync(0xffffffffu, x, d);
    return x;
}

/* Column sums over the block: thread j < 64 gets column j. Consecutive calls need no barrier between them. */
static __device__ __forceinline__ float column_sum(float (&red)[16][SSD_TILE], const float (&v)[4])
{
    const int y = threadIdx.x / 16, x = threadIdx.x % 16 * 4;
    float     sum = 0;
    __syncthreads();
#pragma unroll
    for (int j = 0; j < 4; j++) red[y][x + j] = v[j];
    __syncthreads();
    if (threadIdx.x < SSD_TILE)
        for (int i = 0; i < 16; i++) sum += red[i][threadIdx.x];
    return sum;
}

/* Element (l, i) of a strided view in fp32; zero from row `real` and column `width` on. */
template <typename T> struct operand {
    const T                         *at;
    int64_t                          step;
    int                              real, width;
    __device__ __forceinline__ float operator()(int l, int i) const
    {
        return l < real && i < width ? to_float(at[l * step + i]) : 0;
    }
};
template <typename T>
static __device__ __forceinline__ operand<T> operand_of(const strided<const T> &w, int b, int64_t l, int h, int real,
                                                        int width)
{
    const operand<T> o = { w.at ? w.row(b, l, h) : NULL, w.axis[1], w.at ? real : 0, width };
    return o;
}

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
    float         acc[4][4] = {};
    multiply<false, false>(
        acc, s, real,
        [&](int i, int l) { return u(l, p0 + i) * (OUTPUT ? a.in[at + l] : a.step[at + l] * a.out[at + l]); },
        [&](int l, int j) { return v(l, n0 + j); });
    typename A::ST *to = (OUTPUT ? a.dstates : a.states) + state_at(a, b, c, h);
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++) {
            const int p = p0 + (int)threadIdx.x / 16 * 4 + i, n = n0 + (int)threadIdx.x % 16 * 4 + j;
            if (p < a.P && n < a.N) to[p * a.N + n] = acc[i][j];
        }
}

template <typename A> __global__ void __launch_bounds__(256, 1) chunk_state_fwd_fma(const __grid_constant__ A a)
{
    chunk_sum_fma<false>(a);
}
template <typename A> __global__ void __launch_bounds__(256, 1) chunk_scan_bwd_dstates_fma(const __grid_constant__ A a)
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

template <typename A> __global__ void __launch_bounds__(256, 1) bmm_chunk_fwd_fma(const __grid_constant__ A a)
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
    float acc[4][4] = {};
    multiply<true, true>(
        acc, t, a.N, [&](int i, int k) { return u(l0 + i, k); }, [&](int k, int j) { return v(s0 + j, k); });
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++) {
            const int l = l0 + (int)threadIdx.x / 16 * 4 + i, s = s0 + (int)threadIdx.x % 16 * 4 + j;
            if (l < a.Q && s < a.Q)
                a.cb[cb_index(a, b, c, g) + (int64_t)l * a.Q + s] = reaches(a, b, c, l, s) ? acc[i][j] : 0;
        }
}

/* ---- y: the state term, then the sources; REV, dx: the gradient of the next state, then the destinations ---- */

template <bool REV, typename A> static __device__ __forceinline__ void chunk_scan_fma(const A &a)
{
    typedef typename A::T T;
    __shared__ fma_tiles  t;
    __shared__ float      red[16][SSD_TILE];
    unsigned              z = blockIdx.x;
    const int             p0 = unravel_next(z, a.ptiles) * 64, h = unravel_next(z, a.H), rt = unravel_next(z, a.tiles),
              c = unravel_next(z, a.K), b = (int)z, r0 = rt * SSD_TILE;
    const int             real = min(a.Q, a.L - c * a.Q), y = (int)threadIdx.x / 16 * 4, x = (int)threadIdx.x % 16 * 4;
    const int64_t         l0 = (int64_t)c * a.Q, at = steps_at(a, b, h, c), pairs = cb_index(a, b, c, h / a.J);
    const auto            u = operand_of(REV ? a.bm : a.cm, b, l0, h / a.J, real, a.N);
    const auto            v = operand_of(REV ? a.dy : a.x, b, l0, h, real, a.P); // right operand of C B^T
    const auto            w = operand_of(REV ? a.x : a.dy, b, l0, h, real, a.P);
    const typename A::ST *state = (REV ? a.dstates : a.states) + state_at(a, b, c, h);
    float                 acc[4][4] = {};
    multiply<true, true>(
        acc, t, a.N, [&](int i, int n) { return u(r0 + i, n); },
        [&](int n, int j) { return p0 + j < a.P ? state[(p0 + j) * a.N + n] : 0; });
    for (int i = 0; i < 4; i++) {
        const float f = r0 + y + i < real ? (REV ? a.out : a.in)[at + r0 + y + i] : 0;
        for (int j = 0; j < 4; j++) acc[i][j] *= f;
    }
    if (!REV)
        multiply<true, false>(
            acc, t, min(r0 + SSD_TILE, real),
            [&](int i, int s) {
                const int l = r0 + i;
                return s <= l && l < real
                           ? a.cb[pairs + (int64_t)l * a.Q + s] * decay_between(a, at, l, s) * a.step[at + s]
                           : 0;
            },
            [&](int s, int j) { return v(s, p0 + j); });
    else
        multiply<false, false>(
            acc, t, max(real - r0, 0),
            [&](int i, int k) {
                const int l = r0 + k, s = r0 + i;
                return s <= l ? a.cb[pairs + (int64_t)l * a.Q + s] * decay_between(a, at, l, s) : 0;
            },
            [&](int k, int j) { return v(r0 + k, p0 + j); });
    float cols[4] = {};
    for (int i = 0; i < 4; i++) {
        const int l = r0 + y + i;
        float     dot = 0;
        for (int j = 0; j < 4; j++) {
            const int   p = p0 + x + j;
            const float D = p < a.P && a.skip_cols ? a.skip[a.skip_cols == 1 ? h : h * a.P + p] : 0, direct = v(l, p),
                        other = REV ? w(l, p) : 0;
            dot += acc[i][j] * other;
            cols[j] += direct * other;
            if (l >= real || p >= a.P) continue;
            T *to = (REV ? a.dx : a.y).row(b, l0 + l, h) + p;
            *to = from_float<T>((REV ? a.step[at + l] : 1) * acc[i][j] + D * direct
                                + (REV && a.adds[DX] ? to_float(*to) : 0));
        }
        if (!REV) continue;
        dot = row_sum(dot);
        if (x == 0 && l < real) a.dstep[(int64_t)(p0 / 64) * a.B * a.H * a.KQ + at + l] = dot;
    }
    if (!REV || !a.skip_cols) return;
    const float   sum = column_sum(red, cols);
    const int64_t part = ((int64_t)b * a.K + c) * a.xtiles + rt;
    if (a.skip_cols > 1) {
        if (threadIdx.x < SSD_TILE && p0 + (int)threadIdx.x < a.P)
            a.dD[(part * a.H + h) * a.P + p0 + threadIdx.x] = sum;
        return;
    }
    const float all = block_sum<256>(threadIdx.x < SSD_TILE ? sum : 0);
    if (threadIdx.x == 0) a.dD[(part * a.ptiles + p0 / 64) * a.H + h] = all;
}

template <typename A> __global__ void __launch_bounds__(256, 1) chunk_scan_fwd_fma(const __grid_constant__ A a)
{
    chunk_scan_fma<false>(a);
}
template <typename A>
__global__ void __launch_bounds__(256, 1) chunk_scan_chunk_state_bwd_dx_fma(const __grid_constant__ A a)
{
    chunk_scan_fma<true>(a);
}

/* ---- contributions to dB and dC through the states, summed over the heads of a group; r and q of each head ---- */

template <bool OUTPUT, typename A> static __device__ __forceinline__ void sum_over_heads_fma(const A &a)
{
    __shared__ fma_tiles t;
    unsigned             z = blockIdx.x;
    const int            nt = unravel_next(z, a.ntiles), n0 = nt * 64, r0 = unravel_next(z, a.tiles) * SSD_TILE,
              g = unravel_next(z, a.G), c = unravel_next(z, a.K), b = (int)z;
    const int     real = min(a.Q, a.L - c * a.Q), y = (int)threadIdx.x / 16 * 4, x = (int)threadIdx.x % 16 * 4;
    const int64_t l0 = (int64_t)c * a.Q;
    const auto    m = operand_of(OUTPUT ? a.cm : a.bm, b, l0, g, real, a.N);
    float         total[4][4] = {};
    for (int h = g * a.J; h < (g + 1) * a.J; h++) {
        const auto            u = operand_of(OUTPUT ? a.dy : a.x, b, l0, h, real, a.P);
        const int64_t         at = steps_at(a, b, h, c);
        const typename A::ST *state = (OUTPUT ? a.states : a.dstates) + state_at(a, b, c, h);
        float                 acc[4][4] = {};
        multiply<true, false>(
            acc, t, a.P, [&](int i, int p) { return u(r0 + i, p); },
            [&](int p, int j) { return n0 + j < a.N ? state[p * a.N + n0 + j] : 0; });
        for (int i = 0; i < 4; i++) {
            const int   l = r0 + y + i;
            const float f = l >= real ? 0 : OUTPUT ? a.in[at + l] : a.step[at + l] * a.out[at + l];
            float       dot = 0;
            for (int j = 0; j < 4; j++) {
                total[i][j] = fmaf(f, acc[i][j], total[i][j]);
                dot += f * acc[i][j] * m(l, n0 + x + j);
            }
            dot = row_sum(dot);
            if (x == 0 && l < real) (OUTPUT ? a.q : a.r)[(int64_t)nt * a.B * a.H * a.KQ + at + l] = dot;
        }
    }
    float *to = (OUTPUT ? a.dcs : a.dbs) + ((int64_t)b * a.KQ + l0 + r0) * a.G * a.N;
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++)
            if (r0 + y + i < real && n0 + x + j < a.N)
                to[((int64_t)(y + i) * a.G + g) * a.N + n0 + x + j] = total[i][j];
}

template <typename A> __global__ void __launch_bounds__(256, 1) chunk_state_bwd_db_fma(const __grid_constant__ A a)
{
    sum_over_heads_fma<false>(a);
}
template <typename A> __global__ void __launch_bounds__(256, 1) chunk_scan_bwd_dc_fma(const __grid_constant__ A a)
{
    sum_over_heads_fma<true>(a);
}

/* ---- the gradient of C B^T, summed over the heads of a group; row and column sums of M of each head ---- */

template <typename A> __global__ void __launch_bounds__(256, 1) chunk_scan_bwd_dcb_fma(const __grid_constant__ A a)
{
    __shared__ fma_tiles t;
    __shared__ float     red[16][SSD_TILE];
    unsigned             z = blockIdx.x;
    const int tile = unravel_next(z, a.tiles * (a.tiles + 1) / 2), g = unravel_next(z, a.G), c = unravel_next(z, a.K),
              b = (int)z;
    int li, sj;
    tile_of(tile, li, sj);
    const int real = min(a.Q, a.L - c * a.Q), y = (int)threadIdx.x / 16 * 4, x = (int)threadIdx.x % 16 * 4,
              l0 = li * SSD_TILE, s0 = sj * SSD_TILE;
    const int64_t first = (int64_t)c * a.Q, pairs = cb_index(a, b, c, g), all = (int64_t)a.B * a.H * a.KQ;
    float         total[4][4] = {};
    for (int h = g * a.J; h < (g + 1) * a.J; h++) {
        const auto    u = operand_of(a.dy, b, first, h, real, a.P), v = operand_of(a.x, b, first, h, real, a.P);
        const int64_t at = steps_at(a, b, h, c);
        float         acc[4][4] = {}, cols[4] = {};
        multiply<true, true>(
            acc, t, a.P, [&](int i, int p) { return u(l0 + i, p); }, [&](int p, int j) { return v(s0 + j, p); });
        for (int i = 0; i < 4; i++) {
            const int l = l0 + y + i;
            float     row = 0;
            for (int j = 0; j < 4; j++) {
                const int s = s0 + x + j;
                if (l >= real || s > l) continue;
                const float d = acc[i][j] * decay_between(a, at, l, s) * a.step[at + s];
                const float M = s < l ? d * a.cb[pairs + (int64_t)l * a.Q + s] : 0;
                if (reaches(a, b, c, l, s)) total[i][j] += d;
                row += M;
                cols[j] += M;
            }
            row = row_sum(row);
            if (x == 0 && l < real) a.rowsum[sj * all + at + l] = row;
        }
        const float col = column_sum(red, cols);
        if (threadIdx.x < SSD_TILE && s0 + (int)threadIdx.x < real) a.colsum[li * all + at + s0 + threadIdx.x] = col;
    }
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++) {
            const int l = l0 + y + i, s = s0 + x + j;
            if (l < a.Q && s < a.Q) a.dcb[pairs + (int64_t)l * a.Q + s] = total[i][j];
        }
}

/* ---- dB and dC: contributions through the states plus those through C B^T ---- */

template <bool OUTPUT, typename A>
__global__ void __launch_bounds__(256, 1) bmm_chunk_bwd_fma(const __grid_constant__ A a)
{
    typedef typename A::T T;
    __shared__ fma_tiles  t;
    unsigned              z = blockIdx.x;
    const int n0 = unravel_next(z, a.ntiles) * 64, r0 = unravel_next(z, a.tiles) * SSD_TILE, g = unravel_next(z, a.G),
              c = unravel_next(z, a.K), b = (int)z;
    const int     real = min(a.Q, a.L - c * a.Q);
    const int64_t l0 = (int64_t)c * a.Q, pairs = cb_index(a, b, c, g);
    const auto    v = operand_of(OUTPUT ? a.bm : a.cm, b, l0, g, real, a.N);
    float         acc[4][4] = {};
    if (OUTPUT)
        multiply<true, false>(
            acc, t, min(r0 + SSD_TILE, real),
            [&](int i, int s) { return s <= r0 + i && r0 + i < real ? a.dcb[pairs + (int64_t)(r0 + i) * a.Q + s] : 0; },
            [&](int s, int j) { return v(s, n0 + j); });
    else
        multiply<false, false>(
            acc, t, max(real - r0, 0),
            [&](int i, int k) { return i <= k ? a.dcb[pairs + (int64_t)(r0 + k) * a.Q + r0 + i] : 0; },
            [&](int k, int j) { return v(r0 + k, n0 + j); });
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++) {
            const int l = r0 + (int)threadIdx.x / 16 * 4 + i, n = n0 + (int)threadIdx.x % 16 * 4 + j;
            if (l >= real || n >= a.N) continue;
            T          *to = (OUTPUT ? a.dcm : a.dbm).row(b, l0 + l, g) + n;
            const float sum = acc[i][j] + (OUTPUT ? a.dcs : a.dbs)[(((int64_t)b * a.KQ + l0 + l) * a.G + g) * a.N + n];
            *to = from_float<T>(sum + (a.adds[OUTPUT ? DCM : DBM] ? to_float(*to) : 0));
        }
}

#endif
