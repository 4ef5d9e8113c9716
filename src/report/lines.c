// SPDX-License-Identifier: Apache-2.0
/* lines.c -- see lines.h: looks and legends, axes, lines with their marks. */
#include "report/lines.h"

#include <math.h>
#include <stdio.h>

enum { LOOKS = 8, SHAPES = 4, TICKS_MAX = 32 };
static const char *const paints[LOOKS] = { "msg", "ssm", "gemm", "norm", "red", "conv", "attn", "mem" };
static const mba_shape   shapes[SHAPES] = { MBA_CIRCLE, MBA_DIAMOND, MBA_SQUARE, MBA_TRIANGLE };
static const double      WIDE_RANGE = 12; // largest / smallest value above which the axis is logarithmic

const char *mba_look_paint(int look)
{
    mba_assert(look >= 0);
    return paints[look % LOOKS];
}

/* A colour that comes again comes with the next shape: 32 pairs. */
mba_shape mba_look_shape(int look)
{
    mba_assert(look >= 0);
    return shapes[(look + look / LOOKS) % SHAPES];
}

void mba_lines_legend(mba_buf *b, const mba_line *l, int view)
{
    static const char *const filled[] = {
        [MBA_CIRCLE] = "●", [MBA_SQUARE] = "■", [MBA_TRIANGLE] = "▲", [MBA_DIAMOND] = "◆"
    };
    static const char *const hollow[] = {
        [MBA_CIRCLE] = "○", [MBA_SQUARE] = "□", [MBA_TRIANGLE] = "△", [MBA_DIAMOND] = "◇"
    };
    mba_buf_put(b, "<li");
    if (view >= 0) mba_buf_add(b, " data-view=\"%d\"%s", view, view ? " hidden" : "");
    mba_buf_add(b, "><b style=\"color:var(--%s)\">%s</b> ", mba_look_paint(l->look),
                (l->simulated ? hollow : filled)[mba_look_shape(l->look)]);
    mba_buf_html(b, l->name);
    mba_buf_put(b, "</li>");
}

/* ---- axes ---- */

/* Values of the parameter without a mark belong to the axis, too. */
static mba_range range_of(const mba_lines *k, bool of_x)
{
    mba_range seen = { NAN, NAN };
    for (int i = 0; i < k->n; i++)
        for (int j = 0; j < k->line[i].n; j++) mba_range_extend(&seen, of_x ? k->line[i].x[j] : k->line[i].y[j]);
    return seen;
}

static bool has_mark(const mba_lines *k, double x)
{
    for (int i = 0; i < k->n; i++)
        for (int j = 0; j < k->line[i].n; j++)
            if (k->line[i].x[j] == x && isfinite(k->line[i].y[j])) return true;
    return false;
}

static void y_axis(mba_svg *s, mba_scale y, double left, double right, const char *label)
{
    double    tick[16];
    const int n = mba_ticks(y, tick);
    for (int i = 0; i < n; i++) {
        const double at = mba_at(y, tick[i]);
        mba_svg_line(s, left, at, right, at, "g", NULL);
        mba_svg_text(s, left - 5, at + 4, "t3", 'e', "%s", mba_num(tick[i]).s);
    }
    mba_svg_text(s, 0, 11, "t2", 's', "%s", label);
}

/* The distinct values of the parameter, ascending. */
static int values_of(const mba_lines *k, double v[TICKS_MAX])
{
    int n = 0;
    for (int i = 0; i < k->n; i++)
        for (int j = 0; j < k->line[i].n; j++) {
            const double x = k->line[i].x[j];
            int          at = 0;
            while (at < n && v[at] < x) at++;
            if (n == TICKS_MAX || (at < n && v[at] == x)) continue;
            for (int m = n++; m > at; m--) v[m] = v[m - 1];
            v[at] = x;
        }
    mba_assert(n <= TICKS_MAX);
    return n;
}

/* Draws a grid line at every value, and its number unless that would touch the previous one. */
static void x_axis(mba_svg *s, const mba_lines *k, mba_scale x, double top, double bottom)
{
    double    v[TICKS_MAX], taken = -1e9;
    const int n = values_of(k, v);
    for (int i = 0; i < n; i++) {
        const double   at = mba_at(x, v[i]);
        const mba_word text = mba_num(v[i]);
        const double   width = MBA_LETTER * mba_characters(text.s);
        const char     anchor = at + width / 2 > s->w ? 'e' : at - width / 2 < 0 ? 's' : 'm';
        const double   from = anchor == 'e' ? at - width : anchor == 's' ? at : at - width / 2;
        mba_svg_line(s, at, top, at, bottom, "g", NULL);
        if (!has_mark(k, v[i])) // a machine too small, a size that the model does not have
            mba_svg_text(s, at, bottom - 6, "t3 halo", at > (x.a + x.b) / 2 ? 'e' : 's', "cannot run");
        if (from < taken + 4) continue;
        mba_svg_text(s, at, bottom + 15, "t3", anchor, "%s", text.s);
        taken = from + width;
    }
    mba_svg_text(s, (x.a + x.b) / 2, bottom + 33, "t2", 'm', "%s", k->x_label);
}

/* ---- lines ---- */

static void one_line(mba_svg *s, const mba_lines *k, const mba_line *l, mba_scale x, mba_scale y)
{
    double px[MBA_LINE_POINTS], py[MBA_LINE_POINTS];
    int    n = 0;
    mba_assert(l->n >= 0 && l->n <= MBA_LINE_POINTS);
    for (int i = 0; i < l->n; i++) {
        if (!isfinite(l->y[i])) continue;
        px[n] = mba_at(x, l->x[i]);
        py[n++] = mba_at(y, l->y[i]);
    }
    mba_svg_polyline(s, px, py, n, mba_look_paint(l->look));
    for (int i = 0; i < l->n; i++) {
        if (!isfinite(l->y[i])) continue;
        mba_svg_mark(s, mba_look_shape(l->look), mba_at(x, l->x[i]), mba_at(y, l->y[i]), 4.4, mba_look_paint(l->look),
                     l->simulated,
                     mba_tip(s->c, "%s%s|%s: %s|%s %s", l->name, l->simulated ? " · SIMULATED" : "", k->x_label,
                             mba_num(l->x[i]).s, mba_num(l->y[i]).s, k->unit),
                     NULL);
    }
}

void mba_lines_draw(mba_canvas *c, double w, const mba_lines *k)
{
    const double    left = 58, right = w - 16, top = 22, bottom = 230;
    const mba_range rx = range_of(k, true), ry = range_of(k, false), decades = mba_decades(ry, 1, 10);
    const mba_scale x = isnan(rx.lo) ? mba_log(1, 10, left, right) : mba_log(rx.lo, rx.hi, left, right);
    const bool      wide = ry.hi > WIDE_RANGE * ry.lo;
    const mba_scale y = wide ? mba_log(decades.lo, decades.hi, bottom, top)
                             : mba_lin(0, mba_axis_end(ry.hi), bottom, top);
    char            y_label[96];
    snprintf(y_label, sizeof y_label, "%s%s", k->y_label, wide ? " (log)" : "");
    mba_svg s = mba_svg_begin(c, w, bottom + 40, k->label);
    y_axis(&s, y, left, right, y_label);
    x_axis(&s, k, x, top, bottom);
    for (int i = 0; i < k->n; i++) one_line(&s, k, &k->line[i], x, y);
    mba_svg_end(&s);
}
