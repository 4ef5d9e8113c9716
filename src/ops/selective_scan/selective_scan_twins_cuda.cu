/* selective_scan_twins_cuda.cu -- the scan of Mamba-1, forward: bf16, 8 or 16 states.
 *
 *   h = 2^(dt A2) h + dt u B,   out = (C h + D u) silu(z),   dt = softplus(delta + dt_bias)
 *   u, delta, z, out (B, L, D), B, C (B, L, G, N), kept (items, tiles, D, N) bf16   A_log (D, N), states (B, D, N) fp32
 *
 * kernel     scan_fwd_twins     four warps hold 128 states each and nothing else; two make step sizes, gate and store, or
 *                               two make step sizes and two gate and store (SPLIT, where there are at most 3 blocks an SM)
 * takes      bf16, N = 8 or 16, D/G a multiple of 4, rows that begin at multiples of four values (faster: of eight)
 * launch     grid (items, blocks of 512/N channels), block 192 or 256, dynamic smem 36 KB (N = 16), 54 KB (N = 8)
 * resources  sm_90a, CUDA 13.0: 78 to 80 registers, no spill; 4 blocks an SM, 3 of 256 threads
 * moves      u, delta, z, B, C in, out, y and kept states once each: bound by exponentials and instructions
 * floor      8 x 2048 x 4096, N = 16: one exponential per element, 331 us at 16 a clock and SM, 1.73 GHz
 * measured   H200: 8 x 2048 x 1536 189 us, 32 x 512 x 1536 181, 4 x 4096 x 1536 257, 8 x 2048 x 4096 472,
 *            4 x 4096 x 4096 485, 1 x 32768 x 1536 666 with its carries; a tile 0.59, 0.99, 1.45, 1.82 us with 1 to 4
 *            blocks an SM
 * order      fixed: time ascends, pieces of a sequence in order
 *
 * A lane has one 16 x 8 accumulator of mma.sync. Which channel a row and which state a column stands for is free
 * (l4 = lane%4, l8 = lane/4, element e):
 *   N = 16   channel l8 of eight, state 4 l4 + e: rows 8 .. 15 are the same channels again, with other states
 *   N = 8    channel l8 + 8 (e/2) of sixteen, state 2 l4 + e%2
 * So all states of a channel are in one warp, each of the SM's four schedulers has one heavy warp of every block, and
 * the state as it lies is an operand a of the product that sums C h (rows of it are not rows of the state: see
 * twins_tokens). */
#include "ops/selective_scan/selective_scan_cuda.cuh"

enum { SCANNERS = 128, ELEMENTS = 64, HANDS = SCANNERS + ELEMENTS, FULL = 1, DONE = 3, EMPTY = 5, RING = 4 };

/* What the tensor cores lose of C h by dropping bits of h, on average: 0.72 of 2^-11. */
#define TF32_LOSS 1.000352f

template <int N> struct twins_smem {
    enum { CH = 512 / N, CO = CH / 8, OCTET = 36, VALUES = TILE * CO };   /* OCTET: 8 channels x 4 tokens, padded */
    struct buffer {
        float dt[TILE / 4][CO][OCTET];                        /* four tokens of a channel lie together */
        float x[TILE][CH + 8];                                /* dt u, and in its place C h */
        float b[TILE][N];
        float c[TILE][64];                                    /* as operand b of mma.sync, zeros and all: see put_c */
    } buf[2];
    struct slot {                                             /* a tile as it arrives: private to who asked, but u */
        uint4 u[VALUES], delta[VALUES], z[VALUES];
        typename word<N>::type bc[ELEMENTS];
    } ring[RING];
    float         bias[CH], skip[CH];
    origins<bf16> at;
};

/* ---- element-wise: asks for tiles two ahead, finishes two behind ---- */

template <int N> struct twins_role {
    enum { CO = 64 / N, RP = ELEMENTS / CO, NP = TILE / RP };
    const bf16    *u, *delta, *z, *bc;                        /* at this thread's columns */
    bf16          *out, *ys;
    const int32_t *ids;
    int            length, first, octet, row, second, bc_bytes;   /* bc_bytes: between rows */
    bool           full, mine, docs, gated, whole, whole_bc, is_c;
    int            phase[NP];                                 /* token within its sequence, of the row read next */
    document       doc[NP];
    __device__ __forceinline__ int token(int tile, int r) const
    {
        return full ? tile * TILE + r : min(tile * TILE + r, length - 1);
    }
};

