// SPDX-License-Identifier: Apache-2.0
/* rank_merge.h -- makes one store of those of all ranks of a run.
 *
 *     mba_rank_clocks before = { 0 }, after = { 0 };
 *     MBA_TRY(mba_rank_clocks_compare(&before, w));            // all ranks
 *     ..                                                       // every rank profiles into mba_rank_store_path
 *     MBA_TRY(mba_rank_clocks_compare(&after, w));
 *     if (w->rank == 0) MBA_TRY(mba_rank_merge(store, w->ranks, "run.db", &before, &after));
 *     mba_rank_clocks_free(&before), mba_rank_clocks_free(&after);
 *
 * The store of rank 0 gets the tables rank and rank_event: the timelines of all ranks by its own clock. Everything else
 * in it stays what rank 0 measured. The stores of the other ranks remain. */
#ifndef MBA_RANK_MERGE_H
#define MBA_RANK_MERGE_H

#include "core/world.h"
#include "scope/store.h"

enum { MBA_RANK_HOST = 64 };

/* The clocks of all ranks against that of rank 0, which alone has them. */
typedef struct mba_rank_clocks {
    int64_t *offset_ns, *round_trip_ns;
    char (*host)[MBA_RANK_HOST];
} mba_rank_clocks;

/* Rank 0 exchanges short messages with each of the others; the fastest of 32 gives the offset. A call of all ranks. */
MBA_MUST mba_status mba_rank_clocks_compare(mba_rank_clocks *c, mba_world *w);
void                mba_rank_clocks_free(mba_rank_clocks *c);

/* "run.db" of rank 3 is "run.rank-0003.db"; that of rank 0 is itself. False: too long. */
bool mba_rank_store_path(char *path, size_t room, const char *out, int rank);

/* Reads the stores of all ranks but 0, which `into` is, and adds them. They must be closed. */
MBA_MUST mba_status mba_rank_merge(mba_store *into, int ranks, const char *out, const mba_rank_clocks *before,
                                   const mba_rank_clocks *after);

#endif
