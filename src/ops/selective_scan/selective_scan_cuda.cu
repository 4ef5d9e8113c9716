// SPDX-License-Identifier: Apache-2.0
/* selective_scan_cuda.cu -- variant `tiles` of selective_scan (Mamba-1), forward: fp32 or bf16, 8 or 16 states, and the
 * passes that find the states between segments of long sequences (the backward pass uses them too).
 *
 *   h = 2^(dt A2) h + dt u B,   out = (C h + D u) silu(z),   dt = softplus(delta + dt_bias)
 *   u, delta, z, out (B, L, D)   B, C (B, L, G, N) bf16 or fp32     A_log (D, N)   states (B, D, N) fp32
 *
 * kernel     scan_fwd_tiles     warp-specialized: state warps run the recurrence; 4 element warps load, compute dt,
 *            gate and store
 * takes      N = 8 or 16, D/G a multiple of 4, rows aligned to four values
 * launch     grid (items, blocks of 32 or 64 channels), block CH N/4 + 128, dynamic smem 20 to 58 KB
 * resources  sm_90a, CUDA 13.0: 74 to 84 registers, no spill  [docs]
 *            blocks per SM: 2 of 384 threads, 3 of 256, 4 of 192
 * moves      u, delta, z, B, C in, out once each: bound by exponentials and instruction issue, not by DRAM
 * floor      4 x 4096 x 4096, N = 16, bf16: one exponential per element, 331 us at 16 per clock and SM, 1.73 GHz
 * measured   H200: 38.4 us, 20 % of floor (special), special 36 % busy; graphmamba-peptides-func, 128 graphs  [docs]
 * order      fixed: time ascends, segments of a sequence in order
 *
 * kernel     scan_carry         final state of a segment that starts from zero (BACK: adjoint), and the sum of its
 * steps takes      what scan_fwd_tiles takes
 * launch     grid (items, blocks of 32 channels), block 8 N, static smem 10 KB
 * resources  sm_90a, CUDA 13.0: 96 to 128 registers, 9216 to 10240 B of shared memory, no spill  [docs]
 * moves      delta and u (BACK: dout, z), B (C) once: half the exponential work of the main pass
 * measured   H200: 28.5 us, 26 % of floor (special), special 41 % busy; graphmamba-peptides-func, 128 graphs  [docs]
 * order      fixed
 *
 * kernel     scan_combine       initial states of segments from the results of scan_carry, one thread per state
 * launch     grid ceil(B D N / 256), block 256
 * resources  sm_90a, CUDA 13.0: 60 registers, no spill  [docs]
 * moves      one state per item in, one out
 * measured   H200: 8.53 us, 2 % of floor (memory), ALU 26 % busy; graphmamba-peptides-func, 128 graphs  [docs]
 * order      fixed: segments in order */
#include "ops/selective_scan/selective_scan_cuda.cuh"

/* ---- forward. CH/16 N/8 state warps hold 16 channels x 8 states each, four per lane: channels lane/4 and + 8, states
 * 2 (lane%4) and + 1. State warps and 4 element warps alternate between two buffers, so that exponentials never wait
 * for element-wise work. Named barriers 1, 2: buffer full (element to state warps); 3, 4: done (state to element warps)
 * ---- */

template <typename T, int N, int CH> struct fwd_smem {
    struct buffer {
        float dt[TILE][CH];    /* channels c and c + 8 of sixteen are adjacent */
        float x[TILE][CH + 8]; /* dt u */
        float b[TILE][N + 8], c[TILE][N + 8];
        float y[N / 8][TILE][CH + 4]; /* partial sums of C h, one per eight states */
    } buf[2];
    quad<T>    stash[2][2][TILE * CH / 512][128]; /* u and z of the two tiles in flight; private to a thread */
    float      bias[CH], skip[CH];
    origins<T> at;
};

enum { ELEMENT_THREADS = 128, FULL = 1, DONE = 3 };

