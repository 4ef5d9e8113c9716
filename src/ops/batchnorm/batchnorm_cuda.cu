// SPDX-License-Identifier: Apache-2.0
/* batchnorm_cuda.cu -- statistics over rows, y = (x - mean) rstd w + b per channel (with ReLU in the same pass), and
 * the gradients.
 *
 *   x, y, dy, dx (R, C) fp32 or bf16     w, b, mean, var, running statistics, dw, db (C) fp32
 *
 * kernel     batchnorm_sums        (column_parts) sums of x - x[0] and of its square: the shift by a value of the
 *                                  column avoids cancellation in the variance
 * kernel     batchnorm_rows        a thread owns V columns and loops over the rows; per-column values stay in registers
 * kernel     batchnorm_bwd_sums    (column_parts) sums of g and of g h
 * kernel     batchnorm_dx          as batchnorm_rows
 * takes      everything; one column per thread where rows are not whole 16-byte vectors
 * launch     grid (parts of the rows, ceil(C / V / 256)), block 256
 * resources  sm_90a, CUDA 13.0: batchnorm_sums 58 to 86 registers, 1024 to 8192 B of shared memory, no spill  [docs]
 *            batchnorm_rows 48 to 69 registers, no spill  [docs]
 *            batchnorm_bwd_sums 52 to 101 registers, 1024 to 8192 B of shared memory, no spill  [docs]
 *            batchnorm_dx 56 to 112 registers, no spill  [docs]
 * moves      statistics: x once; y: x and y once; backward: x and dy twice, dx once
 * in flight  4 TB/s for 0.7 us is 22 KB per SM. 512 threads with the loads of 4 rows (statistics: 8) in flight have
 *            33 to 66 KB
 * in L2      the preceding kernel reads x (backward: x and dy): rows and dx begin with what it read last
 * measured   H200: batchnorm_sums 4.06 us, 22 % of floor (memory), ALU 22 % busy;  [docs]
 *              graphmamba-peptides-func, 128 graphs  [docs]
 *            batchnorm_rows 15.7 us, 104 % of floor (memory), DRAM 53 % busy; mambavision-t, 128 images  [docs]
 *            batchnorm_bwd_sums 19.5 us, 84 % of floor (memory), DRAM 69 % busy; mambavision-t, 128 images  [docs]
 *            batchnorm_dx 23.2 us, 105 % of floor (memory), DRAM 50 % busy; mambavision-t, 128 images  [docs]
 * order      fixed: rows of a part, threads of a block, parts
 *
 * Sums ignore rows beyond the count of a ragged batch; outputs there are zeros. */
#include "device/cuda/columns.cuh"
extern "C" {
#include "ops/batchnorm/batchnorm_slots.h"
}

/* Gives the number of valid rows in a step. */
struct extent {
    int64_t   rows, inner;
    mba_count kind;
};

static extent extent_of(const mba_tensor *t)
{
    const extent e = { mba_rows(t), t->type.rank > 1 ? mba_rows(t) / t->type.dim[0] : 1, t->type.count };
    return e;
}

static __device__ __forceinline__ int64_t real_rows(extent e, const mba_step *step)
{
    return mba_column_rows(step, e.kind, e.rows, e.inner);
}

/* ---- statistics ---- */

template <typename T> struct batchnorm_sums {
    enum { AT_ONCE = 8 };
    strided_view<const T> x;
    int64_t               cols;
    template <int V> struct column_regs {
        float first[V];
    };
    template <int V> using row_regs = packed<T, V>;
    template <int V> __device__ void load_columns(column_regs<V> &k, int64_t c) const
    {
        load(k.first, x.row(0, cols) + c);
    }
    template <int V> __device__ void load_row(packed<T, V> &s, int64_t r, int64_t c, bool there) const
    {
        fetch(s, mba_column_row<V>(x, r, cols) + c, there);
    }
    template <int V> __device__ void add(float (&sum)[2][V], const packed<T, V> &s, const column_regs<V> &k) const
    {
        float v[V];
        unpack(v, s);
#pragma unroll
        for (int j = 0; j < V; j++) {
            const float d = v[j] - k.first[j];
            sum[0][j] += d;
            sum[1][j] = fmaf(d, d, sum[1][j]);
        }
    }
};

