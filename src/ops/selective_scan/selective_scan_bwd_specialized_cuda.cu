// SPDX-License-Identifier: Apache-2.0
/* selective_scan_bwd_specialized_cuda.cu -- variant `specialized` of selective_scan (Mamba-1), backward, from the
 * states that the forward pass saved: bf16, 8 or 16 states.
 *
 *   lam_t = C dy + a_{t+1} lam_{t+1};   q = sum_n lam B;   v = a lam h_{t-1};   r = sum_n A2 v
 *   du = D dy + dt q     ddelta = (u q + ln2 r) (1 - e^-dt)     dz = dout y silu'(z)     dB = lam dt u     dC = dy h
 *
 * kernel     scan_bwd_specialized     a warp holds 128 states of 8 or 16 channels; tiles from last to first, the states
 *            within a tile recomputed in registers
 * takes      bf16, N = 8 or 16, D/G a multiple of 4, rows aligned to four values, saved states and y
 * launch     grid (items, blocks of 32 channels), block 8 N, dynamic smem 53 KB, 36 KB for N = 8
 * resources  sm_90a, CUDA 13.0: 159 to 167 registers, no spill  [docs]
 *            blocks per SM: 3, 6 for N = 8
 * moves      u, delta, z, dout, y, states in; du, ddelta, dz out, once each; 2N/32 fp32 of dB and dC per token and
 * channel:
 *            bound by instruction issue
 * floor      8 x 2048 x 4096, N = 16, bf16: 377 us of DRAM, 500 us of exponentials
 * measured   H200: 939 us, 26 % of floor (memory), L1/shared 64 % busy; mamba-370m, 4 x 4096  [docs]
 * order      fixed: time descends, warps in order; scan_sums_* adds blocks of channels and items
 *
 * Rows of a warp's 16 x 8 tile are states, columns channels; element e of a lane (l4 = lane%4, l8 = lane/4):
 *   N = 16   state 2 l8 + e/2, channel 2 l4 + e%2 of eight
 *   N = 8    state l8, channel 4 l4 + e of sixteen
 * A pair of elements is an operand b of mma.sync in this layout (k: channels, n: states). With dt u (or dy) of one
 * token as the only nonzero row of a, the product sums lam dt u (or h dy) over the warp's channels: dB in rows 0 .. 7
 * of the result, dC in rows 8 .. 15. q and r are sums over states, across lanes, in fp32: gradients of parameters are
 * sums of them over all tokens. */
#include "device/cuda/block_timestamps.cuh"
#include "ops/selective_scan/selective_scan_cuda.cuh"

enum { CH = TILE_CHANNELS, CQ = CH / 4, SLOTS = TILE * CQ }; /* SLOTS: vectors of four channels per tile */

template <int N> struct bwd_specialized_smem {
    enum {
        NT = 8 * N,
        PAD = N == 16 ? 8 : 16,
        PARTS = N == 16 ? 2 : 1
    }; /* PAD: avoids bank conflicts between rows of x and dy */
    float         dt[TILE][CH], x[TILE][PARTS][CH + PAD], dy[TILE][PARTS][CH + PAD]; /* x: dt u; store_parts() */
    float         b[TILE][N + 8], c[TILE][N + 8];
    float         q[TILE][CH + 4], r[TILE][CH + 4];
    float         bc[N / 4][TILE][2 * N + 4];                   /* dB | dC of each warp */
    float4        step[SLOTS], dD[SLOTS], dbias[SLOTS], dA[NT]; /* private to each thread: no barrier needed */
    float4        bias[CQ], skip[CQ];
    float         kept[2][2][NT][4]; /* private: states before both halves of a tile, of this tile and the next */
    quad<bf16>    stage[5][SLOTS], stage_bc[NT], u[SLOTS]; /* private: u, delta, z, dout, y; u of the previous tile */
    document      doc[SLOTS];
    origins<bf16> at;
};

/* ---- one lane's four elements ---- */

