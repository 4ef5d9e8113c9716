// SPDX-License-Identifier: Apache-2.0
/* cross_entropy_plan.h -- the geometry of the CUDA kernels over rows of logits, for plans and launchers of all losses.
 *
 *     MBA_TRY(ce_plan_fits(m, C));
 *     mba_plan_stream(p, n, "cross_entropy_fwd_rows", ce_grid(R, C), CE_BLOCK, 63);
 *     ce_plan_total(p, "cross_entropy_fwd_total", R);
 */
#ifndef MBA_CROSS_ENTROPY_PLAN_H
#define MBA_CROSS_ENTROPY_PLAN_H

#include "core/op.h"

enum { CE_BLOCK = 256, CE_TOTAL_BLOCK = 1024 };

/* Threads that share a row: the whole block if a warp would need more than eight iterations over vectors. */
static inline int     ce_group_threads(int64_t cols) { return cols > 1024 ? CE_BLOCK : 32; }
static inline int64_t ce_grid(int64_t rows, int64_t cols) { return mba_ceil(rows, CE_BLOCK / ce_group_threads(cols)); }

static inline mba_status ce_plan_fits(const mba_machine *m, int64_t cols)
{
    MBA_REFUSE_IF(m->cc < 80, "a device of compute capability %d", m->cc);
    MBA_REFUSE_IF(cols >= 1 << 30, "rows of %lld logits\nwhy: a thread counts columns in 32 bits", (long long)cols);
    return MBA_OK;
}

/* Plans the launch of one block that reads one value per row. */
static inline void ce_plan_total(mba_plan *p, const char *kernel, int64_t rows)
{
    mba_launch *l = mba_plan_launch(p, kernel, MBA_VECTOR, 1, CE_TOTAL_BLOCK);
    l->regs = 32;
    mba_phase_move(l, MBA_LOAD, MBA_ARG_SCRATCH(0), 8.0 * (double)rows);
    mba_phase_work(l, MBA_ALU, 4.0 * (double)rows, NULL);
}

#endif