template <typename T> struct keep_statistics {
    strided_view<const T> x;
    float                *mean, *var, *running_mean, *running_var, momentum;
    extent                e;
    __device__ void       operator()(int64_t i, const float (&total)[2], const mba_step *step) const
    {
        const float first = to_float(x.at[i]), old_mean = running_mean[i],
                    old_var = running_var[i]; // all loads before the first use
        const int64_t M = real_rows(e, step);
        if (M == 0) {
            mean[i] = var[i] = 0;
            return;
        }
        const float n = (float)M, d = total[0] / n, v = fmaxf(total[1] / n - d * d, 0.0f), m = first + d;
        mean[i] = m;
        var[i] = v;
        if (!isfinite(m) || !isfinite(v)) return;
        running_mean[i] = old_mean + momentum * (m - old_mean);
        running_var[i] = old_var + momentum * (v * (M > 1 ? n / (n - 1) : 1) - old_var);
    }
};

template <typename T, int V> static mba_status statistics(const mba_call *c)
{
    const mba_node             *n = c->node;
    const strided_view<const T> x = mba_strided_view<const T>(n->in[SX], c->in[SX]);
    const batchnorm_sums<T>     f = { x, mba_cols(n->in[SX]) };
    const keep_statistics<T>    use = { x,
                                        (float *)c->out[SMEAN],
                                        (float *)c->out[SVAR],
                                        (float *)c->out[RMEANO],
                                        (float *)c->out[RVARO],
                                        (float)((const batchnorm_stats_attr *)n->attr)->momentum,
                                        extent_of(n->in[SX]) };
    return mba_column_sums<2, V>(c, 0, n->in[SX], f, use, (float *)mba_cuda_scratch(c, 0));
}

/* ---- the norm ---- */

/* Returns the part of the rows that a block takes. The kernel of the sums reads the same rows just before: each of its
 * blocks reads one of BATCHNORM_SUM_PARTS parts from beginning to end, so the ends are still in L2. Blocks take the
 * ends first, then what precedes them. */
static __device__ __forceinline__ int64_t part_of_block()
{
    const int block = blockIdx.x, rounds = gridDim.x / BATCHNORM_SUM_PARTS;
    if (rounds * BATCHNORM_SUM_PARTS != gridDim.x) return block;
    const int round = block / BATCHNORM_SUM_PARTS;
    return (int64_t)(block - round * BATCHNORM_SUM_PARTS) * rounds + (rounds - 1 - round);
}

template <typename T, int V, bool RELU>
__global__ void __launch_bounds__(COLUMN_THREADS, 3)
    batchnorm_rows(strided_view<T> y, strided_view<const T> x, const float *w, const float *b, const float *mean,
                   const float *var, float eps, int64_t cols, int64_t per_part, extent e, const mba_step *step)
{
    constexpr int         U = 4;
    const column_share<V> s = mba_column_share<V>(cols);
    const int64_t         real = real_rows(e, step), from = part_of_block() * per_part;
    const int64_t         end = from + per_part < e.rows ? from + per_part : e.rows;
    float                 m[V], f[V], t[V], v[V];
    packed<T, V>          row_regs[U];
    const auto            ask = [&](int64_t r) {
#pragma unroll
        for (int u = 0; u < U; u++)
            fetch(row_regs[u], mba_column_row<V>(x, r + u * s.rows, cols) + s.column, r + u * s.rows < end);
    };
    if (!s.active) return;
    ask(from + s.row); // the first rows, together with the values of the columns: one latency
    load_weights(m, mean + s.column);
    load_weights(f, w + s.column);
    load_weights(v, var + s.column);
    load_weights(t, b + s.column);
#pragma unroll
    for (int k = 0; k < V; k++) f[k] *= rsqrtf(v[k] + eps);
    for (int64_t r = from + s.row; r < end; ask(r += U * s.rows)) {
#pragma unroll
        for (int u = 0; u < U; u++) {
            const int64_t i = r + u * s.rows;
            if (i >= end) break;
            unpack(v, row_regs[u]);
#pragma unroll
            for (int k = 0; k < V; k++) {
                v[k] = (v[k] - m[k]) * f[k] + t[k];
                if (RELU) v[k] = fmaxf(v[k], 0.0f);
                if (i >= real) v[k] = 0;
            }
            store(mba_column_row<V>(y, i, cols) + s.column, v);
        }
    }
}

