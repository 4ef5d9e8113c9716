// SPDX-License-Identifier: Apache-2.0
/* selective_scan_chunked_cuda.cu -- variant `chunked` of selective_scan (Mamba-1) for few states: fp32 or bf16, any
 * number of channels. Formulas: selective_scan_bwd_cuda.cu.
 *
 * A lane is a channel. A warp has CHUNK tokens, a block's warps consecutive chunks of one item: a round. Each warp runs
 * its chunk from a zero state, the warps exchange decay and final state of their chunks, and each runs its chunk again
 * from the state that the chunks before it leave. All states of a channel are in one thread, so that only dB and dC are
 * sums over lanes.
 *
 * kernel     scan_fwd_chunked   y, gate, final state, states before every chunk
 * takes      1 to 4 states; rows at any multiple of the element size
 * launch     grid (items, blocks of 32 channels), block 32 to 256: a warp per chunk
 * resources  sm_90a, CUDA 13.0: 80 registers, no spill  [docs]
 * moves      u, delta, z, B, C in, out once each
 * floor      8 x 2048 x 1536, N = 1, bf16: 201 MB, 42 us of DRAM
 * measured   H200: 119 us, 46 % of floor (memory), DRAM 43 % busy; mamba-130m with 1 state, 8 x 2048  [docs]
 * order      fixed: chunks of a round in order, rounds in order
 *
 * kernel     scan_bwd_chunked   all gradients, from the states before chunks; chunks from last to first
 * takes      as forward
 * launch     as forward
 * resources  sm_90a, CUDA 13.0: 168 registers, no spill  [docs]
 * moves      u, delta, z, dout, states in; du, ddelta, dz out, once each; 2N/32 fp32 of dB and dC per token and channel
 * floor      8 x 2048 x 1536, N = 1, bf16: 352 MB, 73 us of DRAM
 * measured   H200: 209 us, 45 % of floor (memory), DRAM 42 % busy; mamba-130m with 1 state, 8 x 2048  [docs]
 * order      fixed; scan_sums_* adds blocks of channels and items */
#include "ops/selective_scan/selective_scan_cuda.cuh"

enum { LANES = 32, CHUNK = SAVE_EVERY, PAIRS = CHUNKED_STATES / 2 };
enum { STAGED_U, STAGED_DELTA, STAGED_Z, STAGED_DOUT };

/* What a chunk does to a state: from s to decay s + end. */
struct passage {
    float decay, end;
};

/* What a warp keeps for one state. */
struct warp_state {
    float A2[LANES], state[LANES]; /* state: enters the round */
    float b[CHUNK], c[CHUNK];      /* of its chunk */
};

/* Shared memory. Only `of` is read by other warps: of two rounds, so that one barrier a round is enough. The rest lies
 * there because registers are short and the loop over states is not unrolled. */
template <typename T, bool BACK> struct chunk_smem {
    enum { WARPS = BACK ? CHUNKED_WARPS_BACK : CHUNKED_WARPS, STAGE = (BACK ? 4 : 3) * CHUNK * LANES };
    origins<T>                *at;
    passage                   *of;    /* 2 rounds, N, warps, lanes */
    warp_state                *of_n;  /* N, of this warp */
    T                         *stage; /* of this warp: 2 rounds, operands, CHUNK, lanes */
    float                     *dA;    /* N, lanes: sums of this warp (BACK) */
    int                        N;
    __device__ __forceinline__ chunk_smem(char *smem, int warp, int states) : at((origins<T> *)smem), N(states)
    {
        of = (passage *)(smem + (sizeof(origins<T>) + 15) / 16 * 16);
        of_n = (warp_state *)(of + 2 * N * WARPS * LANES) + warp * N;
        stage = (T *)(of_n + (WARPS - warp) * N);
        dA = (float *)(stage + WARPS * 2 * STAGE) + warp * N * LANES;
        stage += warp * 2 * STAGE;
    }
    static size_t bytes(int64_t N)
    {
        const size_t state = 2 * LANES * sizeof(passage) + sizeof(warp_state) + (BACK ? LANES * sizeof(float) : 0);
        return (sizeof(origins<T>) + 15) / 16 * 16 + WARPS * ((size_t)N * state + 2 * STAGE * sizeof(T));
    }
    __device__ __forceinline__ T *staged(int buffer, int operand) const
    {
        return stage + buffer * STAGE + operand * CHUNK * LANES;
    }
};

