// SPDX-License-Identifier: Apache-2.0
/* store_files.h -- opens the stores of a report, leaving out unreadable ones, and checks output paths, so that no
 * output replaces a store. */
#ifndef MBA_CLI_STORE_FILES_H
#define MBA_CLI_STORE_FILES_H

#include <stdio.h>

#include "report/report.h"

/* Opens those of the `n` stores that can be read. Errors of the others go to stderr, their names into r->left_out.
 * *shown (NULL: all) becomes the number of the first *shown that were opened. MBA_E_FORMAT if none can be read. */
MBA_MUST mba_status mba_stores_open_good(mba_stores *r, const char *const *path, int n, int *shown);

/* Adds rates of L2 and L1 from machine files to runs that did not measure them and, if `whatif`, simulates the first
 * r->shown runs. *out holds the simulations, or is NULL; the caller frees it after the stores. */
MBA_MUST mba_status mba_stores_simulate(mba_stores *r, mba_whatif **out, bool whatif);

/* Says what to doubt of the stores (scope/doubts.h), a line of each kind; with one store its name is left out. */
void mba_stores_tell_doubts(FILE *f, const mba_stores *r);

/* Checks a path before the work whose result will be written there. MBA_E_ARG: a store is there, and its measurements
 * would be lost. MBA_E_IO: nothing can be written there. */
MBA_MUST mba_status mba_output_check(const char *path);

#endif
