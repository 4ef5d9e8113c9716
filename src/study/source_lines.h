// SPDX-License-Identifier: Apache-2.0
/* source_lines.h -- the lines of source of kernels that were counted instruction by instruction (`profile --source`):
 * how often their instructions ran, and where warps stalled.
 *
 *     mba_source_line *l; int64_t n;
 *     MBA_TRY(mba_source_lines(&l, &n, a));             // most stall samples first
 *     for (int64_t i = 0; i < n; i++) printf("%s:%lld\n", l[i].file ? l[i].file : "-", (long long)l[i].line);
 *     free(l);
 */
#ifndef MBA_STUDY_SOURCE_LINES_H
#define MBA_STUDY_SOURCE_LINES_H

#include "scope/analysis.h"

enum { MBA_SOURCE_REASONS = 64 };
typedef struct mba_source_line {
    int64_t     kernel, line, nreasons;                        /* id of the kernel; line: MBA_ABSENT if not known */
    const char *file, *reason[MBA_SOURCE_REASONS];             /* point into the store */
    double      executed, samples, waited[MBA_SOURCE_REASONS]; /* warp instructions; samples, in all and by reason */
} mba_source_line;

/* The caller frees *out. Without such counts there are no lines. */
MBA_MUST mba_status mba_source_lines(mba_source_line **out, int64_t *n, const mba_analysis *a);

/* The reasons with most samples, as "long_scoreboard 80 %, wait 12 %"; at most `most` of them. */
void mba_source_waits(char *text, size_t space, const mba_source_line *l, int most);

#endif