/* What a thread needs in every round. */
struct lane_work {
    int  length, lane, warp, warps;
    int  width, channel; /* channels of the block, and which of them is this lane's */
    bool mine;           /* it exists; otherwise it is the last one, computed once more */
};

/* Finds the work of a thread, and of its block in shared memory; sets the states that enter the first round. */
template <typename T, bool BACK>
static __device__ __forceinline__ lane_work begin_work(const scan_operands<T> &p, const chunk_smem<T, BACK> &sm,
                                                       const sequence_view<const float> &start)
{
    lane_work        w;
    const block_work a = block_work_of(p, LANES);
    if (threadIdx.x < LANES) find_origins(*sm.at, p, a, (int)threadIdx.x);
    w.length = a.length;
    w.lane = threadIdx.x % LANES;
    w.warp = threadIdx.x / LANES;
    w.warps = blockDim.x / LANES;
    w.width = min(a.channels - a.channel, (int)LANES);
    w.mine = w.lane < w.width;
    w.channel = min(w.lane, w.width - 1);
    const int64_t ch = a.channel + w.channel;
    for (int n = 0; n < sm.N; n++) {
        sm.of_n[n].A2[w.lane] = A2_of(p.A_log.at[ch * p.A_log.row + n]);
        sm.of_n[n].state[w.lane] = start.at ? start.sequence(a.item)[ch * start.row + n] : 0;
        if (BACK) sm.dA[n * LANES + w.lane] = 0;
    }
    for (int i = threadIdx.x; i < 2 * sm.N * sm.WARPS * LANES; i += blockDim.x) // warps that a short item has not
        sm.of[i] = { 1, 0 };
    __syncthreads();
    return w;
}

/* ---- a chunk of an operand, in shared memory: copied a round ahead, by the widest vectors that its rows allow ---- */

template <int BYTES, typename T>
static __device__ __forceinline__ void copy_vectors(T *to, const T *from, int row, const lane_work &w, int t0)
{
    enum { V = BYTES / sizeof(T), PER = LANES / V };
#pragma unroll
    for (int i = 0; i < CHUNK * PER / LANES; i++) {
        const int s = i * LANES + w.lane, j = s / PER, c = s % PER * V;
        if (c < w.width) copy_async<BYTES>(to + j * LANES + c, row_at(from, min(t0 + j, w.length - 1), row) + c);
    }
}

template <typename T>
static __device__ __forceinline__ void copy_chunk(T *to, const T *from, const sequence_view<const T> &of,
                                                  const scan_operands<T> &p, const lane_work &w, int t0)
{
    const int row = (int)of.row * (int)sizeof(T);
    if (!of.at) return;
    if (p.vector == 16) {
        copy_vectors<16>(to, from, row, w, t0);
    } else if (p.vector == 4) {
        copy_vectors<4>(to, from, row, w, t0);
    } else {
#pragma unroll
        for (int j = 0; j < CHUNK; j++)
            to[j * LANES + w.channel] = *row_at(from + w.channel, min(t0 + j, w.length - 1), row);
    }
}

template <typename T>
static __device__ __forceinline__ void read_staged(float (&v)[CHUNK], const T *from, const lane_work &w)
{
#pragma unroll
    for (int j = 0; j < CHUNK; j++) v[j] = to_float(from[j * LANES + w.channel]);
}

