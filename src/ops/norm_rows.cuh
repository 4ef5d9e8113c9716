/* norm_rows.cuh -- rows of a root-mean-square norm on CUDA, for rmsnorm and add_rmsnorm; parts of it for gated_rmsnorm.
 *
 *   s = x + m (or x)     y = w s rstd     rstd = 1 / sqrt(mean(s^2) + eps)
 *   dx = ds + rstd (w dy - h c), dm the same     dw = sum over rows of dy h     h = s rstd, c = mean(h w dy)
 *
 * x, ds, dx are of one type (the stream's, fp32), m, y, dy and dm of another (the branch's); w, rstd, dw are fp32.
 * Outputs may lie in inputs, row by row and element by element: what a thread overwrites it has read itself.
 *
 * kernel     norm_fwd_team     a team of threads per row, the row stays in registers
 * kernel     norm_bwd_team     blocks stay; a team goes through rows with a stride, the next row on its way by asynchronous
 *                              copies into the thread's own slots; dw in registers, then per block
 * takes      rows of whole pieces, up to 2048 of them
 * launch     forward: grid ceil(R / teams), block teams * threads; backward: grid as many blocks as fit on the
 *            SMs, four an SM at most, dynamic smem two rows of each team
 * resources  sm_90: forward 30 to 62 registers (bf16 throughout: 92), backward 40 to 98 (110); no spill
 * moves      every operand once, parts of dw beside it: bound by DRAM
 * floor      add_rmsnorm, R=16384 C=768, bf16 branch: forward 151 MB, 35 us, backward 201 MB, 47 us at 4.3 TB/s (copy)
 * measured   none yet
 * kernel     norm_fwd_loop, norm_bwd_loop     a block per row, which is read twice: odd and very long rows
 * takes      everything
 * order      fixed by shape and machine: lanes, warps of a team, rows of a team, teams of a block, blocks */
#ifndef MBA_OPS_NORM_ROWS_CUH
#define MBA_OPS_NORM_ROWS_CUH

#include "device/cuda/async.cuh"
#include "device/cuda/columns.cuh"
extern "C" {
#include "ops/norm_plan.h"
}

/* The pieces of a thread as a constant of the kernel. */
#define MBA_WITH_PIECES(n, NV, ...)                                                                            \
    do {                                                                                                       \
        if ((n) == 1)      { constexpr int NV = 1; __VA_ARGS__; }                                              \
        else if ((n) == 2) { constexpr int NV = 2; __VA_ARGS__; }                                              \
        else if ((n) == 3) { constexpr int NV = 3; __VA_ARGS__; }                                              \
        else               { constexpr int NV = 4; __VA_ARGS__; }                                              \
    } while (0)

/* ---- teams ---- */

/* Teams of several warps meet at a barrier of their own. Its number is a constant in each branch: an SM has few barriers, and a
 * block whose numbers are not known takes all sixteen, which leaves little room for others (measured: add_rmsnorm forward at 39 instead of 86 % of the copy rate). */
static __device__ __forceinline__ void team_meet(int team, int threads)
{
    if (team == 0)      asm volatile("bar.sync 1, %0;" ::"r"(threads) : "memory");
    else if (team == 1) asm volatile("bar.sync 2, %0;" ::"r"(threads) : "memory");
    else if (team == 2) asm volatile("bar.sync 3, %0;" ::"r"(threads) : "memory");
    else                asm volatile("bar.sync 4, %0;" ::"r"(threads) : "memory");
}

/* Sum over a team: neighbours, a power of two of them or whole warps. `warps` has a place for every warp of the block; it is
 * free again once the team has met in another sum. Every lane of the block's warps takes part. ALONE: a team of several warps
 * is the whole block; else a block holds four of them at most. */
template <bool ALONE> static __device__ __forceinline__ float team_sum(float x, int threads, float *warps)
{
    for (int d = (threads < 32 ? threads : 32) / 2; d; d >>= 1) x += __shfl_xor_sync(0xffffffffu, x, d);
    if (threads <= 32) return x;
    const int warp = threadIdx.x / 32, each = threads / 32, team = ALONE ? 0 : warp / each;
    if (threadIdx.x % 32 == 0) warps[warp] = x;
    if (ALONE) __syncthreads();
    else       team_meet(team, threads);
    x = 0;
    for (int w = team * each; w < (team + 1) * each; w++) x += warps[w];
    return x;
}

