// SPDX-License-Identifier: Apache-2.0
/* cross_entropy_rows.cuh -- CUDA kernels over rows of logits, shared by the losses: cross_entropy,
 * weighted_cross_entropy, linear_cross_entropy (whose rows are a block of logits in scratch); soft_cross_entropy uses
 * the device functions.
 *
 *   lse[r] = log sum_c exp(z[r,c]),   each[r] = lse[r] - z[r,y(r)],   dz[r,c] = k (exp(z[r,c] - lse[r]) - [c = y(r)])
 *   z, dz (R, C) fp32 or bf16     y (R) i32, negative: no target     lse, each (R) fp32
 *
 * kernel     cross_entropy_fwd_rows     a group of 32 or 256 threads per row; maximum and sum in one pass
 * takes      fp32, bf16, any columns below 2^30; 16-byte vectors where rows begin at multiples of 16 bytes
 * launch     grid ceil(R / (256 / group)), block 256
 * resources  sm_90a, CUDA 13.0: 31 to 63 registers, 64 B of shared memory, no spill  [docs]
 * moves      reads R C e + 4 R bytes, writes 8 R; R C exponentials: bound by DRAM
 * measured   H200: cross_entropy 119 us, 88 % of the copy rate; 130m, 4096 tokens  [docs: op cross_entropy]
 * order      fixed: a thread's columns ascend, threads are added as a tree
 *
 * kernel     cross_entropy_bwd_rows     the same thread groups; dz may share the memory of z
 * takes      as above
 * launch     grid ceil(R / (256 / group)), block 256
 * resources  sm_90a, CUDA 13.0: 27 to 64 registers, no spill  [docs]
 * moves      reads R C e + 8 R bytes, writes R C e (and reads that where it adds); R C exponentials: bound by DRAM
 * measured   H200: cross_entropy_bwd 258 us, 81 % of the copy rate; 130m, 4096 tokens  [docs: op cross_entropy_bwd]
 * order      no sums
 *
 * kernel     cross_entropy_fwd_total     one block: sums the losses of rows and counts the targets
 * kernel     cross_entropy_bwd_scale     one block: the factor of every row's gradient
 * takes      everything
 * launch     grid 1, block 1024
 * moves      reads 8 R bytes; bound by latency
 * measured   H200: cross_entropy_fwd_total 12.3 us, special 9 % busy; hybrid-headline, 4 x 4096  [docs]
 *            cross_entropy_bwd_scale 4.51 us, 1 % of floor (memory), ALU 19 % busy; mamba2-headline, 4 x 4096  [docs]
 * order      fixed, in double: a thread adds rows 1024 apart in ascending order, then a tree adds the threads */
#ifndef MBA_CROSS_ENTROPY_ROWS_CUH
#define MBA_CROSS_ENTROPY_ROWS_CUH

#include "device/cuda/common.cuh"
extern "C" {
#include "ops/cross_entropy/cross_entropy_plan.h"
}

/* sum of exp(z - max) over the logits so far. max starts at a number far below any logit, not at -infinity, so that
 * masked logits (-infinity) give 0 and never NaN: the factors below must stay finite. */
struct ce_sum {
    float max, sum;
};
constexpr float CE_NONE = -1e38f, CE_LOG2E = 1.44269504f;

/* exp(z - base / log2(e)) as one FMA and ex2. The rounding of base changes all exponentials of a row by the same
 * relative 2^-24 of it. fast_exp2 flushes denormals; without that the compiler emits three more instructions. */
static __device__ __forceinline__ float ce_exp(float z, float base) { return fast_exp2(fmaf(z, CE_LOG2E, -base)); }

template <int N> static __device__ __forceinline__ void ce_take(ce_sum &s, const float (&z)[N])
{
    float top = s.max, add = 0;
#pragma unroll
    for (int i = 0; i < N; i++) top = fmaxf(top, z[i]);
    const float base = top * CE_LOG2E;
#pragma unroll
    for (int i = 0; i < N; i++) add += ce_exp(z[i], base);
    s.sum = fmaf(s.sum, ce_exp(s.max, base), add);
    s.max = top;
}

/* log sum exp of a row, in all threads of its thread group. */
template <int GROUP> static __device__ __forceinline__ float ce_lse(ce_sum s)
{
    const float top = block_max<GROUP>(s.max);
    return top + logf(block_sum<GROUP>(s.sum * ce_exp(s.max, top * CE_LOG2E)));
}