/* Writes a chunk, by way of `stage` where whole vectors are possible. */
template <typename T>
static __device__ __forceinline__ void write_chunk(T *to, const sequence_view<T> &of, const float (&v)[CHUNK], T *stage,
                                                   const scan_operands<T> &p, const lane_work &w, int t0, bool add)
{
    const int row = (int)of.row * (int)sizeof(T), count = min(w.length - t0, (int)CHUNK);
    if (p.vector == 16 && !add) {
        enum { V = 16 / sizeof(T), PER = LANES / V };
        __syncwarp(); // what was staged there has been read
#pragma unroll
        for (int j = 0; j < CHUNK; j++)
            if (w.mine) stage[j * LANES + w.lane] = from_float<T>(v[j]);
        __syncwarp();
#pragma unroll
        for (int i = 0; i < CHUNK * PER / LANES; i++) {
            const int s = i * LANES + w.lane, j = s / PER, c = s % PER * V;
            if (c < w.width && j < count) *(uint4 *)(row_at(to, t0 + j, row) + c) = *(uint4 *)(stage + j * LANES + c);
        }
        return;
    }
    if (!w.mine) return;
#pragma unroll
    for (int j = 0; j < CHUNK; j++) {
        T *at = row_at(to + w.channel, t0 + j, row);
        if (j < count) *at = from_float<T>(v[j] + (add ? to_float(*at) : 0.0f));
    }
}

/* ---- B and C of a warp's chunk: a lane has tokens lane%8 of B, or with bit 3 of C, of every other state ---- */

template <typename T, bool BACK>
static __device__ __forceinline__ void read_states(T (&v)[PAIRS], const chunk_smem<T, BACK> &sm,
                                                   const scan_operands<T> &p, const lane_work &w, int t0)
{
    const bool is_c = w.lane & CHUNK;
    const T   *from = row_at(is_c ? sm.at->C : sm.at->B, min(t0 + w.lane % CHUNK, w.length - 1),
                           (int)(is_c ? p.C.row : p.B.row) * (int)sizeof(T));
#pragma unroll
    for (int i = 0; i < PAIRS; i++) {
        const int n = 2 * i + w.lane / (2 * CHUNK);
        if (n < sm.N) v[i] = from[n];
    }
}

template <typename T, bool BACK>
static __device__ __forceinline__ void store_states(const T (&v)[PAIRS], const chunk_smem<T, BACK> &sm,
                                                    const lane_work &w)
{
#pragma unroll
    for (int i = 0; i < PAIRS; i++) {
        const int n = 2 * i + w.lane / (2 * CHUNK);
        if (n < sm.N) sm.of_n[n].b[w.lane % (2 * CHUNK)] = to_float(v[i]); // c lies behind b
    }
}

/* Begins to load what a round needs: operands by copies, B and C into `v`. */
template <typename T, bool BACK>
static __device__ __forceinline__ void load_round(T (&v)[PAIRS], const chunk_smem<T, BACK> &sm,
                                                  const scan_operands<T> &p, const lane_work &w, int buffer, int t0,
                                                  bool gated)
{
    copy_chunk(sm.staged(buffer, STAGED_U), sm.at->u, p.u, p, w, t0);
    copy_chunk(sm.staged(buffer, STAGED_DELTA), sm.at->delta, p.delta, p, w, t0);
    if (gated) copy_chunk(sm.staged(buffer, STAGED_Z), sm.at->z, p.z, p, w, t0);
    if (BACK) copy_chunk(sm.staged(buffer, STAGED_DOUT), sm.at->dout, p.dout, p, w, t0);
    copy_async_commit();
    read_states(v, sm, p, w, t0);
}

static __device__ __forceinline__ void read_chunk(float (&v)[CHUNK], const float *from)
{
    static_assert(CHUNK == 8, "two vectors");
    read8(v, (const float4 *)from);
}

/* The states before a chunk. */
template <typename T, bool BACK>
static __device__ __forceinline__ float *kept_of(const scan_operands<T> &p, const chunk_smem<T, BACK> &sm,
                                                 const lane_work &w, int t0)
{
    return sm.at->kept + ((int64_t)(t0 / CHUNK) * p.D + w.channel) * p.N;
}

