// SPDX-License-Identifier: Apache-2.0
/* selective_scan_cuda.cuh -- shared by all CUDA kernels of selective_scan (Mamba-1): operands and their strides, the
 * work of a block (tokens and channels), softplus and gate, vector loads and stores, document resets.
 *
 * Decays are 2^(dt A2) with A2 = A log2(e). A token that starts a document gets dt = RESET_STEP for its decay alone,
 * which makes the decay exactly zero in both directions at no cost; its true step serves everything else. Tokens beyond
 * the end have dt = 0, dt u = 0 and dy = 0, so that the state passes them unchanged. */
#ifndef MBA_SELECTIVE_SCAN_CUDA_CUH
#define MBA_SELECTIVE_SCAN_CUDA_CUH

#include "device/cuda/async.cuh"
#include "device/cuda/mma_fragments.cuh"
extern "C" {
#include "ops/selective_scan/selective_scan_slots.h"
}

#define LOG2E      1.4426950408889634f
#define LN2        0.6931471805599453f
#define RESET_STEP 1e30f

/* ---- operands: strided views with one row stride within a sequence, and any stride between sequences ---- */

template <typename T> struct sequence_view {
    T                            *at;
    int64_t                       row, outer, inner, per;
    __device__ __forceinline__ T *sequence(int64_t b) const
    {
        return per == 1 ? at + b * outer : at + b / per * outer + b % per * inner;
    }
};

/* A sequence has `rows` rows of `width` values. For an absent tensor `at` is NULL. */
template <typename T>
static inline sequence_view<T> sequence_view_of(const mba_tensor *t, void *at, int64_t rows, int64_t width)
{
    sequence_view<T> l = { NULL, 0, 0, 0, 1 };
    if (!t) return l;
    l.at = (T *)at;
    if (t->run == width) {
        l.row = t->pitch;
        l.outer = rows * t->pitch;
    } else {
        l.row = width;
        l.outer = t->pitch;
        l.inner = rows * width;
        l.per = t->run / (rows * width);
    }
    return l;
}

template <typename T> static inline sequence_view<T> dense_view(T *at, int64_t rows, int64_t width)
{
    const sequence_view<T> l = { at, width, rows * width, 0, 1 };
    return l;
}

/* Arguments of all kernels; what is absent is NULL. Activations have type T, everything else fp32. */
template <typename T> struct scan_operands {
    sequence_view<const T>       u, delta, z, B, C, dout;
    sequence_view<T>             out, du, ddelta, dz, dB, dC;
    sequence_view<const float>   A_log, start, start_back; /* (items, D, N): initial states and adjoints */
    sequence_view<float>         final, dinitial, dA_log;
    sequence_view<const int32_t> ids;
    const float                 *skip, *bias;
    float                       *dskip, *dbias;
    T                           *ys; /* scratch: see selective_scan_slots.h */
    float                       *kept, *ends, *steps, *bc, *sums, *partial;
    uint32_t                     adds;
    bool                         aligned4, aligned4_bc; /* rows consist of whole, aligned vectors of four; of B and C */
    bool                         aligned8, aligned8_bc; /* `specialized`: of eight */
    int                          vector;                /* `chunked`: bytes that a copy takes of a row, or 0 */
    int                          B_, L, D, N, Dg, G, blocks; /* blocks of channels in a group */
    int                          padded;                     /* states per channel in scratch: N and zeros */
    int     pack, segments, segment, tiles, sub_segments;    /* sub_segments: of scan_carry, per segment */
    int     saved_every, saved_rows;                         /* tokens per saved state; states per sequence or pack */
    int     kept_states;                                     /* states per channel among the saved */
    int64_t tokens, items;
};

/* ---- the work of a block ---- */

struct block_work {
    int64_t item, sequence, token;                          /* token: the first one, counted over all sequences */
    int     first, length, block, group, channel, channels; /* first: token in its sequence; channels: end */
};

