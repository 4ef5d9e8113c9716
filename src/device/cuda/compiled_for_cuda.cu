// SPDX-License-Identifier: Apache-2.0
/* compiled_for_cuda.cu -- which GPUs' instructions the kernels in this program have: of a program compiled for sm_80,
 * newer GPUs run the PTX, which has no instructions of theirs. */
#include "device/cuda/common.cuh"
extern "C" {
#include "device/cuda/cuda.h"
}

static __global__ void never_launched(void) {}

extern "C" int mba__cuda_compiled_for(void)
{
    cudaFuncAttributes a;
    if (cudaFuncGetAttributes(&a, never_launched) == cudaSuccess) return a.ptxVersion;
    cudaGetLastError(); // no code for this GPU: the first launch says so
    return 0;
}
