// SPDX-License-Identifier: Apache-2.0
/* conv1d_tiles_cuda.cu -- depthwise convolution over time, variant "tiles": many more small blocks than are resident,
 * so that the load of the SMs stays even.
 *
 *   a[t,c] = bias[c] + sum_k w[c,k] x[t-past+k, c]     y = silu(a) or a     past = W-1-ahead
 *   g = dy silu'(a)     dx[s] = sum_k w[k] g[s+past-k]     dw[k] = sum_t g[t] x[t-past+k]     dbias = sum_t g[t]
 *   x, y, dy, dx (B, L, C) fp32 or bf16     w (C, W), bias, dw, dbias fp32
 *
 * kernel     conv1d_fwd_tiles     a warp takes 128 channels, 4 per thread, and 16 rows (fp32: 8), all loaded at once
 * launch     grid ceil(C / 128) * B * ceil(L / rows of 4 warps), block 128
 * kernel     conv1d_bwd_tiles     a warp takes 128 channels and `rows` rows of dx, and recomputes the W-1 values of g
 *                                 after them; asynchronous copies of 16 bytes per lane bring eight rows of x and dy at
 *                                 a time; every second warp runs backwards in time, so that neighbours read the rows
 *                                 they share at the same time; the warps' dw and dbias are added in shared memory
 * launch     grid ceil(C / 128) * ceil(B * ceil(L / rows) / warps), block 128 or 256 (conv1d_bwd_tile_of); dynamic smem
 *            32 rows of a thread
 * takes      4 taps, or 3 with silu; rows of whole vectors of 4 values at one pitch, backward x and dy of 16-byte
 *            vectors; no documents, no state, a dx that does not add
 * resources  sm_90a, CUDA 13.0: conv1d_fwd_tiles 72 to 80 registers, no spill  [docs]
 *            conv1d_bwd_tiles 128 to 168 registers, no spill  [docs]
 * moves      forward reads and writes a row, backward reads two and writes one; the W-1 rows (backward 2 (W-1)) that
 *            tiles share are in L1 or L2: bound by DRAM
 * issue      forward 12, backward 25 instructions per value, 20 of them arithmetic (27 if every thread copied its own
 *            8 bytes). conv1d_bwd_persistent has 33 (three for a dx that adds, two for the upper halves of pairs)
 * path       eight rows of a warp alone (tools/sass_path, bf16, four taps): 1129 cycles, because g of the next row is
 *            computed while g of this row is used; 1863 without that; 764 and 767 instructions
 * why tiles  persistent blocks start together but end at different times: by counters (H200, 4 x 4096 x 4096) a
 *            block of conv1d_fwd_persistent runs for 124 of 155 thousand cycles, one of conv1d_bwd_persistent for 188
 *            of 228
 * measured   H200: conv1d_fwd_tiles 69.7 us, 98 % of floor (memory), DRAM 78 % busy; mamba2-headline, 4 x 4096  [docs]
 *            conv1d_bwd_tiles 109 us, 95 % of floor (memory), DRAM 76 % busy; mamba2-headline, 4 x 4096  [docs]
 * order      fixed by shape: rows of a warp, warps of a block, blocks */
#include <type_traits>

#include "device/cuda/async.cuh"
#include "device/cuda/packed.cuh"
#include "ops/conv1d/conv1d_totals.cuh"

enum { CH = CONV1D_PERSISTENT, U = CONV1D_ROWS_AHEAD };

/* A tensor (B, L, C) with uniform strides. */
template <typename T> struct strip {
    T                            *at;
    int64_t                       sequence; // in elements
    int                           row;
    __device__ __forceinline__ T *operator()(int b, int t, int c) const
    {
        return at + b * sequence + (int64_t)t * row + c;
    }
    /* The same rows in reverse order, from the last of L. */
    __device__ __forceinline__ strip turned(int L) const
    {
        const strip s = { at + (int64_t)(L - 1) * row, sequence, -row };
        return s;
    }
};

template <typename T> static strip<T> strip_of(const mba_tensor *t, void *at)
{
    const conv1d_steps s = conv1d_steps_of(t);
    const strip<T>     k = { (T *)at, s.sequence, s.row };
    return k;
}

struct conv {
    const float *w, *bias;                  // (C, W), (C) or NULL
    int          L, C, ahead, across, segs; // blocks over the channels; blocks (backward: tiles) per sequence
};

/* Position of a warp: sequence, first row, first channel of the thread. */
struct place {
    int b, t, c;
};

