// SPDX-License-Identifier: Apache-2.0
/* fig_caches.c -- Fig. 3: cache hit rates, footprints, and reuse between operators. Fig. 9: sectors per request. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/figure.h"
#include "scope/blocks.h"

enum { MOST = 24 };

/* ---- Fig. 3 ---- */

static bool has_hits(const mba_kernel_view *k)
{
    return !isnan(k->counted.l1_hit_pct) || !isnan(k->counted.l2_hit_pct);
}

static bool has_caches(const mba_stores *r, int run) { return mba_any_kernel(r->run[run].a, has_hits); }

static const mba_grid_column fig3_columns[] = { { "kernel", "kernel" },         { "kernel_class", "class" },
                                                { "l1_hit_pct", "L1 hit, %" },  { "l2_hit_pct", "L2 hit, %" },
                                                { "least_mb", "operands, MB" }, { "dram_mb", "DRAM, MB" },
                                                { "l2_mb", "L2, MB" },          { "l1_mb", "L1, MB" },
                                                { "fits_l2", "fits in L2" },    { 0 } };

static mba_status fig3_numbers(mba_grid *g, const mba_stores *r, int run)
{
    const mba_analysis *a = r->run[run].a;
    mba_chosen          c;
    MBA_TRY(mba_choose(&c, a, has_hits, mba_marks_max(r, MOST)));
    for (int i = 0; i < c.n; i++) {
        const mba_kernel_view *k = c.k[i];
        mba_grid_text(g, mba_kernel_label(a, k, 60).s);
        mba_grid_text(g, mba_kernel_class_name(k->cls));
        mba_grid_number(g, k->counted.l1_hit_pct);
        mba_grid_number(g, k->counted.l2_hit_pct);
        mba_grid_number(g, k->least.bytes / 1e6);
        mba_grid_number(g, k->counted.dram_bytes / 1e6);
        mba_grid_number(g, k->counted.l2_bytes / 1e6);
        mba_grid_number(g, k->counted.l1_bytes / 1e6);
        mba_grid_text(g, k->least.bytes <= a->l2_bytes ? "yes" : k->least.bytes > a->l2_bytes ? "no" : NULL);
    }
    free(c.k);
    return MBA_OK;
}

static void fig3_heading(mba_buf *b, const mba_stores *r, int run)
{
    const mba_analysis *a = r->run[run].a;
    double              s = 0, l1 = 0, l2 = 0;
    for (int64_t i = 0; i < a->nkernels; i++) {
        const mba_kernel_view *k = &a->kernel[i];
        if (k->launches <= 0 || isnan(k->counted.l1_hit_pct) || isnan(k->counted.l2_hit_pct)) continue;
        s += k->step_s, l1 += k->step_s * k->counted.l1_hit_pct, l2 += k->step_s * k->counted.l2_hit_pct;
    }
    if (s > 0)
        mba_buf_add(b, "Over the step, L1 serves %s %% and L2 %s %% of the requests that reach it (time-weighted)",
                    mba_num(l1 / s).s, mba_num(l2 / s).s);
    else mba_buf_put(b, "Hit rates of the kernels that were counted");
}

