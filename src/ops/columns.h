// SPDX-License-Identifier: Apache-2.0
/* columns.h -- plans of column sums on CUDA (device/cuda/columns.cuh): two launches and the scratch between them. */
#ifndef MBA_OPS_COLUMNS_H
#define MBA_OPS_COLUMNS_H

#include "core/op.h"

/* Values a thread takes at once: 16 bytes where every row of these tensors allows it and rows lie at one distance (what
 * mba_column_row counts on), else one. */
static inline int mba__columns_at_once(const mba_tensor *const *t, int n)
{
    int v = 4;
    for (int k = 0; k < n; k++)
        if (t[k] && t[k]->type.dtype == MBA_BF16) v = 8;
    for (int k = 0; k < n; k++) {
        if (!t[k]) continue;
        const int64_t e = (int64_t)mba_dtype_bytes(t[k]->type.dtype), bytes = v * e;
        const bool    whole = mba_cols(t[k]) % v == 0 && t[k]->offset * e % bytes == 0
                           && (mba_dense(t[k]) || (t[k]->pitch % v == 0 && t[k]->run == mba_cols(t[k])));
        if (!whole || bytes > 16) return 1;
    }
    return v;
}

/* These two counts decide how a sum is divided, and with that the order of its additions. They are constants, not SM
 * counts of the machine, so that the same sum has the same bits on every GPU. Both were chosen for the 132 SMs of an
 * H200. COLUMN_PARTS: blocks of one launch of column_parts, at most: two on each SM, which all of these kernels'
 * registers allow, so that there is one round of them. COLUMN_LINES: with fewer lines of columns, column_totals has a
 * block for each sector. */
enum { MBA__COLUMN_PARTS = 264, MBA__COLUMN_LINES = 132 };

/* Appends the launch "column_totals" of parts (parts, sums, cols) in scratch: a line of columns a block, a sector
 * where there are fewer lines than COLUMN_LINES. Few parts take half the threads, which ask for up to eight of them
 * each, and the lines of 25 thousand columns are one round: on the H200 320 blocks of 512 threads took 3.2 us, 640 of
 * them, of which 396 found room, 5.1 (conv1d's backward, 33 parts). */
static inline void mba__plan_column_totals(mba_plan *p, int scratch, int64_t parts, int sums, int64_t cols)
{
    enum { LINE = 32, SECTOR = 8, FEW = 64 };
    const int64_t wide = mba_ceil(cols, LINE) < MBA__COLUMN_LINES ? SECTOR : LINE;
    const int     threads = wide == LINE && parts <= FEW ? 256 : 512;
    mba_launch   *l = mba_plan_launch(p, "column_totals", MBA_VECTOR, mba_ceil(cols, wide), threads);
    l->regs = 32;
    mba_phase_move(l, MBA_LOAD, MBA_ARG_SCRATCH(scratch), 4.0 * (double)(wide * parts * sums));
}

/* Blocks side by side over `owners` of columns: the fewest whose shares leave no more than a sixteenth of 256 threads
 * without one, or the best of eight. 160 owners (1280 columns of bf16) in one block left 96 threads idle (warps waited
 * as long at the barrier as for memory; 22 us for 64 MB on the H200), 320 in two were 256 and 64. */
static inline int64_t mba__columns_across(int64_t owners)
{
    enum { THREADS = 256, TRIES = 8, ENOUGH = THREADS - THREADS / 16 };
    const int64_t least = mba_ceil(owners, THREADS);
    int64_t       best = least, most = 0;
    for (int64_t a = least; a < least + TRIES && most < ENOUGH; a++) {
        const int64_t each = mba_ceil(owners, a), busy = THREADS / each * each;
        if (busy > most) {
            most = busy;
            best = mba_ceil(owners, each);
        }
    }
    return best;
}

enum { MBA__COLUMNS_IN_FLIGHT = 8 }; /* vectors that a thread asks for before it uses the first */

/* Sums of `sums` kinds over the rows of t, V columns a thread, from the inputs of the bits `reads`, once each: appends
 * launches <parts> and "column_totals", and scratch. */
static inline int mba__plan_column_sums(mba_plan *p, const mba_node *n, const char *parts_name, const mba_tensor *t,
                                        int sums, int V, unsigned reads)
{
    /* MambaVision-T, 128 images, V = 8: 401408 x 80 are 61 rows a thread, 25088 x 320 16, 6272 x 640 8. Twice
     * COLUMN_PARTS were 1.3 rounds of bias_bwd with 72 registers. */
    enum { THREADS = 256, BLOCKS = MBA__COLUMN_PARTS, ROWS_LEAST = 8 };
    const int64_t cols = mba_cols(t), rows = mba_rows(t), owners = mba_ceil(cols, V),
                  across = mba__columns_across(owners), at_once = THREADS / mba_ceil(owners, across);
    int64_t parts = mba_ceil(rows, at_once * ROWS_LEAST);
    if (parts > BLOCKS / across) parts = BLOCKS / across > 0 ? BLOCKS / across : 1;
    mba_launch *l = mba_plan_launch(p, parts_name, MBA_VECTOR, parts, THREADS);
    l->grid[1] = across;
    l->regs = 48; /* estimate */
    int kinds = 0;
    for (int k = 0; k < MBA_IN_MAX; k++) kinds += (int)(reads >> k & 1);
    const double blocks = (double)(parts * across),
                 trips = (double)mba_ceil(mba_ceil(rows, parts), at_once * MBA__COLUMNS_IN_FLIGHT / kinds);
    mba_phase_work(l, MBA_LOOP, trips, NULL);
    for (int k = 0; k < MBA_IN_MAX; k++)
        if (reads >> k & 1) mba_phase_move(l, MBA_LOAD, MBA_ARG_IN(k), mba_tensor_bytes(n->in[k]) / blocks / trips);
    mba_phase_work(l, MBA_FMA, (double)(rows * cols * sums) / blocks / trips, NULL);
    mba_phase_work(l, MBA_END, 0, NULL);
    mba_phase_work(l, MBA_BARRIER, 2 * sums, NULL); /* threads of a column, one after the other */
    mba_phase_work(l, MBA_SMEM, 2.0 * 4 * (double)(sums * V * THREADS), NULL);
    mba_phase_work(l, MBA_FMA, (double)(sums * V * THREADS), NULL);
    const int scratch = mba_plan_scratch(p, "parts of column sums", sizeof(float) * (size_t)(parts * sums * cols));
    mba_phase_move(l, MBA_STORE, MBA_ARG_SCRATCH(scratch), 4.0 * (double)(sums * cols) / (double)across);
    mba__plan_column_totals(p, scratch, parts, sums, cols);
    return scratch;
}

#endif
