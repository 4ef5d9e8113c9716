// SPDX-License-Identifier: Apache-2.0
/* soft_cross_entropy_cuda.cu -- cross entropy of rows of logits with soft targets or smoothed labels. The kernels of
 * ops/cross_entropy sum the losses and compute the scale.
 *
 *   each[r] = A lse[r] - t . z,   dz[r,c] = k (A exp(z[r,c] - lse[r]) - t[r,c]),   A = sum_c t[r,c]
 *   labels: A = 1, t = (1-s) [c = y] + s/C
 *   z, dz (R, C) fp32 or bf16     t (R, C) fp32 or y (R) i32     lse, each (R) fp32
 *
 * kernel     soft_cross_entropy_fwd_rows     a group of 32 or 256 threads per row, one pass
 * kernel     soft_cross_entropy_bwd_rows     the same thread groups; soft targets are read twice, for A and for t
 * takes      everything; four values at a time where rows of z, t and dz allow it
 * launch     grid ceil(R / (256 / group)), block 256
 * resources  sm_90a, CUDA 13.0: soft_cross_entropy_fwd_rows 30 to 32 registers, 64 B of shared memory, no spill  [docs]
 *            soft_cross_entropy_bwd_rows 28 to 40 registers, 32 B of shared memory, no spill  [docs]
 * moves      each operand once: bound by DRAM, or by latency for the few rows of a batch of images
 * measured   H200: soft_cross_entropy_fwd_rows 5.89 us, 4 % of floor (memory), special 7 % busy;  [docs]
 *              mambavision-t, 128 images  [docs]
 *            soft_cross_entropy_bwd_rows 5.15 us, 8 % of floor (memory), ALU 7 % busy;  [docs]
 *              mambavision-t, 128 images  [docs]
 * order      fixed: a thread adds its columns in ascending order, then a tree adds the threads */
#include "ops/cross_entropy/cross_entropy_rows.cuh"
extern "C" {
#include "ops/soft_cross_entropy/soft_cross_entropy_slots.h"
}

enum { VALUES = 4 };

/* HARD decides which of `soft` and `label` exists. */
struct targets {
    strided_view<const float>   soft;
    strided_view<const int32_t> label;
    float                       smoothing;
};

/* The label of row r; 0 for soft targets; -1 if the row does not count. */
template <bool HARD>
static __device__ __forceinline__ int label_of(const targets &t, int64_t r, ragged rows, const mba_step *step)
{
    return r >= valid_rows_of(rows, step) ? -1 : HARD ? *t.label.element(r) : 0;
}

template <typename T, int N, bool HARD>
static __device__ __forceinline__ void take(ce_sum &s, float &dot, float &all, const T *z, const float *t, int c)
{
    float v[N], w[N];
    load(v, z + c);
    if (!HARD) load(w, t + c);
    ce_take(s, v);
#pragma unroll
    for (int i = 0; i < N; i++) {
        dot += HARD ? v[i] : w[i] * v[i];
        if (!HARD) all += w[i];
    }
}

template <typename T, int N, int GROUP, bool HARD>
__global__ void __launch_bounds__(CE_BLOCK)
    soft_cross_entropy_fwd_rows(float *lse, float *each, strided_view<const T> z, targets t, ragged rows, int cols,
                                const mba_step *step)
{
    const int64_t r = (int64_t)blockIdx.x * (CE_BLOCK / GROUP) + threadIdx.x / GROUP;
    const int     lane = threadIdx.x % GROUP;
    if (r >= rows.all) return; // uniform per thread group
    const T     *row = z.row(r, cols);
    const float *soft = HARD ? NULL : t.soft.row(r, cols);
    ce_sum       s = { CE_NONE, 0 };
    float        dot = 0, all = 0;
    for (int c = lane * N; c + N <= cols; c += GROUP * N) take<T, N, HARD>(s, dot, all, row, soft, c);
    for (int c = cols / N * N + lane; c < cols; c += GROUP) take<T, 1, HARD>(s, dot, all, row, soft, c);
    const float l = ce_lse<GROUP>(s);
    dot = block_sum<GROUP>(dot);
    all = block_sum<GROUP>(all);
    if (lane) return;
    const int   y = label_of<HARD>(t, r, rows, step);
    const float evenly = t.smoothing > 0 ? t.smoothing / (float)cols * dot
                                         : 0; // avoids 0 times -infinity of a masked logit
    lse[r] = l;
    each[r] = y < 0 ? 0 : HARD ? l - (1 - t.smoothing) * to_float(row[y]) - evenly : all * l - dot;
}

struct gradient {
    float k, all, lse, evenly, picked;
    int   y;
}; /* labels: s/C for every class, 1-s for class y */

template <typename T, int N, bool HARD, bool ADDS>
static __device__ __forceinline__ void put(T *dz, const T *z, const float *t, const gradient &g, int c)
{
    float v[N], w[N], old[N];
    load(v, z + c);
    if (!HARD) load(w, t + c);
    if (ADDS) load(old, dz + c);
#pragma unroll
    for (int i = 0; i < N; i++) {
        const float target = HARD ? g.evenly + (c + i == g.y ? g.picked : 0) : w[i];
        v[i] = g.k * (g.all * __expf(v[i] - g.lse) - target) + (ADDS ? old[i] : 0);
    }
    store(dz + c, v);
}