/* V weights, fp32, aligned to 16 bytes if V > 1. */
template <int V> static __device__ __forceinline__ void load_weights(float (&to)[V], const float *from)
{
    if constexpr (V > 4) {
#pragma unroll
        for (int i = 0; i < V; i += 4) {
            const float4 w = *(const float4 *)(from + i);
            to[i] = w.x; to[i + 1] = w.y; to[i + 2] = w.z; to[i + 3] = w.w;
        }
    } else {
        load(to, from);
    }
}

/* What the block's teams have summed, to one part; `memory` is the block's shared memory, and nobody uses it any more. */
template <int V, int NV>
static __device__ __forceinline__ void keep_part(float *part, float *memory, const float (&dw)[NV][V], int threads, int cols)
{
    const int lane = threadIdx.x % threads, team = threadIdx.x / threads, teams = blockDim.x / threads;
    copy_async_wait<0>();
    __syncthreads();
#pragma unroll
    for (int i = 0; i < NV; i++) {
        const int c = (lane + i * threads) * V;
        if (c < cols)
#pragma unroll
            for (int v = 0; v < V; v++) memory[team * cols + c + v] = dw[i][v];
    }
    __syncthreads();
    for (int c = threadIdx.x; c < cols; c += blockDim.x) {
        float sum = 0;
        for (int t = 0; t < teams; t++) sum += memory[t * cols + c];
        part[c] = sum;
    }
}

struct keep_dw {
    float *dw;
    bool   adds;
    __device__ void operator()(int64_t i, const float (&total)[1], const mba_step *) const { dw[i] = total[0] + (adds ? dw[i] : 0); }
};

/* Launch 1 of a backward: dw from the parts that launch 0 left in scratch 0. */
static inline mba_status mba__norm_dw(const mba_call *c, int out, int64_t cols)
{
    const keep_dw use = { (float *)c->out[out], mba_adds(c->node, out) };
    MBA_KERNEL(c, 1, (column_totals<1, keep_dw>), (const float *)mba_cuda_scratch(c, 0), cols, (int)c->plan->launch[0].grid[0], use, c->step);
    return MBA_OK;
}

/* ---- forward ---- */

template <typename TX, typename TY> struct norm_rows {
    window<const TX> x;                           // (R, C)
    window<const TY> m;                           // (R, C), or absent, and then sum too
    window<TX>       sum;
    window<TY>       y;
    const float     *w;                           // (C)
    float           *rstd;                        // (R)
    int64_t          rows, cols;
    float            eps;
    int              threads;
};

template <typename TX, typename TY, int V, int NV>
__global__ void __launch_bounds__(MBA__TEAM_MAX, 1) norm_fwd_team(norm_rows<TX, TY> a)
{
    __shared__ float warps[MBA__TEAM_MAX / 32];
    const int     lane = threadIdx.x % a.threads, cols = (int)a.cols;
    const int64_t row = (int64_t)blockIdx.x * (blockDim.x / a.threads) + threadIdx.x / a.threads;
    const int     end = row < a.rows ? cols : 0;          // beyond the last row there are no columns
    float         s[NV][V], ss = 0;

    // 1. read the row once, add the branch, sum the squares
#pragma unroll
    for (int i = 0; i < NV; i++) {
        const int c = (lane + i * a.threads) * V;
#pragma unroll
        for (int v = 0; v < V; v++) s[i][v] = 0;
        if (c < end) load(s[i], a.x.row(row, cols) + c);
    }
    if (a.m.at) {
        float m[NV][V];
#pragma unroll
        for (int i = 0; i < NV; i++) {
            const int c = (lane + i * a.threads) * V;
            if (c < end) load(m[i], a.m.row(row, cols) + c);
        }
#pragma unroll
        for (int i = 0; i < NV; i++) {
            const int c = (lane + i * a.threads) * V;
            if (c >= end) continue;
#pragma unroll
            for (int v = 0; v < V; v++) s[i][v] += m[i][v];
            store(a.sum.row(row, cols) + c, s[i]);
        }
    }
#pragma unroll
    for (int i = 0; i < NV; i++)
#pragma unroll
        for (int v = 0; v < V; v++) ss = fmaf(s[i][v], s[i][v], ss);

    // 2. every thread learns the sum of its row
    const float k = rsqrtf(team_sum<true>(ss, a.threads, warps) / (float)cols + a.eps);
    if (lane == 0 && end) a.rstd[row] = k;

    // 3. scale and write
#pragma unroll
    for (int i = 0; i < NV; i++) {
        const int c = (lane + i * a.threads) * V;
        if (c >= end) continue;
        float w[V];
        load_weights(w, a.w + c);
#pragma unroll
        for (int v = 0; v < V; v++) w[v] *= s[i][v] * k;
        store(a.y.row(row, cols) + c, w);
    }
}

