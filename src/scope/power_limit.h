// SPDX-License-Identifier: Apache-2.0
/* power_limit.h -- a power limit of the GPU for as long as a measurement takes.
 *
 *     mba_power_limit limit;
 *     MBA_TRY(mba_power_limit_set(&limit, 400));              // E_UNSUPPORTED: the driver does not permit it
 *     mba_status st = measure();
 *     mba_power_limit_restore(&limit);                        // also of a limit that was never set
 *
 * The limit outlives the process that sets it, so a watcher (below) sets it back if this process is killed. */
#ifndef MBA_SCOPE_POWER_LIMIT_H
#define MBA_SCOPE_POWER_LIMIT_H

#include <sys/types.h>

#include "core/status.h"

/* A process that runs a command if this one ends, for whatever reason, before it is dismissed. */
typedef struct mba_watcher {
    pid_t process; /* 0: none */
    int   open;    /* the watcher waits for the end of this pipe */
} mba_watcher;

MBA_MUST mba_status mba_watcher_start(mba_watcher *out, char *const argv[]);
void                mba_watcher_dismiss(mba_watcher *g);

typedef struct mba_power_limit {
    double      was_w; /* 0: not changed */
    mba_watcher watcher;
} mba_power_limit;

MBA_MUST mba_status mba_power_limit_set(mba_power_limit *out, double watts);
void                mba_power_limit_restore(mba_power_limit *p);

#endif