template <typename T>
static __device__ __forceinline__ block_work block_work_at(const scan_operands<T> &p, int width, uint32_t item,
                                                           int block)
{
    block_work a;
    a.item = item;
    a.block = block;
    a.group = a.block / p.blocks;
    a.channel = a.group * p.Dg + a.block % p.blocks * width;
    a.channels = (a.group + 1) * p.Dg;
    a.sequence = p.segments > 1 ? item / (uint32_t)p.segments : a.item * p.pack;
    a.first = p.segments > 1 ? (int)(item % (uint32_t)p.segments) * p.segment : 0;
    a.length = p.pack > 1 ? (int)min((int64_t)p.pack, p.B_ - a.sequence) * p.L : min(p.segment, p.L - a.first);
    a.token = a.sequence * p.L + a.first;
    return a;
}

/* Blocks that differ only in channels have neighbouring numbers: they read the same B and C, and adjacent bytes of the
 * rest. */
template <typename T> static __device__ __forceinline__ block_work block_work_of(const scan_operands<T> &p, int width)
{
    const uint32_t i = blockIdx.y * gridDim.x + blockIdx.x; // operands of 2^32 blocks fit on no GPU
    return block_work_at(p, width, i / gridDim.y, (int)(i % gridDim.y));
}

/* ---- element-wise maths. EXACT: fp32; otherwise accurate enough for bf16 results ---- */

/* log(1 + e^p) by one exponential and a polynomial for log1p on 0 .. 1; relative error 2e-7 (EXACT) or 8e-6. */
template <bool EXACT> static __device__ __forceinline__ float step_of(float p)
{
    const float y = fast_exp2(-fabsf(p) * LOG2E);
    float       s;
    if (EXACT) {
        s = fmaf(-0.00853920973f, y, 0.0440896355f);
        s = fmaf(s, y, -0.107681718f);
        s = fmaf(s, y, 0.177452417f);
        s = fmaf(s, y, -0.244954629f);
        s = fmaf(s, y, 0.332754798f);
        s = fmaf(s, y, -0.499974054f);
        s = fmaf(s, y, 0.999999806f);
    } else {
        s = fmaf(-0.0238691486f, y, 0.101222277f);
        s = fmaf(s, y, -0.210048682f);
        s = fmaf(s, y, 0.325206677f);
        s = fmaf(s, y, -0.499361364f);
        s = fmaf(s, y, 0.999991598f);
    }
    return fmaf(s, y, fmaxf(p, 0.0f));
}

/* The derivative of softplus from its value: 1 - e^-dt, by series where the difference would cancel; error 1e-5. */
template <bool EXACT> static __device__ __forceinline__ float step_slope(float dt)
{
    if (EXACT) return -expm1f(-dt);
    const float small = dt * fmaf(dt, fmaf(dt, 1.0f / 6, -0.5f), 1.0f);
    return dt < 0.03f ? small : 1 - fast_exp2(-dt * LOG2E);
}

template <bool EXACT> static __device__ __forceinline__ float gate_sigmoid(float z)
{
    return EXACT ? 1 / (1 + fast_exp2(-z * LOG2E)) : sigmoid(z);
}

static __device__ __forceinline__ float A2_of(float A_log) { return -LOG2E * expf(A_log); }

/* ---- vectors of four values ---- */

template <typename T> struct quad {
    typename word<4 * sizeof(T)>::type w;
};

template <typename T> static __device__ __forceinline__ quad<T> read4(const T *p) { return *(const quad<T> *)p; }

/* The first `valid` of four values, the others zero. wide: one aligned vector, of which all are valid or none. */
template <typename T> static __device__ __forceinline__ quad<T> read4(const T *p, bool wide, int valid)
{
    quad<T> q = {};
    if (wide) return valid > 0 ? read4(p) : q;
#pragma unroll
    for (int e = 0; e < 4; e++)
        if (e < valid) ((T *)&q)[e] = p[e];
    return q;
}

static __device__ __forceinline__ void values(float (&v)[4], quad<float> q)
{
    v[0] = __uint_as_float(q.w.x);
    v[1] = __uint_as_float(q.w.y);
    v[2] = __uint_as_float(q.w.z);
    v[3] = __uint_as_float(q.w.w);
}

static __device__ __forceinline__ void values(float (&v)[4], quad<bf16> q)
{
    v[0] = __uint_as_float(q.w.x << 16);
    v[1] = __uint_as_float(q.w.x & 0xffff0000u);
    v[2] = __uint_as_float(q.w.y << 16);
    v[3] = __uint_as_float(q.w.y & 0xffff0000u);
}

