// SPDX-License-Identifier: Apache-2.0
/* bench_links.h -- `mpirun -np N mambascope bench links`: latency and bandwidth of what connects ranks. */
#ifndef MBA_BENCH_LINKS_H
#define MBA_BENCH_LINKS_H

#include <stdint.h>

#include "cli/table.h"

typedef struct mba_bench_links_options {
    mba_table_form form;
    int64_t        repeats;
    const char    *out; /* a cluster file to write (sim/links.h); NULL: none */
} mba_bench_links_options;

MBA_MUST mba_status mba_bench_links(const mba_bench_links_options *o);

#endif
