// SPDX-License-Identifier: Apache-2.0
/* grad_norm_slots.h -- what the files of grad_norm share. The inputs are the flat gradients, one per group, and the
 * loss. */
#ifndef MBA_GRAD_NORM_SLOTS_H
#define MBA_GRAD_NORM_SLOTS_H

#include "core/op.h"

enum { LOSS = MBA_GROUPS };
enum { NORM };
enum { GRAD_NORM_BLOCK = 16384 }; /* values per partial sum, 64 KB: constant, so that the order of sums is */

/* True if the update must be skipped: norm or loss is not finite, or above the limit of the step. */
static inline MBA_HD bool grad_norm_skips(const mba_step *s, float norm, float loss)
{
    const bool finite = norm - norm == 0 && loss - loss == 0;
    return !finite || (s->norm_max > 0 && norm > s->norm_max) || (s->loss_max > 0 && loss > s->loss_max);
}

void grad_norm_ref(const mba_ref_call *c);
MBA_CPU_DECLARE(grad_norm_fwd);
mba_launch_fn grad_norm_cuda;

#endif
