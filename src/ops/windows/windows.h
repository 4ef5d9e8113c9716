// SPDX-License-Identifier: Apache-2.0
/* windows.h -- divides an image into square windows of tokens, and puts it together again.
 *
 *     mba_tensor *t = mba_window_partition(g, x, 14);             // (B, H, W, C) -> (B nH nW, 14 * 14, C)
 *     ...                                                         // blocks that process each window separately
 *     x = mba_window_reverse(g, t, B, H, W);                      // and back, without the padding
 *
 * Sides that w does not divide are padded with zeros at the bottom and at the right. If the image is one window
 * (H = W = w), both are reshapes: no node. */
#ifndef MBA_WINDOWS_H
#define MBA_WINDOWS_H

#include "core/graph.h"

mba_tensor *mba_window_partition(mba_graph *g, mba_tensor *x, int64_t w);
mba_tensor *mba_window_reverse(mba_graph *g, mba_tensor *t, int64_t B, int64_t H, int64_t W);

extern const mba_op mba_op_window_partition, mba_op_window_reverse;

#endif
