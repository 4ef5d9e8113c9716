// SPDX-License-Identifier: Apache-2.0
/* flush_l2_cuda.cu -- fills L2 with unrelated data, so that the kernel timed next finds its operands in DRAM.
 *
 * It reads instead of writing: after writes, tens of megabytes of L2 would still have to be written back, at the
 * expense of the kernel timed next.
 *
 * kernel     sweep_caches     reads every 16-byte vector once
 * launch     grid 4 blocks for each SM, block 512
 * moves      reads what it is given: bound by DRAM
 * order      no sums that matter */
#include "device/cuda/common.cuh"
extern "C" {
#include "device/cuda/cuda.h"
}

/* `memory` holds zeros, so the store never runs; it keeps the compiler from removing the loads. */
static __global__ void __launch_bounds__(512) sweep_caches(uint4 *memory, int64_t pieces)
{
    uint32_t any = 0;
    for (int64_t i = (int64_t)blockIdx.x * 512 + threadIdx.x; i < pieces; i += (int64_t)gridDim.x * 512) {
        const uint4 u = memory[i];
        any |= u.x | u.y | u.z | u.w;
    }
    if (any) memory[0].x = any;
}

extern "C" void mba__cuda_flush_l2(void *zeros, size_t bytes, void *stream)
{
    enum { BLOCKS_SM = 4 };
    int device = 0, sms = 1;
    cudaGetDevice(&device);
    cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device);
    sweep_caches<<<BLOCKS_SM * sms, 512, 0, (cudaStream_t)stream>>>((uint4 *)zeros, (int64_t)(bytes / 16));
}
