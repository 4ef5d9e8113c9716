// SPDX-License-Identifier: Apache-2.0
/* plan_work.h -- the work of a planned launch, summed over all of its blocks.
 *
 *     const double flops = mba_launch_work(l, MBA_MMA);
 *
 * A loop in the plan multiplies what is inside it. The profiler sets these sums beside counters; the simulator and the
 * floors of kernels use them too. */
#ifndef MBA_PLAN_WORK_H
#define MBA_PLAN_WORK_H

#include "core/plan.h"

enum { MBA_WORK_OPERANDS = MBA_ARG_SCRATCH(MBA_SCRATCH_MAX) };

typedef struct mba_work_sums {
    double of[MBA_END + 1];               /* by kind of work: see mba_work */
    double operand[MBA_WORK_OPERANDS][2]; /* bytes read, written; what several blocks share counts once */
} mba_work_sums;

void mba_launch_sums(mba_work_sums *sum, const mba_launch *l);

/* The sum of one kind of work. */
double mba_launch_work(const mba_launch *l, mba_work work);

#endif
