// SPDX-License-Identifier: Apache-2.0
/* shards.h -- one optimizer over several ranks (ZeRO-1): every rank holds all parameters and gradients, and the moments
 * of its pieces. session.c plans it; checkpoints hold whole moments, of which each rank writes and reads its pieces
 * (checkpoint_ranks.c).
 *
 * The gradient of a group is divided into equal buckets, each into one piece per rank (ops/collectives). A rank's
 * moments are its pieces, bucket after bucket. Storages are padded with zeros to whole buckets, which changes no
 * sum. */
#ifndef MBA_SHARDS_H
#define MBA_SHARDS_H

#include "train/session.h"

/* Pads the parameter storages of a graph without gradients and chooses the buckets, of at most bucket_bytes of fp32
 * where that holds one block per rank. */
void mba_shards_pad(mba_buckets *out, mba_graph *g, int64_t ranks, int64_t bucket_bytes);

/* True if ranks share the moments. */
bool mba_shards_exist(const mba_session *s);

/* The pieces of m (`which` 0) or v (1) of a group that this rank holds, on the host; NULL: the group has none. */
typedef struct mba_pieces {
    float  *at;
    int64_t n, elems; /* pieces, one per bucket; elements of each */
} mba_pieces;
mba_pieces mba_shards_pieces(const mba_session *s, int which, int group);

/* Elements first .. first + count - 1 of a parameter, whose moments are at `at`. */
typedef struct mba_shards_run {
    const mba_tensor *param;
    int64_t           first, count;
    float            *at;
} mba_shards_run;
typedef mba_status mba_shards_use(void *user, const mba_shards_run *r);

/* Calls `use` for all runs in the piece of bucket `bucket` of the rank at `p`, which lies at `piece`. */
MBA_MUST mba_status mba_shards_runs(const mba_session *s, mba_place p, int group, int64_t bucket, float *piece,
                                    mba_shards_use *use, void *user);

#endif
