// SPDX-License-Identifier: Apache-2.0
/* conv1d_cuda.cu -- depthwise convolution over time, variants "persistent" and "any": a thread owns channels and loops
 * over time.
 *
 *   a[t,c] = bias[c] + sum_k w[c,k] x[t-past+k, c]     y = silu(a) or a     past = W-1-ahead
 *   g = dy silu'(a)     dx[s] = sum_k w[k] g[s+past-k]     dw[k] = sum_t g[t] x[t-past+k]     dbias = sum_t g[t]
 *   x, y, dy, dx (B, L, C) fp32 or bf16     w (C, W), bias, dw, dbias, initial, final (B, W-1, C) fp32     ids (B, L)
 *   i32
 *
 * kernel     conv1d_fwd_persistent     4 channels per thread; asynchronous copies bring eight rows at a time into slots
 *            private to each thread; the last W-1 inputs stay in registers
 * kernel     conv1d_bwd_persistent     the same for x and dy; a is recomputed; W-1 values of g, dw and dbias stay in
 *            registers; g of the W-1 steps after an item is recomputed instead of waiting for the neighbour
 * takes      4 taps, rows of whole vectors of 4 values: "persistent". Otherwise "any": one channel per thread and
 *            sixteen taps, of which the first are zero. "tiles" (conv1d_tiles_cuda.cu) precedes both and takes what
 *            models train with
 * launch     grid parts * ceil(C / (64 channels of a thread)), block 64; a part takes items (sequence, range of steps)
 *            in turn, and there are as many parts as fit on the SMs at once; dynamic smem 16 rows of each copied
 *            operand
 * resources  sm_90a, CUDA 13.0: conv1d_fwd_persistent 56 to 87 registers, no spill  [docs]
 *            conv1d_bwd_persistent 112 to 158 registers, no spill  [docs]
 * moves      forward reads and writes a row, backward reads two and writes one, and W-1 rows of an item again: bound by
 *            DRAM
 * in flight  backward, per SM: 8 blocks of 64 threads, 8 rows of two operands of 8 bytes: 66 KB; 4 TB/s for 0.7 us
 *            needs 22 KB
 * issue      forward 16, backward 30 instructions per value, 20 of them arithmetic: R=16384 C=4352, 73 us of issue time
 *            beside 109 us of memory time. Addresses and bounds computed for each row would make it 42
 * floor      R=16384 C=4352 bf16: forward 285 MB, 66 us, backward 428 MB, 100 us at 4.3 TB/s (copy)
 * kernel     conv1d_final        the last W-1 inputs, element by element
 * measured   H200: conv1d_bwd_persistent 22.5 us, 13 % of floor (memory), ALU 22 % busy;  [docs: conv1d_*_persistent]
 *              graphmamba-peptides-func, 128 graphs  [docs]
 *            conv1d_fwd_persistent 11.4 us, 16 % of floor (memory), special 16 % busy;  [docs]
 *              graphmamba-peptides-func, 128 graphs  [docs]
 * order      fixed by shape and machine: steps of an item, items of a part, parts */
#include "device/cuda/async.cuh"
#include "ops/conv1d/conv1d_totals.cuh"

enum { THREADS = CONV1D_THREADS };

/* A tensor (B, rows, C) with its strides, where they are uniform (conv1d_slots.h). */
template <typename T> struct track {
    strided_view<T> w;
    conv1d_steps    step;
};

template <typename T> static track<T> track_of(const mba_tensor *t, void *at)
{
    track<T> k = { mba_strided_view<T>(t, at), { 0, 0 } };
    if (t) k.step = conv1d_steps_of(t);
    return k;
}

/* Operands of both directions. */
template <typename T> struct conv {
    track<const T>     x;                   // (B, L, C)
    track<const float> initial;             // (B, W-1, C), or absent
    const int32_t     *ids;                 // (B, L), or NULL
    const float       *w, *bias;            // (C, W), (C) or NULL
    int64_t            B, C, ids_step;      // ids_step: stride between the ids of sequences
    int                L, items, seg, segs; // items, steps per item, items per sequence
    int                taps, ahead, across; // across: blocks over the channels
};