template <int N> static __device__ __forceinline__ int channel_of_lane(int e, int l4)
{
    return N == 16 ? 2 * l4 + (e & 1) : 4 * l4 + e;
}
template <int N> static __device__ __forceinline__ int state_of_lane(int e, int l8)
{
    return N == 16 ? 2 * l8 + (e >> 1) : l8;
}

/* Loads the values of a lane's four elements from a row of channels (dt, x, dy) or of states (b, c). */
template <int N> static __device__ __forceinline__ void by_channel(float (&v)[4], const float *row, int l4)
{
    if (N == 16) {
        const float2 a = *(const float2 *)(row + 2 * l4);
        v[0] = v[2] = a.x;
        v[1] = v[3] = a.y;
    } else {
        const float4 a = *(const float4 *)(row + 4 * l4);
        v[0] = a.x;
        v[1] = a.y;
        v[2] = a.z;
        v[3] = a.w;
    }
}

template <int N> static __device__ __forceinline__ void by_state(float (&v)[4], const float *row, int l8)
{
    const float2 a = N == 16 ? *(const float2 *)(row + 2 * l8) : make_float2(row[l8], 0);
    v[0] = v[1] = a.x;
    v[2] = v[3] = N == 16 ? a.y : a.x;
}

/* The state before half a tile, as load_tile_async() left it: N = 16 two states of a channel, then of the next. A
 * channel out of range gets another's: its dt, x and dy are zero, so it has no effect. */
template <int N> static __device__ __forceinline__ void read_saved(float (&h)[4], const float *from)
{
    const float4 k = *(const float4 *)from;
    h[0] = k.x;
    h[1] = N == 16 ? k.z : k.y;
    h[2] = N == 16 ? k.y : k.z;
    h[3] = k.w;
}

/* Four values of a row (x, dy). N = 16 multiplies on tf32 tensor cores without loss: a value is the sum of two
 * operands, one row apart, which are two k of one product. N = 8 multiplies in fp32; only its sums over channels
 * truncate. */
template <int N, int ROW> static __device__ __forceinline__ void store_parts(float *to, const float (&v)[4])
{
    float r[4];
#pragma unroll
    for (int e = 0; e < 4; e++) {
        r[e] = v[e] - tf32_of(v[e]);
    }
    write4(to, v);
    if (N == 16) write4(to + ROW, r);
}

/* Computes h over eight tokens from `from` on; h[0] is the state before. */
template <int N>
static __device__ __forceinline__ void recompute_states(float (&h)[9][4], float (&decay)[8][4], const float (&A2)[4],
                                                        const bwd_specialized_smem<N> &sm, int from, int wc, int l4,
                                                        int l8)
{
    float2 b = {};
    float  x = 0;
#pragma unroll
    for (int k = 0; k < 8; k++) {
        float dt[4], bx[4] = { 0, 0, 0, 0 }, bv[4], xv[4];
        by_channel<N>(dt, &sm.dt[from + k][wc], l4);
        if (N == 16) { // a separate product leaves one FMA from state to state
            if (k % 2 == 0) {
                b = *(const float2 *)&sm.b[from + k + l4 / 2][l8 * 2];
                x = sm.x[from + k + l4 / 2][l4 & 1][wc + l8];
            }
            mma_tf32_k4(bx, b.x, b.y, l4 / 2 == k % 2 ? x : 0); // two k per token; those of the other are zero
        } else {
            by_state<N>(bv, sm.b[from + k], l8);
            by_channel<N>(xv, &sm.x[from + k][0][wc], l4);
        }
#pragma unroll
        for (int e = 0; e < 4; e++) {
            decay[k][e] = fast_exp2(dt[e] * A2[e]);
            h[k + 1][e] = N == 16 ? fmaf(decay[k][e], h[k][e], bx[e]) : fmaf(bv[e], xv[e], decay[k][e] * h[k][e]);
        }
    }
}

/* Sums over channels for eight tokens on tensor cores: row k is token k of lam dt u, row k + 8 that of h dy; columns
 * are the states of elements 0 and 1 (N = 16: and of 2 and 3). The other rows are unused. */
