// SPDX-License-Identifier: Apache-2.0
/* flush_l2.h -- bytes that are read to evict L2 before something is timed (flush_l2_cuda.cu): several times the largest
 * L2. */
#ifndef MBA_DEVICE_CUDA_FLUSH_L2_H
#define MBA_DEVICE_CUDA_FLUSH_L2_H

enum { MBA__FLUSH_BYTES = 256 << 20 };

#endif
