// SPDX-License-Identifier: Apache-2.0
/* fig_roofline.c -- Fig. 2: the roofline, kernels against the ceilings of every level of memory; and arithmetic
 * intensity under every convention. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/figure.h"

enum { MOST = 30, BOTH = 0, TENSOR, VECTOR };
static const char *const flop_views[] = { "tensor + vector", "tensor", "vector", NULL };

/* A kernel on the roofline: executed work if it was counted, else least work over least bytes. */
typedef struct point {
    double flops, s, bytes[3];
    bool   least;
} point;

static point point_of(const mba_kernel_view *k, int view)
{
    mba_debug_assert(view >= BOTH && view <= VECTOR);
    const mba_counted *c = &k->counted;
    const double       vector = c->fp32_flops + c->half_flops;
    const double       f[] = { c->tensor_flops + vector, c->tensor_flops, vector };
    const double l[] = { k->least.tensor_flops + k->least.vector_flops, k->least.tensor_flops, k->least.vector_flops };
    if (!isnan(f[view]) && !isnan(c->dram_bytes))
        return (point){ f[view], c->time_s, { c->dram_bytes, c->l2_bytes, c->l1_bytes }, false };
    return (point){ l[view], k->median_s, { k->least.bytes, NAN, NAN }, true };
}

static bool has_point(const mba_kernel_view *k)
{
    const point p = point_of(k, BOTH);
    return p.flops > 0 && p.s > 0 && p.bytes[0] > 0;
}

static bool has_roofline(const mba_stores *r, int run) { return mba_any_kernel(r->run[run].a, has_point); }

static const mba_grid_column fig2_columns[] = { { "kernel", "kernel" },
                                                { "class", "class" },
                                                { "work", "work" },
                                                { "time_us", "µs" },
                                                { "gflop_s", "GFLOP/s" },
                                                { "tensor_gflop", "tensor GFLOP" },
                                                { "vector_gflop", "vector GFLOP" },
                                                { "flop_per_dram_byte", "FLOP/byte DRAM" },
                                                { "flop_per_l2_byte", "L2" },
                                                { "flop_per_l1_byte", "L1" },
                                                { "percent_of_floor", "% of floor" },
                                                { 0 } };

static mba_status fig2_numbers(mba_grid *g, const mba_stores *r, int run)
{
    const mba_analysis *a = r->run[run].a;
    mba_chosen          c;
    MBA_TRY(mba_choose(&c, a, has_point, mba_marks_max(r, MOST)));
    for (int i = 0; i < c.n; i++) {
        const point p = point_of(c.k[i], BOTH);
        mba_grid_text(g, mba_kernel_label(a, c.k[i], 60).s);
        mba_grid_text(g, mba_breakdown_kind_name(c.k[i]->kind));
        mba_grid_text(g, p.least ? "least" : "executed");
        mba_grid_number(g, 1e6 * p.s);
        mba_grid_number(g, p.flops / p.s / 1e9);
        mba_grid_number(g, point_of(c.k[i], TENSOR).flops / 1e9);
        mba_grid_number(g, point_of(c.k[i], VECTOR).flops / 1e9);
        for (int l = 0; l < 3; l++) mba_grid_number(g, p.flops / p.bytes[l]);
        mba_grid_number(g, 100 * c.k[i]->least_s / c.k[i]->median_s);
    }
    free(c.k);
    return MBA_OK;
}

static void fig2_heading(mba_buf *b, const mba_stores *r, int run)
{
    const mba_bounds bounds = mba_bounds_of(r->run[run].a, MBA_ALL_KERNELS);
    if (isnan(bounds.percent_of_floor)) {
        mba_buf_put(b, "Kernels and the ceilings of this machine");
        return;
    }
    int top = 0;
    for (int f = 1; f < MBA_FLOORS; f++)
        if (bounds.share[f] > bounds.share[top]) top = f;
    mba_buf_add(b,
                "%s %% of the kernel time is in kernels whose floor %s sets; all kernels together run at %s %% of "
                "their floors",
                mba_num(100 * bounds.share[top]).s,
                top == MBA_BY_TENSOR && isnan(r->run[run].a->best.tensor) ? "matrix products"
                                                                          : mba_floor_words((mba_floor)top),
                mba_num(bounds.percent_of_floor).s);
}

/* ---- the drawing ---- */

