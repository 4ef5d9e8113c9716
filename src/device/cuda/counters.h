// SPDX-License-Identifier: Apache-2.0
/* counters.h -- memory in which cuBLASLt kernels count their tiles, cleared once per captured step.
 *
 *     MBA_TRY(mba__cuda_counters());                        // before the first capture
 *     cublasLtMatmul(.., mba__cuda_counter(), MBA_CUDA_COUNTER_BYTES, stream);      // clears it, then counts in it
 *     MBA_TRY(mba__cuda_clear_once(graph));                 // one memset of all first; those of products removed
 *
 * A product with a counter of its own needs it cleared only once, before the step. As the library captures it, the
 * memset stands between two kernels that could follow each other directly: 5 us each in the timeline, 200 times in a
 * step of mamba2-1.3b. */
#ifndef MBA_CUDA_COUNTERS_H
#define MBA_CUDA_COUNTERS_H

#include "device/cuda/cuda.h"

enum { MBA_CUDA_COUNTER_BYTES = 256, MBA_CUDA_COUNTERS = 1024 };

#ifdef __cplusplus
extern "C" {
#endif

MBA_MUST mba_status mba__cuda_counters(void);

/* The next counter, cyclically. */
void *mba__cuda_counter(void);

/* Removes the memsets of counters that only one node of the graph clears, and clears all counters at the beginning. */
MBA_MUST mba_status mba__cuda_clear_once(cudaGraph_t graph);

#ifdef __cplusplus
}
#endif
#endif
