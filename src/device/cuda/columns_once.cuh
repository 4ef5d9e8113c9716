/* columns_once.cuh -- sums over the rows of a matrix in one launch: columns.cuh's words, but the block that finishes last
 * adds up what all have left.
 *
 * The columns are cut into slices of up to 512 bytes of a row, so that the parts of a slice are little and the slices' last
 * blocks read them side by side: bias_bwd 25088 x 1280 in bf16 has 5 slices of 52 parts, 53 KB each, where one SM would
 * have read 1.35 MB. Who is last differs from run to run; what it adds, and in which order, does not. */
#ifndef MBA_COLUMNS_ONCE_CUH
#define MBA_COLUMNS_ONCE_CUH

#include "device/cuda/columns.cuh"
#include "device/cuda/counters.h"
extern "C" {
#include "ops/columns_once.h"
}

/* The thread's share of a slice of `lanes` owners. */
template <int V> static __device__ __forceinline__ column_share<V> mba_column_slice(int64_t cols, int lanes)
{
    column_share<V> s;
    const int64_t owners = (cols + V - 1) / V, first = (int64_t)blockIdx.y * lanes;
    s.lanes  = (int)(owners - first < lanes ? owners - first : lanes);
    s.rows   = s.lanes > 0 ? COLUMN_THREADS / s.lanes : 0;
    s.lane   = s.lanes > 0 ? threadIdx.x % s.lanes : 0;
    s.row    = s.lanes > 0 ? threadIdx.x / s.lanes : 0;
    s.active = s.row < s.rows;
    s.column = (first + s.lane) * V;
    return s;
}

/* What the block's rows give to the thread's columns. */
template <int K, int V, typename F>
static __device__ __forceinline__ void mba_column_rows(float (&acc)[K][V], const F &f, const column_share<V> &s, int64_t from, int64_t end)
{
    constexpr int U = F::AT_ONCE;
    typename F::template known<V> known;
    typename F::template seen<V>  seen[U];
    f.know(known, s.column);
    for (int64_t r = from + s.row; r < end; r += U * s.rows) {
#pragma unroll
        for (int u = 0; u < U; u++) f.look(seen[u], r + u * s.rows, s.column, r + u * s.rows < end);
#pragma unroll
        for (int u = 0; u < U; u++) if (r + u * s.rows < end) f.add(acc, seen[u], known);
    }
}

/* Sum k of all parts (parts, K, cols) of columns c0 .. c0 + wide: of c0 + thread, in a fixed order. */
template <int K, int P>
static __device__ __forceinline__ float mba_column_total(float *sums, const float *part, int k, int64_t c0, int wide, int64_t cols)
{
    constexpr int AT_ONCE = 8;
    const int pieces = wide / P, groups = COLUMN_THREADS / pieces, x = threadIdx.x % pieces, group = threadIdx.x / pieces;
    const int parts = group < groups ? gridDim.x : 0;
    float     acc[P] = {}, total = 0;
    for (int p = group; p < parts; p += AT_ONCE * groups) {
        float seen[AT_ONCE][P];
#pragma unroll
        for (int u = 0; u < AT_ONCE; u++) {
            const int    q = p + u * groups;
            const float *at = part + ((int64_t)q * K + k) * cols + c0 + x * P;
            if constexpr (P == 4) {
                const float4 v = q < parts ? __ldcg((const float4 *)at) : make_float4(0, 0, 0, 0);
                seen[u][0] = v.x; seen[u][1] = v.y; seen[u][2] = v.z; seen[u][3] = v.w;
            } else {
                seen[u][0] = q < parts ? __ldcg(at) : 0;
            }
        }
#pragma unroll
        for (int u = 0; u < AT_ONCE; u++)
#pragma unroll
            for (int e = 0; e < P; e++) acc[e] += seen[u][e];
    }
    __syncthreads();
    if (group < groups)
#pragma unroll
        for (int e = 0; e < P; e++) sums[(group * pieces + x) * P + e] = acc[e];
    __syncthreads();
    if ((int)threadIdx.x < wide)
        for (int q = 0; q < groups; q++) total += sums[q * wide + threadIdx.x];
    return total;
}

/* part (parts, K, cols): block (p, j) sums rows p * per_part .. of slice j; done (slices): blocks that have; the last of a slice
 * leaves 0 there and hands its totals to `use`. */
template <int K, int V, typename F, typename G>
__global__ void __launch_bounds__(COLUMN_THREADS, 2)
column_sums(float *part, unsigned *done, F f, G use, int64_t cols, int lanes, int64_t capacity, int64_t per_part, const mba_step *step, mba_count kind,
            int64_t inner)
{
    __shared__ float      sums[COLUMN_THREADS * V];
    __shared__ unsigned   turn;
    const column_share<V> s = mba_column_slice<V>(cols, lanes);
    const int64_t real = mba_step_rows(step, kind, capacity / inner) * inner, c0 = (int64_t)blockIdx.y * lanes * V;
    const int64_t from = (int64_t)blockIdx.x * per_part, end = from + per_part < real ? from + per_part : real;
    const int     wide = s.lanes * V;
    float         acc[K][V], total[K];
    if (s.lanes <= 0) return;
#pragma unroll
    for (int k = 0; k < K; k++)
#pragma unroll
        for (int v = 0; v < V; v++) acc[k][v] = 0;
    if (s.active) mba_column_rows<K, V>(acc, f, s, from, end);
#pragma unroll
    for (int k = 0; k < K; k++) {
        __syncthreads();
#pragma unroll
        for (int v = 0; v < V; v++) sums[threadIdx.x * V + v] = acc[k][v];
        __syncthreads();
        if ((int)threadIdx.x < wide) {
            float sum = 0;
#pragma unroll 4
            for (int r = 0; r < s.rows; r++) sum += sums[r * wide + threadIdx.x];
            part[((int64_t)blockIdx.x * K + k) * cols + c0 + threadIdx.x] = sum;
        }
    }
    __threadfence();                              // the part is there before the block is counted
    __syncthreads();
    if (threadIdx.x == 0) turn = atomicInc(done + blockIdx.y, gridDim.x - 1);
    __syncthreads();
    if (turn != gridDim.x - 1) return;
    __threadfence();
#pragma unroll
    for (int k = 0; k < K; k++) total[k] = mba_column_total<K, (V > 1 ? 4 : 1)>(sums, part, k, c0, wide, cols);
    if ((int)threadIdx.x < wide) use(c0 + threadIdx.x, total, step);
}

/* Launch k of the plan, as ops/columns_once.h has it. `t` is the matrix whose rows count. */
template <int K, int V, typename F, typename G>
static mba_status mba_column_sums_once(const mba_call *c, int k, const mba_tensor *t, F f, G use, float *part)
{
    const mba_launch *l = &c->plan->launch[k];
    const int64_t     cols = mba_cols(t), rows = mba_rows(t), inner = t->type.rank > 1 ? rows / t->type.dim[0] : 1;
    unsigned         *done;
    MBA_TRY(mba__cuda_turns(&done, l->grid[1]));
    MBA_KERNEL(c, k, (column_sums<K, V, F, G>), part, done, f, use, cols, (int)mba_ceil(mba_ceil(cols, V), l->grid[1]), rows,
               mba_ceil(rows, l->grid[0]), c->step, t->type.count, inner);
    return MBA_OK;
}

#endif
