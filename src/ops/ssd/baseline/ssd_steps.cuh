// SPDX-License-Identifier: Apache-2.0
/* ssd_steps.cuh -- the vector kernels of ssd's multi-kernel variants (all but `fused`): steps and
 * cumulative decays, state passing from chunk to chunk, gradients of decays and steps, sums of parameter gradients.
 *
 * kernel     chunk_cumsum_fwd              one warp per (sequence, chunk, head), 32 positions at a time, sums in double
 * launch     grid B K ceil(H/8), block 256
 * moves      reads 2BLH bytes (bf16), writes 16BLH
 * kernel     state_passing_fwd             in place: a chunk's own contribution is replaced by the state that enters it
 * launch     grid B H ceil(PN / (256 V)), block 256, V = 8 (bf16 states) or 1; four chunks in flight per thread
 * moves      reads and writes the states once: bound by DRAM
 * kernel     state_passing_bwd             the same in reverse for dstates, and <H, G'> per warp
 * moves      reads states and dstates, writes dstates
 * kernel     chunk_scan_bwd_ddacs_stable   one warp per (sequence, chunk, head): prefix and suffix sums
 * kernel     chunk_cumsum_bwd              as chunk_cumsum_fwd: ddt, and partial sums of dA_log and ddt_bias per chunk
 * kernel     ssd_sum_parts                 32 columns per block; partial sums in order
 * resources  sm_90a, CUDA 13.0: 26 to 98 registers, 1024 to 3072 B of shared memory, no spill  [docs]
 *            each kernel's count is in its plan (ssd_plan.c)
 * measured   H200: chunk_cumsum_fwd 13.5 us, 18 % of floor (memory), ALU 22 % busy; mamba2-headline, 4 x 4096  [docs]
 *            state_passing_fwd 17.1 us, 100 % of floor (memory), DRAM 37 % busy; mamba2-headline, 4 x 4096  [docs]
 *            state_passing_bwd 38.8 us, 66 % of floor (memory), DRAM 50 % busy; mamba2-headline, 4 x 4096  [docs]
 *            chunk_scan_bwd_ddacs_stable 33.4 us, 17 % of floor (memory), DRAM 14 % busy;  [docs]
 *              mamba2-headline, 4 x 4096  [docs]
 *            chunk_cumsum_bwd 15.6 us, 14 % of floor (memory), L1/shared 23 % busy; mamba2-headline, 4 x 4096  [docs]
 *            ssd_sum_parts 3.42 us, ALU 8 % busy; mamba2-headline, 4 x 4096  [docs]
 * order      fixed: two runs give the same bits */
#ifndef MBA_SSD_STEPS_CUH
#define MBA_SSD_STEPS_CUH

#include "ops/ssd/ssd_task.cuh"

/* The (sequence, chunk, head) of a warp, and its offset in arrays (B, H, KQ). */
struct warp_chunk {
    int     b, c, h;
    int64_t at;
};
template <typename A> static __device__ __forceinline__ warp_chunk warp_chunk_of(const A &a, unsigned i)
{
    const int part = unravel_next(i, (a.H + 7) / 8), c = unravel_next(i, a.K), b = (int)i,
              h = part * 8 + (int)(threadIdx.x >> 5);
    const warp_chunk e = { b, c, h, ((int64_t)b * a.H + h) * a.KQ + (int64_t)c * a.Q };
    return e;
}

template <typename A> static __device__ __forceinline__ bool reset_at(const A &a, int b, int64_t l)
{
    return a.ids.at && l > 0 && l < a.L && *a.ids.row(b, l, 0) != *a.ids.row(b, l - 1, 0);
}

