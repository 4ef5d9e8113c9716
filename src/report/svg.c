// SPDX-License-Identifier: Apache-2.0
/* svg.c -- see svg.h: tooltips, shapes, scales and ticks, axes, and the frame for missing data. */
#include "report/svg.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- tooltips ---- */

static unsigned hash_of(const char *s)
{
    unsigned h = 2166136261u;
    for (; *s; s++) h = (h ^ (unsigned char)*s) * 16777619u;
    return h;
}

static bool more_tips(mba_canvas *c)
{
    if (c->ntips < c->room) return true;
    const int room = 2 * c->room + 64;
    char    **tip = realloc(c->tip, (size_t)room * sizeof *tip);
    if (tip) c->tip = tip;
    unsigned *hash = tip ? realloc(c->hash, (size_t)room * sizeof *hash) : NULL;
    if (hash) c->hash = hash, c->room = room;
    c->out.failed |= !hash;
    return hash != NULL;
}

int mba_tip(mba_canvas *c, const char *fmt, ...)
{
    char    text[1024];
    va_list ap;
    if (c->alone) return -1;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    const unsigned hash = hash_of(text);
    for (int i = 0; i < c->ntips; i++)
        if (c->hash[i] == hash && !strcmp(c->tip[i], text)) return i;
    if (!more_tips(c)) return -1;
    mba_assert(c->ntips < c->room);
    c->tip[c->ntips] = strdup(text);
    c->hash[c->ntips] = hash;
    c->out.failed |= !c->tip[c->ntips];
    return c->tip[c->ntips] ? c->ntips++ : -1;
}

void mba_canvas_free(mba_canvas *c)
{
    for (int i = 0; i < c->ntips; i++) free(c->tip[i]);
    free(c->tip);
    free(c->hash);
    mba_buf_free(&c->out);
    *c = (mba_canvas){ 0 };
}

/* ---- the drawing ---- */

mba_svg mba_svg_begin(mba_canvas *c, double w, double h, const char *label)
{
    mba_assert(w > 0 && h > 0);
    mba_svg s = { c, &c->out, w, h, w <= MBA_NARROW };
    mba_buf_add(s.out, "<svg class=\"%s walk\" viewBox=\"0 0 %.0f %.0f\" role=\"group\" aria-label=\"",
                s.narrow ? "narrow" : "wide", w, h);
    mba_buf_html(s.out, label);
    mba_buf_put(s.out, c->alone ? "\" xmlns=\"http://www.w3.org/2000/svg\">" : "\">");
    return s;
}

void mba_svg_end(mba_svg *s) { mba_buf_put(s->out, "</svg>"); }

/* A coordinate: one decimal, no trailing zero. */
static mba_word c1(double v)
{
    mba_word w;
    snprintf(w.s, sizeof w.s, "%.1f", v);
    const size_t n = strlen(w.s);
    if (n > 2 && !strcmp(w.s + n - 2, ".0")) w.s[n - 2] = 0;
    if (!strcmp(w.s, "-0")) snprintf(w.s, sizeof w.s, "0");
    return w;
}

static void attributes(mba_svg *s, const char *cls, const char *paint, int tip, const char *tags)
{
    mba_debug_assert(tip >= -1 && tip < s->c->ntips);
    if ((cls && *cls) || (paint && *paint))
        mba_buf_add(s->out, " class=\"%s%s%s\"", cls ? cls : "", cls && *cls && paint && *paint ? " " : "",
                    paint ? paint : "");
    if (tip >= 0) mba_buf_add(s->out, " data-t=\"%d\"", tip);
    if (tags && *tags && !s->c->alone) mba_buf_add(s->out, " data-tags=\"%s\"", tags);
}

static void box(mba_svg *s, double x, double y, double w, double h)
{
    w = w > 0 ? w : 0;
    mba_buf_add(s->out, " d=\"M%s %sh%sv%sh%sz\"", c1(x).s, c1(y).s, c1(w).s, c1(h).s, c1(-w).s);
}