/* A rectangle that is already drawn on, so that names are placed beside it. */
typedef struct area {
    double l, t, r, b;
} area;
enum { AREAS = 256 };
/* The plane of the drawing. y is in `unit`: 1e12 FLOP/s, or 1e9 for small machines; letter: T or G. */
typedef struct plane {
    mba_scale x, y;
    double    l, r, top, bottom, unit;
    char      letter;
    area      taken[AREAS];
    int       ntaken;
} plane;

static bool is_free(const plane *p, area a)
{
    if (a.l < p->l + 2 || a.r > p->r || a.t < p->top || a.b > p->bottom) return false;
    for (int i = 0; i < p->ntaken; i++) {
        const area *o = &p->taken[i];
        if (a.l < o->r && o->l < a.r && a.t < o->b && o->t < a.b) return false;
    }
    return true;
}

static void take(plane *p, area a)
{
    if (p->ntaken < AREAS) p->taken[p->ntaken++] = a;
}

static double roof_of(const mba_analysis *a, int view)
{
    const double tensor = isnan(a->best.tensor) ? a->best.fma : a->best.tensor;
    return view == VECTOR ? a->best.fma : tensor;
}

static plane plane_for(double w, double h, const mba_analysis *a, const mba_chosen *c, int view)
{
    const bool narrow = w <= MBA_NARROW;
    mba_range  x = { NAN, NAN }, y = { NAN, NAN };
    const bool large = roof_of(a, view) >= 2e12;
    plane      p = { .l = narrow ? 44 : 56,
                     .r = w - 8,
                     .top = 26,
                     .bottom = h - 46,
                     .unit = large ? 1e12 : 1e9,
                     .letter = large ? 'T' : 'G' };
    for (int i = 0; i < c->n; i++) {
        const point at = point_of(c->k[i], view);
        if (!(at.flops > 0)) continue;
        mba_range_extend(&y, at.flops / at.s / p.unit);
        for (int l = 0; l < 3; l++) mba_range_extend(&x, at.flops / at.bytes[l]);
    }
    mba_range_extend(&x, 2 * roof_of(a, view) / a->best.dram);
    x = mba_decades(x, 0.1, 1000), y = mba_decades(y, 0.01, 100);
    y.hi = fmax(y.hi > 10 * y.lo ? y.hi / 10 : y.hi, 1.8 * roof_of(a, view) / p.unit); // space for the roof's label
    x.hi = fmin(x.hi, mba_decades((mba_range){ 1, 20 * roof_of(a, view) / a->best.dram }, 1, 1000).hi);
    // kernels with almost no arithmetic (sums, scatters) are in the table only
    x.lo = fmax(x.lo, 0.01), y.lo = fmax(y.lo, y.hi * 1e-6);
    p.x = mba_log(x.lo, x.hi, p.l, p.r);
    p.y = mba_log(y.lo, y.hi, p.bottom, p.top);
    return p;
}

static void draw_axes(mba_svg *s, const plane *p, int view)
{
    double    tick[16];
    const int n = mba_ticks(p->y, tick);
    char      label[96];
    snprintf(label, sizeof label,
             s->narrow ? "%s FLOP/byte (log)"
                       : "arithmetic intensity: %s FLOP per byte moved at "
                         "the level (log)",
             flop_views[view]);
    mba_svg_axis(s, p->x, p->top, p->bottom, label);
    for (int i = 0; i < n; i++) {
        const double y = mba_at(p->y, tick[i]);
        mba_svg_line(s, p->l, y, p->r, y, "g", NULL);
        mba_svg_text(s, p->l - 5, y + 4, "t3", 'e', "%s", mba_num(tick[i]).s);
    }
    mba_svg_text(s, 0, 12, "t2 halo", 's', "%cFLOP/s (log)", p->letter);
}

/* The bandwidth of a level of memory: from the store, else from the machine file, which the simulator uses too. */
typedef struct level_rate {
    double      bytes_s;
    const char *how;
    bool        solid;
} level_rate;
enum { AT_DRAM, AT_L2, AT_L1, LEVELS };
static const char *const level_name[LEVELS] = { "DRAM", "L2", "L1/shared" };

