/* step.h -- everything that changes from step to step, in one small struct.
 *
 * It is copied to the device once per micro-batch; kernels read it through a pointer. No kernel
 * argument changes between steps, so a captured CUDA graph is replayed as it is and the graph of
 * operators is never rebuilt. Plain C: included by kernels too. */
#ifndef MBA_STEP_H
#define MBA_STEP_H

#include "core/tensor.h"

typedef struct mba_step {
    int64_t  index;                    /* optimizer steps done, from 0 */
    uint64_t seed;
    int32_t  micro, rank;              /* micro-batch of this step; data-parallel rank */
    float    lr;
    float    loss_scale;               /* 1 / (valid targets of the global batch); 0: mean of the valid rows */
    float    norm_max;                 /* a larger gradient norm skips the update; 0: any finite one is fine */
    int32_t  count[MBA_COUNTS];        /* real rows of a ragged batch; [MBA_ALL] is not used */
} mba_step;

/* The high half of every random counter: a step, its micro-batch and the rank never meet again. */
static inline uint64_t mba_step_counter(const mba_step *s)
{
    return (uint64_t)s->index << 32 | (uint64_t)(uint32_t)s->micro << 16 | (uint32_t)s->rank;
}

#endif
