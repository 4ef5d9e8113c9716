// SPDX-License-Identifier: Apache-2.0
/* curves.h -- a chart of curves with any number of points against steps, data or time, for the training report.
 *
 *     mba_curve c[] = { { .name = "wide", .look = 0, .how = MBA_STRONG, .x = steps, .y = smoothed, .n = 5000 } };
 *     mba_curves_draw(canvas, 860, &(mba_curves){ .label = "loss", .x_label = "step", .y_label = "nats/token",
 *                                                 .curve = c, .n = 1 });
 *
 * A drawing has up to 300 columns. Of the points in a column, a faint curve shows the lowest and the highest, a strong
 * one the last. Pointing anywhere shows the values of all curves there. */
#ifndef MBA_REPORT_CURVES_H
#define MBA_REPORT_CURVES_H

#include <stdint.h>

#include "report/svg.h"

/* FAINT: every step; its outliers do not set the axis. MARKED: few points, each a mark with a tip of its own. */
typedef enum mba_curve_how { MBA_STRONG, MBA_FAINT, MBA_MARKED } mba_curve_how;

typedef struct mba_curve {
    const char   *name, *what; /* "wide", "smoothed": for tips */
    int           look;        /* colour and shape, lines.h */
    mba_curve_how how;
    const double *x, *y; /* x ascending; NaN: skipped */
    int64_t       n;
} mba_curve;

typedef struct mba_curves {
    const char      *label, *x_label, *y_label;
    const mba_curve *curve;
    int              n;
    double           from; /* x starts here */
    bool             zero; /* y starts at 0 and is never logarithmic */
} mba_curves;

void mba_curves_draw(mba_canvas *c, double w, const mba_curves *k);

#endif