static level_rate rate_at(const mba_stores *r, int run, int level)
{
    mba_assert(level >= 0 && level < LEVELS);
    const mba_analysis *a = r->run[run].a;
    const double        best[] = { a->best.dram, a->best.l2, a->best.l1 };
    const double        measured[] = { a->measured.dram, a->measured.l2, a->measured.l1 };
    const double        file[] = { NAN, r->run[run].l2_bytes_s, r->run[run].l1_bytes_s };
    if (!isnan(measured[level])) return (level_rate){ measured[level], "measured", true };
    if (!isnan(best[level])) return (level_rate){ best[level], "data sheet", false };
    return (level_rate){ file[level], "machine file", false };
}

/* Draws the slope of a level up to the roof, with its name to the right of its lower part if there is space. */
static void draw_slope(mba_svg *s, plane *p, level_rate rate, double roof, int level)
{
    const double bw = rate.bytes_s / p->unit, top = roof / p->unit, x1 = fmin(top / bw, p->x.hi);
    const double x0 = fmax(p->x.lo, p->y.lo / bw);
    if (!(bw > 0) || !(top > 0) || !(x1 > x0)) return;
    const double l = mba_at(p->x, x0), b = mba_at(p->y, x0 * bw), r = mba_at(p->x, x1), t = mba_at(p->y, x1 * bw);
    mba_svg_line(s, l, b, r, t, rate.solid ? "ref" : "ref dash", NULL);
    if (s->narrow) return;
    char      text[64];
    const int n = snprintf(text, sizeof text, "%s %s %cB/s", level_name[level], mba_num(bw).s, p->letter);
    for (double at = 0.04; at < 0.5; at += 0.03) {
        const double px = l + (r - l) * at, py = b + (t - b) * at;
        const area   a = { px + 6, py - 2, px + 6 + MBA_LETTER * n, py + 11 };
        if (!is_free(p, a)) continue;
        mba_svg_text(s, a.l, a.b - 2, "t3 halo", 's', "%s", text);
        take(p, a);
        break;
    }
}

static void draw_roof(mba_svg *s, plane *p, double flops_s, const char *name, const char *cls, double dy)
{
    const double v = flops_s / p->unit, y = mba_at(p->y, v);
    char         text[96];
    if (!(v > p->y.lo) || v > p->y.hi) return;
    const int n = snprintf(text, sizeof text, "%s %s %cFLOP/s", name, mba_num(v).s, p->letter);
    mba_svg_line(s, p->l, y, p->r, y, cls, NULL);
    mba_svg_text(s, p->l + 4, y + dy, "t3 halo", 's', "%s", text);
    take(p, (area){ p->l, y + dy - 11, p->l + 8 + MBA_LETTER * n, y + dy + 3 });
    take(p, (area){ p->l, y - 1, p->r, y + 1 });
}

/* Marks the ridge point, where the roof binds instead of DRAM, on the axis. */
static void draw_ridge(mba_svg *s, plane *p, double flops_s, double bytes_s)
{
    const double x = mba_at(p->x, flops_s / bytes_s);
    char         text[64];
    if (s->narrow || !(flops_s / bytes_s > p->x.lo && flops_s / bytes_s < p->x.hi)) return;
    const int    n = snprintf(text, sizeof text, "ridge at %s FLOP/byte", mba_num(flops_s / bytes_s).s);
    const double half = MBA_LETTER * n / 2, at = fmin(fmax(x, p->l + half), p->r - half);
    mba_svg_line(s, x, p->bottom - 6, x, p->bottom, "ref", NULL);
    mba_svg_text(s, at, p->bottom - 9, "t3 halo", 'm', "%s", text);
    take(p, (area){ at - half, p->bottom - 20, at + half, p->bottom });
}

static void draw_ceilings(mba_svg *s, plane *p, const mba_stores *r, int run, int view)
{
    const mba_analysis *a = r->run[run].a;
    const double        roof = roof_of(a, view);
    if (view != VECTOR)
        draw_roof(s, p, a->best.tensor, isnan(a->measured.tensor) ? "tensor, data sheet" : "tensor, measured",
                  isnan(a->measured.tensor) ? "ref dash" : "ref", -5);
    draw_roof(s, p, a->best.fma, isnan(a->measured.fma) ? "FMA, data sheet" : "FMA, measured",
              isnan(a->measured.fma) ? "ref dash" : "ref", view == VECTOR ? -5 : 13);
    draw_ridge(s, p, roof, a->best.dram);
    for (int l = 0; l < LEVELS; l++) draw_slope(s, p, rate_at(r, run, l), roof, l);
}

