// SPDX-License-Identifier: Apache-2.0
/* guard.h -- steps that would hurt: a loss or a gradient norm far above what the last steps showed, or NaN.
 *
 *     s.norm_max = mba_guard_norm_max(&g);             // before the step: the update is left out above it
 *     mba_guard_note(&g, loss, norm);                  // after it
 *
 * The thresholds are multiples of the median of the last steps that were taken, so the guard needs no
 * tuning and says the same on every run. Plain data: a checkpoint keeps it, and resume is exact. */
#ifndef MBA_GUARD_H
#define MBA_GUARD_H

#include <stdbool.h>
#include <stdint.h>

enum { MBA_GUARD_STEPS = 32, MBA_GUARD_WARM = 16 }; /* what it remembers; when it begins */

typedef struct mba_guard {
    double  factor; /* norms above factor x median are skipped; 0: only NaN */
    int32_t n, skipped, in_a_row;
    float   norm[MBA_GUARD_STEPS], loss[MBA_GUARD_STEPS];
} mba_guard;

/* For mba_step.norm_max and .loss_max: 0 while it has seen too little. */
float mba_guard_norm_max(const mba_guard *g);
float mba_guard_loss_max(const mba_guard *g);

/* True when a step with this loss and norm is (or was) skipped. */
bool mba_guard_skips(const mba_guard *g, double loss, double norm);

void mba_guard_note(mba_guard *g, double loss, double norm);

#endif
