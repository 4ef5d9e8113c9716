// SPDX-License-Identifier: Apache-2.0
/* simulate_ranks.h -- `simulate --gpus LIST --cluster NAME`: a step on many ranks, from the step of one. */
#ifndef MBA_SIMULATE_RANKS_H
#define MBA_SIMULATE_RANKS_H

#include "cli/table.h"
#include "study/simulated_step.h"

typedef struct mba_simulate_ranks_options {
    const mba_workload *w;
    const char         *gpus, *cluster; /* "8,64,512"; as mba_links_load takes it */
    const char         *measured;       /* a store of one rank: its times instead of simulated ones; NULL: none */
    bool                serial;         /* collectives do not run beside computation */
    mba_table_form      form;
} mba_simulate_ranks_options;

MBA_MUST mba_status mba_simulate_ranks(const mba_simulate_ranks_options *o);

#endif
