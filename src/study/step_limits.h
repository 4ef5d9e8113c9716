// SPDX-License-Identifier: Apache-2.0
/* step_limits.h -- what limits a step: its time by the unit that limits each kernel, and the time of the host.
 *
 *     const mba_limits l = mba_limits_of(a, MBA_LIMITING_PCT);
 *     printf("latency: %.0f %%\n", 100 * l.share[MBA_LIMIT_LATENCY]);
 *
 * A unit limits a kernel from MBA_LIMITING_PCT of its peak on; below that latency does. Tensor units come first: a
 * product that keeps them busy is limited by them, whatever else is busy. */
#ifndef MBA_STUDY_STEP_LIMITS_H
#define MBA_STUDY_STEP_LIMITS_H

#include "scope/analysis.h"

#define MBA_LIMITING_PCT 60.0

/* On chip: L1/shared data path, issue slots, FMA, ALU and special function pipes. Host: gaps between kernels and
 * copies from the host. Unknown: kernels without counters. */
typedef enum mba_limit {
    MBA_LIMIT_TENSOR,
    MBA_LIMIT_DRAM,
    MBA_LIMIT_CHIP,
    MBA_LIMIT_LATENCY,
    MBA_LIMIT_HOST,
    MBA_LIMIT_UNKNOWN,
    MBA_LIMITS
} mba_limit;
const char *mba_limit_name(mba_limit l); /* "matrix products", "DRAM", .. */

mba_limit mba_limit_of(const mba_kernel_view *k, double percent);

/* Parts of a step, 0 to 1, that sum to 1; NaN where the step has no kernels. */
typedef struct mba_limits {
    double    share[MBA_LIMITS];
    mba_limit most;
} mba_limits;
mba_limits mba_limits_of(const mba_analysis *a, double percent);

/* The kernel whose distance from its floor is the largest part of the step, and that part; kernel NULL: no floors. */
typedef struct mba_distance {
    const mba_kernel_view *kernel;
    double                 part;
} mba_distance;
mba_distance mba_farthest_from_floor(const mba_analysis *a);

#endif
