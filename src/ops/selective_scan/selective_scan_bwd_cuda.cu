// SPDX-License-Identifier: Apache-2.0
/* selective_scan_bwd_cuda.cu -- variant `tiles` of selective_scan (Mamba-1), backward: fp32 or bf16, 8 or 16 states.
 *
 *   lam_t = C dy + a_{t+1} lam_{t+1};   q = sum_n lam B;   v = a lam h_{t-1};   r = sum_n A2 v
 *   du = D dy + dt q     ddelta = (u q + ln2 r) (1 - e^-dt)     dz = dout y silu'(z)     dB = lam dt u     dC = dy h
 *
 * The forward pass runs first without output: it leaves y and the state before every tile of 16 tokens. Then
 *
 * kernel     scan_bwd_tiles     a warp holds 128 states of 8 or 16 channels; tiles from last to first, states
 *            recomputed in registers
 * takes      N = 8 or 16, D/G a multiple of 4, rows aligned to four values
 * launch     grid (items, blocks of 32 channels), block 8 N, dynamic smem 33 to 50 KB
 * resources  sm_90a, CUDA 13.0: 133 to 164 registers, no spill  [docs]
 *            blocks per SM: 3, 6 for N = 8
 * moves      u, delta, z, dout, y, states in; du, ddelta, dz out, once each; 2N/32 fp32 of dB and dC per token and
 * channel:
 *            bound by instruction issue
 * floor      8 x 2048 x 4096, N = 16, bf16: 377 us of DRAM, 500 us of exponentials
 * measured   H200: 103 us, 12 % of floor (vector), L1/shared 30 % busy; graphmamba-peptides-func, 128 graphs  [docs]
 * order      fixed: time descends, warps in order; scan_sums_* adds blocks of channels and items
 *
 * A warp's 16 x 8 tile: rows are states, columns channels. N = 16: states lane/4 and + 8, channels 2 (lane%4) and + 1.
 * N = 8: state lane/4; rows 8 .. 15 belong to channels 8 further on. */
#include "ops/selective_scan/selective_scan_cuda.cuh"

enum { CH = TILE_CHANNELS, SLOTS = TILE * CH / 4 }; /* SLOTS: vectors of four channels per tile */

template <typename T, int N> struct bwd_smem {
    float      dt[TILE][CH], x[TILE][CH + 8], dy[TILE][CH + 8]; /* x: dt u */
    float      b[TILE][N + 8], c[TILE][N + 8];                  /* N = 16: states n and n + 8 are adjacent */
    float      q[TILE][CH + 4], r[TILE][CH + 4];
    float      bc[N / 4][TILE][2 * N + 4];           /* dB | dC of each warp */
    float4     step[SLOTS], dD[SLOTS], dbias[SLOTS]; /* private to each thread: no barrier needed */
    float4     bias[CH / 4], skip[CH / 4];
    quad<T>    stage[5][SLOTS], stage_bc[8 * N], u[SLOTS]; /* private: u, delta, z, dout, y; u of the previous tile */
    document   doc[SLOTS];
    float4     start[8 * N], dA[8 * N]; /* private: state before the tile; sums over time */
    origins<T> at;
};

/* Channel (within the warp) and state of element e of a lane. */
template <int N> static __device__ __forceinline__ int channel_of(int e, int l4)
{
    return 2 * l4 + (e & 1) + (N == 8 ? (e >> 1) * 8 : 0);
}
template <int N> static __device__ __forceinline__ int state_of(int e, int l8)
{
    return l8 + (N == 16 ? (e >> 1) * 8 : 0);
}

/* Loads the values of a lane's four elements from a row of channels (dt, x, dy) or of states (b, c). */
template <int N> static __device__ __forceinline__ void by_channel(float (&v)[4], const float *row, int l4)
{
    const float2 a = *(const float2 *)(row + 2 * l4), b = N == 16 ? a : *(const float2 *)(row + 2 * l4 + 8);
    v[0] = a.x;
    v[1] = a.y;
    v[2] = b.x;
    v[3] = b.y;
}

template <int N> static __device__ __forceinline__ void by_state(float (&v)[4], const float *row, int l8)
{
    const float2 a = N == 16 ? *(const float2 *)(row + 2 * l8) : make_float2(row[l8], row[l8]);
    v[0] = v[1] = a.x;
    v[2] = v[3] = a.y;
}

