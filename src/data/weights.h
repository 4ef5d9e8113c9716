// SPDX-License-Identifier: Apache-2.0
/* weights.h -- opens the weights of a checkpoint directory, in one file or in several shards.
 *
 *     mba_weights *w;
 *     MBA_TRY(mba_weights_open(&w, "mamba2-130m"));
 *     const mba_array *a = mba_weights_find(w, "backbone.norm_f.weight");       // NULL: no such tensor
 *     mba_weights_close(w);
 *
 * A directory has model.safetensors, or model.safetensors.index.json, which maps every tensor to a shard beside
 * it. Opening checks that all shards exist, are sound and hold what the index says. Tensors that the index does not
 * name are ignored. */
#ifndef MBA_WEIGHTS_H
#define MBA_WEIGHTS_H

#include "data/safetensors.h"

typedef struct mba_weights mba_weights;

MBA_MUST mba_status mba_weights_open(mba_weights **out, const char *directory);
void                mba_weights_close(mba_weights *w); /* NULL is fine */

/* For directories without weights: fails with MBA_E_FORMAT and the command that converts it if `path` is a PyTorch
 * pickle or a directory with one. */
MBA_MUST mba_status mba_weights_no_pickle(const char *path);

/* All tensors, in the order of their names. */
int64_t          mba_weights_count(const mba_weights *w);
const mba_array *mba_weights_at(const mba_weights *w, int64_t i);
const mba_array *mba_weights_find(const mba_weights *w, const char *name);

/* For fuzzing: the text of an index, and a function that opens the shards it names. */
typedef mba_status  mba__shard_open(mba_safetensors **out, void *user, const char *shard);
MBA_MUST mba_status mba__weights_from_index(mba_weights **out, const char *file, const char *text, size_t n,
                                            mba__shard_open *open_shard, void *user);

#endif
