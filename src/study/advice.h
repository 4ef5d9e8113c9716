// SPDX-License-Identifier: Apache-2.0
/* advice.h -- what to try on a kernel, ranked by what it may save, from the counters of a store.
 *
 *     mba_advice tip[MBA_ADVICE_MAX];
 *     for (int i = 0, n = mba_advice_of(a, k, tip); i < n; i++) printf("%s: %s\n", tip[i].cause, tip[i].evidence);
 *
 * Each rule reads a few counters, names one cause and estimates the time that its mend saves. A rule whose
 * counters are missing says nothing. A low utilisation that another cause explains is not reported a second time. The
 * estimates are of a simple model (docs/scope.md, "Advice"), compared with achieved gains on planted faults. */
#ifndef MBA_STUDY_ADVICE_H
#define MBA_STUDY_ADVICE_H

#include "scope/analysis.h"

enum { MBA_ADVICE_MAX = 4 };
typedef struct mba_advice {
    const char *cause; /* "uncoalesced loads" */
    const char *remedy;
    char        evidence[160];
    double      kernel_saved, step_saved; /* parts of the time of the kernel and of the step, 0 to 1 */
} mba_advice;

/* The advice on a kernel, what saves most of the step first. Returns how many there are. */
int mba_advice_of(const mba_analysis *a, const mba_kernel_view *k, mba_advice out[MBA_ADVICE_MAX]);

#endif