/* The loop of an element warp: loads a tile ahead, computes dt and dt u, and finishes the tile of two buffers ago. */
template <typename T, int N, int CH>
static __device__ __forceinline__ void fwd_elements(const scan_operands<T> &p, fwd_smem<T, N, CH> &sm, int et)
{
    constexpr bool EXACT = sizeof(T) == 4;
    constexpr int  CQ = CH / 4, RP = ELEMENT_THREADS / CQ, NP = TILE / RP, NT = CH * N / 4 + ELEMENT_THREADS;
    const int      cq = et % CQ, tr = et / CQ, length = sm.at.a.length, tiles = (length + TILE - 1) / TILE;
    const bool     mine = sm.at.a.channel + 4 * cq < sm.at.a.channels, gated = p.z.at && p.out.at;
    const int      column = mine ? 4 * cq : 0;
    const int      br = et / (N / 2), bv = et % (N / 4) * 4; // four values of B or C of row br
    const bool     is_c = et % (N / 2) >= N / 4;
    const int      dpos = cq / 4 * 16 + (cq * 4 & 7) * 2 + (cq >> 1 & 1); // channel c at c/16 16 + c%8 2 + c/8%2
    const int      advance = TILE % p.L;
    int            phase[NP]; // token in its sequence of the row that is loaded next
    quad<T>        ru[NP], rd[NP], rz[NP], rb;
    document       doc[NP];
#pragma unroll
    for (int i = 0; i < NP; i++) phase[i] = (sm.at.a.first + tr + i * RP) % p.L;
    auto read = [&](int tile) {
#pragma unroll
        for (int i = 0; i < NP; i++) {
            const int t = min(tile * TILE + tr + i * RP, length - 1);
            ru[i] = read4(sm.at.u + t * p.u.row + column);
            rd[i] = read4(sm.at.delta + t * p.delta.row + column);
            if (gated) rz[i] = read4(sm.at.z + t * p.z.row + column);
            doc[i] = read_document(sm.at.ids, p.ids.row, t, phase[i] == 0 || t + sm.at.a.first == 0, p.pack > 1);
            phase[i] += advance;
            if (phase[i] >= p.L) phase[i] -= p.L;
        }
        const int t = min(tile * TILE + br, length - 1);
        if (br < TILE) rb = read4((is_c ? sm.at.C + t * p.C.row : sm.at.B + t * p.B.row) + bv, p.aligned4_bc);
    };
    auto finish = [&](int tile) {
        const auto &s = sm.buf[tile & 1];
#pragma unroll
        for (int i = 0; i < NP; i++) {
            const int r = tr + i * RP, t = tile * TILE + r;
            float     y[4], u[4], z[4];
            values(u, sm.stash[tile & 1][0][i][et]);
            const float4 y0 = *(const float4 *)&s.y[0][r][cq * 4], k = *(const float4 *)&sm.skip[cq * 4];
            y[0] = fmaf(k.x, u[0], y0.x);
            y[1] = fmaf(k.y, u[1], y0.y);
            y[2] = fmaf(k.z, u[2], y0.z);
            y[3] = fmaf(k.w, u[3], y0.w);
            if (N == 16) {
                const float4 y1 = *(const float4 *)&s.y[N / 8 - 1][r][cq * 4];
                y[0] += y1.x;
                y[1] += y1.y;
                y[2] += y1.z;
                y[3] += y1.w;
            }
            if (t >= length || !mine) continue;
            if (p.ys) write4(sm.at.ys + (int64_t)t * p.D + column, y);
            if (!p.out.at) continue;
            if (gated) {
                values(z, sm.stash[tile & 1][1][i][et]);
#pragma unroll
                for (int e = 0; e < 4; e++) y[e] *= z[e] * gate_sigmoid<EXACT>(z[e]);
            }
            write4(sm.at.out + t * p.out.row + column, y);
        }
    };
    read(0);
    for (int tile = 0; tile < tiles; tile++) {
        auto &s = sm.buf[tile & 1];
        if (tile >= 2) {
            barrier_wait<DONE>(tile, NT);
            finish(tile - 2);
        }
#pragma unroll
        for (int i = 0; i < NP; i++) {
            const int    r = tr + i * RP;
            const float  in = tile * TILE + r < length ? 1.0f : 0.0f;
            const bool   reset = doc[i].here != doc[i].before;
            const float4 b4 = *(const float4 *)&sm.bias[cq * 4];
            const float  bias[4] = { b4.x, b4.y, b4.z, b4.w };
            float        u[4], d[4];
            values(u, ru[i]);
            values(d, rd[i]);
            sm.stash[tile & 1][0][i][et] = ru[i];
            if (gated) sm.stash[tile & 1][1][i][et] = rz[i];
#pragma unroll
            for (int e = 0; e < 4; e++) {
                d[e] = step_of<EXACT>(d[e] + bias[e]) * in;
                u[e] = EXACT ? u[e] * d[e] : round_tf32(u[e] * d[e]);
                s.dt[r][dpos + e * 2] = reset ? in * RESET_STEP : d[e];
            }
            write4(&s.x[r][cq * 4], u);
        }
        if (br < TILE) {
            float v[4];
            values(v, rb);
            write4((is_c ? s.c[br] : s.b[br]) + bv, v);
        }
        barrier_arrive<FULL>(tile, NT);
        if (tile + 1 < tiles) read(tile + 1);
    }
    for (int tile = max(tiles - 2, 0); tile < tiles; tile++) {
        barrier_wait<DONE>(tile, NT);
        finish(tile);
    }
}