/* Computes h over eight tokens from `from` on. KEEP_ALL: keeps all states and decays, otherwise the last state in
 * h[0]. */
template <typename T, int N, bool KEEP_ALL>
static __device__ __forceinline__ void recompute_states(float (&h)[9][4], float (&decay)[8][4], const float (&A2)[4],
                                                        const bwd_smem<T, N> &sm, int from, int wc, int l4, int l8)
{
    constexpr bool MMA = sizeof(T) == 2 && N == 16;
    float2         b[2];
    float          x[2];
    if (MMA) {
#pragma unroll
        for (int i = 0; i < 2; i++) {
            b[i] = *(const float2 *)&sm.b[from + 4 * i + l4][l8 * 2];
            x[i] = sm.x[from + 4 * i + l4][wc + l8];
        }
    }
#pragma unroll
    for (int k = 0; k < 8; k++) {
        float dt[4];
        float(&to)[4] = KEEP_ALL ? h[k + 1] : h[0];
        const float(&at)[4] = KEEP_ALL ? h[k] : h[0];
        by_channel<N>(dt, &sm.dt[from + k][wc], l4);
#pragma unroll
        for (int e = 0; e < 4; e++) {
            const float a = fast_exp2(dt[e] * A2[e]);
            if (KEEP_ALL) decay[k][e] = a;
            to[e] = a * at[e];
        }
        if (MMA) {
            mma_tf32_k4(to, b[k / 4].x, b[k / 4].y, l4 == k % 4 ? x[k / 4] : 0); // k is the token
        } else {
            float bv[4], xv[4];
            by_state<N>(bv, sm.b[from + k], l8);
            by_channel<N>(xv, &sm.x[from + k][wc], l4);
#pragma unroll
            for (int e = 0; e < 4; e++) to[e] = fmaf(bv[e], xv[e], to[e]);
        }
    }
}

/* fp32: the sums of one token: q and r over states, dB and dC over the channels of the warp. */
template <typename T, int N>
static __device__ __forceinline__ void sums_exact(bwd_smem<T, N> &sm, int t, int warp, int wc, int l4, int l8,
                                                  const float (&lam)[4], const float (&h)[4], const float (&q)[4],
                                                  const float (&r)[4])
{
    float x[4], dy[4];
    by_channel<N>(x, &sm.x[t][wc], l4);
    by_channel<N>(dy, &sm.dy[t][wc], l4);
    if (N == 16) {
        float s = fold(fold(q[0] + q[2], q[1] + q[3], 4), fold(r[0] + r[2], r[1] + r[3], 4), 8);
        s += __shfl_xor_sync(0xffffffffu, s, 16);
        if (l8 < 4) (l8 & 2 ? sm.r : sm.q)[t][wc + 2 * l4 + (l8 & 1)] = s;
        const float b = fold(fmaf(lam[1], x[1], lam[0] * x[0]), fmaf(lam[3], x[3], lam[2] * x[2]), 1);
        const float c = fold(fmaf(h[1], dy[1], h[0] * dy[0]), fmaf(h[3], dy[3], h[2] * dy[2]), 1);
        sm.bc[warp][t][(l4 & 2) * 8 + (l4 & 1) * 8 + l8] = fold(b, c, 2);
    } else {
        const float s = fold(fold(fold(q[0], q[1], 4), fold(q[2], q[3], 4), 8),
                             fold(fold(r[0], r[1], 4), fold(r[2], r[3], 4), 8), 16);
        (l8 & 4 ? sm.r : sm.q)[t][wc + 2 * l4 + (l8 & 1) + (l8 & 2) * 4] = s;
        const float b = lam[0] * x[0] + lam[1] * x[1] + lam[2] * x[2] + lam[3] * x[3];
        const float c = h[0] * dy[0] + h[1] * dy[1] + h[2] * dy[2] + h[3] * dy[3];
        float       w = fold(b, c, 1);
        w += __shfl_xor_sync(0xffffffffu, w, 2);
        if (l4 < 2) sm.bc[warp][t][l4 * 8 + l8] = w;
    }
}