/* ---- documents: bit j is set if token t0 + j starts one; those beyond the end pass a state on ---- */

template <typename T, bool BACK>
static __device__ __forceinline__ uint32_t resets_of(const scan_operands<T> &p, const chunk_smem<T, BACK> &sm,
                                                     const lane_work &w, int t0)
{
    if (!p.ids.at && p.pack == 1) return 0;
    const int      t = min(t0 + w.lane % CHUNK, w.length - 1);
    const bool     leads = p.pack > 1 ? t % p.L == 0 : t + sm.at->a.first == 0;
    const document d = read_document(sm.at->ids, p.ids.row, t, leads, p.pack > 1);
    return __ballot_sync(0xffffffffu, d.here != d.before && t0 + w.lane < w.length) & ((1u << CHUNK) - 1);
}

/* Decays of one state over a chunk, and over all of it. */
static __device__ __forceinline__ float decays(float (&a)[CHUNK], const float (&dt)[CHUNK], float steps, float A2,
                                               uint32_t resets)
{
#pragma unroll
    for (int j = 0; j < CHUNK; j++) a[j] = fast_exp2(dt[j] * A2);
    if (!resets) return fast_exp2(steps * A2);
#pragma unroll
    for (int j = 0; j < CHUNK; j++)
        if (resets >> j & 1) a[j] = 0;
    return 0;
}

/* ---- between chunks: the state n that enters this warp's; in shared memory the one that leaves the round ---- */

template <typename T, bool BACK>
static __device__ __forceinline__ float pass_through(const chunk_smem<T, BACK> &sm, const lane_work &w, int buffer,
                                                     int n)
{
    constexpr int  WARPS = chunk_smem<T, BACK>::WARPS;
    const passage *of = sm.of + (buffer * sm.N + n) * WARPS * LANES + w.lane;
    float          state = sm.of_n[n].state[w.lane], enters = 0;
#pragma unroll
    for (int i = 0; i < WARPS; i++) {
        const int     k = BACK ? WARPS - 1 - i : i;
        const passage q = of[k * LANES];
        if (k == w.warp) enters = state;
        state = fmaf(q.decay, state, q.end);
    }
    sm.of_n[n].state[w.lane] = state;
    return enters;
}

/* The compiler would compute these once more for every state. */
static __device__ __forceinline__ void computed(float (&x)[CHUNK], float &steps)
{
    asm volatile("" : "+f"(steps));
#pragma unroll
    for (int j = 0; j < CHUNK; j++) asm volatile("" : "+f"(x[j]));
}

/* ---- forward ---- */

