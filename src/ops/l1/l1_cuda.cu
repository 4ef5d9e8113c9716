// SPDX-License-Identifier: Apache-2.0
/* l1_cuda.cu -- mean absolute error over the entries with a target, and its gradient.
 *
 *   loss = scale sum_i |y - t|,   dy = dloss scale sign(y - t),   scale = 1 / targets
 *   y, dy (..) fp32 or bf16     t (..) fp32, NaN: missing     scale (1), loss (1) fp32
 *
 * kernel     l1_fwd_block     one block counts the targets and sums the errors, in double
 * takes      everything
 * launch     grid 1, block 1024
 * resources  sm_90a, CUDA 13.0: 32 registers, 256 B of shared memory, no spill  [docs]
 * moves      each operand once, by one SM: a batch has a thousand entries, so latency dominates
 * measured   H200: l1 7 us; Peptides-struct, 128 graphs  [docs: op l1]
 * order      fixed: a thread adds entries 1024 apart in ascending order, then a tree adds the threads
 *
 * kernel     l1_bwd_elements     a thread per entry
 * launch     grid ceil(n/256), block 256
 * resources  sm_90a, CUDA 13.0: 28 registers, no spill  [docs]
 * moves      each operand once
 * measured   H200: l1_bwd 4 us; Peptides-struct, 128 graphs  [docs: op l1_bwd]
 * order      no sums */
#include "device/cuda/common.cuh"
extern "C" {
#include "ops/l1/l1_slots.h"
}

enum { BLOCK = 1024 };

template <typename T>
__global__ void __launch_bounds__(BLOCK)
    l1_fwd_block(float *loss, float *scale, strided_view<const T> y, strided_view<const float> target, ragged entries,
                 const mba_step *step)
{
    double n = 0, sum = 0;
    for (int64_t i = threadIdx.x, real = valid_rows_of(entries, step); i < real; i += BLOCK) {
        const float want = *target.element(i);
        if (want != want) continue; // NaN: a missing target
        sum += fabs((double)to_float(*y.element(i)) - (double)want);
        n++;
    }
    n = block_sum<BLOCK>(n);
    sum = block_sum<BLOCK>(sum);
    if (threadIdx.x) return;
    *scale = (float)(n > 0 ? 1 / n : 0);
    *loss = (float)(n > 0 ? sum / n : 0);
}

template <typename T, bool ADDS>
__global__ void __launch_bounds__(256)
    l1_bwd_elements(strided_view<T> dy, strided_view<const T> y, strided_view<const float> target, const float *scale,
                    const float *dloss, ragged entries, const mba_step *step)
{
    const int64_t i = (int64_t)blockIdx.x * 256 + threadIdx.x;
    if (i >= entries.all) return;
    T    *to = dy.element(i);
    float d = 0;
    if (i < valid_rows_of(entries, step)) {
        const float a = to_float(*y.element(i)), b = *target.element(i), k = *dloss * *scale;
        d = a > b ? k : a < b ? -k : 0; // NaN: neither comparison is true
    }
    *to = from_float<T>(d + (ADDS ? to_float(*to) : 0));
}

extern "C" mba_status l1_cuda(const mba_call *c)
{
    const mba_tensor *y = c->node->in[Y];
    MBA_WITH_DTYPE(y->type.dtype, T,
                   MBA_KERNEL(c, 0, l1_fwd_block<T>, (float *)c->out[LOSS], (float *)c->out[SCALE],
                              mba_strided_view<const T>(y, c->in[Y]),
                              mba_strided_view<const float>(c->node->in[TARGET], c->in[TARGET]), mba_ragged_elems(y),
                              c->step));
    return MBA_OK;
}

extern "C" mba_status l1_bwd_cuda(const mba_call *c)
{
    const mba_node   *n = c->node;
    const mba_tensor *y = n->in[YB];
    MBA_WITH_DTYPE(y->type.dtype, T,
                   MBA_WITH_BOOL(mba_adds(n, DY), ADDS, auto *kernel = l1_bwd_elements<T, ADDS>;
                                 MBA_KERNEL(c, 0, kernel, mba_strided_view<T>(n->out[DY], c->out[DY]),
                                            mba_strided_view<const T>(y, c->in[YB]),
                                            mba_strided_view<const float>(n->in[TARGETB], c->in[TARGETB]),
                                            (const float *)c->in[SCALEB], (const float *)c->in[DLOSS],
                                            mba_ragged_elems(y), c->step)));
    return MBA_OK;
}
