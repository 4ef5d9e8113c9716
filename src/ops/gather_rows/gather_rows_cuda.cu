// SPDX-License-Identifier: Apache-2.0
/* gather_rows_cuda.cu -- permutes rows.
 *
 *   y[r,c] (+)= x[index[r],c] for valid rows, x[r,c] for the others
 *   x, y (R, C) fp32 or bf16     index (R) i32
 *
 * kernel     gather_rows_vec16     a thread moves 16 bytes of a row, or one value
 * takes      everything
 * launch     grid ceil(R C / V / 256), block 256
 * resources  sm_90a, CUDA 13.0: 27 to 32 registers, no spill  [docs]
 * moves      each operand once, whole rows at a time: bound by DRAM
 * measured   H200: 4.16 us, 43 % of floor (memory), ALU 30 % busy; graphmamba-peptides-func, 128 graphs  [docs]
 * order      no sums */
#include "device/cuda/common.cuh"
extern "C" {
#include "ops/gather_rows/gather_rows_slots.h"
}

template <typename T, int V, bool ADDS>
__global__ void __launch_bounds__(256)
    gather_rows_vec16(strided_view<T> y, strided_view<const T> x, const int32_t *index, ragged rows, int64_t cols,
                      const mba_step *step)
{
    const int64_t i = ((int64_t)blockIdx.x * 256 + threadIdx.x) * V, r = i / cols, c = i % cols;
    if (r >= rows.all) return;
    const int64_t from = r < valid_rows_of(rows, step) ? index[r] : r;
    float         v[V], old[V];
    load(v, x.row(from, cols) + c);
    if (ADDS) {
        load(old, y.row(r, cols) + c);
#pragma unroll
        for (int k = 0; k < V; k++) v[k] += old[k];
    }
    store(y.row(r, cols) + c, v);
}

extern "C" mba_status gather_rows_cuda(const mba_call *c)
{
    const mba_tensor *x = c->node->in[X], *y = c->node->out[Y], *const both[] = { x, y };
    MBA_WITH_DTYPE(x->type.dtype, T,
                   MBA_WITH_BOOL(mba__columns_at_once(both, 2) > 1, VECTORS,
                                 MBA_WITH_BOOL(mba_adds(c->node, Y), ADDS, auto *kernel = gather_rows_vec16 < T,
                                               VECTORS ? (int)vec16<T>::N : 1, ADDS > ;
                                               MBA_KERNEL(c, 0, kernel, mba_strided_view<T>(y, c->out[Y]),
                                                          mba_strided_view<const T>(x, c->in[X]),
                                                          (const int32_t *)c->in[INDEX], mba_ragged_rows(x),
                                                          mba_cols(x), c->step))));
    return MBA_OK;
}
