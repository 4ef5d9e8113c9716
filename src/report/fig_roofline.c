/* fig_roofline.c -- Fig. 2: kernels against the ceilings of every level of memory; and intensity under every
 * convention. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "report/figure.h"

enum { MOST = 30, BOTH = 0, TENSOR, VECTOR };
static const char *const flop_views[] = { "tensor + vector", "tensor", "vector", NULL };

/* A kernel on the roofline: executed work where counters saw it, else the least work over the least bytes. */
typedef struct point { double flops, s, bytes[3]; bool least; } point;

static point point_of(const mba_kernel_view *k, int view)
{
    const mba_counted *c = &k->counted;
    const double       vector = c->fp32_flops + c->half_flops;
    const double       f[] = { c->tensor_flops + vector, c->tensor_flops, vector };
    const double       l[] = { k->least.tensor_flops + k->least.vector_flops, k->least.tensor_flops,
                               k->least.vector_flops };
    if (!isnan(f[view]) && !isnan(c->dram_bytes)) return (point){ f[view], c->time_s,
            { c->dram_bytes, c->l2_bytes, c->l1_bytes }, false };
    return (point){ l[view], k->median_s, { k->least.bytes, NAN, NAN }, true };
}

static bool has_point(const mba_kernel_view *k)
{
    const point p = point_of(k, BOTH);
    return p.flops > 0 && p.s > 0 && p.bytes[0] > 0;
}

static bool has_roofline(const mba_stores *r, int run) { return mba_any_kernel(r->run[run].a, has_point); }

static const mba_grid_column fig2_columns[] = { { "kernel", "kernel" }, { "class", "class" }, { "work", "work" },
                                                { "time_us", "µs" }, { "gflop_s", "GFLOP/s" },
    { "tensor_gflop", "tensor GFLOP" }, { "vector_gflop", "vector GFLOP" }, { "flop_per_dram_byte", "FLOP/byte DRAM" },
        { "flop_per_l2_byte", "L2" },
    { "flop_per_l1_byte", "L1" }, { "percent_of_floor", "% of floor" }, { 0 } };

static mba_status fig2_numbers(mba_grid *g, const mba_stores *r, int run)
{
    const mba_analysis *a = r->run[run].a;
    mba_chosen          c;
    MBA_TRY(mba_choose(&c, a, has_point, mba_most(r, MOST)));
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
        mba_buf_put(b, "Kernels against the ceilings of this machine");
        return;
    }
    int top = 0;
    for (int f = 1; f < MBA_FLOORS; f++) if (bounds.share[f] > bounds.share[top]) top = f;
    mba_buf_add(b, "%s %% of the kernel time is in kernels whose floor is %s; all together run at %s %% of their "
                   "floors", mba_num(100 * bounds.share[top]).s,
                mba_floor_words((mba_floor)top),
                    mba_num(bounds.percent_of_floor).s);
}

/* ---- the drawing ---- */

typedef struct plane { mba_scale x, y; double l, r, top, bottom; } plane;

static double roof_of(const mba_analysis *a, int view)
{
    const double tensor = isnan(a->best.tensor) ? a->best.fma : a->best.tensor;
    return view == VECTOR ? a->best.fma : tensor;
}

static plane plane_for(double w, double h, const mba_analysis *a, const mba_chosen *c, int view)
{
    const bool narrow = w <= MBA_NARROW;
    mba_range  x = { NAN, NAN }, y = { NAN, NAN };
    plane      p = { .l = narrow ? 44 : 56, .r = w - 8, .top = 26, .bottom = h - 46 };
    for (int i = 0; i < c->n; i++) {
        const point at = point_of(c->k[i], view);
        if (!(at.flops > 0)) continue;
        mba_see(&y, at.flops / at.s / 1e12);
        for (int l = 0; l < 3; l++) mba_see(&x, at.flops / at.bytes[l]);
    }
    mba_see(&x, 2 * roof_of(a, view) / a->best.dram);
    x = mba_decades(x, 0.1, 1000), y = mba_decades(y, 0.01, 100);
    y.hi = fmax(y.hi > 10 * y.lo ? y.hi / 10 : y.hi, 1.8 * roof_of(a, view) / 1e12);     // room for the roof's label
    x.hi = fmin(x.hi, mba_decades((mba_range){ 1, 20 * roof_of(a, view) / a->best.dram }, 1, 1000).hi);
    // sums and scatters hardly compute: in the table only
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
    snprintf(label, sizeof label, s->narrow ? "%s FLOP/byte (log)" : "arithmetic intensity: %s FLOP per byte moved at "
                                                                     "the level (log)", flop_views[view]);
    mba_svg_axis(s, p->x, p->top, p->bottom, label);
    for (int i = 0; i < n; i++) {
        const double y = mba_at(p->y, tick[i]);
        mba_svg_line(s, p->l, y, p->r, y, "g", NULL);
        mba_svg_text(s, p->l - 5, y + 4, "t3", 'e', "%s", mba_num(tick[i]).s);
    }
    mba_svg_text(s, 0, 12, "t2 halo", 's', "TFLOP/s (log)");
}

