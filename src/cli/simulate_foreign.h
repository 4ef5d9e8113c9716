// SPDX-License-Identifier: Apache-2.0
/* simulate_foreign.h -- simulates kernels without launch plans, from their counters: `simulate --store`, `--counted`,
 * `--signatures`. */
#ifndef MBA_CLI_SIMULATE_FOREIGN_H
#define MBA_CLI_SIMULATE_FOREIGN_H

#include "cli/table.h"

typedef struct mba_simulate_foreign_options {
    const char    *machine, *changes;            /* as mba_gpu_load and mba_gpu_set take them */
    const char    *store, *counted, *signatures; /* the file that holds the kernels: one of the three */
    mba_table_form form;
} mba_simulate_foreign_options;

/* Prints a table of the kernels to stdout and their origin and errors to stderr. Kernels with counters have bands. */
MBA_MUST mba_status mba_simulate_foreign(const mba_simulate_foreign_options *o);

#endif
