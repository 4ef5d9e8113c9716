// SPDX-License-Identifier: Apache-2.0
/* residual_cuda.cu -- y = x + f gamma v, f per sample, gamma per channel, and its gradient.
 *
 *   x, v, y, dy, dv (R, C) fp32 or bf16     gamma, dgamma (C) fp32     f (samples) given, or drawn
 *
 * kernel     residual_rows     a thread takes two vectors of 16 bytes of every operand, 256 vectors apart; a dropped
 *            branch is not read
 * kernel     residual_sums     (column_parts) the gradients if there is a gamma: V columns per thread, rows with a
 *            stride
 * launch     grid ceil(R C / V / 512), block 256; parts by ops/columns.h
 * moves      each operand once
 * in flight  5 blocks per SM, 256 threads, 4 vectors of 16 bytes: 82 KB; 4 TB/s for 0.7 us needs 22 KB
 * measured   H200: residual 25.9 us, 95 % of floor (memory), DRAM 66 % busy; mambavision-t, 128 images  [docs]
 *            not yet: residual_sums  [docs]
 * order      fixed: rows of a part, threads of a block, parts */
#include "device/cuda/columns.cuh"
#include "ops/map_rows.cuh"
extern "C" {
#include "ops/residual/residual_slots.h"
}

enum { RESIDUAL_DEPTH = 2 }; /* vectors per thread */

/* drop is a probability times 2^32, rounded down; keep is the factor of samples that are not dropped. */
struct chance {
    const float *given;
    uint64_t     drop;
    float        keep;
    uint64_t     stream;
    int64_t      rows;
};

/* residual_draw of residual_slots.h, with the same numbers. That function tests u + 1 <= p 2^32 in double, where both
 * are exact; this one tests u < drop in integers, because doubles and a division in every thread take 136 of 744
 * instructions of the backward kernel. */
static __device__ __forceinline__ float factor(chance k, const mba_step *step, int64_t sample)
{
    if (k.given) return k.given[sample];
    if (k.drop == 0) return 1;
    uint32_t u[4];
    philox(u, step->seed ^ k.stream, mba_step_counter(step), (uint64_t)sample / 4);
    const uint32_t mine = sample % 4 == 0   ? u[0]
                          : sample % 4 == 1 ? u[1]
                          : sample % 4 == 2 ? u[2]
                                            : u[3]; // no indexing, which would need local memory
    return mine < k.drop ? 0.0f : k.keep;
}

/* The sample of a row; a 64-bit division only if needed. */
static __device__ __forceinline__ int64_t sample_of(const chance &k, int64_t row)
{
    return (row | k.rows) >> 31 ? row / k.rows : (int64_t)((uint32_t)row / (uint32_t)k.rows);
}

/* out = (base) + f gamma v. base is x forward; backward it is the present dv if that adds. I holds the index of a
 * vector. */
template <typename T, typename I> struct residual_operands {
    map_view<T, I>       out;
    map_view<const T, I> base, v;
    const float         *gamma; // (C), or NULL
    chance               k;
    I                    vectors, per_row, rows; // rows: per sample
};

template <typename T, int V, bool BASE, typename I>
__global__ void __launch_bounds__(256) residual_rows(residual_operands<T, I> o, const mba_step *step)
{
    constexpr int D = RESIDUAL_DEPTH;
    const int64_t cols = (int64_t)o.per_row * V;
    I             row[D];
    int64_t       col[D];
    bool          there[D];
    float         f[D];
    packed<T, V>  base[D], branch[D];
#pragma unroll
    for (int d = 0; d < D; d++) { // the factors are drawn while the base is being loaded
        const I j = ((I)blockIdx.x * D + d) * 256 + threadIdx.x;
        there[d] = j < o.vectors;
        row[d] = there[d] ? j / o.per_row : 0;
        col[d] = there[d] ? (int64_t)(j - row[d] * o.per_row) * V : 0;
        if (BASE) fetch(base[d], o.base.row(row[d], cols) + col[d], there[d]);
    }
#pragma unroll
    for (int d = 0; d < D; d++) {
        const I sample = row[d] / o.rows;
        f[d] = d && sample == row[d - (d > 0)] / o.rows ? f[d - (d > 0)] : factor(o.k, step, (int64_t)sample);
        fetch(branch[d], o.v.row(row[d], cols) + col[d], there[d] && f[d] != 0);
    }
#pragma unroll
    for (int d = 0; d < D; d++) {
        if (!there[d]) continue;
        float y[V], b[V], g[V];
        if (BASE) unpack(y, base[d]);
        unpack(b, branch[d]);
        if (o.gamma) load_weights(g, o.gamma + col[d]);
#pragma unroll
        for (int j = 0; j < V; j++) {
            const float add = f[d] * (o.gamma ? g[j] : 1.0f) * b[j];
            y[j] = (BASE ? y[j] : 0) + (f[d] != 0 ? add : 0);
        }
        store(o.out.row(row[d], cols) + col[d], y);
    }
}

/* dgamma and dv in one pass: a thread owns columns and loops over the rows. dv may share the memory of dy, whose rows
 * are read before. */
