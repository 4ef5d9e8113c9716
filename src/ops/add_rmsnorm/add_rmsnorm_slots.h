// SPDX-License-Identifier: Apache-2.0
/* add_rmsnorm_slots.h -- what the files of add_rmsnorm share: slots by name, attributes and the declarations of
 * variants. */
#ifndef MBA_ADD_RMSNORM_SLOTS_H
#define MBA_ADD_RMSNORM_SLOTS_H

#include "ops/norm_plan.h"
#include "ops/rows.h"

enum { RES, M, W }; /* forward: in, out */
enum { SUM, Y, RSTD };
enum { DY, DSUM, STREAM, WB, RSTDB }; /* backward: in, out */
enum { DRES, DM, DW };

/* out: the dtype of y (forward) or of the branch's gradient (backward; MBA_NONE if there is no branch). */
typedef struct add_rmsnorm_attr {
    float     eps;
    mba_dtype out;
} add_rmsnorm_attr;

/* How threads share rows on CUDA. Vectors have four values, because the residual stream is fp32. */
enum { ADD_RMSNORM_STAGES = 2 };
static inline mba__thread_group add_rmsnorm_threads(const mba_tensor *stream)
{
    return mba__thread_group_of(mba_cols(stream), 4, MBA__GROUP_VECTORS_MAX);
}

void add_rmsnorm_ref(const mba_ref_call *c);
void add_rmsnorm_bwd_ref(const mba_ref_call *c);
MBA_CPU_DECLARE(add_rmsnorm_fwd);
MBA_CPU_DECLARE(add_rmsnorm_bwd);
mba_launch_fn add_rmsnorm_cuda, add_rmsnorm_loop_cuda, add_rmsnorm_bwd_cuda, add_rmsnorm_bwd_loop_cuda;

#endif