/* PLAIN: what a model has: whole tiles and blocks of channels, aligned, gated, no documents. Else that is looked at. */
template <int N, bool PLAIN> static __device__ __forceinline__ twins_role<N>
twins_role_of(const scan_operands<bf16> &p, const twins_smem<N> &sm, int et)
{
    twins_role<N> e;
    e.octet  = et % e.CO;
    e.row    = et / e.CO;
    e.length = sm.at.a.length;
    e.full   = PLAIN;
    e.first  = sm.at.a.first;
    e.mine   = PLAIN || sm.at.a.channel + 8 * e.octet < sm.at.a.channels;
    e.second = sm.at.a.channel + 8 * e.octet + 4 < sm.at.a.channels ? 4 : 0;
    e.whole  = PLAIN || p.eights;
    e.docs   = !PLAIN && (p.ids.at || p.pack > 1);
    e.gated  = PLAIN || p.z.at;
    const int column = e.mine ? 8 * e.octet : 0;
    e.u     = sm.at.u + column;
    e.delta = sm.at.delta + column;
    e.z     = sm.at.z ? sm.at.z + column : NULL;
    e.out   = sm.at.out ? sm.at.out + column : NULL;
    e.ys    = sm.at.ys ? sm.at.ys + column : NULL;
    e.ids   = sm.at.ids;
    e.is_c     = et % 4 >= 2;                                 // a quarter of a row of B and C, of token et / 4
    e.whole_bc = PLAIN || p.eights_bc;
    e.bc       = (e.is_c ? sm.at.C : sm.at.B) + et % 2 * (N / 2);
    e.bc_bytes = 2 * (int)(e.is_c ? p.C.row : p.B.row);
#pragma unroll
    for (int i = 0; i < e.NP; i++) e.phase[i] = (e.first + e.row + i * e.RP) % p.L;
    return e;
}

/* For step sizes and states: u, delta, B and C of a tile. */
template <int N, bool CARRY> static __device__ __forceinline__ void
twins_ask(const twins_role<N> &e, const scan_operands<bf16> &p, twins_smem<N> &sm, int et, int tile)
{
    auto &to = sm.ring[tile % RING];
#pragma unroll
    for (int i = 0; i < e.NP; i++) {
        const int t = e.token(tile, e.row + i * e.RP), s = i * ELEMENTS + et;
        copy8(&to.u[s], row_at(e.u, t, 2 * (int)p.u.row), e.whole, e.second);
        copy8(&to.delta[s], row_at(e.delta, t, 2 * (int)p.delta.row), e.whole, e.second);
    }
    if (CARRY && e.is_c) return;
    const bf16 *bc = row_at(e.bc, e.token(tile, et / 4), e.bc_bytes);
    if (N == 16) copy8(&to.bc[et], bc, e.whole_bc, 4);
    else         copy_async<8>(&to.bc[et], bc);
}

/* For the output. */
template <int N> static __device__ __forceinline__ void
twins_ask_gate(const twins_role<N> &e, const scan_operands<bf16> &p, twins_smem<N> &sm, int et, int tile)
{
#pragma unroll
    for (int i = 0; i < e.NP && e.gated; i++) {
        const int t = e.token(tile, e.row + i * e.RP);
        copy8(&sm.ring[tile % RING].z[i * ELEMENTS + et], row_at(e.z, t, 2 * (int)p.z.row), e.whole, e.second);
    }
}

template <int N> static __device__ __forceinline__ void
twins_documents(twins_role<N> &e, const scan_operands<bf16> &p, int tile)
{
#pragma unroll
    for (int i = 0; i < e.NP; i++) {
        const int t = e.token(tile, e.row + i * e.RP);
        e.doc[i] = read_document(e.ids, p.ids.row, t, e.phase[i] == 0 || t + e.first == 0, p.pack > 1);
        e.phase[i] += TILE % p.L;
        if (e.phase[i] >= p.L) e.phase[i] -= p.L;
    }
}

