// SPDX-License-Identifier: Apache-2.0
/* rmsnorm_slots.h -- what the files of rmsnorm share: slots by name, attributes and the declarations of variants. */
#ifndef MBA_RMSNORM_SLOTS_H
#define MBA_RMSNORM_SLOTS_H

#include "ops/norm_plan.h"
#include "ops/rows.h"

enum { X, W }; /* forward: in, out */
enum { Y, RSTD };
enum { DY, XB, WB, RSTDB }; /* backward: in, out */
enum { DX, DW };

typedef struct rmsnorm_attr {
    float eps;
} rmsnorm_attr;

/* How threads share the rows of x on CUDA, in 16-byte vectors. Backward copies rows ahead to shared memory and needs
 * many threads. */
enum { RMSNORM_STAGES = 3 };
static inline mba__thread_group rmsnorm_threads(const mba_tensor *x, int most)
{
    return mba__thread_group_of(mba_cols(x), 16 / (int)mba_dtype_bytes(x->type.dtype), most);
}

static inline mba__thread_group rmsnorm_fwd_threads(const mba_tensor *x)
{
    return rmsnorm_threads(x, MBA__GROUP_VECTORS_MAX);
}
static inline mba__thread_group rmsnorm_bwd_threads(const mba_tensor *x) { return rmsnorm_threads(x, 1); }

void rmsnorm_ref(const mba_ref_call *c);
void rmsnorm_bwd_ref(const mba_ref_call *c);
MBA_CPU_DECLARE(rmsnorm_fwd);
MBA_CPU_DECLARE(rmsnorm_bwd);
mba_launch_fn rmsnorm_cuda, rmsnorm_loop_cuda, rmsnorm_bwd_cuda, rmsnorm_bwd_loop_cuda;

#endif
