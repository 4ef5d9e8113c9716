// SPDX-License-Identifier: Apache-2.0
/* grad_norm_slots.h -- what the files of grad_norm share. The inputs are the flat gradients, one per group, and the
 * loss. */
#ifndef MBA_GRAD_NORM_SLOTS_H
#define MBA_GRAD_NORM_SLOTS_H

#include "core/op.h"
#include "ops/collectives/collectives.h"

enum { LOSS = MBA_GROUPS };
enum { NORM };
enum { GRAD_NORM_BLOCK = 16384 }; /* = MBA_NORM_BLOCK */

typedef struct grad_norm_attr {
    mba_place   place;
    mba_buckets b; /* of shards; zero: the gradient is whole */
} grad_norm_attr;

/* True if element i of a group is of this rank's pieces. */
static inline bool grad_norm_owns(const grad_norm_attr *a, int group, int64_t i)
{
    if (a->place.ranks == 1) return true;
    const int64_t at = i % a->b.bucket[group] - mba_piece_offset(a->place, a->b.bucket[group]);
    return at >= 0 && at < a->b.bucket[group] / a->place.ranks;
}

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
