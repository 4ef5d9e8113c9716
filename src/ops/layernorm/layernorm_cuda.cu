/* layernorm_cuda.cu -- y = (x - mean) rstd w + b over the last axis, and its gradients.
 *
 *   x, y, dy, dx (R, C) fp32 or bf16     w, b, dw, db (C), mean, rstd (R) fp32
 *
 * kernel     layernorm_rows      one warp per row, 16 bytes a lane; the row is read for its mean, for its variance and for y,
 *                                from L1 after the first time
 * kernel     layernorm_dx        one warp per row; two sums, then dx
 * kernel     layernorm_sums      (column_parts) dw and db: V columns a thread, rows with a stride
 * takes      everything; one value a lane where rows are not whole 16-byte pieces
 * launch     grid ceil(R / 8), block 256; parts as planned in ops/columns.h
 * moves      forward: x once, y once; backward: x and dy twice, dx once
 * measured   none yet
 * order      fixed: lanes, then rows of a part, threads of a block, parts */
#include "device/cuda/columns.cuh"
extern "C" {
#include "ops/layernorm/layernorm_slots.h"
}

template <typename T, int V>
__global__ void __launch_bounds__(256)
layernorm_rows(window<T> y, float *mean, float *rstd, window<const T> x, const float *w, const float *b, int64_t rows, int64_t cols, float eps)
{
    const int64_t r = (int64_t)blockIdx.x * 8 + threadIdx.x / 32;
    const int     lane = threadIdx.x % 32;
    if (r >= rows) return;                        // the whole warp leaves together
    const T *from = x.row(r, cols);
    T       *to   = y.row(r, cols);
    float    v[V], sum = 0, squares = 0;
    for (int64_t c = lane * V; c < cols; c += 32 * V) {
        load(v, from + c);
#pragma unroll
        for (int k = 0; k < V; k++) sum += v[k];
    }
    const float m = warp_sum(sum) / (float)cols;
    for (int64_t c = lane * V; c < cols; c += 32 * V) {
        load(v, from + c);
#pragma unroll
        for (int k = 0; k < V; k++) squares += (v[k] - m) * (v[k] - m);
    }
    const float s = rsqrtf(warp_sum(squares) / (float)cols + eps);
    if (lane == 0) { mean[r] = m; rstd[r] = s; }
    for (int64_t c = lane * V; c < cols; c += 32 * V) {
        load(v, from + c);
#pragma unroll
        for (int k = 0; k < V; k++) v[k] = (v[k] - m) * s * w[c + k] + b[c + k];
        store(to + c, v);
    }
}

template <typename T, int V, bool ADDS>
__global__ void __launch_bounds__(256)
layernorm_dx(window<T> dx, window<const T> dy, window<const T> x, const float *w, const float *mean, const float *rstd, int64_t rows, int64_t cols)
{
    const int64_t r = (int64_t)blockIdx.x * 8 + threadIdx.x / 32;
    const int     lane = threadIdx.x % 32;
    if (r >= rows) return;
    const T    *gy = dy.row(r, cols), *gx = x.row(r, cols);
    T          *to = dx.row(r, cols);
    const float m = mean[r], s = rstd[r];
    float       a[V], h[V], old[V], m1 = 0, m2 = 0;
    for (int64_t c = lane * V; c < cols; c += 32 * V) {
        load(a, gy + c);
        load(h, gx + c);
#pragma unroll
        for (int k = 0; k < V; k++) {
            m1 += w[c + k] * a[k];
            m2 += w[c + k] * a[k] * (h[k] - m) * s;
        }
    }
    m1 = warp_sum(m1) / (float)cols;
    m2 = warp_sum(m2) / (float)cols;
    for (int64_t c = lane * V; c < cols; c += 32 * V) {
        load(a, gy + c);
        load(h, gx + c);
        if (ADDS) load(old, to + c);
#pragma unroll
        for (int k = 0; k < V; k++) a[k] = s * (w[c + k] * a[k] - m1 - (h[k] - m) * s * m2) + (ADDS ? old[k] : 0);
        store(to + c, a);
    }
}

