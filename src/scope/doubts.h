// SPDX-License-Identifier: Apache-2.0
/* doubts.h -- what a reader must know before believing the numbers of a store, in words. show, diff, suite and the page
 * print these and no others.
 *
 *     mba_doubt d[MBA_DOUBTS_MAX];
 *     for (int i = 0, n = mba_doubts_of(d, a); i < n; i++) puts(d[i].text);
 *
 * Plain C over an analysis; nothing can fail. */
#ifndef MBA_SCOPE_DOUBTS_H
#define MBA_SCOPE_DOUBTS_H

#include "scope/analysis.h"

enum { MBA_DOUBTS_MAX = 4 };
typedef struct mba_doubt {
    char text[320];
} mba_doubt;

/* Throttled clocks, steps whose times spread, programs of which no step is known or that were interrupted. The spread
 * is the distance from the 10th to the 90th percentile over the median (of fewer than 11 steps: from the shortest to
 * the longest); above 10 % it is a doubt. */
int mba_doubts_of(mba_doubt out[MBA_DOUBTS_MAX], const mba_analysis *a);

/* The SM's clock while steps ran, MHz, as the driver told; NaN: it did not. reasons: what held it back; "". */
typedef struct mba_clocks {
    double low, high, mean, most;
    char   reasons[120];
} mba_clocks;
mba_clocks mba_clocks_of(const mba_analysis *a);

/* The driver's energy meter moves in steps of up to a tenth of a second: over less than 5 s it has shown a mean power
 * of 772 W on a card limited to 700 W. */
#define MBA_ENERGY_S_MIN 5.0
static inline bool mba_energy_counts(const mba_row_energy *e) { return e->seconds >= MBA_ENERGY_S_MIN; }

/* Why a kernel, or the kernels of a store, take less time than their floor. */
typedef enum mba_above {
    MBA_NOT_ABOVE,
    MBA_ABOVE_CACHED,    /* fewer bytes came from DRAM than the operands have: L2 held the rest */
    MBA_ABOVE_COPY,      /* all came from DRAM, at more than the copy's rate */
    MBA_ABOVE_PRODUCT,   /* tensor work at more than the rate of the large product */
    MBA_ABOVE_LANES,     /* vector or special work at more than the rate of the loop */
    MBA_ABOVE_UNCOUNTED, /* no counter of this kernel tells which */
    MBA_ABOVES
} mba_above;
mba_above mba_above_floor(const mba_analysis *a, const mba_kernel_view *k);
mba_doubt mba_above_words(const mba_analysis *a, mba_above why);
mba_doubt mba_above_all(const mba_analysis *a); /* the words for a step that is above its floor as a whole */

#endif
