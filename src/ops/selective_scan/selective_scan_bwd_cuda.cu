// SPDX-License-Identifier: Apache-2.0
/* selective_scan_bwd_cuda.cu -- variant `tiles` of selective_scan (Mamba-1), backward: fp32 or bf16, any shape.
 *
 *   lam_t = C dy + a_{t+1} lam_{t+1};   q = sum_n lam B;   v = a lam h_{t-1};   r = sum_n A2 v
 *   du = D dy + dt q     ddelta = (u q + ln2 r) (1 - e^-dt)     dz = dout y silu'(z)     dB = lam dt u     dC = dy h
 *
 * The forward pass runs first without output: it leaves y and the state before every tile of 16 tokens. Then
 *
 * kernel     scan_bwd_tiles     a warp holds 128 states of 8, 16 or 32 channels; tiles from last to first, states
 *            recomputed in registers; once per group of 16 states, q and r of the groups so far in scratch
 * takes      everything; rows aligned to four values are loaded asynchronously
 * launch     grid (items, blocks of 32 channels), block 8 N, dynamic smem 28 to 50 KB; N: states of a group, 4, 8 or 16
 * resources  sm_90a, CUDA 13.0: 141 to 156 registers, no spill  [docs]
 *            blocks per SM: 3, 6 for N = 8
 * moves      u, delta, z, dout, y, states in; du, ddelta, dz out, once each; 2N/32 fp32 of dB and dC per token and
 * channel:
 *            bound by instruction issue
 * floor      8 x 2048 x 4096, N = 16, bf16: 377 us of DRAM, 500 us of exponentials
 * measured   not yet  [docs]
 * order      fixed: time descends, warps in order; scan_sums_* adds blocks of channels and items
 *
 * A warp's 16 x 8 tile: rows are states, columns channels. N = 16: states lane/4 and + 8, channels 2 (lane%4) and + 1.
 * N = 8: state lane/4; rows 8 .. 15 belong to channels 8 further on. N = 4: state lane/4%4; lanes 16 .. 31 belong to
 * channels 16 further on. */
#include "ops/selective_scan/selective_scan_cuda.cuh"

enum { CH = TILE_CHANNELS, CQ = CH / 4, SLOTS = TILE * CQ }; /* SLOTS: vectors of four channels per tile */

template <typename T, int N> struct bwd_smem {
    enum { NT = 8 * N };
    float      dt[TILE][CH], x[TILE][CH + 8], dy[TILE][CH + 8]; /* x: dt u */
    float      b[TILE][N + 8], c[TILE][N + 8];                  /* N = 16: states n and n + 8 are adjacent */
    float      q[TILE][CH + 4], r[TILE][CH + 4];
    float      bc[N / 4][TILE][2 * N + 4];           /* dB | dC of each warp */
    float4     step[SLOTS], dD[SLOTS], dbias[SLOTS]; /* private to each thread: no barrier needed */
    float4     bias[CQ], skip[CQ];
    quad<T>    stage[5][SLOTS], stage_bc[NT], u[SLOTS]; /* private: u, delta, z, dout, y; u of the previous tile */
    document   doc[SLOTS];
    float4     start[NT], dA[NT]; /* private: state before the tile; sums over time */
    origins<T> at;
};

/* Channel (within the warp) and state of element e of a lane. */
template <int N> static __device__ __forceinline__ int channel_of(int e, int l4, int l8)
{
    return 2 * l4 + (e & 1) + (N < 16 ? (e >> 1) * 8 : 0) + (N == 4 ? (l8 >> 2) * 16 : 0);
}
template <int N> static __device__ __forceinline__ int state_of(int e, int l8)
{
    return (N == 4 ? l8 & 3 : l8) + (N == 16 ? (e >> 1) * 8 : 0);
}

/* Loads the values of a lane's four elements from a row of channels (dt, x, dy) or of states (b, c). */
template <int N> static __device__ __forceinline__ void by_channel(float (&v)[4], const float *row, int l4, int l8)
{
    row += channel_of<N>(0, l4, l8);
    const float2 a = *(const float2 *)row, b = N == 16 ? a : *(const float2 *)(row + 8);
    v[0] = a.x;
    v[1] = a.y;
    v[2] = b.x;
    v[3] = b.y;
}

