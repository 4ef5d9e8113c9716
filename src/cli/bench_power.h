// SPDX-License-Identifier: Apache-2.0
/* bench_power.h -- `mambascope bench power`: mean power, clock and energy of training steps on the GPU. */
#ifndef MBA_CLI_BENCH_POWER_H
#define MBA_CLI_BENCH_POWER_H

#include "cli/options.h"
#include "cli/table.h"

/* Times each workload of words 1 to the last ("mamba2-130m --batch 8 --length 2048") and prints a row for it. */
MBA_MUST mba_status mba_bench_power(const mba_operands *words, mba_table_form form);

#endif
