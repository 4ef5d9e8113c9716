// SPDX-License-Identifier: Apache-2.0
/* add.h -- y = a + b, of equal shapes.
 *
 *     res = mba_add(g, res, branch);
 */
#ifndef MBA_ADD_H
#define MBA_ADD_H

#include "core/graph.h"

mba_tensor *mba_add(mba_graph *g, mba_tensor *a, mba_tensor *b);

extern const mba_op mba_op_add;

#endif