template <int N> static __device__ __forceinline__ void by_state(float (&v)[4], const float *row, int l8)
{
    const int    n = state_of<N>(0, l8);
    const float2 a = N == 16 ? *(const float2 *)(row + 2 * l8) : make_float2(row[n], row[n]);
    v[0] = v[1] = a.x;
    v[2] = v[3] = a.y;
}

/* Computes h over eight tokens from `from` on. KEEP_ALL: keeps all states and decays, otherwise the last state in
 * h[0]. */
template <typename T, int N, bool KEEP_ALL>
static __device__ __forceinline__ void recompute_states(float (&h)[9][4], float (&decay)[8][4], const float (&A2)[4],
                                                        const bwd_smem<T, N> &sm, int from, int wc, int l4, int l8)
{
#pragma unroll
    for (int k = 0; k < 8; k++) {
        float dt[4], b[4], x[4];
        float(&to)[4] = KEEP_ALL ? h[k + 1] : h[0];
        const float(&at)[4] = KEEP_ALL ? h[k] : h[0];
        by_channel<N>(dt, &sm.dt[from + k][wc], l4, l8);
        by_channel<N>(x, &sm.x[from + k][wc], l4, l8);
        by_state<N>(b, sm.b[from + k], l8);
#pragma unroll
        for (int e = 0; e < 4; e++) {
            const float a = fast_exp2(dt[e] * A2[e]);
            if (KEEP_ALL) decay[k][e] = a;
            to[e] = fmaf(a, at[e], b[e] * x[e]);
        }
    }
}

/* The sums of one token: q and r over the states of a group, dB and dC over the channels of the warp. */
template <typename T, int N>
static __device__ __forceinline__ void sum_token(bwd_smem<T, N> &sm, int t, int warp, int wc, int l4, int l8,
                                                 const float (&lam)[4], const float (&h)[4], const float (&q)[4],
                                                 const float (&r)[4])
{
    float x[4], dy[4];
    by_channel<N>(x, &sm.x[t][wc], l4, l8);
    by_channel<N>(dy, &sm.dy[t][wc], l4, l8);
    if (N == 16) {
        float s = fold(fold(q[0] + q[2], q[1] + q[3], 4), fold(r[0] + r[2], r[1] + r[3], 4), 8);
        s += __shfl_xor_sync(0xffffffffu, s, 16);
        if (l8 < 4) (l8 & 2 ? sm.r : sm.q)[t][wc + 2 * l4 + (l8 & 1)] = s;
        const float b = fold(fmaf(lam[1], x[1], lam[0] * x[0]), fmaf(lam[3], x[3], lam[2] * x[2]), 1);
        const float c = fold(fmaf(h[1], dy[1], h[0] * dy[0]), fmaf(h[3], dy[3], h[2] * dy[2]), 1);
        sm.bc[warp][t][(l4 & 2) * 8 + (l4 & 1) * 8 + l8] = fold(b, c, 2);
        return;
    }
    const float qs = fold(fold(q[0], q[1], 4), fold(q[2], q[3], 4), 8),
                rs = fold(fold(r[0], r[1], 4), fold(r[2], r[3], 4), 8);
    const int channel = wc + 2 * l4 + (l8 & 1) + (l8 & 2) * 4 + (N == 4 ? (l8 >> 2) * 16 : 0);
    if (N == 8) {
        (l8 & 4 ? sm.r : sm.q)[t][channel] = fold(qs, rs, 16);
    } else {
        sm.q[t][channel] = qs;
        sm.r[t][channel] = rs;
    }
    const float b = lam[0] * x[0] + lam[1] * x[1] + lam[2] * x[2] + lam[3] * x[3];
    const float c = h[0] * dy[0] + h[1] * dy[1] + h[2] * dy[2] + h[3] * dy[3];
    float       w = fold(b, c, 1);
    w += __shfl_xor_sync(0xffffffffu, w, 2);
    if (N == 4) w += __shfl_xor_sync(0xffffffffu, w, 16);
    if (l4 < 2 && l8 < N) sm.bc[warp][t][l4 * N + l8] = w;
}

/* Eight adjoint steps, last token first. g is a_{t+1} lam_{t+1} of the last token on entry, a lam of the first on
 * exit. */