template <int N> struct sums_of_lane {
    float b[N / 8][4], c[N / 8][4];
};

template <int N>
static __device__ __forceinline__ void add_token(sums_of_lane<N> &s, int k, int l8, const float (&lam)[4],
                                                 const float (&h)[4], const float (&x)[4], const float (&dy)[4])
{
    constexpr int LAST = N / 8 - 1;
    const bool    here = l8 == k;
#pragma unroll
    for (int i = 0; i < 2; i++) { // i = 1: other states (N = 16) or other channels (N = 8)
        const int   e = N == 16 ? 0 : 2 * i;
        const float a[4] = { here ? x[e] : 0, here ? dy[e] : 0, here ? x[e + 1] : 0, here ? dy[e + 1] : 0 };
        mma_tf32_k8(s.b[i * LAST], a[0], a[1], a[2], a[3], lam[2 * i], lam[2 * i + 1]);
        mma_tf32_k8(s.c[i * LAST], a[0], a[1], a[2], a[3], h[2 * i], h[2 * i + 1]);
    }
}

/* Sums q and r of tokens k and k + 1 over the eight lanes that hold a channel's states; v: two channels of q, then of
 * r, of each token. Every lane gets one of eight sums. */
static __device__ __forceinline__ void sum_states(bwd_specialized_smem<16> &sm, int t, int wc, int l4, int l8,
                                                  const float (&v)[2][4])
{
    float s[2];
#pragma unroll
    for (int i = 0; i < 2; i++) s[i] = fold(fold(v[i][0], v[i][1], 4), fold(v[i][2], v[i][3], 4), 8);
    (l8 & 2 ? sm.r : sm.q)[t + (l8 >> 2)][wc + 2 * l4 + (l8 & 1)] = fold(s[0], s[1], 16);
}

/* The same for one token of four channels with N = 8. */
static __device__ __forceinline__ void sum_states(bwd_specialized_smem<8> &sm, int t, int wc, int l4, int l8,
                                                  const float (&q)[4], const float (&r)[4])
{
    const float qs = fold(fold(q[0], q[1], 4), fold(q[2], q[3], 4), 8),
                rs = fold(fold(r[0], r[1], 4), fold(r[2], r[3], 4), 8);
    (l8 & 4 ? sm.r : sm.q)[t][wc + 4 * l4 + (l8 & 3)] = fold(qs, rs, 16);
}

template <int N>
static __device__ __forceinline__ void store_sums(bwd_specialized_smem<N> &sm, const sums_of_lane<N> &s, int from,
                                                  int warp, int l4, int l8)
{
    float *bc = sm.bc[warp][from + l8];
    if (N == 16) {
        constexpr int LAST = N / 8 - 1;
        *(float4 *)(bc + 4 * l4) = make_float4(s.b[0][0], s.b[LAST][0], s.b[0][1], s.b[LAST][1]);
        *(float4 *)(bc + 16 + 4 * l4) = make_float4(s.c[0][2], s.c[LAST][2], s.c[0][3], s.c[LAST][3]);
    } else {
        *(float2 *)(bc + 2 * l4) = make_float2(s.b[0][0], s.b[0][1]);
        *(float2 *)(bc + 8 + 2 * l4) = make_float2(s.c[0][2], s.c[0][3]);
    }
}

/* Eight adjoint steps, last token first. g is a_{t+1} lam_{t+1} of the last token on entry, a lam of the first on
 * exit. */
