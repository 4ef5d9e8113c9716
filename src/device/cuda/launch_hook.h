// SPDX-License-Identifier: Apache-2.0
/* launch_hook.h -- a hook that is called after every launch of our kernels, as soon as it is in the stream.
 *
 *     mba_cuda_on_launch(fn, ctx);                // fn may launch kernels of its own; they do not call it
 *     ..
 *     mba_cuda_on_launch(NULL, NULL);
 *
 * Kernels of libraries do not call it. Includes no CUDA header. */
#ifndef MBA_DEVICE_CUDA_LAUNCH_HOOK_H
#define MBA_DEVICE_CUDA_LAUNCH_HOOK_H

typedef void mba_cuda_launch_hook(void *ctx);
void         mba_cuda_on_launch(mba_cuda_launch_hook *fn, void *ctx);

#endif
