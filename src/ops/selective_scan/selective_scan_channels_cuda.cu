// SPDX-License-Identifier: Apache-2.0
/* selective_scan_channels_cuda.cu -- variant `channels` of selective_scan (Mamba-1), forward and backward, for up to 4
 * states, where loads, softplus and gate are most of the work: a thread holds a channel with all its states.
 *
 * A warp takes CHUNK tokens of 32 channels, the warps of a block consecutive chunks: a span. Every warp computes the
 * final state of its chunk from a zero state; all exchange these, so that each knows the state before its chunk, and
 * computes the chunk again from it. Backward: the same for the adjoint, from the end.
 *
 * kernel     scan_fwd_channels     out, or the states before every span (STATES), for the backward pass
 * takes      N <= 4, enough sequences and channels to fill the GPU without segments
 * launch     grid (B, blocks of 32 channels), block 32 ceil(L / CHUNK), at most 256
 * resources  sm_90a, CUDA 13.0: none measured yet  [docs]
 * moves      u, delta, z, B, C in, out once each: bound by DRAM and instruction issue
 * measured   not yet  [docs]
 * order      fixed: chunks of a span in order, spans in order
 *
 * kernel     scan_bwd_channels     all gradients; y is recomputed
 * launch     the same
 * resources  sm_90a, CUDA 13.0: none measured yet  [docs]
 * moves      u, delta, z, dout, B, C in, du, ddelta, dz out, once each; 2N/32 fp32 of dB and dC per token and channel
 * measured   not yet  [docs]
 * order      fixed: time descends; sums of warps in order; scan_sums_* adds blocks of channels and sequences */
#include "ops/selective_scan/selective_scan_cuda.cuh"

enum { CHUNK = CHANNELS_CHUNK, WARPS = CHANNELS_WARPS, LANES = 32 };

/* Two of each: a span needs one barrier. */
template <int N> struct channels_smem {
    float steps[2][WARPS][LANES], ends[2][WARPS][N][LANES], adjoints[2][WARPS][N][LANES];
    float bc[WARPS][CHUNK][2 * N]; /* B | C of a warp's chunk */
    float sums[WARPS][N + 2][LANES];
};

/* What a thread knows about its channel. */
template <typename T, int N> struct channel {
    block_work     a;
    bool           ok;
    int            ch, warp, lane, warps, spans;
    float          bias, skip, A2[N];
    const T       *u, *delta, *z, *dout, *B, *C;
    const int32_t *ids;
};

template <typename T, int N> static __device__ __forceinline__ channel<T, N> channel_of(const scan_operands<T> &p)
{
    channel<T, N> c;
    c.a = block_work_of(p, LANES);
    c.warp = (int)threadIdx.x / LANES;
    c.lane = (int)threadIdx.x % LANES;
    c.warps = (int)blockDim.x / LANES;
    c.spans = (p.L + c.warps * CHUNK - 1) / (c.warps * CHUNK);
    c.ok = c.a.channel + c.lane < c.a.channels;
    c.ch = c.ok ? c.a.channel + c.lane : c.a.channel;
    c.bias = p.bias ? p.bias[c.ch] : 0;
    c.skip = p.skip ? p.skip[c.ch] : 0;
#pragma unroll
    for (int n = 0; n < N; n++) c.A2[n] = n < p.N ? A2_of(p.A_log.at[(int64_t)c.ch * p.A_log.row + n]) : 0;
    c.u = p.u.sequence(c.a.sequence) + c.ch;
    c.delta = p.delta.sequence(c.a.sequence) + c.ch;
    c.z = p.z.at ? p.z.sequence(c.a.sequence) + c.ch : NULL;
    c.dout = p.dout.at ? p.dout.sequence(c.a.sequence) + c.ch : NULL;
    c.B = p.B.sequence(c.a.sequence) + c.a.group * p.N;
    c.C = p.C.sequence(c.a.sequence) + c.a.group * p.N;
    c.ids = p.ids.at ? p.ids.sequence(c.a.sequence) : NULL;
    return c;
}

/* The numbers of a chunk as they lie in memory. All loads are issued before the first is used; other blocks of the SM
 * compute meanwhile. */
template <typename T, int N> struct raw_chunk {
    T        u[CHUNK], delta[CHUNK], z[CHUNK], dout[CHUNK];
    T        bc[(CHUNK * 2 * N + LANES - 1) / LANES];
    uint32_t resets; /* bit i: token i starts a document */
};

