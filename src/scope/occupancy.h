// SPDX-License-Identifier: Apache-2.0
/* occupancy.h -- resident blocks of a kernel per SM, the resource that limits them, and the waves of the grid.
 *
 *     const mba_occupancy o = mba_occupancy_of(machine, 168, 256, 36 << 10, 4096);
 *
 * Plain arithmetic by the rules of compute capability 8 to 10; agrees with
 * cudaOccupancyMaxActiveBlocksPerMultiprocessor in all cases compared. */
#ifndef MBA_SCOPE_OCCUPANCY_H
#define MBA_SCOPE_OCCUPANCY_H

#include "core/plan.h"

typedef struct mba_occupancy {
    int         blocks_per_sm;
    const char *limiter;
    double      waves, percent;
} mba_occupancy;

/* Registers of a thread, threads and shared bytes (static + dynamic) of a block, blocks of the grid. */
mba_occupancy mba_occupancy_of(const mba_machine *m, int regs, int threads, int64_t smem_bytes, double blocks);

#endif
