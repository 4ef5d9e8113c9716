// SPDX-License-Identifier: Apache-2.0
/* engine.h -- predicts how long one kernel takes on one machine.
 *
 *     mba_sim_result r;
 *     MBA_TRY(mba_sim_run(&r, &kernel, &gpu, MBA_SIM_ONE_SM));
 *     printf("%.1f us, %s\n", 1e6 * r.seconds, mba_sim_limits[r.limit]);
 *
 * Four fidelities share kernels and machines:
 *   BOUNDS   closed-form lower bounds, one per resource; the largest is the prediction.
 *   ONE_SM   one SM with its share of L2 and DRAM, event by event; long launches are extrapolated from some rounds.
 *   ALL_SMS  every SM and every block.
 *   FAST     ONE_SM at the clock that the bounds give, and long loops extrapolated from two short runs: a quarter of
 *            the time, for ratios.
 * Time is a whole number of 1/256 cycles and rates are integers, so every compiler and host gives the same bits. */
#ifndef MBA_SIM_ENGINE_H
#define MBA_SIM_ENGINE_H

#include "sim/kernel.h"

typedef enum mba_sim_fidelity { MBA_SIM_BOUNDS, MBA_SIM_ONE_SM, MBA_SIM_ALL_SMS, MBA_SIM_FAST } mba_sim_fidelity;

/* The resources that bound a kernel: the pipes of mba_sim_pipe first, in their order. */
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
    double  seconds, cycles;                          /* of the kernel, without the gap that follows it */
    double  bound[MBA_LIMITS];                        /* seconds that each resource would take alone */
    int     limit;                                    /* index of the largest bound */
    double  dram_read, dram_write, l2_read, l2_write; /* bytes */
    double  work[MBA_PIPES];                          /* lane operations, FLOPs or bytes of the launch */
    double  busy[MBA_PIPES];                          /* utilisation, 0 to 1, averaged over the SMs that have blocks */
    int64_t resident, waves, blocks, events;          /* blocks: of the busiest SM */
} mba_sim_result;

MBA_MUST mba_status mba_sim_run(mba_sim_result *out, const mba_sim_kernel *k, const mba_gpu *m,
                                mba_sim_fidelity fidelity);

/* The clock in GHz, by the utilisation of tensor units, the time it lasts, and `load`, the tensor utilisation of the
 * step around it (0 to 1; 0: unknown). */
double mba_sim_clock_of(const mba_gpu *m, double tensor_busy, double seconds, double load);

#endif