template <int WARPS> static __device__ __forceinline__ place place_of(const conv &a, int rows)
{
    const int   time = blockIdx.x / a.across, b = time / a.segs;
    const place p = { b, ((time - b * a.segs) * WARPS + (int)threadIdx.x / 32) * rows,
                      (int)((blockIdx.x - time * a.across) * 32 + threadIdx.x % 32) * CH };
    return p;
}

/* Backward: the tiles of a block are consecutive; the last tile of a sequence is followed by the first of the next. A
 * warp beyond the last sequence has no tile: t is L. */
template <int WARPS> static __device__ __forceinline__ place tile_of(const conv &a, int sequences, int rows)
{
    const int   time = blockIdx.x / a.across, i = time * WARPS + (int)threadIdx.x / 32, b = i / a.segs;
    const place p = { b, b < sequences ? (i - b * a.segs) * rows : a.L,
                      (int)((blockIdx.x - time * a.across) * 32 + threadIdx.x % 32) * CH };
    return p;
}

/* Loads taps (reversed if `back`) and bias of the thread's channels, times `by`. */
template <int TAPS>
static __device__ __forceinline__ void load_taps(float (&w)[TAPS][CH], float (&bias)[CH], const conv &a, int c,
                                                 float by, bool back = false)
{
    float flat[CH * TAPS]; // (channel, tap)
#pragma unroll
    for (int i = 0; i < CH * TAPS; i += 4) {
        const float4 v = *(const float4 *)(a.w + (int64_t)c * TAPS + i);
        flat[i] = v.x;
        flat[i + 1] = v.y;
        flat[i + 2] = v.z;
        flat[i + 3] = v.w;
    }
    const float4 none = { 0, 0, 0, 0 }, v = a.bias ? *(const float4 *)(a.bias + c) : none;
    bias[0] = v.x * by;
    bias[1] = v.y * by;
    bias[2] = v.z * by;
    bias[3] = v.w * by;
#pragma unroll
    for (int k = 0; k < TAPS; k++)
#pragma unroll
        for (int e = 0; e < CH; e++) w[k][e] = (back ? flat[e * TAPS + TAPS - 1 - k] : flat[e * TAPS + k]) * by;
}

/* ---- forward ---- */

template <typename T, int TAPS, bool SILU>
__global__ void __launch_bounds__(32 * CONV1D_TILE_WARPS) conv1d_fwd_tiles(conv a, strip<const T> x, strip<T> y)
{
    constexpr int ROWS = CONV1D_TILE_ROWS(sizeof(T));
    const place   p = place_of<CONV1D_TILE_WARPS>(a, ROWS);
    if (p.c >= a.C || p.t >= a.L) return;
    const int     first = p.t - (TAPS - 1 - a.ahead); // row of the first input
    const bool    inside = first >= 0 && p.t + ROWS + a.ahead <= a.L;
    const T      *from = x(p.b, first, p.c);
    packed<T, CH> in[ROWS + TAPS - 1];
    if (inside) {
#pragma unroll
        for (int i = 0; i < ROWS + TAPS - 1; i++) fetch(in[i], from + (int64_t)i * x.row);
    } else {
#pragma unroll
        for (int i = 0; i < ROWS + TAPS - 1; i++)
            fetch(in[i], from + (int64_t)i * x.row, first + i >= 0 && first + i < a.L);
    }
    float w[TAPS][CH], bias[CH], inputs[TAPS][CH]; // input i is at i % TAPS
    load_taps(w, bias, a, p.c, 1);
#pragma unroll
    for (int i = 0; i < TAPS - 1; i++) unpack(inputs[i], in[i]);
    T *to = y(p.b, p.t, p.c);
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        float out[CH];
        unpack(inputs[(r + TAPS - 1) % TAPS], in[r + TAPS - 1]);
#pragma unroll
        for (int e = 0; e < CH; e++) {
            out[e] = bias[e];
#pragma unroll
            for (int k = 0; k < TAPS; k++) out[e] = fmaf(w[k][e], inputs[(r + k) % TAPS][e], out[e]);
            if (SILU) out[e] = silu(out[e]);
        }
        if (inside || p.t + r < a.L) store(to + (int64_t)r * y.row, out);
    }
}

/* ---- backward ---- */

/* Taps and bias are stored multiplied by K, so that sums are in the form that ex2 needs. g is stored divided by K, so
 * that dx needs no correction; dw and dbias are multiplied by K once at the end. */
constexpr float K = -1.44269504f;

/* The lanes of a warp copy its rows together, 16 bytes per lane: one row of fp32 or two of bf16 at a time. The lane's
 * vector is at channel `vec` of row `row`. */