template <typename T, int N>
static __device__ __forceinline__ void adjoint_steps(float (&g)[4], const float (&h)[9][4], const float (&decay)[8][4],
                                                     const float (&A2)[4], bwd_smem<T, N> &sm, int from, int warp,
                                                     int wc, int l4, int l8)
{
    float dA[4] = { 0, 0, 0, 0 };
#pragma unroll
    for (int k = 7; k >= 0; k--) {
        float lam[4], q[4], r[4], b[4], c[4], dt[4], dy[4];
        by_state<N>(c, sm.c[from + k], l8);
        by_channel<N>(dy, &sm.dy[from + k][wc], l4, l8);
#pragma unroll
        for (int e = 0; e < 4; e++) lam[e] = fmaf(c[e], dy[e], g[e]);
        by_state<N>(b, sm.b[from + k], l8);
        by_channel<N>(dt, &sm.dt[from + k][wc], l4, l8);
        adjoint_step(g, q, r, dA, lam, decay[k], h[k], A2, b, dt);
        sum_token<T, N>(sm, from + k, warp, wc, l4, l8, lam, h[k + 1], q, r);
    }
    const float4 sum = sm.dA[threadIdx.x];
    sm.dA[threadIdx.x] = make_float4(sum.x + dA[0], sum.y + dA[1], sum.z + dA[2], sum.w + dA[3]);
}

/* ---- loads of a tile, asynchronous where rows are aligned: each thread loads what it reads itself, so that no barrier
 * is needed ---- */

/* Valid channels of this thread's four, from column 4 cq of the block on. Read from shared memory at each use, because
 * registers are short in the loops over time. */
template <typename T, int N> static __device__ __forceinline__ int valid_of(const bwd_smem<T, N> &sm, int cq)
{
    return sm.at.a.channels - sm.at.a.channel - 4 * cq;
}

template <typename T, int N> static __device__ __forceinline__ int tiles_of(const bwd_smem<T, N> &sm)
{
    return (sm.at.a.length + TILE - 1) / TILE;
}

template <typename T> static __device__ __forceinline__ void stage4(quad<T> *to, const T *from, bool wide, int valid)
{
    if (wide && valid > 0) copy_async<4 * sizeof(T), THROUGH_L1>(to, from);
    else *to = read4(from, false, valid);
}

template <typename T, int N>
static __device__ __forceinline__ void load_tile(const scan_operands<T> &p, bwd_smem<T, N> &sm, int turn)
{
    constexpr int    NT = 8 * N, RP = NT / CQ, NP = TILE / RP, BQ = N / 2;
    const turn_of<N> v(turn, tiles_of(sm), p.N);
    const int        me = thread_id_reread(), cq = me % CQ, valid = valid_of(sm, cq), last = sm.at.a.length - 1;
    const bool       is_c = me % BQ >= N / 4, wide = p.aligned4;
#pragma unroll
    for (int i = 0; i < NP; i++) {
        const int  t = min(v.tile * TILE + me / CQ + i * RP, last), s = me + i * NT;
        const bool leads = p.pack > 1 ? t % p.L == 0 : t + sm.at.a.first == 0;
        stage4(&sm.stage[0][s], sm.at.u + t * p.u.row + 4 * cq, wide, valid);
        stage4(&sm.stage[1][s], sm.at.delta + t * p.delta.row + 4 * cq, wide, valid);
        if (p.z.at) stage4(&sm.stage[2][s], sm.at.z + t * p.z.row + 4 * cq, wide, valid);
        if (p.dout.at) stage4(&sm.stage[3][s], sm.at.dout + t * p.dout.row + 4 * cq, wide, valid);
        if (p.dz.at && v.state == 0)
            stage4(&sm.stage[4][s], (const T *)sm.at.ys + (int64_t)t * p.D + 4 * cq, wide, valid);
        if (p.ids.at && !leads) {
            copy_async<4>(&sm.doc[s].here, sm.at.ids + t * p.ids.row);
            copy_async<4>(&sm.doc[s].before, sm.at.ids + (t - 1) * p.ids.row);
        } else {
            sm.doc[s] = read_document(NULL, 0, t, leads, p.pack > 1);
        }
    }
    const int t = min(v.tile * TILE + me / BQ, last), n = v.state + me % (N / 4) * 4;
    stage4(&sm.stage_bc[me], (is_c ? sm.at.C + t * p.C.row : sm.at.B + t * p.B.row) + n, p.aligned4_bc, p.N - n);
    copy_async_commit();
}