static __device__ __forceinline__ void write4(float *p, const float (&v)[4])
{
    *(float4 *)p = make_float4(v[0], v[1], v[2], v[3]);
}
static __device__ __forceinline__ void write4(bf16 *p, const float (&v)[4])
{
    *(uint2 *)p = make_uint2(pack_bf16(v[0], v[1]), pack_bf16(v[2], v[3]));
}

/* Writes the first `valid` of four values, or adds them to what is there. wide: as in read4. */
template <typename T> static __device__ __forceinline__ void write4(T *p, float (&v)[4], bool add, bool wide, int valid)
{
    if (add) {
        float old[4];
        values(old, read4(p, wide, valid));
#pragma unroll
        for (int e = 0; e < 4; e++) v[e] += old[e];
    }
    if (wide && valid > 0) write4(p, v);
#pragma unroll
    for (int e = 0; e < 4; e++)
        if (!wide && e < valid) p[e] = from_float<T>(v[e]);
}

/* Row t of a matrix with row stride `bytes`: one multiply-add, which the compiler does not generate by itself. */
template <typename T> static __device__ __forceinline__ T *row_at(T *at, int t, int bytes)
{
    uint64_t a;
    asm("mad.wide.s32 %0, %1, %2, %3;" : "=l"(a) : "r"(t), "r"(bytes), "l"(at));
    return (T *)a;
}

static __device__ __forceinline__ quad<bf16> read4_global(const bf16 *at)
{
    quad<bf16> q;
    asm volatile("ld.global.v2.u32 {%0, %1}, [%2];" : "=r"(q.w.x), "=r"(q.w.y) : "l"(at));
    return q;
}

static __device__ __forceinline__ void write4_global(bf16 *at, const float (&v)[4])
{
    asm volatile("st.global.v2.u32 [%0], {%1, %2};" ::"l"(at), "r"(pack_bf16(v[0], v[1])), "r"(pack_bf16(v[2], v[3]))
                 : "memory");
}

/* Writes states, predicated by `now`. It has no branch and no memory clobber: either would keep the compiler from
 * moving instructions across it. The kernel does not read this memory. */
static __device__ __forceinline__ void write4_global(bool now, float *at, const float (&v)[4])
{
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %5, 0; @p st.global.v4.f32 [%0], {%1, %2, %3, %4}; }" ::"l"(at),
                 "f"(v[0]), "f"(v[1]), "f"(v[2]), "f"(v[3]), "r"((int)now));
}

static __device__ __forceinline__ void write2_global(bool now, float *at, float a, float b)
{
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %3, 0; @p st.global.v2.f32 [%0], {%1, %2}; }" ::"l"(at), "f"(a),
                 "f"(b), "r"((int)now));
}

/* ---- vectors of eight bf16. whole: aligned to 16 bytes; otherwise two vectors of four, and where the second is out of
 * range (second 0) the first is loaded instead ---- */

static __device__ __forceinline__ void values(float (&v)[8], uint4 q)
{
    const uint32_t w[4] = { q.x, q.y, q.z, q.w };
#pragma unroll
    for (int i = 0; i < 4; i++) {
        v[2 * i] = __uint_as_float(w[i] << 16);
        v[2 * i + 1] = __uint_as_float(w[i] & 0xffff0000u);
    }
}

/* v / 2 for two bf16; exact. */
static __device__ __forceinline__ uint32_t halve(uint32_t v)
{
    asm("fma.rn.bf16x2 %0, %0, %1, %2;" : "+r"(v) : "r"(0x3f003f00u), "r"(0x80008000u));
    return v;
}

static __device__ __forceinline__ uint4 halve(uint4 q)
{
    q.x = halve(q.x);
    q.y = halve(q.y);
    q.z = halve(q.z);
    q.w = halve(q.w);
    return q;
}

static __device__ __forceinline__ void copy8(void *to, const bf16 *from, bool whole, int second)
{
    if (whole) {
        copy_async<16, THROUGH_L1>(to, from);
    } else {
        copy_async<8>(to, from);
        copy_async<8>((char *)to + 8, from + second);
    }
}

