// SPDX-License-Identifier: Apache-2.0
/* events.h -- the discrete-event simulation of one kernel on one or more SMs. Internal to the engine: fidelity.c
 * decides how many SMs and blocks to simulate, rates.c supplies the rates, engine.c runs the events. */
#ifndef MBA_SIM_EVENTS_H
#define MBA_SIM_EVENTS_H

#include "sim/rates.h"

typedef struct mba_sim_extent {
    int64_t sms, resident, blocks; /* SMs; resident blocks per SM; blocks in total */
    int64_t mark_at[2];            /* record the time when this many blocks have ended; 0: do not */
} mba_sim_extent;

typedef struct mba_sim_ends {
    tick    last, mark[2]; /* end of the kernel; times recorded for mark_at */
    int64_t events;        /* events processed */
} mba_sim_ends;

/* Fails with MBA_E_UNSUPPORTED if the roles of a block deadlock on their rings, with MBA_E_NOMEM without memory. */
MBA_MUST mba_status mba_sim_events(mba_sim_ends *out, const mba_sim_kernel *k, const rates *r, const mba_sim_extent *x);

#endif
