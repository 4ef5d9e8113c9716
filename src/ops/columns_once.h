/* columns_once.h -- plans of column sums on CUDA in one launch (device/cuda/columns_once.cuh). */
#ifndef MBA_OPS_COLUMNS_ONCE_H
#define MBA_OPS_COLUMNS_ONCE_H

#include "core/op.h"

/* Slices of a row of `owners` threads of V columns: up to 512 bytes each, alike where a number of them divides the row. */
static inline int64_t mba__column_slices(int64_t owners, int V)
{
    const int64_t most = V > 1 ? 32 : 128, few = mba_ceil(owners, most);
    for (int64_t s = few; owners / s >= most / 2; s++) if (owners % s == 0) return s;
    return few;
}

/* Sums of `sums` kinds over the rows of t, V columns a thread, from the inputs of the bits `reads`, once each: appends
 * the launch and scratch. Two blocks for each of 132 processors, so that there is one round of them. */
static inline mba_status mba__plan_column_once(mba_plan *p, const mba_node *n, const char *kernel, const mba_tensor *t,
                                               int sums, int V, unsigned reads)
{
    enum { THREADS = 256, BLOCKS = 264, ROWS_LEAST = 8 };
    const int64_t cols = mba_cols(t), rows = mba_rows(t), owners = mba_ceil(cols, V),
                  slices = mba__column_slices(owners, V), at_once = THREADS / mba_ceil(owners, slices);
    int64_t parts = mba_ceil(rows, at_once * ROWS_LEAST);
    if (parts > BLOCKS / slices) parts = BLOCKS / slices > 0 ? BLOCKS / slices : 1;
    const double blocks = (double)(parts * slices), bytes = 4.0 * (double)(sums * cols) * (double)parts / blocks;
    mba_launch  *l = mba_plan_launch(p, kernel, MBA_VECTOR, parts, THREADS);
    l->grid[1] = slices;
    l->regs    = 64;                                                       /* estimate */
    for (int k = 0; k < MBA_IN_MAX; k++)
        if (reads >> k & 1) mba_phase_move(l, MBA_LOAD, MBA_ARG_IN(k), mba_tensor_bytes(n->in[k]) / blocks);
    mba_phase_work(l, MBA_FMA, (double)(rows * cols * sums) / blocks, NULL);
    const int scratch = mba_plan_scratch(p, "parts of column sums", sizeof(float) * (size_t)(parts * sums * cols));
    mba_phase_move(l, MBA_STORE, MBA_ARG_SCRATCH(scratch), bytes);
    mba_phase_move(l, MBA_LOAD, MBA_ARG_SCRATCH(scratch), bytes);
    return MBA_OK;
}

#endif