/* A thread's share of a row: four vectors are loaded at a time, then the rest of the row element by element. */
enum { CE_AHEAD = 4 };

template <int N, int GROUP, typename T> static __device__ __forceinline__ ce_sum ce_row(const T *z, int cols, int lane)
{
    ce_sum s = { CE_NONE, 0 };
    for (int c = lane * N; c + N <= cols; c += CE_AHEAD * GROUP * N) {
        float v[CE_AHEAD][N];
#pragma unroll
        for (int j = 0; j < CE_AHEAD; j++)
            if (c + j * GROUP * N + N <= cols) load(v[j], z + c + j * GROUP * N);
#pragma unroll
        for (int j = 0; j < CE_AHEAD; j++)
            if (c + j * GROUP * N + N <= cols) ce_take(s, v[j]);
    }
    for (int c = cols / N * N + lane; c < cols; c += GROUP) {
        const float v[1] = { to_float(z[c]) };
        ce_take(s, v);
    }
    return s;
}

/* Row 0 of z corresponds to row `first` of the targets, lse and losses. Rows that are not valid get zeros. */
template <typename T, int N, int GROUP>
__global__ void __launch_bounds__(CE_BLOCK)
    cross_entropy_fwd_rows(float *lse, float *each, strided_view<const T> z, strided_view<const int32_t> target,
                           int64_t first, ragged rows, int cols, const mba_step *step)
{
    const int64_t r = (int64_t)blockIdx.x * (CE_BLOCK / GROUP) + threadIdx.x / GROUP;
    const int     lane = threadIdx.x % GROUP;
    if (r >= rows.all) return; // uniform per thread group
    const bool  real = r < valid_rows_of(rows, step);
    const T    *row = z.row(r, cols);
    const float l = ce_lse<GROUP>(ce_row<N, GROUP>(row, cols, lane));
    if (lane) return;
    const int y = real ? *target.element(first + r) : -1;
    lse[first + r] = real ? l : 0;
    each[first + r] = y < 0 ? 0 : l - to_float(row[y]);
}

/* The factor of a row's loss; 0 if no target is valid. */
static __device__ __forceinline__ double ce_scale(const mba_step *step, double valid)
{
    return valid == 0 ? 0 : step->loss_scale > 0 ? (double)step->loss_scale : 1 / valid;
}

/* Without targets (soft targets) every valid row counts. With class weights, which include the scale, rows are
 * weighted. */
static __global__ void __launch_bounds__(CE_TOTAL_BLOCK)
    cross_entropy_fwd_total(float *loss, const float *each, strided_view<const int32_t> target, const float *weight,
                            ragged rows, const mba_step *step)
{
    double sum = 0, valid = 0;
    for (int64_t r = threadIdx.x, real = valid_rows_of(rows, step); r < real; r += CE_TOTAL_BLOCK) {
        const int y = target.at ? *target.element(r) : 0;
        if (y < 0) continue;
        sum += (double)each[r] * (weight ? (double)weight[y] : 1);
        valid++;
    }
    sum = block_sum<CE_TOTAL_BLOCK>(sum);
    valid = block_sum<CE_TOTAL_BLOCK>(valid);
    if (threadIdx.x == 0) *loss = (float)(weight ? sum : sum * ce_scale(step, valid));
}

/* Counts targets only if the step does not give a scale: if there are none, all gradients are 0 anyway. */
static __global__ void __launch_bounds__(CE_TOTAL_BLOCK)
    cross_entropy_bwd_scale(float *scale, const float *dloss, strided_view<const int32_t> target, ragged rows,
                            const mba_step *step)
{
    double valid = 0;
    for (int64_t r = threadIdx.x, real = step->loss_scale > 0 ? 0 : valid_rows_of(rows, step); r < real;
         r += CE_TOTAL_BLOCK)
        valid += target.at ? *target.element(r) >= 0 : 1;
    valid = block_sum<CE_TOTAL_BLOCK>(valid);
    if (threadIdx.x == 0) *scale = (float)((double)*dloss * ce_scale(step, step->loss_scale > 0 ? 1 : valid));
}

