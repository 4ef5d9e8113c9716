// SPDX-License-Identifier: Apache-2.0
/* step.h -- everything that changes from step to step, in one small struct.
 *
 * It is copied to the device once per micro-batch; kernels read it through a pointer. No kernel
 * argument changes between steps, so a captured CUDA graph is replayed as it is and the graph of
 * operators is never rebuilt. Plain C: included by kernels too. */
#ifndef MBA_STEP_H
#define MBA_STEP_H

#include "core/tensor.h"

typedef struct mba_step {
    int64_t  index; /* optimizer steps done, from 0 */
    uint64_t seed;
    int32_t  micro, rank; /* micro-batch of this step; data-parallel rank */
    float    lr;
    float    loss_scale;         /* 1 / (valid targets of the global batch); 0: mean of the valid rows */
    float    norm_max, loss_max; /* a larger gradient norm or loss skips the update; 0: any finite one does */
    int32_t  count[MBA_COUNTS];  /* real rows of a ragged batch: mba_step_rows; [MBA_ALL] is not used */
} mba_step;

/* How many of `capacity` rows are real. A step without any count (all 0, as a step starts) is that of a full batch.
 * Once one count is given, all of them say what they say, and 0 is none: a batch without edges. The two cannot be
 * mistaken for each other, because a batch has at least a node. */
static inline MBA_HD int64_t mba_step_rows(const mba_step *s, mba_count kind, int64_t capacity)
{
    bool ragged = false;
    for (int k = MBA_ALL + 1; k < MBA_COUNTS; k++) ragged |= s->count[k] > 0;
    return ragged && kind != MBA_ALL ? s->count[kind] : capacity;
}

/* The high half of every random counter: a step, its micro-batch and the rank never meet again. */
static inline MBA_HD uint64_t mba_step_counter(const mba_step *s)
{
    return (uint64_t)s->index << 32 | (uint64_t)(uint32_t)s->micro << 16 | (uint32_t)s->rank;
}

#endif