template <typename T>
__global__ void __launch_bounds__(LANES *CHUNKED_WARPS, 3) scan_fwd_chunked(const __grid_constant__ scan_operands<T> p)
{
    constexpr bool    EXACT = sizeof(T) == 4;
    extern __shared__ __align__(16) char smem[];
    const chunk_smem<T, false>           sm(smem, threadIdx.x / LANES, p.N);
    const lane_work                      w = begin_work(p, sm, p.start);
    const int                            length = w.length, round = w.warps * CHUNK, ch = sm.at->a.channel + w.channel;
    const float                          bias = p.bias ? p.bias[ch] : 0, skip = p.skip ? p.skip[ch] : 0;
    const bool                           gated = p.z.at && p.out.at;
    T                                    next[PAIRS];
    load_round(next, sm, p, w, 0, w.warp * CHUNK, gated);
    for (int first = 0, buffer = 0; first < length; first += round, buffer ^= 1) {
        const int t0 = first + w.warp * CHUNK, count = min(length - t0, (int)CHUNK);
        float     dt[CHUNK], x[CHUNK], y[CHUNK], a[CHUNK], steps = 0;

        // 1. the chunk
        copy_async_wait<0>();
        __syncwarp(); // all lanes' copies are there, and the round before has been read
        store_states(next, sm, w);
        if (first + round < length) load_round(next, sm, p, w, buffer ^ 1, t0 + round, gated);
        read_staged(x, sm.staged(buffer, STAGED_U), w);
        read_staged(dt, sm.staged(buffer, STAGED_DELTA), w);
        const uint32_t resets = resets_of(p, sm, w, t0);
#pragma unroll
        for (int j = 0; j < CHUNK; j++) dt[j] = step_of<EXACT>(dt[j] + bias);
        if (count < CHUNK) {
#pragma unroll
            for (int j = 0; j < CHUNK; j++)
                if (j >= count) dt[j] = 0;
        }
#pragma unroll
        for (int j = 0; j < CHUNK; j++) {
            y[j] = skip * x[j];
            x[j] *= dt[j];
            steps += dt[j];
        }
        computed(x, steps);
        __syncwarp(); // B and C

        // 2. from a zero state
#pragma unroll 1
        for (int n = 0; n < sm.N; n++) {
            float       b[CHUNK], h = 0;
            const float decay = decays(a, dt, steps, sm.of_n[n].A2[w.lane], resets);
            read_chunk(b, sm.of_n[n].b);
#pragma unroll
            for (int j = 0; j < CHUNK; j++) h = fmaf(a[j], h, x[j] * b[j]);
            sm.of[((buffer * sm.N + n) * sm.WARPS + w.warp) * LANES + w.lane] = { decay, h };
        }
        __syncthreads();

        // 3. from the state that enters
#pragma unroll 1
        for (int n = 0; n < sm.N; n++) {
            float b[CHUNK], c[CHUNK], h = pass_through(sm, w, buffer, n);
            if (p.kept && w.mine && count > 0) kept_of(p, sm, w, t0)[n] = h;
            if (!p.out.at) continue;
            if (sm.N > 1) decays(a, dt, steps, sm.of_n[n].A2[w.lane], resets);
            read_chunk(b, sm.of_n[n].b);
            read_chunk(c, sm.of_n[n].c);
#pragma unroll
            for (int j = 0; j < CHUNK; j++) {
                h = fmaf(a[j], h, x[j] * b[j]);
                y[j] = fmaf(c[j], h, y[j]);
            }
        }
        if (!p.out.at || count <= 0) continue;
        if (gated) {
            read_staged(x, sm.staged(buffer, STAGED_Z), w);
#pragma unroll
            for (int j = 0; j < CHUNK; j++) y[j] *= x[j] * gate_sigmoid<EXACT>(x[j]);
        }
        write_chunk(sm.at->out, p.out, y, sm.staged(buffer, STAGED_U), p, w, t0, false);
    }
    if (!p.final.at || !w.mine || w.warp || sm.at->a.first + length < p.L) return;
    for (int n = 0; n < sm.N; n++) p.final.sequence(sm.at->a.sequence)[ch * p.final.row + n] = sm.of_n[n].state[w.lane];
}

/* ---- backward ---- */

/* Sums over the lanes: dB of token lane%8, or for lanes with bit 3 dC of it. */
static __device__ __forceinline__ float sums_over_lanes(const float (&b)[CHUNK], const float (&c)[CHUNK])
{
    float v[8], s[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        v[i] = fold(b[2 * i], b[2 * i + 1], 1);
        v[4 + i] = fold(c[2 * i], c[2 * i + 1], 1);
    }
#pragma unroll
    for (int i = 0; i < 4; i++) s[i] = fold(v[2 * i], v[2 * i + 1], 2);
    const float r = fold(fold(s[0], s[1], 4), fold(s[2], s[3], 4), 8);
    return r + __shfl_xor_sync(0xffffffffu, r, 16);
}

/* One state of a chunk, from `h`, the state before it, and `g`, the adjoint behind it: adds its terms of q, r and y,
 * and of dA in shared memory. Returns its sums over the lanes. */