template <int N>
static __device__ __forceinline__ void adjoint_steps(float (&g)[4], const float (&h)[9][4], const float (&decay)[8][4],
                                                     const float (&A2)[4], bwd_specialized_smem<N> &sm, int from,
                                                     int warp, int wc, int l4, int l8)
{
    float2          c = {};
    float           y = 0, dA[4] = { 0, 0, 0, 0 }, xs[4], ys[4], pair[2][4];
    sums_of_lane<N> s = {};
    by_channel<N>(xs, &sm.x[from + l8][0][wc], l4); // token: lane/4
    by_channel<N>(ys, &sm.dy[from + l8][0][wc], l4);
#pragma unroll
    for (int k = 7; k >= 0; k--) {
        float lam[4] = { g[0], g[1], g[2], g[3] }, q[4], r[4], b[4], dt[4];
        if (N == 16) {
            if (k % 2) {
                c = *(const float2 *)&sm.c[from + k - 1 + l4 / 2][l8 * 2];
                y = sm.dy[from + k - 1 + l4 / 2][l4 & 1][wc + l8];
            }
            mma_tf32_k4(lam, c.x, c.y, l4 / 2 == k % 2 ? y : 0);
        } else {
            float cv[4], yv[4];
            by_state<N>(cv, sm.c[from + k], l8);
            by_channel<N>(yv, &sm.dy[from + k][0][wc], l4);
#pragma unroll
            for (int e = 0; e < 4; e++) lam[e] = fmaf(cv[e], yv[e], lam[e]);
        }
        by_state<N>(b, sm.b[from + k], l8);
        by_channel<N>(dt, &sm.dt[from + k][wc], l4);
        adjoint_step(g, q, r, dA, lam, decay[k], h[k], A2, b, dt);
        add_token<N>(s, k, l8, lam, h[k + 1], xs, ys);
        if constexpr (N == 16) {
            pair[k & 1][0] = q[0] + q[2];
            pair[k & 1][1] = q[1] + q[3];
            pair[k & 1][2] = r[0] + r[2];
            pair[k & 1][3] = r[1] + r[3];
            if (k % 2 == 0) sum_states(sm, from + k, wc, l4, l8, pair);
        } else {
            sum_states(sm, from + k, wc, l4, l8, q, r);
        }
    }
    store_sums<N>(sm, s, from, warp, l4, l8);
    const float4 sum = sm.dA[threadIdx.x];
    sm.dA[threadIdx.x] = make_float4(sum.x + dA[0], sum.y + dA[1], sum.z + dA[2], sum.w + dA[3]);
}

/* ---- asynchronous loads of a tile: each thread loads what it reads itself, so that no barrier is needed ---- */

template <int N>
static __device__ __forceinline__ void load_documents_async(const scan_operands<bf16> &p, bwd_specialized_smem<N> &sm,
                                                            int t, int s)
{
    const bool leads = p.pack > 1 ? t % p.L == 0 : t + sm.at.a.first == 0;
    if (p.ids.at && !leads) {
        const int32_t *ids = sm.at.ids + t * p.ids.row;
        copy_async<4>(&sm.doc[s].here, ids);
        copy_async<4>(&sm.doc[s].before, ids - p.ids.row);
    } else {
        sm.doc[s] = read_document(NULL, 0, t, leads, p.pack > 1);
    }
}

/* REGULAR, here and below: the case of ordinary models, without checks: whole tiles and blocks of channels, gated, all
 * three gradients stored (not added), no documents. */