/* Rows of sequence b at the channels of a thread: with one stride (EVEN), or with general addresses. */
template <typename T, bool EVEN> struct rows_of {
    char                      *at;
    int                        step; // in bytes: the address of a row needs one multiplication
    __device__ __forceinline__ rows_of(const track<T> &k, int b, int, int64_t, int c)
        : at(k.w.at ? (char *)(k.w.at + b * k.step.sequence + c) : NULL), step(k.step.row * (int)sizeof(T))
    {
    }
    __device__ __forceinline__ T *operator[](int t) const { return (T *)(at + (int64_t)t * step); }
};

template <typename T> struct rows_of<T, false> {
    strided_view<T>            w;
    T                         *at; // NULL: absent
    int64_t                    first, cols;
    int                        c;
    __device__ __forceinline__ rows_of(const track<T> &k, int b, int rows, int64_t cols_, int c_)
        : w(k.w), at(k.w.at), first((int64_t)b * rows), cols(cols_), c(c_)
    {
    }
    __device__ __forceinline__ T *operator[](int t) const { return w.row(first + t, cols) + c; }
};

struct yes {
    enum { value = true };
};
struct no {
    enum { value = false };
};

template <int CH> static __device__ __forceinline__ void set_zero(float (&v)[CH])
{
#pragma unroll
    for (int e = 0; e < CH; e++) v[e] = 0;
}

/* Loads the input at time i; outside the sequence it is the initial state or zero. */
template <typename T, bool EVEN, int CH>
static __device__ __forceinline__ void load_input(float (&v)[CH], const conv<T> &a, const rows_of<const T, EVEN> &x,
                                                  const rows_of<const float, EVEN> &initial, int i)
{
    set_zero(v);
    if (i >= 0 && i < a.L) load(v, x[i]);
    else if (i < 0 && initial.at && i >= 1 - a.taps) load(v, initial[i + a.taps - 1]);
}

/* The id at time t; outside the sequence, that of the nearest token. */
static __device__ __forceinline__ int32_t id_at(const int32_t *ids, int L, int t)
{
    return ids[t < 0 ? 0 : t < L ? t : L - 1];
}

/* True if COUNT tokens from t on belong to one document. */
template <int COUNT> static __device__ __forceinline__ bool one_document(const int32_t *ids, int L, int t)
{
    const int32_t first = id_at(ids, L, t);
    bool          one = first >= 0;
#pragma unroll
    for (int k = 1; k < COUNT; k++) one &= id_at(ids, L, t + k) == first;
    return one;
}

/* Loads the weights of CH channels from c on, right-aligned: with fewer than TAPS taps, w begins with zeros. */
template <int TAPS, int CH>
static __device__ __forceinline__ void load_taps(float (&w)[TAPS][CH], const float *from, int taps, int c)
{
#pragma unroll
    for (int k = 0; k < TAPS; k++)
#pragma unroll
        for (int e = 0; e < CH; e++) w[k][e] = k >= TAPS - taps ? from[(int64_t)(c + e) * taps + k - (TAPS - taps)] : 0;
}

/* ---- forward ---- */

