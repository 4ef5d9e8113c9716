// SPDX-License-Identifier: Apache-2.0
/* columns.cuh -- sums over the rows of a matrix, one per column, in a fixed order: gradients of weights, statistics.
 *
 *     struct dot {
 *         enum { AT_ONCE = 4 };                                             // rows whose loads are in flight together
 *         strided_view<const T> a, b;
 *         template <int V> struct column_regs { .. };                       // values per column, loaded once
 *         template <int V> struct row_regs { packed<T, V> a, b; };          // values of one row
 *         template <int V> __device__ void load_columns(column_regs<V> &k, int64_t c) const;
 *         template <int V> __device__ void load_row(row_regs<V> &s, int64_t r, int64_t c, bool there) const;
 *         template <int V> __device__ void add(float (&sum)[1][V], const row_regs<V> &s, const column_regs<V> &k)
 *         const;
 *     };
 *     MBA_TRY((mba_column_sums<1, V>(c, 0, t, dot, use, scratch)));         // launch 0: partial sums, launch 1: totals
 *
 * A thread owns V adjacent columns and adds rows with a stride. A block adds its threads that own the same columns in
 * order; the second launch adds the blocks' partial sums in order. The plan fixes the number of parts from the shape
 * alone, so the same shape gives the same bits. Two blocks per SM of 256 threads with eight 16-byte vectors have 65 KB
 * in flight. The second launch starts while the first drains (dependent_launch.cuh). */
#ifndef MBA_COLUMNS_CUH
#define MBA_COLUMNS_CUH

#include "device/cuda/dependent_launch.cuh"
#include "device/cuda/packed.cuh"

enum { COLUMN_THREADS = 256, TOTAL_THREADS = 512, TOTAL_COLUMNS = 32, TOTAL_COLUMNS_FEW = 8 }; /* per block */

/* Row r. V > 1 is used for rows with one stride only, so that no test and no division is needed. */
template <int V, typename T>
static __device__ __forceinline__ T *mba_column_row(const strided_view<T> &w, int64_t r, int64_t cols)
{
    return V > 1 ? w.at + r * w.pitch : w.row(r, cols);
}

/* A thread's columns and first row in its block. The block's columns are counted in 32 bits. */
template <int V> struct column_share {
    int64_t first, column;          /* first column of the block; of this thread */
    int     lane, lanes, row, rows; /* owner `lane` of `lanes`; its first row; row stride */
    bool    active;
};

template <int V> static __device__ __forceinline__ column_share<V> mba_column_share(int64_t cols)
{
    column_share<V> s;
    const unsigned  owners = (unsigned)((cols + V - 1) / V), each = (owners + gridDim.y - 1) / gridDim.y,
                   first = blockIdx.y * each;
    const unsigned lanes = owners - first < each ? owners - first : each, rows = COLUMN_THREADS / lanes,
                   row = threadIdx.x / lanes;
    s.first = (int64_t)first * V;
    s.lanes = (int)lanes;
    s.rows = (int)rows;
    s.row = (int)row;
    s.lane = (int)(threadIdx.x - row * lanes);
    s.active = row < rows;
    s.column = (int64_t)(first + s.lane) * V;
    return s;
}

/* How many of `capacity` rows are valid; the step counts groups of `inner` rows. If all are, the step is not read: with
 * a cold cache that costs a microsecond before the first load, and a 64-bit division. */
static __device__ __forceinline__ int64_t mba_column_rows(const mba_step *step, mba_count kind, int64_t capacity,
                                                          int64_t inner)
{
    return kind == MBA_ALL ? capacity : mba_step_rows(step, kind, capacity / inner) * inner;
}

/* part (parts, K, cols): block (p, j) sums rows p * per_part .. of column block j. A ragged batch may have fewer
 * rows. */
template <int K, int V, typename F>
__global__ void __launch_bounds__(COLUMN_THREADS, 2)
    column_parts(float *part, F f, int64_t cols, int64_t capacity, int64_t per_part, const mba_step *step,
                 mba_count kind, int64_t inner)
{
    __shared__ float      sums[COLUMN_THREADS][V];
    const column_share<V> s = mba_column_share<V>(cols);
    const int64_t         real = mba_column_rows(step, kind, capacity, inner);
    const int64_t         from = (int64_t)blockIdx.x * per_part, end = from + per_part < real ? from + per_part : real;
    float                 acc[K][V];
#pragma unroll
    for (int k = 0; k < K; k++)
#pragma unroll
        for (int v = 0; v < V; v++) acc[k][v] = 0;
    if (s.active) {
        constexpr int                       U = F::AT_ONCE;
        typename F::template column_regs<V> column_regs;
        typename F::template row_regs<V>    row_regs[U];
        int64_t                             r = from + s.row;
#pragma unroll
        for (int u = 0; u < U; u++) f.load_row(row_regs[u], r + u * s.rows, s.column, r + u * s.rows < end);
        f.load_columns(column_regs, s.column); // after the first rows: one wait for both
        for (; r < end; r += U * s.rows) {
#pragma unroll
            for (int u = 0; u < U; u++)
                if (r + u * s.rows < end) f.add(acc, row_regs[u], column_regs);
#pragma unroll
            for (int u = U; u < 2 * U; u++) f.load_row(row_regs[u - U], r + u * s.rows, s.column, r + u * s.rows < end);
        }
    }
    launch_dependents();
    const int wide = s.lanes * V; // columns of the block; a thread adds whole columns
#pragma unroll
    for (int k = 0; k < K; k++) {
        __syncthreads();
#pragma unroll
        for (int v = 0; v < V; v++) sums[threadIdx.x][v] = acc[k][v];
        __syncthreads();
        for (int j = threadIdx.x; j < wide; j += COLUMN_THREADS) {
            float total = 0;
#pragma unroll 4
            for (int r = 0; r < s.rows; r++) total += (&sums[0][0])[r * wide + j];
            if (s.first + j < cols) part[((int64_t)blockIdx.x * K + k) * cols + s.first + j] = total;
        }
    }
}

