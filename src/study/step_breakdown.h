// SPDX-License-Identifier: Apache-2.0
/* step_breakdown.h -- the parts of a simulated step: operators with their bands, shares of the time, and the effect of
 * the uncertainty of the machine's numbers.
 *
 *     mba_step_operators o;
 *     MBA_TRY(mba_step_operators_find(&o, &simulated, &workload, sim));
 *     printf("%s: %.3f ms\n", o.one[0].op->name, 1e3 * o.one[0].sum.seconds);         // the longest first
 *     mba_step_operators_free(&o);
 */
#ifndef MBA_STUDY_STEP_BREAKDOWN_H
#define MBA_STUDY_STEP_BREAKDOWN_H

#include "study/simulated_step.h"

/* All nodes of an operator in a pass. */
typedef struct mba_step_operator {
    const mba_op *op;
    mba_pass      pass;
    int           nodes, limit; /* limit: what limits its longest node */
    mba_sim_node  sum;          /* busy: seconds of each pipe, not shares */
    double        longest_s;
    mba_band      band; /* around sum.seconds */
} mba_step_operator;

/* Bands of the step: from the spreads of the machine's numbers; from measured over predicted steps; from both. */
typedef struct mba_step_operators {
    mba_step_operator *one;
    int                n;
    mba_band           spread, validated, both;
} mba_step_operators;

MBA_MUST mba_status mba_step_operators_find(mba_step_operators *out, const mba_simulated *r, const mba_workload *w,
                                            mba_sim *sim);
void                mba_step_operators_free(mba_step_operators *o);

/* Standard deviation of the step, in percent, if the numbers of the machine are independent and have their standard
 * deviations; and the number that contributes most, with its contribution. */
typedef struct mba_step_deviation {
    double percent, most_percent;
    int    key;
} mba_step_deviation;
MBA_MUST mba_status mba_step_deviation_find(mba_step_deviation *out, const mba_simulated *r, const mba_workload *w,
                                            mba_sim *sim);

/* Percent of the step's time by kind of operator; utilisation of the tensor units and of the busiest vector pipe. */
typedef struct mba_step_shares {
    double kind[MBA_KINDS], tensor, vector;
} mba_step_shares;
mba_step_shares mba_step_shares_of(const mba_simulated *r);

#endif