template <typename T, int TAPS, int CH, bool SILU, bool IDS>
__global__ void __launch_bounds__(THREADS) conv1d_fwd_persistent(conv<T> a, track<T> y_track)
{
    constexpr bool          AHEAD = CH > 1; // rows are copied ahead of their use
    constexpr int           U = AHEAD ? CONV1D_ROWS_AHEAD : 1;
    extern __shared__ uint4 memory[];
    const int               c = (int)((blockIdx.x % a.across * THREADS + threadIdx.x) * CH);
    if (c >= a.C) return; // the kernel has no block-wide barrier
    T *const   slots = (T *)memory + threadIdx.x * CH;
    const auto slot = [=](int stage, int u) { return slots + (stage * U + u) * THREADS * CH; };
    float      w[TAPS][CH], bias[CH];
    load_taps(w, a.w, a.taps, c);
#pragma unroll
    for (int e = 0; e < CH; e++) bias[e] = a.bias ? a.bias[c + e] : 0;

    for (int item = blockIdx.x / a.across; item < a.items; item += gridDim.x / a.across) {
        const int b = item / a.segs, t0 = (item - b * a.segs) * a.seg, t1 = min(t0 + a.seg, a.L),
                  end = min(t1 + a.ahead, a.L);
        const rows_of<const T, AHEAD>     x(a.x, b, a.L, a.C, c);
        const rows_of<const float, AHEAD> initial(a.initial, b, a.taps - 1, a.C, c);
        const rows_of<T, AHEAD>           y(y_track, b, a.L, a.C, c);
        const int32_t                    *ids = IDS ? a.ids + b * a.ids_step : NULL;
        float                             past[TAPS - 1][CH]; // earlier inputs, oldest first
        int32_t                           past_id[TAPS - 1];
        int                               stage = 0;
        const auto                        fetch = [&](int t, int to) {
            if constexpr (AHEAD) {
                if (t + a.ahead + U <= end) // the common case: no bounds check per row
#pragma unroll
                    for (int u = 0; u < U; u++) copy_async<CH *(int)sizeof(T)>(slot(to, u), x[t + a.ahead + u]);
                else
#pragma unroll 1
                    for (int u = 0; t + a.ahead + u < end; u++)
                        copy_async<CH *(int)sizeof(T)>(slot(to, u), x[t + a.ahead + u]);
                copy_async_commit();
            }
        };
        fetch(t0, 0);
#pragma unroll
        for (int k = 0; k < TAPS - 1; k++) {
            load_input(past[k], a, x, initial, t0 + a.ahead - (TAPS - 1) + k);
            if (IDS) past_id[k] = id_at(ids, a.L, t0 - (TAPS - 1) + k);
        }
        const auto steps = [&](int t, auto full) { // full: all rows inside the sequence, the item and one document
            constexpr bool MASK = IDS && !decltype(full)::value;
            constexpr int  UNROLL = decltype(full)::value ? U : 1;
#pragma unroll UNROLL
            for (int u = 0; u < U; u++) {
                if (!full.value && t + u >= t1) break;
                const int32_t id = MASK ? id_at(ids, a.L, t + u) : 0;
                float         in[CH], out[CH];
                set_zero(in);
                if (full.value || t + u + a.ahead < a.L) {
                    if constexpr (AHEAD) load(in, slot(stage, u));
                    else load(in, x[t + u + a.ahead]);
                }
#pragma unroll
                for (int e = 0; e < CH; e++) {
                    out[e] = bias[e];
#pragma unroll
                    for (int k = 0; k < TAPS - 1; k++)
                        out[e] = fmaf(w[k][e], !MASK || past_id[k] == id ? past[k][e] : 0.0f, out[e]);
                    out[e] = fmaf(w[TAPS - 1][e], in[e], out[e]);
                    if (SILU) out[e] = silu(out[e]);
                    if (MASK && id < 0) out[e] = 0;
                }
                store(y[t + u], out);
#pragma unroll
                for (int k = 0; k < TAPS - 1; k++) {
                    if (MASK) past_id[k] = k < TAPS - 2 ? past_id[k + 1] : id;
#pragma unroll
                    for (int e = 0; e < CH; e++) past[k][e] = k < TAPS - 2 ? past[k + 1][e] : in[e];
                }
            }
        };
        for (int t = t0; t < t1; t += U, stage ^= 1) {
            fetch(t + U, stage ^ 1);
            copy_async_wait<1>();
            bool full = AHEAD && t + U <= t1 && t + U + a.ahead <= a.L;
            if (IDS && full) full = one_document<TAPS - 1 + U>(ids, a.L, t - (TAPS - 1));
            if (full) steps(t, yes());
            else steps(t, no());
#pragma unroll
            for (int k = 0; IDS && k < TAPS - 1; k++)
                if (full) past_id[k] = id_at(ids, a.L, t);
        }
        copy_async_wait<0>();
    }
}

