// SPDX-License-Identifier: Apache-2.0
/* fill_cuda.cu -- zeros by the copy engine's memset; other values element by element. */
#include "device/cuda/common.cuh"
extern "C" {
#include "ops/fill/fill_slots.h"
}

template <typename T> __global__ void __launch_bounds__(256) fill(strided_view<T> y, int64_t elems, float value)
{
    const int64_t i = (int64_t)blockIdx.x * 256 + threadIdx.x;
    if (i < elems) *y.element(i) = from_float<T>(value);
}

extern "C" mba_status fill_cuda(const mba_call *c)
{
    const mba_tensor *y = c->node->out[Y];
    const double      value = ((const mba_fill_attr *)c->node->attr)->value;
    if (value == 0 && mba_dense(y)) {
        CUDA_TRY(cudaMemsetAsync(c->out[Y], 0, (size_t)mba_tensor_bytes(y), mba_cuda_stream(c)));
        return MBA_OK;
    }
    const unsigned grid = (unsigned)mba_ceil(mba_elems(y), 256);
    MBA_WITH_DTYPE(y->type.dtype, T,
                   fill<T><<<grid, 256, 0, mba_cuda_stream(c)>>>(mba_strided_view<T>(y, c->out[Y]), mba_elems(y),
                                                                 (float)value));
    return mba__cuda_launch_check(c, 0);
}
