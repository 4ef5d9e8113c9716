// SPDX-License-Identifier: Apache-2.0
/* power_tables.h -- what `validate` and `simulate --power-limit` print about power. */
#ifndef MBA_CLI_POWER_TABLES_H
#define MBA_CLI_POWER_TABLES_H

#include "cli/table.h"
#include "study/simulated_step.h"

/* Prints clock and energy of measured steps beside predictions that never saw their workload: text, or the member
 * "power" of a JSON object. */
MBA_MUST mba_status mba_print_power(const char *machine, mba_table_form form);

/* Prints clock, time and energy of a step at a power limit and at that of the machine. */
MBA_MUST mba_status mba_print_power_limit(const mba_workload *w, double limit_w, mba_sim *sim);

#endif