/* C of a token as columns of an operand b (k: states as they lie in the lanes of operand a), two values to a lane.
 * N = 16: columns 2 (t%4), for elements 0 and 2 of a lane, and the next, for 1 and 3.
 * N = 8: columns 4 (t%2) and the next, for elements 0 and 1; the two behind, for elements 2 and 3.
 * All others are zero and stay so. v: states from `from` on. */
template <int N> static __device__ __forceinline__ void put_c(float (&c)[64], int t, int from, const float *v)
{
    if (N == 16) {
        float *to = c + t % 4 * 16 + from / 2;
        *(float4 *)to       = make_float4(v[0], v[2], v[4], v[6]);
        *(float4 *)(to + 8) = make_float4(v[1], v[3], v[5], v[7]);
    } else {
        float4 *to = (float4 *)(c + t % 2 * 32 + from);
        to[0] = make_float4(v[0], 0, v[2], 0);
        to[2] = make_float4(v[1], 0, v[3], 0);
        to[4] = make_float4(0, v[0], 0, v[2]);
        to[6] = make_float4(0, v[1], 0, v[3]);
    }
}

static __device__ __forceinline__ void put_dt(float *to, const float (&v)[8])
{
#pragma unroll
    for (int k = 0; k < 8; k++) to[4 * k] = v[k];
}

static __device__ __forceinline__ void put_dt(float *to, float all)
{
#pragma unroll
    for (int k = 0; k < 8; k++) to[4 * k] = all;
}

/* Step sizes, dt u, B and C of a tile into its buffer. */
template <int N, bool CARRY> static __device__ __forceinline__ void
twins_fill(const twins_role<N> &e, twins_smem<N> &sm, int et, int tile)
{
    auto       &s = sm.buf[tile & 1];
    const auto &from = sm.ring[tile % RING];
    const int   left = e.length - tile * TILE;
    float       bias[8];
    read8(bias, (const float4 *)sm.bias + 2 * e.octet);
#pragma unroll
    for (int i = 0; i < e.NP; i++) {
        const int row = e.row + i * e.RP;
        float     u[8], d[8];
        values(u, from.u[i * ELEMENTS + et]);
        values(d, from.delta[i * ELEMENTS + et]);
#pragma unroll
        for (int k = 0; k < 8; k++) {
            d[k] = step_of<false>(d[k] + bias[k]);
            u[k] = rounded_tf32(u[k] * d[k]);
        }
        float      *dt = s.dt[row / 4][e.octet] + row % 4;
        float4     *x = (float4 *)&s.x[row][8 * e.octet];
        put_dt(dt, d);
        put8(x, u);                                           // exceptions are written over: cheaper than choices
        if (e.docs && e.doc[i].here != e.doc[i].before) put_dt(dt, RESET_STEP);
        if (!e.full && row >= left) {
            put_dt(dt, 0.0f);
            x[0] = x[1] = make_float4(0, 0, 0, 0);
        }
    }
    if (CARRY && e.is_c) return;
    float v[8];
    if (N == 16) values(v, *(const uint4 *)&from.bc[et]);
    else         values(*(float (*)[4])v, *(const quad<bf16> *)&from.bc[et]);
    const int at = et % 2 * (N / 2), row = et / 4;
    if (e.is_c) {
        put_c<N>(s.c[row], row, at, v);
    } else {
#pragma unroll
        for (int k = 0; k < N / 2; k += 4)
            *(float4 *)&s.b[row][at + k] = make_float4(v[k], v[k + 1], v[k + 2], v[k + 3]);
    }
}