template <typename T, bool ADDS> struct residual_sums {
    enum { AT_ONCE = 4 };
    strided_view<const T> dy, v;
    strided_view<T>       dv;
    const float          *gamma;
    chance                k;
    const mba_step       *step;
    int64_t               cols;
    mutable int64_t       sample; // the sample whose factor was drawn last (-1: none); a thread has rows of few samples
    mutable float         drawn;
    template <int V> struct column_regs {
        float gamma[V];
    };
    template <int V> struct row_regs {
        float        f;
        T           *to;
        packed<T, V> a, b, old;
    };
    template <int V> __device__ void load_columns(column_regs<V> &o, int64_t c) const
    {
        load_weights(o.gamma, gamma + c);
    }
    template <int V> __device__ void load_row(row_regs<V> &s, int64_t r, int64_t c, bool there) const
    {
        s.to = mba_column_row<V>(dv, r, cols) + c;
        if (ADDS) fetch(s.old, (const T *)s.to, there); // loaded while the factor is drawn
        const int64_t now = there ? sample_of(k, r) : sample;
        if (now != sample) drawn = factor(k, step, now);
        sample = now;
        s.f = there ? drawn : 0;
        fetch(s.a, mba_column_row<V>(dy, r, cols) + c, s.f != 0);
        fetch(s.b, mba_column_row<V>(v, r, cols) + c, s.f != 0);
    }
    template <int V> __device__ void add(float (&sum)[1][V], const row_regs<V> &s, const column_regs<V> &o) const
    {
        float a[V], b[V], d[V];
        unpack(a, s.a);
        unpack(b, s.b);
        if (ADDS) unpack(d, s.old);
#pragma unroll
        for (int j = 0; j < V; j++) {
            sum[0][j] += s.f * a[j] * b[j];
            d[j] = (ADDS ? d[j] : 0) + (s.f != 0 ? s.f * o.gamma[j] * a[j] : 0);
        }
        store(s.to, d);
    }
};

static chance chance_of(const mba_call *c, int slot)
{
    const residual_attr *a = (const residual_attr *)c->node->attr;
    const chance k = { (const float *)c->in[slot], (uint64_t)(a->drop * 4294967296.0), (float)(1 / (1 - a->drop)),
                       c->node->stream, a->rows };
    return k;
}

/* Tensors and addresses of out, base and v; base is out itself if it adds. */
struct residual_places {
    const mba_tensor *out, *base, *v;
    void             *to;
    const void       *from, *branch;
};

template <typename T, int V, bool BASE, typename I>
static mba_status rows(const mba_call *c, residual_places p, const float *gamma, chance k)
{
    const int64_t           per_row = mba_cols(p.out) / V, vectors = mba_rows(p.out) * per_row;
    residual_operands<T, I> o = {};
    o.out = mba__map_view<T, I>(p.out, p.to);
    if (BASE) o.base = mba__map_view<const T, I>(p.base, (void *)p.from);
    o.v = mba__map_view<const T, I>(p.v, (void *)p.branch);
    o.gamma = gamma;
    o.k = k;
    o.vectors = (I)vectors;
    o.per_row = (I)per_row;
    o.rows = (I)k.rows;
    residual_rows<T, V, BASE, I>
        <<<(unsigned)mba_ceil(vectors, 256 * RESIDUAL_DEPTH), 256, 0, mba_cuda_stream(c)>>>(o, c->step);
    return mba__cuda_launch_check(c, 0);
}

template <typename T, int V, bool BASE>
static mba_status rows_far(const mba_call *c, residual_places p, const float *gamma, chance k)
{
    return mba_elems(p.out) < INT64_C(1) << 31 ? rows<T, V, BASE, uint32_t>(c, p, gamma, k)
                                               : rows<T, V, BASE, uint64_t>(c, p, gamma, k);
}

template <typename T, int V> static mba_status forward(const mba_call *c)
{
    const mba_node       *n = c->node;
    const residual_places p = { n->out[Y], n->in[X], n->in[BRANCH], c->out[Y], c->in[X], c->in[BRANCH] };
    return rows_far<T, V, true>(c, p, (const float *)c->in[GAMMA], chance_of(c, FACTOR));
}

/* With gamma (layer scale): dv and dgamma together. */
template <typename T, int V, bool ADDS> static mba_status scaled(const mba_call *c, chance k)
{
    const mba_node              *n = c->node;
    const residual_sums<T, ADDS> f = { mba_strided_view<const T>(n->in[DY], c->in[DY]),
                                       mba_strided_view<const T>(n->in[VB], c->in[VB]),
                                       mba_strided_view<T>(n->out[DV], c->out[DV]),
                                       (const float *)c->in[GAMMAB],
                                       k,
                                       c->step,
                                       mba_cols(n->in[DY]),
                                       -1,
                                       0 };
    const keep_total             use = { (float *)c->out[DGAMMA], mba_adds(n, DGAMMA) };
    return mba_column_sums<1, V>(c, 0, n->in[DY], f, use, (float *)mba_cuda_scratch(c, 0));
}

template <typename T, int V> static mba_status backward(const mba_call *c)
{
    const mba_node       *n = c->node;
    const residual_places p = { n->out[DV], n->out[DV], n->in[DY], c->out[DV], c->out[DV], c->in[DY] };
    const chance          k = chance_of(c, FACTORB);
    if (n->in[GAMMAB]) return mba_adds(n, DV) ? scaled<T, V, true>(c, k) : scaled<T, V, false>(c, k);
    return mba_adds(n, DV) ? rows_far<T, V, true>(c, p, NULL, k) : rows_far<T, V, false>(c, p, NULL, k);
}

/* The number of columns per thread is that of the plan. */
extern "C" mba_status residual_cuda(const mba_call *c)
{
    const int V = residual_columns(c->node);
    MBA_WITH_DTYPE(c->node->out[Y]->type.dtype, T, return V > 1 ? forward<T, 16 / sizeof(T)>(c) : forward<T, 1>(c));
}

extern "C" mba_status residual_bwd_cuda(const mba_call *c)
{
    const int V = residual_columns(c->node);
    MBA_WITH_DTYPE(c->node->in[DY]->type.dtype, T, return V > 1 ? backward<T, 16 / sizeof(T)>(c) : backward<T, 1>(c));
}