template <int N, bool REGULAR>
static __device__ __forceinline__ void load_tile_async(const scan_operands<bf16> &p, bwd_specialized_smem<N> &sm,
                                                       int tile)
{
    constexpr int  NT = 8 * N, RP = NT / CQ, NP = TILE / RP, BQ = N / 2;
    const unsigned me = (unsigned)thread_id_reread();
    const int      left = sm.at.a.channels - sm.at.a.channel, last = REGULAR ? INT32_MAX : sm.at.a.length - 1;
    const int      column = REGULAR || (int)(me % CQ * 4) < left ? me % CQ * 4 : 0;
    const int      l4 = me & 3, l8 = me % 32 / 4, c = me / 32 * (128 / N) + channel_of_lane<N>(0, l4);
    const bool     is_c = me % BQ >= N / 4;
    // addresses first: a load from shared memory between two asynchronous copies costs three idle issue slots
    const bf16 *u = sm.at.u + column, *delta = sm.at.delta + column, *z = sm.at.z + column, *dout = sm.at.dout + column,
               *ys = sm.at.ys + column;
    const bf16  *bc = row_at((is_c ? sm.at.C : sm.at.B) + me % (N / 4) * 4, min(tile * TILE + (int)(me / BQ), last),
                             2 * (int)(is_c ? p.C.row : p.B.row));
    const float *kept = sm.at.kept + (REGULAR || c < left ? c : 0) * N + (N == 16 ? 2 * l8 : l8);
#pragma unroll
    for (int i = 0; i < NP; i++) {
        const int t = min(tile * TILE + (int)(me / CQ) + i * RP, last), s = me + i * NT;
        copy_async<8>(&sm.stage[0][s], row_at(u, t, 2 * (int)p.u.row));
        copy_async<8>(&sm.stage[1][s], row_at(delta, t, 2 * (int)p.delta.row));
        if (REGULAR || p.z.at) copy_async<8>(&sm.stage[2][s], row_at(z, t, 2 * (int)p.z.row));
        if (REGULAR || p.dout.at) copy_async<8>(&sm.stage[3][s], row_at(dout, t, 2 * (int)p.dout.row));
        if (REGULAR || p.dz.at) copy_async<8>(&sm.stage[4][s], row_at(ys, t, 2 * p.D));
    }
    copy_async<8>(&sm.stage_bc[me], bc);
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const float *k = row_at(kept, min(2 * tile + half, last / SAVE_EVERY), 4 * N * p.D);
#pragma unroll
        for (int i = 0; i < 32 / N; i++) // all channels of a lane are in range, or none
            copy_async<N / 2>(&sm.kept[tile & 1][half][me][N / 8 * i], k + i * N);
    }
    if (!REGULAR && (p.ids.at || p.pack > 1)) {
#pragma unroll
        for (int i = 0; i < NP; i++)
            load_documents_async<N>(p, sm, min(tile * TILE + (int)(me / CQ) + i * RP, last), me + i * NT);
    }
    copy_async_commit();
}

static __device__ __forceinline__ void add4_global(const bf16 *at, float (&v)[4])
{
    float old[4];
    values(old, read4_global(at));
#pragma unroll
    for (int e = 0; e < 4; e++) v[e] += old[e];
}

/* ---- beginning of a tile that has arrived: step sizes, dz, operands of the state loop ---- */