template <typename T> struct share {
    enum { EACH = 16 / (int)sizeof(T), LANES = 32 * CH / EACH, AT_ONCE = 32 / LANES };
    const T *x, *dy; // of the first row that the lane copies
    int      vec, row;
    bool     there;
};

template <typename T>
static __device__ __forceinline__ share<T> share_of(const conv &a, const place &p, int ahead, const strip<const T> &x,
                                                    const strip<const T> &dy)
{
    typedef share<T> S;
    const int        lane = threadIdx.x % 32, c0 = p.c - lane * CH;
    S                s;
    s.vec = lane % S::LANES * S::EACH;
    s.row = lane / S::LANES;
    s.there = c0 + s.vec < a.C;
    s.x = x(p.b, p.t + s.row, c0 + s.vec);
    s.dy = dy(p.b, p.t + s.row - ahead, c0 + s.vec);
    return s;
}

template <int TAPS> struct sums {
    float dw[TAPS][CH], dbias[CH];
};

/* Adds the sums of the warps in order and stores them as the partial sum of this block (W + 1, C). `back`: this warp
 * has its taps reversed. */
template <int TAPS, int WARPS>
static __device__ __forceinline__ void add_warps(float *memory, const sums<TAPS> &s, bool back, float by, float *part,
                                                 int64_t C, int c0)
{
    constexpr int KINDS = (TAPS + 1) * CH;
    const int     lane = threadIdx.x % 32;
    float        *mine = memory + threadIdx.x / 32 * KINDS * 32 + lane;
    __syncthreads(); // all warps are done with the slots
#pragma unroll
    for (int e = 0; e < CH; e++) {
#pragma unroll
        for (int k = 0; k < TAPS; k++) mine[((back ? TAPS - 1 - k : k) * CH + e) * 32] = s.dw[k][e];
        mine[(TAPS * CH + e) * 32] = s.dbias[e];
    }
    __syncthreads();
    for (int i = threadIdx.x; i < KINDS * 32; i += 32 * WARPS) {
        const int k = i / (CH * 32), c = i % (CH * 32);
        float     total = 0;
#pragma unroll
        for (int q = 0; q < WARPS; q++) total += memory[(q * KINDS + k * CH + c % CH) * 32 + c / CH];
        if (c0 + c < C) part[k * C + c0 + c] = by * total;
    }
}

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1000 // needs four more registers
enum { WARPS_SM = 12 };
#else
enum { WARPS_SM = 16 };
#endif

/* Step j of a warp that begins at s0 reads x of time s0 + j, computes g of time t = s0 + j - ahead, and with it dx of s
 * = s0 + j - (TAPS-1), for which all g are then known. Every second warp runs backwards in time: it sees the sequence
 * reversed, the last tap first, with past and ahead exchanged. So neighbours read the rows they share, 2 (W-1) of x and
 * W-1 of dy, at the same time, both in their first or both in their last steps, and the second reader finds them in
 * L2. */