/* The leftmost and rightmost mark of a kernel; false: none is inside the drawing. */
static bool extent_of(const plane *p, point at, double *lo, double *hi)
{
    *lo = *hi = NAN;
    if (!(at.flops > 0) || at.flops / at.s / p->unit < p->y.lo) return false;
    for (int l = 0; l < LEVELS; l++) {
        const double x = at.flops / at.bytes[l];
        if (!(x >= p->x.lo && x <= p->x.hi)) continue;
        if (!(*lo <= x)) *lo = x;
        if (!(*hi >= x)) *hi = x;
    }
    return !isnan(*lo);
}

/* The radius of a mark: its area grows with the kernel's part of the step, within readable limits. */
static double radius_of(const mba_svg *s, const mba_analysis *a, const mba_kernel_view *k)
{
    const double part = k->step_s / a->busy_s;
    return (s->narrow ? 2.8 : 3.4) + (s->narrow ? 4 : 7) * sqrt(part > 0 ? fmin(part, 1) : 0);
}

/* Library GEMMs are labelled by their operator, once. */
static bool is_product(const mba_kernel_view *k) { return k->kind == MBA_GEMM && k->row->op; }

static bool is_named_before(const mba_chosen *c, int i)
{
    for (int j = 0; j < i && is_product(c->k[i]); j++)
        if (is_product(c->k[j]) && !strcmp(c->k[j]->row->op, c->k[i]->row->op)) return true;
    return false;
}

/* Draws the name of a kernel beside its marks if there is space. */
static void draw_name(mba_svg *s, plane *p, const mba_analysis *a, const mba_kernel_view *k, int view)
{
    const point    at = point_of(k, view);
    const mba_name name = is_product(k) ? mba_short(k->row->op, 22) : mba_kernel_label(a, k, 22);
    const double   w = MBA_LETTER * mba_characters(name.s), y = mba_at(p->y, at.flops / at.s / p->unit);
    double         lo, hi;
    if (!extent_of(p, at, &lo, &hi)) return;
    const double r = radius_of(s, a, k) + 4, l = mba_at(p->x, lo), e = mba_at(p->x, hi);
    const area   place[] = { { e + r, y - 7, e + r + w, y + 6 },
                             { l - r - w, y - 7, l - r, y + 6 },
                             { e - w / 2, y - r - 13, e + w / 2, y - r },
                             { e - w / 2, y + r, e + w / 2, y + r + 13 } };
    for (size_t i = 0; i < sizeof place / sizeof *place; i++) {
        if (!is_free(p, place[i])) continue;
        mba_svg_text(s, place[i].l, place[i].b - 3, "t3 halo", 's', "%s", name.s);
        take(p, place[i]);
        return;
    }
}

static void draw_kernel(mba_svg *s, plane *p, const mba_analysis *a, const mba_kernel_view *k, int view)
{
    static const mba_shape   shape[] = { MBA_CIRCLE, MBA_SQUARE, MBA_TRIANGLE };
    static const char *const tag[] = { "dram", "l2", "l1" };
    const point              at = point_of(k, view);
    const double             rate = at.flops / at.s / p->unit, y = mba_at(p->y, rate), r = radius_of(s, a, k);
    const char              *paint = mba_kind_paint(k->kind);
    double                   lo, hi;
    char                     tags[64];
    if (!extent_of(p, at, &lo, &hi)) return;
    take(p, (area){ mba_at(p->x, lo), y - 1, mba_at(p->x, hi), y + 1 });
    snprintf(tags, sizeof tags, "k-%s", paint);
    if (hi > lo) mba_svg_line(s, mba_at(p->x, lo), y, mba_at(p->x, hi), y, "thin", tags);
    for (int l = 2; l >= 0; l--) {
        const double x = at.flops / at.bytes[l], px = mba_at(p->x, x);
        if (!(x >= p->x.lo && x <= p->x.hi)) continue;
        snprintf(tags, sizeof tags, "k-%s %s", paint, tag[l]);
        take(p, (area){ px - r - 1, y - r - 1, px + r + 1, y + r + 1 });
        mba_svg_mark(s, shape[l], px, y, r, paint, at.least || l > 0,
                     mba_tip(s->c, "%s · %s|%s %cFLOP/s at %s FLOP/byte (%s, %s)|%s µs, %s %% of its floor",
                             mba_kernel_label(a, k, 60).s, level_name[l], mba_num(rate).s, p->letter, mba_num(x).s,
                             flop_views[view], at.least ? "least work" : "executed", mba_num(1e6 * at.s).s,
                             mba_num(100 * k->least_s / k->median_s).s),
                     tags);
    }
}