/* Draws the operands of a launch as a bar beside the size of L2, and its DRAM traffic as a mark. */
static void draw_operands(mba_canvas *c, double w, const mba_analysis *a, const mba_chosen *chosen)
{
    mba_range seen = { NAN, NAN };
    for (int i = 0; i < chosen->n; i++) {
        mba_range_extend(&seen, chosen->k[i]->least.bytes / 1e6);
        mba_range_extend(&seen, chosen->k[i]->counted.dram_bytes / 1e6);
    }
    mba_range_extend(&seen, a->l2_bytes / 1e6);
    seen = mba_decades(seen, 1, 1000);
    const mba_lanes lanes = mba_lanes_for(w, chosen->n, 26, 18);
    mba_svg         s = mba_svg_begin(c, w, lanes.bottom + 40, "Operands of a launch against the L2");
    const mba_scale x = mba_log(seen.lo, seen.hi, lanes.left, w - 14);
    mba_svg_axis(&s, x, lanes.top - 4, lanes.bottom, "MB of a launch (log)");
    for (int i = 0; i < chosen->n; i++) {
        const mba_kernel_view *k = chosen->k[i];
        const double           mb = k->least.bytes / 1e6, dram = k->counted.dram_bytes / 1e6;
        const double           y = mba_lanes_at(&lanes, i);
        const mba_name         name = mba_kernel_label(a, k, 60);
        const int              tip = mba_tip(c,
                                             "%s|operands %s MB, DRAM %s MB|%s the L2 of %s"
                                                          " MB",
                                             name.s, mba_num(mb).s, mba_num(dram).s,
                                k->least.bytes <= a->l2_bytes ? "they fit in" : "they do not fit in",
                                             mba_num(a->l2_bytes / 1e6).s);
        mba_lanes_label(&s, &lanes, i, a, k);
        if (mb > 0)
            mba_svg_bar(&s, x.a, y - 5, mba_at(x, mb) - x.a, 10, "", k->least.bytes <= a->l2_bytes ? "norm" : "ssm",
                        tip, NULL);
        if (dram > 0) mba_svg_mark(&s, MBA_CIRCLE, mba_at(x, dram), y, 3.6, "measured", false, tip, NULL);
    }
    if (a->l2_bytes > 0) {
        const double   at = mba_at(x, a->l2_bytes / 1e6);
        const mba_word size = mba_num(a->l2_bytes / 1e6);
        const bool     edge = at + MBA_LETTER * (double)(strlen(size.s) + 6) / 2 > w; // it would leave the drawing
        mba_svg_line(&s, at, lanes.top - 8, at, lanes.bottom, "ref dash", NULL);
        mba_svg_text(&s, edge ? w : at, lanes.top - 12, "t3", edge ? 'e' : 'm', "L2 %s MB", size.s);
    }
    mba_svg_end(&s);
}

static mba_status fig3_draw(mba_canvas *c, double w, const mba_stores *r, int run, int view)
{
    mba_assert(run >= 0 && run < r->n && view >= 0 && view < 2);
    const mba_analysis *a = r->run[run].a;
    mba_chosen          chosen;
    MBA_TRY(mba_choose(&chosen, a, has_hits, mba_marks_max(r, MOST)));
    if (view) {
        draw_operands(c, w, a, &chosen);
        free(chosen.k);
        return MBA_OK;
    }
    const mba_lanes lanes = mba_lanes_for(w, chosen.n, 10, 18);
    mba_svg         s = mba_svg_begin(c, w, lanes.bottom + 40, "L1 and L2 hit rates");
    const mba_scale x = mba_lin(0, 100, lanes.left, w - 14);
    mba_svg_axis(&s, x, lanes.top - 4, lanes.bottom, "hit rate, %");
    for (int i = 0; i < chosen.n; i++) {
        const mba_counted *k = &chosen.k[i]->counted;
        const double       y = mba_lanes_at(&lanes, i);
        const mba_name     name = mba_kernel_label(a, chosen.k[i], 60);
        mba_lanes_label(&s, &lanes, i, a, chosen.k[i]);
        if (!isnan(k->l1_hit_pct) && !isnan(k->l2_hit_pct))
            mba_svg_line(&s, mba_at(x, k->l1_hit_pct), y, mba_at(x, k->l2_hit_pct), y, "stem", NULL);
        if (!isnan(k->l1_hit_pct))
            mba_svg_mark(&s, MBA_TRIANGLE, mba_at(x, k->l1_hit_pct), y, 4.6, "vector", false,
                         mba_tip(c, "%s · L1|%s %% hits, %s kernel", name.s, mba_num(k->l1_hit_pct).s,
                                 mba_kernel_class_name(chosen.k[i]->cls)),
                         NULL);
        if (!isnan(k->l2_hit_pct))
            mba_svg_mark(&s, MBA_SQUARE, mba_at(x, k->l2_hit_pct), y, 4.4, "gemm", false,
                         mba_tip(c,
                                 "%s · L2|%s %% "
                                 "hits|%s MB through L2, %s MB of DRAM, operands %s MB",
                                 name.s, mba_num(k->l2_hit_pct).s, mba_num(k->l2_bytes / 1e6).s,
                                 mba_num(k->dram_bytes / 1e6).s, mba_num(chosen.k[i]->least.bytes / 1e6).s),
                         NULL);
    }
    mba_svg_end(&s);
    free(chosen.k);
    return MBA_OK;
}

static void fig3_legend(mba_buf *b, const mba_stores *r, int run)
{
    (void)r, (void)run;
    mba_legend_view(b, 0, "vector", "▲ L1 hit rate");
    mba_legend_view(b, 0, "gemm", "■ L2 hit rate");
    mba_legend_view(b, 1, "norm", "operands fit in L2");
    mba_legend_view(b, 1, "ssm", "they do not");
    mba_legend_view(b, 1, "measured", "● DRAM traffic");
}