template <typename T, int TAPS, bool SILU, int WARPS>
__global__ void __launch_bounds__(32 * WARPS, (sizeof(T) == 4 ? 12 : WARPS_SM) / WARPS)
    conv1d_bwd_tiles(conv a, strip<const T> x_on, strip<const T> dy_on, strip<T> dx_on, float *part, int sequences,
                     int rows)
{
    typedef share<T>        S;
    constexpr int           THREADS = 32 * WARPS;
    extern __shared__ uint4 memory[];
    place                   p = tile_of<WARPS>(a, sequences, rows);
    const bool              back = threadIdx.x / 32 % 2;
    T *const                warp_slots = (T *)memory + threadIdx.x / 32 * 32 * CH;
    T *const                slots = warp_slots + threadIdx.x % 32 * CH;
    const auto plane = [=](int stage, int operand, int u) { return ((stage * 2 + operand) * U + u) * THREADS * CH; };
    sums<TAPS> s;
#pragma unroll
    for (int e = 0; e < CH; e++) {
        s.dbias[e] = 0;
#pragma unroll
        for (int k = 0; k < TAPS; k++) s.dw[k][e] = 0;
    }
    if (p.t < a.L) { // uniform per warp: its lanes copy rows for each other
        const bool           here = p.c < a.C, whole = p.c - (int)threadIdx.x % 32 * CH + 32 * CH <= a.C;
        const int            count = min(rows, a.L - p.t), all = count + TAPS - 1, c = here ? p.c : 0;
        const int            ahead = back ? TAPS - 1 - a.ahead : a.ahead;
        const strip<const T> x = back ? x_on.turned(a.L) : x_on, dy = back ? dy_on.turned(a.L) : dy_on;
        const strip<T>       dx = back ? dx_on.turned(a.L) : dx_on;
        if (back) p.t = a.L - p.t - count;
        const int  s1 = p.t + count;
        S          own_share = share_of(a, p, ahead, x, dy);
        T         *dx_at = dx(p.b, p.t - (TAPS - 1), p.c);
        float      w[TAPS][CH], bias[CH], past[TAPS - 1][CH], past_g[TAPS - 1][CH]; // oldest first
        int        stage = 0;
        const auto fetch_rows = [&](int j, int to) {
            T *const at = warp_slots + own_share.vec + plane(to, 0, own_share.row);
            if (whole && p.t + j >= ahead && p.t + j + U <= a.L) {
#pragma unroll
                for (int u = 0; u < U; u += S::AT_ONCE) {
                    copy_async<16>(at + plane(0, 0, u), own_share.x + (int64_t)u * x.row);
                    copy_async<16>(at + plane(0, 1, u), own_share.dy + (int64_t)u * dy.row);
                }
            } else {
#pragma unroll 1
                for (int u = 0; u < U; u += S::AT_ONCE) {
                    const int  i = p.t + j + u + own_share.row, t = i - ahead;
                    const bool in = own_share.there && i < a.L, got = own_share.there && t >= 0 && t < a.L;
                    copy_async_or_zero<16>(at + plane(0, 0, u), in ? own_share.x + (int64_t)u * x.row : x.at, in);
                    copy_async_or_zero<16>(at + plane(0, 1, u), got ? own_share.dy + (int64_t)u * dy.row : dy.at, got);
                }
            }
            own_share.x += (int64_t)U * x.row;
            own_share.dy += (int64_t)U * dy.row;
            copy_async_commit();
        };
        fetch_rows(0, 0);
        packed<T, CH> before[TAPS - 1];
#pragma unroll
        for (int k = 0; k < TAPS - 1; k++)
            fetch(before[k], x(p.b, p.t + k - (TAPS - 1), c), here && p.t + k >= TAPS - 1);
        load_taps(w, bias, a, c, SILU ? K : 1, back);
#pragma unroll
        for (int k = 0; k < TAPS - 1; k++) {
            unpack(past[k], before[k]);
#pragma unroll
            for (int e = 0; e < CH; e++) past_g[k][e] = 0;
        }
        /* Row u of the batch: loads x and computes g of the step that it completes; `inputs` are the rows before it. */
        const auto make_g = [&](float(&in)[CH], float(&g)[CH], const float(&inputs)[TAPS - 1][CH], int u) {
            load(in, slots + plane(stage, 0, u));
            load(g, slots + plane(stage, 1, u));
#pragma unroll
            for (int e = 0; e < CH && SILU; e++) {
                float v = bias[e];
#pragma unroll
                for (int k = 0; k < TAPS - 1; k++) v = fmaf(w[k][e], inputs[k][e], v);
                v = fmaf(w[TAPS - 1][e], in[e], v);
                const float sg = fast_reciprocal(1.0f + fast_exp2(v)); // v = K a, g = dy silu'(a) / K
                g[e] = g[e] * sg * fmaf(v, fmaf(sg, -1 / (K * K), 1 / (K * K)), 1 / K);
            }
        };
        /* g of a row is a dependent chain of two loads and two special functions, so it is computed while the previous
         * g is used. full: all rows of g and dx belong to this warp, and all lanes have channels. */
        const auto steps = [&](int j0, auto full) {
            constexpr bool FULL = decltype(full)::value;
            float          in[CH], g[CH], next_in[CH], next_g[CH], next_past[TAPS - 1][CH];
            make_g(in, g, past, 0);
#pragma unroll
            for (int u = 0; u < U; u++) {
                const int  j = j0 + u;
                const bool own = FULL || (j >= ahead && p.t + j - ahead < s1);
                float      out[CH];
#pragma unroll
                for (int k = 0; k < TAPS - 1; k++)
#pragma unroll
                    for (int e = 0; e < CH; e++) next_past[k][e] = k < TAPS - 2 ? past[k + 1][e] : in[e];
                if (u + 1 < U) make_g(next_in, next_g, next_past, u + 1);
#pragma unroll
                for (int e = 0; e < CH; e++) {
                    const float mine = own ? g[e] : 0.0f;
                    s.dbias[e] += mine;
#pragma unroll
                    for (int k = 0; k < TAPS - 1; k++) s.dw[k][e] = fmaf(mine, past[k][e], s.dw[k][e]);
                    s.dw[TAPS - 1][e] = fmaf(mine, in[e], s.dw[TAPS - 1][e]);
                    out[e] = w[0][e] * g[e];
#pragma unroll
                    for (int k = 1; k < TAPS; k++) out[e] = fmaf(w[k][e], past_g[TAPS - 1 - k][e], out[e]);
                }
                if (FULL || (here && j >= TAPS - 1 && j < all)) store(dx_at + (int64_t)u * dx.row, out);
#pragma unroll
                for (int e = 0; e < CH; e++) {
#pragma unroll
                    for (int k = 0; k < TAPS - 1; k++) {
                        past[k][e] = next_past[k][e];
                        past_g[k][e] = k < TAPS - 2 ? past_g[k + 1][e] : g[e];
                    }
                    if (u + 1 == U) continue;
                    in[e] = next_in[e];
                    g[e] = next_g[e];
                }
            }
            dx_at += (int64_t)U * dx.row;
        };
        for (int j = 0; j < all; j += U, stage ^= 1) {
            __syncwarp(); // all lanes are done with the slots that are overwritten
            if (j + U < all) fetch_rows(j + U, stage ^ 1);
            else copy_async_commit();
            copy_async_wait<1>();
            __syncwarp(); // the copies of all lanes have arrived
            if (whole && j >= TAPS - 1 && p.t + j + U - ahead <= s1) steps(j, std::true_type());
            else steps(j, std::false_type());
        }
    }
    copy_async_wait<0>();
    const int c0 = p.c - (int)threadIdx.x % 32 * CH;
    add_warps<TAPS, WARPS>((float *)memory, s, back, SILU ? K : 1.0f,
                           part + (int64_t)(blockIdx.x / a.across) * (TAPS + 1) * a.C, a.C, c0);
}

