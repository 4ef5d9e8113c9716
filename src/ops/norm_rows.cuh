// SPDX-License-Identifier: Apache-2.0
/* norm_rows.cuh -- root-mean-square norms over rows on CUDA, for rmsnorm and add_rmsnorm; gated_rmsnorm uses parts of
 * it.
 *
 *   s = x + m (or x)     y = w s rstd     rstd = 1 / sqrt(mean(s^2) + eps)
 *   dx = ds + rstd (w dy - h c), dm the same     dw = sum over rows of dy h     h = s rstd, c = mean(h w dy)
 *
 * x, ds, dx have the type of the residual stream (fp32); m, y, dy and dm that of the branch; w, rstd, dw are fp32.
 * Outputs may share memory with inputs: a thread overwrites only elements that it has read itself.
 *
 * kernel     norm_fwd_group     a thread group per row, the row stays in registers
 * kernel     norm_bwd_group     persistent blocks; a thread group loops over rows with a stride, while asynchronous
 *            copies bring the next rows into slots private to each thread; dw in registers, then summed per block
 * takes      rows of whole vectors at one pitch, up to 2048 of them
 * launch     forward: grid ceil(R / groups), block groups * threads; backward: grid as many blocks as fit on the
 *            SMs, at most four per SM, dynamic smem two or three rows of each thread group
 * resources  sm_90a, CUDA 13.0: norm_fwd_group 31 to 80 registers, 64 B of shared memory, no spill  [docs]
 *            norm_bwd_group 56 to 106 registers, 512 to 768 B of shared memory, no spill  [docs]
 * moves      every operand once, and partial sums of dw: bound by DRAM
 * in flight  4 TB/s for 0.7 us is 22 KB per SM. A forward thread issues all its loads at once: rmsnorm of 2560 bf16,
 *            48 registers, 8 blocks of 160 threads of 2 vectors, 41 KB. A backward thread group has STAGES - 1 rows
 *            in flight: the same rows, 64 registers, 3 blocks of 320 threads, 61 KB
 * floor      add_rmsnorm, R=16384 C=768, bf16 branch: forward 151 MB, 35 us, backward 201 MB, 47 us at 4.3 TB/s (copy)
 * measured   H200: norm_fwd_group 48.5 us, 105 % of floor (memory), DRAM 79 % busy; mamba2-headline, 4 x 4096  [docs]
 *            norm_bwd_group 68.3 us, 100 % of floor (memory), DRAM 77 % busy; hybrid-headline, 4 x 4096  [docs]
 * kernel     norm_fwd_loop, norm_bwd_loop     a block per row, which is read twice: unaligned and very long rows
 * takes      everything
 * order      fixed by shape and machine: lanes, warps of a group, rows of a group, groups of a block, blocks */
#ifndef MBA_OPS_NORM_ROWS_CUH
#define MBA_OPS_NORM_ROWS_CUH

#include "device/cuda/async.cuh"
#include "device/cuda/columns.cuh"
#include "device/cuda/packed.cuh"
extern "C" {
#include "ops/norm_plan.h"
}

/* Runs the statements with NV, the number of vectors per thread, as a compile-time constant. */
#define MBA_WITH_VECTORS(n, NV, ...) \
    do { \
        if ((n) == 1) { \
            constexpr int NV = 1; \
            __VA_ARGS__; \
        } else if ((n) == 2) { \
            constexpr int NV = 2; \
            __VA_ARGS__; \
        } else if ((n) == 3) { \
            constexpr int NV = 3; \
            __VA_ARGS__; \
        } else { \
            constexpr int NV = 4; \
            __VA_ARGS__; \
        } \
    } while (0)

/* ---- thread groups ---- */

enum { GROUP_WARPS = MBA__GROUP_THREADS_MAX / 32 };

/* Position of a thread: its group in the block, its lane in the group. A group consists of consecutive threads: a power
 * of two, or whole warps. */
struct thread_group {
    int threads, number, lane;
};

/* Position of a thread if a group of several warps is the whole block; needs no division. */
static __device__ __forceinline__ thread_group group_one_per_block(int threads)
{
    thread_group t = { threads, 0, (int)threadIdx.x };
    if (threads <= 32) {
        t.number = (int)threadIdx.x >> (31 - __clz(threads));
        t.lane = (int)threadIdx.x & (threads - 1);
    }
    return t;
}

static __device__ __forceinline__ thread_group group_of_thread(int threads)
{
    const thread_group t = { threads, (int)threadIdx.x / threads, (int)threadIdx.x % threads };
    return t;
}