void mba_svg_bar(mba_svg *s, double x, double y, double w, double h, const char *cls, const char *paint, int tip,
                 const char *tags)
{
    char fill[32];
    snprintf(fill, sizeof fill, "c-%s", paint);
    mba_buf_put(s->out, "<path");
    attributes(s, cls, fill, tip, tags);
    box(s, x, y, w, h);
    mba_buf_put(s->out, "/>");
}

void mba_svg_bar_path(mba_buf *d, double x, double y, double w, double h)
{
    if (!d->n) mba_buf_add(d, "M%s %s", c1(x).s, c1(y + h).s);
    mba_buf_add(d, "H%sV%sh%sV%s", c1(x).s, c1(y).s, c1(w).s, c1(y + h).s);
}

void mba_svg_bars(mba_svg *s, const char *d, const char *paint, int tip)
{
    char fill[32];
    snprintf(fill, sizeof fill, "c-%s", paint);
    mba_buf_put(s->out, "<path");
    attributes(s, fill, NULL, tip, NULL);
    mba_buf_put(s->out, " d=\"");
    mba_buf_put(s->out, d ? d : "");
    mba_buf_put(s->out, "\"/>");
}

void mba_svg_hatch(mba_svg *s, double x, double y, double w, double h, int tip)
{
    mba_buf_put(s->out, "<path");
    attributes(s, "hatched", NULL, tip, NULL);
    box(s, x, y, w, h);
    mba_buf_put(s->out, "/>");
    // strokes instead of a pattern, so that a standalone SVG needs no definitions
    for (double at = x + 4; at < x + w - 1; at += 5)
        mba_buf_add(s->out, "<path class=\"hair\" d=\"M%s %sl-3 %s\"/>", c1(at).s, c1(y).s, c1(h).s);
}

void mba_svg_shade(mba_svg *s, double x, double y, double w, double h, const char *paint)
{
    mba_buf_put(s->out, "<path class=\"shade c-");
    mba_buf_add(s->out, "%s\"", paint);
    box(s, x, y, w, h);
    mba_buf_put(s->out, "/>");
}

void mba_svg_line(mba_svg *s, double x1, double y1, double x2, double y2, const char *cls, const char *tags)
{
    mba_buf_put(s->out, "<path");
    attributes(s, cls, NULL, -1, tags);
    mba_buf_add(s->out, " d=\"M%s %sL%s %s\"/>", c1(x1).s, c1(y1).s, c1(x2).s, c1(y2).s);
}

void mba_svg_polyline(mba_svg *s, const double *x, const double *y, int n, const char *paint)
{
    mba_buf_add(s->out, "<path class=\"curve s-%s\" d=\"", paint);
    for (int i = 0; i < n; i++) mba_buf_add(s->out, "%c%s %s", i ? 'L' : 'M', c1(x[i]).s, c1(y[i]).s);
    mba_buf_put(s->out, "\"/>");
}

void mba_svg_curve(mba_svg *s, const double *x, const double *y, int n, const char *cls, const char *paint)
{
    bool pen = false;
    mba_buf_add(s->out, "<path class=\"curve %s s-%s\" d=\"", cls, paint);
    for (int i = 0; i < n; i++) {
        if (isfinite(y[i])) mba_buf_add(s->out, "%c%s %s", pen ? 'L' : 'M', c1(x[i]).s, c1(y[i]).s);
        pen = isfinite(y[i]);
    }
    mba_buf_put(s->out, "\"/>");
}

void mba_svg_area(mba_svg *s, double x, double y, double w, double h, int tip)
{
    if (s->c->alone) return;
    mba_buf_put(s->out, "<path");
    attributes(s, "area", NULL, tip, NULL);
    box(s, x, y, w, h);
    mba_buf_put(s->out, "/>");
}

void mba_svg_text(mba_svg *s, double x, double y, const char *cls, char anchor, const char *fmt, ...)
{
    char        text[512];
    const char *side = anchor == 'm' ? "m" : anchor == 'e' ? "e" : NULL;
    va_list     ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    mba_buf_add(s->out, "<text x=\"%s\" y=\"%s\"", c1(x).s, c1(y).s);
    attributes(s, cls, side, -1, NULL);
    mba_buf_put(s->out, ">");
    mba_buf_html(s->out, text);
    mba_buf_put(s->out, "</text>");
}