/* bf16: the same on tensor cores for eight tokens; column k of an accumulator is token k. */
template <int N> struct mma_sums {
    float qr[16 / N][4], B[16 / N][4], C[16 / N][4];
};

template <int N>
static __device__ __forceinline__ void sums_mma(mma_sums<N> &s, int k, int l8, const float (&lam)[4],
                                                const float (&h)[4], const float (&q)[4], const float (&r)[4],
                                                const float2 (&x)[16 / N], const float2 (&dy)[16 / N])
{
    const uint32_t ones = l8 == k ? 0x3f803f80u : 0u; // two of 1.0
    if (N == 16) {
        const bool here = l8 == k;
        mma_bf16_k8(s.qr[0], transpose_8x8(pack_bf16(q[0] + q[2], q[1] + q[3])),
                    transpose_8x8(pack_bf16(r[0] + r[2], r[1] + r[3])), ones);
        mma_tf32_k8(s.B[0], lam[0], lam[2], lam[1], lam[3], here ? x[0].x : 0, here ? x[0].y : 0);
        mma_tf32_k8(s.C[0], h[0], h[2], h[1], h[3], here ? dy[0].x : 0, here ? dy[0].y : 0);
    } else { // columns 2 (k%4) and + 1: this token for channels 0 .. 7 and 8 .. 15
        constexpr int LAST = 16 / N - 1;
        const bool    here = l8 / 2 == k % 4;
        mma_bf16_k8(s.qr[0], transpose_8x8(pack_bf16(q[0], q[1])), transpose_8x8(pack_bf16(q[2], q[3])), ones);
        mma_bf16_k8(s.qr[LAST], transpose_8x8(pack_bf16(r[0], r[1])), transpose_8x8(pack_bf16(r[2], r[3])), ones);
        const float2 xv = x[k / 4 * LAST], yv = dy[k / 4 * LAST];
        mma_tf32_k8(s.B[k / 4 * LAST], lam[0], lam[2], lam[1], lam[3], here ? xv.x : 0, here ? xv.y : 0);
        mma_tf32_k8(s.C[k / 4 * LAST], h[0], h[2], h[1], h[3], here ? yv.x : 0, here ? yv.y : 0);
    }
}

template <typename T, int N>
static __device__ __forceinline__ void store_mma_sums(bwd_smem<T, N> &sm, const mma_sums<N> &s, int from, int warp,
                                                      int wc, int l4, int l8)
{
    const int t = from + 2 * l4;
    if (N == 16) {
        sm.q[t][wc + l8] = s.qr[0][0];
        sm.q[t + 1][wc + l8] = s.qr[0][1];
        sm.r[t][wc + l8] = s.qr[0][2];
        sm.r[t + 1][wc + l8] = s.qr[0][3];
#pragma unroll
        for (int e = 0; e < 4; e++) {
            sm.bc[warp][t + (e & 1)][(e >> 1) * 8 + l8] = s.B[0][e];
            sm.bc[warp][t + (e & 1)][16 + (e >> 1) * 8 + l8] = s.C[0][e];
        }
    } else {
        constexpr int LAST = 16 / N - 1;
#pragma unroll
        for (int e = 0; e < 4; e++) {
            sm.q[t + (e & 1)][wc + (e >> 1) * 8 + l8] = s.qr[0][e];
            sm.r[t + (e & 1)][wc + (e >> 1) * 8 + l8] = s.qr[LAST][e];
        }
#pragma unroll
        for (int i = 0; i < 2; i++) { // rows 0-7 with even columns, rows 8-15 with odd ones; the rest is unused
            sm.bc[warp][from + 4 * i + l4][l8] = s.B[i * LAST][0] + s.B[i * LAST][3];
            sm.bc[warp][from + 4 * i + l4][8 + l8] = s.C[i * LAST][0] + s.C[i * LAST][3];
        }
    }
}

/* Eight adjoint steps, last token first. g is a_{t+1} lam_{t+1} of the last token on entry, a lam of the first on
 * exit. */
