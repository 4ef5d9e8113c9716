// SPDX-License-Identifier: Apache-2.0
/* join.h -- joins the ranks that a launcher has started: MPI for bulk exchanges, the channel for the rest.
 *
 *     mba_world *w = NULL;
 *     MBA_TRY(mba_launcher_find(&launch, getenv));
 *     if (launch.ranks > 1) MBA_TRY(mba_cluster_join(&w, &launch, &(mba_cluster_options){ .lost = end_process }));
 *     ..
 *     mba_cluster_leave(w);                            // all ranks; NULL is fine
 *
 * A world of one opens nothing. Ranks on the CPU exchange by MPI, through libmambascope_mpi.so, which lies beside the
 * program or in its library folder and is opened here. Ranks with GPUs need no MPI: then they meet where their
 * environment says (rendezvous.h), and w->exchange is NULL until device/cuda/nccl.h gives them one. */
#ifndef MBA_CLUSTER_JOIN_H
#define MBA_CLUSTER_JOIN_H

#include "cluster/channel.h"
#include "cluster/launcher.h"

typedef struct mba_cluster_options {
    bool gpus;                                           /* the ranks have GPUs */
    void (*lost)(void *ctx, const mba_channel_end *end); /* these: see channel.h */
    void *ctx;
    mba_status (*check)(void);
} mba_cluster_options;

MBA_MUST mba_status mba_cluster_join(mba_world **out, const mba_launcher *l, const mba_cluster_options *o);
void                mba_cluster_leave(mba_world *w);

/* Seconds until a silent rank is lost (channel.h). */
void mba_cluster_set_timeout(mba_world *w, double seconds);

/* Ends the run with an error of this rank. Returns true if rank 0 prints it; then this rank must not. */
bool mba_cluster_fail(mba_world *w, int code, const char *text);

/* "rank 3 (host)" */
typedef struct mba_rank_words {
    char text[96];
} mba_rank_words;
mba_rank_words mba_cluster_rank(const mba_world *w);

/* True if the plug-in is there. Opens nothing. */
bool mba_cluster_has_mpi(void);

#endif