static __device__ __forceinline__ void write8(bf16 *to, const float (&v)[8], bool whole, int second)
{
    if (whole) {
        asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(pack_bf16(v[0], v[1])),
                     "r"(pack_bf16(v[2], v[3])), "r"(pack_bf16(v[4], v[5])), "r"(pack_bf16(v[6], v[7]))
                     : "memory");
    } else {
        const float low[4] = { v[0], v[1], v[2], v[3] }, high[4] = { v[4], v[5], v[6], v[7] };
        write4_global(to, low);
        if (second) write4_global(to + 4, high);
    }
}

/* Eight fp32 in shared memory. */
static __device__ __forceinline__ void read8(float (&v)[8], const float4 *at)
{
    const float4 a = at[0], b = at[1];
    v[0] = a.x;
    v[1] = a.y;
    v[2] = a.z;
    v[3] = a.w;
    v[4] = b.x;
    v[5] = b.y;
    v[6] = b.z;
    v[7] = b.w;
}

static __device__ __forceinline__ void store8(float4 *at, const float (&v)[8])
{
    at[0] = make_float4(v[0], v[1], v[2], v[3]);
    at[1] = make_float4(v[4], v[5], v[6], v[7]);
}

/* Rounds an operand of tensor cores to tf32 by adding half a unit: they drop the 13 low bits themselves. cvt.rna would
 * take three instructions. */
static __device__ __forceinline__ float rounded_tf32(float x) { return __uint_as_float(__float_as_uint(x) + 0x1000u); }

/* x as tensor cores see it. The rest is exact in tf32 to 2^-21 of x. */
static __device__ __forceinline__ float tf32_of(float x) { return __uint_as_float(__float_as_uint(x) & 0xffffe000u); }

/* ---- groups of N states: kernels of `tiles` process all tiles of one group, then those of the next. Turn s * tiles +
 * t is group s of tile t ---- */

template <int N> struct turn_of {
    int                        tile, state; /* state: first of its group */
    bool                       last;        /* the last group */
    __device__ __forceinline__ turn_of(int turn, int tiles, int states)
    {
        const int group = turn < tiles ? 0 : turn / tiles;
        tile = turn - group * tiles;
        state = group * N;
        last = state + N >= states;
    }
};

/* ---- one step of the adjoint for four states: g = a lam, and its terms of q, r and dA. h: the state before ---- */

static __device__ __forceinline__ void adjoint_step(float (&g)[4], float (&q)[4], float (&r)[4], float (&dA)[4],
                                                    const float (&lam)[4], const float (&a)[4], const float (&h)[4],
                                                    const float (&A2)[4], const float (&b)[4], const float (&dt)[4])
{
#pragma unroll
    for (int e = 0; e < 4; e++) {
        g[e] = a[e] * lam[e];
        const float v = g[e] * h[e];
        dA[e] = fmaf(dt[e], v, dA[e]);
        q[e] = lam[e] * b[e];
        r[e] = A2[e] * v;
    }
}

/* ---- pointers to the first token and channel of a block in every operand, in shared memory because registers are
 * short ---- */

template <typename T> struct origins {
    block_work     a;
    const T       *u, *delta, *z, *B, *C, *dout; /* up to dz in the order of scan_operands */
    T             *out, *du, *ddelta, *dz;
    T             *ys;
    float         *kept, *bc, *partial;
    const int32_t *ids;
};

template <typename X>
static __device__ __forceinline__ X *origin(const sequence_view<X> &l, const block_work &a, int column)
{
    return l.at ? l.sequence(a.sequence) + a.first * l.row + column : NULL;
}

