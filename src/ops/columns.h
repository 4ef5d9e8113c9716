// SPDX-License-Identifier: Apache-2.0
/* columns.h -- plans of column sums on CUDA (device/cuda/columns.cuh): two launches and the scratch between them. */
#ifndef MBA_OPS_COLUMNS_H
#define MBA_OPS_COLUMNS_H

#include "core/op.h"

/* Values that a thread loads at once: 16 bytes if all rows of these tensors are aligned and have one pitch (as
 * mba_column_row requires), else one value. */
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

/* These two counts decide how a sum is divided, and so the order of its additions. They are constants, not SM counts of
 * the machine, so that a sum has the same bits on every GPU. Both suit the 132 SMs of an H200. COLUMN_PARTS limits the
 * blocks of a launch of column_parts to two per SM: the registers of all these kernels allow two, so all blocks run in
 * one wave. COLUMN_LINES: with fewer cache lines of columns than this, column_totals has one block per 32-byte
 * sector. */
enum { MBA__COLUMN_PARTS = 264, MBA__COLUMN_LINES = 132 };

/* Appends the launch "column_totals", which adds up the partial sums (parts, sums, cols) in scratch. A block takes one
 * cache line of columns, or one sector if there are fewer lines than COLUMN_LINES. With few partial sums a block has
 * half the threads, each of which loads up to eight values, so that 25 thousand columns run in one wave. On the H200,
 * 320 blocks of 512 threads take 3.2 us; 640 blocks, of which 396 are resident, take 5.1 us (backward of conv1d, 33
 * partial sums). */
static inline void mba__plan_column_totals(mba_plan *p, int scratch, int64_t parts, int sums, int64_t cols)
{
    enum { LINE = 32, SECTOR = 8, FEW = 64 };
    const int64_t wide = mba_ceil(cols, LINE) < MBA__COLUMN_LINES ? SECTOR : LINE;
    const int     threads = wide == LINE && parts <= FEW ? 256 : 512;
    mba_launch   *l = mba_plan_launch(p, "column_totals", MBA_VECTOR, mba_ceil(cols, wide), threads);
    l->regs = 32;
    mba_phase_move(l, MBA_LOAD, MBA_ARG_SCRATCH(scratch), 4.0 * (double)(wide * parts * sums));
}

/* The number of blocks that divide `owners` (threads that own columns) among them: the smallest that leaves at most a
 * sixteenth of 256 threads idle, or the best of eight. With 160 owners (1280 columns of bf16) one block has 96 idle
 * threads; its warps wait as long at the barrier as for memory (22 us for 64 MB on the H200). 320 owners take two
 * blocks of 160, not 256 and 64. */
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

enum { MBA__COLUMNS_IN_FLIGHT = 8 }; /* vectors that a thread loads before it uses the first */

/* Plans `sums` column sums over the rows of t, V columns per thread. The bits of `reads` name the inputs, each of which
 * is read once. Appends the launches <parts_name> and "column_totals", and returns the scratch between them. */
static inline int mba__plan_column_sums(mba_plan *p, const mba_node *n, const char *parts_name, const mba_tensor *t,
                                        int sums, int V, unsigned reads)
{
    /* Examples: MambaVision-T, 128 images, V = 8: a thread adds 61 rows of 401408 x 80, 16 of 25088 x 320, 8 of 6272 x
     * 640. With twice COLUMN_PARTS, bias_bwd (72 registers) would need 1.3 waves. */
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
    mba_phase_work(l, MBA_BARRIER, 2 * sums, NULL); /* the threads of a column add in turn */
    mba_phase_work(l, MBA_SMEM, 2.0 * 4 * (double)(sums * V * THREADS), NULL);
    mba_phase_work(l, MBA_FMA, (double)(sums * V * THREADS), NULL);
    const int scratch = mba_plan_scratch(p, "parts of column sums", sizeof(float) * (size_t)(parts * sums * cols));
    mba_phase_move(l, MBA_STORE, MBA_ARG_SCRATCH(scratch), 4.0 * (double)(sums * cols) / (double)across);
    mba__plan_column_totals(p, scratch, parts, sums, cols);
    return scratch;
}

#endif