/* The loop of a state warp: the recurrence, C h, and saved states. bf16: products on tf32 tensor cores, with a token as
 * k, all others zero. */
template <typename T, int N, int CH>
static __device__ __forceinline__ void fwd_states(const scan_operands<T> &p, fwd_smem<T, N, CH> &sm, int warp, int lane)
{
    const block_work a = sm.at.a;
    constexpr bool   EXACT = sizeof(T) == 4;
    constexpr int    NG = CH / 16, NT = CH * N / 4 + ELEMENT_THREADS;
    const int        l4 = lane & 3, l8 = lane >> 2, cg = warp % NG, ns = warp / NG, c0 = cg * 16 + l8, c1 = c0 + 8,
              st = ns * 8 + l4 * 2;
    const bool ok0 = a.channel + c0 < a.channels, ok1 = a.channel + c1 < a.channels;
    const int  tiles = (a.length + TILE - 1) / TILE;
    float      A2[4], h[4], pick[8];
#pragma unroll
    for (int e = 0; e < 4; e++) {
        const int64_t ch = a.channel + (e < 2 ? c0 : c1), n = st + (e & 1);
        const bool    ok = e < 2 ? ok0 : ok1;
        A2[e] = ok ? A2_of(p.A_log.at[ch * p.A_log.row + n]) : 0;
        h[e] = p.start.at && ok ? p.start.sequence(a.item)[ch * p.start.row + n] : 0;
    }
#pragma unroll
    for (int j = 0; j < 8; j++) pick[j] = l8 == j ? 1.0f : 0.0f;
    for (int tile = 0; tile < tiles; tile++) {
        auto &s = sm.buf[tile & 1];
        barrier_wait<FULL>(tile, NT);
#pragma unroll
        for (int g = 0; g < 2; g++) {
            if (p.kept && (g == 0 || (p.saved_every == SAVE_EVERY && tile * TILE + SAVE_EVERY < a.length))) {
                T *k = sm.at.kept + (int64_t)(tile * (TILE / p.saved_every) + g) * p.D * N + st;
                if (ok0) write2(k + c0 * N, h[0], h[1]);
                if (ok1) write2(k + c1 * N, h[2], h[3]);
            }
            float d[4] = { 0, 0, 0, 0 }, y0[4], y1[4];
#pragma unroll
            for (int q = 0; q < 2; q++) {
                const int   r4 = g * 8 + q * 4;
                const float x0 = EXACT ? 0 : s.x[r4 + l4][c0], x1 = EXACT ? 0 : s.x[r4 + l4][c1],
                            bq = EXACT ? 0 : s.b[r4 + l4][ns * 8 + l8];
#pragma unroll
                for (int j = 0; j < 4; j++) {
                    const float2 dt = *(const float2 *)&s.dt[r4 + j][cg * 16 + l8 * 2],
                                 C = *(const float2 *)&s.c[r4 + j][st];
                    h[0] *= fast_exp2(dt.x * A2[0]);
                    h[1] *= fast_exp2(dt.x * A2[1]);
                    h[2] *= fast_exp2(dt.y * A2[2]);
                    h[3] *= fast_exp2(dt.y * A2[3]);
                    if (EXACT) {
                        const float2 B = *(const float2 *)&s.b[r4 + j][st];
                        const float  u0 = s.x[r4 + j][c0], u1 = s.x[r4 + j][c1];
                        h[0] = fmaf(u0, B.x, h[0]);
                        h[1] = fmaf(u0, B.y, h[1]);
                        h[2] = fmaf(u1, B.x, h[2]);
                        h[3] = fmaf(u1, B.y, h[3]);
                    } else {
                        mma_tf32_k4(h, x0, x1, l4 == j ? bq : 0); // k is the token; all others are zero
                    }
                    y0[j] = fmaf(C.y, h[1], C.x * h[0]);
                    y1[j] = fmaf(C.y, h[3], C.x * h[2]);
                    if (!EXACT && (j & 1))
                        mma_tf32_k8(d, y0[j - 1], y1[j - 1], y0[j], y1[j], pick[q * 4 + j - 1], pick[q * 4 + j]);
                }
                if (EXACT) { // token: lane%4
                    s.y[ns][r4 + l4][c0] = fold(fold(y0[0], y0[1], 1), fold(y0[2], y0[3], 1), 2);
                    s.y[ns][r4 + l4][c1] = fold(fold(y1[0], y1[1], 1), fold(y1[2], y1[3], 1), 2);
                }
            }
            if (!EXACT) { // token: column of d
                float *y = &s.y[ns][g * 8 + l4 * 2][0];
                y[c0] = d[0];
                y[CH + 4 + c0] = d[1];
                y[c1] = d[2];
                y[CH + 4 + c1] = d[3];
            }
        }
        barrier_arrive<DONE>(tile, NT);
    }
    if (!p.final.at || a.first + a.length < p.L) return;
    float *f = p.final.sequence(a.sequence) + st;
    if (ok0) {
        f[(a.channel + c0) * p.final.row] = h[0];
        f[(a.channel + c0) * p.final.row + 1] = h[1];
    }
    if (ok1) {
        f[(a.channel + c1) * p.final.row] = h[2];
        f[(a.channel + c1) * p.final.row + 1] = h[3];
    }
}

