// SPDX-License-Identifier: Apache-2.0
/* limiter.h -- which unit limits a kernel, by the counters of a store.
 *
 *     const mba_limiter l = mba_limiter_of(a, k, MBA_BUSY_PCT);
 *     printf("%s\n", mba_limiter_name(l));
 *
 * The busiest unit limits a kernel if it is busy for at least `busy` percent of its peak. A unit below that has room,
 * so nothing is saturated and latency limits: too few instructions or bytes are in flight. */
#ifndef MBA_STUDY_LIMITER_H
#define MBA_STUDY_LIMITER_H

#include "scope/analysis.h"

static const double MBA_BUSY_PCT = 60;

typedef enum mba_limiter {
    MBA_LIMIT_UNKNOWN, /* no counters */
    MBA_LIMIT_DRAM,
    MBA_LIMIT_L2,
    MBA_LIMIT_L1, /* L1 and shared memory: one data path */
    MBA_LIMIT_ISSUE,
    MBA_LIMIT_SPECIAL,
    MBA_LIMIT_TENSOR,
    MBA_LIMIT_FMA,
    MBA_LIMIT_ALU,
    MBA_LIMIT_LATENCY,
    MBA_LIMITERS
} mba_limiter;

mba_limiter mba_limiter_of(const mba_analysis *a, const mba_kernel_view *k, double busy);
const char *mba_limiter_name(mba_limiter l); /* "DRAM", .., "latency" */

/* What lets no further block fit on an SM, as the store has it; registers with what binds as well: "registers and
 * shared memory", "registers and the grid" or "registers, shared memory and the grid". NULL: not known. */
const char *mba_occupancy_limiter(const mba_analysis *a, const mba_kernel_view *k);

#endif
