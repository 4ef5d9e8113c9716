// SPDX-License-Identifier: Apache-2.0
/* curves.c -- see curves.h: axes, curves reduced to columns, marks, and areas that show values under the pointer. */
#include "report/curves.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/lines.h"

enum { COLUMNS_WIDE = 300, COLUMNS_NARROW = 130, AREAS = 60, MARKS_MOST = 80 };
static const double WIDE_RANGE = 12; // largest / smallest value above which the axis is logarithmic
static const double LEFT = 58, TOP = 26, BOTTOM = 274;

/* ---- axes ---- */

static bool drawn(const mba_curves *k, const mba_curve *c, int64_t i)
{
    return c->x[i] >= k->from && isfinite(c->x[i]) && isfinite(c->y[i]);
}

static int upwards(const void *x, const void *y)
{
    const double a = *(const double *)x, b = *(const double *)y;
    return a < b ? -1 : a > b;
}

typedef struct span {
    double lo, hi;
} span; /* NaN: no value yet */

static void see(span *s, double v)
{
    if (!(s->lo <= v)) s->lo = v;
    if (!(s->hi >= v)) s->hi = v;
}

/* Extends the span by the middle 99 % of single steps: one outlier must not flatten the rest. It is drawn at the
 * edge. */
static void see_steps(span *s, const mba_curves *k, const mba_curve *c)
{
    double *v = malloc(sizeof *v * (size_t)(c->n ? c->n : 1));
    int64_t n = 0;
    for (int64_t i = 0; v && i < c->n; i++)
        if (drawn(k, c, i)) v[n++] = c->y[i];
    if (n) {
        mba_assert(n <= c->n);
        qsort(v, (size_t)n, sizeof *v, upwards);
        see(s, v[n / 200]);
        see(s, v[n - 1 - n / 200]);
    }
    free(v);
}

static span span_of(const mba_curves *k)
{
    span s = { NAN, NAN };
    for (int j = 0; j < k->n; j++) {
        const mba_curve *c = &k->curve[j];
        if (c->how == MBA_FAINT) see_steps(&s, k, c);
        else
            for (int64_t i = 0; i < c->n; i++)
                if (drawn(k, c, i)) see(&s, c->y[i]);
    }
    return s;
}

static span x_span_of(const mba_curves *k)
{
    span s = { NAN, NAN };
    for (int j = 0; j < k->n; j++)
        for (int64_t i = 0; i < k->curve[j].n; i++)
            if (drawn(k, &k->curve[j], i)) see(&s, k->curve[j].x[i]);
    return s;
}

/* The y axis, from a round number below the values to one above. */
static mba_scale y_scale(const mba_curves *k, bool *is_log)
{
    span s = span_of(k);
    *is_log = !k->zero && s.lo > 0 && s.hi > WIDE_RANGE * s.lo;
    if (isnan(s.lo)) return mba_lin(0, 1, BOTTOM, TOP);
    if (*is_log) return mba_log(s.lo / 1.15, s.hi * 1.15, BOTTOM, TOP);
    if (k->zero) return mba_lin(0, mba_axis_end(s.hi), BOTTOM, TOP);
    if (s.hi - s.lo < 1e-6 * fabs(s.hi)) s.lo -= 0.05 * fabs(s.hi), s.hi += 0.05 * fabs(s.hi);
    const double step = mba_round_up((s.hi - s.lo) / 6), lo = step * floor(s.lo / step + 1e-9),
                 hi = step * ceil(s.hi / step - 1e-9);
    return mba_lin(s.lo >= 0 && lo < 0 ? 0 : lo, hi, BOTTOM, TOP);
}

static void y_axis(mba_svg *s, mba_scale y, double right, const char *label, bool is_log)
{
    double    tick[16];
    const int n = mba_ticks_round(y, tick);
    for (int i = 0; i < n; i++) {
        const double at = mba_at(y, tick[i]);
        mba_svg_line(s, LEFT, at, right, at, "g", NULL);
        mba_svg_text(s, LEFT - 5, at + 4, "t3", 'e', "%s", mba_num(tick[i]).s);
    }
    mba_svg_text(s, 0, 11, "t2", 's', "%s%s", label, is_log ? " (log)" : "");
}

