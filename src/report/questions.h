// SPDX-License-Identifier: Apache-2.0
/* questions.h -- how sure the answers to the open questions are: measured or simulated, and from how much. Each is
 * written by the file of the figure that has the answer, and only where that figure has data. */
#ifndef MBA_REPORT_QUESTIONS_H
#define MBA_REPORT_QUESTIONS_H

#include "report/report.h"

void mba_persistent_sure(mba_buf *b, const mba_stores *r); /* fig_ladder.c: Q1 */
void mba_ratio_sure(mba_buf *b, const mba_stores *r);      /* fig_best_ratio.c: Q2 */
void mba_fusion_sure(mba_buf *b, const mba_stores *r);     /* fig_ladder.c: Q3 */
void mba_sizes_sure(mba_buf *b, const mba_stores *r);      /* fig_compare.c: N1 */
void mba_machines_sure(mba_buf *b, const mba_stores *r);   /* fig_machines.c: N2 */

/* fig_whatif.c: the error that holds for what-ifs of SSM kernels, as the middle of a sentence; nothing without effects
 * that were measured. */
void mba_effects_words(mba_buf *b, const char *before, const mba_whatif *w);

#endif