template <int N, bool REGULAR>
static __device__ __forceinline__ void begin_tile(const scan_operands<bf16> &p, bwd_specialized_smem<N> &sm, int tile)
{
    constexpr int  NT = 8 * N, RP = NT / CQ, NP = TILE / RP, BQ = N / 2;
    const unsigned me = (unsigned)thread_id_reread(), cq = me % CQ;
#pragma unroll
    for (int i = 0; i < NP; i++) {
        const int    row = me / CQ + i * RP, t = tile * TILE + row, s = me + i * NT;
        const bool   in = REGULAR || (t < sm.at.a.length && sm.at.a.channel + 4 * cq < sm.at.a.channels);
        const float4 b4 = sm.bias[cq], D4 = sm.dD[s];
        const float  bias[4] = { b4.x, b4.y, b4.z, b4.w };
        float        u[4], dt[4], dy[4] = { 0, 0, 0, 0 }, x[4];
        sm.u[s] = sm.stage[0][s];
        values(u, sm.stage[0][s]);
        values(dt, sm.stage[1][s]);
        if (REGULAR || p.dout.at) values(dy, sm.stage[3][s]);
        if (REGULAR || p.z.at) {
            float z[4], y[4] = { 0, 0, 0, 0 }, dz[4];
            values(z, sm.stage[2][s]);
            if (REGULAR || p.dz.at) values(y, sm.stage[4][s]);
#pragma unroll
            for (int e = 0; e < 4; e++) {
                const float sg = gate_sigmoid<false>(z[e]), w = z[e] * sg;
                dz[e] = dy[e] * y[e] * fmaf(w, 1 - sg, sg);
                dy[e] *= w;
            }
            if (REGULAR || (p.dz.at && in)) {
                bf16 *to = row_at(sm.at.dz + 4 * cq, t, 2 * (int)p.dz.row);
                if (!REGULAR && p.adds >> DZ & 1) add4_global(to, dz);
                write4_global(to, dz);
            }
        }
        if (in)
            sm.dD[s] = make_float4(fmaf(dy[0], u[0], D4.x), fmaf(dy[1], u[1], D4.y), fmaf(dy[2], u[2], D4.z),
                                   fmaf(dy[3], u[3], D4.w));
#pragma unroll
        for (int e = 0; e < 4; e++) {
            dt[e] = step_of<false>(dt[e] + bias[e]);
            x[e] = dt[e] * u[e];
            if (!in) x[e] = dy[e] = 0;
        }
        const float4 d4 = make_float4(dt[0], dt[1], dt[2], dt[3]);
        float4      *to_dt = (float4 *)&sm.dt[row][cq * 4];
        sm.step[s] = d4;
        *to_dt = d4;
        store_parts<N, CH + bwd_specialized_smem<N>::PAD>(&sm.x[row][0][cq * 4], x);
        store_parts<N, CH + bwd_specialized_smem<N>::PAD>(&sm.dy[row][0][cq * 4], dy);
        if (!REGULAR && (p.ids.at || p.pack > 1) && sm.doc[s].here != sm.doc[s].before)
            *to_dt = make_float4(RESET_STEP, RESET_STEP, RESET_STEP, RESET_STEP);
        if (!in) *to_dt = make_float4(0, 0, 0, 0);
    }
    float v[4];
    values(v, sm.stage_bc[me]);
    write4((me % BQ >= N / 4 ? sm.c : sm.b)[me / BQ] + me % (N / 4) * 4, v);
}

/* ---- end of a tile: gradients from its q, r, dB and dC ---- */

template <int N, bool REGULAR>
static __device__ __forceinline__ void finish_tile(const scan_operands<bf16> &p, bwd_specialized_smem<N> &sm, int tile)
{
    constexpr int  NT = 8 * N, RP = NT / CQ, NP = TILE / RP, BQ = N / 2;
    const unsigned me = (unsigned)thread_id_reread(), cq = me % CQ;
    const int      length = REGULAR ? INT32_MAX : sm.at.a.length;
    const float4   k = sm.skip[cq];
    const float    skip[4] = { k.x, k.y, k.z, k.w };
#pragma unroll
    for (int i = 0; i < NP; i++) {
        const int    row = me / CQ + i * RP, t = tile * TILE + row, s = me + i * NT;
        const float4 q4 = *(const float4 *)&sm.q[row][cq * 4], r4 = *(const float4 *)&sm.r[row][cq * 4];
        const float4 y4 = *(const float4 *)&sm.dy[row][0][cq * 4], d4 = sm.step[s], b = sm.dbias[s];
        const float  q[4] = { q4.x, q4.y, q4.z, q4.w }, r[4] = { r4.x, r4.y, r4.z, r4.w },
                    dy[4] = { y4.x, y4.y, y4.z, y4.w };
        const float dt[4] = { d4.x, d4.y, d4.z, d4.w };
        float       u[4], du[4], dd[4];
        values(u, sm.u[s]);
#pragma unroll
        for (int e = 0; e < 4; e++) {
            dd[e] = fmaf(u[e], q[e], LN2 * r[e]) * step_slope<false>(dt[e]);
            du[e] = fmaf(dt[e], q[e], skip[e] * dy[e]);
        }
        if (!REGULAR && (t >= length || sm.at.a.channel + 4 * cq >= sm.at.a.channels)) continue;
        sm.dbias[s] = make_float4(b.x + dd[0], b.y + dd[1], b.z + dd[2], b.w + dd[3]);
        if (REGULAR || p.du.at) {
            bf16 *to = row_at(sm.at.du + 4 * cq, t, 2 * (int)p.du.row);
            if (!REGULAR && p.adds >> DU & 1) add4_global(to, du);
            write4_global(to, du);
        }
        if (REGULAR || p.ddelta.at) {
            bf16 *to = row_at(sm.at.ddelta + 4 * cq, t, 2 * (int)p.ddelta.row);
            if (!REGULAR && p.adds >> DDELTA & 1) add4_global(to, dd);
            write4_global(to, dd);
        }
    }
    const int row = me / BQ, v = me % BQ * 4, t = tile * TILE + row;
    float4    s = *(const float4 *)&sm.bc[0][row][v];
#pragma unroll
    for (int w = 1; w < NT / 32; w++) {
        const float4 x = *(const float4 *)&sm.bc[w][row][v];
        s.x += x.x;
        s.y += x.y;
        s.z += x.z;
        s.w += x.w;
    }
    if (REGULAR || t < length) *(float4 *)row_at(sm.at.bc + v, t, 8 * N) = s;
}

