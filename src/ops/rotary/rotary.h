// SPDX-License-Identifier: Apache-2.0
/* rotary.h -- rotary position embedding of the heads of q or k.
 *
 *     q = mba_rotary(g, q, 32, 10000, false);          // q (B, L, H, P): rotates the first 32 of P values
 *
 * Pair j of row t is rotated by t * base^(-2j/dims). Half-split pairs (GPT-NeoX) are (j, j + dims/2), interleaved
 * ones (2j, 2j + 1); values from `dims` on do not change. Rows are counted from 0, or from `first`. */
#ifndef MBA_ROTARY_H
#define MBA_ROTARY_H

#include "core/graph.h"

mba_tensor *mba_rotary(mba_graph *g, mba_tensor *x, int64_t dims, double base, bool interleaved);
mba_tensor *mba_rotary_from(mba_graph *g, mba_tensor *x, int64_t first, int64_t dims, double base, bool interleaved);

extern const mba_op mba_op_rotary;

#endif
