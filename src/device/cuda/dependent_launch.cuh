// SPDX-License-Identifier: Apache-2.0
/* dependent_launch.cuh -- programmatic dependent launch: the next kernel's blocks start while this kernel drains.
 *
 *     __global__ void first(..)  { ..main loop..  launch_dependents();  write_tail(..); }
 *     __global__ void second(..) { wait_for_prior_grids();  read_output_of_first(..); }
 *     MBA_KERNEL(c, 0, first, ..);
 *     MBA_KERNEL_DEPENDENT(c, 1, second, ..);
 *
 * Before sm_90, and after an ordinary launch, both calls do nothing.
 *
 * Profilers show `second` starting while `first` still runs. Inside a training step, call launch_dependents() after the
 * main loop, not before; the timeline then counts `second` from the end of `first` (scope/correlate.c). */
#ifndef MBA_DEVICE_CUDA_DEPENDENT_LAUNCH_CUH
#define MBA_DEVICE_CUDA_DEPENDENT_LAUNCH_CUH

#include "device/cuda/common.cuh"

/* Allows the dependent kernel to launch once every block of this grid has called this or has exited. It orders no
 * memory: writes become visible to the dependent kernel only through its wait_for_prior_grids(). */
static __device__ __forceinline__ void launch_dependents()
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

/* Blocks until all prior grids have completed and their writes are visible. Call it in every block, on every path,
 * before touching data that the prior grid reads or writes, and before any return. If this kernel could finish without
 * waiting, the kernel after it could start before the prior grid ends. */
static __device__ __forceinline__ void wait_for_prior_grids()
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/* Whether the current GPU supports it. */
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