static __device__ __forceinline__ float adjoint_state(float (&q)[CHUNK], float (&r)[CHUNK], float (&y)[CHUNK],
                                                      float &dA, const warp_state &s, float A2, const float (&a)[CHUNK],
                                                      const float (&dt)[CHUNK], const float (&x)[CHUNK],
                                                      const float (&dy)[CHUNK], float h, float g)
{
    float b[CHUNK], c[CHUNK], states[CHUNK + 1] = { h }, sum = 0;
    read_chunk(b, s.b);
    read_chunk(c, s.c);
#pragma unroll
    for (int j = 0; j < CHUNK; j++) {
        states[j + 1] = fmaf(a[j], states[j], x[j] * b[j]);
        y[j] = fmaf(c[j], states[j + 1], y[j]);
    }
#pragma unroll
    for (int j = CHUNK - 1; j >= 0; j--) {
        const float lam = fmaf(c[j], dy[j], g);
        g = a[j] * lam;
        const float v = g * states[j];
        sum = fmaf(dt[j], v, sum);
        q[j] = fmaf(lam, b[j], q[j]);
        r[j] = fmaf(A2, v, r[j]);
        b[j] = lam * x[j];
        c[j] = states[j + 1] * dy[j];
    }
    dA += sum;
    return sums_over_lanes(b, c);
}

/* Sums over a block's warps and all tokens: dA of every state, dD, ddt_bias. */
template <typename T, bool BACK>
static __device__ __forceinline__ void finish_sums(const chunk_smem<T, BACK> &sm, const scan_operands<T> &p,
                                                   const lane_work &w, float dD, float dbias)
{
    float        *part = (float *)sm.of, *to = p.sums + sm.at->a.item * p.D * (p.N + 2); // part: dD, ddt_bias by warp
    const int64_t ch = sm.at->a.channel + w.channel;
    __syncthreads();
    part[w.warp * LANES + w.lane] = dD;
    part[(sm.WARPS + w.warp) * LANES + w.lane] = dbias;
    __syncthreads();
    for (int k = w.warp; k < sm.N + 2; k += w.warps) {
        float s = 0;
        for (int i = 0; i < w.warps; i++)
            s += k < sm.N ? sm.dA[((i - w.warp) * sm.N + k) * LANES + w.lane]
                          : part[((k - sm.N) * sm.WARPS + i) * LANES + w.lane];
        if (w.mine) to[k < sm.N ? ch * sm.N + k : (int64_t)p.D * k + ch] = s;
    }
}