/* Each thread computes one pointer: one thread would need as long for all as a tile takes. */
template <typename T>
static __device__ __forceinline__ void find_origins(origins<T> &o, const scan_operands<T> &p, const block_work &a,
                                                    int thread)
{
    enum { ROWS = 10, IDS_, YS_, KEPT_, BC_, PARTIAL_, WORK_ };
    static_assert(offsetof(origins<T>, dz) - offsetof(origins<T>, u) == (ROWS - 1) * sizeof(T *),
                  "the order of scan_operands");
    static_assert(offsetof(scan_operands<T>, dz) - offsetof(scan_operands<T>, u)
                      == (ROWS - 1) * sizeof(sequence_view<T>),
                  "");
    if (thread < ROWS) // 3, 4: B and C
        ((T **)&o.u)[thread] = origin(((const sequence_view<T> *)&p.u)[thread], a,
                                      thread == 3 || thread == 4 ? a.group * p.N : a.channel);
    else if (thread == IDS_) o.ids = origin(p.ids, a, 0);
    else if (thread == YS_) o.ys = p.ys ? p.ys + a.token * p.D + a.channel : NULL;
    else if (thread == KEPT_)
        o.kept = p.kept ? p.kept
                              + (((p.segments > 1 ? a.sequence : a.item) * p.saved_rows + a.first / p.saved_every) * p.D
                                 + a.channel)
                                    * p.kept_states
                        : NULL;
    else if (thread == BC_) o.bc = p.bc ? p.bc + ((int64_t)a.block * p.tokens + a.token) * 2 * p.padded : NULL;
    else if (thread == PARTIAL_) o.partial = p.partial ? p.partial + a.token * p.D + a.channel : NULL;
    else if (thread == WORK_) o.a = a;
}

/* ---- documents: a token starts one where `here` and `before` differ. Token 0 of a sequence continues from the initial
 * state; in a pack it starts from zero ---- */

struct document {
    int32_t here, before;
};

static __device__ __forceinline__ document read_document(const int32_t *ids, int64_t row, int t, bool leads, bool pack)
{
    document d = { leads && pack, 0 };
    if (ids && !leads) {
        d.here = ids[t * row];
        d.before = ids[(t - 1) * row];
    }
    return d;
}

/* ---- operands of a node ---- */

/* Whether rows consist of whole, aligned vectors of V values. */
template <int V, typename T> static inline bool vec_aligned(const sequence_view<T> &l)
{
    return !l.at || ((uintptr_t)l.at % (V * sizeof(T)) == 0 && l.row % V == 0 && l.outer % V == 0 && l.inner % V == 0);
}

template <typename T> static inline scan_operands<T> scan_operands_of(const mba_call *c, int64_t items, int64_t width)
{
    const mba_node      *n = c->node;
    const scan_dims      d = scan_dims_of(n);
    const scan_partition cut = scan_partition_of(d, items);
    scan_operands<T>     p = {};
    p.u = sequence_view_of<const T>(n->in[U], c->in[U], d.L, d.D);
    p.delta = sequence_view_of<const T>(n->in[DELTA], c->in[DELTA], d.L, d.D);
    p.z = sequence_view_of<const T>(n->in[Z], c->in[Z], d.L, d.D);
    p.B = sequence_view_of<const T>(n->in[BM], c->in[BM], d.L, d.G * d.N);
    p.C = sequence_view_of<const T>(n->in[CM], c->in[CM], d.L, d.G * d.N);
    p.A_log = sequence_view_of<const float>(n->in[A_LOG], c->in[A_LOG], d.D, d.N);
    p.start = sequence_view_of<const float>(n->in[INITIAL], c->in[INITIAL], d.D, d.N);
    p.ids = sequence_view_of<const int32_t>(n->in[IDS], c->in[IDS], d.L, 1);
    p.skip = (const float *)(n->in[SKIP] ? c->in[SKIP] : NULL);
    p.bias = (const float *)(n->in[DT_BIAS] ? c->in[DT_BIAS] : NULL);
    p.B_ = (int)d.B;
    p.L = (int)d.L;
    p.D = (int)d.D;
    p.N = (int)d.N;
    p.padded = (int)scan_padded_states(d.N);
    p.G = (int)d.G;
    p.Dg = (int)(d.D / d.G);
    p.blocks = (int)mba_ceil(p.Dg, width);
    p.sub_segments = 1;
    p.pack = (int)cut.pack;
    p.segments = (int)cut.segments;
    p.segment = (int)cut.segment;
    p.tiles = (int)cut.tiles;
    p.saved_every = TILE; // in scratch; outputs: set_saved_states()
    p.kept_states = p.padded;
    p.saved_rows = (int)mba_ceil(cut.segments > 1 ? d.L : cut.pack * d.L, TILE);
    p.tokens = d.B * d.L;
    p.items = items;
    p.aligned4_bc = d.N % 4 == 0 && vec_aligned<4>(p.B) && vec_aligned<4>(p.C);
    return p;
}

