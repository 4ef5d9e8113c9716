// SPDX-License-Identifier: Apache-2.0
/* watchdog.h -- finds the first operator whose output is NaN or infinite.
 *
 *     MBA_TRY(mba_watchdog(&finding, session, MBA_FORWARD | MBA_BACKWARD, &step));
 *     if (finding.node) ...                            // op, scope, which output, which element
 *
 * It runs the passes again, node by node, and examines every output right after its node. */
#ifndef MBA_WATCHDOG_H
#define MBA_WATCHDOG_H

#include "train/session.h"

typedef struct mba_finding {
    const mba_node *node; /* NULL: everything was finite */
    const char     *output;
    int64_t         element;
    double          value;
} mba_finding;

MBA_MUST mba_status mba_watchdog(mba_finding *out, mba_session *s, unsigned passes, const mba_step *step);

#endif
