// SPDX-License-Identifier: Apache-2.0
/* diff.h -- compares two stores: steps, classes, operators and kernels, and which became slower.
 *
 *     mba_diff_row *row; int64_t n;
 *     MBA_TRY(mba_diff(&row, &n, before, after, 0.03));         // free(row)
 *
 * A row is slower if its time grew by more than the gate and by more than both spreads, and if it is at least 1 % of
 * the step. Kernels are listed but not judged, because their names change with their variants. */
#ifndef MBA_SCOPE_DIFF_H
#define MBA_SCOPE_DIFF_H

#include "scope/analysis.h"

typedef enum mba_diff_what { MBA_DIFF_STEP, MBA_DIFF_CLASS, MBA_DIFF_OPERATOR, MBA_DIFF_KERNEL } mba_diff_what;
const char *mba_diff_name(mba_diff_what w);

typedef struct mba_diff_row {
    mba_diff_what what;
    const char   *name, *phase;                     /* point into the analyses */
    double        a_s, b_s, a_spread_s, b_spread_s; /* of a step; NaN: missing in that store */
    double        a_launches, b_launches;
    bool          slower;
} mba_diff_row;

/* True for a kernel that both stores launch equally often: the same work, apart from clocks and neighbours. */
bool mba_diff_same(const mba_diff_row *r);

/* Rows by kind, the longest first. gate: 0.03 is 3 %. */
MBA_MUST mba_status mba_diff(mba_diff_row **out, int64_t *n, const mba_analysis *a, const mba_analysis *b, double gate);

#endif