template <typename T, int N, int CH>
__global__ void __launch_bounds__(CH *N / 4 + ELEMENT_THREADS,
                                  (sizeof(T) == 4 ? 512 : 768) / (CH * N / 4 + ELEMENT_THREADS))
    scan_fwd_tiles(const __grid_constant__ scan_operands<T> p)
{
    extern __shared__ __align__(16) char smem[];
    fwd_smem<T, N, CH>                  &sm = *(fwd_smem<T, N, CH> *)smem;
    const int                            warp = threadIdx.x / 32;
    const block_work                     a = block_work_of(p, CH);
    find_origins(sm.at, p, a, (int)threadIdx.x);
    for (int c = threadIdx.x; c < CH; c += blockDim.x) {
        const bool in = a.channel + c < a.channels;
        sm.bias[c] = in && p.bias ? p.bias[a.channel + c] : 0;
        sm.skip[c] = in && p.skip ? p.skip[a.channel + c] : 0;
    }
    if (threadIdx.x == 0) {
        barrier_begin<FULL>(CH * N / 4 + ELEMENT_THREADS);
        barrier_begin<DONE>(CH * N / 4 + ELEMENT_THREADS);
    }
    __syncthreads();
    if (warp < CH * N / 128) fwd_states<T, N, CH>(p, sm, warp, threadIdx.x % 32);
    else fwd_elements<T, N, CH>(p, sm, threadIdx.x - CH * N / 4);
}

/* ---- states between segments: four states of a channel per thread ---- */

