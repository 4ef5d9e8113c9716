// SPDX-License-Identifier: Apache-2.0
/* selective_scan_lane_cuda.cu -- variant `lane` of selective_scan (Mamba-1), forward and backward: one channel per
 * lane, any number of states, any strides, any groups. It is slow, and takes everything that others refuse.
 *
 * kernel     scan_fwd_lane     states in scratch, one value of 32 lanes contiguous; tokens in sequence
 * takes      everything
 * launch     grid (B, blocks of 32 channels), block 32
 * resources  sm_90a, CUDA 13.0: 80 registers, no spill  [docs]
 * moves      every operand once; 8 bytes of scratch per element, mostly in L1
 * measured   not yet  [docs]
 * order      fixed
 *
 * kernel     scan_bwd_lane     8 tokens at a time, last to first: recomputes states from a saved one, then the adjoints
 * takes      everything
 * launch     grid (B, blocks of 32 channels), block 32
 * resources  sm_90a, CUDA 13.0: 128 registers, no spill  [docs]
 * moves      as above, 40 bytes of scratch per element
 * measured   not yet  [docs]
 * order      fixed: dB and dC are summed over the lanes of a warp, then over blocks by scan_sums_bc */
#include "ops/selective_scan/selective_scan_cuda.cuh"

/* One channel of one sequence. */
template <typename T> struct lane_channel {
    block_work     a;
    bool           ok;
    int            ch;
    float          bias, skip;
    const T       *u, *delta, *z, *dout, *B, *C;
    const int32_t *ids;
};

template <typename T> static __device__ __forceinline__ lane_channel<T> lane_channel_of(const scan_operands<T> &p)
{
    lane_channel<T> c;
    c.a = block_work_of(p, LANE_CHANNELS);
    c.ok = c.a.channel + (int)threadIdx.x < c.a.channels;
    c.ch = c.ok ? c.a.channel + (int)threadIdx.x : c.a.channel;
    c.bias = p.bias ? p.bias[c.ch] : 0;
    c.skip = p.skip ? p.skip[c.ch] : 0;
    c.u = p.u.sequence(c.a.sequence) + c.ch;
    c.delta = p.delta.sequence(c.a.sequence) + c.ch;
    c.z = p.z.at ? p.z.sequence(c.a.sequence) + c.ch : NULL;
    c.dout = p.dout.at ? p.dout.sequence(c.a.sequence) + c.ch : NULL;
    c.B = p.B.sequence(c.a.sequence) + c.a.group * p.N;
    c.C = p.C.sequence(c.a.sequence) + c.a.group * p.N;
    c.ids = p.ids.at ? p.ids.sequence(c.a.sequence) : NULL;
    return c;
}

template <typename T>
static __device__ __forceinline__ bool starts(const scan_operands<T> &p, const lane_channel<T> &c, int t)
{
    return c.ids && t > 0 && c.ids[t * p.ids.row] != c.ids[(t - 1) * p.ids.row];
}

template <typename T>
static __device__ __forceinline__ float step_at(const scan_operands<T> &p, const lane_channel<T> &c, int t)
{
    return step_of<true>(to_float(c.delta[t * p.delta.row]) + c.bias);
}

/* A reset assigns instead of multiplying by zero, so that an infinite state does not become NaN. */
static __device__ __forceinline__ float next_state(float h, float dt, float A2, float x, bool reset)
{
    return reset ? x : fmaf(fast_exp2(dt * A2), h, x);
}

/* Array k of this lane in scratch: N values at a stride of 32. */
template <typename T> static __device__ __forceinline__ float *space_of(const scan_operands<T> &p, int arrays, int k)
{
    const int64_t block = (int64_t)blockIdx.y * gridDim.x + blockIdx.x;
    return p.space + (block * arrays + k) * p.N * 32 + threadIdx.x;
}

enum { FWD_ARRAYS = 2, BWD_ARRAYS = LANE_CHUNK + 4 };

