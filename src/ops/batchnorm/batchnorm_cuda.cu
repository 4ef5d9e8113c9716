/* batchnorm_cuda.cu -- statistics over rows, y = (x - mean) rstd w + b per channel (ReLU in the same pass), the gradients.
 *
 *   x, y, dy, dx (R, C) fp32 or bf16     w, b, mean, var, running statistics, dw, db (C) fp32
 *
 * kernel     batchnorm_sums        (column_parts) sums of x - x[0] and of its square: a shift by a value of the column itself
 *                                  keeps the difference of the two from cancelling
 * kernel     batchnorm_rows        a thread owns V columns and walks down the rows; per-column numbers stay in registers
 * kernel     batchnorm_bwd_sums    (column_parts) sums of g and of g h
 * kernel     batchnorm_dx          as batchnorm_rows
 * takes      everything; one column a thread where rows are not whole 16-byte pieces
 * launch     grid (parts of the rows, ceil(C / V / 256)), block 256
 * moves      statistics: x once; y: x and y once; backward: x and dy twice, dx once
 * measured   none yet
 * order      fixed: rows of a part, threads of a block, parts
 *
 * Rows beyond the count of a ragged batch are left out of sums and written as zeros. */
#include "device/cuda/columns.cuh"
extern "C" {
#include "ops/batchnorm/batchnorm_slots.h"
}

/* Rows that are real, as the step says. */
struct extent { int64_t rows, inner; mba_count kind; };

static extent extent_of(const mba_tensor *t)
{
    const extent e = { mba_rows(t), t->type.rank > 1 ? mba_rows(t) / t->type.dim[0] : 1, t->type.count };
    return e;
}

static __device__ __forceinline__ int64_t real_rows(extent e, const mba_step *step)
{
    return mba_step_rows(step, e.kind, e.rows / e.inner) * e.inner;
}

/* ---- statistics ---- */

template <typename T> struct batchnorm_sums {
    window<const T> x;
    int64_t         cols;
    template <int V> __device__ void add(float (&sum)[2][V], int64_t r, int64_t c) const
    {
        float v[V], first[V];
        load(first, x.row(0, cols) + c);          // from L1: the same for every row
        load(v, x.row(r, cols) + c);
#pragma unroll
        for (int k = 0; k < V; k++) {
            const float d = v[k] - first[k];
            sum[0][k] += d;
            sum[1][k] += d * d;
        }
    }
};

template <typename T> struct keep_statistics {
    window<const T> x;
    float          *mean, *var, *running_mean, *running_var, momentum;
    extent          e;
    __device__ void operator()(int64_t i, const float (&total)[2], const mba_step *step) const
    {
        const int64_t M = real_rows(e, step);
        if (M == 0) { mean[i] = var[i] = 0; return; }
        const float n = (float)M, d = total[0] / n, v = fmaxf(total[1] / n - d * d, 0.0f), m = to_float(x.at[i]) + d;
        mean[i] = m;
        var[i]  = v;
        running_mean[i] += momentum * (m - running_mean[i]);
        running_var[i]  += momentum * (v * (M > 1 ? n / (n - 1) : 1) - running_var[i]);
    }
};

template <typename T, int V> static mba_status statistics(const mba_call *c)
{
    const mba_node          *n = c->node;
    const window<const T>    x = mba_window<const T>(n->in[SX], c->in[SX]);
    const batchnorm_sums<T>  f = { x, mba_cols(n->in[SX]) };
    const keep_statistics<T> use = { x, (float *)c->out[SMEAN], (float *)c->out[SVAR], (float *)c->out[RMEANO], (float *)c->out[RVARO],
                                     (float)((const batchnorm_stats_attr *)n->attr)->momentum, extent_of(n->in[SX]) };
    return mba_column_sums<2, V>(c, 0, n->in[SX], f, use, (float *)mba_cuda_scratch(c, 0));
}

/* ---- the norm ---- */

