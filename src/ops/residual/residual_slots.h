// SPDX-License-Identifier: Apache-2.0
/* residual_slots.h -- what the files of residual share: slots by name, attributes and the declarations of variants. */
#ifndef MBA_RESIDUAL_SLOTS_H
#define MBA_RESIDUAL_SLOTS_H

#include "core/rng.h"
#include "ops/columns.h"
#include "ops/rows.h"

enum { X, BRANCH, GAMMA, FACTOR }; /* forward: in, out */
enum { Y };
enum { DY, VB, GAMMAB, FACTORB }; /* backward: in, out; v and gamma only if there is a gamma */
enum { DV, DGAMMA };

typedef struct residual_attr {
    double  drop;
    int64_t rows;
} residual_attr;

/* 1 / (1 - p), or 0 for a sample that is dropped: word s % 4 of counter s / 4, as in ops/dropout. Only if no factors
 * are given. */
static inline double residual_draw(const mba_node *n, const mba_step *step, int64_t sample)
{
    const double p = ((const residual_attr *)n->attr)->drop;
    uint32_t     u[4];
    if (p == 0) return 1;
    mba_philox(u, step->seed ^ n->stream, mba_step_counter(step), (uint64_t)sample / 4);
    return mba_unit(u[sample % 4]) <= p ? 0 : 1 / (1 - p);
}

/* CUDA: columns per thread, forward and backward. */
static inline int residual_columns(const mba_node *n)
{
    const mba_tensor *const t[] = { n->in[0], n->in[1], n->out[0] };
    return mba__columns_at_once(t, 3);
}

void residual_ref(const mba_ref_call *c);
void residual_bwd_ref(const mba_ref_call *c);
MBA_CPU_DECLARE(residual_fwd);
MBA_CPU_DECLARE(residual_bwd);
mba_launch_fn residual_cuda, residual_bwd_cuda;

#endif
