// SPDX-License-Identifier: Apache-2.0
/* gather_rows.h -- permutes rows: y[r, :] = x[index[r], :].
 *
 *     mba_tensor *sorted = mba_gather_rows(g, h, perm, inverse);
 *     h = mba_gather_rows(g, mixed, inverse, perm);                   // and back
 *
 * `index` is a permutation of the valid rows and `inverse` its inverse, so the gradient is the same operator with the
 * two exchanged, and nothing is scattered. Rows beyond the count of x stay in place, whatever index says. */
#ifndef MBA_GATHER_ROWS_H
#define MBA_GATHER_ROWS_H

#include "core/graph.h"

mba_tensor *mba_gather_rows(mba_graph *g, mba_tensor *x, mba_tensor *index, mba_tensor *inverse);

extern const mba_op mba_op_gather_rows;

#endif