template <typename T, int N>
static __device__ __forceinline__ void adjoint_steps(float (&g)[4], const float (&h)[9][4], const float (&decay)[8][4],
                                                     const float (&A2)[4], bwd_smem<T, N> &sm, int from, int warp,
                                                     int wc, int l4, int l8)
{
    constexpr bool EXACT = sizeof(T) == 4, MMA = !EXACT && N == 16;
    float2         c[2], xs[16 / N], ys[16 / N];
    float          y[2], dA[4] = { 0, 0, 0, 0 };
    mma_sums<N>    s = {};
    if (MMA) {
#pragma unroll
        for (int i = 0; i < 2; i++) {
            c[i] = *(const float2 *)&sm.c[from + 4 * i + l4][l8 * 2];
            y[i] = sm.dy[from + 4 * i + l4][wc + l8];
        }
    }
    if (!EXACT) {
#pragma unroll
        for (int i = 0; i < 16 / N; i++) { // N = 8: token lane/8 of four; odd l8: channels 8 further on
            const int t = N == 16 ? from + l8 : from + 4 * i + l8 / 2, at = wc + 2 * l4 + (N == 16 ? 0 : l8 % 2 * 8);
            xs[i] = *(const float2 *)&sm.x[t][at];
            ys[i] = *(const float2 *)&sm.dy[t][at];
        }
    }
#pragma unroll
    for (int k = 7; k >= 0; k--) {
        float lam[4] = { g[0], g[1], g[2], g[3] }, q[4], r[4], b[4], dt[4];
        if (MMA) {
            mma_tf32_k4(lam, c[k / 4].x, c[k / 4].y, l4 == k % 4 ? y[k / 4] : 0);
        } else {
            float cv[4], yv[4];
            by_state<N>(cv, sm.c[from + k], l8);
            by_channel<N>(yv, &sm.dy[from + k][wc], l4);
#pragma unroll
            for (int e = 0; e < 4; e++) lam[e] = fmaf(cv[e], yv[e], lam[e]);
        }
        by_state<N>(b, sm.b[from + k], l8);
        by_channel<N>(dt, &sm.dt[from + k][wc], l4);
        adjoint_step(g, q, r, dA, lam, decay[k], h[k], A2, b, dt);
        if (EXACT) sums_exact<T, N>(sm, from + k, warp, wc, l4, l8, lam, h[k + 1], q, r);
        else sums_mma<N>(s, k, l8, lam, h[k + 1], q, r, xs, ys);
    }
    if (!EXACT) store_mma_sums<T, N>(sm, s, from, warp, wc, l4, l8);
    const float4 sum = sm.dA[threadIdx.x];
    sm.dA[threadIdx.x] = make_float4(sum.x + dA[0], sum.y + dA[1], sum.z + dA[2], sum.w + dA[3]);
}

