// SPDX-License-Identifier: Apache-2.0
/* guard.h -- skips harmful steps: a loss or a gradient norm far above those of the last steps, or NaN.
 *
 *     s.norm_max = mba_guard_norm_max(&g);             // before the step: a larger norm skips the update
 *     mba_guard_note(&g, loss, norm);                  // after it
 *
 * The thresholds are multiples of the median of the last steps that were applied, so the guard needs no
 * tuning and decides the same in every run. It is plain data: a checkpoint stores it, and resuming is exact. */
#ifndef MBA_GUARD_H
#define MBA_GUARD_H

#include <stdbool.h>
#include <stdint.h>

enum { MBA_GUARD_STEPS = 32, MBA_GUARD_WARM = 16 }; /* steps that it remembers; steps before it begins */

typedef struct mba_guard {
    double  factor;               /* norms above factor x median are skipped; 0: only NaN */
    int32_t n, skipped, in_a_row; /* in_a_row: steps skipped since the last one that was applied */
    float   norm[MBA_GUARD_STEPS], loss[MBA_GUARD_STEPS];
} mba_guard;

/* Values for mba_step.norm_max and .loss_max; 0 until it has seen MBA_GUARD_WARM steps. */
float mba_guard_norm_max(const mba_guard *g);
float mba_guard_loss_max(const mba_guard *g);

/* True if a step with this loss and norm is skipped. */
bool mba_guard_skips(const mba_guard *g, double loss, double norm);

void mba_guard_note(mba_guard *g, double loss, double norm);

#endif
