// SPDX-License-Identifier: Apache-2.0
/* dependent_launch.cuh -- a launch whose blocks take their places while those of the launch before leave (programmatic
 * dependent launch).
 *
 *     __global__ void first(..)  { ..  launch_dependents();  write_the_little_that_is_left(..); }
 *     __global__ void second(..) { wait_for_prior_grids();  read_what_first_wrote(..); }
 *     MBA_KERNEL(c, 0, first, ..);
 *     MBA_KERNEL_DEPENDENT(c, 1, second, ..);
 *
 * The second waits in every block, before any return: were it over before the first, what comes behind it would not
 * wait for that one; and before it reads what the first wrote or writes what that one reads. It takes its places when
 * all blocks of the first have called launch_dependents() or are gone; without the call, when all are gone. After an
 * ordinary launch, and below sm_90, both mean nothing.
 *
 * In whatever watches kernels the second begins while the first still runs, though it only waits. So inside a training
 * step a kernel calls launch_dependents() behind its last loop, not before, and the timeline counts the second from
 * where the first ends (scope/correlate.c). */
#ifndef MBA_DEVICE_CUDA_DEPENDENT_LAUNCH_CUH
#define MBA_DEVICE_CUDA_DEPENDENT_LAUNCH_CUH

#include "device/cuda/common.cuh"

static __device__ __forceinline__ void launch_dependents()
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

static __device__ __forceinline__ void wait_for_prior_grids()
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/* Whether the thread's current GPU knows of it. */
static inline bool mba_has_dependent_launch(void)
{
    int device = 0, major = 0;
    return cudaGetDevice(&device) == cudaSuccess
           && cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) == cudaSuccess && major >= 9;
}

#define MBA_KERNEL_DEPENDENT(c, k, kernel, ...) \
    do { \
        const int           k_ = (k); \
        const mba_launch   *l_ = &(c)->plan->launch[k_]; \
        cudaLaunchAttribute early_ = {}; \
        cudaLaunchConfig_t  how_ = {}; \
        early_.id = cudaLaunchAttributeProgrammaticStreamSerialization; \
        early_.val.programmaticStreamSerializationAllowed = 1; \
        how_.gridDim = mba_grid(l_); \
        how_.blockDim = dim3((unsigned)l_->block); \
        how_.dynamicSmemBytes = l_->smem_bytes; \
        how_.stream = mba_cuda_stream(c); \
        how_.attrs = &early_; \
        how_.numAttrs = mba_has_dependent_launch(); \
        MBA_TRY(mba__cuda_allow_smem((const void *)(kernel), l_->smem_bytes)); \
        (void)cudaLaunchKernelEx(&how_, kernel, __VA_ARGS__); \
        MBA_TRY(mba__cuda_launch_check((c), k_)); \
    } while (0)

#endif