static const char *const fig3_views[] = { "hit rates", "operands and L2", NULL };

const mba_figure mba_figure_fig3 = {
    "fig3",
    "Caches",
    "Fig. 3 · cache hit rates and footprints",
    "Sector hit rates of L1 and L2 of the longest kernels; the operands of a launch, once each, compared with "
    "the L2 size and the DRAM traffic.",
    "TMA loads bypass the L1 counters. Rates combine two passes of the counters and can exceed 100 %; the axis ends "
    "there.",
    "cache counters, on a GPU: mambascope profile --metric-sets cache,roofline",
    false,
    fig3_views,
    fig3_columns,
    has_caches,
    fig3_heading,
    fig3_numbers,
    fig3_draw,
    fig3_legend
};

/* ---- reuse ---- */

static double cache_of(const mba_analysis *a) { return isnan(a->l2_bytes) ? mba_env_value(a, "cpu.llc") : a->l2_bytes; }

static bool has_reuse(const mba_stores *r, int run)
{
    return !isnan(cache_of(r->run[run].a)) && r->run[run].operands > 0;
}

static const mba_grid_column reuse_columns[] = { { "from", "last used by" },
                                                 { "to", "read by" },
                                                 { "reads", "reads" },
                                                 { "mb_per_step", "MB per step" },
                                                 { "reach_percent", "% within reach" },
                                                 { 0 } };

static mba_status reuse_numbers(mba_grid *g, const mba_stores *r, int run)
{
    const mba_analysis *a = r->run[run].a;
    mba_reuse          *all;
    int64_t             n;
    MBA_TRY(mba_reuse_of(a, cache_of(a), &all, &n));
    for (int64_t i = 0; i < n && i < 16; i++) {
        mba_grid_text(g, all[i].from);
        mba_grid_text(g, all[i].to);
        mba_grid_number(g, (double)all[i].reads);
        mba_grid_number(g, all[i].bytes / 1e6);
        mba_grid_number(g, 100 * all[i].reach_bytes / all[i].bytes);
    }
    free(all);
    return MBA_OK;
}

static void reuse_heading(mba_buf *b, const mba_stores *r, int run)
{
    const mba_analysis *a = r->run[run].a;
    mba_reuse          *all = NULL;
    int64_t             n = 0;
    double              bytes = 0, reach = 0;
    const mba_status    st = mba_reuse_of(a, cache_of(a), &all, &n);
    mba_buf_fail(b, st);
    if (st != MBA_OK) return;
    for (int64_t i = 0; i < n; i++) bytes += all[i].bytes, reach += all[i].reach_bytes;
    mba_assert(reach <= bytes);
    free(all);
    mba_buf_add(b, "%s %% of the bytes that operators pass to each other are still within reach of the %s MB cache",
                mba_num(100 * reach / bytes).s, mba_num(cache_of(a) / 1e6).s);
}

const mba_figure mba_figure_reuse = {
    "reuse",
    "Reuse",
    "Reuse · producer to consumer",
    "The largest flows between operators, and how much of each an implementation could still find in the last-level "
    "cache.",
    "A read is within reach if its bytes and those touched since the last use of the memory fit in the cache. "
    "This follows from the graph, not from counters.",
    "operands of the graph: a store of our own models, not reduced with export --store",
    false,
    NULL,
    reuse_columns,
    has_reuse,
    reuse_heading,
    reuse_numbers,
    NULL,
    NULL
};

/* ---- Fig. 9 ---- */

static bool has_sector(const mba_kernel_view *k)
{
    return k->counted.sectors_per_load > 0 || k->counted.sectors_per_store > 0;
}

static bool has_sectors(const mba_stores *r, int run) { return mba_any_kernel(r->run[run].a, has_sector); }

static const mba_grid_column fig9_columns[] = { { "kernel", "kernel" },
                                                { "sectors_per_load", "sectors per load" },
                                                { "sectors_per_store", "sectors per store" },
                                                { "load_requests", "load requests" },
                                                { "store_requests", "store requests" },
                                                { "l1_per_l2_byte", "L1 bytes per L2 byte" },
                                                { "l2_per_dram_byte", "L2 bytes per DRAM byte" },
                                                { 0 } };

/* Global load or store requests of a launch. */
static double requests_of(const mba_kernel_view *k, bool store)
{
    return mba_counter_value(k, store ? "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum"
                                      : "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum");
}