/* ---- launchers ---- */

static conv conv_of(const mba_call *c, int64_t across, int64_t segs)
{
    const conv1d_dims d = conv1d_dims_of(c->node);

    const conv a = {
        (const float *)c->in[W], (const float *)c->in[BIAS], (int)d.L, (int)d.C, (int)d.ahead, (int)across, (int)segs
    };
    return a;
}

template <typename T, int TAPS, bool SILU> static mba_status forward(const mba_call *c)
{
    const mba_node        *n = c->node;
    const conv1d_dims      d = conv1d_dims_of(n);
    const conv1d_tile_grid k = conv1d_tile_grid_of(&d, CONV1D_TILE_WARPS, CONV1D_TILE_ROWS(sizeof(T)));
    MBA_KERNEL(c, 0, (conv1d_fwd_tiles<T, TAPS, SILU>), conv_of(c, k.across, k.segs),
               strip_of<const T>(n->in[X], c->in[X]), strip_of<T>(n->out[Y], c->out[Y]));
    return MBA_OK;
}

template <typename T, int TAPS, bool SILU> static mba_status backward(const mba_call *c)
{
    const mba_node       *n = c->node;
    const conv1d_dims     d = conv1d_dims_of(n);
    const conv1d_bwd_tile t = conv1d_bwd_tile_of(n);
    const conv1d_bwd_grid k = conv1d_bwd_grid_of(&d, t);
    MBA_WITH_BOOL(t.warps == 2 * CONV1D_TILE_WARPS, LONG,
                  MBA_KERNEL(c, 0, (conv1d_bwd_tiles<T, TAPS, SILU, (LONG ? 2 : 1) * CONV1D_TILE_WARPS>),
                             conv_of(c, k.across, k.tiles), strip_of<const T>(n->in[X], c->in[X]),
                             strip_of<const T>(n->in[DY], c->in[DY]), strip_of<T>(n->out[DX], c->out[DX]),
                             (float *)mba_cuda_scratch(c, 0), (int)d.B, t.rows));
    return sum_weights(c, k.parts);
}

#define WITH_CONV(c, direction) \
    do { \
        const mba_node *n_ = (c)->node; \
        MBA_WITH_DTYPE(n_->in[X]->type.dtype, T, if (conv1d_dims_of(n_).taps == 3) return direction<T, 3, true>(c); \
                       MBA_WITH_BOOL(((const conv1d_attr *)n_->attr)->silu, SILU, return (direction<T, 4, SILU>(c)))); \
    } while (0)

extern "C" mba_status conv1d_tiles_cuda(const mba_call *c) { WITH_CONV(c, forward); }
extern "C" mba_status conv1d_bwd_tiles_cuda(const mba_call *c) { WITH_CONV(c, backward); }