/* Adds the partial sums of each column and calls use(column, total). A block has 32 columns, or 8 (one sector of every
 * part) if there would be few blocks; a thread then loads its share of up to 512 parts at once. The grid tells which.
 * With 32 registers (K = 1) four blocks of 512 threads fit on an SM. */
template <int K, typename F>
__global__ void __launch_bounds__(TOTAL_THREADS, K > 1 ? 2 : 4)
    column_totals(const float *part, int64_t cols, int parts, F use, const mba_step *step)
{
    constexpr int    AT_ONCE = K > 2 ? 4 : 8;
    __shared__ float sums[TOTAL_THREADS / 32][K][TOTAL_COLUMNS];
    const int        wide = (int64_t)gridDim.x * TOTAL_COLUMNS_FEW >= cols ? TOTAL_COLUMNS_FEW : TOTAL_COLUMNS,
              groups = blockDim.x / wide;
    const int     x = threadIdx.x % wide, group = threadIdx.x / wide;
    const int64_t column = (int64_t)blockIdx.x * wide + x;
    const int     end = column < cols ? parts : 0;
    float         total[K];
    wait_for_prior_grids();
#pragma unroll
    for (int k = 0; k < K; k++) total[k] = 0;
    for (int p = group; p < end; p += AT_ONCE * groups) {
        float row_regs[AT_ONCE][K];
#pragma unroll
        for (int u = 0; u < AT_ONCE; u++)
#pragma unroll
            for (int k = 0; k < K; k++) {
                const int q = p + u * groups;
                row_regs[u][k] = q < end ? part[((int64_t)q * K + k) * cols + column] : 0;
            }
#pragma unroll
        for (int u = 0; u < AT_ONCE; u++)
#pragma unroll
            for (int k = 0; k < K; k++) total[k] += row_regs[u][k];
    }
#pragma unroll
    for (int k = 0; k < K; k++) {
        for (int d = wide; d < 32; d *= 2) total[k] += __shfl_xor_sync(0xffffffffu, total[k], d);
        if (threadIdx.x % 32 < wide) sums[threadIdx.x / 32][k][x] = total[k];
    }
    __syncthreads();
    if (group || column >= cols) return;
#pragma unroll
    for (int k = 0; k < K; k++) {
        total[k] = 0;
#pragma unroll
        for (int q = 0; q < TOTAL_THREADS / 32; q++) total[k] += q < blockDim.x / 32 ? sums[q][k][x] : 0.0f;
    }
    use(column, total, step);
}

/* Launch k: the totals of the partial sums (parts, K, cols) of launch k - 1. */
template <int K, typename G>
static mba_status mba_column_totals(const mba_call *c, int k, const float *part, int64_t cols, int64_t parts, G use)
{
    MBA_KERNEL_DEPENDENT(c, k, (column_totals<K, G>), part, cols, (int)parts, use, c->step);
    return MBA_OK;
}

/* Launch k of the plan computes partial sums, launch k + 1 their totals (planned by ops/columns.h). t: the matrix. */
template <int K, int V, typename F, typename G>
static mba_status mba_column_sums(const mba_call *c, int k, const mba_tensor *t, F f, G use, float *part)
{
    const int64_t cols = mba_cols(t), rows = mba_rows(t), parts = c->plan->launch[k].grid[0];
    const int64_t inner = t->type.rank > 1 ? rows / t->type.dim[0] : 1;
    MBA_KERNEL(c, k, (column_parts<K, V, F>), part, f, cols, rows, mba_ceil(rows, parts), c->step, t->type.count,
               inner);
    return mba_column_totals<K>(c, k + 1, part, cols, parts, use);
}

/* ---- gradients of biases: the column sums of a matrix ---- */

template <typename T> struct own_sums {
    enum { AT_ONCE = 8 };
    strided_view<const T> a;
    int64_t               cols;
    template <int V> struct column_regs {
    };
    template <int V> using row_regs = packed<T, V>;
    template <int V> __device__ void load_columns(column_regs<V> &, int64_t) const {}
    template <int V> __device__ void load_row(packed<T, V> &s, int64_t r, int64_t c, bool there) const
    {
        fetch(s, mba_column_row<V>(a, r, cols) + c, there);
    }
    template <int V> __device__ void add(float (&sum)[1][V], const packed<T, V> &s, const column_regs<V> &) const
    {
        float d[V];
        unpack(d, s);
#pragma unroll
        for (int v = 0; v < V; v++) sum[0][v] += d[v];
    }
};

struct keep_total {
    float          *to;
    bool            adds;
    __device__ void operator()(int64_t i, const float (&total)[1], const mba_step *) const
    {
        to[i] = total[0] + (adds ? to[i] : 0);
    }
};

#endif