template <typename T, int N>
__global__ void __launch_bounds__(8 * N, 384 / (8 * N)) scan_bwd_tiles(const __grid_constant__ scan_operands<T> p)
{
    constexpr bool    EXACT = sizeof(T) == 4;
    constexpr int     NT = 8 * N, CQ = CH / 4, RP = NT / CQ, NP = TILE / RP, BQ = N / 2, WIDE = 128 / N;
    extern __shared__ __align__(16) char smem[];
    bwd_smem<T, N>                      &sm = *(bwd_smem<T, N> *)smem;
    const int tid = threadIdx.x, lane = tid % 32, warp = tid / 32, l4 = lane & 3, l8 = lane >> 2, wc = warp * WIDE;
    float     A2[4], g[4];
    bool      ok[2];

    // 1. pointers, parameters, initial adjoint
    {
        const block_work a = block_work_of(p, CH);
        find_origins(sm.at, p, a, (int)tid);
#pragma unroll
        for (int e = 0; e < 4; e++) {
            const int64_t c = a.channel + wc + channel_of<N>(e, l4), n = state_of<N>(e, l8);
            ok[e / 2] = c < a.channels;
            A2[e] = ok[e / 2] ? A2_of(p.A_log.at[c * p.A_log.row + n]) : 0;
            g[e] = p.start_back.at && ok[e / 2] ? p.start_back.sequence(a.item)[c * p.start_back.row + n] : 0;
        }
        sm.dA[tid] = make_float4(0, 0, 0, 0);
#pragma unroll
        for (int i = 0; i < NP; i++) sm.dD[tid + i * NT] = sm.dbias[tid + i * NT] = make_float4(0, 0, 0, 0);
        if (tid < CH) {
            const bool in = a.channel + tid < a.channels;
            ((float *)sm.bias)[tid] = in && p.bias ? p.bias[a.channel + tid] : 0;
            ((float *)sm.skip)[tid] = in && p.skip ? p.skip[a.channel + tid] : 0;
        }
    }
    __syncthreads();
    /* Read from shared memory at each use, because registers are short in the loops over time. */
    auto length = [&] { return sm.at.a.length; };
    auto mine = [&](int column) { return sm.at.a.channel + column < sm.at.a.channels; };

    // 2. asynchronous loads of a tile: each thread loads what it reads itself, so that no barrier is needed
    float start[4];
    auto  read = [&](int tile) {
        const int me = thread_id_reread(), tr = me / CQ, column = mine(me % CQ * 4) ? me % CQ * 4 : 0,
                  last = length() - 1;
        const bool is_c = me % BQ >= N / 4;
#pragma unroll
        for (int i = 0; i < NP; i++) {
            const int  t = min(tile * TILE + tr + i * RP, last), s = me + i * NT;
            const bool leads = p.pack > 1 ? t % p.L == 0 : t + sm.at.a.first == 0;
            copy_async<4 * sizeof(T), THROUGH_L1>(&sm.stage[0][s], sm.at.u + t * p.u.row + column);
            copy_async<4 * sizeof(T), THROUGH_L1>(&sm.stage[1][s], sm.at.delta + t * p.delta.row + column);
            if (p.z.at) copy_async<4 * sizeof(T), THROUGH_L1>(&sm.stage[2][s], sm.at.z + t * p.z.row + column);
            if (p.dout.at) copy_async<4 * sizeof(T), THROUGH_L1>(&sm.stage[3][s], sm.at.dout + t * p.dout.row + column);
            if (p.dz.at) copy_async<4 * sizeof(T), THROUGH_L1>(&sm.stage[4][s], sm.at.ys + (int64_t)t * p.D + column);
            if (p.ids.at && !leads) {
                copy_async<4>(&sm.doc[s].here, sm.at.ids + t * p.ids.row);
                copy_async<4>(&sm.doc[s].before, sm.at.ids + (t - 1) * p.ids.row);
            } else {
                sm.doc[s] = read_document(NULL, 0, t, leads, p.pack > 1);
            }
        }
        const int t = min(tile * TILE + me / BQ, last);
        const T  *b = (is_c ? sm.at.C + t * p.C.row : sm.at.B + t * p.B.row) + me % (N / 4) * 4;
        if (p.aligned4_bc) copy_async<4 * sizeof(T), THROUGH_L1>(&sm.stage_bc[me], b);
        else sm.stage_bc[me] = read4(b, false);
        copy_async_commit();
    };
    auto read_kept = [&](int tile) {
        const T *k = sm.at.kept + (int64_t)tile * p.D * N + wc * N;
#pragma unroll
        for (int e = 0; e < 4; e++)
            start[e] = ok[e / 2] ? to_float(k[channel_of<N>(e, l4) * N + state_of<N>(e, l8)]) : 0;
    };

    // 3. gradients of a tile from its q, r, dB and dC
    auto finish = [&](int tile) {
        const int    me = thread_id_reread(), cq = me % CQ, tr = me / CQ;
        const float4 k = sm.skip[cq];
        const float  skip[4] = { k.x, k.y, k.z, k.w };
#pragma unroll
        for (int i = 0; i < NP; i++) {
            const int    row = tr + i * RP, t = tile * TILE + row, s = me + i * NT;
            const float4 q4 = *(const float4 *)&sm.q[row][cq * 4], r4 = *(const float4 *)&sm.r[row][cq * 4];
            const float4 y4 = *(const float4 *)&sm.dy[row][cq * 4], d4 = sm.step[s];
            const float  q[4] = { q4.x, q4.y, q4.z, q4.w }, r[4] = { r4.x, r4.y, r4.z, r4.w },
                        dy[4] = { y4.x, y4.y, y4.z, y4.w };
            const float dt[4] = { d4.x, d4.y, d4.z, d4.w };
            float       u[4], du[4], dd[4];
            values(u, sm.u[s]);
#pragma unroll
            for (int e = 0; e < 4; e++) {
                dd[e] = fmaf(u[e], q[e], LN2 * r[e]) * step_slope<EXACT>(dt[e]);
                du[e] = fmaf(dt[e], q[e], skip[e] * dy[e]);
            }
            if (t >= length() || !mine(4 * cq)) continue;
            const float4 b = sm.dbias[s];
            sm.dbias[s] = make_float4(b.x + dd[0], b.y + dd[1], b.z + dd[2], b.w + dd[3]);
            if (p.du.at) write4(sm.at.du + t * p.du.row + 4 * cq, du, p.adds >> DU & 1);
            if (p.ddelta.at) write4(sm.at.ddelta + t * p.ddelta.row + 4 * cq, dd, p.adds >> DDELTA & 1);
        }
        const int row = me / BQ, v = me % BQ * 4, t = tile * TILE + row;
        float4    s = make_float4(0, 0, 0, 0);
#pragma unroll
        for (int w = 0; w < NT / 32; w++) {
            const float4 x = *(const float4 *)&sm.bc[w][row][v];
            s.x += x.x;
            s.y += x.y;
            s.z += x.z;
            s.w += x.w;
        }
        if (t < length()) *(float4 *)(sm.at.bc + (int64_t)t * 2 * N + v) = s;
    };

    // 4. loop over tiles, last to first
    read((length() - 1) / TILE);
    read_kept((length() - 1) / TILE);
    for (int tile = (length() - 1) / TILE; tile >= 0; tile--) {
        if ((tile + 1) * TILE < length()) finish(tile + 1);
        sm.start[tid] = make_float4(start[0], start[1], start[2], start[3]);
        copy_async_wait<0>();
        const int  me = thread_id_reread(), cq = me % CQ, tr = me / CQ;
        const bool is_c = me % BQ >= N / 4;
#pragma unroll
        for (int i = 0; i < NP; i++) {
            const int    row = tr + i * RP, t = tile * TILE + row, s = me + i * NT;
            const bool   in = t < length() && mine(4 * cq), reset = sm.doc[s].here != sm.doc[s].before;
            const float  mask = in ? 1.0f : 0.0f;
            const float4 b4 = sm.bias[cq], D4 = sm.dD[s];
            const float  bias[4] = { b4.x, b4.y, b4.z, b4.w };
            float        u[4], dt[4], dy[4] = { 0, 0, 0, 0 }, dz[4], x[4];
            sm.u[s] = sm.stage[0][s];
            values(u, sm.stage[0][s]);
            values(dt, sm.stage[1][s]);
            if (p.dout.at) values(dy, sm.stage[3][s]);
            if (p.z.at) {
                float z[4], y[4];
                values(z, sm.stage[2][s]);
                if (p.dz.at) values(y, sm.stage[4][s]);
#pragma unroll
                for (int e = 0; e < 4; e++) {
                    const float sg = gate_sigmoid<EXACT>(z[e]), w = z[e] * sg;
                    if (p.dz.at) dz[e] = dy[e] * y[e] * fmaf(w, 1 - sg, sg);
                    dy[e] *= w;
                }
                if (p.dz.at && in) write4(sm.at.dz + t * p.dz.row + 4 * cq, dz, p.adds >> DZ & 1);
            }
#pragma unroll
            for (int e = 0; e < 4; e++) {
                dt[e] = step_of<EXACT>(dt[e] + bias[e]) * mask;
                dy[e] *= mask;
                x[e] = dt[e] * u[e] * mask;
            }
            sm.dD[s] = make_float4(fmaf(dy[0], u[0], D4.x), fmaf(dy[1], u[1], D4.y), fmaf(dy[2], u[2], D4.z),
                                   fmaf(dy[3], u[3], D4.w));
            sm.step[s] = make_float4(dt[0], dt[1], dt[2], dt[3]);
#pragma unroll
            for (int e = 0; e < 4; e++) {
                if (reset) dt[e] = mask * RESET_STEP;
                if (!EXACT) {
                    x[e] = round_tf32(x[e]);
                    dy[e] = round_tf32(dy[e]);
                }
            }
            write4(&sm.dt[row][cq * 4], dt);
            write4(&sm.x[row][cq * 4], x);
            write4(&sm.dy[row][cq * 4], dy);
        }
        float v[4];
        values(v, sm.stage_bc[me]);
#pragma unroll
        for (int e = 0; e < 4; e++) {
            const int n = me % (N / 4) * 4 + e;
            (is_c ? sm.c : sm.b)[me / BQ][N == 16 ? (n & 7) * 2 + (n >> 3) : n] = v[e];
        }
        __syncthreads();
        if (tile) read(tile - 1);
#pragma unroll 1
        for (int half = 1; half >= 0; half--) {
            float        h[9][4], decay[8][4];
            const float4 h0 = sm.start[tid];
            h[0][0] = h0.x;
            h[0][1] = h0.y;
            h[0][2] = h0.z;
            h[0][3] = h0.w;
            if (half) recompute_states<T, N, false>(h, decay, A2, sm, 0, wc, l4, l8);
            recompute_states<T, N, true>(h, decay, A2, sm, half * 8, wc, l4, l8);
            adjoint_steps<T, N>(g, h, decay, A2, sm, half * 8, warp, wc, l4, l8);
        }
        if (tile) read_kept(tile - 1);
        __syncthreads();
    }
    finish(0);

    // 5. partial sums of the parameter gradients, and the gradient of the initial state
    const block_work a = sm.at.a;
    const int        me = thread_id_reread();
    const float4     sum = sm.dA[me];
    const float      dA[4] = { sum.x, sum.y, sum.z, sum.w };
#pragma unroll
    for (int e = 0; e < 4; e++) {
        const int64_t c = a.channel + me / 32 * WIDE + channel_of<N>(e, me & 3);
        const int     n = state_of<N>(e, me % 32 / 4);
        if (c >= a.channels) continue;
        p.sums[a.item * p.D * (N + 2) + c * N + n] = dA[e];
        if (!p.dinitial.at || a.first) continue;
        float *d = p.dinitial.sequence(a.sequence) + c * p.dinitial.row + n;
        *d = g[e] + (p.adds >> DINITIAL & 1 ? *d : 0);
    }
    __syncthreads();
    const int cq = me;
    if (cq >= CQ || !mine(4 * cq)) return;
    float4 s = make_float4(0, 0, 0, 0), b = s;
    for (int i = 0; i < TILE; i++) {
        const float4 x = sm.dD[cq + i * CQ], y = sm.dbias[cq + i * CQ];
        s.x += x.x;
        s.y += x.y;
        s.z += x.z;
        s.w += x.w;
        b.x += y.x;
        b.y += y.y;
        b.z += y.z;
        b.w += y.w;
    }
    float *to = p.sums + a.item * p.D * (N + 2) + (int64_t)p.D * N + a.channel + 4 * cq;
    *(float4 *)to = s;
    *(float4 *)(to + p.D) = b;
}