/* Bandwidth lines from the left or lower edge to the roof; text goes where the legend says: no rotated labels to
 * collide. */
static void draw_slope(mba_svg *s, const plane *p, double bytes_s, double roof, const char *cls)
{
    const double bw = bytes_s / 1e12, top = roof / 1e12, x1 = fmin(top / bw, p->x.hi), x0 = fmax(p->x.lo, p->y.lo / bw);
    if (!(bw > 0) || !(top > 0) || !(x1 > x0)) return;
    mba_svg_line(s, mba_at(p->x, x0), mba_at(p->y, x0 * bw), mba_at(p->x, x1), mba_at(p->y, x1 * bw), cls, NULL);
}

static void draw_roof(mba_svg *s, const plane *p, double flops_s, const char *name, const char *cls, double dy)
{
    const double v = flops_s / 1e12;
    if (!(v > p->y.lo) || v > p->y.hi) return;
    mba_svg_line(s, p->l, mba_at(p->y, v), p->r, mba_at(p->y, v), cls, NULL);
    mba_svg_text(s, p->l + 4, mba_at(p->y, v) + dy, "t3 halo", 's', "%s %s TFLOP/s", name, mba_num(v).s);
}

static void draw_ceilings(mba_svg *s, const plane *p, const mba_analysis *a, int view)
{
    const double roof = roof_of(a, view);
    draw_slope(s, p, a->best.dram, roof, isnan(a->measured.dram) ? "ref dash" : "ref");
    draw_slope(s, p, a->best.l2, roof, isnan(a->measured.l2) ? "ref dash" : "ref");
    draw_slope(s, p, a->best.l1, roof, isnan(a->measured.l1) ? "ref dash" : "ref");
    if (view != VECTOR) draw_roof(s, p, a->best.tensor, isnan(a->measured.tensor) ? "tensor, data sheet"
                                  : "tensor, measured", isnan(a->measured.tensor) ? "ref dash" : "ref", -5);
    draw_roof(s, p, a->best.fma, isnan(a->measured.fma) ? "FMA, data sheet" : "FMA, measured", isnan(a->measured.fma)
              ? "ref dash" : "ref", 13);
}

static void draw_kernel(mba_svg *s, const plane *p, const mba_analysis *a, const mba_kernel_view *k, int view)
{
    static const mba_shape shape[] = { MBA_CIRCLE, MBA_SQUARE, MBA_TRIANGLE };
    static const char *const level[] = { "DRAM", "L2", "L1/shared" }, *const tag[] = { "dram", "l2", "l1" };
    const point  at = point_of(k, view);
    const double rate = at.flops / at.s / 1e12, y = mba_at(p->y, rate), r = s->narrow ? 3.6 : 4.6;
    const char  *paint = mba_kind_paint(k->kind);
    double       lo = NAN, hi = NAN;
    if (!(at.flops > 0) || rate < p->y.lo) return;
    for (int l = 0; l < 3; l++) {
        const double x = at.flops / at.bytes[l];
        if (!(x >= p->x.lo && x <= p->x.hi)) continue;
        if (!(lo <= x)) lo = x;
        if (!(hi >= x)) hi = x;
    }
    char tags[64];
    snprintf(tags, sizeof tags, "k-%s", paint);
    if (hi > lo) mba_svg_line(s, mba_at(p->x, lo), y, mba_at(p->x, hi), y, "thin", tags);
    for (int l = 2; l >= 0; l--) {
        const double x = at.flops / at.bytes[l];
        if (!(x >= p->x.lo && x <= p->x.hi)) continue;
        snprintf(tags, sizeof tags, "k-%s %s", paint, tag[l]);
        mba_svg_mark(s, shape[l], mba_at(p->x, x), y, r, paint, at.least || l > 0,
                     mba_tip(s->c, "%s · %s|%s TFLOP/s at %s FLOP/byte (%s, %s)|%s µs, %s %% of its floor",
                             mba_kernel_label(a, k, 60).s, level[l],
                             mba_num(rate).s, mba_num(x).s, flop_views[view], at.least ? "least work" : "executed",
                                 mba_num(1e6 * at.s).s,
                             mba_num(100 * k->least_s / k->median_s).s), tags);
    }
}

static mba_status fig2_draw(mba_canvas *c, double w, const mba_stores *r, int run, int view)
{
    const mba_analysis *a = r->run[run].a;
    const double        h = w <= MBA_NARROW ? 380 : 500;
    mba_chosen          chosen;
    MBA_TRY(mba_choose(&chosen, a, has_point, mba_most(r, MOST)));
    const plane p = plane_for(w, h, a, &chosen, view);
    mba_svg     s = mba_svg_begin(c, w, h, "Roofline of the kernels, by level of memory");
    draw_axes(&s, &p, view);
    draw_ceilings(&s, &p, a, view);
    for (int i = chosen.n - 1; i >= 0; i--) draw_kernel(&s, &p, a, chosen.k[i], view);
    mba_svg_end(&s);
    free(chosen.k);
    return MBA_OK;
}

