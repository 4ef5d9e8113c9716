// SPDX-License-Identifier: Apache-2.0
/* async.cuh -- cp.async: copies from global to shared memory that run while the thread computes.
 *
 *     copy_async<16>(slot, from);                     // 4, 8 or 16 bytes, aligned to their size
 *     copy_async_commit();                            // the copies since the last commit form one group
 *     copy_async_wait<1>();                           // waits for all groups but the newest
 *
 * A thread that reads only what it has copied itself needs no barrier: waiting is enough. */
#ifndef MBA_ASYNC_CUH
#define MBA_ASYNC_CUH

#include "device/cuda/common.cuh"

/* THROUGH_L1 caches the copied lines for other readers. PAST_L1 is possible for 16 bytes only, and is their default. */
enum copy_path { PAST_L1, THROUGH_L1 };

template <int BYTES, copy_path PATH = BYTES == 16 ? PAST_L1 : THROUGH_L1>
static __device__ __forceinline__ void copy_async(void *to, const void *from)
{
    static_assert(BYTES == 16 || PATH == THROUGH_L1, "4 and 8 bytes go through L1");
    const uint32_t slot = (uint32_t)__cvta_generic_to_shared(to);
    if constexpr (PATH == PAST_L1)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(slot), "l"(from) : "memory");
    else asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(slot), "l"(from), "n"(BYTES) : "memory");
}

/* The same of the first `there` bytes; the others become zero. If there are none, `from` may be any address. */
template <int BYTES> static __device__ __forceinline__ void copy_async_first(void *to, const void *from, int there)
{
    const uint32_t slot = (uint32_t)__cvta_generic_to_shared(to);
    if constexpr (BYTES == 16)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(slot), "l"(from), "r"(there) : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(slot), "l"(from), "n"(BYTES), "r"(there)
                     : "memory");
}

template <int BYTES> static __device__ __forceinline__ void copy_async_or_zero(void *to, const void *from, bool there)
{
    copy_async_first<BYTES>(to, from, there ? BYTES : 0);
}

static __device__ __forceinline__ void copy_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

template <int NEWER> static __device__ __forceinline__ void copy_async_wait()
{
    asm volatile("cp.async.wait_group %0;" ::"n"(NEWER) : "memory");
}

#endif