/* Synchronizes a thread group of several warps with a named barrier of its own. The barrier number is a constant in
 * each branch: if the compiler does not know the number, the block reserves all sixteen barriers, and few blocks fit on
 * an SM (measured: add_rmsnorm forward at 39 instead of 86 % of the copy rate). */
static __device__ __forceinline__ void group_sync(thread_group t)
{
    if (t.number == 0) asm volatile("bar.sync 1, %0;" ::"r"(t.threads) : "memory");
    else if (t.number == 1) asm volatile("bar.sync 2, %0;" ::"r"(t.threads) : "memory");
    else if (t.number == 2) asm volatile("bar.sync 3, %0;" ::"r"(t.threads) : "memory");
    else asm volatile("bar.sync 4, %0;" ::"r"(t.threads) : "memory");
}

/* Clears the entries of warps that a thread group does not have, before its first sum. group_sum adds them as zeros, so
 * it needs no loop of variable length. */
static __device__ __forceinline__ void group_zero_unused(thread_group t, float *warps)
{
    if (t.threads > 32 && t.lane < GROUP_WARPS && t.lane >= t.threads / 32) warps[t.number * GROUP_WARPS + t.lane] = 0;
}

/* Returns the sum over a thread group to all its threads. `warps` has GROUP_WARPS entries for every group of the block,
 * 16-byte aligned; it may be reused after the group has synchronized in another sum. All lanes of the block's warps
 * must call this. ALONE: a group of several warps is the whole block; otherwise a block holds at most MBA__GROUPS_MAX
 * of them. */
template <bool ALONE> static __device__ __forceinline__ float group_sum(float x, thread_group t, float *warps)
{
    if (t.threads < 32) {
        for (int d = t.threads / 2; d; d >>= 1) x += __shfl_xor_sync(0xffffffffu, x, d);
        return x;
    }
    x = warp_sum(x);
    if (t.threads == 32) return x;
    float *const mine = warps + (ALONE ? 0 : t.number * GROUP_WARPS);
    if (t.lane % 32 == 0) mine[t.lane / 32] = x;
    if (ALONE) __syncthreads();
    else group_sync(t);
    float4 q[GROUP_WARPS / 4];
#pragma unroll
    for (int i = 0; i < GROUP_WARPS / 4; i++) q[i] = ((const float4 *)mine)[i];
    x = 0;
#pragma unroll
    for (int i = 0; i < GROUP_WARPS / 4; i++) x += (q[i].x + q[i].y) + (q[i].z + q[i].w);
    return x;
}

/* A thread's columns of rows that have one pitch (mba__uniform_pitch in ops/norm_plan.h): the address of a row needs
 * one multiplication. */
template <typename T> struct strip {
    char                      *at;
    uint32_t                   pitch; // in bytes
    __device__ __forceinline__ strip(const strided_view<T> &w, int first)
        : at((char *)(w.at + first)), pitch((uint32_t)(w.pitch * sizeof(T)))
    {
    }
    __device__ __forceinline__ T *row(int r) const { return (T *)(at + (uint64_t)(uint32_t)r * pitch); }
};

/* Prefetches the weights into L2. A row needs them only after it is loaded and summed; with a cold cache their DRAM
 * latency would begin only then. Block 0 prefetches for all. */
static __device__ __forceinline__ void prefetch_l2_weights(const float *w, int cols)
{
    if (blockIdx.x > 0) return;
    for (int c = 32 * (int)threadIdx.x; c < cols; c += 32 * (int)blockDim.x)
        asm volatile("prefetch.global.L2 [%0];" ::"l"(w + c));
}

/* Adds up the dw of all thread groups of the block and writes one partial sum. `memory` is the block's dynamic shared
 * memory, which is free by then. */
template <int V, int NV>
static __device__ __forceinline__ void store_block_partial(float *part, float *memory, const float (&dw)[NV][V],
                                                           thread_group t, int cols)
{
    const int thread_groups = blockDim.x / t.threads;
    launch_dependents();
    copy_async_wait<0>();
    __syncthreads();
#pragma unroll
    for (int i = 0; i < NV; i++) {
        const int c = (t.lane + i * t.threads) * V;
        if (c < cols)
#pragma unroll
            for (int v = 0; v < V; v++) memory[t.number * cols + c + v] = dw[i][v];
    }
    __syncthreads();
    for (int c = threadIdx.x; c < cols; c += blockDim.x) {
        float sum = 0;
        for (int k = 0; k < thread_groups; k++) sum += memory[k * cols + c];
        part[c] = sum;
    }
}