template <typename T>
__global__ void __launch_bounds__(LANES *CHUNKED_WARPS_BACK, 3)
    scan_bwd_chunked(const __grid_constant__ scan_operands<T> p)
{
    constexpr bool    EXACT = sizeof(T) == 4;
    extern __shared__ __align__(16) char smem[];
    const chunk_smem<T, true>            sm(smem, threadIdx.x / LANES, p.N);
    const lane_work                      w = begin_work(p, sm, p.start_back);
    const int                            length = w.length, round = w.warps * CHUNK, ch = sm.at->a.channel + w.channel;
    const float                          bias = p.bias ? p.bias[ch] : 0, skip = p.skip ? p.skip[ch] : 0;
    float                                dD = 0, dbias = 0, start = 0;
    T                                    next[PAIRS];
    auto                                 load = [&](int buffer, int t0) {
        load_round(next, sm, p, w, buffer, t0, true);
        if (t0 < length) start = kept_of(p, sm, w, t0)[0];
    };
    int first = (length - 1) / round * round;
    load(0, first + w.warp * CHUNK);
    for (int buffer = 0; first >= 0; first -= round, buffer ^= 1) {
        const int t0 = first + w.warp * CHUNK, count = min(length - t0, (int)CHUNK);
        float     dt[CHUNK], x[CHUNK], dy[CHUNK], slope[CHUNK], q[CHUNK], r[CHUNK], y[CHUNK], a[CHUNK], steps = 0;

        // 1. the chunk
        copy_async_wait<0>();
        __syncwarp(); // all lanes' copies are there, and the round before has been read
        store_states(next, sm, w);
        float h0 = start;
        if (first) load(buffer ^ 1, t0 - round);
        read_staged(x, sm.staged(buffer, STAGED_U), w);
        read_staged(dt, sm.staged(buffer, STAGED_DELTA), w);
        const uint32_t resets = resets_of(p, sm, w, t0);
#pragma unroll
        for (int j = 0; j < CHUNK; j++) {
            dt[j] = step_of<EXACT>(dt[j] + bias);
            dy[j] = 0;
        }
        if (p.dout.at) read_staged(dy, sm.staged(buffer, STAGED_DOUT), w);
        if (p.z.at) {
            read_staged(slope, sm.staged(buffer, STAGED_Z), w);
#pragma unroll
            for (int j = 0; j < CHUNK; j++) {
                const float g = gate_sigmoid<EXACT>(slope[j]), s = slope[j] * g;
                slope[j] = dy[j] * fmaf(s, 1 - g, g); // dz / y
                dy[j] *= s;
            }
        }
        if (count < CHUNK || !w.mine) { // a lane without a channel adds nothing to dB, dC
#pragma unroll
            for (int j = 0; j < CHUNK; j++)
                if (j >= count || !w.mine) dt[j] = dy[j] = 0;
        }
#pragma unroll
        for (int j = 0; j < CHUNK; j++) {
            y[j] = skip * x[j];
            x[j] *= dt[j];
            steps += dt[j];
            q[j] = r[j] = 0;
        }
        computed(x, steps);
        __syncwarp(); // B and C

        // 2. from a zero adjoint
#pragma unroll 1
        for (int n = 0; n < sm.N; n++) {
            float       c[CHUNK], g = 0;
            const float decay = decays(a, dt, steps, sm.of_n[n].A2[w.lane], resets);
            read_chunk(c, sm.of_n[n].c);
#pragma unroll
            for (int j = CHUNK - 1; j >= 0; j--) g = a[j] * fmaf(c[j], dy[j], g);
            sm.of[((buffer * sm.N + n) * sm.WARPS + w.warp) * LANES + w.lane] = { decay, g };
        }
        __syncthreads();

        // 3. from the state before the chunk and the adjoint behind it
#pragma unroll 1
        for (int n = 0; n < sm.N; n++) {
            const float A2 = sm.of_n[n].A2[w.lane], h = h0, g = pass_through(sm, w, buffer, n);
            if (n + 1 < sm.N && count > 0) h0 = kept_of(p, sm, w, t0)[n + 1];
            if (sm.N > 1) decays(a, dt, steps, A2, resets);
            const float s = adjoint_state(q, r, y, sm.dA[n * LANES + w.lane], sm.of_n[n], A2, a, dt, x, dy, h, g);
            const int   t = t0 + w.lane % CHUNK;
            if (w.lane < 2 * CHUNK && t < length) sm.at->bc[((int64_t)t * 2 + w.lane / CHUNK) * p.N + n] = s;
        }
        if (count <= 0) continue;
        read_staged(x, sm.staged(buffer, STAGED_U), w);
#pragma unroll
        for (int j = 0; j < CHUNK; j++) {
            const float d = fmaf(x[j], q[j], LN2 * r[j]) * step_slope<EXACT>(dt[j]);
            dD = fmaf(dy[j], x[j], dD);
            if (j < count) dbias += d;
            if (p.z.at) y[j] *= slope[j];
            q[j] = fmaf(dt[j], q[j], skip * dy[j]);
            r[j] = d;
        }
        T *stage = sm.staged(buffer, STAGED_DELTA);
        if (p.du.at) write_chunk(sm.at->du, p.du, q, stage, p, w, t0, p.adds >> DU & 1);
        if (p.ddelta.at) write_chunk(sm.at->ddelta, p.ddelta, r, stage, p, w, t0, p.adds >> DDELTA & 1);
        if (p.dz.at) write_chunk(sm.at->dz, p.dz, y, stage, p, w, t0, p.adds >> DZ & 1);
    }
    finish_sums(sm, p, w, dD, dbias);
    if (!p.dinitial.at || !w.mine || w.warp || sm.at->a.first) return;
    for (int n = 0; n < sm.N; n++) {
        float *to = p.dinitial.sequence(sm.at->a.sequence) + ch * p.dinitial.row + n;
        *to = sm.of_n[n].state[w.lane] + (p.adds >> DINITIAL & 1 ? *to : 0);
    }
}

