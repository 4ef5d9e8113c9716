// SPDX-License-Identifier: Apache-2.0
/* step_plan.h -- prints the cost of a planned training step for `train --dry-run`: parameters, least work, memory, and
 * whether it fits a machine that is not here. */
#ifndef MBA_STEP_PLAN_H
#define MBA_STEP_PLAN_H

#include "study/cliffs.h"
#include "study/on_machine.h"

/* Prints to standard output. `there`: the machine of the plan, or NULL; `slow`: what runs far below its best
 * variant. */
MBA_MUST mba_status mba_step_plan_print(const mba_session *s, const mba_on_machine *there, const mba_cliffs *slow,
                                        bool json);

#endif