template <typename T, int N, int GROUP, bool HARD, bool ADDS>
__global__ void __launch_bounds__(CE_BLOCK)
    soft_cross_entropy_bwd_rows(strided_view<T> dz, strided_view<const T> z, targets t, const float *lse,
                                const float *scale, ragged rows, int cols, const mba_step *step)
{
    const int64_t r = (int64_t)blockIdx.x * (CE_BLOCK / GROUP) + threadIdx.x / GROUP;
    const int     lane = threadIdx.x % GROUP;
    if (r >= rows.all) return;
    const int y = label_of<HARD>(t, r, rows, step);
    T        *to = dz.row(r, cols);
    if (y < 0) {
        if (!ADDS) ce_zero_row<N, GROUP>(to, cols, lane);
        return;
    }
    const T     *from = z.row(r, cols);
    const float *soft = HARD ? NULL : t.soft.row(r, cols);
    float        all = 0;
    for (int c = lane; c < cols && !HARD; c += GROUP) all += soft[c];
    const gradient g = {
        *scale, HARD ? 1 : block_sum<GROUP>(all), lse[r], t.smoothing / (float)cols, 1 - t.smoothing, y
    };
    for (int c = lane * N; c + N <= cols; c += GROUP * N) put<T, N, HARD, ADDS>(to, from, soft, g, c);
    for (int c = cols / N * N + lane; c < cols; c += GROUP) put<T, 1, HARD, ADDS>(to, from, soft, g, c);
}

static targets targets_of(const mba_node *n, const mba_tensor *t, void *at)
{
    const bool hard = t->type.dtype == MBA_I32;
    targets    x = { mba_strided_view<const float>(hard ? NULL : t, at),
                     mba_strided_view<const int32_t>(hard ? t : NULL, at),
                     (float)((const soft_ce_attr *)n->attr)->smoothing };
    return x;
}

static bool fit(const mba_tensor *t, const void *at)
{
    return t->type.dtype == MBA_I32 || mba_vec_aligned(t, at, VALUES);
}

extern "C" mba_status soft_cross_entropy_cuda(const mba_call *c)
{
    const mba_tensor *z = c->node->in[Z], *target = c->node->in[TARGET];
    const targets     t = targets_of(c->node, target, c->in[TARGET]);
    const ragged      rows = mba_ragged_rows(z);
    float            *each = (float *)mba_cuda_scratch(c, 0), *lse = (float *)c->out[LSE];
    MBA_WITH_DTYPE(z->type.dtype, T,
                   MBA_WITH_BOOL(fit(z, c->in[Z]) && fit(target, c->in[TARGET]), VECTORS,
                                 CE_WITH_GROUP(mba_cols(z), GROUP,
                                               MBA_WITH_BOOL(target->type.dtype == MBA_I32, HARD,
                                                             auto *kernel = soft_cross_entropy_fwd_rows < T,
                                                             VECTORS ? VALUES : 1, GROUP, HARD > ;
                                                             MBA_KERNEL(c, 0, kernel, lse, each,
                                                                        mba_strided_view<const T>(z, c->in[Z]), t, rows,
                                                                        (int)mba_cols(z), c->step)))));
    MBA_KERNEL(c, 1, cross_entropy_fwd_total, (float *)c->out[LOSS], each, t.label, NULL, rows, c->step);
    return MBA_OK;
}

extern "C" mba_status soft_cross_entropy_bwd_cuda(const mba_call *c)
{
    const mba_node   *n = c->node;
    const mba_tensor *z = n->in[ZB], *target = n->in[TARGETB];
    const targets     t = targets_of(n, target, c->in[TARGETB]);
    const ragged      rows = mba_ragged_rows(z);
    const bool        vectors = fit(z, c->in[ZB]) && fit(target, c->in[TARGETB]) && fit(n->out[DZ], c->out[DZ]);
    float            *scale = (float *)mba_cuda_scratch(c, 0);
    MBA_KERNEL(c, 0, cross_entropy_bwd_scale, scale, (const float *)c->in[DLOSS], t.label, rows, c->step);
    MBA_WITH_DTYPE(
        z->type.dtype, T,
        MBA_WITH_BOOL(vectors, VECTORS,
                      MBA_WITH_BOOL(mba_adds(n, DZ), ADDS,
                                    CE_WITH_GROUP(mba_cols(z), GROUP,
                                                  MBA_WITH_BOOL(target->type.dtype == MBA_I32, HARD,
                                                                auto *kernel = soft_cross_entropy_bwd_rows < T,
                                                                VECTORS ? VALUES : 1, GROUP, HARD, ADDS > ;
                                                                MBA_KERNEL(c, 1, kernel,
                                                                           mba_strided_view<T>(n->out[DZ], c->out[DZ]),
                                                                           mba_strided_view<const T>(z, c->in[ZB]), t,
                                                                           (const float *)c->in[LSEB], scale, rows,
                                                                           (int)mba_cols(z), c->step))))));
    return MBA_OK;
}
