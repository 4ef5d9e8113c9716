// SPDX-License-Identifier: Apache-2.0
/* events.h -- blocks of a kernel run event by event on some SMs. Of the engine alone. */
#ifndef MBA_SIM_EVENTS_H
#define MBA_SIM_EVENTS_H

#include "sim/rates.h"

typedef struct mba_sim_extent {
    int64_t sms, resident, blocks; /* SMs; blocks of each at a time; blocks in all */
    int64_t mark_at[2];            /* when so many have ended is written down; 0: nobody asks */
} mba_sim_extent;

typedef struct mba_sim_ends {
    tick    last, mark[2]; /* end of everything; of the blocks that were asked about */
    int64_t events;
} mba_sim_ends;

MBA_MUST mba_status mba_sim_events(mba_sim_ends *out, const mba_sim_kernel *k, const rates *r, const mba_sim_extent *x);

#endif
