// SPDX-License-Identifier: Apache-2.0
/* segment_pool_cuda.cu -- mean or maximum over the rows of each graph, and the gradient.
 *
 *   y[s,c] = mean or max of x[r,c] over ptr[s] <= r < ptr[s+1], 0 without rows;   arg[s,c] the first row with the
 *   maximum
 *   x, dx (N, C), y, dy (G, C) fp32 or bf16     ptr (G + 1) i32     arg (G, C) i32
 *
 * kernel     segment_pool_fwd     a block per graph and up to 32 vectors of channels; threads of one vector share the
 *            rows
 * takes      everything; one value per thread where rows are not whole 16-byte vectors
 * launch     grid G ceil(C / (lanes V)), block 512, static smem 16 KB (mean) or 32 KB (max)
 * resources  sm_90a, CUDA 13.0: 32 to 46 registers, 2048 to 32768 B of shared memory, no spill  [docs]
 * moves      each operand once: bound by DRAM with many graphs, by the longest graph with few
 * measured   H200: 6.05 us, 15 % of floor (memory), ALU 13 % busy; graphmamba-peptides-func, 128 graphs  [docs]
 * order      fixed: a thread takes its rows in ascending order, then a tree joins the threads
 *
 * kernel     segment_pool_bwd_rows     `shares` blocks share the rows of a graph; graph G stands for rows of no graph
 * launch     grid (G + 1) shares, block 256
 * resources  sm_90a, CUDA 13.0: 26 to 48 registers, no spill  [docs]
 * moves      each operand once: bound by DRAM
 * measured   H200: 15.8 us, 6 % of floor (memory), ALU 38 % busy; graphmamba-peptides-func, 128 graphs  [docs]
 * order      no sums */
#include "device/cuda/common.cuh"
extern "C" {
#include "ops/segment_pool/segment_pool_slots.h"
}

/* True if (b, row_b) replaces (a, row_a); row -1: no value. Of equal maxima the first row wins, of NaNs the last, so
 * that NaN stays visible. */
static __device__ __forceinline__ bool better(float b, int row_b, float a, int row_a)
{
    if (row_b < 0 || row_a < 0) return row_b >= 0;
    if (a != a || b != b) return b != b && (a == a || row_b > row_a);
    return b > a || (b == a && row_b < row_a);
}

template <bool MAX> static __device__ __forceinline__ void merge(float &a, int &row_a, float b, int row_b)
{
    if (!MAX) {
        a += b;
        return;
    }
    if (!better(b, row_b, a, row_a)) return;
    a = b;
    row_a = row_b;
}

template <typename T, int V, bool MAX>
__global__ void __launch_bounds__(SEGMENT_POOL_BLOCK)
    segment_pool_fwd(strided_view<T> y, int32_t *arg, strided_view<const T> x, const int32_t *ptr, ragged graphs,
                     int64_t cols, int lanes, unsigned tiles, const mba_step *step)
{
    __shared__ float value[V][SEGMENT_POOL_BLOCK];
    __shared__ int   where[MAX ? V : 1][SEGMENT_POOL_BLOCK];
    const int        me = (int)threadIdx.x, lane = me % lanes, row = me / lanes, rows = SEGMENT_POOL_BLOCK / lanes;
    const int64_t    s = blockIdx.x / tiles, c = ((int64_t)(blockIdx.x % tiles) * lanes + lane) * V;
    const bool       real = s < valid_rows_of(graphs, step);
    const int        from = real ? ptr[s] : 0, end = real ? ptr[s + 1] : 0;
    float            a[V], v[V];
    int              at[V];
#pragma unroll
    for (int i = 0; i < V; i++) {
        a[i] = 0;
        at[i] = -1;
    }
    for (int r = from + row; r < end && c < cols; r += rows) {
        load(v, x.row(r, cols) + c);
#pragma unroll
        for (int i = 0; i < V; i++) merge<MAX>(a[i], at[i], v[i], r);
    }
#pragma unroll
    for (int i = 0; i < V; i++) {
        value[i][me] = a[i];
        if (MAX) where[i][me] = at[i];
    }
    for (int half = rows / 2; half; half /= 2) { // rows is a power of two
        __syncthreads();
        if (row >= half) continue;
#pragma unroll
        for (int i = 0; i < V; i++) {
            merge<MAX>(a[i], at[i], value[i][me + half * lanes], MAX ? where[i][me + half * lanes] : 0);
            value[i][me] = a[i];
            if (MAX) where[i][me] = at[i];
        }
    }
    if (row || c >= cols) return;
#pragma unroll
    for (int i = 0; i < V; i++) {
        if (!MAX) a[i] = end > from ? a[i] / (float)(end - from) : 0;
        else if (real) arg[s * cols + c + i] = end > from ? at[i] : from;
    }
    store(y.row(s, cols) + c, a);
}

