// SPDX-License-Identifier: Apache-2.0
/* step.h -- everything that changes from one training step to the next, in one small struct.
 *
 * The host copies it to the device once per micro-batch; kernels read it through a pointer. No kernel
 * argument changes between steps, so a captured CUDA graph is launched again as it is, and the graph of
 * operators is never rebuilt. Plain C: kernels include it too. */
#ifndef MBA_STEP_H
#define MBA_STEP_H

#include "core/tensor.h"

typedef struct mba_step {
    int64_t  index; /* optimizer steps done so far */
    uint64_t seed;
    int32_t  micro, rank; /* micro-batch of this step; data-parallel rank */
    float    lr;
    float    loss_scale;         /* 1 / (valid targets of the global batch); 0: mean over the valid rows */
    float    norm_max, loss_max; /* a larger gradient norm or loss skips the update; 0: no finite one does */
    int32_t  count[MBA_COUNTS];  /* valid rows of a ragged batch: see mba_step_rows; [MBA_ALL] is not used */
} mba_step;

/* Returns how many of `capacity` rows are valid. If all counts are 0 (a zeroed step), the batch is full. If any count
 * is set, all of them are meant, and 0 means no rows: a batch without edges. The cases cannot be confused, because a
 * ragged batch has at least one node. */
static inline MBA_HD int64_t mba_step_rows(const mba_step *s, mba_count kind, int64_t capacity)
{
    bool ragged = false;
    for (int k = MBA_ALL + 1; k < MBA_COUNTS; k++) ragged |= s->count[k] > 0;
    return ragged && kind != MBA_ALL ? s->count[kind] : capacity;
}

/* The high half of every random counter: unique for each step, micro-batch and rank. */
static inline MBA_HD uint64_t mba_step_counter(const mba_step *s)
{
    return (uint64_t)s->index << 32 | (uint64_t)(uint32_t)s->micro << 16 | (uint32_t)s->rank;
}

#endif
