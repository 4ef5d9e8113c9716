// SPDX-License-Identifier: Apache-2.0
/* step_limits.h -- what limits a step: its time by the unit that limits each kernel, and the time of the host.
 *
 *     const mba_step_limits l = mba_step_limits_of(a, MBA_BUSY_PCT);
 *     printf("latency: %.0f %%\n", 100 * l.share[MBA_STEP_LATENCY]);
 *
 * What limits a kernel is a matter of limiter.h alone, as in its card and in F11; here units are put into groups. */
#ifndef MBA_STUDY_STEP_LIMITS_H
#define MBA_STUDY_STEP_LIMITS_H

#include "study/limiter.h"

/* Matrix products: tensor units. On chip: L2, L1/shared data path, issue slots, FMA, ALU and special function pipes.
 * Host: gaps between kernels and copies from the host. Unknown: kernels without counters. */
typedef enum mba_step_limit {
    MBA_STEP_PRODUCTS,
    MBA_STEP_DRAM,
    MBA_STEP_CHIP,
    MBA_STEP_LATENCY,
    MBA_STEP_HOST,
    MBA_STEP_UNKNOWN,
    MBA_STEP_LIMITS
} mba_step_limit;
const char *mba_step_limit_name(mba_step_limit l); /* "matrix products", "DRAM", .. */

mba_step_limit mba_step_limit_of(const mba_analysis *a, const mba_kernel_view *k, double busy);

/* Parts of a step, 0 to 1, that sum to 1; NaN where the step has no kernels. The largest may be alike: what limits the
 * step is clear if no other part comes within MBA_LEAD_PCT of the step to the first. */
enum { MBA_LEAD_PCT = 5 };
typedef struct mba_step_limits {
    double         share[MBA_STEP_LIMITS];
    mba_step_limit most;
    bool           clear;
} mba_step_limits;
mba_step_limits mba_step_limits_of(const mba_analysis *a, double busy);
bool            mba_step_limit_is_large(const mba_step_limits *l, int i); /* the largest part, or alike */

/* The kernel whose distance from its floor is the largest part of the step, and that part; kernel NULL: no floors. */
typedef struct mba_distance {
    const mba_kernel_view *kernel;
    double                 part;
} mba_distance;
mba_distance mba_farthest_from_floor(const mba_analysis *a);

#endif