/* ---- curves ---- */

/* A column of the drawing gives up to two points: lowest and highest of single steps, the last of other curves. */
typedef struct column {
    double x, lo, hi, last;
    bool   rises;
} column;

/* Reduces a curve to at most `most` columns. A point whose x is below the one before, which only a damaged log has,
 * joins the current column. */
static int fill_columns(column *to, int most, const mba_curves *k, const mba_curve *c, mba_scale x)
{
    int n = 0, at = -1;
    for (int64_t i = 0; i < c->n; i++) {
        if (!drawn(k, c, i)) continue;
        const double px = mba_at(x, c->x[i]);
        int          place = (int)((px - x.a) / (x.b - x.a) * most);
        if (place >= most) place = most - 1;
        if (place > at) to[n++] = (column){ px, c->y[i], c->y[i], c->y[i], false };
        if (place > at) at = place;
        mba_debug_assert(place >= 0 && n > 0 && n <= most);
        column *now = &to[n - 1];
        if (c->y[i] < now->lo) now->lo = c->y[i], now->rises = false;
        if (c->y[i] > now->hi) now->hi = c->y[i], now->rises = true;
        now->last = c->y[i];
        now->x = px;
    }
    return n;
}

static void draw_curve(mba_svg *s, const mba_curves *k, const mba_curve *c, mba_scale x, mba_scale y)
{
    column     place[COLUMNS_WIDE];
    double     px[2 * COLUMNS_WIDE], py[2 * COLUMNS_WIDE];
    const int  n = fill_columns(place, s->narrow ? COLUMNS_NARROW : COLUMNS_WIDE, k, c, x);
    const bool steps = c->how == MBA_FAINT;
    int        points = 0;
    for (int i = 0; i < n; i++) {
        px[points] = place[i].x;
        py[points++] = mba_at(y, !steps ? place[i].last : place[i].rises ? place[i].lo : place[i].hi);
        if (!steps || place[i].lo == place[i].hi) continue;
        px[points] = place[i].x;
        py[points++] = mba_at(y, place[i].rises ? place[i].hi : place[i].lo);
    }
    mba_assert(points <= 2 * COLUMNS_WIDE);
    mba_svg_curve(s, px, py, points,
                  steps                  ? "faint"
                  : c->how == MBA_MARKED ? "dashed"
                                         : "bold",
                  mba_look_paint(c->look));
}

static void draw_marks(mba_svg *s, const mba_curves *k, const mba_curve *c, mba_scale x, mba_scale y)
{
    int64_t all = 0, seen = 0, most = MARKS_MOST;
    for (int64_t i = 0; i < c->n; i++) all += drawn(k, c, i);
    if (k->curve[k->n - 1].look > 1) most = 2 * MARKS_MOST / (1 + k->curve[k->n - 1].look); // fewer if many curves
    mba_assert(most > 0);
    const int64_t every = all > most ? (all + most - 1) / most : 1;
    for (int64_t i = 0; i < c->n; i++) {
        if (!drawn(k, c, i) || (seen++ % every && seen != all)) continue;
        mba_svg_mark(s, mba_look_shape(c->look), mba_at(x, c->x[i]), mba_at(y, c->y[i]), s->narrow ? 3.4 : 4,
                     mba_look_paint(c->look), false,
                     mba_tip(s->c, "%.60s · %s|%s: %s|%.5g %s", c->name, c->what, k->x_label, mba_num(c->x[i]).s,
                             c->y[i], k->y_label),
                     NULL);
    }
}

/* ---- values under the pointer ---- */