/* Launch 1 of the backward pass: dw from the partial sums that launch 0 left in scratch 0. */
static inline mba_status mba__norm_dw(const mba_call *c, int out, int64_t cols)
{
    const keep_total use = { (float *)c->out[out], mba_adds(c->node, out) };
    return mba_column_totals<1>(c, 1, (const float *)mba_cuda_scratch(c, 0), cols, c->plan->launch[0].grid[0], use);
}

/* ---- forward ---- */

template <typename TX, typename TY> struct norm_rows {
    strided_view<const TX> x; // (R, C)
    strided_view<const TY> m; // (R, C), or absent; then sum is absent, too
    strided_view<TX>       sum;
    strided_view<TY>       y;
    const float           *w;    // (C)
    float                 *rstd; // (R)
    int64_t                rows, cols;
    float                  eps;
    int                    threads;
};

template <typename TX, typename TY, int V, int NV>
__global__ void __launch_bounds__(MBA__GROUP_THREADS_MAX, 1) norm_fwd_group(norm_rows<TX, TY> a)
{
    __shared__ __align__(16) float warps[GROUP_WARPS];
    const thread_group             t = group_one_per_block(a.threads);
    const int                      cols = (int)a.cols,
              row = (int)(t.threads > 32 ? blockIdx.x : blockIdx.x * (blockDim.x / t.threads) + t.number);
    const int own = t.lane * V, apart = t.threads * V,
              end = row < a.rows ? cols : 0; // beyond the last row there are no columns
    float s[NV][V], w[NV][V], ss = 0;
    prefetch_l2_weights(a.w, cols);
    group_zero_unused(t, warps);

    // 1. load the whole row, then add the branch and sum the squares
    packed<TX, V>   px[NV];
    const TX *const x = strip<const TX>(a.x, own).row(row);
#pragma unroll
    for (int i = 0; i < NV; i++) fetch(px[i], x + i * apart, own + i * apart < end);
    if (a.m.at) {
        packed<TY, V>   pm[NV];
        const TY *const m = strip<const TY>(a.m, own).row(row);
        TX *const       sum = strip<TX>(a.sum, own).row(row);
#pragma unroll
        for (int i = 0; i < NV; i++) fetch(pm[i], m + i * apart, own + i * apart < end);
#pragma unroll
        for (int i = 0; i < NV; i++) {
            float add[V];
            unpack(s[i], px[i]);
            unpack(add, pm[i]);
#pragma unroll
            for (int v = 0; v < V; v++) s[i][v] += add[v];
            if (own + i * apart < end) store(sum + i * apart, s[i]);
        }
    } else {
#pragma unroll
        for (int i = 0; i < NV; i++) unpack(s[i], px[i]);
    }
#pragma unroll
    for (int i = 0; i < NV; i++)
#pragma unroll
        for (int v = 0; v < V; v++) ss = fmaf(s[i][v], s[i][v], ss);

    // 2. every thread gets the sum of its row
    const float k = rsqrtf(__fdividef(group_sum<true>(ss, t, warps), (float)cols) + a.eps);
    if (t.lane == 0 && end) a.rstd[row] = k;

    // 3. scale and write
    TY *const y = strip<TY>(a.y, own).row(row);
#pragma unroll
    for (int i = 0; i < NV; i++) load_weights(w[i], a.w + (own + i * apart < cols ? own + i * apart : 0));
#pragma unroll
    for (int i = 0; i < NV; i++) {
#pragma unroll
        for (int v = 0; v < V; v++) w[i][v] *= s[i][v] * k;
        if (own + i * apart < end) store(y + i * apart, w[i]);
    }
}