template <typename T, int V> static mba_status forward(const mba_call *c)
{
    const mba_node       *n = c->node;
    const batchnorm_attr *a = (const batchnorm_attr *)n->attr;
    const int64_t         per_part = mba_ceil(mba_rows(n->in[X]), c->plan->launch[0].grid[0]);
    MBA_WITH_BOOL(a->relu, RELU,
                  MBA_KERNEL(c, 0, (batchnorm_rows<T, V, RELU>), mba_strided_view<T>(n->out[Y], c->out[Y]),
                             mba_strided_view<const T>(n->in[X], c->in[X]), (const float *)c->in[W],
                             (const float *)c->in[B], (const float *)c->in[MEAN], (const float *)c->in[VAR],
                             (float)a->eps, mba_cols(n->in[X]), per_part, extent_of(n->in[X]), c->step));
    return MBA_OK;
}

/* ---- the gradients ---- */

struct channel {
    const float *w, *b, *mean, *var;
    float        eps;
};

/* Per column: mean, w rstd and b. The ReLU passes dy where (x - mean) w rstd + b > 0, the comparison of the forward
 * pass. */
template <int V, bool RELU> struct gate {
    float                           m[V], f[RELU ? V : 1], b[RELU ? V : 1];
    __device__ __forceinline__ void load_from(const channel &k, int64_t c)
    {
        load_weights(m, k.mean + c);
        if constexpr (RELU) {
            float var[V];
            load_weights(f, k.w + c);
            load_weights(var, k.var + c);
            load_weights(b, k.b + c);
#pragma unroll
            for (int j = 0; j < V; j++) f[j] *= rsqrtf(var[j] + k.eps);
        }
    }
    __device__ __forceinline__ float open(float d, float dy, int j) const /* d = x - mean */
    {
        if constexpr (RELU) return d * f[j] + b[j] <= 0 ? 0 : dy;
        else return dy;
    }
};

/* Sums of g (x - mean) and of g, where g is the part of dy that the ReLU passes. */
template <typename T, bool RELU> struct batchnorm_bwd_sums {
    enum { AT_ONCE = 4 };
    strided_view<const T> dy, x;
    channel               k;
    int64_t               cols;
    template <int V> using column_regs = gate<V, RELU>;
    template <int V> struct row_regs {
        packed<T, V> dy, x;
    };
    template <int V> __device__ void load_columns(gate<V, RELU> &g, int64_t c) const { g.load_from(k, c); }
    template <int V> __device__ void load_row(row_regs<V> &s, int64_t r, int64_t c, bool there) const
    {
        fetch(s.dy, mba_column_row<V>(dy, r, cols) + c, there);
        fetch(s.x, mba_column_row<V>(x, r, cols) + c, there);
    }
    template <int V> __device__ void add(float (&sum)[2][V], const row_regs<V> &s, const gate<V, RELU> &t) const
    {
        float a[V], v[V];
        unpack(a, s.dy);
        unpack(v, s.x);
#pragma unroll
        for (int j = 0; j < V; j++) {
            const float d = v[j] - t.m[j], g = t.open(d, a[j], j);
            sum[0][j] = fmaf(g, d, sum[0][j]);
            sum[1][j] += g;
        }
    }
};

struct keep_totals {
    float          *dw, *db, *totals;
    channel         k;
    int64_t         cols;
    bool            adds_w, adds_b;
    __device__ void operator()(int64_t i, const float (&total)[2], const mba_step *) const
    {
        const float gh = total[0] * rsqrtf(k.var[i] + k.eps);
        totals[i] = gh;
        totals[cols + i] = total[1];
        dw[i] = gh + (adds_w ? dw[i] : 0);
        db[i] = total[1] + (adds_b ? db[i] : 0);
    }
};

/* dx = w rstd (g - db / M - h dw / M), with h dw / M = (x - mean) (rstd dw / M): per column mean, w rstd and two
 * factors. */
