// SPDX-License-Identifier: Apache-2.0
/* gated_rmsnorm_slots.h -- what the files of gated_rmsnorm share: slots by name, attributes and the declarations of
 * variants. */
#ifndef MBA_GATED_RMSNORM_SLOTS_H
#define MBA_GATED_RMSNORM_SLOTS_H

#include "ops/norm_plan.h"
#include "ops/rows.h"

enum { Y, Z, W, DV, RSTDB };  /* in; the last two only backward */
enum { V, RSTD };             /* forward: out */
enum { DY, DZ, DW, V_AGAIN }; /* backward: out; V_AGAIN: the recomputed v */

typedef struct gated_rmsnorm_attr {
    int64_t groups;
    double  eps;
} gated_rmsnorm_attr;

/* How threads share a group of a row on CUDA, in 16-byte vectors. Forward, each thread has two vectors of two operands
 * in flight, which is 60 KB per SM and more. Backward has three operands, rows ahead in shared memory and two sums per
 * value: with one vector per thread, an SM has enough threads to hide latency. */
enum { GATED_RMSNORM_STAGES = 3 };
static inline mba__thread_group gated_rmsnorm_threads(const mba_node *n, int most)
{
    return mba__thread_group_of(mba_cols(n->in[Y]) / ((const gated_rmsnorm_attr *)n->attr)->groups,
                                16 / (int)mba_dtype_bytes(n->in[Y]->type.dtype), most);
}

static inline mba__thread_group gated_rmsnorm_fwd_threads(const mba_node *n) { return gated_rmsnorm_threads(n, 2); }
static inline mba__thread_group gated_rmsnorm_bwd_threads(const mba_node *n) { return gated_rmsnorm_threads(n, 1); }

void gated_rmsnorm_ref(const mba_ref_call *c);
void gated_rmsnorm_bwd_ref(const mba_ref_call *c);
MBA_CPU_DECLARE(gated_rmsnorm_fwd);
MBA_CPU_DECLARE(gated_rmsnorm_bwd);

/* Attributes of the backward node; again: it recomputes v. */
typedef struct gated_rmsnorm_bwd_attr {
    gated_rmsnorm_attr forward;
    int64_t            again;
} gated_rmsnorm_bwd_attr;

mba_launch_fn gated_rmsnorm_cuda, gated_rmsnorm_loop_cuda, gated_rmsnorm_bwd_cuda, gated_rmsnorm_bwd_loop_cuda;

#endif
