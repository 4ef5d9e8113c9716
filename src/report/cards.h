// SPDX-License-Identifier: Apache-2.0
/* cards.h -- the elements of a card: a head, a large number, a sparkline; and the card "why" (why.c), which needs more
 * than one number of a store. findings.c builds the other cards. */
#ifndef MBA_REPORT_CARDS_H
#define MBA_REPORT_CARDS_H

#include "report/figure.h"

/* The chip of a verdict and the id of a claim, below the question that the card answers ("": none). */
void mba_card_head(mba_buf *b, const char *question, const char *verdict, const char *id);
void mba_card_big(mba_buf *b, double v, const char *unit);
void mba_card_end(mba_buf *b, const char *figure, const char *link);

/* ---- sparklines: they show a shape only; the sentence and the figure have the numbers ---- */

/* Vertical bars. line, dash: values of a solid and a dashed line; NaN: none. */
typedef struct mba_sticks {
    double      v[24];
    const char *paint[24];
    int         n;
    double      top, line, dash;
} mba_sticks;
void mba_spark_add(mba_sticks *k, double v, const char *paint);
void mba_spark_sticks(mba_canvas *c, const mba_sticks *k, const char *caption);

/* One stacked bar: classes of the step, or what binds its kernels. */
typedef struct mba_bar_part {
    double      part;
    const char *paint;
} mba_bar_part;
void mba_spark_strip(mba_canvas *c, const mba_bar_part *p, int n, const char *caption);

/* ---- why.c ---- */

/* Why SSM kernels take their time: what their warps wait for, their floor, their busiest unit, and their ratio of
 * tensor to vector work. */
void mba_card_why(mba_canvas *c, const mba_analysis *a);

#endif
