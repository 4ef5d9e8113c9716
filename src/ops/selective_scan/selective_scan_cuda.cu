// SPDX-License-Identifier: Apache-2.0
/* selective_scan_cuda.cu -- variant `tiles` of selective_scan (Mamba-1), forward: fp32 or bf16, any shape, and the
 * passes that find the states between segments of long sequences (the backward pass uses them too).
 *
 *   h = 2^(dt A2) h + dt u B,   out = (C h + D u) silu(z),   dt = softplus(delta + dt_bias)
 *   u, delta, z, out (B, L, D)   B, C (B, L, G, N) bf16 or fp32     A_log (D, N)   states (B, D, N) fp32
 *
 * kernel     scan_fwd_tiles     warp-specialized: state warps run the recurrence; 4 element warps load, compute dt,
 *            gate and store. States in groups of N = 4, 8 or 16, one group after the other, C h of the groups so far in
 *            scratch
 * takes      everything; rows aligned to four values are loaded as vectors
 * launch     grid (items, blocks of 32 or 64 channels), block CH N/4 + 128, dynamic smem 21 to 58 KB
 * resources  sm_90a, CUDA 13.0: 77 to 96 registers, no spill  [docs]
 *            blocks per SM: 2 of 384 threads, 3 of 256, 4 of 192
 * moves      u, delta, z, B, C in, out once each: bound by exponentials and instruction issue, not by DRAM
 * floor      4 x 4096 x 4096, N = 16, bf16: one exponential per element, 331 us at 16 per clock and SM, 1.73 GHz
 * measured   not yet  [docs]
 * order      fixed: time ascends, segments of a sequence in order
 *
 * kernel     scan_carry         final state of a segment that starts from zero (BACK: adjoint), and its sum of steps
 * takes      what scan_fwd_tiles takes
 * launch     grid (items, blocks of 32 channels, groups of states), block 8 N, static smem 10 KB
 * resources  sm_90a, CUDA 13.0: 96 to 219 registers, 8704 to 10240 B of shared memory, no spill  [docs]
 * moves      delta and u (BACK: dout, z), B (C) once: half the exponential work of the main pass
 * measured   H200: 27.3 us, 27 % of floor (special), special 45 % busy; graphmamba-peptides-func, 128 graphs  [docs]
 * order      fixed
 *
 * kernel     scan_combine       initial states of segments from the results of scan_carry, one thread per state
 * launch     grid ceil(B D N / 256), block 256; N padded to whole groups
 * resources  sm_90a, CUDA 13.0: 62 registers, no spill  [docs]
 * moves      one state per item in, one out
 * measured   H200: 8.38 us, 2 % of floor (memory), ALU 28 % busy; graphmamba-peptides-func, 128 graphs  [docs]
 * order      fixed: segments in order */
#include "ops/selective_scan/selective_scan_cuda.cuh"

/* ---- forward. A state warp holds 128 states of one group of N, four per lane: channels lane/4 and + 8 with states
 * 2 (lane%4) and + 1, or for N = 4 channels lane/4, + 8, + 16 and + 24 with state lane%4. State warps and 4 element
 * warps alternate between two buffers, so that exponentials never wait for element-wise work. Named barriers 1, 2:
 * buffer full (element to state warps); 3, 4: done (state to element warps). The groups of states follow each other:
 * group s of tile t is turn s * tiles + t ---- */

template <typename T, int N, int CH> struct fwd_smem {
    enum { LANE_CHANNELS = N == 4 ? 4 : 2, LANE_STATES = 4 / LANE_CHANNELS, HALVES = N == 16 ? 2 : 1 };
    struct buffer {
        float dt[TILE][CH];    /* channels c, c + 8, .. of a lane are adjacent */
        float x[TILE][CH + 8]; /* dt u */
        float b[TILE][N + 8], c[TILE][N + 8];
        float y[HALVES][TILE][CH + 4]; /* partial sums of C h, one per eight states */
    } buf[2];
    quad<T>    stash[2][2][TILE * CH / 512][128]; /* u and z of the two tiles in flight; private to a thread */
    float      bias[CH], skip[CH];
    origins<T> at;
};

enum { ELEMENT_THREADS = 128, FULL = 1, DONE = 3 };

