// SPDX-License-Identifier: Apache-2.0
/* block_timestamps.cuh -- MBA_BLOCK_TIMESTAMPS: a kernel that records when and where its blocks ran.
 *
 *     __global__ void relu(..)
 *     {
 *         MBA_BLOCK_TIMESTAMPS;                                         // first statement: records start and end
 *         ..
 *     }
 *
 * Off (block_timestamps.h), it costs a comparison with a word of constant memory at both ends. On, thread 0 stores at
 * both ends, so that no register is held in between. The clock ticks every 32 ns on Hopper. */
#ifndef MBA_DEVICE_CUDA_BLOCK_TIMESTAMPS_CUH
#define MBA_DEVICE_CUDA_BLOCK_TIMESTAMPS_CUH

#include <cuda_runtime.h>

#include "device/cuda/block_timestamps.h"

static __constant__ mba_block_record *mba_block_records; // for the kernels of this file; NULL: off

static int mba_blocks_set(mba_block_record *records, void *stream)
{
    return (int)cudaMemcpyToSymbolAsync(mba_block_records, &records, sizeof records, 0, cudaMemcpyHostToDevice,
                                        (cudaStream_t)stream);
}

static const struct mba_blocks_unit {
    mba_blocks_unit() { mba__blocks_unit(mba_blocks_set); }
} mba_blocks_unit_;

#define MBA_BLOCKS_READ(type, name, from) \
    static __device__ __forceinline__ type name() \
    { \
        type v; \
        asm volatile("mov." from : "=r"(v)); \
        return v; \
    }

/* Volatile asm reads everything again at both ends, so that the compiler cannot merge them: a register that lived from
 * one end to the other would be one too many in kernels that have none left. */
struct mba_block_timestamps {
    MBA_BLOCKS_READ(unsigned, sm, "u32 %0, %%smid;")
    MBA_BLOCKS_READ(unsigned, x, "u32 %0, %%ctaid.x;")
    MBA_BLOCKS_READ(unsigned, y, "u32 %0, %%ctaid.y;")
    MBA_BLOCKS_READ(unsigned, z, "u32 %0, %%ctaid.z;")
    MBA_BLOCKS_READ(unsigned, tx, "u32 %0, %%tid.x;")
    MBA_BLOCKS_READ(unsigned, ty, "u32 %0, %%tid.y;")
    MBA_BLOCKS_READ(unsigned, tz, "u32 %0, %%tid.z;")
    static __device__ __forceinline__ mba_block_record *all()
    {
        return *(mba_block_record *volatile const *)&mba_block_records;
    }
    static __device__ __forceinline__ bool              on() { return all() && !(tx() | ty() | tz()); }
    static __device__ __forceinline__ mba_block_record *mine()
    {
        return all() + ((size_t)z() * gridDim.y + y()) * gridDim.x + x();
    }
    static __device__ __forceinline__ unsigned long long now()
    {
        unsigned long long t;
        asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t));
        return t;
    }
    static __device__ __forceinline__ void begins()
    {
        if (!on()) return;
        mine()->start_ns = now();
        mine()->sm = sm();
    }
    static __device__ __forceinline__ void ends()
    {
        if (!on()) return;
        mine()->end_ns = now();
        mine()->written = 1;
    }
    __device__ __forceinline__ mba_block_timestamps() { begins(); }
    __device__                 __forceinline__ ~mba_block_timestamps() { ends(); }
};

#define MBA_BLOCK_TIMESTAMPS mba_block_timestamps mba_block_marks_
#define MBA_BLOCK_BEGINS     mba_block_timestamps::begins() /* where some threads return early: call both by hand */
#define MBA_BLOCK_ENDS       mba_block_timestamps::ends()

#endif