/* Copies the last W-1 inputs into final (B, W-1, C). */
template <typename T> __global__ void __launch_bounds__(256) conv1d_final(strided_view<float> final, conv<T> a)
{
    const int64_t i = (int64_t)blockIdx.x * 256 + threadIdx.x, r = i / a.C, c = i - r * a.C, keep = a.taps - 1,
                  b = r / keep;
    if (b >= a.B) return;
    const rows_of<const T, false>     x(a.x, (int)b, a.L, a.C, (int)c);
    const rows_of<const float, false> initial(a.initial, (int)b, (int)keep, a.C, (int)c);
    float                             v[1];
    load_input(v, a, x, initial, (int)(a.L - keep + r - b * keep));
    final.row(r, a.C)[c] = v[0];
}

/* ---- backward ---- */

template <typename T> struct conv_grads {
    track<const T>     dy;     // (B, L, C), or absent
    track<const float> dfinal; // (B, W-1, C), or absent
    track<T>           dx;
    track<float>       dinitial; // (B, W-1, C), or absent
    float             *part;     // (parts, W + 1, C): dw, then dbias
    bool               dx_adds, dinitial_adds;
};

template <typename T, int CH> static __device__ __forceinline__ void put_grad(T *to, float (&d)[CH], bool adds)
{
    if (adds) {
        float old[CH];
        load(old, to);
#pragma unroll
        for (int e = 0; e < CH; e++) d[e] += old[e];
    }
    store(to, d);
}

/* Taps and bias are stored multiplied by K, so that sums are in the form that ex2 needs. g is stored divided by K, so
 * that dx needs no correction; dw and dbias are multiplied by K once at the end. */
constexpr float K = -1.44269504f;

template <int TAPS, int CH>
static __device__ __forceinline__ void scale_all(float (&w)[TAPS][CH], float (&bias)[CH], float by)
{
#pragma unroll
    for (int e = 0; e < CH; e++) {
        bias[e] *= by;
#pragma unroll
        for (int k = 0; k < TAPS; k++) w[k][e] *= by;
    }
}

/* Minimum number of resident blocks per SM for the backward kernel. sm_100 needs a few more registers than eight blocks
 * leave. */
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1000
enum { BWD_RESIDENT = 1 };
#else
enum { BWD_RESIDENT = 8 };
#endif

/* Step j of an item that begins at s0 reads x of time s0 + j, computes g of time t = s0 + j - ahead, and with it dx of
 * s = s0 + j - (TAPS-1), for which all g are then known. Eight blocks per SM leave 128 registers, which suffice for
 * bf16; documents and fp32 need more. */
