// SPDX-License-Identifier: Apache-2.0
/* ranks.h -- what the timelines of several ranks say together (rank_merge.h): who waits for whom, and what hides
 * communication.
 *
 *     mba_ranks *r;
 *     MBA_TRY(mba_ranks_read(&r, store));                    // NULL: a store of one rank
 *     if (r) printf("rank %lld is the last\n", (long long)r->straggler);
 *     mba_ranks_free(r);                                     // before the store is closed
 *
 * A collective ends on no rank before the last has started it. Skew: last start less first start. Wait: from the start
 * of a rank to the last start. Transfer: the rest. Exposed: in a collective while the rank computes nothing.
 * Overlap: 1 - exposed / time in collectives. */
#ifndef MBA_SCOPE_RANKS_H
#define MBA_SCOPE_RANKS_H

#include "scope/store.h"

/* One rank; times are means over steps. */
typedef struct mba_rank_view {
    const mba_row_rank *row;
    double              step_s, compute_s, comm_s, wait_s, exposed_s;
    int64_t             last; /* collectives that it was the last to start */
} mba_rank_view;

/* One collective node; times are means over steps, of wait and transfer also over ranks. */
typedef struct mba_collective_view {
    const mba_row_node *node;
    double              bytes; /* of the whole vector */
    double              skew_s, skew_most_s, wait_s, transfer_s;
    double              bus_gbs; /* bytes that a rank sends at least over the transfer */
} mba_collective_view;

typedef struct mba_ranks {
    int64_t              ranks, steps, ncollectives;
    mba_rank_view       *rank;
    mba_collective_view *collective;          /* in the order of the graph */
    double               skew_s, skew_most_s; /* median and largest over all collectives of all steps */
    double               residual_s; /* by how much some rank left a collective before the last entered: clock error */
    int64_t              straggler, arrivals; /* the rank that was last most often; collectives of all steps */
    mba_row_rank_event  *event;
    int64_t              nevents;
    bool                *communicates; /* per node */
    int64_t              nnodes;
} mba_ranks;

MBA_MUST mba_status mba_ranks_read(mba_ranks **out, mba_store *s);
void                mba_ranks_free(mba_ranks *r); /* NULL is fine */

#endif