static void slope_words(mba_buf *b, const char *name, double best, double measured)
{
    if (!isnan(best)) mba_buf_add(b, "<li>%s %s GB/s, %s</li>", name, mba_num(best / 1e9).s, isnan(measured)
                                  ? "data sheet (dashed)" : "measured (solid)");
}

static void fig2_legend(mba_buf *b, const mba_stores *r, int run)
{
    const mba_analysis *a = r->run[run].a;
    mba_legend_mark(b, "●", "DRAM (○ least work)");
    mba_legend_mark(b, "□", "L2");
    mba_legend_mark(b, "△", "L1/shared");
    slope_words(b, "slope: DRAM", a->best.dram, a->measured.dram);
    slope_words(b, "L2", a->best.l2, a->measured.l2);
    slope_words(b, "L1", a->best.l1, a->measured.l1);
    for (int k = 0; k < MBA_BREAKDOWN_KINDS; k++) if (mba_kind_s(a, k) > 0) mba_legend_item(b, mba_kind_paint(k),
            mba_kind_long(k));
}

const mba_figure mba_figure_fig2 = {
    "fig2", "Roofline", "Fig. 2 · roofline",
    "The longest kernels: TFLOP/s against FLOP per byte at each level of memory. An FMA is 2 FLOPs; time of the "
    "counter run.",
    "Marks of one kernel share a height: the further right, the fewer bytes at that level per FLOP. A kernel whose "
    "DRAM mark is on the slope is bound by DRAM; one far below both slope and roof is bound by neither, and its "
    "card says by what. Hollow circles are least work over least bytes, where no counters saw the kernel. Marks "
    "beyond the axis (copies by TMA hardly touch the L1 counters) are in the table only.",
    "operation and byte counts: mambascope profile --model NAME --sets roofline --out run.db",
    false, flop_views, fig2_columns, has_roofline, fig2_heading, fig2_numbers, fig2_draw, fig2_legend };

/* ---- intensity ---- */

static bool has_intensity(const mba_stores *r, int run)
{
    return r->run[run].a->steps > 0 && !isnan(mba_intensity_of(r->run[run].a, MBA_ALL_KERNELS).least[2]);
}

static bool has_executed(const mba_stores *r, int run)
{
    return !isnan(mba_intensity_of(r->run[run].a, MBA_ALL_KERNELS).executed[1][0]);
}

static const mba_grid_column intensity_columns[] = { { "kernels", "kernels" }, { "flops", "FLOPs" },
                                                     { "least", "least FLOP / least byte" },
    { "per_dram_byte", "executed / DRAM byte" }, { "per_l2_byte", "/ L2 byte" }, { "per_l1_byte", "/ L1 byte" },
        { "under_3.5", "under 3.5 somewhere" }, { 0 } };

static mba_status intensity_numbers(mba_grid *g, const mba_stores *r, int run)
{
    static const char *const flops[] = { "tensor", "vector", "both" };
    const mba_analysis *a = r->run[run].a;
    for (int group = 0; group < MBA_KERNEL_GROUPS; group++) {
        const mba_intensity in = mba_intensity_of(a, (mba_group_of)group);
        if (!(mba_bounds_of(a, (mba_group_of)group).time_s > 0)) continue;
        for (int f = 0; f < 3; f++) {
            bool below = in.least[f] < 3.5;
            mba_grid_text(g, mba_group_name((mba_group_of)group));
            mba_grid_text(g, flops[f]);
            mba_grid_number(g, in.least[f]);
            for (int l = 0; l < 3; l++) mba_grid_number(g, in.executed[f][l]), below |= in.executed[f][l] < 3.5;
            mba_grid_text(g, below ? "yes" : "no");
        }
    }
    return MBA_OK;
}

static void intensity_heading(mba_buf *b, const mba_stores *r, int run)
{
    const mba_intensity in = mba_intensity_of(r->run[run].a, MBA_ALL_KERNELS);
    mba_buf_add(b, "Intensity depends on the convention: %s FLOP/byte of the least work, %s of its vector FLOPs alone",
                mba_num(in.least[2]).s, mba_num(in.least[1]).s);
    if (has_executed(r, run)) mba_buf_add(b, "; executed, both over DRAM %s, vector over L2 %s",
                                          mba_num(in.executed[2][0]).s, mba_num(in.executed[1][1]).s);
}

const mba_figure mba_figure_intensity = {
    "intensity", "Intensity", "Arithmetic intensity · every convention",
    "{tensor, vector, both} FLOPs over {DRAM, L2, L1} bytes, summed over the kernels of a step.",
    "The study's \"below 3.5 FLOP/byte\" can only be judged with its convention; here are all of them.",
    "a timeline with least work (our own models), and for the executed columns: mambascope profile --sets "
    "roofline,cache",
    false, NULL, intensity_columns, has_intensity, intensity_heading, intensity_numbers, NULL, NULL };
