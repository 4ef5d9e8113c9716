/* launched.h -- somebody who wants to know of every launch of our kernels, as soon as it is in the stream.
 *
 *     mba_cuda_on_launch(fn, ctx);                // fn may launch kernels of its own, without telling again
 *     ..
 *     mba_cuda_on_launch(NULL, NULL);
 *
 * Kernels of libraries are not told. Includes no CUDA. */
#ifndef MBA_CUDA_LAUNCHED_H
#define MBA_CUDA_LAUNCHED_H

typedef void mba_cuda_launched_fn(void *ctx);
void mba_cuda_on_launch(mba_cuda_launched_fn *fn, void *ctx);

#endif