template <typename T, int V, bool RELU, bool ADDS>
__global__ void __launch_bounds__(COLUMN_THREADS, 2)
    batchnorm_dx(strided_view<T> dx, strided_view<const T> dy, strided_view<const T> x, channel k, const float *totals,
                 bool train, int64_t cols, int64_t per_part, extent e, const mba_step *step)
{
    constexpr int         U = 4;
    const column_share<V> s = mba_column_share<V>(cols);
    const int64_t         real = real_rows(e, step), from = part_of_block() * per_part;
    const int64_t         end = from + per_part < e.rows ? from + per_part : e.rows;
    float                 f[V], dw[V], db[V], a[V], v[V];
    packed<T, V>          seen_dy[U], seen_x[U];
    gate<V, RELU>         t;
    const auto            ask = [&](int64_t r) {
#pragma unroll
        for (int u = 0; u < U; u++) {
            fetch(seen_dy[u], mba_column_row<V>(dy, r + u * s.rows, cols) + s.column, r + u * s.rows < end);
            fetch(seen_x[u], mba_column_row<V>(x, r + u * s.rows, cols) + s.column, r + u * s.rows < end);
        }
    };
    if (!s.active) return;
    ask(from + s.row);
    const float share = train && real > 0 ? 1 / (float)real : 0;
    t.load_from(k, s.column);
    load_weights(f, k.w + s.column);
    load_weights(v, k.var + s.column);
    load_weights(dw, totals + s.column);
#pragma unroll
    for (int j = 0; j < V; j++) {
        const float rstd = rsqrtf(v[j] + k.eps);
        db[j] = totals[cols + s.column + j] * share;
        f[j] *= rstd;
        dw[j] *= rstd * share;
    }
    for (int64_t r = from + s.row; r < end; ask(r += U * s.rows)) {
#pragma unroll
        for (int u = 0; u < U; u++) {
            const int64_t i = r + u * s.rows;
            if (i >= end) break;
            T *to = mba_column_row<V>(dx, i, cols) + s.column;
            unpack(a, seen_dy[u]);
            unpack(v, seen_x[u]);
#pragma unroll
            for (int j = 0; j < V; j++) {
                const float d = v[j] - t.m[j], g = t.open(d, a[j], j);
                a[j] = i < real ? f[j] * (g - db[j] - d * dw[j]) : 0;
            }
            if (ADDS) {
                load(v, (const T *)to);
#pragma unroll
                for (int j = 0; j < V; j++) a[j] += v[j];
            }
            store(to, a);
        }
    }
}

template <typename T, int V, bool RELU> static mba_status backward(const mba_call *c)
{
    const mba_node             *n = c->node;
    const batchnorm_attr       *t = (const batchnorm_attr *)n->attr;
    const int64_t               cols = mba_cols(n->in[XB]);
    float                      *totals = (float *)mba_cuda_scratch(c, 1);
    const strided_view<const T> dy = mba_strided_view<const T>(n->in[DY], c->in[DY]),
                                x = mba_strided_view<const T>(n->in[XB], c->in[XB]);
    const channel k = { (const float *)c->in[WB], (const float *)c->in[BB], (const float *)c->in[MEANB],
                        (const float *)c->in[VARB], (float)t->eps };
    const batchnorm_bwd_sums<T, RELU> f = { dy, x, k, cols };
    const keep_totals                 use = { (float *)c->out[DW], (float *)c->out[DB], totals, k, cols,
                                              mba_adds(n, DW),     mba_adds(n, DB) };
    MBA_TRY((mba_column_sums<2, V>(c, 0, n->in[XB], f, use, (float *)mba_cuda_scratch(c, 0))));
    const int64_t per_part = mba_ceil(mba_rows(n->in[XB]), c->plan->launch[2].grid[0]);
    MBA_WITH_BOOL(mba_adds(n, DX), ADDS,
                  MBA_KERNEL(c, 2, (batchnorm_dx<T, V, RELU, ADDS>), mba_strided_view<T>(n->out[DX], c->out[DX]), dy, x,
                             k, totals, t->train != 0, cols, per_part, extent_of(n->in[XB]), c->step));
    return MBA_OK;
}

extern "C" mba_status batchnorm_stats_cuda(const mba_call *c)
{
    const bool wide = batchnorm_columns(c->node, c->node->in[SX], NULL, NULL) > 1;
    MBA_WITH_DTYPE(c->node->in[SX]->type.dtype, T,
                   return wide ? statistics<T, 16 / sizeof(T)>(c) : statistics<T, 1>(c));
}

extern "C" mba_status batchnorm_cuda(const mba_call *c)
{
    const bool wide = batchnorm_columns(c->node, c->node->in[X], c->node->out[Y], NULL) > 1;
    MBA_WITH_DTYPE(c->node->in[X]->type.dtype, T, return wide ? forward<T, 16 / sizeof(T)>(c) : forward<T, 1>(c));
}

extern "C" mba_status batchnorm_bwd_cuda(const mba_call *c)
{
    const mba_node *n = c->node;
    const bool      wide = batchnorm_columns(n, n->in[XB], n->in[DY], n->out[DX]) > 1;
    MBA_WITH_BOOL(((const batchnorm_attr *)n->attr)->relu, RELU,
                  MBA_WITH_DTYPE(n->in[XB]->type.dtype, T, if (wide) return backward<T, 16 / sizeof(T), RELU>(c);
                                 else return backward<T, 1, RELU>(c)));
}
