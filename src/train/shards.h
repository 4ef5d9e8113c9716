// SPDX-License-Identifier: Apache-2.0
/* shards.h -- one optimizer over several ranks (ZeRO-1): every rank holds all parameters and gradients, and the moments
 * of its pieces. session.c plans it; checkpoints hold whole moments.
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

/* Makes s->whole, all moments in the layout of the parameters: memory for a checkpoint that is read (`gathered` false),
 * or the moments of all ranks, gathered on rank 0 (a call of all ranks). Nothing happens without shards. */
MBA_MUST mba_status mba_shards_whole(mba_session *s, bool gathered);

/* Takes this rank's pieces from s->whole. */
MBA_MUST mba_status mba_shards_take(mba_session *s);

void mba_shards_free(mba_session *s);

#endif
