// SPDX-License-Identifier: Apache-2.0
/* on_machine.h -- whether a training run fits a GPU that need not be here, and how long a step takes there.
 *
 *     mba_on_machine m;
 *     mba_status st = mba_on_machine_plan(&m, "h100", &session_options, micros);
 *     if (st == MBA_OK && m.fits) printf("%.1f ms\n", 1e3 * m.seconds);         // m.sim.session is planned
 *     mba_on_machine_end(&m);
 *
 * The memory plan is the one that training makes there with `limit_gb`: 90 % of the machine's memory, unless the
 * options of the session say otherwise. */
#ifndef MBA_STUDY_ON_MACHINE_H
#define MBA_STUDY_ON_MACHINE_H

#include "study/simulated_step.h"

typedef struct mba_on_machine {
    mba_simulated sim;
    double  machine_gb, plan_gb, whole_gb; /* plan_gb: the memory plan; whole_gb: the plan that saves all activations */
    double  limit_gb;                      /* what the plan may take: --memory, or 90 % of the machine's */
    bool    fits;                          /* false: the plan is the smallest that is possible */
    int64_t micros;
    double  seconds; /* of an update with all its micro-batches; simulated if it fits */
    mba_band band;   /* around `seconds`, as factors */
} mba_on_machine;

MBA_MUST mba_status mba_on_machine_plan(mba_on_machine *m, const char *machine, const mba_session_options *so,
                                        int64_t micros);
void                mba_on_machine_end(mba_on_machine *m); /* accepts one whose plan failed */

#endif