template <typename A> static __device__ __forceinline__ void cumsum_fwd(const A &a, unsigned tile)
{
    typedef typename A::CS CS;
    const int              lane = threadIdx.x & 31;
    const warp_chunk       e = warp_chunk_of(a, tile);
    if (e.h >= a.H) return;
    const double A_h = -exp((double)a.A_log[e.h]);
    double       sum = 0;
    int          last = 0; // position of the last reset so far
    bool         any = false;
    for (int l0 = 0; l0 < a.Q; l0 += 32) {
        const int     l = l0 + lane;
        const int64_t t = (int64_t)e.c * a.Q + l;
        float         step = 0;
        if (l < a.Q && t < a.L) step = fminf(fmaxf(softplus(raw_step(a, e.b, t, e.h)), a.dt_min), a.dt_max);
        const double   cs = sum + warp_prefix_sum(A_h * step);
        const unsigned resets = __ballot_sync(0xffffffffu, l < a.Q && reset_at(a, e.b, t));
        const unsigned before = resets & (0xffffffffu >> (31 - lane)); // this lane's included
        if (l < a.Q) {
            a.step[e.at + l] = step;
            a.cs[e.at + l] = (CS)cs;
            a.in[e.at + l] = any || before ? 0 : expf((float)cs);
            if (a.since && e.h == 0) a.since[(int64_t)e.b * a.KQ + t] = before ? l0 + 31 - __clz((int)before) : last;
        }
        if (resets) last = l0 + 31 - __clz((int)resets);
        any |= resets != 0;
        sum = __shfl_sync(0xffffffffu, cs, 31);
    }
    for (int l = lane; l < a.Q; l += 32) a.out[e.at + l] = l < last ? 0 : expf((float)(sum - (double)a.cs[e.at + l]));
}

/* ---- state passing: V state values per thread ---- */

template <int V, typename A> struct state_passer {
    const A &a;
    int      b, h, e, part; /* e: this thread's first element; part: number of its warp within (b, h) */
    bool     mine;
    __device__ __forceinline__ state_passer(const A &task, unsigned i) : a(task)
    {
        const int PN = a.P * a.N, block = unravel_next(i, (PN + 256 * V - 1) / (256 * V));
        h = unravel_next(i, a.H);
        b = (int)i;
        e = (block * 256 + (int)threadIdx.x) * V;
        part = block * 8 + (int)(threadIdx.x >> 5);
        mine = e < PN;
    }
    __device__ __forceinline__ typename A::ST *state(typename A::ST *s, int c) const
    {
        return s + (((int64_t)b * a.K + c) * a.H + h) * a.P * a.N + e;
    }
    __device__ __forceinline__ float chunk_decay(int c) const /* decay across chunk c; 0 after a reset */
    {
        return a.in[((int64_t)b * a.H + h) * a.KQ + (int64_t)c * a.Q + a.Q - 1];
    }
    template <typename F> __device__ __forceinline__ F *boundary_state(const strided<F> &w) const
    {
        return w.row(b, h, e / a.N) + e % a.N;
    }
};

template <int V, typename F> static __device__ __forceinline__ void load_scalars(float (&v)[V], const F *from)
{
#pragma unroll
    for (int i = 0; i < V; i++) v[i] = from[i];
}

enum { CHUNKS_IN_FLIGHT = 4 }; /* chunks whose states are loaded ahead */

template <int V, typename A> static __device__ __forceinline__ void passing_fwd(const A &a, unsigned tile)
{
    const state_passer<V, A> w(a, tile);
    if (!w.mine) return;
    float run[V] = {};
    if (a.initial.at) load_scalars(run, w.boundary_state(a.initial));
    for (int c0 = 0; c0 < a.K; c0 += CHUNKS_IN_FLIGHT) {
        float s[CHUNKS_IN_FLIGHT][V], d[CHUNKS_IN_FLIGHT];
#pragma unroll
        for (int i = 0; i < CHUNKS_IN_FLIGHT; i++)
            if (c0 + i < a.K) {
                load(s[i], w.state(a.states, c0 + i));
                d[i] = w.chunk_decay(c0 + i);
            }
#pragma unroll
        for (int i = 0; i < CHUNKS_IN_FLIGHT; i++)
            if (c0 + i < a.K) {
                store(w.state(a.states, c0 + i), run);
#pragma unroll
                for (int v = 0; v < V; v++) run[v] = fmaf(d[i], run[v], s[i][v]);
            }
    }
    if (!a.final.at) return;
    float *to = w.boundary_state(a.final);
#pragma unroll
    for (int v = 0; v < V; v++) to[v] = run[v];
}

