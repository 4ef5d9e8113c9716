// SPDX-License-Identifier: Apache-2.0
/* doubts.h -- warnings about the numbers of a store, in words. show, diff, suite and the report print exactly these.
 *
 *     mba_doubt d[MBA_DOUBTS_MAX];
 *     for (int i = 0, n = mba_doubts_of(d, a); i < n; i++) puts(d[i].text);
 *
 * Plain C over an analysis; nothing can fail. */
#ifndef MBA_SCOPE_DOUBTS_H
#define MBA_SCOPE_DOUBTS_H

#include "scope/analysis.h"

typedef enum mba_doubt_kind {
    MBA_DOUBT_CLOCKS,
    MBA_DOUBT_SPREAD,
    MBA_DOUBT_LOOP,
    MBA_DOUBT_END,
    MBA_DOUBTS_MAX
} mba_doubt_kind;
const char *mba_doubt_name(mba_doubt_kind kind); /* "throttled clocks", .. */

typedef struct mba_doubt {
    mba_doubt_kind kind;
    int            stores, first; /* how many have it, and which is the first of them */
    char           text[400];
} mba_doubt;

/* Warns about throttled clocks, step times that spread, and programs whose steps are not known or that were
 * interrupted. The spread is the distance from the 10th to the 90th percentile over the median (with fewer than 11
 * steps: from shortest to longest); above 10 % it is a warning. */
int mba_doubts_of(mba_doubt out[MBA_DOUBTS_MAX], const mba_analysis *a);

/* The warnings of several stores, one per kind: that of the store if one has it, else how many have it and its
 * range. */
int mba_doubts_together(mba_doubt out[MBA_DOUBTS_MAX], mba_analysis *const *a, int n);

/* The SM clock in MHz while steps ran, by the driver; NaN: not known. reasons: why it was throttled; may be "". */
typedef struct mba_clocks {
    double low, high, mean, most;
    char   reasons[120];
} mba_clocks;
mba_clocks mba_clocks_of(const mba_analysis *a);

/* Why a kernel, or the kernels of a store, can be faster than their floor. */
typedef enum mba_above {
    MBA_NOT_ABOVE,
    MBA_ABOVE_CACHED,    /* fewer DRAM bytes than the operands have: L2 held the rest */
    MBA_ABOVE_COPY,      /* all bytes came from DRAM, faster than the copy that set the ceiling */
    MBA_ABOVE_PRODUCT,   /* tensor work, faster than the GEMM that set the ceiling */
    MBA_ABOVE_LANES,     /* vector or special work, faster than the loop that set the ceiling */
    MBA_ABOVE_UNCOUNTED, /* this kernel has no counters to decide */
    MBA_ABOVES
} mba_above;
mba_above mba_above_floor(const mba_analysis *a, const mba_kernel_view *k);
mba_doubt mba_above_words(const mba_analysis *a, mba_above why);
mba_doubt mba_above_all(const mba_analysis *a); /* the words for a step that is above its floor as a whole */

#endif