/* Bytes requested from a level of memory per byte that it gets from the next level. */
static double reuse_at(double bytes, double next) { return next > 0 ? bytes / next : NAN; }

static mba_status fig9_numbers(mba_grid *g, const mba_stores *r, int run)
{
    const mba_analysis *a = r->run[run].a;
    mba_chosen          c;
    MBA_TRY(mba_choose(&c, a, has_sector, mba_marks_max(r, MOST)));
    for (int i = 0; i < c.n; i++) {
        mba_grid_text(g, mba_kernel_label(a, c.k[i], 60).s);
        mba_grid_number(g, c.k[i]->counted.sectors_per_load);
        mba_grid_number(g, c.k[i]->counted.sectors_per_store);
        mba_grid_number(g, requests_of(c.k[i], false));
        mba_grid_number(g, requests_of(c.k[i], true));
        mba_grid_number(g, reuse_at(c.k[i]->counted.l1_bytes, c.k[i]->counted.l2_bytes));
        mba_grid_number(g, reuse_at(c.k[i]->counted.l2_bytes, c.k[i]->counted.dram_bytes));
    }
    free(c.k);
    return MBA_OK;
}

static void fig9_heading(mba_buf *b, const mba_stores *r, int run)
{
    const mba_analysis *a = r->run[run].a;
    int                 n = 0, wide = 0;
    for (int64_t i = 0; i < a->nkernels; i++)
        if (a->kernel[i].launches > 0 && a->kernel[i].counted.sectors_per_load > 0)
            n++, wide += a->kernel[i].counted.sectors_per_load > 16;
    mba_buf_add(b, "%d of %d kernels touch more than 16 sectors with a load of a warp", wide, n);
}

/* Histogram of the requests of a step by sectors per request; all requests of a kernel are in the bin of its mean. */
enum { SECTOR_BINS = 16 };
static void requests_by_sectors(const mba_analysis *a, bool store, double bin[SECTOR_BINS])
{
    double all = 0;
    for (int i = 0; i < SECTOR_BINS; i++) bin[i] = 0;
    for (int64_t i = 0; i < a->nkernels; i++) {
        const mba_kernel_view *k = &a->kernel[i];
        const double           n = k->per_step * requests_of(k, store);
        const double           sectors = store ? k->counted.sectors_per_store : k->counted.sectors_per_load;
        if (!(n > 0) || !(sectors > 0)) continue;
        const int at = sectors < 32 ? (int)ceil(sectors / 2) - 1 : SECTOR_BINS - 1; // 0 to 2, 2 to 4, ..
        mba_assert(at >= 0 && at < SECTOR_BINS);
        bin[at] += n;
        all += n;
    }
    for (int i = 0; i < SECTOR_BINS && all > 0; i++) bin[i] *= 100 / all;
}

static void draw_requests(mba_canvas *c, double w, const mba_analysis *a)
{
    const double left = 46, bottom = 190;
    double       bin[2][SECTOR_BINS], most = 0, tick[16];
    for (int j = 0; j < 2; j++) requests_by_sectors(a, j == 1, bin[j]);
    for (int j = 0; j < 2; j++)
        for (int i = 0; i < SECTOR_BINS; i++) most = fmax(most, bin[j][i]);
    mba_svg         s = mba_svg_begin(c, w, bottom + 40, "Requests of a step by the sectors they touch");
    const mba_scale x = mba_lin(0, 32, left, w - 14), y = mba_lin(0, mba_axis_end(most), bottom, 20);
    const int       ticks = mba_ticks(y, tick);
    for (int i = 0; i < ticks; i++) {
        mba_svg_line(&s, left, mba_at(y, tick[i]), w - 14, mba_at(y, tick[i]), "g", NULL);
        mba_svg_text(&s, left - 5, mba_at(y, tick[i]) + 4, "t3", 'e', "%s", mba_num(tick[i]).s);
    }
    mba_svg_text(&s, 0, 10, "t2", 's', "%% of the requests of a step");
    mba_svg_axis(&s, x, bottom, bottom,
                 s.narrow ? "sectors per request, mean of its kernel"
                          : "32-byte sectors per request of a warp, mean of its kernel");
    const double half = (mba_at(x, 2) - x.a) / 2 - 1;
    for (int j = 0; j < 2; j++)
        for (int i = 0; i < SECTOR_BINS; i++)
            if (bin[j][i] > 0)
                mba_svg_bar(&s, mba_at(x, 2 * i) + 0.5 + j * half, mba_at(y, bin[j][i]), half,
                            y.a - mba_at(y, bin[j][i]), "", j ? "ssm" : "gemm",
                            mba_tip(c, "%s|%s %% of the requests touch %d to %d sectors", j ? "stores" : "loads",
                                    mba_num(bin[j][i]).s, 2 * i, 2 * i + 2),
                            NULL);
    mba_svg_end(&s);
}

