/* linear_cross_entropy_slots.h -- what the files of this folder share. */
#ifndef MBA_LINEAR_CROSS_ENTROPY_SLOTS_H
#define MBA_LINEAR_CROSS_ENTROPY_SLOTS_H

#include "core/op.h"

enum { X, W, TARGET };                            /* forward: in, out */
enum { LOSS, LSE };
enum { DLOSS, XB, WB, TARGETB, LSEB };            /* backward: in, out */
enum { DX, DW };
typedef struct lce_bwd_attr { int32_t wants_x, wants_w; } lce_bwd_attr;

/* Logits exist as one tile of at most LCE_ROWS x LCE_COLS. Its pitch is not a power of two: rows that
 * lie 16 KB apart would share one set of the nearest cache. */
enum { LCE_ROWS = 1024, LCE_COLS = 4096, LCE_PAD = 16 };
enum { TILE, SUMS, PICKED };                      /* scratch; the last two only forward */

/* On CUDA they exist as one block of rows, of some 2^28 logits, in as few blocks of 128s of rows as that takes and never
 * more than a plan has launches for. Both directions cut alike, so that they see the same bits. */
enum { LOGITS, ROWS, LIBRARY };                   /* scratch; rows: a loss each, or backward the one scale */
enum { LCE_BLOCKS_MAX = 5, LCE_BLOCK_LOGITS = 1 << 28 };

static inline int64_t lce_block_rows(int64_t R, int64_t V)
{
    const int64_t few = mba_ceil(R * V, LCE_BLOCK_LOGITS), blocks = few < LCE_BLOCKS_MAX ? few : LCE_BLOCKS_MAX;
    const int64_t rows = mba_ceil(mba_ceil(R, blocks), 128) * 128;
    return rows < R ? rows : R;
}

static inline int64_t lce_pitch(int64_t V) { return mba_ceil(V, 64) * 64; }       /* rows begin at 16 bytes, whatever V */

void lce_ref(const mba_ref_call *c);
void lce_bwd_ref(const mba_ref_call *c);
MBA_CPU_DECLARE(lce_fwd);
MBA_CPU_DECLARE(lce_bwd);
mba_launch_fn lce_cuda, lce_bwd_cuda, lce_tiles_cuda, lce_bwd_tiles_cuda;

#endif