template <typename TX, typename TY>
__global__ void __launch_bounds__(MBA__LOOP_THREADS) norm_fwd_loop(norm_rows<TX, TY> a)
{
    __shared__ __align__(16) float warps[GROUP_WARPS];
    const thread_group             t = group_one_per_block(MBA__LOOP_THREADS);
    const int64_t                  row = blockIdx.x;
    const TX                      *x = a.x.row(row, a.cols);
    const TY                      *m = a.m.at ? a.m.row(row, a.cols) : NULL;
    TX                            *sum = a.m.at ? a.sum.row(row, a.cols) : NULL;
    TY                            *y = a.y.row(row, a.cols);
    float                          ss = 0;
    group_zero_unused(t, warps);
    for (int64_t c = threadIdx.x; c < a.cols; c += MBA__LOOP_THREADS) {
        const float s = to_float(x[c]) + (m ? to_float(m[c]) : 0);
        if (sum) sum[c] = from_float<TX>(s);
        ss += s * s;
    }
    const float k = rsqrtf(group_sum<true>(ss, t, warps) / (float)a.cols + a.eps);
    if (threadIdx.x == 0) a.rstd[row] = k;
    for (int64_t c = threadIdx.x; c < a.cols; c += MBA__LOOP_THREADS)
        y[c] = from_float<TY>(to_float(sum ? sum[c] : x[c]) * k * a.w[c]);
}

/* ---- backward ---- */

template <typename TX, typename TY> struct norm_grads {
    strided_view<const TY> dy;    // (R, C)
    strided_view<const TX> ds, x; // ds: gradient that arrives at the sum directly, or absent
    strided_view<TX>       dx;
    strided_view<TY>       dm; // or absent
    const float           *w, *rstd;
    float                 *part; // (blocks, C): partial sums of dw
    int64_t                rows, cols;
    int                    threads;
    bool                   dx_adds, dm_adds;
};

/* to (+)= d */
template <typename T, int V> static __device__ __forceinline__ void put_grad(T *to, const float (&d)[V], bool adds)
{
    if (!adds) {
        store(to, d);
        return;
    }
    float all[V];
    load(all, to);
#pragma unroll
    for (int v = 0; v < V; v++) all[v] += d[v];
    store(to, all);
}

template <typename TX, typename TY, int V, int NV, int STAGES>
__global__ void __launch_bounds__(MBA__GROUP_THREADS_MAX, NV == 1 ? 2 : 1) norm_bwd_group(norm_grads<TX, TY> a)
{
    constexpr int           XB = V * (int)sizeof(TX), YB = V * (int)sizeof(TY);
    constexpr bool          KEEP = V * NV <= 16; // the weights stay in registers
    extern __shared__ uint4 memory[];
    __shared__ __align__(16) float warps[STAGES][MBA__GROUPS_MAX * GROUP_WARPS];
    const thread_group             t = group_of_thread(a.threads);
    const int                      cols = (int)a.cols, rows = (int)a.rows, thread_groups = blockDim.x / t.threads,
              step = gridDim.x * thread_groups;
    const int             own = t.lane * V, apart = t.threads * V;
    const bool            streams = a.ds.at, branches = a.dm.at;
    const float           each = 1 / (float)cols;
    const strip<const TX> in_x(a.x, own), in_ds(a.ds, own);
    const strip<const TY> in_dy(a.dy, own);
    const strip<TX>       out_dx(a.dx, own);
    const strip<TY>       out_dm(a.dm, own);
    /* slots of this thread for vector i of x, dy and ds */
    const int   plane = NV * blockDim.x, stage_bytes = plane * ((streams ? 2 : 1) * XB + YB);
    char *const slots = (char *)memory;
    const auto  slot_x = [=](int stage, int i) {
        return (TX *)(slots + stage * stage_bytes + (i * (int)blockDim.x + (int)threadIdx.x) * XB);
    };
    const auto slot_dy = [=](int stage, int i) {
        return (TY *)(slots + stage * stage_bytes + plane * XB + (i * (int)blockDim.x + (int)threadIdx.x) * YB);
    };
    const auto slot_ds = [=](int stage, int i) {
        return (TX *)(slots + stage * stage_bytes + plane * (XB + YB) + (i * (int)blockDim.x + (int)threadIdx.x) * XB);
    };
    const auto copy_row = [&](int row, int stage) {
        if (row < rows)
#pragma unroll
            for (int i = 0; i < NV; i++) {
                if (own + i * apart >= cols) continue;
                copy_async<XB>(slot_x(stage, i), in_x.row(row) + i * apart);
                copy_async<YB>(slot_dy(stage, i), in_dy.row(row) + i * apart);
                if (streams) copy_async<XB>(slot_ds(stage, i), in_ds.row(row) + i * apart);
            }
        copy_async_commit();
    };

    float dw[NV][V], kept[KEEP ? NV : 1][V];
#pragma unroll
    for (int i = 0; i < NV; i++) {
#pragma unroll
        for (int v = 0; v < V; v++) dw[i][v] = 0;
        if (KEEP && own + i * apart < cols) load_weights(kept[KEEP ? i : 0], a.w + own + i * apart);
    }
    int   row = (int)blockIdx.x * thread_groups + t.number, stage = 0;
    float next = row < rows ? a.rstd[row] : 0;
#pragma unroll
    for (int k = 0; k < STAGES; k++) {
        group_zero_unused(t, warps[k]);
        if (k < STAGES - 1) copy_row(row + k * step, k);
    }
    for (int first = (int)blockIdx.x * thread_groups; first < rows;
         first += step, row += step, stage = stage == STAGES - 1 ? 0 : stage + 1) {
        const float k = next;
        const int   end = row < rows ? cols : 0;
        copy_row(row + (STAGES - 1) * step, stage == 0 ? STAGES - 1 : stage - 1);
        next = row + step < rows ? a.rstd[row + step] : 0;
        copy_async_wait<STAGES - 1>();

        // 1. the sum over x w dy of the row
        float dot = 0;
#pragma unroll
        for (int i = 0; i < NV; i++) {
            if (own + i * apart >= end) continue;
            float x[V], dy[V], w[V];
            load(x, slot_x(stage, i));
            load(dy, slot_dy(stage, i));
            if (!KEEP) load_weights(w, a.w + own + i * apart);
#pragma unroll
            for (int v = 0; v < V; v++) dot = fmaf(x[v] * (KEEP ? kept[KEEP ? i : 0][v] : w[v]), dy[v], dot);
        }
        const float back = group_sum<false>(dot, t, warps[stage]) * each * k * k * k;

        // 2. gradients; factors that are common to a row are multiplied first
#pragma unroll
        for (int i = 0; i < NV; i++) {
            if (own + i * apart >= end) continue;
            float x[V], dy[V], w[V], d[V];
            load(x, slot_x(stage, i));
            load(dy, slot_dy(stage, i));
            if (!KEEP) load_weights(w, a.w + own + i * apart);
            if (streams) load(d, slot_ds(stage, i));
#pragma unroll
            for (int v = 0; v < V; v++) {
                const float r = dy[v] * k;
                dw[i][v] = fmaf(x[v], r, dw[i][v]);
                d[v] = fmaf(KEEP ? kept[KEEP ? i : 0][v] : w[v], r, fmaf(-x[v], back, streams ? d[v] : 0.0f));
            }
            put_grad(out_dx.row(row) + i * apart, d, a.dx_adds);
            if (branches) put_grad(out_dm.row(row) + i * apart, d, a.dm_adds); // dm may be dx: read after dx is written
        }
    }
    store_block_partial(a.part + blockIdx.x * a.cols, (float *)memory, dw, t, cols);
}