template <typename T, int N, bool BACK>
__global__ void __launch_bounds__(8 * N, 512 / (8 * N)) scan_carry(const __grid_constant__ scan_operands<T> p)
{
    constexpr bool EXACT = sizeof(T) == 4;
    constexpr int  CH = TILE_CHANNELS, TT = 32, NT = 8 * N, RP = NT / 8, NP = TT / RP, VQ = N / 4;
    __shared__ __align__(16) float2 sx[TT][CH]; // step and dt u (dy)
    __shared__ __align__(16) float sv[TT][N];   // B (C)
    const block_work               a = block_work_of(p, CH);
    const int                      segment = (int)(a.item % p.segments);
    if (BACK ? segment < p.sub_segments : segment >= p.segments - p.sub_segments) return; // no segment continues it
    const int  tid = threadIdx.x, sc = tid % CH, sg = tid / CH, cq = tid % 8, tr = tid / 8, ch = a.channel + 4 * cq;
    const bool mine = ch < a.channels, ok = a.channel + sc < a.channels;
    const int  at = mine ? ch : a.channel, tiles = (a.length + TT - 1) / TT;
    const sequence_view<const T> &xl = BACK ? p.dout : p.u, &vl = BACK ? p.C : p.B;
    const T                      *gd = p.delta.sequence(a.sequence) + a.first * p.delta.row + at;
    const T                      *gx = xl.at ? xl.sequence(a.sequence) + a.first * xl.row + at : NULL;
    const T                      *gz = BACK && p.z.at ? p.z.sequence(a.sequence) + a.first * p.z.row + at : NULL;
    const T                      *gv = vl.sequence(a.sequence) + a.first * vl.row + a.group * N + tid % VQ * 4;
    const int32_t                *ids = p.ids.at ? p.ids.sequence(a.sequence) + a.first * p.ids.row : NULL;
    float                         A2[4], h[4] = { 0, 0, 0, 0 }, bias[4], steps = 0;
#pragma unroll
    for (int e = 0; e < 4; e++) {
        A2[e] = ok ? A2_of(p.A_log.at[(a.channel + sc) * p.A_log.row + sg * 4 + e]) : 0;
        bias[e] = p.bias && mine ? p.bias[ch + e] : 0;
    }
    quad<T>  rd[NP], rx[NP], rz[NP], rv;
    document doc[NP];
    auto     read = [&](int tile) {
#pragma unroll
        for (int i = 0; i < NP; i++) {
            const int t = min(tile * TT + tr + i * RP, a.length - 1);
            rd[i] = read4(gd + t * p.delta.row);
            if (gx) rx[i] = read4(gx + t * xl.row);
            if (gz) rz[i] = read4(gz + t * p.z.row);
            doc[i] = read_document(ids, p.ids.row, t, t + a.first == 0, false);
        }
        rv = read4(gv + min(tile * TT + tid / VQ, a.length - 1) * vl.row, p.aligned4_bc);
    };
    read(BACK ? tiles - 1 : 0);
    for (int i = 0; i < tiles; i++) {
        const int tile = BACK ? tiles - 1 - i : i;
#pragma unroll
        for (int j = 0; j < NP; j++) {
            const int   r = tr + j * RP;
            const float in = tile * TT + r < a.length ? 1.0f : 0.0f;
            float       d[4], x[4] = { 0, 0, 0, 0 }, z[4];
            values(d, rd[j]);
            if (gx) values(x, rx[j]);
            if (gz) values(z, rz[j]);
            const bool reset = doc[j].here != doc[j].before;
#pragma unroll
            for (int e = 0; e < 4; e++) {
                d[e] = step_of<EXACT>(d[e] + bias[e]) * in;
                x[e] *= BACK ? in : d[e];
                if (gz) x[e] *= z[e] * gate_sigmoid<EXACT>(z[e]);
                if (reset) d[e] = in * RESET_STEP;
            }
            *(float4 *)&sx[r][cq * 4] = make_float4(d[0], x[0], d[1], x[1]);
            *(float4 *)&sx[r][cq * 4 + 2] = make_float4(d[2], x[2], d[3], x[3]);
        }
        float v[4];
        values(v, rv);
        write4(&sv[tid / VQ][tid % VQ * 4], v);
        __syncthreads();
        if (i + 1 < tiles) read(BACK ? tile - 1 : tile + 1);
#pragma unroll 4
        for (int j = 0; j < TT; j++) {
            const int    k = BACK ? TT - 1 - j : j;
            const float2 d = sx[k][sc];
            const float4 w = *(const float4 *)&sv[k][sg * 4];
            const float  V[4] = { w.x, w.y, w.z, w.w };
#pragma unroll
            for (int e = 0; e < 4; e++) {
                const float f = fast_exp2(d.x * A2[e]);
                h[e] = BACK ? f * fmaf(V[e], d.y, h[e]) : fmaf(V[e], d.y, f * h[e]);
            }
            steps += d.x;
        }
        __syncthreads();
    }
    if (!ok) return;
    write4(p.ends + (a.item * p.D + a.channel + sc) * N + sg * 4, h);
    if (sg == 0) p.steps[a.item * p.D + a.channel + sc] = steps;
}