/* Where the kernel was in the baseline, with a line to where it is. */
static void draw_before(mba_svg *s, const plane *p, const mba_stores *r, int run, const mba_kernel_view *k, int view)
{
    const mba_kernel_view *before = mba_kernel_before(r, run, k);
    const point            was = before ? point_of(before, view) : (point){ 0 }, now = point_of(k, view);
    const double           x[] = { was.flops / was.bytes[AT_DRAM], now.flops / now.bytes[AT_DRAM] },
                 y[] = { was.flops / was.s / p->unit, now.flops / now.s / p->unit };
    for (int i = 0; i < 2; i++)
        if (!(x[i] >= p->x.lo && x[i] <= p->x.hi && y[i] >= p->y.lo && y[i] <= p->y.hi)) return;
    mba_svg_line(s, mba_at(p->x, x[0]), mba_at(p->y, y[0]), mba_at(p->x, x[1]), mba_at(p->y, y[1]), "thin", NULL);
    mba_svg_mark(s, MBA_CIRCLE, mba_at(p->x, x[0]), mba_at(p->y, y[0]), s->narrow ? 2.8 : 3.4, "measured", true,
                 mba_tip(s->c, "%s · baseline|%s %cFLOP/s at %s FLOP/byte|%s µs, now %s µs",
                         mba_kernel_label(r->run[run].a, k, 60).s, mba_num(y[0]).s, p->letter, mba_num(x[0]).s,
                         mba_num(1e6 * was.s).s, mba_num(1e6 * now.s).s),
                 NULL);
}

static mba_status fig2_draw(mba_canvas *c, double w, const mba_stores *r, int run, int view)
{
    mba_assert(run >= 0 && run < r->n && view >= BOTH && view <= VECTOR);
    const mba_analysis *a = r->run[run].a;
    const double        h = w <= MBA_NARROW ? 380 : 500;
    mba_chosen          chosen;
    MBA_TRY(mba_choose(&chosen, a, has_point, mba_marks_max(r, MOST)));
    plane   p = plane_for(w, h, a, &chosen, view);
    mba_svg s = mba_svg_begin(c, w, h, "Roofline of the kernels, by level of memory");
    draw_axes(&s, &p, view);
    draw_ceilings(&s, &p, r, run, view);
    for (int i = chosen.n - 1; i >= 0; i--) draw_before(&s, &p, r, run, chosen.k[i], view);
    for (int i = chosen.n - 1; i >= 0; i--) draw_kernel(&s, &p, a, chosen.k[i], view);
    for (int i = 0; i < chosen.n && !s.narrow; i++)
        if (!is_named_before(&chosen, i)) draw_name(&s, &p, a, chosen.k[i], view);
    mba_assert(p.ntaken <= AREAS);
    mba_svg_end(&s);
    free(chosen.k);
    return MBA_OK;
}

static void fig2_legend(mba_buf *b, const mba_stores *r, int run)
{
    const mba_analysis      *a = r->run[run].a;
    static const char *const mark[LEVELS] = { "●", "□", "△" };
    for (int l = 0; l < LEVELS; l++) {
        const level_rate rate = rate_at(r, run, l);
        char             text[128] = "";
        if (!isnan(rate.bytes_s))
            snprintf(text, sizeof text, ", slope %s GB/s, %s", mba_num(rate.bytes_s / 1e9).s, rate.how);
        mba_buf_add(b, "<li><b>%s</b> %s%s</li>", mark[l], level_name[l], text);
    }
    mba_legend_mark(b, "○", "least work, for kernels without counters");
    if (mba_has_before(r, run)) mba_legend_mark(b, "○–", "DRAM, in the baseline");
    for (int k = 0; k < MBA_BREAKDOWN_KINDS; k++)
        if (mba_kind_s(a, k) > 0) mba_legend_item(b, mba_kind_paint(k), mba_kind_long(k));
}