void mba_svg_mark(mba_svg *s, mba_shape shape, double x, double y, double r, const char *paint, bool hollow, int tip,
                  const char *tags)
{
    static const struct {
        int    n;
        double at[4][2];
    } corner[] = { [MBA_SQUARE] = { 4, { { -.88, -.88 }, { .88, -.88 }, { .88, .88 }, { -.88, .88 } } },
                   [MBA_TRIANGLE] = { 3, { { 0, -1.15 }, { 1.05, .8 }, { -1.05, .8 } } },
                   [MBA_DIAMOND] = { 4, { { 0, -1.25 }, { 1.25, 0 }, { 0, 1.25 }, { -1.25, 0 } } } };
    char fill[32];
    mba_assert(shape <= MBA_DIAMOND);
    snprintf(fill, sizeof fill, "%c-%s", hollow ? 'h' : 'f', paint);
    mba_buf_put(s->out, shape == MBA_CIRCLE ? "<circle" : "<path");
    attributes(s, fill, NULL, tip, tags);
    if (shape == MBA_CIRCLE) {
        mba_buf_add(s->out, " cx=\"%s\" cy=\"%s\" r=\"%s\"/>", c1(x).s, c1(y).s, c1(r).s);
        return;
    }
    mba_buf_put(s->out, " d=\"");
    for (int i = 0; i < corner[shape].n; i++)
        mba_buf_add(s->out, "%c%s %s", i ? 'L' : 'M', c1(x + r * corner[shape].at[i][0]).s,
                    c1(y + r * corner[shape].at[i][1]).s);
    mba_buf_put(s->out, "Z\"/>");
}

/* ---- scales ---- */

mba_scale mba_lin(double lo, double hi, double a, double b)
{
    return (mba_scale){ lo, hi > lo ? hi : lo + 1, a, b, false };
}
mba_scale mba_log(double lo, double hi, double a, double b)
{
    return (mba_scale){ lo, hi > lo ? hi : 10 * lo, a, b, true };
}

double mba_at(mba_scale k, double v)
{
    if (!(v >= k.lo)) v = k.lo;
    if (v > k.hi) v = k.hi;
    return k.a + (k.b - k.a) * (k.log ? log(v / k.lo) / log(k.hi / k.lo) : (v - k.lo) / (k.hi - k.lo));
}

double mba_round_up(double v)
{
    if (!(v > 0) || !isfinite(v)) return 1;
    const double decade = pow(10, floor(log10(v)));
    for (int i = 0; i < 3; i++)
        if (v <= decade * (double[]){ 1, 2, 5 }[i] * (1 + 1e-9)) return decade * (double[]){ 1, 2, 5 }[i];
    return 10 * decade;
}

double mba_axis_end(double v)
{
    if (!(v > 0) || !isfinite(v)) return 1;
    const double step = mba_round_up(v / 6);
    return step * ceil(v / step - 1e-9);
}

int mba_ticks(mba_scale k, double tick[16])
{
    int n = 0;
    if (k.log) {
        const double first = ceil(log10(k.lo) - 1e-9), last = floor(log10(k.hi) + 1e-9),
                     step = ceil((last - first + 1) / 12);
        for (double e = first; e <= last && n < 16; e += step) tick[n++] = pow(10, e);
        return n;
    }
    const double step = mba_round_up((k.hi - k.lo) / 6);
    for (double v = k.lo; v <= k.hi * (1 + 1e-9) && n < 16; v += step) tick[n++] = v;
    return n;
}

int mba_ticks_round(mba_scale k, double tick[16])
{
    int n = 0;
    if (k.log && log10(k.hi / k.lo) > 3) return mba_ticks(k, tick);
    if (k.log) {
        for (double e = floor(log10(k.lo) - 1e-9); e <= log10(k.hi) && n < 16; e++)
            for (int i = 0; i < 3 && n < 16; i++) {
                const double v = pow(10, e) * (double[]){ 1, 2, 5 }[i];
                if (v >= k.lo * (1 - 1e-9) && v <= k.hi * (1 + 1e-9)) tick[n++] = v;
            }
        return n;
    }
    const double step = mba_round_up((k.hi - k.lo) / 6);
    for (double i = ceil(k.lo / step - 1e-9) + 0.0; i * step <= k.hi + 1e-9 * step && n < 16; i++) tick[n++] = i * step;
    return n;
}

