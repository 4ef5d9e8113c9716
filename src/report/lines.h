// SPDX-License-Identifier: Apache-2.0
/* lines.h -- a chart of lines over one parameter, for what-ifs, sizes and sensitivity. Simulated marks are hollow.
 *
 *     mba_line line[] = { { "mamba2", 0, true, 2, { 1, 2 }, { 10, 12 } } };
 *     mba_lines_draw(canvas, 860, &(mba_lines){ "label", "times (log)", "ms", "ms", line, 1 });
 */
#ifndef MBA_REPORT_LINES_H
#define MBA_REPORT_LINES_H

#include "report/svg.h"

enum { MBA_LINE_POINTS = 12 };

typedef struct mba_line {
    const char *name;
    int         look; /* index of colour and shape */
    bool        simulated;
    int         n;
    double      x[MBA_LINE_POINTS], y[MBA_LINE_POINTS]; /* x ascending; y NaN: skipped */
} mba_line;

typedef struct mba_lines {
    const char     *label, *x_label, *y_label, *unit;
    const mba_line *line;
    int             n;
} mba_lines;

void mba_lines_draw(mba_canvas *c, double w, const mba_lines *k);
void mba_lines_legend(mba_buf *b, const mba_line *l, int view); /* shown with this view only; -1: always */

/* The colour and shape of a look, the same in every figure of a page. */
const char *mba_look_paint(int look);
mba_shape   mba_look_shape(int look);

#endif
