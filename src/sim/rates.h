// SPDX-License-Identifier: Apache-2.0
/* rates.h -- a machine as one kernel sees it: rates of the servers, latencies in ticks, the clock, and lower bounds of
 * the time per resource. Internal to the engine (engine.c, fidelity.c). */
#ifndef MBA_SIM_RATES_H
#define MBA_SIM_RATES_H

#include "sim/engine.h"

typedef int64_t tick;                /* 1/256 of a cycle */
enum { TICKS = 256, FRACTION = 20 }; /* bits behind the point of a rate */

/* Rates are in ticks per unit (lane operation, FLOP, byte, block), as whole multiples of 2^-20. */
typedef struct rates {
    uint64_t pipe[MBA_PIPES], rd, wr, l2r, l2w, l2r_both, l2w_both, hbm, dispatch;
    uint64_t l2r_full, hbm_full; /* of the whole chip: how fast bytes of one request follow each other */
    tick     t_kernel, block_start, block_exit, barrier, issue_gap, l2_lat, hbm_lat, async_lat, turnaround;
    tick     slack_sm, slack_l2;                 /* a warp that stores may be ahead of the port, of L2 and DRAM */
    tick     lat_alu, lat_xu, lat_smem, lat_mma; /* of a warp that waits for itself, by what it executes */
    double   profiled_issue, profiled_xu, profiled_smem, profiled_mma; /* cycles each, of counted kernels */
    uint64_t async_bytes;
    uint64_t evicts;      /* bytes evicted from L2 per 256 bytes filled */
    double   clk, active; /* GHz; SMs that have blocks */
    int64_t  blocks;      /* of the busiest SM */
    uint64_t early, late; /* of 256: weight of bytes of its first blocks and of its last, which fewer SMs have */
} rates;

/* `share`: of the chip's L2, DRAM and dispatcher that the simulated SMs own; 1 if all SMs are simulated. */
rates mba_sim_rates_of(const mba_sim_kernel *k, const mba_gpu *m, double clk, double active, double share);

/* FLOPs per cycle and SM of products of operands of so many bits: 16, 19 (TF32) or 32. */
double mba_sim_product_rate(int64_t bits, const mba_gpu *m);

/* Sets bytes, bounds and limit of a result; its `blocks` and `resident` must be set. */
void mba_sim_find_bounds(mba_sim_result *out, const mba_sim_kernel *k, const mba_gpu *m, double clk);

#endif