/* Calls f(element, channel, state) for the elements of this lane that are in range; channel: in the block. */
template <int N, typename T, typename F>
static __device__ __forceinline__ void each_element(const scan_operands<T> &p, const bwd_smem<T, N> &sm, int first, F f)
{
    const int me = thread_id_reread(), l4 = me & 3, l8 = me % 32 / 4, wc = me / 32 * (128 / N);
#pragma unroll
    for (int e = 0; e < 4; e++) {
        const int c = wc + channel_of<N>(e, l4, l8), n = first + state_of<N>(e, l8);
        if (sm.at.a.channel + c < sm.at.a.channels && n < p.N) f(e, c, n);
    }
}

/* The state before a tile, from scratch. */
template <typename T, int N>
static __device__ __forceinline__ void load_state(float (&h)[4], const scan_operands<T> &p, const bwd_smem<T, N> &sm,
                                                  int turn)
{
    const turn_of<N> v(turn, tiles_of(sm), p.N);
    const float     *k = sm.at.kept + (int64_t)v.tile * p.D * p.padded;
#pragma unroll
    for (int e = 0; e < 4; e++) h[e] = 0;
    each_element<N>(p, sm, v.state, [&](int e, int c, int n) { h[e] = k[(int64_t)c * p.padded + n]; });
}

/* ---- beginning of a tile that has arrived: step sizes, dz, operands of the state loop ---- */

template <typename T, int N>
static __device__ __forceinline__ void begin_tile(const scan_operands<T> &p, bwd_smem<T, N> &sm, int turn)
{
    constexpr bool   EXACT = sizeof(T) == 4;
    constexpr int    NT = 8 * N, RP = NT / CQ, NP = TILE / RP, BQ = N / 2;
    const turn_of<N> v(turn, tiles_of(sm), p.N);
    const int        me = thread_id_reread(), cq = me % CQ;
    const bool       is_c = me % BQ >= N / 4;
#pragma unroll
    for (int i = 0; i < NP; i++) {
        const int    row = me / CQ + i * RP, t = v.tile * TILE + row, s = me + i * NT, valid = valid_of(sm, cq);
        const bool   in = t < sm.at.a.length && valid > 0, reset = sm.doc[s].here != sm.doc[s].before;
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
            if (p.dz.at && in && v.state == 0)
                write4(sm.at.dz + t * p.dz.row + 4 * cq, dz, p.adds >> DZ & 1, p.aligned4, valid);
        }
#pragma unroll
        for (int e = 0; e < 4; e++) {
            dt[e] = step_of<EXACT>(dt[e] + bias[e]) * mask;
            dy[e] *= mask;
            x[e] = dt[e] * u[e] * mask;
        }
        if (v.state == 0)
            sm.dD[s] = make_float4(fmaf(dy[0], u[0], D4.x), fmaf(dy[1], u[1], D4.y), fmaf(dy[2], u[2], D4.z),
                                   fmaf(dy[3], u[3], D4.w));
        sm.step[s] = make_float4(dt[0], dt[1], dt[2], dt[3]);
#pragma unroll
        for (int e = 0; e < 4; e++)
            if (reset) dt[e] = mask * RESET_STEP;
        write4(&sm.dt[row][cq * 4], dt);
        write4(&sm.x[row][cq * 4], x);
        write4(&sm.dy[row][cq * 4], dy);
    }
    float w[4];
    values(w, sm.stage_bc[me]);
#pragma unroll
    for (int e = 0; e < 4; e++) {
        const int n = me % (N / 4) * 4 + e;
        (is_c ? sm.c : sm.b)[me / BQ][N == 16 ? (n & 7) * 2 + (n >> 3) : n] = w[e];
    }
}

/* ---- end of a tile: gradients from its q, r, dB and dC. The last group of states comes first; q and r of the groups
 * so far are in scratch, where the thread that reads a value has written it ---- */