template <typename T>
__global__ void __launch_bounds__(32, 16) scan_fwd_lane(const __grid_constant__ scan_operands<T> p)
{
    const lane_channel<T> c = lane_channel_of(p);
    if (!c.ok) return;
    const int N = p.N, chunks = (p.L + LANE_CHUNK - 1) / LANE_CHUNK;
    float    *A2 = space_of(p, FWD_ARRAYS, 0), *h = space_of(p, FWD_ARRAYS, 1);
    T        *out = p.out.at ? p.out.sequence(c.a.sequence) + c.ch : NULL;
    for (int n = 0; n < N; n++) {
        A2[n * 32] = A2_of(p.A_log.at[(int64_t)c.ch * p.A_log.row + n]);
        h[n * 32] = p.start.at ? p.start.sequence(c.a.sequence)[(int64_t)c.ch * p.start.row + n] : 0;
    }
    for (int t = 0; t < p.L; t++) {
        if (p.kept_lane && t % LANE_CHUNK == 0) {
            float *k = p.kept_lane + (c.a.sequence * chunks + t / LANE_CHUNK) * N * p.D + c.ch;
            for (int n = 0; n < N; n++) k[(int64_t)n * p.D] = h[n * 32];
        }
        const int64_t in_pack = c.a.sequence % p.saved_pack * p.L + t;
        if (p.kept && in_pack % SAVE_EVERY == 0) {
            T *k = p.kept + ((c.a.sequence / p.saved_pack * p.saved_rows + in_pack / SAVE_EVERY) * p.D + c.ch) * N;
            for (int n = 0; n < N; n++) k[n] = from_float<T>(h[n * 32]);
        }
        const float u = to_float(c.u[t * p.u.row]), dt = step_at(p, c, t), x = dt * u;
        const bool  reset = starts(p, c, t);
        float       y = c.skip * u;
        for (int n = 0; n < N; n++) {
            const float s = next_state(h[n * 32], dt, A2[n * 32], x * to_float(c.B[t * p.B.row + n]), reset);
            h[n * 32] = s;
            y = fmaf(to_float(c.C[t * p.C.row + n]), s, y);
        }
        if (!out) continue;
        if (p.ys) p.ys[(c.a.sequence * p.L + t) * p.D + c.ch] = from_float<T>(y);
        if (c.z) {
            const float z = to_float(c.z[t * p.z.row]);
            y *= z * gate_sigmoid<true>(z);
        }
        out[t * p.out.row] = from_float<T>(y);
    }
    if (!p.final.at) return;
    float *f = p.final.sequence(c.a.sequence) + (int64_t)c.ch * p.final.row;
    for (int n = 0; n < N; n++) f[n] = h[n * 32];
}

template <typename T>
static __device__ __forceinline__ void put(const sequence_view<T> &l, const lane_channel<T> &c, int t, float v,
                                           bool add)
{
    if (!l.at || !c.ok) return;
    T *to = l.sequence(c.a.sequence) + t * l.row + c.ch;
    *to = from_float<T>(v + (add ? to_float(*to) : 0));
}

/* One adjoint step. h: states before the token; after it at h + 32 N. */
template <typename T>
static __device__ void step_back(const scan_operands<T> &p, const lane_channel<T> &c, int t, const float *A2,
                                 const float *h, float *g, float *dA, float *dskip, float *dbias)
{
    const int   N = p.N;
    const float u = to_float(c.u[t * p.u.row]), dt = step_at(p, c, t), z = c.z ? to_float(c.z[t * p.z.row]) : 0;
    const float dout = c.ok && c.dout ? to_float(c.dout[t * p.dout.row]) : 0, sg = gate_sigmoid<true>(z);
    const float dy = c.z ? dout * z * sg : dout, x = c.ok ? dt * u : 0;
    const bool  reset = starts(p, c, t);
    float       y = c.skip * u, q = 0, r = 0;
    float      *bc = p.bc + ((int64_t)c.a.block * p.tokens + c.a.token + t) * 2 * N;
    for (int n = 0; n < N; n++) {
        const float B = to_float(c.B[t * p.B.row + n]), C = to_float(c.C[t * p.C.row + n]), now = h[(N + n) * 32];
        const float lam = fmaf(C, dy, g[n * 32]), back = reset ? 0 : fast_exp2(dt * A2[n * 32]) * lam,
                    v = reset ? 0 : back * h[n * 32];
        y = fmaf(C, now, y);
        q = fmaf(lam, B, q);
        r = fmaf(A2[n * 32], v, r);
        g[n * 32] = back;
        dA[n * 32] = fmaf(dt, v, dA[n * 32]);
        const float dB = warp_sum(lam * x), dC = warp_sum(c.ok ? dy * now : 0);
        if (threadIdx.x == 0) {
            bc[n] = dB;
            bc[N + n] = dC;
        }
    }
    const float dd = fmaf(u, q, LN2 * r) * step_slope<true>(dt);
    put(p.du, c, t, fmaf(dt, q, c.skip * dy), p.adds >> DU & 1);
    put(p.ddelta, c, t, dd, p.adds >> DDELTA & 1);
    put(p.dz, c, t, dout * y * sg * fmaf(z, 1 - sg, 1.0f), p.adds >> DZ & 1);
    *dskip = fmaf(dy, u, *dskip);
    *dbias += dd;
}

