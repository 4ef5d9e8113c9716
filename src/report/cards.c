// SPDX-License-Identifier: Apache-2.0
/* cards.c -- see cards.h: heads, numbers and sparklines of cards. */
#include "report/cards.h"

#include <math.h>

void mba_card_head(mba_buf *b, const char *question, const char *verdict, const char *id)
{
    mba_buf_put(b, "<div class=\"find\">");
    if (*question) mba_buf_add(b, "<h3>%s</h3>", question);
    mba_buf_add(b, "<div><span class=\"chip %s\">%s</span> <b>%s</b></div>", verdict, verdict, id);
}

void mba_card_big(mba_buf *b, double v, const char *unit)
{
    mba_buf_add(b, "<div class=\"big\" data-v=\"%s\">%s <small>", mba_exact(v).s, mba_num(v).s);
    mba_buf_html(b, unit); // it may contain a name from a store
    mba_buf_put(b, "</small></div>");
}

void mba_card_end(mba_buf *b, const char *figure, const char *link)
{
    mba_buf_add(b, "<div class=\"foot\"><a href=\"#%s\">%s</a></div></div>", figure, link);
}

/* ---- sparklines ---- */

enum { SPARK_W = 250, SPARK_H = 34 };

static mba_svg spark_begin(mba_canvas *c, int h, const char *label)
{
    mba_svg s = { c, &c->out, SPARK_W, h, false };
    mba_buf_add(s.out, "<figure><svg class=\"spark\" viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"%s\">", SPARK_W, h,
                label);
    return s;
}

static void spark_end(mba_svg *s, const char *caption)
{
    mba_buf_add(s->out, "</svg><figcaption>%s</figcaption></figure>", caption);
}

void mba_spark_add(mba_sticks *k, double v, const char *paint)
{
    mba_assert(k->n >= 0 && k->n <= 24);
    if (k->n == 24 || isnan(v)) return;
    k->v[k->n] = v;
    k->paint[k->n++] = paint;
    if (v > k->top) k->top = v;
}

void mba_spark_sticks(mba_canvas *c, const mba_sticks *k, const char *caption)
{
    if (!k->n) return;
    mba_svg         s = spark_begin(c, SPARK_H, caption);
    const double    step = (double)SPARK_W / (k->n < 4 ? 4 : k->n);
    const mba_scale y = mba_lin(0, fmax(k->top, fmax(isnan(k->line) ? 0 : k->line, isnan(k->dash) ? 0 : k->dash)),
                                SPARK_H, 1);
    for (int i = 0; i < k->n; i++) {
        const double at = mba_at(y, k->v[i]);
        mba_svg_bar(&s, step * i, at, step - 1.5, SPARK_H - at, "", k->paint[i], -1, NULL);
    }
    if (!isnan(k->line)) mba_svg_line(&s, 0, mba_at(y, k->line), SPARK_W, mba_at(y, k->line), "ref", NULL);
    if (!isnan(k->dash)) mba_svg_line(&s, 0, mba_at(y, k->dash), SPARK_W, mba_at(y, k->dash), "ref dash", NULL);
    spark_end(&s, caption);
}

void mba_spark_strip(mba_canvas *c, const mba_bar_part *p, int n, const char *caption)
{
    mba_assert(n >= 0);
    mba_svg s = spark_begin(c, 18, caption);
    double  at = 0;
    for (int i = 0; i < n; i++) {
        const double w = SPARK_W * p[i].part;
        if (w >= 0.5) mba_svg_bar(&s, at, 0, w, 18, "bar", p[i].paint, -1, NULL);
        if (w > 0) at += w;
    }
    spark_end(&s, caption);
}