/* C h of the groups so far for four channels of a token, in scratch: adds them to y, and stores the sum unless this is
 * the last group. The thread that reads a value has written it. */
template <typename T, int N>
static __device__ __forceinline__ void add_groups(const scan_operands<T> &p, float (&y)[4], float *at,
                                                  const turn_of<N> &v, int valid)
{
    if (v.state) {
        float old[4];
        values(old, read4(at, p.aligned4, valid));
#pragma unroll
        for (int e = 0; e < 4; e++) y[e] += old[e];
    }
    if (!v.last) write4(at, y, false, p.aligned4, valid);
}

/* The loop of an element warp: loads a tile ahead, computes dt and dt u, and finishes the tile of two buffers ago. */
template <typename T, int N, int CH>
static __device__ __forceinline__ void fwd_elements(const scan_operands<T> &p, fwd_smem<T, N, CH> &sm, int et)
{
    typedef fwd_smem<T, N, CH> S;
    constexpr bool             EXACT = sizeof(T) == 4;
    constexpr int CQ = CH / 4, RP = ELEMENT_THREADS / CQ, NP = TILE / RP, NT = CH * N / 4 + ELEMENT_THREADS;
    constexpr int STRIDE = S::LANE_CHANNELS; // between adjacent channels in rows of dt
    const int     cq = et % CQ, tr = et / CQ, length = sm.at.a.length, tiles = (length + TILE - 1) / TILE;
    const int     valid = sm.at.a.channels - sm.at.a.channel - 4 * cq, turns = p.padded / N * tiles;
    const bool    gated = p.z.at && p.out.at, wide = p.aligned4;
    const int     br = et / (N / 2), bv = et % (N / 4) * 4; // four values of B or C of row br
    const bool    is_c = et % (N / 2) >= N / 4;
    const int     dpos = cq * 4 / (8 * STRIDE) * 8 * STRIDE + cq % 2 * 4 * STRIDE + cq / 2 % STRIDE;
    quad<T>       ru[NP], rd[NP], rz[NP], rb;
    document      doc[NP];
    auto          read = [&](int turn) {
        const turn_of<N> v(turn, tiles, p.N);
#pragma unroll
        for (int i = 0; i < NP; i++) {
            const int  t = min(v.tile * TILE + tr + i * RP, length - 1);
            const bool leads = p.pack > 1 ? t % p.L == 0 : t + sm.at.a.first == 0;
            ru[i] = read4(sm.at.u + t * p.u.row + 4 * cq, wide, valid);
            rd[i] = read4(sm.at.delta + t * p.delta.row + 4 * cq, wide, valid);
            if (gated && v.last) rz[i] = read4(sm.at.z + t * p.z.row + 4 * cq, wide, valid);
            doc[i] = read_document(sm.at.ids, p.ids.row, t, leads, p.pack > 1);
        }
        const int t = min(v.tile * TILE + br, length - 1);
        if (br < TILE)
            rb = read4((is_c ? sm.at.C + t * p.C.row : sm.at.B + t * p.B.row) + v.state + bv, p.aligned4_bc,
                       p.N - v.state - bv);
    };
    auto finish = [&](int turn) {
        const turn_of<N> v(turn, tiles, p.N);
        const auto      &s = sm.buf[turn & 1];
#pragma unroll
        for (int i = 0; i < NP; i++) {
            const int    r = tr + i * RP, t = v.tile * TILE + r;
            const float4 y0 = *(const float4 *)&s.y[0][r][cq * 4], k = *(const float4 *)&sm.skip[cq * 4];
            const float4 y1 = N == 16 ? *(const float4 *)&s.y[S::HALVES - 1][r][cq * 4] : make_float4(0, 0, 0, 0);
            float        y[4] = { y0.x + y1.x, y0.y + y1.y, y0.z + y1.z, y0.w + y1.w }, u[4], z[4];
            if (t >= length || valid <= 0 || !(p.out.at || p.ys)) continue;
            if (p.padded > N) add_groups<T, N>(p, y, sm.at.partial + (int64_t)t * p.D + 4 * cq, v, valid);
            if (!v.last) continue;
            values(u, sm.stash[turn & 1][0][i][et]);
            y[0] = fmaf(k.x, u[0], y[0]);
            y[1] = fmaf(k.y, u[1], y[1]);
            y[2] = fmaf(k.z, u[2], y[2]);
            y[3] = fmaf(k.w, u[3], y[3]);
            if (p.ys) write4(sm.at.ys + (int64_t)t * p.D + 4 * cq, y, false, wide, valid);
            if (!p.out.at) continue;
            if (gated) {
                values(z, sm.stash[turn & 1][1][i][et]);
#pragma unroll
                for (int e = 0; e < 4; e++) y[e] *= z[e] * gate_sigmoid<EXACT>(z[e]);
            }
            write4(sm.at.out + t * p.out.row + 4 * cq, y, false, wide, valid);
        }
    };
    read(0);
    for (int turn = 0; turn < turns; turn++) {
        auto     &s = sm.buf[turn & 1];
        const int tile = turn_of<N>(turn, tiles, p.N).tile;
        if (turn >= 2) {
            barrier_wait<DONE>(turn, NT);
            finish(turn - 2);
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
            sm.stash[turn & 1][0][i][et] = ru[i];
            if (gated) sm.stash[turn & 1][1][i][et] = rz[i];
#pragma unroll
            for (int e = 0; e < 4; e++) {
                d[e] = step_of<EXACT>(d[e] + bias[e]) * in;
                u[e] *= d[e];
                s.dt[r][dpos + e * STRIDE] = reset ? in * RESET_STEP : d[e];
            }
            write4(&s.x[r][cq * 4], u);
        }
        if (br < TILE) {
            float v[4];
            values(v, rb);
            write4((is_c ? s.c[br] : s.b[br]) + bv, v);
        }
        barrier_arrive<FULL>(turn, NT);
        if (turn + 1 < turns) read(turn + 1);
    }
    for (int turn = max(turns - 2, 0); turn < turns; turn++) {
        barrier_wait<DONE>(turn, NT);
        finish(turn);
    }
}