template <typename T, int TAPS, int CH, bool SILU, bool IDS>
__global__ void __launch_bounds__(THREADS, sizeof(T) == 4 || IDS ? 1 : BWD_RESIDENT)
    conv1d_bwd_persistent(conv<T> a, conv_grads<T> q)
{
    constexpr bool          AHEAD = CH > 1;
    constexpr int           U = AHEAD ? CONV1D_ROWS_AHEAD : 1;
    extern __shared__ uint4 memory[];
    const int               c = (int)((blockIdx.x % a.across * THREADS + threadIdx.x) * CH);
    if (c >= a.C) return;
    T *const   slots = (T *)memory + threadIdx.x * CH;
    const auto slot = [=](int stage, int operand, int u) {
        return slots + ((stage * 2 + operand) * U + u) * THREADS * CH;
    };
    float w[TAPS][CH], bias[CH], dw[TAPS][CH], dbias[CH];
    load_taps(w, a.w, a.taps, c);
#pragma unroll
    for (int e = 0; e < CH; e++) bias[e] = a.bias ? a.bias[c + e] : 0;
    if (SILU) scale_all(w, bias, K);
    set_zero(dbias);
#pragma unroll
    for (int k = 0; k < TAPS; k++) set_zero(dw[k]);

    const int part = blockIdx.x / a.across, keep = a.taps - 1;
    for (int item = part; item < a.items; item += gridDim.x / a.across) {
        const int b = item / a.segs, s0 = (item - b * a.segs) * a.seg, s1 = min(s0 + a.seg, a.L),
                  all = s1 - s0 + TAPS - 1;
        const rows_of<const T, AHEAD>     x(a.x, b, a.L, a.C, c), dy(q.dy, b, a.L, a.C, c);
        const rows_of<const float, AHEAD> initial(a.initial, b, keep, a.C, c);
        const rows_of<T, AHEAD>           dx(q.dx, b, a.L, a.C, c);
        const int32_t                    *ids = IDS ? a.ids + b * a.ids_step : NULL;
        float                             past[TAPS - 1][CH], past_g[TAPS - 1][CH]; // oldest first
        int32_t                           past_id[TAPS - 1];
        int                               stage = 0;
        const auto                        fetch = [&](int j, int to) {
            if constexpr (AHEAD) {
                if (j + U <= all && s0 + j + U <= a.L && s0 + j >= a.ahead && dy.at)
#pragma unroll
                    for (int u = 0; u < U; u++) {
                        copy_async<CH *(int)sizeof(T)>(slot(to, 0, u), x[s0 + j + u]);
                        copy_async<CH *(int)sizeof(T)>(slot(to, 1, u), dy[s0 + j + u - a.ahead]);
                    }
                else
#pragma unroll 1
                    for (int u = 0; u < U; u++) {
                        const int i = s0 + j + u, t = i - a.ahead;
                        if (j + u < all && i < a.L) copy_async<CH *(int)sizeof(T)>(slot(to, 0, u), x[i]);
                        if (j + u < all && t >= 0 && t < a.L && dy.at)
                            copy_async<CH *(int)sizeof(T)>(slot(to, 1, u), dy[t]);
                    }
                copy_async_commit();
            }
        };
        fetch(0, 0);
#pragma unroll
        for (int k = 0; k < TAPS - 1; k++) {
            load_input(past[k], a, x, initial, s0 - (TAPS - 1) + k);
            set_zero(past_g[k]);
            if (IDS) past_id[k] = id_at(ids, a.L, s0 - (TAPS - 1) + k);
        }
        const auto steps = [&](int j0, auto full) { // full: all rows inside the item, the sequence and one document
            constexpr bool MASK = IDS && !decltype(full)::value;
            constexpr int  UNROLL = decltype(full)::value ? U : 1;
#pragma unroll UNROLL
            for (int u = 0; u < U; u++) {
                const int j = j0 + u, i = s0 + j, t = i - a.ahead, s = i - (TAPS - 1);
                if (!full.value && j >= all) break;
                const int32_t id = MASK ? id_at(ids, a.L, i) : 0;
                float         in[CH], g[CH], out[CH];
                set_zero(in);
                set_zero(g);
                if (full.value || i < a.L) {
                    if constexpr (AHEAD) load(in, slot(stage, 0, u));
                    else load(in, x[i]);
                }
                if ((full.value || (t >= 0 && t < a.L && dy.at)) && !(MASK && id < 0)) {
                    if constexpr (AHEAD) load(g, slot(stage, 1, u));
                    else load(g, dy[t]);
                }
                const bool own = full.value || (t >= s0 && t < s1);
#pragma unroll
                for (int e = 0; e < CH; e++) {
                    float inputs[TAPS - 1]; // earlier inputs of this step
#pragma unroll
                    for (int k = 0; k < TAPS - 1; k++) inputs[k] = !MASK || past_id[k] == id ? past[k][e] : 0.0f;
                    if (SILU) {
                        float v = bias[e];
#pragma unroll
                        for (int k = 0; k < TAPS - 1; k++) v = fmaf(w[k][e], inputs[k], v);
                        v = fmaf(w[TAPS - 1][e], in[e], v);
                        const float sg = fast_reciprocal(1.0f + fast_exp2(v)); // v = K a, and g = dy silu'(a) / K
                        g[e] *= sg * fmaf(v, fmaf(sg, -1 / (K * K), 1 / (K * K)), 1 / K);
                    }
                    const float mine = own ? g[e] : 0.0f;
                    dbias[e] += mine;
#pragma unroll
                    for (int k = 0; k < TAPS - 1; k++) dw[k][e] = fmaf(mine, inputs[k], dw[k][e]);
                    dw[TAPS - 1][e] = fmaf(mine, in[e], dw[TAPS - 1][e]);
                    out[e] = !MASK || id == past_id[0] ? w[0][e] * g[e] : 0.0f;
#pragma unroll
                    for (int k = 1; k < TAPS; k++)
                        out[e] = fmaf(w[k][e],
                                      !MASK || past_id[TAPS - 1 - k] == past_id[0] ? past_g[TAPS - 1 - k][e] : 0.0f,
                                      out[e]);
                }
                if (!full.value && q.dfinal.w.at && s >= a.L - keep && s >= -keep) {
                    const rows_of<const float, AHEAD> dfinal(q.dfinal, b, keep, a.C, c);
                    float                             d[CH];
                    load(d, dfinal[s - (a.L - keep)]);
#pragma unroll
                    for (int e = 0; e < CH; e++) out[e] += d[e];
                }
                if (full.value || s >= s0) put_grad(dx[s], out, q.dx_adds);
                else if (s0 == 0 && s >= -keep && q.dinitial.w.at)
                    put_grad(rows_of<float, AHEAD>(q.dinitial, b, keep, a.C, c)[s + keep], out, q.dinitial_adds);
#pragma unroll
                for (int k = 0; k < TAPS - 1; k++) {
                    if (MASK) past_id[k] = k < TAPS - 2 ? past_id[k + 1] : id;
#pragma unroll
                    for (int e = 0; e < CH; e++) {
                        past[k][e] = k < TAPS - 2 ? past[k + 1][e] : in[e];
                        past_g[k][e] = k < TAPS - 2 ? past_g[k + 1][e] : g[e];
                    }
                }
            }
        };
        const int quiet = q.dfinal.w.at ? a.L - keep : a.L; // from here on dx also gets the gradient of the final state
        for (int j = 0; j < all; j += U, stage ^= 1) {
            fetch(j + U, stage ^ 1);
            copy_async_wait<1>();
            bool full = AHEAD && dy.at && j >= TAPS - 1 && s0 + j + U <= min(a.L, s1 + a.ahead)
                        && s0 + j + U - (TAPS - 1) <= quiet;
            if (IDS && full) full = one_document<TAPS - 1 + U>(ids, a.L, s0 + j - (TAPS - 1));
            if (full) steps(j, yes());
            else steps(j, no());
#pragma unroll
            for (int k = 0; IDS && k < TAPS - 1; k++)
                if (full) past_id[k] = id_at(ids, a.L, s0 + j);
        }
        copy_async_wait<0>();
    }

    if (SILU) scale_all(dw, dbias, K);
    float *to = q.part + (int64_t)part * (a.taps + 1) * a.C + c;
#pragma unroll
    for (int k = 0; k < TAPS; k++)
        if (k >= TAPS - a.taps) store(to + (k - (TAPS - a.taps)) * a.C, dw[k]);
    store(to + a.taps * a.C, dbias);
}

