// SPDX-License-Identifier: Apache-2.0
/* pool_mean_slots.h -- what the files of pool_mean share: slots by name, attributes and the declarations of
 * variants. */
#ifndef MBA_POOL_MEAN_SLOTS_H
#define MBA_POOL_MEAN_SLOTS_H

#include "ops/columns.h"
#include "ops/rows.h"

enum { X }; /* forward: in, out */
enum { Y };
enum { DY }; /* backward: in, out */
enum { DX };

typedef struct pool_mean_attr {
    mba_type image;
} pool_mean_attr; /* attribute of the backward node: the type of dx */

/* Channels per work item: usually all, so that an image is read sequentially. */
enum { POOL_CHANNELS = 1024 };

void pool_mean_ref(const mba_ref_call *c);
void pool_mean_bwd_ref(const mba_ref_call *c);
MBA_CPU_DECLARE(pool_mean_fwd);
MBA_CPU_DECLARE(pool_mean_bwd);
mba_launch_fn pool_mean_cuda, pool_mean_bwd_cuda;

/* CUDA: values per thread, and blocks of 32 such vectors in a row. */
static inline int pool_mean_at_once(const mba_tensor *x, const mba_tensor *y)
{
    const mba_tensor *const t[] = { x, y };
    return mba__columns_at_once(t, 2);
}
static inline int64_t pool_mean_tiles(int64_t cols, int at_once) { return mba_ceil(cols, 32 * at_once); }

#endif