/* Sets where states are saved for the backward pass: output `kept` at `at`, or scratch if `kept` is NULL. */
template <typename T> static inline void set_saved_states(scan_operands<T> *p, const mba_tensor *kept, void *at)
{
    p->kept = (float *)at;
    if (!kept) return;
    p->saved_every = SAVE_EVERY;
    p->kept_states = p->N;
    p->saved_rows = (int)kept->type.dim[1];
}

/* Whether all rows of activations consist of whole, aligned vectors of V values. */
template <int V, typename T> static inline bool all_vec_aligned(const scan_operands<T> &p)
{
    return p.Dg % V == 0 && (uintptr_t)p.ys % (V * sizeof(T)) == 0 && vec_aligned<V>(p.u) && vec_aligned<V>(p.delta)
           && vec_aligned<V>(p.z) && vec_aligned<V>(p.dout) && vec_aligned<V>(p.out) && vec_aligned<V>(p.du)
           && vec_aligned<V>(p.ddelta) && vec_aligned<V>(p.dz);
}

/* The same for the backward pass, with its gradients. */
template <typename T>
static inline scan_operands<T> scan_bwd_operands_of(const mba_call *c, int64_t items, int64_t width)
{
    const mba_node  *n = c->node;
    const scan_dims  d = scan_dims_of(n);
    scan_operands<T> p = scan_operands_of<T>(c, items, width);
    p.dout = sequence_view_of<const T>(n->in[DOUT], c->in[DOUT], d.L, d.D);
    p.start_back = sequence_view_of<const float>(n->in[DFINAL], c->in[DFINAL], d.D, d.N);
    p.du = sequence_view_of<T>(n->out[DU], c->out[DU], d.L, d.D);
    p.ddelta = sequence_view_of<T>(n->out[DDELTA], c->out[DDELTA], d.L, d.D);
    p.dz = sequence_view_of<T>(n->out[DZ], c->out[DZ], d.L, d.D);
    p.dB = sequence_view_of<T>(n->out[DB], c->out[DB], d.L, d.G * d.N);
    p.dC = sequence_view_of<T>(n->out[DC], c->out[DC], d.L, d.G * d.N);
    p.dA_log = sequence_view_of<float>(n->out[DA_LOG], c->out[DA_LOG], d.D, d.N);
    p.dinitial = sequence_view_of<float>(n->out[DINITIAL], c->out[DINITIAL], d.D, d.N);
    p.dskip = (float *)(n->out[DSKIP] ? c->out[DSKIP] : NULL);
    p.dbias = (float *)(n->out[DDT_BIAS] ? c->out[DDT_BIAS] : NULL);
    p.bc = (float *)mba_cuda_scratch(c, CU_BC);
    p.sums = (float *)mba_cuda_scratch(c, CU_SUMS);
    p.adds = n->adds;
    return p;
}

/* ---- launches of selective_scan_cuda.cu that the backward pass uses. They begin with launch k of the plan and advance
 * k ---- */

/* Computes the states before every tile of every item, and y before the gate. */
template <typename T> mba_status scan_states(const mba_call *c, int *k, int64_t items, float *kept, T *ys);

/* Computes the initial state (back: adjoint) of every segment from what the segments before it (behind it) leave; `sub`
 * sub-segments each. Launch k. */
template <typename T> mba_status scan_starts(const mba_call *c, int k, scan_operands<T> *p, bool back, int sub);

/* Computes the initial state (back: adjoint) of every segment, if there are several. */
template <typename T> mba_status scan_carries(const mba_call *c, int *k, scan_operands<T> *p, bool back);

/* ---- `specialized` (selective_scan_specialized_cuda.cu) ---- */

/* Copies B and C to dense rows, to which p then points, if the plan has a launch for it: its first. */
mba_status scan_aligned_bc(const mba_call *c, int *k, scan_operands<bf16> *p);

/* ---- second stage of sums, for all variants (selective_scan_sums_cuda.cu): launches k and k + 1 of the plan ---- */

template <typename T> mba_status scan_sums(const mba_call *c, int k, const scan_operands<T> &p);

#endif