template <typename T, int N>
static __device__ __forceinline__ void load_chunk(raw_chunk<T, N> &r, const scan_operands<T> &p, const channel<T, N> &c,
                                                  int first)
{
    const int last = p.L - 1;
#pragma unroll
    for (int i = 0; i < CHUNK; i++) {
        const int t = min(first + i, last);
        r.u[i] = *row_at(c.u, t, (int)(sizeof(T) * p.u.row));
        r.delta[i] = *row_at(c.delta, t, (int)(sizeof(T) * p.delta.row));
        if (c.z) r.z[i] = *row_at(c.z, t, (int)(sizeof(T) * p.z.row));
        if (c.dout) r.dout[i] = *row_at(c.dout, t, (int)(sizeof(T) * p.dout.row));
    }
#pragma unroll
    for (int k = 0; k < (int)(sizeof r.bc / sizeof *r.bc); k++) {
        const int  v = k * LANES + c.lane, t = min(first + v / (2 * N), last), n = min(v % N, p.N - 1);
        const bool is_c = v / N % 2;
        r.bc[k] = *row_at((is_c ? c.C : c.B) + n, t, (int)(sizeof(T) * (is_c ? p.C.row : p.B.row)));
    }
    r.resets = 0;
    for (int i = 0; c.ids && i < CHUNK; i++) {
        const int64_t t = first + i;
        if (t > 0 && t <= last) r.resets |= (uint32_t)(c.ids[t * p.ids.row] != c.ids[(t - 1) * p.ids.row]) << i;
    }
}

/* Steps, dt u, and B and C in shared memory, of tokens in range; all others are zero. */
template <typename T, int N> struct chunk {
    float                            dt[CHUNK], u[CHUNK];
    uint32_t                         resets;
    __device__ __forceinline__ float decay_step(int i) const { return resets >> i & 1 ? RESET_STEP : dt[i]; }
};

template <typename T, int N>
static __device__ __forceinline__ void open_chunk(chunk<T, N> &k, channels_smem<N> &sm, const raw_chunk<T, N> &r,
                                                  const scan_operands<T> &p, const channel<T, N> &c, int first)
{
    k.resets = r.resets;
#pragma unroll
    for (int i = 0; i < CHUNK; i++) {
        const bool in = c.ok && first + i < p.L;
        k.dt[i] = in ? step_of<sizeof(T) == 4>(to_float(r.delta[i]) + c.bias) : 0;
        k.u[i] = in ? to_float(r.u[i]) : 0;
    }
    __syncwarp();
#pragma unroll
    for (int j = 0; j < (int)(sizeof r.bc / sizeof *r.bc); j++) {
        const int v = j * LANES + c.lane;
        if (v < CHUNK * 2 * N) ((float *)sm.bc[c.warp])[v] = v % N < p.N ? to_float(r.bc[j]) : 0;
    }
    __syncwarp();
}

/* One step of the recurrence. */
template <typename T, int N>
static __device__ __forceinline__ void next_state(float (&h)[N], const chunk<T, N> &k, const channel<T, N> &c,
                                                  const float *b, int i)
{
    const float d = k.decay_step(i), x = k.dt[i] * k.u[i];
#pragma unroll
    for (int n = 0; n < N; n++) h[n] = fmaf(fast_exp2(d * c.A2[n]), h[n], x * b[n]);
}

/* Leaves the final state of this warp's chunk from a zero state, and the sum of its steps, in buffer `turn`. */
template <typename T, int N>
static __device__ __forceinline__ void leave_end(channels_smem<N> &sm, const chunk<T, N> &k, const channel<T, N> &c,
                                                 int turn)
{
    float h[N] = {}, steps = 0;
#pragma unroll
    for (int i = 0; i < CHUNK; i++) {
        next_state<T, N>(h, k, c, sm.bc[c.warp][i], i);
        steps += k.decay_step(i);
    }
    sm.steps[turn][c.warp][c.lane] = steps;
#pragma unroll
    for (int n = 0; n < N; n++) sm.ends[turn][c.warp][n][c.lane] = h[n];
}

/* Hides that A2 is the same, or the compiler would keep all decays of the first computation for the second, and
 * spill. */
template <int N> static __device__ __forceinline__ void forget(float (&A2)[N])
{
#pragma unroll
    for (int n = 0; n < N; n++) asm volatile("" : "+f"(A2[n]));
}

/* From the state before a span: the state before this warp's chunk, and behind the span. BACK: adjoints, from the other
 * end. */