/* ---- end of an item: partial sums of the parameter gradients, and the gradient of the initial state ---- */

template <int N>
static __device__ __forceinline__ void finish_item(const scan_operands<bf16> &p, bwd_specialized_smem<N> &sm,
                                                   const float (&g)[4])
{
    const block_work a = sm.at.a;
    const int        me = thread_id_reread();
    const float4     sum = sm.dA[me];
    const float      dA[4] = { sum.x, sum.y, sum.z, sum.w };
    float           *dinitial = p.dinitial.at && a.first == 0 ? p.dinitial.sequence(a.sequence) : NULL;
#pragma unroll
    for (int e = 0; e < 4; e++) {
        const int64_t c = a.channel + me / 32 * (128 / N) + channel_of_lane<N>(e, me & 3);
        const int     n = state_of_lane<N>(e, me % 32 / 4);
        if (c >= a.channels) continue;
        p.sums[a.item * p.D * (N + 2) + c * N + n] = dA[e];
        if (!dinitial) continue;
        float *d = dinitial + c * p.dinitial.row + n;
        *d = g[e] + (p.adds >> DINITIAL & 1 ? *d : 0);
    }
    __syncthreads();
    if (me >= CQ || a.channel + 4 * me >= a.channels) return;
    float4 s = make_float4(0, 0, 0, 0), b = s;
    for (int i = 0; i < TILE; i++) {
        const float4 x = sm.dD[me + i * CQ], y = sm.dbias[me + i * CQ];
        s.x += x.x;
        s.y += x.y;
        s.z += x.z;
        s.w += x.w;
        b.x += y.x;
        b.y += y.y;
        b.z += y.z;
        b.w += y.w;
    }
    float *to = p.sums + a.item * p.D * (N + 2) + (int64_t)p.D * N + a.channel + 4 * me;
    *(float4 *)to = s;
    *(float4 *)(to + p.D) = b;
}

/* Blocks per SM with 8 states: on sm_100 six blocks would leave one register too few. */
#if defined __CUDA_ARCH__ && __CUDA_ARCH__ >= 1000
#define BLOCKS_PER_SM_8 4
#else
#define BLOCKS_PER_SM_8 6
#endif

