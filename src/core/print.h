// SPDX-License-Identifier: Apache-2.0
/* print.h -- names, costs and memory of a graph and its plans, as text and as numbers.
 *
 *     const mba_cost c = mba_graph_cost(g, MBA_FORWARD);      // the least work of the forward pass
 *     mba_program_print_memory(stdout, p);                    // the table of the memory plan
 *
 * Nothing here needs a device. */
#ifndef MBA_PRINT_H
#define MBA_PRINT_H

#include <stdio.h>

#include "core/program.h"

const char *mba_kind_name(mba_kind kind); /* "gemm", "ssm", ... */
const char *mba_role_name(mba_role role); /* "parameters", ... */
const char *mba_pass_name(mba_pass pass); /* "forward", "backward", "update" */

mba_cost mba_cost_sum(mba_cost a, mba_cost b);
mba_cost mba_graph_cost(const mba_graph *g, unsigned passes);

/* The unit in which a table shows sizes whose sum is `bytes`: MB below 100 MB, else GB. */
typedef struct mba_size_unit {
    double      bytes;
    const char *name;
} mba_size_unit;
mba_size_unit mba_size_unit_of(size_t bytes);
void          mba_program_print_memory(FILE *f, const mba_program *p);

#endif