/* ---- launchers ---- */

template <typename T> static conv<T> conv_of(const mba_call *c, int channels)
{
    const mba_node        *n = c->node;
    const conv1d_dims      d = conv1d_dims_of(n);
    const conv1d_partition k = conv1d_partition_of(n, c->plan->launch[0].grid[0], channels);
    conv<T>                a = {};
    a.x = track_of<const T>(n->in[X], c->in[X]);
    a.initial = track_of<const float>(n->in[INITIAL], c->in[INITIAL]);
    a.ids = (const int32_t *)c->in[IDS];
    a.w = (const float *)c->in[W];
    a.bias = (const float *)c->in[BIAS];
    a.ids_step = n->in[IDS] && !mba_dense(n->in[IDS]) ? n->in[IDS]->pitch : d.L;
    a.B = d.B;
    a.C = d.C;
    a.L = (int)d.L;
    a.taps = (int)d.taps;
    a.ahead = (int)d.ahead;
    a.items = (int)k.items;
    a.seg = (int)k.seg;
    a.segs = (int)k.segs;
    a.across = (int)k.across;
    return a;
}

template <typename T, int TAPS, int CH, bool SILU, bool IDS> static mba_status forward(const mba_call *c)
{
    MBA_KERNEL(c, 0, (conv1d_fwd_persistent<T, TAPS, CH, SILU, IDS>), conv_of<T>(c, CH),
               track_of<T>(c->node->out[Y], c->out[Y]));
    return MBA_OK;
}

