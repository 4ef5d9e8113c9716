// SPDX-License-Identifier: Apache-2.0
/* bce_cuda.cu -- binary cross entropy of logits over the entries with a target, and its gradient.
 *
 *   loss = sum_i scale[t > 1/2] (max(z, 0) - z t + log(1 + exp(-|z|))),   dz = dloss scale[t > 1/2] (sigmoid(z) - t)
 *   z, dz (..) fp32 or bf16     t (..) fp32, NaN: missing     scale (2), loss (1) fp32
 *
 * kernel     bce_fwd_block     one block counts the entries of both classes and sums their losses, in double
 * takes      everything
 * launch     grid 1, block 512
 * resources  sm_90a, CUDA 13.0: 38 registers, 128 B of shared memory, no spill  [docs]
 * moves      each operand once, by one SM: a batch has some thousand entries, so latency dominates
 * measured   H200: 4.06 us, ALU 10 % busy; graphmamba-peptides-func, 128 graphs  [docs]
 * order      fixed: a thread adds entries 512 apart in ascending order, then a tree adds the threads
 *
 * kernel     bce_bwd_elements     a thread per entry
 * launch     grid ceil(n/256), block 256
 * resources  sm_90a, CUDA 13.0: 26 to 28 registers, no spill  [docs]
 * moves      each operand once
 * measured   H200: 1.66 us, ALU 6 % busy; graphmamba-peptides-func, 128 graphs  [docs]
 * order      no sums */
#include "device/cuda/common.cuh"
extern "C" {
#include "ops/bce/bce_slots.h"
}

enum { BLOCK = 512 };

template <typename T>
__global__ void __launch_bounds__(BLOCK)
    bce_fwd_block(float *loss, float *scale, strided_view<const T> z, strided_view<const float> target, ragged entries,
                  bool weighted, const mba_step *step)
{
    double n[2] = { 0, 0 }, sum[2] = { 0, 0 };
    for (int64_t i = threadIdx.x, real = valid_rows_of(entries, step); i < real; i += BLOCK) {
        const float x = to_float(*z.element(i)), y = *target.element(i);
        if (y != y) continue;                                                            // NaN: a missing target
        const double each = (double)((x < 0 ? 0 : x) - x * y + log1pf(expf(-fabsf(x)))); // a NaN logit gives NaN
        if (y > 0.5f) {
            n[1]++;
            sum[1] += each;
        } else {
            n[0]++;
            sum[0] += each;
        }
    }
    for (int k = 0; k < 2; k++) {
        n[k] = block_sum<BLOCK>(n[k]);
        sum[k] = block_sum<BLOCK>(sum[k]);
    }
    if (threadIdx.x) return;
    const double all = n[0] + n[1], part = all > 0 ? 1 / all : 0;
    double       total = 0;
    for (int k = 0; k < 2; k++) {
        const double s = weighted ? (all - n[k]) * part * part : part;
        scale[k] = (float)s;
        total += s * sum[k];
    }
    *loss = (float)total;
}

template <typename T, bool ADDS>
__global__ void __launch_bounds__(256)
    bce_bwd_elements(strided_view<T> dz, strided_view<const T> z, strided_view<const float> target, const float *scale,
                     const float *dloss, ragged entries, const mba_step *step)
{
    const int64_t i = (int64_t)blockIdx.x * 256 + threadIdx.x;
    if (i >= entries.all) return;
    T    *to = dz.element(i);
    float d = 0;
    if (i < valid_rows_of(entries, step)) {
        const float y = *target.element(i), x = to_float(*z.element(i));
        if (y == y) d = *dloss * scale[y > 0.5f] * (1 / (1 + expf(-x)) - y);
    }
    *to = from_float<T>(d + (ADDS ? to_float(*to) : 0));
}

extern "C" mba_status bce_cuda(const mba_call *c)
{
    const mba_tensor *z = c->node->in[Z];
    MBA_WITH_DTYPE(z->type.dtype, T,
                   MBA_KERNEL(c, 0, bce_fwd_block<T>, (float *)c->out[LOSS], (float *)c->out[SCALE],
                              mba_strided_view<const T>(z, c->in[Z]),
                              mba_strided_view<const float>(c->node->in[TARGET], c->in[TARGET]), mba_ragged_elems(z),
                              ((const bce_attr *)c->node->attr)->weighted != 0, c->step));
    return MBA_OK;
}

extern "C" mba_status bce_bwd_cuda(const mba_call *c)
{
    const mba_node   *n = c->node;
    const mba_tensor *z = n->in[ZB];
    MBA_WITH_DTYPE(z->type.dtype, T,
                   MBA_WITH_BOOL(mba_adds(n, DZ), ADDS, auto *kernel = bce_bwd_elements<T, ADDS>;
                                 MBA_KERNEL(c, 0, kernel, mba_strided_view<T>(n->out[DZ], c->out[DZ]),
                                            mba_strided_view<const T>(z, c->in[ZB]),
                                            mba_strided_view<const float>(n->in[TARGETB], c->in[TARGETB]),
                                            (const float *)c->in[SCALEB], (const float *)c->in[DLOSS],
                                            mba_ragged_elems(z), c->step)));
    return MBA_OK;
}
