// SPDX-License-Identifier: Apache-2.0
/* ranks.h -- runs a command on the ranks that a launcher has started, and ends all of them together.
 *
 *     MBA_TRY(mba_launcher_find(&l, getenv));
 *     if (l.ranks > 1) return mba_on_ranks(&l, false, live, &options);  // live(world, &options) on every rank
 */
#ifndef MBA_CLI_RANKS_H
#define MBA_CLI_RANKS_H

#include "cluster/join.h"

typedef mba_status mba_ranks_fn(mba_world *w, void *ctx);

/* Joins the other ranks, calls `live` and leaves. A rank that fails ends the others with its message. `gpus`: ranks
 * with GPUs, which need no MPI. */
MBA_MUST mba_status mba_on_ranks(const mba_launcher *l, bool gpus, mba_ranks_fn *live, void *ctx);

/* Ranks of one host share its cores, unless somebody said how many each has: `threads`, or OMP_NUM_THREADS. */
void mba_ranks_divide_cores(const mba_launcher *l, int64_t threads);

#endif