/* Saves the state of a lane's channels below `limit` (row: of this block's first channel). */
template <typename S>
static __device__ __forceinline__ void save_states(float *row, int stride, const float (&h)[4], int channel, int limit)
{
#pragma unroll
    for (int i = 0; i < S::LANE_CHANNELS; i++) {
        float *to = row + (int64_t)(channel + 8 * i) * stride;
        if (channel + 8 * i >= limit) continue;
        if (S::LANE_STATES == 2) *(float2 *)to = make_float2(h[2 * i % 4], h[(2 * i + 1) % 4]);
        else *to = h[i];
    }
}

/* Four tokens from row `r4` on: the recurrence, and C h, of which a lane gets token lane%4. */
template <typename S>
static __device__ __forceinline__ void state_tokens(float (&h)[4], const float (&A2)[4], typename S::buffer &s, int r4,
                                                    int half, int cg, int state, int l4, int l8)
{
    enum { LC = S::LANE_CHANNELS, LS = S::LANE_STATES };
    float y[LC][4];
#pragma unroll
    for (int j = 0; j < 4; j++) {
        float dt[LC], x[LC], b[LS], c[LS];
        load(dt, &s.dt[r4 + j][cg * 8 * LC + l8 * LC]);
        load(b, &s.b[r4 + j][state]);
        load(c, &s.c[r4 + j][state]);
#pragma unroll
        for (int i = 0; i < LC; i++) {
            x[i] = s.x[r4 + j][cg * 8 * LC + l8 + 8 * i];
            y[i][j] = 0;
        }
#pragma unroll
        for (int e = 0; e < 4; e++) {
            h[e] = fmaf(fast_exp2(dt[e / LS] * A2[e]), h[e], x[e / LS] * b[e % LS]);
            y[e / LS][j] = fmaf(c[e % LS], h[e], y[e / LS][j]);
        }
    }
#pragma unroll
    for (int i = 0; i < LC; i++)
        s.y[half][r4 + l4][cg * 8 * LC + l8 + 8 * i] = fold(fold(y[i][0], y[i][1], 1), fold(y[i][2], y[i][3], 1), 2);
}

