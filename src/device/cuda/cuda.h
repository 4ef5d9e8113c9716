// SPDX-License-Identifier: Apache-2.0
/* cuda.h -- the CUDA device for launchers: CUDA errors as mba_status, the stream, shared memory, scratch.
 *
 *     CUDA_TRY(cudaMemsetAsync(c->out[Y], 0, bytes, mba_cuda_stream(c)));
 *
 * Included by C and CUDA C. Only src/device/cuda and the *_cuda files of operators include it. */
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

/* Called after a launch: returns the error of its configuration, with kernel and geometry. */
mba_status mba__cuda_launch_check(const mba_call *c, int k);

/* Empties the caches of everything else by reading `bytes` of zeros (flush_l2_cuda.cu), before something is timed.
 * MBA__FLUSH_BYTES is several times the largest L2 there is. */
enum { MBA__FLUSH_BYTES = 256 << 20 };
void mba__cuda_flush_l2(void *zeros, size_t bytes, void *stream);

/* Compute capability whose instructions our kernels have on the current device (compiled_for_cuda.cu); 0: there is no
 * code for it. */
int mba__cuda_compiled_for(void);

/* mba_device.fold (fold_cuda.cu). */
mba_status mba__cuda_fold(float *x, const float *y, float scale, int64_t n, int sms, void *stream);

/* Allows a kernel more than 48 KB of shared memory (static and dynamic). Needed once per kernel; cheap to repeat. */
mba_status mba__cuda_allow_smem(const void *kernel, size_t bytes);

static inline void *mba_cuda_scratch(const mba_call *c, int k) { return c->work + c->plan->scratch[k].offset; }

#ifdef __cplusplus
}
#endif
#endif