extern "C" mba_status selective_scan_bwd_tiles_cuda(const mba_call *c)
{
    const mba_node *n = c->node;
    const int       main = c->plan->nlaunches - 3;
    const int64_t   items = c->plan->launch[main].grid[0];
    int             k = 0;
    MBA_WITH_DTYPE(n->in[U]->type.dtype, T, T *kept = (T *)mba_cuda_scratch(c, CU_KEPT);
                   T *ys = n->out[DZ] ? (T *)mba_cuda_scratch(c, CU_YS) : NULL;
                   scan_operands<T> p = scan_bwd_operands_of<T>(c, items, TILE_CHANNELS); p.kept = kept; p.ys = ys;
                   MBA_TRY(scan_states<T>(c, &k, items, kept, ys));
                   if (p.segments > 1) MBA_TRY(scan_carries_back(c, &k, &p));
                   auto *kernel = p.N == 16 ? scan_bwd_tiles<T, 16> : scan_bwd_tiles<T, 8>; mba_assert(
                       (p.N == 16 ? sizeof(bwd_smem<T, 16>) : sizeof(bwd_smem<T, 8>)) <= c->plan->launch[k].smem_bytes);
                   MBA_KERNEL(c, k, kernel, p); MBA_TRY(scan_sums(c, k + 1, p)));
    return MBA_OK;
}