/* The loop of a state warp: the recurrence, C h, and saved states. */
template <typename T, int N, int CH>
static __device__ __forceinline__ void fwd_states(const scan_operands<T> &p, fwd_smem<T, N, CH> &sm, int warp, int lane)
{
    typedef fwd_smem<T, N, CH> S;
    enum { LC = S::LANE_CHANNELS, LS = S::LANE_STATES };
    const block_work a = sm.at.a;
    constexpr int    NG = CH / (8 * LC), NT = CH * N / 4 + ELEMENT_THREADS;
    const int        l4 = lane & 3, l8 = lane >> 2, cg = warp % NG, half = warp / NG, c0 = cg * 8 * LC + l8;
    const int        own = half * 8 + l4 * LS, tiles = (a.length + TILE - 1) / TILE, turns = p.padded / N * tiles;
    const bool       twice = p.saved_every == SAVE_EVERY; // saves within a tile
    float            A2[4], h[4];
    for (int turn = 0; turn < turns; turn++) {
        const turn_of<N> v(turn, tiles, p.N);
        auto            &s = sm.buf[turn & 1];
        auto             each = [&](auto f) { // f(element, channel, state) for what is in range
#pragma unroll
            for (int e = 0; e < 4; e++) {
                const int64_t ch = a.channel + c0 + 8 * (e / LS), n = v.state + own + e % LS;
                if (ch < a.channels && n < p.N) f(e, ch, n);
            }
        };
        if (v.tile == 0) {
#pragma unroll
            for (int e = 0; e < 4; e++) A2[e] = h[e] = 0;
            each([&](int e, int64_t ch, int64_t n) {
                A2[e] = A2_of(p.A_log.at[ch * p.A_log.row + n]);
                if (p.start.at) h[e] = p.start.sequence(a.item)[ch * p.start.row + n];
            });
        }
        barrier_wait<FULL>(turn, NT);
#pragma unroll
        for (int g = 0; g < TILE; g += 4) {
            if (p.kept && (g == 0 || (g == SAVE_EVERY && twice && v.tile * TILE + SAVE_EVERY < a.length))) {
                const int64_t row = twice ? v.tile * 2 + g / SAVE_EVERY : v.tile;
                save_states<S>(sm.at.kept + row * p.D * p.kept_states + v.state + own, p.kept_states, h, c0,
                               v.state + own < p.kept_states ? a.channels - a.channel : 0);
            }
            state_tokens<S>(h, A2, s, g, half, cg, own, l4, l8);
        }
        barrier_arrive<DONE>(turn, NT);
        if (v.tile == tiles - 1 && p.final.at && a.first + a.length >= p.L)
            each([&](int e, int64_t ch, int64_t n) { p.final.sequence(a.sequence)[ch * p.final.row + n] = h[e]; });
    }
}

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900 /* there 80 registers are too few for N = 4 */
#define FEW_REGISTERS 1
#else
#define FEW_REGISTERS 0
#endif