template <typename TX, typename TY> __global__ void __launch_bounds__(MBA__LOOP_THREADS) norm_fwd_loop(norm_rows<TX, TY> a)
{
    __shared__ float warps[MBA__LOOP_THREADS / 32];
    const int64_t row = blockIdx.x;
    const TX     *x = a.x.row(row, a.cols);
    const TY     *m = a.m.at ? a.m.row(row, a.cols) : NULL;
    TX           *sum = a.m.at ? a.sum.row(row, a.cols) : NULL;
    TY           *y = a.y.row(row, a.cols);
    float         ss = 0;
    for (int64_t c = threadIdx.x; c < a.cols; c += MBA__LOOP_THREADS) {
        const float s = to_float(x[c]) + (m ? to_float(m[c]) : 0);
        if (sum) sum[c] = from_float<TX>(s);
        ss += s * s;
    }
    const float k = rsqrtf(team_sum<true>(ss, MBA__LOOP_THREADS, warps) / (float)a.cols + a.eps);
    if (threadIdx.x == 0) a.rstd[row] = k;
    for (int64_t c = threadIdx.x; c < a.cols; c += MBA__LOOP_THREADS)
        y[c] = from_float<TY>(to_float(sum ? sum[c] : x[c]) * k * a.w[c]);
}

/* ---- backward ---- */

template <typename TX, typename TY> struct norm_grads {
    window<const TY> dy;                          // (R, C)
    window<const TX> ds, x;                       // ds flows into the sum from above, or is absent
    window<TX>       dx;
    window<TY>       dm;                          // or absent
    const float     *w, *rstd;
    float           *part;                        // (parts, C)
    int64_t          rows, cols;
    int              threads;
    bool             dx_adds, dm_adds;
};

/* to (+)= d */
template <typename T, int V> static __device__ __forceinline__ void put_grad(T *to, const float (&d)[V], bool adds)
{
    float all[V];
#pragma unroll
    for (int v = 0; v < V; v++) all[v] = 0;
    if (adds) load(all, to);
#pragma unroll
    for (int v = 0; v < V; v++) all[v] += d[v];
    store(to, all);
}

