// SPDX-License-Identifier: Apache-2.0
/* plan_work.c -- see plan_work.h: walks the phases of a launch and multiplies by the trips of its loops. */
#include "core/plan_work.h"

#include <string.h>

/* Adds the work of `blocks` blocks of one class. A loop multiplies what is inside it. */
static void add_blocks(mba_work_sums *sum, const mba_launch *l, double blocks, const double *trips)
{
    double times[MBA_PHASE_MAX + 1] = { blocks };
    int    depth = 0;
    for (int k = 0; k < l->nphases; k++) {
        const mba_phase *ph = &l->phase[k];
        if (ph->work == MBA_LOOP) {
            mba_assert(ph->n >= 0 || -1 - ph->n < 2); // MBA_TRIPS(0) or MBA_TRIPS(1)
            times[depth + 1] = times[depth] * (ph->n >= 0 ? ph->n : trips[(int)(-1 - ph->n)]);
            depth++;
        } else if (ph->work == MBA_END) {
            mba_assert(depth > 0);
            depth--;
        } else {
            sum->of[ph->work] += times[depth] * ph->n;
            if (ph->operand >= 0 && ph->operand < MBA_WORK_OPERANDS && ph->work <= MBA_ASYNC)
                sum->operand[ph->operand][ph->work == MBA_STORE] +=
                    times[depth] * ph->n / (ph->share > 1 && ph->work != MBA_STORE ? ph->share : 1);
        }
    }
    mba_assert(depth == 0); // every loop ends
}

void mba_launch_sums(mba_work_sums *sum, const mba_launch *l)
{
    static const double none[2] = { 0, 0 };
    memset(sum, 0, sizeof *sum);
    for (int b = 0; b < l->nblocks; b++) add_blocks(sum, l, (double)l->blocks[b].count, l->blocks[b].trips);
    if (!l->nblocks) add_blocks(sum, l, (double)l->grid[0] * (double)l->grid[1] * (double)l->grid[2], none);
}

double mba_launch_work(const mba_launch *l, mba_work work)
{
    mba_work_sums sum;
    mba_launch_sums(&sum, l);
    return sum.of[work];
}