/* C h of a tile whose states went by: skip, gate, store. `taken` is called when C h and u are no longer wanted. */
template <int N, typename F> static __device__ __forceinline__ void
twins_finish(const twins_role<N> &e, const scan_operands<bf16> &p, const twins_smem<N> &sm, int et, int tile, F taken)
{
    const auto &s = sm.buf[tile & 1];
    const auto &from = sm.ring[tile % RING];
    float       skip[8], y[e.NP][8];
    read8(skip, (const float4 *)sm.skip + 2 * e.octet);
#pragma unroll
    for (int i = 0; i < e.NP; i++) {
        float u[8];
        read8(y[i], (const float4 *)&s.x[e.row + i * e.RP][8 * e.octet]);
        values(u, from.u[i * ELEMENTS + et]);
#pragma unroll
        for (int k = 0; k < 8; k++) y[i][k] = fmaf(skip[k], u[k], TF32_LOSS * y[i][k]);
    }
    taken();
    if (!e.mine) return;
#pragma unroll
    for (int i = 0; i < e.NP; i++) {
        const int t = tile * TILE + e.row + i * e.RP;
        if (!e.full && t >= e.length) break;                            // rows ascend
        if (e.ys) write8(row_at(e.ys, t, 2 * p.D), y[i], e.whole, e.second);
        if (e.gated) {
            float z[8];
            values(z, from.z[i * ELEMENTS + et]);
#pragma unroll
            for (int k = 0; k < 8; k++) {
                const float half = 0.5f * z[k];
                y[i][k] *= fmaf(half, tanh_fast(half), half); // z sigmoid(z)
            }
        }
        write8(row_at(e.out, t, 2 * (int)p.out.row), y[i], e.whole, e.second);
    }
}

/* All of it by one pair of warps. */
template <int N, bool CARRY, bool PLAIN> static __device__ __forceinline__ void
twins_elements(const scan_operands<bf16> &p, twins_smem<N> &sm, int et)
{
    twins_role<N> e = twins_role_of<N, PLAIN>(p, sm, et);
    const int     tiles = (e.length + TILE - 1) / TILE;
    const auto    ask = [&](int tile) {
        if (tile < tiles) twins_ask<N, CARRY>(e, p, sm, et, tile);
        if (tile < tiles && !CARRY) twins_ask_gate<N>(e, p, sm, et, tile);
        copies_commit();
    };
    ask(0);
    ask(1);
    if (e.docs) twins_documents<N>(e, p, 0);
    for (int tile = 0; tile < tiles; tile++) {
        if (tile >= 2) {
            barrier_wait<DONE>(tile, HANDS);
            if (!CARRY) twins_finish<N>(e, p, sm, et, tile - 2, [] {});
        }
        ask(tile + 2);
        copies_wait<2>();
        twins_fill<N, CARRY>(e, sm, et, tile);
        barrier_arrive<FULL>(tile, HANDS);
        if (e.docs && tile + 1 < tiles) twins_documents<N>(e, p, tile + 1);
    }
    for (int tile = max(tiles - 2, 0); tile < tiles; tile++) {
        barrier_wait<DONE>(tile, HANDS);
        if (!CARRY) twins_finish<N>(e, p, sm, et, tile, [] {});
    }
}

/* SPLIT: a pair of warps before the states, another behind them. Who finishes tells who fills when a buffer is read. */
template <int N, bool PLAIN> static __device__ __forceinline__ void
twins_before(const scan_operands<bf16> &p, twins_smem<N> &sm, int et)
{
    twins_role<N> e = twins_role_of<N, PLAIN>(p, sm, et);
    const int     tiles = (e.length + TILE - 1) / TILE;
    for (int tile = 0; tile < 2; tile++) {
        if (tile < tiles) twins_ask<N, false>(e, p, sm, et, tile);
        copies_commit();
    }
    if (e.docs) twins_documents<N>(e, p, 0);
    for (int tile = 0; tile < tiles; tile++) {
        if (tile >= 2) barrier_wait<EMPTY>(tile, 2 * ELEMENTS);
        if (tile + 2 < tiles) twins_ask<N, false>(e, p, sm, et, tile + 2);
        copies_commit();
        copies_wait<2>();
        twins_fill<N, false>(e, sm, et, tile);
        barrier_arrive<FULL>(tile, HANDS);
        if (e.docs && tile + 1 < tiles) twins_documents<N>(e, p, tile + 1);
    }
}

