/* residual_cuda.cu -- y = x + f gamma v, f per sample, gamma per channel, and its gradient.
 *
 *   x, v, y, dy, dv (R, C) fp32 or bf16     gamma, dgamma (C) fp32     f (samples) given, or drawn
 *
 * kernel     residual_rows     a thread takes 16 bytes of a row; a branch that is left out is not read
 * kernel     residual_sums     (column_parts) dgamma: V columns a thread, rows with a stride
 * launch     grid ceil(R C / V / 256), block 256; parts as planned in ops/columns.h
 * moves      forward and dv: each operand once; dgamma: dy and v once more
 * measured   none yet
 * order      fixed: rows of a part, threads of a block, parts */
#include "device/cuda/columns.cuh"
extern "C" {
#include "ops/residual/residual_slots.h"
}

struct chance { const float *given; double drop; uint64_t stream; int64_t rows; };

/* residual_draw of residual_slots.h: the same numbers. */
static __device__ __forceinline__ float factor(chance k, const mba_step *step, int64_t sample)
{
    if (k.given) return k.given[sample];
    if (k.drop == 0) return 1;
    uint32_t u[4];
    philox(u, step->seed ^ k.stream, mba_step_counter(step), (uint64_t)sample / 4);
    return (u[sample % 4] + 1.0) * (1.0 / 4294967296.0) <= k.drop ? 0.0f : (float)(1 / (1 - k.drop));
}

/* out = (base) + f gamma v; base is x forward, and what is there where dv adds. */
template <typename T, int V, bool BASE>
__global__ void __launch_bounds__(256)
residual_rows(window<T> out, window<const T> base, window<const T> v, const float *gamma, chance k, const mba_step *step, int64_t rows, int64_t cols)
{
    const int64_t i = ((int64_t)blockIdx.x * 256 + threadIdx.x) * V, r = i / cols, c = i % cols;
    if (r >= rows) return;
    const float f = factor(k, step, r / k.rows);
    float       y[V], branch[V];
#pragma unroll
    for (int j = 0; j < V; j++) y[j] = 0;
    if (BASE) load(y, base.row(r, cols) + c);
    if (f != 0) {
        load(branch, v.row(r, cols) + c);
#pragma unroll
        for (int j = 0; j < V; j++) y[j] += f * (gamma ? gamma[c + j] : 1.0f) * branch[j];
    }
    store(out.row(r, cols) + c, y);
}

template <typename T> struct residual_sums {
    enum { AT_ONCE = 4 };
    window<const T> dy, v;
    chance          k;
    const mba_step *step;
    int64_t         cols;
    template <int V> struct known {};
    template <int V> struct seen { float f; packed<T, V> a, b; };
    template <int V> __device__ void know(known<V> &, int64_t) const {}
    template <int V> __device__ void look(seen<V> &s, int64_t r, int64_t c, bool there) const
    {
        s.f = there ? factor(k, step, r / k.rows) : 0;
        fetch(s.a, dy.row(r, cols) + c, s.f != 0);
        fetch(s.b, v.row(r, cols) + c, s.f != 0);
    }
    template <int V> __device__ void add(float (&sum)[1][V], const seen<V> &s, const known<V> &) const
    {
        float a[V], b[V];
        unpack(a, s.a);
        unpack(b, s.b);
#pragma unroll
        for (int j = 0; j < V; j++) sum[0][j] += s.f * a[j] * b[j];
    }
};

struct keep_total {
    float *to;
    bool   adds;
    __device__ void operator()(int64_t column, const float (&total)[1], const mba_step *) const
    {
        to[column] = total[0] + (adds ? to[column] : 0);
    }
};

static chance chance_of(const mba_call *c, int slot)
{
    const residual_attr *a = (const residual_attr *)c->node->attr;
    const chance k = { (const float *)c->in[slot], a->drop, c->node->stream, a->rows };
    return k;
}

template <typename T, int V, bool BASE>
static mba_status rows(const mba_call *c, window<T> out, window<const T> base, window<const T> v, const float *gamma, chance k)
{
    const int64_t  R = mba_rows(c->node->out[0]), C = mba_cols(c->node->out[0]);
    const unsigned grid = (unsigned)mba_ceil(R * C, 256 * V);
    residual_rows<T, V, BASE><<<grid, 256, 0, mba_cuda_stream(c)>>>(out, base, v, gamma, k, c->step, R, C);
    return mba__cuda_launched(c, 0);
}

template <typename T, int V> static mba_status forward(const mba_call *c)
{
    const mba_node *n = c->node;
    return rows<T, V, true>(c, mba_window<T>(n->out[Y], c->out[Y]), mba_window<const T>(n->in[X], c->in[X]),
                            mba_window<const T>(n->in[BRANCH], c->in[BRANCH]), (const float *)c->in[GAMMA], chance_of(c, FACTOR));
}

template <typename T, int V> static mba_status backward(const mba_call *c)
{
    const mba_node        *n = c->node;
    const window<T>        dv = mba_window<T>(n->out[DV], c->out[DV]);
    const window<const T>  dy = mba_window<const T>(n->in[DY], c->in[DY]), was = { dv.at, dv.run, dv.pitch };
    const float           *gamma = (const float *)c->in[GAMMAB];
    const chance           k = chance_of(c, FACTORB);
    if (n->in[GAMMAB]) {                          // before dv, which may take the place of dy
        const residual_sums<T> f = { dy, mba_window<const T>(n->in[VB], c->in[VB]), k, c->step, mba_cols(n->in[DY]) };
        const keep_total       use = { (float *)c->out[DGAMMA], mba_adds(n, DGAMMA) };
        MBA_TRY((mba_column_sums<1, V>(c, 1, n->in[DY], f, use, (float *)mba_cuda_scratch(c, 0))));
    }
    return mba_adds(n, DV) ? rows<T, V, true>(c, dv, was, dy, gamma, k) : rows<T, V, false>(c, dv, was, dy, gamma, k);
}

/* The plan of the sums knows how many columns a thread takes; both launches go by it. */
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
