// SPDX-License-Identifier: Apache-2.0
/* block_timestamps.h -- when and where the blocks of a kernel ran, recorded by the kernel itself
 * (block_timestamps.cuh). Off by default.
 *
 *     mba_block_records_set(device_records, stream);              // from the next launch on; NULL: off again
 *
 * A kernel takes part with one line, MBA_BLOCK_TIMESTAMPS. Thread 0 of every block writes at the beginning and at the
 * end; if thread 0 returns early (a producer warp), the record ends early too. */
#ifndef MBA_DEVICE_CUDA_BLOCK_TIMESTAMPS_H
#define MBA_DEVICE_CUDA_BLOCK_TIMESTAMPS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mba_block_record {
    uint64_t start_ns, end_ns;
    uint32_t sm, written;
} mba_block_record;

/* Every translation unit has its own pointer and registers here, before main, how to set it. */
typedef int mba_blocks_set_fn(mba_block_record *records, void *stream);
void        mba__blocks_unit(mba_blocks_set_fn *set);

int mba_block_records_set(mba_block_record *records, void *stream); /* 0, or the error of the CUDA runtime */
int mba_blocks_units(void);                                         /* translation units that take part */

#ifdef __cplusplus
}
#endif
#endif