template <typename T, int V, bool RELU>
__global__ void __launch_bounds__(COLUMN_THREADS, 2)
batchnorm_rows(window<T> y, window<const T> x, const float *w, const float *b, const float *mean, const float *var, float eps, int64_t cols,
               int64_t per_part, extent e, const mba_step *step)
{
    const column_share<V> s = mba_column_share<V>(cols);
    const int64_t real = real_rows(e, step), from = (int64_t)blockIdx.x * per_part, end = from + per_part < e.rows ? from + per_part : e.rows;
    float         m[V], f[V], t[V], v[V];
    if (!s.active) return;
#pragma unroll
    for (int k = 0; k < V; k++) {
        m[k] = mean[s.column + k];
        f[k] = w[s.column + k] * rsqrtf(var[s.column + k] + eps);
        t[k] = b[s.column + k];
    }
    for (int64_t r = from + s.row; r < end; r += s.rows) {
        load(v, x.row(r, cols) + s.column);
#pragma unroll
        for (int k = 0; k < V; k++) {
            v[k] = (v[k] - m[k]) * f[k] + t[k];
            if (RELU) v[k] = fmaxf(v[k], 0.0f);
            if (r >= real) v[k] = 0;
        }
        store(y.row(r, cols) + s.column, v);
    }
}

template <typename T, int V> static mba_status forward(const mba_call *c)
{
    const mba_node       *n = c->node;
    const batchnorm_attr *a = (const batchnorm_attr *)n->attr;
    const int64_t         per_part = mba_ceil(mba_rows(n->in[X]), c->plan->launch[0].grid[0]);
    MBA_WITH_BOOL(a->relu, RELU,
        MBA_KERNEL(c, 0, (batchnorm_rows<T, V, RELU>), mba_window<T>(n->out[Y], c->out[Y]), mba_window<const T>(n->in[X], c->in[X]),
                   (const float *)c->in[W], (const float *)c->in[B], (const float *)c->in[MEAN], (const float *)c->in[VAR], (float)a->eps,
                   mba_cols(n->in[X]), per_part, extent_of(n->in[X]), c->step));
    return MBA_OK;
}

/* ---- the gradients ---- */

struct channel { const float *w, *b, *mean, *var; float eps; };

/* h and g of one value: the normalised input, and what of dy gets through the ReLU. */
template <bool RELU> static __device__ __forceinline__ void parts_of(float *h, float *g, float x, float dy, float m, float rstd, float w, float b)
{
    *h = (x - m) * rstd;
    *g = RELU && *h * w + b <= 0 ? 0 : dy;
}

template <typename T, bool RELU> struct batchnorm_bwd_sums {
    window<const T> dy, x;
    channel         k;
    int64_t         cols;
    template <int V> __device__ void add(float (&sum)[2][V], int64_t r, int64_t c) const
    {
        float a[V], v[V], h, g;
        load(a, dy.row(r, cols) + c);
        load(v, x.row(r, cols) + c);
#pragma unroll
        for (int j = 0; j < V; j++) {
            parts_of<RELU>(&h, &g, v[j], a[j], k.mean[c + j], rsqrtf(k.var[c + j] + k.eps), RELU ? k.w[c + j] : 0, RELU ? k.b[c + j] : 0);
            sum[0][j] += g * h;
            sum[1][j] += g;
        }
    }
};

struct keep_totals {
    float  *dw, *db, *totals;
    int64_t cols;
    bool    adds_w, adds_b;
    __device__ void operator()(int64_t i, const float (&total)[2], const mba_step *) const
    {
        totals[i]        = total[0];
        totals[cols + i] = total[1];
        dw[i] = total[0] + (adds_w ? dw[i] : 0);
        db[i] = total[1] + (adds_b ? db[i] : 0);
    }
};

