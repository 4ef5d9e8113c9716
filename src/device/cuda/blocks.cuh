/* blocks.cuh -- MBA_BLOCK: a kernel that can say when its blocks ran.
 *
 *     __global__ void relu(..)
 *     {
 *         MBA_BLOCK;                                         // first: the rest is between its two marks
 *         ..
 *     }
 *
 * Off, it is a comparison with a word of constant memory at both ends. On, thread 0 stores at both ends, so nothing is kept in
 * registers in between. The clock steps by 32 ns on Hopper. */
#ifndef MBA_BLOCKS_CUH
#define MBA_BLOCKS_CUH

#include <cuda_runtime.h>

#include "device/cuda/blocks.h"

static __constant__ mba_block_record *mba_block_records;     // of this file's kernels; NULL: off

static int mba_blocks_set(mba_block_record *records, void *stream)
{
    return (int)cudaMemcpyToSymbolAsync(mba_block_records, &records, sizeof records, 0, cudaMemcpyHostToDevice, (cudaStream_t)stream);
}

static const struct mba_blocks_unit { mba_blocks_unit() { mba__blocks_unit(mba_blocks_set); } } mba_blocks_unit_;

struct mba_block_marks {
    static __device__ __forceinline__ bool on() { return mba_block_records && !(threadIdx.x | threadIdx.y | threadIdx.z); }
    static __device__ __forceinline__ mba_block_record *mine()
    {
        return mba_block_records + ((size_t)blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    }
    static __device__ __forceinline__ unsigned long long now()
    {
        unsigned long long t;
        asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t));
        return t;
    }
    __device__ __forceinline__ mba_block_marks()
    {
        if (!on()) return;
        unsigned sm;
        asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
        mine()->start_ns = now();
        mine()->sm       = sm;
    }
    __device__ __forceinline__ ~mba_block_marks()
    {
        if (!on()) return;
        mine()->end_ns  = now();
        mine()->written = 1;
    }
};

#define MBA_BLOCK mba_block_marks mba_block_marks_

#endif