template <typename T, int N>
static __device__ __forceinline__ void finish_tile(const scan_operands<T> &p, bwd_smem<T, N> &sm, int turn)
{
    constexpr int    NT = 8 * N, RP = NT / CQ, NP = TILE / RP, BQ = N / 2;
    const turn_of<N> v(turn, tiles_of(sm), p.N);
    const int        me = thread_id_reread(), cq = me % CQ, length = sm.at.a.length;
    const float4     k = sm.skip[cq];
    const float      skip[4] = { k.x, k.y, k.z, k.w };
#pragma unroll
    for (int i = 0; i < NP; i++) {
        const int    row = me / CQ + i * RP, t = v.tile * TILE + row, s = me + i * NT, valid = valid_of(sm, cq);
        const float4 q4 = *(const float4 *)&sm.q[row][cq * 4], r4 = *(const float4 *)&sm.r[row][cq * 4];
        const float4 y4 = *(const float4 *)&sm.dy[row][cq * 4], d4 = sm.step[s], b = sm.dbias[s];
        const float  dy[4] = { y4.x, y4.y, y4.z, y4.w }, dt[4] = { d4.x, d4.y, d4.z, d4.w };
        float        u[4], du[4], dd[4], sum[2][4] = { { q4.x, q4.y, q4.z, q4.w }, { r4.x, r4.y, r4.z, r4.w } };
        if (t >= length || valid <= 0) continue;
#pragma unroll
        for (int j = 0; j < 2; j++) {
            if (p.padded == N) break;
            float *at = sm.at.partial + (j * p.tokens + t) * p.D + 4 * cq, old[4];
            values(old, read4(at, p.aligned4, v.last ? 0 : valid));
#pragma unroll
            for (int e = 0; e < 4; e++) sum[j][e] += old[e];
            if (v.state) write4(at, sum[j], false, p.aligned4, valid);
        }
        if (v.state) continue;
        values(u, sm.u[s]);
#pragma unroll
        for (int e = 0; e < 4; e++) {
            dd[e] = fmaf(u[e], sum[0][e], LN2 * sum[1][e]) * step_slope<sizeof(T) == 4>(dt[e]);
            du[e] = fmaf(dt[e], sum[0][e], skip[e] * dy[e]);
        }
        sm.dbias[s] = make_float4(b.x + dd[0], b.y + dd[1], b.z + dd[2], b.w + dd[3]);
        if (p.du.at) write4(sm.at.du + t * p.du.row + 4 * cq, du, p.adds >> DU & 1, p.aligned4, valid);
        if (p.ddelta.at) write4(sm.at.ddelta + t * p.ddelta.row + 4 * cq, dd, p.adds >> DDELTA & 1, p.aligned4, valid);
    }
    const int row = me / BQ, w = me % BQ * 4, t = v.tile * TILE + row;
    float4    s = make_float4(0, 0, 0, 0);
#pragma unroll
    for (int i = 0; i < NT / 32; i++) {
        const float4 x = *(const float4 *)&sm.bc[i][row][w];
        s.x += x.x;
        s.y += x.y;
        s.z += x.z;
        s.w += x.w;
    }
    const int at = v.state + (w < N ? w : w - N + p.padded);
    if (t < length) *(float4 *)(sm.at.bc + (int64_t)t * 2 * p.padded + at) = s;
}

/* ---- end of a group of states: its partial sums of dA, and the gradient of the initial state ---- */

template <typename T, int N>
static __device__ __forceinline__ void finish_group(const scan_operands<T> &p, bwd_smem<T, N> &sm, int first,
                                                    const float (&g)[4])
{
    const block_work &a = sm.at.a;
    const float4      sum = sm.dA[threadIdx.x];
    const float       dA[4] = { sum.x, sum.y, sum.z, sum.w };
    each_element<N>(p, sm, first, [&](int e, int c, int n) {
        const int64_t ch = a.channel + c;
        p.sums[a.item * p.D * (p.N + 2) + ch * p.N + n] = dA[e];
        if (!p.dinitial.at || a.first) return;
        float *d = p.dinitial.sequence(a.sequence) + ch * p.dinitial.row + n;
        *d = g[e] + (p.adds >> DINITIAL & 1 ? *d : 0);
    });
}