template <typename T, int N, int CH>
__global__ void __launch_bounds__(CH *N / 4 + ELEMENT_THREADS, (N == 4 && (sizeof(T) == 4 || FEW_REGISTERS) ? 576 : 768)
                                                                   / (CH * N / 4 + ELEMENT_THREADS))
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
__global__ void __launch_bounds__(8 * N, (N == 4 ? 256 : 512) / (8 * N))
    scan_carry(const __grid_constant__ scan_operands<T> p)
{
    constexpr bool EXACT = sizeof(T) == 4;
    constexpr int  CH = TILE_CHANNELS, TT = 32, NT = 8 * N, RP = NT / 8, NP = TT / RP, VQ = N / 4;
    __shared__ __align__(16) float2 sx[TT][CH]; // step and dt u (dy)
    __shared__ __align__(16) float sv[TT][N];   // B (C)
    const block_work               a = block_work_of(p, CH);
    const int                      segment = (int)(a.item % p.segments);
    if (BACK ? segment < p.sub_segments : segment >= p.segments - p.sub_segments) return; // no segment continues it
    const int  tid = threadIdx.x, sc = tid % CH, sg = tid / CH, cq = tid % 8, tr = tid / 8, ch = a.channel + 4 * cq;
    const int  valid = a.channels - ch, first_state = (int)blockIdx.z * N, own = first_state + sg * 4;
    const int  tiles = (a.length + TT - 1) / TT;
    const bool ok = a.channel + sc < a.channels;
    const sequence_view<const T> &xl = BACK ? p.dout : p.u, &vl = BACK ? p.C : p.B;
    const T                      *gd = p.delta.sequence(a.sequence) + a.first * p.delta.row + ch;
    const T                      *gx = xl.at ? xl.sequence(a.sequence) + a.first * xl.row + ch : NULL;
    const T                      *gz = BACK && p.z.at ? p.z.sequence(a.sequence) + a.first * p.z.row + ch : NULL;
    const T       *gv = vl.sequence(a.sequence) + a.first * vl.row + a.group * p.N + first_state + tid % VQ * 4;
    const int32_t *ids = p.ids.at ? p.ids.sequence(a.sequence) + a.first * p.ids.row : NULL;
    float          A2[4], h[4] = { 0, 0, 0, 0 }, bias[4], steps = 0;
#pragma unroll
    for (int e = 0; e < 4; e++) {
        A2[e] = ok && own + e < p.N ? A2_of(p.A_log.at[(a.channel + sc) * p.A_log.row + own + e]) : 0;
        bias[e] = p.bias && e < valid ? p.bias[ch + e] : 0;
    }
    quad<T>  rd[NP], rx[NP], rz[NP], rv;
    document doc[NP];
    auto     read = [&](int tile) {
#pragma unroll
        for (int i = 0; i < NP; i++) {
            const int t = min(tile * TT + tr + i * RP, a.length - 1);
            rd[i] = read4(gd + t * p.delta.row, p.aligned4, valid);
            if (gx) rx[i] = read4(gx + t * xl.row, p.aligned4, valid);
            if (gz) rz[i] = read4(gz + t * p.z.row, p.aligned4, valid);
            doc[i] = read_document(ids, p.ids.row, t, t + a.first == 0, false);
        }
        rv = read4(gv + min(tile * TT + tid / VQ, a.length - 1) * vl.row, p.aligned4_bc,
                   p.N - first_state - tid % VQ * 4);
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
    write4(p.ends + (a.item * p.D + a.channel + sc) * p.padded + own, h);
    if (own == 0) p.steps[a.item * p.D + a.channel + sc] = steps;
}

/* start[item] from the final states of the segments before it (back: behind it), `sub` sub-segments per segment. The
 * decay across a segment is that of the sum of its steps. */
__global__ void __launch_bounds__(256)
    scan_combine(float *__restrict__ start, const float *__restrict__ ends, const float *__restrict__ steps,
                 sequence_view<const float> first, sequence_view<const float> A_log, int64_t states, int D, int N,
                 int padded, int segments, int sub, bool back)
{
    enum { IN_FLIGHT = 8 }; /* segments loaded ahead: latency is the cost */
    const int64_t i = (int64_t)blockIdx.x * 256 + threadIdx.x;
    if (i >= states) return;
    const int64_t n = i % padded, ch = i / padded % D, b = i / padded / D;
    if (n >= N) return;
    const float   A2 = A2_of(A_log.at[ch * A_log.row + n]);
    float         h = first.at ? first.sequence(b)[ch * first.row + n] : 0;
    const int     last = segments - sub, items = segments / sub, step_sign = back ? -1 : 1;
    const int64_t leads = (b * segments + (back ? segments - 1 : 0)) * D + ch;
    int64_t       item = ((b * items + (back ? items - 1 : 0)) * D + ch) * padded + n;
    int           left = 0; // sub-segments until the next item begins
    for (int from = 0; from <= last; from += IN_FLIGHT) {
        float step[IN_FLIGHT], end[IN_FLIGHT];
#pragma unroll
        for (int k = 0; k < IN_FLIGHT; k++) {
            const int64_t at = leads + (int64_t)step_sign * min(from + k, last - 1) * D; // later ones have none
            step[k] = steps[at];
            end[k] = ends[at * padded + n];
        }
#pragma unroll
        for (int k = 0; k < IN_FLIGHT; k++) {
            if (from + k > last) break;
            if (left == 0) {
                start[item] = h;
                item += (int64_t)step_sign * D * padded;
                left = sub;
            }
            left--;
            if (from + k == last) break;
            h = fmaf(fast_exp2(A2 * step[k]), h, end[k]);
        }
    }
}

/* ---- launchers ---- */

template <typename T, int N> static mba_status launch_forward_of(const mba_call *c, int k, const scan_operands<T> &p)
{
    const bool wide = c->plan->launch[k].block > TILE_CHANNELS * N / 4 + ELEMENT_THREADS;
    auto      *kernel = wide ? scan_fwd_tiles<T, N, 64> : scan_fwd_tiles<T, N, 32>;
    mba_assert((wide ? sizeof(fwd_smem<T, N, 64>) : sizeof(fwd_smem<T, N, 32>)) <= c->plan->launch[k].smem_bytes);
    MBA_KERNEL(c, k, kernel, p);
    return MBA_OK;
}

template <typename T> static mba_status launch_forward(const mba_call *c, int k, const scan_operands<T> &p)
{
    const int64_t N = scan_group_states(p.N);
    return N == 4   ? launch_forward_of<T, 4>(c, k, p)
           : N == 8 ? launch_forward_of<T, 8>(c, k, p)
                    : launch_forward_of<T, 16>(c, k, p);
}

template <typename T> mba_status scan_starts(const mba_call *c, int k, scan_operands<T> *p, bool back, int sub)
{
    float *start = (float *)mba_cuda_scratch(c, back ? CU_STARTS_BACK : CU_STARTS);
    MBA_KERNEL(c, k, scan_combine, start, p->ends, p->steps, back ? p->start_back : p->start, p->A_log,
               (int64_t)p->B_ * p->D * p->padded, p->D, p->N, p->padded, p->segments * sub, sub, back);
    (back ? p->start_back : p->start) = dense_view((const float *)start, (int64_t)p->D, (int64_t)p->padded);
    return MBA_OK;
}
template mba_status scan_starts<float>(const mba_call *, int, scan_operands<float> *, bool, int);
template mba_status scan_starts<bf16>(const mba_call *, int, scan_operands<bf16> *, bool, int);

/* Launches k and k + 1: initial states (adjoints) of segments, from sub-segments if the plan has them. */
template <typename T> static mba_status launch_carries(const mba_call *c, int k, scan_operands<T> *p, bool back)
{
    const int64_t    N = scan_group_states(p->N);
    auto            *carry = N == 16  ? (back ? scan_carry<T, 16, true> : scan_carry<T, 16, false>)
                             : N == 8 ? (back ? scan_carry<T, 8, true> : scan_carry<T, 8, false>)
                                      : (back ? scan_carry<T, 4, true> : scan_carry<T, 4, false>);
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
    return (int)((c->plan->launch[k].block - ELEMENT_THREADS) * 4 / scan_group_states(N));
}

template <typename T> mba_status scan_carries(const mba_call *c, int *k, scan_operands<T> *p, bool back)
{
    const int blocks = p->blocks;
    p->ends = (float *)mba_cuda_scratch(c, CU_ENDS);
    p->steps = (float *)mba_cuda_scratch(c, CU_STEPS);
    if (p->segments == 1) return MBA_OK;
    p->blocks = (int)mba_ceil(p->Dg, TILE_CHANNELS);
    MBA_TRY(launch_carries(c, *k, p, back));
    p->blocks = blocks;
    *k += 2;
    return MBA_OK;
}
template mba_status scan_carries<float>(const mba_call *, int *, scan_operands<float> *, bool);
template mba_status scan_carries<bf16>(const mba_call *, int *, scan_operands<bf16> *, bool);

/* The forward pass, for both directions. Begins with launch k and advances k. */
template <typename T> static mba_status forward(const mba_call *c, int *k, scan_operands<T> *p)
{
    p->partial = (float *)mba_cuda_scratch(c, CU_PARTIAL);
    p->aligned4 = all_vec_aligned<4>(*p);
    MBA_TRY(scan_carries(c, k, p, false));
    MBA_TRY(launch_forward(c, *k, *p));
    ++*k;
    return MBA_OK;
}

template <typename T> mba_status scan_states(const mba_call *c, int *k, int64_t items, float *kept, T *ys)
{
    const int64_t    N = scan_dims_of(c->node).N;
    const int        main = *k + (items > scan_dims_of(c->node).B ? 2 : 0);
    scan_operands<T> p = scan_operands_of<T>(c, items, forward_width(c, main, N));
    p.kept = kept;
    p.ys = ys;
    return forward(c, k, &p);
}
template mba_status scan_states<float>(const mba_call *, int *, int64_t, float *, float *);
template mba_status scan_states<bf16>(const mba_call *, int *, int64_t, float *, bf16 *);

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
