// SPDX-License-Identifier: Apache-2.0
/* svg.h -- the few drawing helpers the figures need. Classes and colours are those of report.css.
 *
 *     mba_svg s = mba_svg_begin(canvas, 860, 200, "what is drawn");
 *     const mba_scale x = mba_log(1, 1000, 236, 840);
 *     mba_svg_axis(&s, x, 10, 160, "µs (log)");
 *     mba_svg_mark(&s, MBA_CIRCLE, mba_at(x, 12.5), 40, 5, "ssm", false, mba_tip(canvas, "name|12.5 µs"), NULL);
 *     mba_svg_end(&s);
 *
 * Every figure is drawn twice, for wide and for narrow containers; CSS shows one. Text is never measured: a label is
 * drawn where MBA_LETTER x characters fit. */
#ifndef MBA_REPORT_SVG_H
#define MBA_REPORT_SVG_H

#include "report/buf.h"

enum { MBA_WIDE = 860, MBA_NARROW = 340 };
static const double MBA_LETTER = 6.9; /* width of a letter at 12 px, rounded up */

/* Output and texts of tooltips; equal texts are stored once. Lines of a tooltip are separated by |. alone: one SVG
 * without tooltips. */
typedef struct mba_canvas {
    mba_buf   out;
    char    **tip;
    unsigned *hash;
    int       ntips, room;
    bool      alone;
} mba_canvas;
/* the number of the tooltip; -1 if c->alone */
int  mba_tip(mba_canvas *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void mba_canvas_free(mba_canvas *c);

typedef struct mba_svg {
    mba_canvas *c;
    mba_buf    *out;
    double      w, h;
    bool        narrow;
} mba_svg;
mba_svg mba_svg_begin(mba_canvas *c, double w, double h, const char *label);
void    mba_svg_end(mba_svg *s);

void mba_svg_bar(mba_svg *s, double x, double y, double w, double h, const char *cls, const char *paint, int tip,
                 const char *tags);
/* Many bars as one mark: their outlines first, then the path. */
void mba_svg_bar_path(mba_buf *d, double x, double y, double w, double h);
void mba_svg_bars(mba_svg *s, const char *d, const char *paint, int tip);
void mba_svg_hatch(mba_svg *s, double x, double y, double w, double h, int tip);
void mba_svg_shade(mba_svg *s, double x, double y, double w, double h, const char *paint);
void mba_svg_line(mba_svg *s, double x1, double y1, double x2, double y2, const char *cls, const char *tags);
void mba_svg_polyline(mba_svg *s, const double *x, const double *y, int n, const char *paint);
/* The same with a class: "faint", "bold", "dashed"; broken where y is NaN. */
void mba_svg_curve(mba_svg *s, const double *x, const double *y, int n, const char *cls, const char *paint);
/* An invisible area that shows a tooltip. */
void mba_svg_area(mba_svg *s, double x, double y, double w, double h, int tip);
/* s, m, e */
void mba_svg_text(mba_svg *s, double x, double y, const char *cls, char anchor, const char *fmt, ...)
    __attribute__((format(printf, 6, 7)));
typedef enum mba_shape { MBA_CIRCLE, MBA_SQUARE, MBA_TRIANGLE, MBA_DIAMOND } mba_shape;
void mba_svg_mark(mba_svg *s, mba_shape shape, double x, double y, double r, const char *paint, bool hollow, int tip,
                  const char *tags);

/* ---- scales and axes ---- */
typedef struct mba_scale {
    double lo, hi, a, b;
    bool   log;
} mba_scale;
mba_scale mba_lin(double lo, double hi, double a, double b);
mba_scale mba_log(double lo, double hi, double a, double b);
double    mba_at(mba_scale k, double v);           /* clamped to the scale */
double    mba_round_up(double v);                  /* 1, 2, 5 x a decade, at least v */
double    mba_axis_end(double v);                  /* the first tick at or after v, of an axis that starts at 0 */
int       mba_ticks(mba_scale k, double tick[16]); /* decades, or about five round numbers from the first on */
int       mba_ticks_round(mba_scale k,
                          double    tick[16]); /* 1, 2, 5 x decades where those are few; multiples of a round number */
/* A logarithmic scale over whole decades around the values seen; start with { NaN, NaN }. */
typedef struct mba_range {
    double lo, hi;
} mba_range;
void      mba_range_extend(mba_range *r, double v);       /* ignores NaN and values not above 0 */
mba_range mba_decades(mba_range r, double lo, double hi); /* lo, hi: if the range is empty */
/* Grid lines from y0 to y1, ticks below, the label under them; at the ticks of mba_ticks, or at those given. */
void mba_svg_axis(mba_svg *s, mba_scale x, double y0, double y1, const char *label);
void mba_svg_axis_at(mba_svg *s, mba_scale x, const double *tick, int n, double y0, double y1, const char *label);

/* Draws axes, "no data yet" and how to get data. */
void mba_svg_frame(mba_canvas *c, double w, const char *label, const char *x, const char *y, const char *why);

#endif
