/* sweep.h -- how much is read to empty the caches before something is timed (sweep_cuda.cu): several times the largest L2
 * there is. */
#ifndef MBA_CUDA_SWEEP_H
#define MBA_CUDA_SWEEP_H

enum { MBA__SWEEP_BYTES = 256 << 20 };

#endif
