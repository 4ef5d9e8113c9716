// SPDX-License-Identifier: Apache-2.0
/* queueing.h -- how long an instruction of a counted kernel takes when warps are in each other's way.
 *
 *     double blocks = mba_sim_blocks_per_sm_mean(&kernel, &counts, gpu);
 *     double cycles = mba_sim_queueing_cycles(&kernel, &counts, gpu, blocks, path, waiting);
 *
 * Warps of a sub-partition are customers of a closed network: scheduler, pipes, and with the other sub-partitions
 * shared memory, L2 and DRAM. Mean value analysis with service in constant time; no constant of its own. */
#ifndef MBA_SIM_QUEUEING_H
#define MBA_SIM_QUEUEING_H

#include "sim/profiled.h"

/* Blocks that an SM has beside each other, on average. */
double mba_sim_blocks_per_sm_mean(const mba_sim_kernel *k, const mba_profiled_kernel *c, const mba_gpu *m);

/* Cycles of a warp per instruction where `together` blocks are on its SM, memory apart: its own `path` and what it
 * waits for the others; meanwhile some are `waiting` for loads. */
double mba_sim_queueing_cycles(const mba_sim_kernel *k, const mba_profiled_kernel *c, const mba_gpu *m, double together,
                               double path, double waiting);

#endif
