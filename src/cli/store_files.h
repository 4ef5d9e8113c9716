// SPDX-License-Identifier: Apache-2.0
/* store_files.h -- opens the stores of a report, leaving out unreadable ones, and checks output paths, so that no
 * output replaces a store. */
#ifndef MBA_CLI_STORE_FILES_H
#define MBA_CLI_STORE_FILES_H

#include "report/report.h"

/* Opens those of the `n` stores that can be read. Errors of the others go to stderr, their names into r->left_out.
 * *shown (NULL: all) becomes the number of the first *shown that were opened. MBA_E_FORMAT if none can be read. */
MBA_MUST mba_status mba_stores_open_good(mba_stores *r, const char *const *path, int n, int *shown);

/* Adds what machine files and the simulator say of the runs: rates of L2 and L1 that a run did not measure and, if
 * `whatif`, the simulations of the first r->shown runs. They are in *out (else NULL), which the caller frees after
 * the stores. */
MBA_MUST mba_status mba_stores_simulate(mba_stores *r, mba_whatif **out, bool whatif);

/* Before the work whose result will be a file at `path`: MBA_E_ARG where a store is, which holds measurements that a
 * page or a trace made from it could not give back; MBA_E_IO where nothing can be written. */
MBA_MUST mba_status mba_output_check(const char *path);

#endif
