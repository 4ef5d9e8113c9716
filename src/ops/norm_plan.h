// SPDX-License-Identifier: Apache-2.0
/* norm_plan.h -- launch plans of root-mean-square norms on CUDA (ops/norm_rows.cuh), in plain C: how rows are divided
 * among threads.
 *
 * A thread group shares a row. Each thread owns the same vectors of 16 bytes (8 bytes of bf16 beside fp32) in every row
 * of its thread group, so the gradient of its weights stays in registers. */
#ifndef MBA_OPS_NORM_PLAN_H
#define MBA_OPS_NORM_PLAN_H

#include "ops/columns.h"
#include "ops/vec_access.h"

enum {
    MBA__GROUP_THREADS_MAX = 512,
    MBA__GROUP_VECTORS_MAX = 4,
    MBA__GROUPS_MAX = 4,    /* thread groups of several warps in a block */
    MBA__LOOP_THREADS = 256 /* one block per row, for rows that are unaligned or too long */
};

/* Values per vector, vectors per thread, threads per thread group. */
typedef struct mba__thread_group {
    int width, vectors, threads;
} mba__thread_group;

/* The thread group for rows of `cols` values; vectors is 0 if they do not fit. It minimises idle threads, then prefers
 * more vectors per thread, up to `most`; it exceeds `most` only if the thread group would be too large otherwise. */
static inline mba__thread_group mba__thread_group_of(int64_t cols, int width, int most)
{
    mba__thread_group best = { width, 0, 0 };
    for (; most <= MBA__GROUP_VECTORS_MAX && !best.vectors; most++) {
        int64_t least = INT64_MAX;
        for (int n = most; n >= 1 && cols % width == 0; n--) {
            const int64_t need = mba_ceil(cols / width, n);
            int64_t       threads = 1;
            while (threads < need && threads < 32) threads *= 2;
            if (need > 32) threads = mba_ceil(need, 32) * 32;
            if ((n > 1 && threads < 32) || threads > MBA__GROUP_THREADS_MAX || threads * n >= least) continue;
            least = threads * n;
            best.vectors = n;
            best.threads = (int)threads;
        }
    }
    return best;
}

/* True if the rows of t consist of whole vectors of n values, have one pitch, and both rows and pitch can be indexed
 * with 32 bits (below 2^30, so that a loop may step past the end). True if t is absent. */
static inline bool mba__uniform_pitch(const mba_tensor *t, int n)
{
    const int64_t most = 1 << 30;
    return !t
           || (mba__vec_aligned(t, n) && (mba_dense(t) || t->run == mba_cols(t)) && mba_rows(t) < most
               && mba_cols(t) < most && (mba_dense(t) || t->pitch < most));
}

/* Forward: one thread group per row, several per block if they are small. */
static inline void mba__plan_norm_fwd(mba_plan *p, const char *kernel, const mba_node *n, int64_t rows,
                                      mba__thread_group t, int regs)
{
    const int   thread_groups = t.threads < 32 ? 128 / t.threads : t.threads == 32 ? 4 : 1;
    mba_launch *l = mba_plan_launch(p, kernel, MBA_VECTOR, mba_ceil(rows, thread_groups), thread_groups * t.threads);
    l->regs = regs;
    mba_phases_evenly(l, n, (double)l->grid[0]);
}

static inline void mba__plan_norm_loop(mba_plan *p, const char *kernel, const mba_node *n, int64_t blocks)
{
    mba_launch *l = mba_plan_launch(p, kernel, MBA_VECTOR, blocks, MBA__LOOP_THREADS);
    l->regs = 40;
    mba_phases_evenly(l, n, (double)blocks);
}

/* Backward: persistent blocks, whose thread groups loop over the rows with a stride while the next row is being copied
 * to shared memory. A second launch adds up the blocks' partial sums of the weight gradients. */
typedef struct mba__norm_bwd {
    const char       *kernel;
    int64_t           rows, cols, groups; /* a row has `groups` groups of `cols` channels */
    int               sums; /* sums over rows for each channel: number of parameter vectors with a gradient */
    mba__thread_group thread_group;
    int               staged_bytes, regs; /* bytes per value that are copied ahead; registers */
    int               kept_bytes;         /* bytes per value of the current row that stay in shared memory besides */
    int               stages, block;      /* rows that a thread group can hold; approximate threads per block */
} mba__norm_bwd;

static inline mba_status mba__plan_norm_bwd(mba_plan *p, const mba_node *n, const mba_machine *m,
                                            const mba__norm_bwd *b)
{
    enum { RESIDENT = 4 }; /* blocks per SM, at most */
    const mba__thread_group t = b->thread_group;
    const int64_t           each = ((int64_t)b->stages * b->staged_bytes + b->kept_bytes) * t.vectors * t.width;
    const int64_t           regs = mba_ceil(b->regs, 8) * 8;
    int64_t                 resident = RESIDENT, thread_groups = t.threads < b->block ? b->block / t.threads : 1;
    if (t.threads > 32 && thread_groups > MBA__GROUPS_MAX) thread_groups = MBA__GROUPS_MAX;
    const int64_t threads = thread_groups * t.threads;
    MBA_REFUSE_IF(threads * each > m->smem_block_bytes, "rows of %lld values, which do not fit into shared memory",
                  (long long)b->cols);
    if (resident > m->smem_sm_bytes / (threads * each + 1024)) resident = m->smem_sm_bytes / (threads * each + 1024);
    if (resident > m->regs_sm / (threads * regs)) resident = m->regs_sm / (threads * regs);
    if (resident < 1) resident = 1;
    int64_t parts = mba_ceil(m->sm * resident, b->groups);
    if (parts > mba_ceil(b->rows, thread_groups)) parts = mba_ceil(b->rows, thread_groups);

    const int   scratch = mba_plan_scratch(p, "dw parts",
                                           sizeof(float) * (size_t)(parts * b->sums * b->cols * b->groups));
    mba_launch *l = mba_plan_launch(p, b->kernel, MBA_VECTOR, parts, (int)threads);
    l->grid[1] = b->groups;
    l->smem_bytes = (size_t)(threads * each);
    l->regs = b->regs;
    l->ring_depth = b->stages;
    l->persistent = true;
    l->tiles = mba_ceil(b->rows, thread_groups) * b->groups;
    mba_phases_evenly(l, n, (double)(parts * b->groups));
    mba_phase_move(l, MBA_STORE, MBA_ARG_SCRATCH(scratch), 4.0 * (double)(b->sums * b->cols));
    mba__plan_column_totals(p, scratch, parts, b->sums, b->cols * b->groups);
    return MBA_OK;
}

/* The same for any rows: one block per row; partial sums of the weight gradient stay in scratch. */
static inline void mba__plan_norm_bwd_loop(mba_plan *p, const char *kernel, const mba_node *n, const mba_machine *m,
                                           int64_t rows, int64_t cols, int64_t groups)
{
    const int64_t parts = rows < 2 * m->sm ? rows : 2 * m->sm;
    const int     scratch = mba_plan_scratch(p, "dw parts", sizeof(float) * (size_t)(parts * cols * groups));
    mba__plan_norm_loop(p, kernel, n, parts);
    p->launch[p->nlaunches - 1].grid[1] = groups;
    mba__plan_column_totals(p, scratch, parts, 1, cols * groups);
}

#endif
