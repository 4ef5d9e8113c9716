// SPDX-License-Identifier: Apache-2.0
/* counters.h -- words in which kernels of the library count their tiles, cleared once for a whole captured step.
 *
 *     MBA_TRY(mba__cuda_counters());                        // before the first capture
 *     cublasLtMatmul(.., mba__cuda_counter(), MBA_CUDA_COUNTER_BYTES, stream);      // sets it to 0, then counts in it
 *     MBA_TRY(mba__cuda_clear_once(graph));                 // one set of all at the beginning, those of products gone
 *
 * A product that shares its word with none needs it cleared only before the step. As the library captures it, the set
 * stands between two kernels that would follow each other at once: by the timeline 5 us each, 200 times in a step of
 * mamba2-1.3b. */
#ifndef MBA_CUDA_COUNTERS_H
#define MBA_CUDA_COUNTERS_H

#include "device/cuda/cuda.h"

enum { MBA_CUDA_COUNTER_BYTES = 256, MBA_CUDA_COUNTERS = 1024 };

#ifdef __cplusplus
extern "C" {
#endif

MBA_MUST mba_status mba__cuda_counters(void);

/* The next of them, round and round. */
void *mba__cuda_counter(void);

/* A set of a counter that no other set of the graph has, between one node and the next, is left out. */
MBA_MUST mba_status mba__cuda_clear_once(cudaGraph_t graph);

#ifdef __cplusplus
}
#endif
#endif
