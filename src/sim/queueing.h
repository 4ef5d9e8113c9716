// SPDX-License-Identifier: Apache-2.0
/* queueing.h -- cycles per instruction of a profiled kernel when its warps compete for the units of an SM.
 *
 *     double blocks = mba_sim_blocks_per_sm_mean(&kernel, &counts, gpu);
 *     double cycles = mba_sim_queueing_cycles(&kernel, &counts, gpu, blocks, path, waiting);
 *
 * The warps of a sub-partition are the customers of a closed queueing network. Its stations are the scheduler and the
 * pipes, and, shared with the other sub-partitions, shared memory, L2 and DRAM. Mean value analysis with deterministic
 * service gives the waiting times; the model has no fitted constant. */
#ifndef MBA_SIM_QUEUEING_H
#define MBA_SIM_QUEUEING_H

#include "sim/profiled.h"

/* Mean number of blocks that run on an SM at the same time. */
double mba_sim_blocks_per_sm_mean(const mba_sim_kernel *k, const mba_profiled_kernel *c, const mba_gpu *m);

/* Cycles of a warp per instruction, without L2 and DRAM, if `together` blocks are on its SM: its own `path` and the
 * time it queues behind others. `waiting`: cycles per instruction that a warp waits for loads and does not compete. */
double mba_sim_queueing_cycles(const mba_sim_kernel *k, const mba_profiled_kernel *c, const mba_gpu *m, double together,
                               double path, double waiting);

#endif
