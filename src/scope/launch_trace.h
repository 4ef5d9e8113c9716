// SPDX-License-Identifier: Apache-2.0
/* launch_trace.h -- intercepts the launches of a program: tells which node launches now, and what each node added to
 * the captured graph. correlate.h uses these counts.
 *
 *     MBA_TRY(mba_launch_trace_begin(program));            // discards captured graphs, so that they are captured again
 *     MBA_TRY(mba_program_run(program, MBA_STEP, &step, NULL));   // twice: the second is captured
 *     const mba_node_counts *counts = mba_launch_trace_counts();         // one per node, of the last capture
 *     mba_launch_trace_end();
 *
 * One program at a time, one thread. */
#ifndef MBA_SCOPE_LAUNCH_TRACE_H
#define MBA_SCOPE_LAUNCH_TRACE_H

#include "core/program.h"
#include "scope/correlate.h"

MBA_MUST mba_status    mba_launch_trace_begin(mba_program *p);
int32_t                mba_launch_trace_node(void); /* the node whose launch runs now; -1: none */
const mba_node_counts *mba_launch_trace_counts(void);
void                   mba_launch_trace_end(void);

#endif
