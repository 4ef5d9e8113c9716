// SPDX-License-Identifier: Apache-2.0
/* rates.h -- what a machine gives a kernel: rates of servers, costs in ticks, the clock, and bounds nothing can beat.
 * Of the engine alone. */
#ifndef MBA_SIM_RATES_H
#define MBA_SIM_RATES_H

#include "sim/engine.h"

typedef int64_t tick;                /* 1/256 of a cycle */
enum { TICKS = 256, FRACTION = 20 }; /* bits behind the point of a rate */

/* Ticks per unit, in whole 2^-20. */
typedef struct rates {
    uint64_t pipe[MBA_PIPES], rd, wr, l2r, l2w, l2r_both, l2w_both, hbm, dispatch;
    uint64_t l2r_full, hbm_full; /* of the whole chip: how fast bytes of one request follow each other */
    tick     t_kernel, block_start, block_exit, barrier, issue_gap, l2_lat, hbm_lat, async_lat, turnaround;
    tick     slack_sm, slack_l2;                 /* a warp that stores may be ahead of the port, of L2 and DRAM */
    tick     lat_alu, lat_xu, lat_smem, lat_mma; /* of a warp that waits for itself, by what it executes */
    double   profiled_issue, profiled_xu, profiled_smem, profiled_mma; /* cycles each, of counted kernels */
    uint64_t async_bytes;
    uint64_t evicts;      /* bytes that leave L2 for 256 that come in */
    double   clk, active; /* GHz; SMs that work */
    int64_t  blocks;      /* of the busiest SM */
} rates;

/* `share`: of the chip's L2, DRAM and dispatcher, for one server of a folded chip. */
rates mba_sim_rates_of(const mba_sim_kernel *k, const mba_gpu *m, double clk, double active, double share);

/* GHz, by how busy tensor units are, for how long, and (of 1; 0: as busy) in the step around. */
double mba_sim_clock_of(const mba_gpu *m, double tensor_busy, double seconds, double load);

/* Fills bytes, bounds and limit of a result. */
void mba_sim_find_bounds(mba_sim_result *out, const mba_sim_kernel *k, const mba_gpu *m, double clk);

#endif