/* start[item] from the final states of the segments before it (back: behind it), `sub` sub-segments per segment. The
 * decay across a segment is that of the sum of its steps. */
__global__ void __launch_bounds__(256)
    scan_combine(float *__restrict__ start, const float *__restrict__ ends, const float *__restrict__ steps,
                 sequence_view<const float> first, sequence_view<const float> A_log, int64_t states, int D, int N,
                 int segments, int sub, bool back)
{
    enum { IN_FLIGHT = 8 }; /* segments loaded ahead: latency is the cost */
    const int64_t i = (int64_t)blockIdx.x * 256 + threadIdx.x;
    if (i >= states) return;
    const int64_t n = i % N, ch = i / N % D, b = i / N / D;
    const float   A2 = A2_of(A_log.at[ch * A_log.row + n]);
    float         h = first.at ? first.sequence(b)[ch * first.row + n] : 0;
    const int     last = segments - sub, items = segments / sub, step_sign = back ? -1 : 1;
    const int64_t leads = (b * segments + (back ? segments - 1 : 0)) * D + ch;
    int64_t       item = ((b * items + (back ? items - 1 : 0)) * D + ch) * N + n;
    int           left = 0; // sub-segments until the next item begins
    for (int from = 0; from <= last; from += IN_FLIGHT) {
        float step[IN_FLIGHT], end[IN_FLIGHT];
#pragma unroll
        for (int k = 0; k < IN_FLIGHT; k++) {
            const int64_t at = leads + (int64_t)step_sign * min(from + k, last - 1) * D; // later ones have none
            step[k] = steps[at];
            end[k] = ends[at * N + n];
        }
#pragma unroll
        for (int k = 0; k < IN_FLIGHT; k++) {
            if (from + k > last) break;
            if (left == 0) {
                start[item] = h;
                item += (int64_t)step_sign * D * N;
                left = sub;
            }
            left--;
            if (from + k == last) break;
            h = fmaf(fast_exp2(A2 * step[k]), h, end[k]);
        }
    }
}

/* ---- launchers ---- */

template <typename T> static mba_status launch_forward(const mba_call *c, int k, const scan_operands<T> &p)
{
    const int    N = p.N;
    const bool   wide = c->plan->launch[k].block > TILE_CHANNELS * N / 4 + ELEMENT_THREADS;
    auto        *kernel = N == 16 ? (wide ? scan_fwd_tiles<T, 16, 64> : scan_fwd_tiles<T, 16, 32>)
                                  : (wide ? scan_fwd_tiles<T, 8, 64> : scan_fwd_tiles<T, 8, 32>);
    const size_t bytes = N == 16 ? (wide ? sizeof(fwd_smem<T, 16, 64>) : sizeof(fwd_smem<T, 16, 32>))
                                 : (wide ? sizeof(fwd_smem<T, 8, 64>) : sizeof(fwd_smem<T, 8, 32>));
    mba_assert(bytes <= c->plan->launch[k].smem_bytes);
    MBA_KERNEL(c, k, kernel, p);
    return MBA_OK;
}

template <typename T> mba_status scan_starts(const mba_call *c, int k, scan_operands<T> *p, bool back, int sub)
{
    float *start = (float *)mba_cuda_scratch(c, back ? CU_STARTS_BACK : CU_STARTS);
    MBA_KERNEL(c, k, scan_combine, start, p->ends, p->steps, back ? p->start_back : p->start, p->A_log,
               (int64_t)p->B_ * p->D * p->N, p->D, p->N, p->segments * sub, sub, back);
    (back ? p->start_back : p->start) = dense_view((const float *)start, (int64_t)p->D, (int64_t)p->N);
    return MBA_OK;
}
template mba_status scan_starts<float>(const mba_call *, int, scan_operands<float> *, bool, int);
template mba_status scan_starts<bf16>(const mba_call *, int, scan_operands<bf16> *, bool, int);

