// SPDX-License-Identifier: Apache-2.0
/* power_limit.h -- a power limit of the GPU for as long as a measurement takes.
 *
 *     mba_power_limit limit;
 *     MBA_TRY(mba_power_limit_set(&limit, 400, d->bus_id));   // E_UNSUPPORTED: the driver does not permit it
 *     mba_status st = measure();
 *     mba_power_limit_restore(&limit);                        // also of a limit that was never set
 *
 * The limit outlives the process that sets it, so a watcher (below) sets it back if this process is killed. Two
 * processes cannot limit one GPU at a time: the second would take the first one's limit for the GPU's own. */
#ifndef MBA_SCOPE_POWER_LIMIT_H
#define MBA_SCOPE_POWER_LIMIT_H

#include <sys/types.h>

#include "core/status.h"

/* A process that runs a command if this one ends, for whatever reason, before it is dismissed. */
typedef struct mba_watcher {
    pid_t process; /* 0: none */
    int   open;    /* the watcher waits for the end of this connection */
} mba_watcher;

/* Returns once no signal of the terminal or of the process group can reach the watcher. It holds the descriptor `keep`
 * until its command has ended; -1: none. */
MBA_MUST mba_status mba_watcher_start(mba_watcher *out, char *const argv[], int keep);
void                mba_watcher_dismiss(mba_watcher *g); /* also one that has been killed */

typedef struct mba_power_limit {
    double      was_w; /* 0: not changed */
    const char *gpu;
    int         lock; /* a file */
    mba_watcher watcher;
} mba_power_limit;

/* gpu: as nvml.h names it; not copied. */
MBA_MUST mba_status mba_power_limit_set(mba_power_limit *out, double watts, const char *gpu);
void                mba_power_limit_restore(mba_power_limit *p);

#endif