template <typename T> struct layernorm_sums {
    enum { AT_ONCE = 4 };
    window<const T> dy, x;
    const float    *mean, *rstd;
    int64_t         cols;
    template <int V> struct known {};
    template <int V> struct seen { packed<T, V> dy, x; float mean, rstd; };
    template <int V> __device__ void know(known<V> &, int64_t) const {}
    template <int V> __device__ void look(seen<V> &s, int64_t r, int64_t c, bool there) const
    {
        fetch(s.dy, dy.row(r, cols) + c, there);
        fetch(s.x, x.row(r, cols) + c, there);
        s.mean = there ? mean[r] : 0;
        s.rstd = there ? rstd[r] : 0;
    }
    template <int V> __device__ void add(float (&sum)[2][V], const seen<V> &s, const known<V> &) const
    {
        float a[V], h[V];
        unpack(a, s.dy);
        unpack(h, s.x);
#pragma unroll
        for (int k = 0; k < V; k++) {
            sum[0][k] += a[k] * (h[k] - s.mean) * s.rstd;
            sum[1][k] += a[k];
        }
    }
};

struct keep_totals {
    float *dw, *db;
    bool   adds_w, adds_b;
    __device__ void operator()(int64_t i, const float (&total)[2], const mba_step *) const
    {
        dw[i] = total[0] + (adds_w ? dw[i] : 0);
        db[i] = total[1] + (adds_b ? db[i] : 0);
    }
};

template <typename T, int V> static mba_status forward(const mba_call *c)
{
    const mba_node *n = c->node;
    MBA_KERNEL(c, 0, (layernorm_rows<T, V>), mba_window<T>(n->out[Y], c->out[Y]), (float *)c->out[MEAN], (float *)c->out[RSTD],
               mba_window<const T>(n->in[X], c->in[X]), (const float *)c->in[W], (const float *)c->in[B], mba_rows(n->in[X]), mba_cols(n->in[X]),
               ((const layernorm_attr *)n->attr)->eps);
    return MBA_OK;
}

template <typename T, int V> static mba_status backward(const mba_call *c)
{
    const mba_node         *n = c->node;
    const window<const T>   dy = mba_window<const T>(n->in[DY], c->in[DY]), x = mba_window<const T>(n->in[XB], c->in[XB]);
    const layernorm_sums<T> f = { dy, x, (const float *)c->in[MEANB], (const float *)c->in[RSTDB], mba_cols(n->in[XB]) };
    const keep_totals       use = { (float *)c->out[DW], (float *)c->out[DB], mba_adds(n, DW), mba_adds(n, DB) };
    MBA_TRY((mba_column_sums<2, V>(c, 0, n->in[XB], f, use, (float *)mba_cuda_scratch(c, 0))));      // before dx, which may lie in dy
    MBA_WITH_BOOL(mba_adds(n, DX), ADDS,
        MBA_KERNEL(c, 2, (layernorm_dx<T, V, ADDS>), mba_window<T>(n->out[DX], c->out[DX]), dy, x, (const float *)c->in[WB], f.mean, f.rstd,
                   mba_rows(n->in[XB]), mba_cols(n->in[XB])));
    return MBA_OK;
}

extern "C" mba_status layernorm_cuda(const mba_call *c)
{
    MBA_WITH_DTYPE(c->node->in[X]->type.dtype, T,
        return layernorm_columns(c->node->in[X], c->node->out[Y]) > 1 ? forward<T, 16 / sizeof(T)>(c) : forward<T, 1>(c));
}

extern "C" mba_status layernorm_bwd_cuda(const mba_call *c)
{
    const mba_node *n = c->node;
    const bool      wide = layernorm_columns(n->in[DY], n->in[XB]) > 1 && layernorm_columns(n->in[XB], n->out[DX]) > 1;
    MBA_WITH_DTYPE(n->in[XB]->type.dtype, T, return wide ? backward<T, 16 / sizeof(T)>(c) : backward<T, 1>(c));
}