/* ---- launchers ---- */

/* Bytes of a copy that all rows allow, or 0. */
template <typename T> static int vector_of(const scan_operands<T> &p)
{
    return all_vec_aligned<16 / sizeof(T)>(p) ? 16 : all_vec_aligned<4 / sizeof(T)>(p) ? 4 : 0;
}

template <typename T> static mba_status launch_forward(const mba_call *c, int *k, scan_operands<T> *p)
{
    p->aligned4 = all_vec_aligned<4>(*p);
    MBA_TRY(scan_carries(c, k, p, false));
    p->vector = vector_of(*p);
    mba_assert((chunk_smem<T, false>::bytes(p->N)) <= c->plan->launch[*k].smem_bytes);
    MBA_KERNEL(c, *k, scan_fwd_chunked<T>, *p);
    ++*k;
    return MBA_OK;
}

extern "C" mba_status selective_scan_chunked_cuda(const mba_call *c)
{
    const mba_node *n = c->node;
    const scan_dims d = scan_dims_of(n);
    int             k = 0;
    MBA_WITH_DTYPE(n->in[U]->type.dtype, T,
                   scan_operands<T> p = scan_operands_of<T>(c, c->plan->launch[c->plan->nlaunches - 1].grid[0], LANES);
                   p.out = sequence_view_of<T>(n->out[OUT], c->out[OUT], d.L, d.D);
                   p.final = sequence_view_of<float>(n->out[FINAL], c->out[FINAL], d.D, d.N);
                   set_saved_states(&p, n->out[KEPT], c->out[KEPT]); MBA_TRY(launch_forward(c, &k, &p)));
    return MBA_OK;
}

template <typename T> static mba_status backward(const mba_call *c)
{
    const mba_node  *n = c->node;
    const int64_t    items = c->plan->launch[c->plan->nlaunches - 3].grid[0];
    int              k = 0;
    scan_operands<T> p = scan_bwd_operands_of<T>(c, items, LANES);
    set_saved_states(&p, n->in[KEPT_IN], (void *)c->in[KEPT_IN]); // read only
    if (!n->in[KEPT_IN]) {
        scan_operands<T> states = scan_operands_of<T>(c, items, LANES);
        states.kept = p.kept = (float *)mba_cuda_scratch(c, CU_KEPT);
        states.kept_states = p.kept_states = p.N;
        states.saved_every = p.saved_every = SAVE_EVERY;
        states.saved_rows = p.saved_rows = (int)mba_ceil(p.segments > 1 ? p.L : (int64_t)p.pack * p.L, SAVE_EVERY);
        MBA_TRY(launch_forward(c, &k, &states));
    }
    p.aligned4 = all_vec_aligned<4>(p);
    MBA_TRY(scan_carries(c, &k, &p, true));
    p.padded = p.N; // in partial sums; the carries have rows of whole groups
    p.vector = vector_of(p);
    mba_assert((chunk_smem<T, true>::bytes(p.N)) <= c->plan->launch[k].smem_bytes);
    MBA_KERNEL(c, k, scan_bwd_chunked<T>, p);
    return scan_sums(c, k + 1, p);
}

extern "C" mba_status selective_scan_bwd_chunked_cuda(const mba_call *c)
{
    return c->node->in[U]->type.dtype == MBA_F32 ? backward<float>(c) : backward<bf16>(c);
}