template <typename TX, typename TY>
__global__ void __launch_bounds__(MBA__LOOP_THREADS) norm_bwd_loop(norm_grads<TX, TY> a)
{
    __shared__ __align__(16) float warps[2][GROUP_WARPS];
    const thread_group             t = group_one_per_block(MBA__LOOP_THREADS);
    float                         *part = a.part + blockIdx.x * a.cols;
    int                            turn = 0;
    group_zero_unused(t, warps[0]);
    group_zero_unused(t, warps[1]);
    for (int64_t row = blockIdx.x; row < a.rows; row += gridDim.x, turn ^= 1) {
        const TX   *x = a.x.row(row, a.cols), *ds = a.ds.at ? a.ds.row(row, a.cols) : NULL;
        const TY   *dy = a.dy.row(row, a.cols);
        TX         *dx = a.dx.row(row, a.cols);
        TY         *dm = a.dm.at ? a.dm.row(row, a.cols) : NULL;
        const float k = a.rstd[row];
        float       dot = 0;
        for (int64_t c = threadIdx.x; c < a.cols; c += MBA__LOOP_THREADS)
            dot += to_float(x[c]) * a.w[c] * to_float(dy[c]);
        const float back = group_sum<true>(dot, t, warps[turn]) / (float)a.cols * k * k * k;
        for (int64_t c = threadIdx.x; c < a.cols; c += MBA__LOOP_THREADS) {
            const float r = to_float(dy[c]) * k, h = to_float(x[c]);
            const float d[1] = { a.w[c] * r - h * back + (ds ? to_float(ds[c]) : 0) };
            part[c] = h * r + (row == blockIdx.x ? 0 : part[c]);
            put_grad(dx + c, d, a.dx_adds);
            if (dm) put_grad(dm + c, d, a.dm_adds);
        }
    }
}

#endif