template <int N, bool PLAIN> static __device__ __forceinline__ void
twins_behind(const scan_operands<bf16> &p, twins_smem<N> &sm, int et)
{
    const twins_role<N> e = twins_role_of<N, PLAIN>(p, sm, et);
    const int           tiles = (e.length + TILE - 1) / TILE;
    for (int tile = 0; tile < 2; tile++) {
        if (tile < tiles) twins_ask_gate<N>(e, p, sm, et, tile);
        copies_commit();
    }
    for (int tile = 0; tile < tiles; tile++) {
        if (tile + 2 < tiles) twins_ask_gate<N>(e, p, sm, et, tile + 2);
        copies_commit();
        copies_wait<2>();
        barrier_wait<DONE>(tile, HANDS);
        twins_finish<N>(e, p, sm, et, tile, [&] { if (tile + 2 < tiles) barrier_arrive<EMPTY>(tile, 2 * ELEMENTS); });
    }
}

/* ---- the recurrence ---- */

template <int N> static __device__ __forceinline__ int
twin_channel(int e, int l8) { return N == 16 ? l8 : l8 + e / 2 * 8; }
template <int N> static __device__ __forceinline__ int
twin_state(int e, int l4)   { return N == 16 ? 4 * l4 + e : 2 * l4 + e % 2; }

/* dt u and B of four tokens as operands of products with four k. N = 8: k is the token. N = 16: a product has two
 * tokens, each twice: k even for rows 0 .. 7, odd for the others. */
template <int N> struct four_tokens { float x0[N / 8], x1[N / 8], b[N / 8]; };

template <int N> static __device__ __forceinline__ void
read_tokens(four_tokens<N> &f, const typename twins_smem<N>::buffer &s, int g, int wc, int l4, int l8)
{
#pragma unroll
    for (int p = 0; p < N / 8; p++) {
        if (N == 16) {
            const int   t = 4 * g + 2 * p + l4 / 2;
            const float x = s.x[t][wc + l8];
            f.x0[p] = l4 & 1 ? 0 : x;
            f.x1[p] = l4 & 1 ? x : 0;
            f.b[p]  = s.b[t][4 * (l8 / 2) + l8 % 2 + 2 * (l4 & 1)];
        } else {
            f.x0[p] = s.x[4 * g + l4][wc + l8];
            f.x1[p] = s.x[4 * g + l4][wc + 8 + l8];
            f.b[p]  = s.b[4 * g + l4][l8];
        }
    }
}

/* Tokens of one buffer, from group `from` of four on; `middle` is called after KEEP of them. The state enters C h as
 * operand a, element e as a[e]: so row l8 of that operand has elements 0 and 2, row l8 + 8 elements 1 and 3, and the sum
 * over a channel is that of two entries of the result, both of one lane. */
template <int N, int GROUPS, bool CARRY, typename F> static __device__ __forceinline__ void
twins_tokens(float (&h)[4], float (&steps)[16 / N], const float (&A2)[4], typename twins_smem<N>::buffer &s, int from,
             int wc, int l4, int l8, F middle)
{
    enum { PER = N / 4, SUMS = 4 * GROUPS / PER };            /* a lane has C h of one token in PER */
    float y[SUMS], d[4] = { 0, 0, 0, 0 };
#pragma unroll
    for (int g = 0; g < GROUPS; g++) {
        if (g == KEEP / 4) middle();
        four_tokens<N> f;
        float4         steps4[16 / N];
        read_tokens<N>(f, s, from + g, wc, l4, l8);
#pragma unroll
        for (int i = 0; i < 16 / N; i++) steps4[i] = *(const float4 *)&s.dt[from + g][wc / 8 + i][4 * l8];
#pragma unroll
        for (int j = 0; j < 4; j++) {
            const int p = N == 16 ? j / 2 : 0;
            float     b[4] = { 0, 0, 0, 0 }, dt[16 / N];
#pragma unroll
            for (int i = 0; i < 16 / N; i++) {
                dt[i] = j == 0 ? steps4[i].x : j == 1 ? steps4[i].y : j == 2 ? steps4[i].z : steps4[i].w;
                if (CARRY) steps[i] += dt[i];
            }
            const bool here = N == 16 ? l4 / 2 == j % 2 : l4 == j;        // all other tokens are zero
            mma_tf32_k4(b, f.x0[p], f.x1[p], here ? f.b[p] : 0);
#pragma unroll
            for (int e = 0; e < 4; e++) h[e] = fmaf(exp2_fast(dt[N == 16 ? 0 : e / 2] * A2[e]), h[e], b[e]);
            if (CARRY) continue;
            const float2 c = *(const float2 *)&s.c[4 * (from + g) + j][l8 * 8 + l4 * 2];
            mma_tf32_k8(d, h[0], h[1], h[2], h[3], c.x, c.y);
            if (j % PER != PER - 1) continue;
            y[(4 * g + j) / PER] = d[0] + d[3];
            d[0] = d[1] = d[2] = d[3] = 0;
        }
    }
#pragma unroll
    for (int i = 0; i < SUMS && !CARRY; i++) {                // behind all reads of dt u: no load waits for them
        if (N == 16) s.x[4 * (from + i) + l4][wc + l8] = y[i];
        else         s.x[4 * from + 2 * i + l4 / 2][wc + l8 + 8 * (l4 & 1)] = y[i];
    }
}

