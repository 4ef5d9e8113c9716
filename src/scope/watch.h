/* watch.h -- every launch of a program goes through us: who launches now, and what each node added to the captured graph.
 *
 *     MBA_TRY(mba_watch_begin(program));            // captured graphs are forgotten: they are captured anew, watched
 *     MBA_TRY(mba_program_run(program, MBA_STEP, &step, NULL));   // twice: the second is captured
 *     const mba_node_counts *counts = mba_watch_counts();         // one per node, of the last capture
 *     mba_watch_end();
 *
 * One program at a time, one thread. */
#ifndef MBA_SCOPE_WATCH_H
#define MBA_SCOPE_WATCH_H

#include "core/program.h"
#include "scope/link.h"

MBA_MUST mba_status    mba_watch_begin(mba_program *p);
int32_t                mba_watch_node(void);       /* the node whose launch runs now; -1: none */
const mba_node_counts *mba_watch_counts(void);
void                   mba_watch_end(void);

#endif
