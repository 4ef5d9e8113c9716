// SPDX-License-Identifier: Apache-2.0
/* engine.h -- how long one kernel takes on one machine.
 *
 *     mba_sim_result r;
 *     MBA_TRY(mba_sim_run(&r, &kernel, &gpu, MBA_SIM_ONE_SM));
 *     printf("%.1f us, %s\n", 1e6 * r.seconds, mba_sim_limits[r.limit]);
 *
 * Three tiers share kernels and machines. BOUNDS: closed forms; the longest of them is a time that nothing can beat.
 * FOLDED: one SM with its share of L2 and DRAM, event by event; many blocks are extrapolated from some. WHOLE: every
 * SM, every block. ROUGH: FOLDED with the clock of the bounds and two parts of a long loop for all of it, in a quarter
 * of the time: for ratios. Time is counted in whole 256ths of a cycle and rates are whole numbers, so the answer has
 * the same bits from every compiler and on every machine. */
#ifndef MBA_SIM_ENGINE_H
#define MBA_SIM_ENGINE_H

#include "sim/kernel.h"

typedef enum mba_sim_fidelity { MBA_SIM_BOUNDS, MBA_SIM_ONE_SM, MBA_SIM_ALL_SMS, MBA_SIM_FAST } mba_sim_fidelity;

/* What the bounds of a kernel are made of: pipes first, in their order. */
typedef enum mba_sim_limit {
    MBA_LIMIT_RD = MBA_PIPES,
    MBA_LIMIT_WR,
    MBA_LIMIT_L2,
    MBA_LIMIT_HBM,
    MBA_LIMIT_LAUNCH,
    MBA_LIMITS
} mba_sim_limit;
extern const char *const mba_sim_limits[MBA_LIMITS]; /* "FMA", "HBM", .. */

typedef struct mba_sim_result {
    double  seconds, cycles;                          /* of the kernel, without the gap behind it */
    double  bound[MBA_LIMITS];                        /* seconds, each by itself */
    int     limit;                                    /* the longest of them */
    double  dram_read, dram_write, l2_read, l2_write; /* bytes */
    double  busy[MBA_PIPES];                          /* of 1, over the SMs that work */
    int64_t resident, waves, blocks, events;          /* blocks: of the busiest SM */
} mba_sim_result;

MBA_MUST mba_status mba_sim_run(mba_sim_result *out, const mba_sim_kernel *k, const mba_gpu *m, mba_sim_fidelity tier);

#endif