template <int N, bool BACK>
static __device__ __forceinline__ void pass_chunks(float (&mine)[N], float (&all)[N], const float (&A2)[N],
                                                   const channels_smem<N> &sm, int turn, int warp, int warps, int lane)
{
    for (int i = 0; i < warps; i++) {
        const int   w = BACK ? warps - 1 - i : i;
        const float steps = sm.steps[turn][w][lane];
#pragma unroll
        for (int n = 0; n < N; n++) {
            if (w == warp) mine[n] = all[n];
            all[n] = fmaf(fast_exp2(A2[n] * steps), all[n], (BACK ? sm.adjoints : sm.ends)[turn][w][n][lane]);
        }
    }
}

/* Calls f(state, value) for the states of this thread's channel, in a tensor (.., D, N). */
template <typename T, int N, typename X, typename F>
static __device__ __forceinline__ void each_state(const sequence_view<X> &l, const channel<T, N> &c, int states, F f)
{
    if (!l.at || !c.ok) return;
    X *row = l.sequence(c.a.sequence) + (int64_t)c.ch * l.row;
#pragma unroll
    for (int n = 0; n < N; n++)
        if (n < states) f(n, row + n);
}

template <typename T, int N, bool STATES>
__global__ void __launch_bounds__(LANES *WARPS, N == 1 ? 3 : 2)
    scan_fwd_channels(const __grid_constant__ scan_operands<T> p)
{
    __shared__ channels_smem<N> sm;
    channel<T, N>               c = channel_of<T, N>(p);
    const int                   span = c.warps * CHUNK;
    float                       before[N] = {}, h[N];
    chunk<T, N>                 k;
    each_state<T, N>(p.start, c, p.N, [&](int n, const float *v) { before[n] = *v; });
    for (int s = 0; s < c.spans; s++) {
        const int       first = s * span + c.warp * CHUNK;
        raw_chunk<T, N> raw;
        load_chunk<T, N>(raw, p, c, first);
        open_chunk<T, N>(k, sm, raw, p, c, first);
        leave_end<T, N>(sm, k, c, s & 1);
        if (STATES && c.warp == 0 && c.ok) {
            float *to = p.kept + ((c.a.sequence * c.spans + s) * p.D + c.ch) * p.padded;
#pragma unroll
            for (int n = 0; n < N; n++) to[n] = before[n];
        }
        __syncthreads();
        forget<N>(c.A2);
        pass_chunks<N, false>(h, before, c.A2, sm, s & 1, c.warp, c.warps, c.lane);
#pragma unroll
        for (int i = 0; i < CHUNK && !STATES; i++) {
            const float *b = sm.bc[c.warp][i];
            float        y = c.skip * k.u[i];
            next_state<T, N>(h, k, c, b, i);
#pragma unroll
            for (int n = 0; n < N; n++) y = fmaf(b[N + n], h[n], y);
            if (c.z) {
                const float g = to_float(raw.z[i]);
                y *= g * gate_sigmoid<sizeof(T) == 4>(g);
            }
            if (c.ok && first + i < p.L)
                *row_at(p.out.sequence(c.a.sequence) + c.ch, first + i,
                        (int)(sizeof(T) * p.out.row)) = from_float<T>(y);
        }
    }
    if (c.warp == 0) each_state<T, N>(p.final, c, p.N, [&](int n, float *v) { *v = before[n]; });
}

/* ---- backward ---- */

/* Sums eight values over the lanes of a warp; a lane gets value lane%8. */
static __device__ __forceinline__ float sum_lanes(const float (&v)[8])
{
    float s = fold(fold(fold(v[0], v[1], 1), fold(v[2], v[3], 1), 2), fold(fold(v[4], v[5], 1), fold(v[6], v[7], 1), 2),
                   4);
    s += __shfl_xor_sync(0xffffffffu, s, 8);
    return s + __shfl_xor_sync(0xffffffffu, s, 16);
}

template <typename T>
static __device__ __forceinline__ void put(const sequence_view<T> &l, int64_t sequence, int ch, int t, float v,
                                           bool add)
{
    if (!l.at) return;
    T *to = row_at(l.sequence(sequence) + ch, t, (int)(sizeof(T) * l.row));
    *to = from_float<T>(v + (add ? to_float(*to) : 0));
}

/* The sums of one thread over time. */
template <int N> struct thread_sums {
    float dA[N], dskip, dbias;
};