template <typename T, int TAPS, int CH, bool SILU, bool IDS> static mba_status backward(const mba_call *c)
{
    const mba_node *n = c->node;
    conv_grads<T>   q = {};
    q.dy = track_of<const T>(n->in[DY], c->in[DY]);
    q.dfinal = track_of<const float>(n->in[DFINAL], c->in[DFINAL]);
    q.dx = track_of<T>(n->out[DX], c->out[DX]);
    q.dinitial = track_of<float>(n->out[DINITIAL], c->out[DINITIAL]);
    q.part = (float *)mba_cuda_scratch(c, 0);
    q.dx_adds = mba_adds(n, DX);
    q.dinitial_adds = mba_adds(n, DINITIAL);
    MBA_KERNEL(c, 0, (conv1d_bwd_persistent<T, TAPS, CH, SILU, IDS>), conv_of<T>(c, CH), q);
    return MBA_OK;
}

template <typename T> static mba_status keep_final(const mba_call *c, int channels)
{
    const mba_tensor *final = c->node->out[FINAL];
    if (final)
        MBA_KERNEL(c, 1, conv1d_final<T>, mba_strided_view<float>(final, c->out[FINAL]), conv_of<T>(c, channels));
    return MBA_OK;
}

extern "C" mba_status conv1d_cuda(const mba_call *c)
{
    const mba_node *n = c->node;
    const bool      silu = ((const conv1d_attr *)n->attr)->silu;
    MBA_WITH_DTYPE(n->in[X]->type.dtype, T,
                   MBA_WITH_BOOL(silu, SILU,
                                 MBA_WITH_BOOL(n->in[IDS] != NULL, IDS,
                                               MBA_TRY((forward<T, 4, CONV1D_PERSISTENT, SILU, IDS>(c)))));
                   return keep_final<T>(c, CONV1D_PERSISTENT));
}

extern "C" mba_status conv1d_any_cuda(const mba_call *c)
{
    const mba_node *n = c->node;
    const bool      silu = ((const conv1d_attr *)n->attr)->silu;
    MBA_WITH_DTYPE(n->in[X]->type.dtype, T,
                   MBA_WITH_BOOL(silu, SILU,
                                 MBA_WITH_BOOL(n->in[IDS] != NULL, IDS,
                                               MBA_TRY((forward<T, CONV1D_TAPS_MAX, 1, SILU, IDS>(c)))));
                   return keep_final<T>(c, 1));
}

static int64_t parts_of(const mba_call *c, int channels)
{
    return conv1d_partition_of(c->node, c->plan->launch[0].grid[0], channels).parts;
}

extern "C" mba_status conv1d_bwd_cuda(const mba_call *c)
{
    const mba_node *n = c->node;
    const bool      silu = ((const conv1d_attr *)n->attr)->silu;
    MBA_WITH_DTYPE(n->in[X]->type.dtype, T,
                   MBA_WITH_BOOL(silu, SILU,
                                 MBA_WITH_BOOL(n->in[IDS] != NULL, IDS,
                                               MBA_TRY((backward<T, 4, CONV1D_PERSISTENT, SILU, IDS>(c))))));
    return sum_weights(c, parts_of(c, CONV1D_PERSISTENT));
}

extern "C" mba_status conv1d_bwd_any_cuda(const mba_call *c)
{
    const mba_node *n = c->node;
    const bool      silu = ((const conv1d_attr *)n->attr)->silu;
    MBA_WITH_DTYPE(n->in[X]->type.dtype, T,
                   MBA_WITH_BOOL(silu, SILU,
                                 MBA_WITH_BOOL(n->in[IDS] != NULL, IDS,
                                               MBA_TRY((backward<T, CONV1D_TAPS_MAX, 1, SILU, IDS>(c))))));
    return sum_weights(c, parts_of(c, 1));
}