/* Launches k and k + 1: initial states (adjoints) of segments, from sub-segments if the plan has them. */
template <typename T> static mba_status launch_carries(const mba_call *c, int k, scan_operands<T> *p, bool back)
{
    auto            *carry = p->N == 16 ? (back ? scan_carry<T, 16, true> : scan_carry<T, 16, false>)
                                        : (back ? scan_carry<T, 8, true> : scan_carry<T, 8, false>);
    scan_operands<T> fine = *p;
    fine.sub_segments = (int)(c->plan->launch[k].grid[0] / p->items);
    fine.segments *= fine.sub_segments;
    fine.segment /= fine.sub_segments;
    MBA_KERNEL(c, k, carry, fine);
    return scan_starts(c, k + 1, p, back, fine.sub_segments);
}

/* Channels per block of launch k, from its number of threads. */
static int forward_width(const mba_call *c, int k, int64_t N)
{
    return (int)((c->plan->launch[k].block - ELEMENT_THREADS) * 4 / N);
}

/* The forward pass, for both directions. Begins with launch k and advances k. */
template <typename T> static mba_status forward(const mba_call *c, int *k, scan_operands<T> *p)
{
    p->ends = (float *)mba_cuda_scratch(c, CU_ENDS);
    p->steps = (float *)mba_cuda_scratch(c, CU_STEPS);
    if (p->segments > 1) {
        const int blocks = p->blocks;
        p->blocks = (int)mba_ceil(p->Dg, TILE_CHANNELS);
        MBA_TRY(launch_carries(c, *k, p, false));
        p->blocks = blocks;
        *k += 2;
    }
    MBA_TRY(launch_forward(c, *k, *p));
    ++*k;
    return MBA_OK;
}

template <typename T> mba_status scan_states(const mba_call *c, int *k, int64_t items, T *kept, T *ys)
{
    const int64_t    N = scan_dims_of(c->node).N;
    const int        main = *k + (items > scan_dims_of(c->node).B ? 2 : 0);
    scan_operands<T> p = scan_operands_of<T>(c, items, forward_width(c, main, N));
    p.kept = kept;
    p.ys = ys;
    return forward(c, k, &p);
}
template mba_status scan_states<float>(const mba_call *, int *, int64_t, float *, float *);
template mba_status scan_states<bf16>(const mba_call *, int *, int64_t, bf16 *, bf16 *);

template <typename T> mba_status scan_carries_back(const mba_call *c, int *k, scan_operands<T> *p)
{
    p->ends = (float *)mba_cuda_scratch(c, CU_ENDS);
    p->steps = (float *)mba_cuda_scratch(c, CU_STEPS);
    MBA_TRY(launch_carries(c, *k, p, true));
    *k += 2;
    return MBA_OK;
}
template mba_status scan_carries_back<float>(const mba_call *, int *, scan_operands<float> *);
template mba_status scan_carries_back<bf16>(const mba_call *, int *, scan_operands<bf16> *);

extern "C" mba_status selective_scan_tiles_cuda(const mba_call *c)
{
    const mba_node *n = c->node;
    const scan_dims d = scan_dims_of(n);
    const int       main = c->plan->nlaunches - 1;
    int             k = 0;
    MBA_WITH_DTYPE(n->in[U]->type.dtype, T,
                   scan_operands<T> p = scan_operands_of<T>(c, c->plan->launch[main].grid[0],
                                                            forward_width(c, main, d.N));
                   p.out = sequence_view_of<T>(n->out[OUT], c->out[OUT], d.L, d.D);
                   p.final = sequence_view_of<float>(n->out[FINAL], c->out[FINAL], d.D, d.N);
                   set_saved_states(&p, n->out[KEPT], c->out[KEPT]); p.ys = (T *)c->out[YS];
                   MBA_TRY(forward(c, &k, &p)));
    return MBA_OK;
}
