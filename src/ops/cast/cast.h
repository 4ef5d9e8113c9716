// SPDX-License-Identifier: Apache-2.0
/* cast.h -- the same values in another type.
 *
 *     mba_tensor *x = mba_cast(g, features, MBA_BF16);      // returns features if they are bf16 already
 */
#ifndef MBA_CAST_H
#define MBA_CAST_H

#include "core/graph.h"

mba_tensor *mba_cast(mba_graph *g, mba_tensor *x, mba_dtype dtype);

/* For the `build` function of an operator: an activation that has a gradient and the type under test (g->compute),
 * whatever `type` says. */
mba_tensor *mba_case_act(mba_graph *g, const char *name, mba_type type, mba_init init);

extern const mba_op mba_op_cast;

#endif
