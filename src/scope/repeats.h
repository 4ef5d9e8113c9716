// SPDX-License-Identifier: Apache-2.0
/* repeats.h -- finds the steps of an unmarked loop by the sequence of launches that repeats.
 *
 *     mba_repeats r;
 *     MBA_TRY(mba_repeats_find(&r, launches, n));           // in the order in which the host made them
 *     for (int64_t i = 0; i < r.n; i++) first_of_step(r.first[i], r.length);
 *     mba_repeats_free(&r);
 *
 * The loop is the region in which the launches repeat exactly, period after period, for the largest part of the kernel
 * time: layers repeat within a step, steps repeat for longer. A step starts after the optimizer, or where the GPU is
 * idle longest. Steps that differ (the first, those that log or validate, one that was cut) are left out. Plain C, no
 * CUDA. */
#ifndef MBA_SCOPE_REPEATS_H
#define MBA_SCOPE_REPEATS_H

#include <stdbool.h>
#include <stdint.h>

#include "core/status.h"

enum { MBA_REPEATS_LEAST = 3 }; /* least number of steps of a loop */

typedef struct mba_repeated {
    int64_t  start_ns, end_ns;
    int32_t  symbol;      /* equal: the same kernel in the same geometry */
    uint32_t correlation; /* id of the call; a step starts with a new call */
    bool     updates;     /* a kernel of an optimizer */
} mba_repeated;

typedef struct mba_repeats {
    int64_t *first, n, length;     /* first launch of each step; steps, 0: no loop; launches of a step */
    double   of_launches, of_time; /* shares inside steps, 0 to 1 */
} mba_repeats;

MBA_MUST mba_status mba_repeats_find(mba_repeats *out, const mba_repeated *l, int64_t n);
void                mba_repeats_free(mba_repeats *r);

#endif
