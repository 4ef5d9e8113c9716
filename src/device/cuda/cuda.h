// SPDX-License-Identifier: Apache-2.0
/* cuda.h -- the CUDA device as launchers see it: errors as ours, and the handles of the one GPU of a process.
 *
 *     CUDA_TRY(cudaMemsetAsync(c->out[Y], 0, bytes, mba_cuda_stream(c)));
 *
 * Included by C and by CUDA C. Only src/device/cuda and *_cuda files of operators see it. */
#ifndef MBA_CUDA_H
#define MBA_CUDA_H

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif
#include "core/op.h"

mba_status mba__cuda_failed(int error, const char *call);

#define CUDA_TRY(call) \
    do { \
        const cudaError_t cuda_ = (call); \
        if (cuda_ != cudaSuccess) return mba__cuda_failed(cuda_, #call); \
    } while (0)

static inline cudaStream_t mba_cuda_stream(const mba_call *c) { return (cudaStream_t)c->stream; }

/* After a launch: the error of its configuration, in the words of what was launched. */
mba_status mba__cuda_launch_check(const mba_call *c, int k);

/* Empties the caches of everything else by reading `bytes` of zeros (flush_l2_cuda.cu), before something is timed.
 * MBA__FLUSH_BYTES is several times the largest L2 there is. */
enum { MBA__FLUSH_BYTES = 256 << 20 };
void mba__cuda_flush_l2(void *zeros, size_t bytes, void *stream);

/* Dynamic and static shared memory beyond 48 KB together must be asked for, once per kernel; cheap to repeat. */
mba_status mba__cuda_allow_smem(const void *kernel, size_t bytes);

static inline void *mba_cuda_scratch(const mba_call *c, int k) { return c->work + c->plan->scratch[k].offset; }

#ifdef __cplusplus
}
#endif
#endif
