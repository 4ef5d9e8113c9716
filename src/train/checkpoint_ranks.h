// SPDX-License-Identifier: Apache-2.0
/* checkpoint_ranks.h -- the files of a checkpoint that all ranks of a run write, for checkpoint.c.
 *
 * Rank 0 writes them with room for what several ranks hold: parameters, moments, averages. Then each rank puts its part
 * into that room. Where the ranks do not share the folder, rank 0 puts all of it, and receives the moments of the
 * others piece by piece. The bytes are those of one rank. */
#ifndef MBA_CHECKPOINT_RANKS_H
#define MBA_CHECKPOINT_RANKS_H

#include "data/safetensors.h"
#include "train/hf.h"
#include "train/session.h"

/* True for a tensor whose data, moments and average rank 0 leaves to mba__checkpoint_fill. */
bool mba__checkpoint_is_shared(const mba_session *s, const mba_tensor *t);

/* A call of all ranks. `folder` and `mine`, what has become of it so far, are those of rank 0. `moments`: with
 * optimizer.safetensors. *apart: the ranks do not share the folder. Fails on all ranks alike. */
MBA_MUST mba_status mba__checkpoint_fill(const mba_session *s, mba_hf_format format, const char *folder, bool moments,
                                         mba_status mine, bool *apart);

#endif