/* The states of this lane's channels if `now`; k is where the first lies. */
template <int N> static __device__ __forceinline__ void twins_keep(bool now, bf16 *k, const float (&h)[4], bool second)
{
    if (N == 16) {
        write4_global(now, k, h);
    } else if (now) {
        *(uint32_t *)k = pack_bf16(h[0], h[1]);
        if (second) *(uint32_t *)(k + 8 * N) = pack_bf16(h[2], h[3]);
    }
}

template <int N, bool CARRY> static __device__ __forceinline__ void
twins_states(const scan_operands<bf16> &p, twins_smem<N> &sm, int warp, int lane)
{
    const part &a = sm.at.a;
    const int  l4 = lane & 3, l8 = lane >> 2, wc = warp * (128 / N), tiles = (a.length + TILE - 1) / TILE;
    const int  here = a.channels - a.channel;
    const bool keeps = !CARRY && sm.at.kept && wc + l8 < here;
    bf16      *kept = sm.at.kept + (wc + l8) * N + twin_state<N>(0, l4);   // goes on where nothing is kept
    const bool second = wc + l8 + 8 < here;
    float A2[4], h[4], steps[16 / N] = {};
    const float *start = !CARRY && p.start.at ? p.start.sequence(a.item) : NULL;
#pragma unroll
    for (int e = 0; e < 4; e++) {
        const int64_t ch = a.channel + wc + twin_channel<N>(e, l8), n = twin_state<N>(e, l4);
        const bool    ok = ch < a.channels;
        A2[e] = ok ? A2_of(p.A_log.at[ch * p.A_log.row + n]) : 0;
        h[e]  = start && ok ? start[ch * p.start.row + n] : 0;
    }
    for (int tile = 0; tile < tiles; tile++) {
        barrier_wait<FULL>(tile, HANDS);
        const auto keep = [&](bool now) {
            if (!CARRY) twins_keep<N>(now, kept, h, second);
            kept += p.D * N;
        };
        const bool more = keeps && tile * TILE + KEEP < a.length;
        constexpr int GROUPS = N / 4;                         // as many as registers allow to look ahead over
#pragma unroll 1
        for (int g = 0; g < TILE / 4; g += GROUPS) {
            keep(g ? more : keeps);
            twins_tokens<N, GROUPS, CARRY>(h, steps, A2, sm.buf[tile & 1], g, wc, l4, l8, [&] { keep(more); });
        }
        barrier_arrive<DONE>(tile, HANDS);
    }
    if (!CARRY && (!p.final.at || a.first + a.length < p.L)) return;
    float *final = CARRY ? p.ends + a.item * p.D * N : p.final.sequence(a.sequence);
#pragma unroll
    for (int e = 0; e < 4; e++) {
        const int64_t ch = a.channel + wc + twin_channel<N>(e, l8), n = twin_state<N>(e, l4);
        if (ch >= a.channels) continue;
        final[ch * (CARRY ? N : p.final.row) + n] = h[e];
        if (CARRY && l4 == 0 && e % (N / 4) == 0) p.steps[a.item * p.D + ch] = steps[e / (N / 4)];
    }
}