template <int N, bool REGULAR>
__global__ void __launch_bounds__(8 * N, N == 16 ? 3 : BLOCKS_PER_SM_8)
    scan_bwd_specialized(const __grid_constant__ scan_operands<bf16> p)
{
    MBA_BLOCK_TIMESTAMPS;
    constexpr int     NT = 8 * N, WIDE = 128 / N;
    extern __shared__ __align__(16) char smem[];
    bwd_specialized_smem<N>             &sm = *(bwd_specialized_smem<N> *)smem;
    const int tid = threadIdx.x, lane = tid % 32, warp = tid / 32, l4 = lane & 3, l8 = lane >> 2, wc = warp * WIDE;
    float     A2[4], g[4];
    bool      mine;

    // 1. pointers, parameters, initial adjoint
    {
        const block_work a = block_work_of(p, CH);
        const float     *start = p.start_back.at ? p.start_back.sequence(a.item) : NULL;
        find_origins(sm.at, p, a, (int)tid);
        mine = REGULAR || a.channel + wc + channel_of_lane<N>(0, l4) < a.channels;
#pragma unroll
        for (int e = 0; e < 4; e++) {
            const int64_t c = a.channel + wc + channel_of_lane<N>(e, l4), n = state_of_lane<N>(e, l8);
            A2[e] = mine ? A2_of(p.A_log.at[c * p.A_log.row + n]) : 0;
            g[e] = start && mine ? start[c * p.start_back.row + n] : 0;
        }
        sm.dA[tid] = make_float4(0, 0, 0, 0);
        for (int s = tid; s < SLOTS; s += NT) sm.dD[s] = sm.dbias[s] = make_float4(0, 0, 0, 0);
        if (tid < CH) {
            const bool in = a.channel + tid < a.channels;
            ((float *)sm.bias)[tid] = in && p.bias ? p.bias[a.channel + tid] : 0;
            ((float *)sm.skip)[tid] = in && p.skip ? p.skip[a.channel + tid] : 0;
        }
    }
    __syncthreads();

    // 2. loop over tiles, last to first: one barrier before the state loop reads a tile, one before its sums are read
    const int tiles = (sm.at.a.length + TILE - 1) / TILE;
    load_tile_async<N, REGULAR>(p, sm, tiles - 1);
    for (int tile = tiles - 1; tile >= 0; tile--) {
        if (tile < tiles - 1) finish_tile<N, REGULAR>(p, sm, tile + 1);
        copy_async_wait<0>();
        begin_tile<N, REGULAR>(p, sm, tile);
        __syncthreads();
        if (tile) load_tile_async<N, REGULAR>(p, sm, tile - 1);
#pragma unroll 1
        for (int half = REGULAR || tile * TILE + SAVE_EVERY < sm.at.a.length; half >= 0; half--) {
            float h[SAVE_EVERY + 1][4], decay[SAVE_EVERY][4];
            read_saved<N>(h[0], sm.kept[tile & 1][half][tid]);
            recompute_states<N>(h, decay, A2, sm, half * SAVE_EVERY, wc, l4, l8);
            adjoint_steps<N>(g, h, decay, A2, sm, half * SAVE_EVERY, warp, wc, l4, l8);
        }
        __syncthreads();
    }
    finish_tile<N, REGULAR>(p, sm, 0);

    // 3. sums over time
    finish_item<N>(p, sm, g);
}

extern "C" mba_status selective_scan_bwd_specialized_cuda(const mba_call *c)
{
    const int           main = c->plan->nlaunches - 3;
    int                 k = 0;
    scan_operands<bf16> p = scan_bwd_operands_of<bf16>(c, c->plan->launch[main].grid[0], TILE_CHANNELS);
    set_saved_states(&p, c->node->in[KEPT_IN], (void *)c->in[KEPT_IN]); // read only
    p.ys = (bf16 *)c->in[YS_IN];
    p.aligned4 = true; // the plan refuses others
    MBA_TRY(scan_aligned_bc(c, &k, &p));
    MBA_TRY(scan_carries(c, &k, &p, true));
    mba_assert(k == main);
    mba_assert((p.N == 16 ? sizeof(bwd_specialized_smem<16>) : sizeof(bwd_specialized_smem<8>))
               <= c->plan->launch[k].smem_bytes);
    const uint32_t added = 1u << DU | 1u << DDELTA | 1u << DZ;
    const bool     plain = p.L % TILE == 0 && p.Dg % CH == 0 && p.z.at && p.dout.at && p.du.at && p.ddelta.at && p.dz.at
                       && !(p.adds & added) && !p.ids.at && p.pack == 1;
    auto *kernel = p.N == 8 ? (plain ? scan_bwd_specialized<8, true> : scan_bwd_specialized<8, false>)
                            : (plain ? scan_bwd_specialized<16, true> : scan_bwd_specialized<16, false>);
    MBA_KERNEL(c, k, kernel, p);
    return scan_sums(c, k + 1, p);
}