template <typename TX, typename TY, int V, int NV>
__global__ void __launch_bounds__(MBA__TEAM_MAX, 1) norm_bwd_team(norm_grads<TX, TY> a)
{
    constexpr int  XB = V * (int)sizeof(TX), YB = V * (int)sizeof(TY);
    constexpr bool KEEP = V * NV <= 16;                   // the weights stay in registers
    extern __shared__ uint4 memory[];
    __shared__ float warps[2][MBA__TEAM_MAX / 32];
    const int     lane = threadIdx.x % a.threads, team = threadIdx.x / a.threads, cols = (int)a.cols;
    const int     teams = blockDim.x / a.threads, plane = NV * blockDim.x, stage_bytes = plane * ((a.ds.at ? 2 : 1) * XB + YB);
    const int64_t step = (int64_t)gridDim.x * teams;
    /* the slots of this thread: x, dy, ds of piece i */
    char *const slots = (char *)memory;
    const auto slot_x  = [=](int stage, int i) { return (TX *)(slots + stage * stage_bytes + (i * (int)blockDim.x + (int)threadIdx.x) * XB); };
    const auto slot_dy = [=](int stage, int i) {
        return (TY *)(slots + stage * stage_bytes + plane * XB + (i * (int)blockDim.x + (int)threadIdx.x) * YB); };
    const auto slot_ds = [=](int stage, int i) {
        return (TX *)(slots + stage * stage_bytes + plane * (XB + YB) + (i * (int)blockDim.x + (int)threadIdx.x) * XB); };
    const auto fetch = [&](int64_t row, int stage) {
        if (row < a.rows)
#pragma unroll
            for (int i = 0; i < NV; i++) {
                const int c = (lane + i * a.threads) * V;
                if (c >= cols) continue;
                copy_async<XB>(slot_x(stage, i), a.x.row(row, cols) + c);
                copy_async<YB>(slot_dy(stage, i), a.dy.row(row, cols) + c);
                if (a.ds.at) copy_async<XB>(slot_ds(stage, i), a.ds.row(row, cols) + c);
            }
        copy_async_commit();
    };

    float dw[NV][V], kept[KEEP ? NV : 1][V];
#pragma unroll
    for (int i = 0; i < NV; i++) {
        const int c = (lane + i * a.threads) * V;
#pragma unroll
        for (int v = 0; v < V; v++) dw[i][v] = 0;
        if (KEEP && c < cols) load_weights(kept[KEEP ? i : 0], a.w + c);
    }
    int64_t row = (int64_t)blockIdx.x * teams + team;
    float   next = row < a.rows ? a.rstd[row] : 0;
    int     stage = 0;
    fetch(row, 0);
    for (int64_t first = (int64_t)blockIdx.x * teams; first < a.rows; first += step, row += step, stage ^= 1) {
        const float k = next;
        const int   end = row < a.rows ? cols : 0;
        fetch(row + step, stage ^ 1);
        next = row + step < a.rows ? a.rstd[row + step] : 0;
        copy_async_wait<1>();

        // 1. the sum over x w dy of the row
        float dot = 0;
#pragma unroll
        for (int i = 0; i < NV; i++) {
            const int c = (lane + i * a.threads) * V;
            if (c >= end) continue;
            float x[V], dy[V], w[V];
            load(x, slot_x(stage, i));
            load(dy, slot_dy(stage, i));
            if (!KEEP) load_weights(w, a.w + c);
#pragma unroll
            for (int v = 0; v < V; v++) dot = fmaf(x[v] * (KEEP ? kept[KEEP ? i : 0][v] : w[v]), dy[v], dot);
        }
        const float back = team_sum<false>(dot, a.threads, warps[stage]) / (float)cols * k * k * k;

        // 2. gradients; factors that a row has in common are multiplied first
#pragma unroll
        for (int i = 0; i < NV; i++) {
            const int c = (lane + i * a.threads) * V;
            if (c >= end) continue;
            float x[V], dy[V], w[V], d[V];
            load(x, slot_x(stage, i));
            load(dy, slot_dy(stage, i));
            if (!KEEP) load_weights(w, a.w + c);
            if (a.ds.at) load(d, slot_ds(stage, i));
#pragma unroll
            for (int v = 0; v < V; v++) {
                const float t = dy[v] * k;
                dw[i][v] = fmaf(x[v], t, dw[i][v]);
                d[v]     = fmaf(KEEP ? kept[KEEP ? i : 0][v] : w[v], t, fmaf(-x[v], back, a.ds.at ? d[v] : 0.0f));
            }
            put_grad(a.dx.row(row, cols) + c, d, a.dx_adds);
            if (a.dm.at) put_grad(a.dm.row(row, cols) + c, d, a.dm_adds);      // may be dx itself: read after dx is written
        }
    }
    keep_part(a.part + blockIdx.x * a.cols, (float *)memory, dw, a.threads, cols);
}

template <typename TX, typename TY> __global__ void __launch_bounds__(MBA__LOOP_THREADS) norm_bwd_loop(norm_grads<TX, TY> a)
{
    __shared__ float warps[2][MBA__LOOP_THREADS / 32];
    float *part = a.part + blockIdx.x * a.cols;
    int    turn = 0;
    for (int64_t row = blockIdx.x; row < a.rows; row += gridDim.x, turn ^= 1) {
        const TX   *x = a.x.row(row, a.cols), *ds = a.ds.at ? a.ds.row(row, a.cols) : NULL;
        const TY   *dy = a.dy.row(row, a.cols);
        TX         *dx = a.dx.row(row, a.cols);
        TY         *dm = a.dm.at ? a.dm.row(row, a.cols) : NULL;
        const float k = a.rstd[row];
        float       dot = 0;
        for (int64_t c = threadIdx.x; c < a.cols; c += MBA__LOOP_THREADS) dot += to_float(x[c]) * a.w[c] * to_float(dy[c]);
        const float back = team_sum<true>(dot, MBA__LOOP_THREADS, warps[turn]) / (float)a.cols * k * k * k;
        for (int64_t c = threadIdx.x; c < a.cols; c += MBA__LOOP_THREADS) {
            const float t = to_float(dy[c]) * k, h = to_float(x[c]);
            const float d[1] = { a.w[c] * t - h * back + (ds ? to_float(ds[c]) : 0) };
            part[c] = h * t + (row == blockIdx.x ? 0 : part[c]);
            put_grad(dx + c, d, a.dx_adds);
            if (dm) put_grad(dm + c, d, a.dm_adds);
        }
    }
}

#endif
