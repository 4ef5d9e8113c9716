// SPDX-License-Identifier: Apache-2.0
/* embed_sum_cuda.cu -- sums of rows of a table, and the gradient of the table without atomics.
 *
 *   y[r,:] = sum_f table[index[r,f],:],   dtable[v,:] (+)= sum of dy[r,:] over the (r, f) with index[r,f] = v
 *   index (R, F) i32     table (V, M), y, dy (R, M) fp32 or bf16     dtable (V, M) fp32
 *
 * kernel     embed_sum_fwd_vec16     a thread per 16 bytes of y, or one value
 * takes      everything
 * launch     grid ceil(R M / W / 256), block 256, W values per thread
 * resources  sm_90a, CUDA 13.0: 36 to 42 registers, no spill  [docs]
 * moves      index and y once; the tables are small and stay in the caches: bound by DRAM
 * measured   H200: 9.66 us, 39 % of floor (memory), ALU 50 % busy; graphmamba-peptides-func, 128 graphs  [docs]
 * order      fixed: f ascends
 *
 * kernel     embed_sum_bwd_parts     a block loops over a part of the rows and adds 32 columns into shared memory
 * takes      everything
 * launch     grid (parts, ceil(M/32), ceil(V/512)), block 256, dynamic smem 128 bytes per row of the table: at most
 *            64 KB
 * resources  sm_90a, CUDA 13.0: 48 registers, 4096 B of shared memory, no spill  [docs]
 * moves      dy once per 512 rows of the table, index once per 32 columns, a table per part
 * measured   H200: 51.5 us, 11 % of floor (special), ALU 46 % busy; graphmamba-peptides-func, 128 graphs  [docs]
 * order      fixed: warp w owns table rows v with v % 8 = w and adds its entries in order; parts in order
 *            (column_totals) */
#include "device/cuda/columns.cuh"
extern "C" {
#include "ops/embed_sum/embed_sum_slots.h"
}

template <typename T, int W>
__global__ void __launch_bounds__(256)
    embed_sum_fwd_vec16(strided_view<T> y, const int32_t *index, strided_view<const T> table, ragged rows, int64_t F,
                        int64_t cols, const mba_step *step)
{
    const int64_t i = ((int64_t)blockIdx.x * 256 + threadIdx.x) * W, r = i / cols, c = i % cols;
    if (r >= rows.all) return;
    float v[W], sum[W];
#pragma unroll
    for (int k = 0; k < W; k++) sum[k] = 0;
    const int64_t terms = r < valid_rows_of(rows, step) ? F : 0;
#pragma unroll 2
    for (int64_t f = 0; f < terms; f++) {
        load(v, table.row(index[r * F + f], cols) + c);
#pragma unroll
        for (int k = 0; k < W; k++) sum[k] += v[k];
    }
    store(y.row(r, cols) + c, sum);
}

enum { BLOCK = 256, WARPS = BLOCK / 32, ROWS = 32, COLS = EMBED_SUM_COLS };

/* Adds the entries of `rows` rows, whose dy is in `tile`, to the table rows from `first` on; each warp adds to its own
 * rows. */
static __device__ __forceinline__ void add_entries(float *table, const float (&tile)[ROWS][COLS], const int32_t *index,
                                                   int entries, int F, int64_t first, int table_rows)
{
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    for (int at = 0; at < entries; at += 32) {
        const int64_t v = at + lane < entries ? index[at + lane] - first : -1;
        unsigned      todo = __ballot_sync(0xffffffffu, v >= 0 && v < table_rows && v % WARPS == warp);
        while (todo) { // uniform across the warp
            const int k = __ffs((int)todo) - 1;
            todo &= todo - 1;
            table[__shfl_sync(0xffffffffu, (int)v, k) * COLS + lane] += tile[(at + k) / F][lane];
        }
    }
}

template <typename T>
__global__ void __launch_bounds__(BLOCK)
    embed_sum_bwd_parts(float *part, strided_view<const T> dy, const int32_t *index, ragged rows, int F, int64_t cols,
                        int64_t V, int table_rows, const mba_step *step)
{
    extern __shared__ float table[]; // (table_rows, 32)
    __shared__ float        tile[ROWS][COLS];
    const int               lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int64_t           real = valid_rows_of(rows, step), c = (int64_t)blockIdx.y * COLS + lane,
                  first = (int64_t)blockIdx.z * table_rows;
    const int64_t from = blockIdx.x * real / gridDim.x, end = (blockIdx.x + 1) * real / gridDim.x;
    const int     mine = V - first < table_rows ? (int)(V - first) : table_rows;
    for (int i = (int)threadIdx.x; i < mine * COLS; i += BLOCK) table[i] = 0;
    for (int64_t r = from; r < end; r += ROWS) {
        const int n = end - r < ROWS ? (int)(end - r) : ROWS;
        __syncthreads(); // the previous tile is no longer needed; the table is cleared
        for (int i = warp; i < n; i += WARPS) tile[i][lane] = c < cols ? to_float(dy.row(r + i, cols)[c]) : 0;
        __syncthreads();
        add_entries(table, tile, index + r * F, n * F, F, first, mine);
    }
    __syncthreads();
    for (int i = warp; i < mine && c < cols; i += WARPS)
        part[((int64_t)blockIdx.x * V + first + i) * cols + c] = table[i * COLS + lane];
}

struct put_table {
    strided_view<float> to;
    bool                adds;
    __device__ void     operator()(int64_t i, const float (&total)[1], const mba_step *) const
    {
        float *at = to.element(i);
        *at = total[0] + (adds ? *at : 0);
    }
};

extern "C" mba_status embed_sum_cuda(const mba_call *c)
{
    const mba_tensor *index = c->node->in[INDEX], *table = c->node->in[TABLE],
                     *y = c->node->out[Y], *const both[] = { table, y };
    MBA_WITH_DTYPE(y->type.dtype, T,
                   MBA_WITH_BOOL(mba__columns_at_once(both, 2) > 1, VECTORS, auto *kernel = embed_sum_fwd_vec16 < T,
                                 VECTORS ? (int)vec16<T>::N : 1 > ;
                                 MBA_KERNEL(c, 0, kernel, mba_strided_view<T>(y, c->out[Y]),
                                            (const int32_t *)c->in[INDEX],
                                            mba_strided_view<const T>(table, c->in[TABLE]), mba_ragged_rows(index),
                                            mba_cols(index), mba_cols(y), c->step)));
    return MBA_OK;
}

extern "C" mba_status embed_sum_bwd_cuda(const mba_call *c)
{
    const mba_tensor *index = c->node->in[INDEXB], *dy = c->node->in[DY], *to = c->node->out[DTABLE];
    const int64_t     M = mba_cols(dy), V = mba_rows(to);
    float            *part = (float *)mba_cuda_scratch(c, 0);
    const put_table   put = { mba_strided_view<float>(to, c->out[DTABLE]), mba_adds(c->node, DTABLE) };
    MBA_WITH_DTYPE(dy->type.dtype, T,
                   MBA_KERNEL(c, 0, embed_sum_bwd_parts<T>, part, mba_strided_view<const T>(dy, c->in[DY]),
                              (const int32_t *)c->in[INDEXB], mba_ragged_rows(index), (int)mba_cols(index), M, V,
                              (int)embed_sum_table_rows(V), c->step));
    return mba_column_totals<1>(c, 1, part, V * M, c->plan->launch[0].grid[0], put);
}