const mba_figure mba_figure_fig2 = {
    "fig2",
    "Roofline",
    "Fig. 2 · roofline",
    "The longest kernels: FLOP/s against FLOP per byte at each memory level; the area of a mark grows with its "
    "share of the step. An FMA counts as 2 FLOPs; times are those of the counter run.",
    "Solid lines were measured in this run; dashed ones come from the data sheet or from the machine file of "
    "the simulator. The marks of one kernel have the same height: the further right, the fewer bytes per FLOP "
    "at that level. A kernel whose DRAM mark lies on the slope is {limited by} DRAM. A kernel far below slope and "
    "roof is limited by neither; its card says by what. Hollow circles are {least work} over {compulsory bytes}, "
    "for kernels without counters. Marks beyond the axis (TMA copies bypass the L1 counters) are in the table "
    "only.",
    "operation and byte counts: mambascope profile --model NAME --metric-sets roofline --out run.db",
    false,
    flop_views,
    fig2_columns,
    has_roofline,
    fig2_heading,
    fig2_numbers,
    fig2_draw,
    fig2_legend
};

/* ---- intensity ---- */

static bool has_intensity(const mba_stores *r, int run)
{
    return r->run[run].a->steps > 0 && !isnan(mba_intensity_of(r->run[run].a, MBA_ALL_KERNELS).least[2]);
}

static bool has_executed(const mba_stores *r, int run)
{
    return !isnan(mba_intensity_of(r->run[run].a, MBA_ALL_KERNELS).executed[1][0]);
}

static const mba_grid_column intensity_columns[] = { { "kernels", "kernels" },
                                                     { "flops", "FLOPs" },
                                                     { "least", "least FLOP / compulsory byte" },
                                                     { "per_dram_byte", "executed / DRAM byte" },
                                                     { "per_l2_byte", "/ L2 byte" },
                                                     { "per_l1_byte", "/ L1 byte" },
                                                     { "under_3.5", "under 3.5 somewhere" },
                                                     { 0 } };

/* Below the study's threshold; a kernel without FLOPs does not count. */
static bool is_low(double flop_per_byte) { return flop_per_byte > 0 && flop_per_byte < 3.5; }

static mba_status intensity_numbers(mba_grid *g, const mba_stores *r, int run)
{
    static const char *const flops[] = { "tensor", "vector", "both" };
    const mba_analysis      *a = r->run[run].a;
    for (int group = 0; group < MBA_KERNEL_GROUPS; group++) {
        const mba_intensity in = mba_intensity_of(a, (mba_group_of)group);
        if (!(mba_bounds_of(a, (mba_group_of)group).time_s > 0)) continue;
        for (int f = 0; f < 3; f++) {
            bool below = is_low(in.least[f]), any = in.least[f] > 0;
            mba_grid_text(g, mba_group_name((mba_group_of)group));
            mba_grid_text(g, flops[f]);
            mba_grid_number(g, in.least[f]);
            for (int l = 0; l < 3; l++) {
                mba_grid_number(g, in.executed[f][l]);
                below |= is_low(in.executed[f][l]), any |= in.executed[f][l] > 0;
            }
            mba_grid_text(g, below ? "yes" : any ? "no" : NULL);
        }
    }
    return MBA_OK;
}

static void intensity_heading(mba_buf *b, const mba_stores *r, int run)
{
    const mba_intensity in = mba_intensity_of(r->run[run].a, MBA_ALL_KERNELS);
    mba_buf_add(b, "Intensity depends on the convention: %s FLOP/byte for the least work, %s for its vector FLOPs only",
                mba_num(in.least[2]).s, mba_num(in.least[1]).s);
    if (has_executed(r, run))
        mba_buf_add(b, "; executed, both over DRAM %s, vector over L2 %s", mba_num(in.executed[2][0]).s,
                    mba_num(in.executed[1][1]).s);
}

const mba_figure mba_figure_intensity = {
    "intensity",
    "Intensity",
    "Arithmetic intensity · every convention",
    "Tensor, vector or both FLOPs over DRAM, L2 or L1 bytes, summed over the kernels of a step.",
    "{The study|the study}'s \"below 3.5 FLOP/byte\" depends on its convention; the table has all of them.",
    "a timeline with least work (our own models), and for the executed columns: mambascope profile --metric-sets "
    "roofline,cache",
    false,
    NULL,
    intensity_columns,
    has_intensity,
    intensity_heading,
    intensity_numbers,
    NULL,
    NULL
};
