// SPDX-License-Identifier: Apache-2.0
/* simulate_foreign.h -- kernels that have no plan, on a machine that is not here: `simulate --store`, `--counted`,
 * `--signatures`. */
#ifndef MBA_CLI_SIMULATE_FOREIGN_H
#define MBA_CLI_SIMULATE_FOREIGN_H

#include "cli/table.h"

typedef struct mba_simulate_foreign_options {
    const char    *machine, *changes;            /* as mba_gpu_load and mba_gpu_set take them */
    const char    *store, *counted, *signatures; /* one of them: where the kernels are */
    mba_table_form form;
} mba_simulate_foreign_options;

/* Prints a table of them to stdout, and what they are to stderr. Kernels of a store have bands. */
MBA_MUST mba_status mba_simulate_foreign(const mba_simulate_foreign_options *o);

#endif