template <typename T, int V, bool RELU, bool ADDS>
__global__ void __launch_bounds__(COLUMN_THREADS, 2)
batchnorm_dx(window<T> dx, window<const T> dy, window<const T> x, channel k, const float *totals, bool train, int64_t cols, int64_t per_part, extent e,
             const mba_step *step)
{
    const column_share<V> s = mba_column_share<V>(cols);
    const int64_t real = real_rows(e, step), from = (int64_t)blockIdx.x * per_part, end = from + per_part < e.rows ? from + per_part : e.rows;
    float         m[V], rstd[V], dw[V], db[V], a[V], v[V], old[V], h, g;
    if (!s.active) return;
    const float share = train && real > 0 ? 1 / (float)real : 0;
#pragma unroll
    for (int j = 0; j < V; j++) {
        m[j]    = k.mean[s.column + j];
        rstd[j] = rsqrtf(k.var[s.column + j] + k.eps);
        dw[j]   = totals[s.column + j] * share;
        db[j]   = totals[cols + s.column + j] * share;
    }
    for (int64_t r = from + s.row; r < end; r += s.rows) {
        load(a, dy.row(r, cols) + s.column);
        load(v, x.row(r, cols) + s.column);
        if (ADDS) load(old, dx.row(r, cols) + s.column);
#pragma unroll
        for (int j = 0; j < V; j++) {
            const float w = k.w[s.column + j];
            parts_of<RELU>(&h, &g, v[j], a[j], m[j], rstd[j], w, RELU ? k.b[s.column + j] : 0);
            a[j] = (r < real ? w * rstd[j] * (g - db[j] - h * dw[j]) : 0) + (ADDS ? old[j] : 0);
        }
        store(dx.row(r, cols) + s.column, a);
    }
}

template <typename T, int V, bool RELU> static mba_status backward(const mba_call *c)
{
    const mba_node       *n = c->node;
    const batchnorm_attr *t = (const batchnorm_attr *)n->attr;
    const int64_t         cols = mba_cols(n->in[XB]);
    float                *totals = (float *)mba_cuda_scratch(c, 1);
    const window<const T> dy = mba_window<const T>(n->in[DY], c->in[DY]), x = mba_window<const T>(n->in[XB], c->in[XB]);
    const channel         k = { (const float *)c->in[WB], (const float *)c->in[BB], (const float *)c->in[MEANB], (const float *)c->in[VARB], (float)t->eps };
    const batchnorm_bwd_sums<T, RELU> f = { dy, x, k, cols };
    const keep_totals     use = { (float *)c->out[DW], (float *)c->out[DB], totals, cols, mba_adds(n, DW), mba_adds(n, DB) };
    MBA_TRY((mba_column_sums<2, V>(c, 0, n->in[XB], f, use, (float *)mba_cuda_scratch(c, 0))));
    const int64_t per_part = mba_ceil(mba_rows(n->in[XB]), c->plan->launch[2].grid[0]);
    MBA_WITH_BOOL(mba_adds(n, DX), ADDS,
        MBA_KERNEL(c, 2, (batchnorm_dx<T, V, RELU, ADDS>), mba_window<T>(n->out[DX], c->out[DX]), dy, x, k, totals, t->train != 0, cols, per_part,
                   extent_of(n->in[XB]), c->step));
    return MBA_OK;
}

extern "C" mba_status batchnorm_stats_cuda(const mba_call *c)
{
    const bool wide = batchnorm_columns(c->node->in[SX], NULL, NULL) > 1;
    MBA_WITH_DTYPE(c->node->in[SX]->type.dtype, T, return wide ? statistics<T, 16 / sizeof(T)>(c) : statistics<T, 1>(c));
}

extern "C" mba_status batchnorm_cuda(const mba_call *c)
{
    const bool wide = batchnorm_columns(c->node->in[X], c->node->out[Y], NULL) > 1;
    MBA_WITH_DTYPE(c->node->in[X]->type.dtype, T, return wide ? forward<T, 16 / sizeof(T)>(c) : forward<T, 1>(c));
}

extern "C" mba_status batchnorm_bwd_cuda(const mba_call *c)
{
    const mba_node *n = c->node;
    const bool      wide = batchnorm_columns(n->in[XB], n->in[DY], n->out[DX]) > 1;
    MBA_WITH_BOOL(((const batchnorm_attr *)n->attr)->relu, RELU, MBA_WITH_DTYPE(n->in[XB]->type.dtype, T,
        if (wide) return backward<T, 16 / sizeof(T), RELU>(c);
        else      return backward<T, 1, RELU>(c)));
}