template <int V, typename A> static __device__ __forceinline__ void passing_bwd(const A &a, unsigned tile)
{
    const state_passer<V, A> w(a, tile);
    float                    run[V] = {}; // G': gradient of the state that leaves the chunk
    if (w.mine && a.dfinal.at) load_scalars(run, w.boundary_state(a.dfinal));
    for (int c0 = a.K - 1; c0 >= 0; c0 -= CHUNKS_IN_FLIGHT) {
        float s[CHUNKS_IN_FLIGHT][V] = {}, g[CHUNKS_IN_FLIGHT][V] = {}, d[CHUNKS_IN_FLIGHT];
#pragma unroll
        for (int i = 0; i < CHUNKS_IN_FLIGHT; i++)
            if (c0 - i >= 0 && w.mine) {
                load(s[i], w.state(a.states, c0 - i));
                load(g[i], w.state(a.dstates, c0 - i));
            }
#pragma unroll
        for (int i = 0; i < CHUNKS_IN_FLIGHT; i++) d[i] = c0 - i >= 0 ? w.chunk_decay(c0 - i) : 0;
#pragma unroll
        for (int i = 0; i < CHUNKS_IN_FLIGHT; i++)
            if (c0 - i >= 0) {
                float product = 0;
                if (w.mine) store(w.state(a.dstates, c0 - i), run);
#pragma unroll
                for (int v = 0; v < V; v++) {
                    product = fmaf(s[i][v], run[v], product);
                    run[v] = fmaf(d[i], run[v], g[i][v]);
                }
                product = warp_sum(product);
                if (threadIdx.x % 32 == 0)
                    a.dchunk[(((int64_t)w.b * a.H + w.h) * a.K + c0 - i) * a.cparts + w.part] = d[i] * product;
            }
    }
    if (!w.mine || !a.dinitial.at) return;
    float *to = w.boundary_state(a.dinitial);
#pragma unroll
    for (int v = 0; v < V; v++) to[v] = run[v] + (a.adds[DINITIAL] ? to[v] : 0);
}

/* ---- gradients of decays and steps ---- */

template <typename A>
static __device__ __forceinline__ float sum_of(const A &a, const float *parts, int first, int end, int64_t at)
{
    float s = 0;
    for (int i = first; i < end; i++) s += parts[(int64_t)i * a.B * a.H * a.KQ + at];
    return s;
}

/* ddA_i = sum_{j<i} (col_j - row_j + r_j) + sum_{l>=i} q_l + dchunk. On tensor cores, col + r plus what a token gives
 * to itself also serves as dt (acc . x): it is more accurate than acc, whose operands are rounded. */
template <typename A> static __device__ __forceinline__ void ddacs_stable(const A &a, unsigned tile)
{
    typedef typename A::CS NUM; // sums have the precision of cs
    const int              lane = threadIdx.x & 31;
    const warp_chunk       e = warp_chunk_of(a, tile);
    if (e.h >= a.H) return;
    const int    real = min(a.Q, a.L - e.c * a.Q);
    const float *parts = a.dchunk + (((int64_t)e.b * a.H + e.h) * a.K + e.c) * a.cparts;
    float        mine = 0;
    for (int i = lane; i < a.cparts; i += 32) mine += parts[i];
    NUM suffix = warp_sum(mine), prefix = 0;
    for (int l0 = (real - 1) / 32 * 32; l0 >= 0; l0 -= 32) {
        const int l = l0 + lane;
        const NUM s = suffix + warp_suffix_sum(l < real ? (NUM)sum_of(a, a.q, 0, a.ntiles, e.at + l) : (NUM)0);
        if (l < real) a.ddA[e.at + l] = (float)s;
        suffix = __shfl_sync(0xffffffffu, s, 0);
    }
    for (int l0 = 0; l0 < real; l0 += 32) {
        const int l = l0 + lane;
        NUM       v = 0;
        if (l < real) {
            const float col = sum_of(a, a.colsum, l / SSD_TILE, a.tiles, e.at + l),
                        r = sum_of(a, a.r, 0, a.ntiles, e.at + l), step = a.step[e.at + l];
            v = (NUM)col - sum_of(a, a.rowsum, 0, l / SSD_TILE + 1, e.at + l) + r;
            if (A::TENSOR) a.dstep[e.at + l] += step > 0 ? (col + r) / step : 0;
        }
        const NUM s = prefix + warp_prefix_sum(v);
        if (l < real) a.ddA[e.at + l] += (float)(s - v);
        prefix = __shfl_sync(0xffffffffu, s, 31);
    }
}

