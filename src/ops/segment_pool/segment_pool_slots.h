// SPDX-License-Identifier: Apache-2.0
/* segment_pool_slots.h -- what the files of segment_pool share: slots by name, attributes and the declarations of
 * variants. */
#ifndef MBA_SEGMENT_POOL_SLOTS_H
#define MBA_SEGMENT_POOL_SLOTS_H

#include "ops/columns.h"
#include "ops/rows.h"
#include "ops/segment_pool/segment_pool.h"

enum { X, PTR };         /* forward: in, out */
enum { Y, ARG };         /* ARG: the row of the maximum, per channel; only for MAX */
enum { DY, PTRB, ARGB }; /* backward: in, out */
enum { DX };

typedef struct segment_pool_attr {
    int64_t kind;
} segment_pool_attr;
typedef struct segment_pool_bwd_attr {
    int64_t  kind;
    mba_type x;
} segment_pool_bwd_attr;

void segment_pool_ref(const mba_ref_call *c);
void segment_pool_bwd_ref(const mba_ref_call *c);
MBA_CPU_DECLARE(segment_pool_fwd);
MBA_CPU_DECLARE(segment_pool_bwd);
mba_launch_fn segment_pool_cuda, segment_pool_bwd_cuda;

/* CUDA: values per thread, and threads along a row: a power of two, at most 32. */
enum { SEGMENT_POOL_BLOCK = 512, SEGMENT_POOL_BWD_BLOCK = 256 };
static inline int segment_pool_at_once(const mba_tensor *x, const mba_tensor *y)
{
    const mba_tensor *const t[] = { x, y };
    return mba__columns_at_once(t, 2);
}

static inline int segment_pool_lanes(int64_t cols, int at_once)
{
    int lanes = 1;
    while (lanes < 32 && lanes * at_once < cols) lanes *= 2;
    return lanes;
}

#endif