/* States from `h` on, which become those before each token and behind the last; dz from y and dout silu'(z). */
template <typename T, int N>
static __device__ __forceinline__ void states_of_chunk(float (&h)[CHUNK + 1][N], const scan_operands<T> &p,
                                                       const channels_smem<N> &sm, const chunk<T, N> &k,
                                                       const channel<T, N> &c, const float (&dz)[CHUNK], int first)
{
#pragma unroll
    for (int i = 0; i < CHUNK; i++) {
        const float *b = sm.bc[c.warp][i];
        float        y = c.skip * k.u[i];
#pragma unroll
        for (int n = 0; n < N; n++) h[i + 1][n] = h[i][n];
        next_state<T, N>(h[i + 1], k, c, b, i);
#pragma unroll
        for (int n = 0; n < N; n++) y = fmaf(b[N + n], h[i + 1][n], y);
        if (c.ok && first + i < p.L) put(p.dz, c.a.sequence, c.ch, first + i, dz[i] * y, p.adds >> DZ & 1);
    }
}

/* Adjoint steps, last token first. g is a_{t+1} lam_{t+1} of the last token. */
template <typename T, int N>
static __device__ __forceinline__ void adjoints_of_chunk(float (&g)[N], thread_sums<N>                          &sums,
                                                         const float (&h)[CHUNK + 1][N], const scan_operands<T> &p,
                                                         const channels_smem<N> &sm, const chunk<T, N> &k,
                                                         const channel<T, N> &c, const float (&dy)[CHUNK], int first)
{
    constexpr int TOKENS = 4 / N; // whose dB and dC are eight values
    float         v[8];
    float        *bc = p.bc + ((int64_t)c.a.block * p.tokens + c.a.token) * 2 * p.padded;
#pragma unroll
    for (int i = CHUNK - 1; i >= 0; i--) {
        const float *b = sm.bc[c.warp][i], d = k.decay_step(i), x = k.dt[i] * k.u[i];
        float        q = 0, r = 0;
#pragma unroll
        for (int n = 0; n < N; n++) {
            const float lam = fmaf(b[N + n], dy[i], g[n]);
            g[n] = fast_exp2(d * c.A2[n]) * lam;
            const float w = g[n] * h[i][n];
            sums.dA[n] = fmaf(k.dt[i], w, sums.dA[n]);
            q = fmaf(lam, b[n], q);
            r = fmaf(c.A2[n], w, r);
            v[i % TOKENS * 2 * N + n] = lam * x;
            v[i % TOKENS * 2 * N + N + n] = dy[i] * h[i + 1][n];
        }
        if (i % TOKENS == 0) {
            const float s = sum_lanes(v);
            const int   t = first + i + c.lane % 8 / (2 * N), n = c.lane % (2 * N);
            if (c.lane < 8 && t < p.L) bc[(int64_t)t * 2 * p.padded + (n < N ? n : p.padded + n - N)] = s;
        }
        const float dd = fmaf(k.u[i], q, LN2 * r) * step_slope<sizeof(T) == 4>(k.dt[i]);
        sums.dskip = fmaf(dy[i], k.u[i], sums.dskip);
        sums.dbias += dd;
        if (!c.ok || first + i >= p.L) continue;
        put(p.du, c.a.sequence, c.ch, first + i, fmaf(k.dt[i], q, c.skip * dy[i]), p.adds >> DU & 1);
        put(p.ddelta, c.a.sequence, c.ch, first + i, dd, p.adds >> DDELTA & 1);
    }
}

/* Adds the sums of all warps, in order, to scratch. */
template <typename T, int N>
static __device__ __forceinline__ void finish_sums(const scan_operands<T> &p, channels_smem<N> &sm,
                                                   const channel<T, N> &c, const thread_sums<N> &sums)
{
#pragma unroll
    for (int n = 0; n < N; n++) sm.sums[c.warp][n][c.lane] = sums.dA[n];
    sm.sums[c.warp][N][c.lane] = sums.dskip;
    sm.sums[c.warp][N + 1][c.lane] = sums.dbias;
    __syncthreads();
    for (int k = c.warp; k < N + 2 && c.ok; k += c.warps) {
        float s = 0;
        for (int w = 0; w < c.warps; w++) s += sm.sums[w][k][c.lane];
        const int64_t at = k < N ? (int64_t)c.ch * p.N + k : (int64_t)p.D * (p.N + k - N) + c.ch;
        if (k >= N || k < p.N) p.sums[c.a.item * p.D * (p.N + 2) + at] = s;
    }
}