template <typename A> static __device__ __forceinline__ void cumsum_bwd(const A &a, unsigned tile)
{
    typedef typename A::T T;
    const int             lane = threadIdx.x & 31;
    const warp_chunk      e = warp_chunk_of(a, tile);
    if (e.h >= a.H) return;
    const int   real = min(a.Q, a.L - e.c * a.Q);
    const float A_h = -expf(a.A_log[e.h]);
    float       dA = 0, dbias = 0;
#pragma unroll 1
    for (int l = lane; l < real; l += 32) {
        const int64_t t = (int64_t)e.c * a.Q + l;
        const float   raw = raw_step(a, e.b, t, e.h), s = softplus(raw), ddA = a.ddA[e.at + l];
        const float   slope = s < a.dt_min || s > a.dt_max ? 0 : raw > 20 ? 1 : 1 / (1 + expf(-raw));
        const float   draw = fmaf(A_h, ddA, sum_of(a, a.dstep, 0, A::TENSOR ? 1 : a.ptiles, e.at + l)) * slope;
        T            *to = a.ddt.row(e.b, t, e.h);
        *to = from_float<T>(draw + (a.adds[DDT] ? to_float(*to) : 0));
        dbias += draw;
        dA = fmaf(ddA, a.step[e.at + l] * A_h, dA);
    }
    dA = warp_sum(dA);
    dbias = warp_sum(dbias);
    if (lane) return;
    const int64_t chunk = (int64_t)e.b * a.K + e.c;
    a.dpar[chunk * a.H + e.h] = dA;
    a.dpar[((int64_t)a.B * a.K + chunk) * a.H + e.h] = dbias;
}

/* Sums the partial sums of dA_log, ddt_bias or dD (tile % 3): 32 columns, eight threads each. */
template <typename A> static __device__ __forceinline__ void sum_parts(const A &a, unsigned tile)
{
    __shared__ double part[8][32];
    const int         x = threadIdx.x % 32, y = threadIdx.x / 32, what = (int)(tile % 3);
    const int64_t     col = (int64_t)(tile / 3) * 32 + x, chunks = (int64_t)a.B * a.K;
    const int64_t     cols = what == 2 && a.skip_cols > 1 ? (int64_t)a.H * a.P : a.H;
    const int64_t     parts = what < 2 ? chunks : chunks * a.xtiles * (a.skip_cols > 1 ? 1 : a.ptiles);
    const float      *from = what < 2 ? a.dpar + what * chunks * a.H : a.dD;
    float            *to = what == 0 ? a.dA_log : what == 1 ? a.dbias : a.dskip;
    const bool        adds = what == 0 ? a.adds[DA_LOG] : what == 1 ? a.adds[DDT_BIAS] : a.adds[DSKIP];
    double            sum = 0;
    for (int64_t i = y; i < parts && col < cols && to; i += 8) sum += (double)from[i * cols + col];
    part[y][x] = sum;
    __syncthreads();
    if (y || col >= cols || !to) return;
    for (int i = 1; i < 8; i++) sum += part[i][x];
    to[col] = (float)sum + (adds ? to[col] : 0);
}

/* ---- the kernels ---- */

template <bool PERSISTENT, typename A>
__global__ void __launch_bounds__(256, 1) chunk_cumsum_fwd(const __grid_constant__ A a, unsigned tiles)
{
    for_tiles<PERSISTENT>(a, tiles, [&](unsigned tile, const unsigned *) { cumsum_fwd(a, tile); });
}
template <bool PERSISTENT, int V, typename A>
__global__ void __launch_bounds__(256) state_passing_fwd(const __grid_constant__ A a, unsigned tiles)
{
    for_tiles<PERSISTENT>(a, tiles, [&](unsigned tile, const unsigned *) { passing_fwd<V>(a, tile); });
}
template <bool PERSISTENT, int V, typename A>
__global__ void __launch_bounds__(256) state_passing_bwd(const __grid_constant__ A a, unsigned tiles)
{
    for_tiles<PERSISTENT>(a, tiles, [&](unsigned tile, const unsigned *) { passing_bwd<V>(a, tile); });
}
template <bool PERSISTENT, typename A>
__global__ void __launch_bounds__(256, 1) chunk_scan_bwd_ddacs_stable(const __grid_constant__ A a, unsigned tiles)
{
    for_tiles<PERSISTENT>(a, tiles, [&](unsigned tile, const unsigned *) { ddacs_stable(a, tile); });
}
template <bool PERSISTENT, typename A>
__global__ void __launch_bounds__(256, 1) chunk_cumsum_bwd(const __grid_constant__ A a, unsigned tiles)
{
    for_tiles<PERSISTENT>(a, tiles, [&](unsigned tile, const unsigned *) { cumsum_bwd(a, tile); });
}
template <bool PERSISTENT, typename A>
__global__ void __launch_bounds__(256) ssd_sum_parts(const __grid_constant__ A a, unsigned tiles)
{
    for_tiles<PERSISTENT>(a, tiles, [&](unsigned tile, const unsigned *) { sum_parts(a, tile); });
}

#endif
