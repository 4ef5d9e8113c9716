// SPDX-License-Identifier: Apache-2.0
/* correlate.h -- finds, for each event of a captured step, the node of our graph that launched it.
 *
 *     MBA_TRY(mba_correlate_events(&events, counts, graph->nnodes, &found));
 *
 * A step is one graph launch on one stream, so its kernels run in the order of capture. `counts` says how many events
 * of each kind every node added to the captured graph (launch_trace.h). If a launch has other numbers, its events stay
 * without a node, and the report says so. Fewer memsets than captured are fine: device/cuda/counters.h merges them.
 * Plain C. */
#ifndef MBA_SCOPE_CORRELATE_H
#define MBA_SCOPE_CORRELATE_H

#include "scope/events.h"

typedef struct mba_node_counts {
    int32_t n[MBA_EVENT_KINDS];
} mba_node_counts;

typedef struct mba_correlate_report {
    int32_t steps;                                           /* graph launches found */
    int64_t linked, unlinked;                                /* events of graph launches with and without a node */
    int64_t expected[MBA_EVENT_KINDS], got[MBA_EVENT_KINDS]; /* per launch; `got`: of the last that differs */
} mba_correlate_report;

/* Sorts the events by start and sets step, node and launch of each. Events outside of graphs get the step they serve:
 * copies of inputs the next one, copies of results the previous one. */
MBA_MUST mba_status mba_correlate_events(mba_events *l, const mba_node_counts *counts, int32_t nnodes,
                                         mba_correlate_report *out);

#endif
