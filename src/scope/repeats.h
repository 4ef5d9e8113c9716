// SPDX-License-Identifier: Apache-2.0
/* repeats.h -- the steps of a loop that nobody marked, found by what it launches again and again.
 *
 *     mba_repeats r;
 *     MBA_TRY(mba_repeats_find(&r, launches, n));           // in the order in which the host made them
 *     for (int64_t i = 0; i < r.n; i++) first_of_step(r.first[i], r.length);
 *     mba_repeats_free(&r);
 *
 * The loop is where the launches repeat themselves exactly, one period after the other, for the longest part of the
 * kernels' time: layers of a model repeat within a step, steps repeat for longer. A step begins behind the optimizer,
 * or where the GPU waits longest. Steps that differ (the first, those that log or validate, one that was cut) are no
 * steps, and are left out. Plain C, no CUDA. */
#ifndef MBA_SCOPE_REPEATS_H
#define MBA_SCOPE_REPEATS_H

#include <stdbool.h>
#include <stdint.h>

#include "core/status.h"

enum { MBA_REPEATS_LEAST = 3 }; /* steps that make a loop */

typedef struct mba_repeated {
    int64_t  start_ns, end_ns;
    int32_t  symbol;      /* equal: the same kernel in the same geometry */
    uint32_t correlation; /* of the call; a step begins with another call */
    bool     updates;     /* a kernel of an optimizer */
} mba_repeated;

typedef struct mba_repeats {
    int64_t *first, n, length;     /* first launch of every step; steps; launches of a step. n 0: no loop */
    double   of_launches, of_time; /* the part that lies in steps, 0 .. 1 */
} mba_repeats;

MBA_MUST mba_status mba_repeats_find(mba_repeats *out, const mba_repeated *l, int64_t n);
void                mba_repeats_free(mba_repeats *r);

#endif
