// SPDX-License-Identifier: Apache-2.0
/* fold_cuda.cu -- adds gradients of slots (train/slots.h): x = scale x + y, rounded after each of the two.
 *
 *   x, y (n) fp32; y may be missing
 *
 * kernel     fold_slots     one value per thread and trip
 * takes      any number of values
 * launch     grid 8 blocks for each SM, block 256
 * moves      reads 8n bytes, writes 4n: bound by DRAM
 * order      one sum of two values */
#include "device/cuda/common.cuh"
extern "C" {
#include "device/cuda/cuda.h"
}

static __global__ void __launch_bounds__(256) fold_slots(float *x, const float *y, float scale, int64_t n)
{
    for (int64_t i = (int64_t)blockIdx.x * 256 + threadIdx.x; i < n; i += (int64_t)gridDim.x * 256) {
        const float scaled = __fmul_rn(x[i], scale);
        x[i] = y ? __fadd_rn(scaled, y[i]) : scaled;
    }
}

extern "C" mba_status mba__cuda_fold(float *x, const float *y, float scale, int64_t n, int sms, void *stream)
{
    enum { BLOCKS_SM = 8 };
    fold_slots<<<BLOCKS_SM * sms, 256, 0, (cudaStream_t)stream>>>(x, y, scale, n);
    CUDA_TRY(cudaGetLastError());
    return MBA_OK;
}
