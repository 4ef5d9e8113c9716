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

void lce_ref(const mba_ref_call *c);
void lce_bwd_ref(const mba_ref_call *c);
MBA_CPU_DECLARE(lce_fwd);
MBA_CPU_DECLARE(lce_bwd);

#endif