template <typename T, int V, bool MAX, bool ADDS>
__global__ void __launch_bounds__(SEGMENT_POOL_BWD_BLOCK)
    segment_pool_bwd_rows(strided_view<T> dx, strided_view<const T> dy, const int32_t *ptr, const int32_t *arg,
                          ragged graphs, int all, int cols, int lanes, int per, unsigned shares, const mba_step *step)
{
    const int lane = threadIdx.x % lanes, row = threadIdx.x / lanes, rows = SEGMENT_POOL_BWD_BLOCK / lanes;
    const int s = (int)(blockIdx.x / shares), share = (int)(blockIdx.x % shares),
              real = (int)valid_rows_of(graphs, step);
    if (s > real || (s == real && ADDS)) return; // rows of no graph do not change if dx adds, else they become zero
    const int      from = ptr[s], end = s < real ? ptr[s + 1] : all;
    const float    k = MAX ? 1 : 1 / (float)(end - from);
    const T       *of = s < real ? dy.row(s, cols) : NULL;
    const int32_t *top = MAX && s < real ? arg + (int64_t)s * cols : NULL;
    for (int r = from + share * rows + row; r < end; r += (int)shares * rows) {
        T *to = dx.at + (r / per) * dx.pitch + (int64_t)(r % per) * cols; // as dx.row, but with 32-bit divisions
        for (int c = lane * V; c < cols; c += lanes * V) {
            float v[V], old[V];
#pragma unroll
            for (int i = 0; i < V; i++) v[i] = 0;
            if (of) load(v, of + c);
            if (ADDS) load(old, to + c);
#pragma unroll
            for (int i = 0; i < V; i++) {
                const float d = of && (!MAX || top[c + i] == r) ? k * v[i] : 0;
                v[i] = d + (ADDS ? old[i] : 0);
            }
            store(to + c, v);
        }
    }
}

extern "C" mba_status segment_pool_cuda(const mba_call *c)
{
    const mba_tensor *x = c->node->in[X], *y = c->node->out[Y];
    const int64_t     C = mba_cols(x);
    const int         at_once = segment_pool_at_once(x, y), lanes = segment_pool_lanes(C, at_once);
    MBA_WITH_DTYPE(x->type.dtype, T,
                   MBA_WITH_BOOL(at_once > 1, VECTORS,
                                 MBA_WITH_BOOL(c->node->out[ARG] != NULL, MAX, auto *kernel = segment_pool_fwd < T,
                                               VECTORS ? (int)vec16<T>::N : 1, MAX > ;
                                               MBA_KERNEL(c, 0, kernel, mba_strided_view<T>(y, c->out[Y]),
                                                          (int32_t *)c->out[ARG],
                                                          mba_strided_view<const T>(x, c->in[X]),
                                                          (const int32_t *)c->in[PTR], mba_ragged_rows(y), C, lanes,
                                                          (unsigned)mba_ceil(C, lanes * at_once), c->step))));
    return MBA_OK;
}

extern "C" mba_status segment_pool_bwd_cuda(const mba_call *c)
{
    const mba_tensor *dy = c->node->in[DY], *dx = c->node->out[DX];
    const int64_t     C = mba_cols(dx), shares = c->plan->launch[0].grid[0] / (mba_rows(dy) + 1);
    const int         at_once = segment_pool_at_once(dx, dy), lanes = segment_pool_lanes(C, at_once);
    MBA_WITH_DTYPE(
        dx->type.dtype, T,
        MBA_WITH_BOOL(at_once > 1, VECTORS,
                      MBA_WITH_BOOL(c->node->in[ARGB] != NULL, MAX,
                                    MBA_WITH_BOOL(mba_adds(c->node, DX), ADDS, auto *kernel = segment_pool_bwd_rows < T,
                                                  VECTORS ? (int)vec16<T>::N : 1, MAX, ADDS > ;
                                                  const strided_view<T> to = mba_strided_view<T>(dx, c->out[DX]);
                                                  MBA_KERNEL(c, 0, kernel, to, mba_strided_view<const T>(dy, c->in[DY]),
                                                             (const int32_t *)c->in[PTRB], (const int32_t *)c->in[ARGB],
                                                             mba_ragged_rows(dy), (int)mba_rows(dx), (int)C, lanes,
                                                             (int)(to.run / C), (unsigned)shares, c->step)))));
    return MBA_OK;
}
