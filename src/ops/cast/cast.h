// SPDX-License-Identifier: Apache-2.0
/* cast.h -- the same numbers in another type.
 *
 *     mba_tensor *x = mba_cast(g, features, MBA_BF16);      // features itself where it has that type already
 */
#ifndef MBA_CAST_H
#define MBA_CAST_H

#include "core/graph.h"

mba_tensor *mba_cast(mba_graph *g, mba_tensor *x, mba_dtype dtype);

/* In an operator's `build`: what stands for an activation. It has a gradient to look at, and the type under test
 * (g->compute) whatever `type` says. */
mba_tensor *mba_case_act(mba_graph *g, const char *name, mba_type type, mba_init init);

extern const mba_op mba_op_cast;

#endif
