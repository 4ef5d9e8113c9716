// SPDX-License-Identifier: Apache-2.0
/* on_machine.h -- `train --dry-run --machine h100`: whether a run fits a GPU that is not here, and how long a step
 * takes on it.
 *
 *     mba_on_machine m;
 *     mba_status st = mba_on_machine_plan(&m, "h100", &session_options, micros);
 *     if (st == MBA_OK) mba_on_machine_print(stdout, &m);         // m.sim.session is planned: print what else is in it
 *     mba_on_machine_end(&m);
 *
 * The plan is the one that training on that GPU makes with the printed --memory: 90 % of the machine's, unless it is
 * given. */
#ifndef MBA_CLI_ON_MACHINE_H
#define MBA_CLI_ON_MACHINE_H

#include <jansson.h>
#include <stdio.h>

#include "cli/simulated.h"

typedef struct mba_on_machine {
    mba_simulated sim;
    double        machine_gb, plan_gb, whole_gb; /* the plan; with all activations saved */
    double        limit_gb;                      /* limit of the plan: --memory, or 90 % of the machine's */
    bool          fits;                          /* false: the plan is the smallest there is */
    int64_t       micros;
    double        seconds; /* of an update with all its micro-batches; simulated where it fits */
    mba_band      band;    /* times that */
} mba_on_machine;

MBA_MUST mba_status mba_on_machine_plan(mba_on_machine *m, const char *machine, const mba_session_options *so,
                                        int64_t micros);
void                mba_on_machine_print(FILE *f, const mba_on_machine *m);
json_t             *mba_on_machine_json(const mba_on_machine *m);
void                mba_on_machine_end(mba_on_machine *m); /* half-made ones are fine */

#endif