template <typename T, int N>
__global__ void __launch_bounds__(LANES *WARPS, N == 4 ? 1 : 2)
    scan_bwd_channels(const __grid_constant__ scan_operands<T> p)
{
    __shared__ channels_smem<N> sm;
    channel<T, N>               c = channel_of<T, N>(p);
    const int                   span = c.warps * CHUNK;
    float                       behind[N] = {}, g[N];
    thread_sums<N>              sums = {};
    chunk<T, N>                 k;
    each_state<T, N>(p.start_back, c, p.N, [&](int n, const float *v) { behind[n] = *v; });
    for (int s = c.spans - 1; s >= 0; s--) {
        const int first = s * span + c.warp * CHUNK;
        float     dy[CHUNK], dz[CHUNK], before[N], h[CHUNK + 1][N];

        // 1. steps, dy, and dout silu'(z), which y will multiply
        raw_chunk<T, N> raw;
        load_chunk<T, N>(raw, p, c, first);
        open_chunk<T, N>(k, sm, raw, p, c, first);
#pragma unroll
        for (int i = 0; i < CHUNK; i++) {
            const float z = c.z ? to_float(raw.z[i]) : 0, sg = gate_sigmoid<sizeof(T) == 4>(z);
            dy[i] = c.dout && c.ok && first + i < p.L ? to_float(raw.dout[i]) : 0;
            dz[i] = dy[i] * fmaf(z * sg, 1 - sg, sg);
            if (c.z) dy[i] *= z * sg;
        }

        // 2. what this chunk leaves from zero, in both directions
        leave_end<T, N>(sm, k, c, s & 1);
#pragma unroll
        for (int n = 0; n < N; n++) g[n] = 0;
#pragma unroll
        for (int i = CHUNK - 1; i >= 0; i--)
#pragma unroll
            for (int n = 0; n < N; n++)
                g[n] = fast_exp2(k.decay_step(i) * c.A2[n]) * fmaf(sm.bc[c.warp][i][N + n], dy[i], g[n]);
#pragma unroll
        for (int n = 0; n < N; n++) {
            sm.adjoints[s & 1][c.warp][n][c.lane] = g[n];
            before[n] = p.kept[((c.a.sequence * c.spans + s) * p.D + c.ch) * p.padded + n];
        }
        __syncthreads();

        // 3. the chunk from its true state and adjoint
        forget<N>(c.A2);
        pass_chunks<N, false>(h[0], before, c.A2, sm, s & 1, c.warp, c.warps, c.lane);
        pass_chunks<N, true>(g, behind, c.A2, sm, s & 1, c.warp, c.warps, c.lane);
        states_of_chunk<T, N>(h, p, sm, k, c, dz, first);
        adjoints_of_chunk<T, N>(g, sums, h, p, sm, k, c, dy, first);
    }
    if (c.warp == 0)
        each_state<T, N>(p.dinitial, c, p.N,
                         [&](int n, float *v) { *v = behind[n] + (p.adds >> DINITIAL & 1 ? *v : 0); });
    finish_sums<T, N>(p, sm, c, sums);
}

/* ---- launchers ---- */

template <typename T, bool STATES> static auto *forward_of(int64_t N)
{
    return N == 1   ? scan_fwd_channels<T, 1, STATES>
           : N == 2 ? scan_fwd_channels<T, 2, STATES>
                    : scan_fwd_channels<T, 4, STATES>;
}

extern "C" mba_status selective_scan_channels_cuda(const mba_call *c)
{
    const mba_node *n = c->node;
    const scan_dims d = scan_dims_of(n);
    MBA_WITH_DTYPE(n->in[U]->type.dtype, T, scan_operands<T> p = scan_operands_of<T>(c, d.B, LANES);
                   p.out = sequence_view_of<T>(n->out[OUT], c->out[OUT], d.L, d.D);
                   p.final = sequence_view_of<float>(n->out[FINAL], c->out[FINAL], d.D, d.N);
                   auto *kernel = forward_of<T, false>(d.N); MBA_KERNEL(c, 0, kernel, p));
    return MBA_OK;
}

extern "C" mba_status selective_scan_bwd_channels_cuda(const mba_call *c)
{
    const scan_dims d = scan_dims_of(c->node);
    MBA_WITH_DTYPE(c->node->in[U]->type.dtype, T, scan_operands<T> p = scan_bwd_operands_of<T>(c, d.B, LANES);
                   p.kept = (float *)mba_cuda_scratch(c, CU_KEPT); auto *states = forward_of<T, true>(d.N);
                   auto                                                 *kernel = d.N == 1   ? scan_bwd_channels<T, 1>
                                                                                  : d.N == 2 ? scan_bwd_channels<T, 2>
                                                                                             : scan_bwd_channels<T, 4>;
                   MBA_KERNEL(c, 0, states, p); MBA_KERNEL(c, 1, kernel, p); MBA_TRY(scan_sums(c, 2, p)));
    return MBA_OK;
}