/* CARRY: what a piece of a long sequence leaves behind when it starts from zero, and the sum of its steps. */
template <int N, bool CARRY, bool SPLIT, bool PLAIN> __global__ void
__launch_bounds__(HANDS + SPLIT * ELEMENTS, SPLIT ? 3 : 4)
scan_fwd_twins(const __grid_constant__ scan_operands<bf16> p)
{
    enum { THREADS = HANDS + SPLIT * ELEMENTS };
    extern __shared__ __align__(16) char smem[];
    twins_smem<N> &sm = *(twins_smem<N> *)smem;
    const part a = part_of(p, twins_smem<N>::CH);
    if (CARRY && a.item % p.pieces == p.pieces - 1) return;   // nobody goes on from it
    find_origins(sm.at, p, a, (int)threadIdx.x);
    for (int c = threadIdx.x; c < twins_smem<N>::CH; c += THREADS) {
        const bool in = a.channel + c < a.channels;
        sm.bias[c] = in && p.bias ? p.bias[a.channel + c] : 0;
        sm.skip[c] = in && p.skip ? p.skip[a.channel + c] : 0;
    }
    for (int c = threadIdx.x; c < 2 * TILE * 64; c += THREADS) (&sm.buf[c / (TILE * 64)].c[0][0])[c % (TILE * 64)] = 0;
    __syncthreads();
    const int warp = (int)(threadIdx.x / 32), et = (int)threadIdx.x - SCANNERS;
    if (warp < SCANNERS / 32)             twins_states<N, CARRY>(p, sm, warp, threadIdx.x % 32);
    else if (!SPLIT)                      twins_elements<N, CARRY, PLAIN>(p, sm, et);
    else if (warp < HANDS / 32)           twins_before<N, PLAIN>(p, sm, et);
    else                                  twins_behind<N, PLAIN>(p, sm, et - ELEMENTS);
}

/* ---- launcher ---- */

extern "C" mba_status selective_scan_twins_cuda(const mba_call *c)
{
    const mba_node *n = c->node;
    const scan_dims d = scan_dims_of(n);
    const int       main = c->plan->nlaunches - 1;
    scan_operands<bf16> p = scan_operands_of<bf16>(c, c->plan->launch[main].grid[0], 512 / d.N);
    mba_assert((d.N == 16 ? sizeof(twins_smem<16>) : sizeof(twins_smem<8>)) <= c->plan->launch[main].smem_bytes);
    p.out   = lines_of<bf16>(n->out[OUT], c->out[OUT], d.L, d.D);
    p.final = lines_of<float>(n->out[FINAL], c->out[FINAL], d.D, d.N);
    keep_for_backward(&p, n->out[KEPT], c->out[KEPT]);
    p.ys    = (bf16 *)c->out[YS];
    p.eights    = eights_of(p);
    p.eights_bc = in_eights(p.B) && in_eights(p.C);
    const bool plain = p.L % TILE == 0 && p.Dg % (512 / p.N) == 0 && p.eights && p.eights_bc && p.z.at && !p.ids.at
                    && p.pack == 1;
    if (p.pieces > 1) {
        p.ends  = (float *)mba_cuda_scratch(c, CU_ENDS);
        p.steps = (float *)mba_cuda_scratch(c, CU_STEPS);
        auto *carry = d.N == 8 ? scan_fwd_twins<8, true, false, false>
                    : plain    ? scan_fwd_twins<16, true, false, true> : scan_fwd_twins<16, true, false, false>;
        MBA_KERNEL(c, 0, carry, p);
        MBA_TRY(scan_starts(c, 1, &p, false, 1));
    }
    const bool split = c->plan->launch[main].block > HANDS;
    auto *kernel = d.N == 8 ? scan_fwd_twins<8, false, false, false>
                 : split    ? (plain ? scan_fwd_twins<16, false, true, true> : scan_fwd_twins<16, false, true, false>)
                 : plain    ? scan_fwd_twins<16, false, false, true> : scan_fwd_twins<16, false, false, false>;
    MBA_KERNEL(c, main, kernel, p);
    return MBA_OK;
}
