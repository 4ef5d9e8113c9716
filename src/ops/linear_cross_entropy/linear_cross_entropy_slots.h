// SPDX-License-Identifier: Apache-2.0
/* linear_cross_entropy_slots.h -- what the files of linear_cross_entropy share: slots by name, attributes, scratch and
 * the declarations of variants. */
#ifndef MBA_LINEAR_CROSS_ENTROPY_SLOTS_H
#define MBA_LINEAR_CROSS_ENTROPY_SLOTS_H

#include "core/op.h"

enum { X, W, TARGET, DLOSS, LOSSB }; /* in; the last two only backward: the gradient of the loss, and the loss */
enum { LOSS, DX, DW };               /* out; the last two only backward, which computes the loss again */
typedef struct lce_bwd_attr {
    int32_t wants_x, wants_w;
} lce_bwd_attr;

/* Logits exist for one block of rows over the whole vocabulary. On the CPU a block has LCE_ROWS rows, on CUDA some 2^28
 * logits, or 2^29 if rows of x are wide, where everything else is larger, too: every block reads and writes dw again.
 * Blocks are multiples of 128 rows, as few as this allows, and never more than a plan has launches for. Both directions
 * use the same blocks, so that they have the same bits. On the CPU the pitch of rows is 16 values larger than needed:
 * rows that are a power of two apart would share one set of L1. */
enum { LOGITS, ROWS, LIBRARY }; /* scratch; the last only on CUDA */
enum { LCE_ROWS = 512, LCE_PAD = 16, LCE_BLOCKS_MAX = 16, LCE_BLOCK_LOGITS = 1 << 28, LCE_WIDE = 2048 };

static inline int64_t lce_block_rows(int64_t R, int64_t V, int64_t M)
{
    const int64_t logits = (int64_t)LCE_BLOCK_LOGITS * (M < LCE_WIDE ? 1 : 2);
    const int64_t few = mba_ceil(R * V, logits), blocks = few < LCE_BLOCKS_MAX ? few : LCE_BLOCKS_MAX;
    const int64_t rows = mba_ceil(mba_ceil(R, blocks), 128) * 128;
    return rows < R ? rows : R;
}

static inline int64_t lce_pitch(int64_t V) { return mba_ceil(V, 64) * 64; } /* rows are 16-byte aligned for any V */

/* CUDA kernel: threads per block, threads that share a row, blocks. A row that stays in shared memory is copied in
 * batches of four vectors per thread. */
enum { LCE_BLOCK = 512, LCE_BATCHES = 4 };
static inline int     lce_group_threads(int64_t cols) { return cols > 1024 ? LCE_BLOCK : 32; }
static inline int64_t lce_grid(int64_t rows, int64_t cols)
{
    return mba_ceil(rows, LCE_BLOCK / lce_group_threads(cols));
}

void lce_ref(const mba_ref_call *c);
MBA_CPU_DECLARE(lce);
mba_launch_fn lce_cuda, lce_tiles_cuda;

#endif