template <typename T>
__global__ void __launch_bounds__(32, 16) scan_bwd_lane(const __grid_constant__ scan_operands<T> p)
{
    const lane_channel<T> c = lane_channel_of(p);
    const int             N = p.N, chunks = (p.L + LANE_CHUNK - 1) / LANE_CHUNK;
    float *A2 = space_of(p, BWD_ARRAYS, 0), *g = space_of(p, BWD_ARRAYS, 1), *dA = space_of(p, BWD_ARRAYS, 2),
          *h = space_of(p, BWD_ARRAYS, 3);
    float dskip = 0, dbias = 0;
    for (int n = 0; n < N; n++) {
        A2[n * 32] = A2_of(p.A_log.at[(int64_t)c.ch * p.A_log.row + n]);
        g[n * 32] = p.start_back.at && c.ok ? p.start_back.sequence(c.a.sequence)[(int64_t)c.ch * p.start_back.row + n]
                                            : 0;
        dA[n * 32] = 0;
    }
    for (int chunk = chunks - 1; chunk >= 0; chunk--) {
        const int    first = chunk * LANE_CHUNK, tokens = min((int)LANE_CHUNK, p.L - first);
        const float *k = p.kept_lane + (c.a.sequence * chunks + chunk) * N * p.D + c.ch;
        for (int n = 0; n < N; n++) h[n * 32] = k[(int64_t)n * p.D];
        for (int i = 0; i < tokens; i++) {
            const int   t = first + i;
            const float dt = step_at(p, c, t), x = dt * to_float(c.u[t * p.u.row]);
            const bool  reset = starts(p, c, t);
            for (int n = 0; n < N; n++)
                h[((i + 1) * N + n) * 32] = next_state(h[(i * N + n) * 32], dt, A2[n * 32],
                                                       x * to_float(c.B[t * p.B.row + n]), reset);
        }
        for (int i = tokens - 1; i >= 0; i--) step_back(p, c, first + i, A2, h + i * N * 32, g, dA, &dskip, &dbias);
    }
    if (!c.ok) return;
    float *sums = p.sums + c.a.item * p.D * (N + 2);
    for (int n = 0; n < N; n++) {
        sums[(int64_t)c.ch * N + n] = dA[n * 32];
        if (!p.dinitial.at) continue;
        float *d = p.dinitial.sequence(c.a.sequence) + (int64_t)c.ch * p.dinitial.row + n;
        *d = g[n * 32] + (p.adds >> DINITIAL & 1 ? *d : 0);
    }
    sums[(int64_t)p.D * N + c.ch] = dskip;
    sums[(int64_t)p.D * (N + 1) + c.ch] = dbias;
}

extern "C" mba_status selective_scan_lane_cuda(const mba_call *c)
{
    const mba_node *n = c->node;
    const scan_dims d = scan_dims_of(n);
    MBA_WITH_DTYPE(n->in[U]->type.dtype, T, scan_operands<T> p = scan_operands_of<T>(c, d.B, LANE_CHANNELS);
                   p.out = sequence_view_of<T>(n->out[OUT], c->out[OUT], d.L, d.D);
                   p.final = sequence_view_of<float>(n->out[FINAL], c->out[FINAL], d.D, d.N);
                   p.space = (float *)mba_cuda_scratch(c, CU_SPACE); set_saved_states(&p, n->out[KEPT], c->out[KEPT]);
                   p.ys = (T *)c->out[YS]; if (p.kept) p.saved_pack = (int)mba_ceil(d.B, n->out[KEPT]->type.dim[0]);
                   MBA_KERNEL(c, 0, scan_fwd_lane<T>, p));
    return MBA_OK;
}

extern "C" mba_status selective_scan_bwd_lane_cuda(const mba_call *c)
{
    const mba_node *n = c->node;
    MBA_WITH_DTYPE(n->in[U]->type.dtype, T,
                   scan_operands<T> p = scan_bwd_operands_of<T>(c, scan_dims_of(n).B, LANE_CHANNELS);
                   p.kept_lane = (float *)mba_cuda_scratch(c, CU_KEPT);
                   p.space = (float *)mba_cuda_scratch(c, CU_SPACE); MBA_KERNEL(c, 0, scan_fwd_lane<T>, p);
                   MBA_KERNEL(c, 1, scan_bwd_lane<T>, p); MBA_TRY(scan_sums(c, 2, p)));
    return MBA_OK;
}