/* The last point of a curve in [lo, hi); -1: none. */
static int64_t last_in(const mba_curves *k, const mba_curve *c, double lo, double hi)
{
    int64_t from = 0, to = c->n; // binary search for the first point at or after hi
    while (from < to) {
        const int64_t mid = from + (to - from) / 2;
        if (c->x[mid] < hi) from = mid + 1;
        else to = mid;
    }
    for (int64_t i = from - 1; i >= 0 && c->x[i] >= lo; i--)
        if (drawn(k, c, i)) return i;
    return -1;
}

static void draw_area(mba_svg *s, const mba_curves *k, mba_scale x, double lo, double hi)
{
    char   text[900] = "";
    double at = NAN;
    size_t n = 0;
    for (int j = 0; j < k->n; j++) {
        const mba_curve *c = &k->curve[j];
        const int64_t    i = c->how == MBA_MARKED ? -1 : last_in(k, c, lo, hi);
        if (i < 0 || n > sizeof text - 160) continue;
        if (!(at >= c->x[i])) at = c->x[i];
        n += (size_t)snprintf(text + n, sizeof text - n, "|%.40s · %s: %.5g", c->name, c->what, c->y[i]);
    }
    if (!n) return;
    mba_svg_area(s, mba_at(x, lo), TOP, mba_at(x, hi) - mba_at(x, lo), BOTTOM - TOP,
                 mba_tip(s->c, "%s: %s%s", k->x_label, mba_num(at).s, text));
}

static void draw_areas(mba_svg *s, const mba_curves *k, mba_scale x)
{
    int64_t most = 1;
    for (int j = 0; j < k->n; j++)
        if (k->curve[j].n > most) most = k->curve[j].n;
    const int    areas = most < AREAS ? (int)most : AREAS;
    const double end = x.hi + 1e-9 * (x.hi - x.lo); // so that the last area contains the last point
    for (int i = 0; i < areas; i++)
        draw_area(s, k, x, x.lo + (end - x.lo) * i / areas, x.lo + (end - x.lo) * (i + 1) / areas);
}

/* Draws the names of the curves into a standalone SVG, which has no legend beside it. */
static void names_within(mba_svg *s, const mba_curves *k)
{
    double at = LEFT + MBA_LETTER * mba_characters(k->y_label) + 20;
    for (int j = 0; j < k->n && s->c->alone; j++) {
        const mba_curve *c = &k->curve[j];
        if (j && k->curve[j - 1].look == c->look) continue;
        mba_svg_mark(s, mba_look_shape(c->look), at, 7, 4, mba_look_paint(c->look), false, -1, NULL);
        mba_svg_text(s, at + 9, 11, "", 's', "%s", mba_short(c->name, 24).s);
        at += 24 + MBA_LETTER * mba_characters(mba_short(c->name, 24).s);
    }
}

void mba_curves_draw(mba_canvas *c, double w, const mba_curves *k)
{
    bool            is_log;
    double          tick[16];
    const double    right = w - 16;
    const span      reach = x_span_of(k);
    const mba_scale x = isnan(reach.lo) ? mba_lin(0, 1, LEFT, right)
                                        : mba_lin(k->from > 0 ? reach.lo : 0, reach.hi, LEFT, right);
    const mba_scale y = y_scale(k, &is_log);
    mba_assert(k->n > 0);
    mba_svg s = mba_svg_begin(c, w, BOTTOM + 40, k->label);
    y_axis(&s, y, right, k->y_label, is_log);
    mba_svg_axis_at(&s, x, tick, mba_ticks_round(x, tick), TOP, BOTTOM, k->x_label);
    names_within(&s, k);
    for (int how = MBA_FAINT, pass = 0; pass < 3; how = (int[]){ MBA_STRONG, MBA_MARKED, 0 }[pass], pass++)
        for (int j = 0; j < k->n; j++)
            if ((int)k->curve[j].how == how) draw_curve(&s, k, &k->curve[j], x, y);
    draw_areas(&s, k, x);
    for (int j = 0; j < k->n; j++)
        if (k->curve[j].how == MBA_MARKED) draw_marks(&s, k, &k->curve[j], x, y);
    mba_svg_end(&s);
}