template <typename T, int N>
__global__ void __launch_bounds__(8 * N, 384 / (8 * N)) scan_bwd_tiles(const __grid_constant__ scan_operands<T> p)
{
    constexpr int     NT = 8 * N;
    extern __shared__ __align__(16) char smem[];
    bwd_smem<T, N>                      &sm = *(bwd_smem<T, N> *)smem;
    const int tid = threadIdx.x, lane = tid % 32, warp = tid / 32, l4 = lane & 3, l8 = lane >> 2, wc = warp * (128 / N);
    float     A2[4], g[4], start[4];

    // 1. pointers and parameters
    const block_work a = block_work_of(p, CH);
    find_origins(sm.at, p, a, tid);
    for (int s = tid; s < SLOTS; s += NT) sm.dD[s] = sm.dbias[s] = make_float4(0, 0, 0, 0);
    for (int c = tid; c < CH; c += NT) {
        const bool in = a.channel + c < a.channels;
        ((float *)sm.bias)[c] = in && p.bias ? p.bias[a.channel + c] : 0;
        ((float *)sm.skip)[c] = in && p.skip ? p.skip[a.channel + c] : 0;
    }
    __syncthreads();

    // 2. loop over tiles, last to first, once per group of states
    const int turns = p.padded / N * tiles_of(sm);
    load_tile<T, N>(p, sm, turns - 1);
    load_state<T, N>(start, p, sm, turns - 1);
    for (int turn = turns - 1; turn >= 0; turn--) {
        const turn_of<N> v(turn, tiles_of(sm), p.N);
        if (v.tile == tiles_of(sm) - 1) { // a group begins
#pragma unroll
            for (int e = 0; e < 4; e++) A2[e] = g[e] = 0;
            each_element<N>(p, sm, v.state, [&](int e, int c, int n) {
                const int64_t ch = sm.at.a.channel + c;
                A2[e] = A2_of(p.A_log.at[ch * p.A_log.row + n]);
                if (p.start_back.at) g[e] = p.start_back.sequence(sm.at.a.item)[ch * p.start_back.row + n];
            });
            sm.dA[tid] = make_float4(0, 0, 0, 0);
        }
        if (turn < turns - 1) finish_tile<T, N>(p, sm, turn + 1);
        sm.start[tid] = make_float4(start[0], start[1], start[2], start[3]);
        copy_async_wait<0>();
        begin_tile<T, N>(p, sm, turn);
        __syncthreads();
        if (turn) load_tile<T, N>(p, sm, turn - 1);
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
        if (turn) load_state<T, N>(start, p, sm, turn - 1);
        if (v.tile == 0) finish_group<T, N>(p, sm, v.state, g);
        __syncthreads();
    }
    finish_tile<T, N>(p, sm, 0);

    // 3. partial sums of dD and ddt_bias
    __syncthreads();
    for (int c = tid; c < CH && sm.at.a.channel + c < sm.at.a.channels; c += NT) {
        float s = 0, b = 0;
        for (int i = 0; i < TILE; i++) {
            s += ((const float *)&sm.dD[i * CQ])[c];
            b += ((const float *)&sm.dbias[i * CQ])[c];
        }
        float *to = p.sums + sm.at.a.item * p.D * (p.N + 2) + (int64_t)p.D * p.N + sm.at.a.channel + c;
        to[0] = s;
        to[p.D] = b;
    }
}

template <typename T, int N> static mba_status launch_backward(const mba_call *c, int k, const scan_operands<T> &p)
{
    auto *kernel = scan_bwd_tiles<T, N>;
    mba_assert(sizeof(bwd_smem<T, N>) <= c->plan->launch[k].smem_bytes);
    MBA_KERNEL(c, k, kernel, p);
    return MBA_OK;
}

template <typename T> static mba_status backward(const mba_call *c)
{
    const mba_node  *n = c->node;
    const int        main = c->plan->nlaunches - 3;
    const int64_t    items = c->plan->launch[main].grid[0], N = scan_group_states(scan_dims_of(n).N);
    T               *ys = n->out[DZ] ? (T *)mba_cuda_scratch(c, CU_YS) : NULL;
    scan_operands<T> p = scan_bwd_operands_of<T>(c, items, TILE_CHANNELS);
    int              k = 0;
    p.kept = (float *)mba_cuda_scratch(c, CU_KEPT);
    p.partial = (float *)mba_cuda_scratch(c, CU_PARTIAL);
    p.ys = ys;
    p.aligned4 = all_vec_aligned<4>(p);
    MBA_TRY(scan_states<T>(c, &k, items, p.kept, ys));
    MBA_TRY(scan_carries(c, &k, &p, true));
    if (N == 4) MBA_TRY((launch_backward<T, 4>(c, k, p)));
    if (N == 8) MBA_TRY((launch_backward<T, 8>(c, k, p)));
    if (N == 16) MBA_TRY((launch_backward<T, 16>(c, k, p)));
    return scan_sums(c, k + 1, p);
}

extern "C" mba_status selective_scan_bwd_tiles_cuda(const mba_call *c)
{
    return c->node->in[U]->type.dtype == MBA_F32 ? backward<float>(c) : backward<bf16>(c);
}
