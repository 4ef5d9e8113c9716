// SPDX-License-Identifier: Apache-2.0
/* cards.h -- the parts of a card (head, large number, small drawing), and the card with several numbers: why
 * (why.c). */
#ifndef MBA_REPORT_CARDS_H
#define MBA_REPORT_CARDS_H

#include "report/figure.h"

/* A verdict's chip and the id of a claim, below the question it answers ("": none). */
void mba_card_head(mba_buf *b, const char *question, const char *verdict, const char *id);
void mba_card_big(mba_buf *b, double v, const char *unit);
void mba_card_end(mba_buf *b, const char *figure, const char *link);

/* ---- sparklines: shape only, the numbers are in the sentence and the figure ---- */

/* line, dash: NaN, no line */
typedef struct mba_sticks {
    double      v[24];
    const char *paint[24];
    int         n;
    double      top, line, dash;
} mba_sticks;
void mba_spark_add(mba_sticks *k, double v, const char *paint);
void mba_spark_sticks(mba_canvas *c, const mba_sticks *k, const char *caption);

/* One stacked bar: classes of the step, or what limits its kernels. */
typedef struct mba_bar_part {
    double      part;
    const char *paint;
} mba_bar_part;
void mba_spark_strip(mba_canvas *c, const mba_bar_part *p, int n, const char *caption);

/* ---- why.c ---- */

/* What limits SSM kernels: stall reasons, floor, busiest unit, and vector work per tensor FLOP. */
void mba_card_why(mba_canvas *c, const mba_analysis *a);

#endif