void mba_range_extend(mba_range *r, double v)
{
    if (!(v > 0) || !isfinite(v)) return;
    if (!(r->lo <= v)) r->lo = v;
    if (!(r->hi >= v)) r->hi = v;
}

mba_range mba_decades(mba_range r, double lo, double hi)
{
    if (isnan(r.lo)) return (mba_range){ lo, hi };
    r.lo = pow(10, floor(log10(r.lo) + 1e-9));
    r.hi = pow(10, ceil(log10(r.hi) - 1e-9));
    if (r.hi < 10 * r.lo) r.hi = 10 * r.lo;
    return r;
}

/* Draws the number of a tick, centred but inside of the drawing; skips it if it would touch the previous number. */
static void tick_text(mba_svg *s, double x, double y, const char *text, double *taken)
{
    const double width = MBA_LETTER * mba_characters(text);
    const char   anchor = x < width / 2 + 1 ? 's' : x > s->w - width / 2 - 1 ? 'e' : 'm';
    const double from = anchor == 's' ? x : anchor == 'e' ? x - width : x - width / 2;
    if (from < *taken + 4) return;
    mba_svg_text(s, x, y, "t3", anchor, "%s", text);
    *taken = from + width;
}

void mba_svg_axis(mba_svg *s, mba_scale x, double y0, double y1, const char *label)
{
    double    tick[16];
    const int n = mba_ticks(x, tick);
    mba_svg_axis_at(s, x, tick, n, y0, y1, label);
}

void mba_svg_axis_at(mba_svg *s, mba_scale x, const double *tick, int n, double y0, double y1, const char *label)
{
    double taken = -1e9;
    mba_assert(n >= 0 && n <= 16);
    const double mid = (x.a + x.b) / 2, half = 3.3 * mba_characters(label),
                 at = fmax(half + 1, fmin(mid, s->w - half - 1));
    for (int i = 0; i < n; i++) {
        const double px = mba_at(x, tick[i]);
        mba_svg_line(s, px, y0, px, y1, "g", NULL);
        tick_text(s, px, y1 + 15, mba_num(tick[i]).s, &taken);
    }
    mba_svg_text(s, at, y1 + 31, "t2", 'm', "%s", label);
}

/* ---- frames ---- */

/* Draws text wrapped to lines of `characters`. */
static void wrapped(mba_svg *s, double x, double y, int characters, const char *text)
{
    char line[256] = "";
    while (*text) {
        const int word = (int)strcspn(text, " ");
        if (*line && mba_characters(line) + 1 + word > characters) {
            mba_svg_text(s, x, y, "t3", 'm', "%s", line);
            y += 14;
            *line = 0;
        }
        const size_t n = strlen(line);
        snprintf(line + n, sizeof line - n, "%s%.*s", n ? " " : "", word, text);
        text += word + (text[word] == ' ');
    }
    mba_svg_text(s, x, y, "t3", 'm', "%s", line);
}

void mba_svg_frame(mba_canvas *c, double w, const char *label, const char *x, const char *y, const char *why)
{
    const double l = 16, r = w - 10, top = 24, bottom = 150;
    mba_svg      s = mba_svg_begin(c, w, 180, label);
    mba_buf_put(s.out, "<path class=\"empty\"");
    box(&s, l, top, r - l, bottom - top);
    mba_buf_put(s.out, "/>");
    mba_svg_text(&s, (l + r) / 2, 172, "t2", 'm', "%s", x);
    mba_svg_text(&s, 2, 14, "t2", 's', "%s", y);
    mba_svg_text(&s, (l + r) / 2, 58, "b", 'm', "no data yet");
    wrapped(&s, (l + r) / 2, 78, s.narrow ? 46 : 110, why);
    mba_svg_end(&s);
}