template <int N, int GROUP, typename T> static __device__ __forceinline__ void ce_zero_row(T *dz, int cols, int lane)
{
    const float none[N] = { 0 };
    for (int c = lane * N; c + N <= cols; c += GROUP * N) store(dz + c, none);
    for (int c = cols / N * N + lane; c < cols; c += GROUP) dz[c] = from_float<T>(0);
}

template <typename T, int N, int GROUP, bool ADDS>
__global__ void __launch_bounds__(CE_BLOCK)
    cross_entropy_bwd_rows(strided_view<T> dz, strided_view<const T> z, strided_view<const int32_t> target,
                           const float *lse, const float *scale, const float *weight, int64_t first, ragged rows,
                           int cols, const mba_step *step)
{
    const int64_t r = (int64_t)blockIdx.x * (CE_BLOCK / GROUP) + threadIdx.x / GROUP;
    const int     lane = threadIdx.x % GROUP;
    if (r >= rows.all) return;
    const int y = r < valid_rows_of(rows, step) ? *target.element(first + r) : -1;
    T        *to = dz.row(r, cols);
    if (y < 0) {
        if (!ADDS) ce_zero_row<N, GROUP>(to, cols, lane);
        return;
    }
    const T    *from = z.row(r, cols);
    const float base = lse[first + r] * CE_LOG2E, k = *scale * (weight ? weight[y] : 1);
    for (int c = lane * N; c + N <= cols; c += CE_AHEAD * GROUP * N) {
        float v[CE_AHEAD][N];
#pragma unroll
        for (int j = 0; j < CE_AHEAD; j++)
            if (c + j * GROUP * N + N <= cols) load(v[j], from + c + j * GROUP * N);
#pragma unroll
        for (int j = 0; j < CE_AHEAD; j++) {
            const int at = c + j * GROUP * N;
            if (at + N > cols) break;
            float old[N];
            if (ADDS) load(old, to + at);
#pragma unroll
            for (int i = 0; i < N; i++)
                v[j][i] = k * ce_exp(v[j][i], base) - (at + i == y ? k : 0) + (ADDS ? old[i] : 0);
            store(to + at, v[j]);
        }
    }
    for (int c = cols / N * N + lane; c < cols; c += GROUP)
        to[c] = from_float<T>(k * ce_exp(to_float(from[c]), base) - (c == y ? k : 0) + (ADDS ? to_float(to[c]) : 0));
}

/* ---- launchers: kernel k of the plan, over rows first .. first + rows.all-1 ---- */

struct ce_rows {
    const mba_step             *step;
    strided_view<const int32_t> target;
    ragged                      rows;
    int64_t                     first;
    int                         cols;
    bool                        vectors; /* rows of z (and dz) begin at multiples of 16 bytes */
};

#define CE_WITH_GROUP(cols, GROUP, ...) \
    do { \
        if (ce_group_threads(cols) == CE_BLOCK) { \
            constexpr int GROUP = CE_BLOCK; \
            __VA_ARGS__; \
        } else { \
            constexpr int GROUP = 32; \
            __VA_ARGS__; \
        } \
    } while (0)

template <typename T>
static mba_status ce_fwd_rows(const mba_call *c, int k, const ce_rows *a, strided_view<const T> z, float *lse,
                              float *each)
{
    CE_WITH_GROUP(a->cols, GROUP,
                  MBA_WITH_BOOL(a->vectors, VECTORS, constexpr int N = VECTORS ? (int)vec16<T>::N : 1;
                                auto *kernel = cross_entropy_fwd_rows<T, N, GROUP>;
                                MBA_KERNEL(c, k, kernel, lse, each, z, a->target, a->first, a->rows, a->cols,
                                           a->step)));
    return MBA_OK;
}

template <typename T>
static mba_status ce_bwd_rows(const mba_call *c, int k, const ce_rows *a, strided_view<T> dz, strided_view<const T> z,
                              const float *lse, const float *scale, const float *weight, bool adds)
{
    CE_WITH_GROUP(a->cols, GROUP,
                  MBA_WITH_BOOL(a->vectors, VECTORS,
                                MBA_WITH_BOOL(adds, ADDS, constexpr int N = VECTORS ? (int)vec16<T>::N : 1;
                                              auto *kernel = cross_entropy_bwd_rows<T, N, GROUP, ADDS>;
                                              MBA_KERNEL(c, k, kernel, dz, z, a->target, lse, scale, weight, a->first,
                                                         a->rows, a->cols, a->step))));
    return MBA_OK;
}

#endif