static void draw_sectors(mba_svg *s, const mba_lanes *lanes, const mba_analysis *a, const mba_chosen *chosen)
{
    const mba_scale x = mba_lin(0, 32, lanes->left, s->w - (s->narrow ? 14 : 150));
    mba_svg_axis(s, x, lanes->top - 4, lanes->bottom,
                 s->narrow ? "sectors per request" : "32-byte sectors per request of a warp");
    for (int i = 0; i < chosen->n; i++) {
        const mba_counted *k = &chosen->k[i]->counted;
        const double       y = mba_lanes_at(lanes, i), load = k->sectors_per_load, store = k->sectors_per_store;
        const mba_name     name = mba_kernel_label(a, chosen->k[i], 60);
        mba_lanes_label(s, lanes, i, a, chosen->k[i]);
        if (load > 0)
            mba_svg_mark(s, MBA_CIRCLE, mba_at(x, load), y, 4.6, "gemm", false,
                         mba_tip(s->c,
                                 "%s · "
                                 "loads|%s sectors per request",
                                 name.s, mba_num(load).s),
                         NULL);
        if (store > 0)
            mba_svg_mark(s, MBA_DIAMOND, mba_at(x, store), y, 4.4, "ssm", false,
                         mba_tip(s->c,
                                 "%s · "
                                 "stores|%s sectors per request",
                                 name.s, mba_num(store).s),
                         NULL);
        if (s->narrow) continue;
        mba_svg_text(s, s->w - 76, y + 4, "t3", 'e', "%s", mba_num(reuse_at(k->l1_bytes, k->l2_bytes)).s);
        mba_svg_text(s, s->w - 4, y + 4, "t3", 'e', "%s", mba_num(reuse_at(k->l2_bytes, k->dram_bytes)).s);
    }
    if (s->narrow) return;
    mba_svg_text(s, s->w - 76, lanes->top - 10, "t3", 'e', "L1 : L2");
    mba_svg_text(s, s->w - 4, lanes->top - 10, "t3", 'e', "L2 : DRAM");
}

static mba_status fig9_draw(mba_canvas *c, double w, const mba_stores *r, int run, int view)
{
    mba_assert(run >= 0 && run < r->n && view >= 0 && view < 2);
    const mba_analysis *a = r->run[run].a;
    mba_chosen          chosen;
    if (view) {
        draw_requests(c, w, a);
        return MBA_OK;
    }
    MBA_TRY(mba_choose(&chosen, a, has_sector, mba_marks_max(r, MOST)));
    const mba_lanes lanes = mba_lanes_for(w, chosen.n, w > MBA_NARROW ? 26 : 10, 18);
    mba_svg         s = mba_svg_begin(c, w, lanes.bottom + 40, "Sectors per request");
    draw_sectors(&s, &lanes, a, &chosen);
    mba_svg_end(&s);
    free(chosen.k);
    return MBA_OK;
}

static void fig9_legend(mba_buf *b, const mba_stores *r, int run)
{
    (void)r, (void)run;
    mba_legend_item(b, "gemm", "● loads");
    mba_legend_item(b, "ssm", "◆ stores");
}

static const char *const fig9_views[] = { "by kernel", "by requests", NULL };

const mba_figure mba_figure_fig9 = {
    "fig9",
    "Access",
    "Fig. 9 · access pattern",
    "32-byte sectors that a load or store of a warp touches: 4 for consecutive floats, 16 for consecutive 16-byte "
    "vectors, 32 for scattered ones.",
    "More sectors than the access width needs mean strided or scattered lanes. The columns on the right show "
    "reuse: bytes through a level per byte of the next one (TMA loads bypass the L1 counters). Single "
    "instructions are not measured: each request counts with the mean of its kernel.",
    "access counters, on a GPU: mambascope profile --metric-sets access",
    false,
    fig9_views,
    fig9_columns,
    has_sectors,
    fig9_heading,
    fig9_numbers,
    fig9_draw,
    fig9_legend
};
