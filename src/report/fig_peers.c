// SPDX-License-Identifier: Apache-2.0
/* fig_peers.c -- our runs beside those of peers: one pair by operator class, and all stores in one table. */
#include <math.h>
#include <string.h>

#include "report/figure.h"

/* ---- peers by class ---- */

/* One of our runs and a peer's: the same workload and units on the same machine. */
typedef struct match {
    int ours, peer;
} match;

static bool is_match(const mba_analysis *ours, const mba_analysis *peer)
{
    return !mba_run_is_foreign(ours) && mba_run_is_foreign(peer) && *ours->workload
           && !strcmp(ours->workload, peer->workload) && ours->units == peer->units
           && !strcmp(mba_run_device(ours), mba_run_device(peer));
}

/* The pair that contains this run; -1: none. */
static match match_of(const mba_stores *r, int run)
{
    for (int i = 0; i < r->n; i++) {
        if (is_match(r->run[run].a, r->run[i].a)) return (match){ run, i };
        if (is_match(r->run[i].a, r->run[run].a)) return (match){ i, run };
    }
    return (match){ -1, -1 };
}

static bool has_peer(const mba_stores *r, int run) { return run >= 0 && match_of(r, run).peer >= 0; }

/* Matrix products of our head are in the class of the loss, those of a peer in GEMM: here the head is with GEMM on both
 * sides. Its floor and launches: */
static double of_head(const mba_analysis *a, int kind, bool floor)
{
    double sum = 0;
    for (int64_t i = 0; i < a->nkernels; i++) {
        const mba_kernel_view *k = &a->kernel[i];
        if (!k->product || k->kind != MBA_EMBED_LOSS || (floor && isnan(k->least_s))) continue;
        sum += k->per_step * (floor ? k->least_s : 1);
    }
    return kind == MBA_GEMM ? sum : kind == MBA_EMBED_LOSS ? -sum : 0;
}

static double floor_ms(const mba_analysis *a, int kind)
{
    double s = of_head(a, kind, true);
    for (int p = 0; p < MBA_PHASES; p++)
        if (a->floor_s[kind][p] > 0) s += a->floor_s[kind][p];
    return s > 0 ? 1e3 * s : NAN;
}

static const mba_grid_column peer_columns[] = { { "class", "operator class" }, { "floor_ms", "our floor, ms" },
                                                { "ours_ms", "ours, ms" },     { "peer_ms", "peer, ms" },
                                                { "faster", "peer / ours" },   { "ours_launches", "our launches" },
                                                { "peer_launches", "peer's" }, { 0 } };

static double launches_of(const mba_analysis *a, int kind)
{
    double n = of_head(a, kind, false);
    for (int p = 0; p < MBA_PHASES; p++) n += a->launches[kind][p];
    return n;
}

static mba_status peer_numbers(mba_grid *g, const mba_stores *r, int run)
{
    const match m = match_of(r, run);
    mba_assert(m.ours >= 0 && m.peer >= 0);
    const mba_analysis *a = r->run[m.ours].a, *b = r->run[m.peer].a;
    for (int k = 0; k < MBA_BREAKDOWN_KINDS; k++) {
        const double ours = mba_class_s(a, k), peer = mba_class_s(b, k);
        if (!(ours > 0) && !(peer > 0)) continue;
        mba_grid_text(g, mba_kind_long(k));
        mba_grid_number(g, floor_ms(a, k));
        mba_grid_number(g, ours > 0 ? 1e3 * ours : NAN);
        mba_grid_number(g, peer > 0 ? 1e3 * peer : NAN);
        mba_grid_number(g, ours > 0 && peer > 0 ? peer / ours : NAN);
        mba_grid_number(g, launches_of(a, k));
        mba_grid_number(g, launches_of(b, k));
    }
    return MBA_OK;
}

static void peer_heading(mba_buf *b, const mba_stores *r, int run)
{
    const match  m = match_of(r, run);
    const double ours = r->run[m.ours].a->busy_s, peer = r->run[m.peer].a->busy_s;
    const double ssm = mba_kind_s(r->run[m.peer].a, MBA_SSM) / mba_kind_s(r->run[m.ours].a, MBA_SSM);
    mba_buf_html(b, r->run[m.ours].a->workload);
    mba_buf_add(b, ": the kernels of a step take %s ms in ours, %s ms in the peer's program, %s\u00a0×",
                mba_num(1e3 * ours).s, mba_num(1e3 * peer).s, mba_num(peer / ours).s);
    if (isfinite(ssm) && ssm > 0) mba_buf_add(b, "; SSM operators %s\u00a0×", mba_num(ssm).s);
}

static mba_status peer_draw(mba_canvas *c, double w, const mba_stores *r, int run, int view)
{
    const match m = match_of(r, run);
    mba_assert(m.ours >= 0 && m.peer >= 0);
    const mba_analysis *a = r->run[m.ours].a, *b = r->run[m.peer].a;
    int                 kind[MBA_BREAKDOWN_KINDS], n = 0;
    mba_range           seen = { NAN, NAN };
    (void)view;
    for (int k = 0; k < MBA_BREAKDOWN_KINDS; k++) {
        if (!(mba_class_s(a, k) > 2e-5 * a->busy_s) && !(mba_class_s(b, k) > 2e-5 * b->busy_s)) continue;
        kind[n++] = k;
        mba_range_extend(&seen, 1e3 * mba_class_s(a, k)), mba_range_extend(&seen, 1e3 * mba_class_s(b, k));
    }
    seen = mba_decades(seen, 0.1, 100); // of times: a floor may be a billionth of them
    const mba_lanes rows = mba_lanes_for(w, n, 10, 24);
    const mba_scale x = mba_log(seen.lo, seen.hi, rows.left, w - 14);
    mba_svg         s = mba_svg_begin(c, w, rows.bottom + 40, "Ours and a peer's program by operator class");
    mba_svg_axis(&s, x, rows.top - 4, rows.bottom, "ms per step (log)");
    for (int i = 0; i < n; i++) {
        const double y = mba_lanes_at(&rows, i), ours = 1e3 * mba_class_s(a, kind[i]),
                     peer = 1e3 * mba_class_s(b, kind[i]), least = floor_ms(a, kind[i]);
        mba_svg_text(&s, rows.left - 8, y + 4, "", 'e', "%s", mba_kind_long(kind[i]));
        if (ours > 0 && peer > 0) mba_svg_line(&s, mba_at(x, ours), y, mba_at(x, peer), y, "stem", NULL);
        if (least >= x.lo)
            mba_svg_bar(&s, mba_at(x, least) - 1.5, y - 8, 3, 16, "", "measured",
                        mba_tip(c, "%s · floor|%s ms", mba_kind_long(kind[i]), mba_num(least).s), NULL);
        if (peer > 0)
            mba_svg_mark(&s, MBA_CIRCLE, mba_at(x, peer), y, 5, "msg", false,
                         mba_tip(c, "%s · %s, peer|%s ms", mba_kind_long(kind[i]), mba_run_label(r, m.peer),
                                 mba_num(peer).s),
                         NULL);
        if (ours > 0)
            mba_svg_mark(&s, MBA_DIAMOND, mba_at(x, ours), y, 5, "ssm", false,
                         mba_tip(c, "%s · %s, ours|%s ms", mba_kind_long(kind[i]), mba_run_label(r, m.ours),
                                 mba_num(ours).s),
                         NULL);
    }
    mba_svg_end(&s);
    return MBA_OK;
}

static void peer_legend(mba_buf *b, const mba_stores *r, int run)
{
    (void)r, (void)run;
    mba_legend_item(b, "measured", "▮ our floor");
    mba_legend_item(b, "ssm", "◆ ours");
    mba_legend_item(b, "msg", "● a peer's program");
}

const mba_figure mba_figure_peers = {
    "peers",
    "Peers and ours",
    "Peers and ours · by operator class",
    "Kernel time of a step of the same workload and size by class: ours, the {peer}'s, and our {floor|operator floor}.",
    "The same collector measured both. Rules assign the peer's kernels to classes by name; work that it fuses "
    "differently appears in another class; GEMM has the head's products on both sides. Its sorts and "
    "gathers (for the embedding) count as message passing.",
    "a store of another program at the same size: mambascope profile --workload mamba2-headline --units 16384 "
    "--range step --out peer.db -- CMD",
    false,
    NULL,
    peer_columns,
    has_peer,
    peer_heading,
    peer_numbers,
    peer_draw,
    peer_legend
};

/* ---- stores side by side ---- */

static bool has_several(const mba_stores *r, int run)
{
    (void)run;
    return r->n > 1;
}

static const mba_grid_column store_columns[] = { { "run", "run" },
                                                 { "whose", "whose" },
                                                 { "device", "device" },
                                                 { "step_ms", "step, ms" },
                                                 { "spread_ms", "spread, ms" },
                                                 { "units_per_s", "units per s" },
                                                 { "busy_ms", "kernels, ms" },
                                                 { "idle_ms", "idle, ms" },
                                                 { "launches", "launches" },
                                                 { "percent_of_floor", "% of floor" },
                                                 { "gemm_ms", "GEMM with head, ms" },
                                                 { "ssm_ms", "SSM, ms" },
                                                 { "step_us_per_unit", "µs per unit" },
                                                 { 0 } };

static mba_status store_numbers(mba_grid *g, const mba_stores *r, int run)
{
    (void)run;
    for (int i = 0; i < r->n; i++) {
        const mba_analysis *a = r->run[i].a;
        mba_grid_text(g, mba_run_label(r, i));
        mba_grid_text(g, mba_run_is_foreign(a) ? "peer" : "ours");
        mba_grid_text(g, mba_run_device(a));
        mba_grid_number(g, 1e3 * a->plain_s);
        mba_grid_number(g, 1e3 * a->plain_spread_s);
        mba_grid_number(g, a->units / a->plain_s);
        const double traced = a->busy_s > 0 ? 1 : NAN; // a run of step times alone has no kernels: no zeros
        mba_grid_number(g, traced * 1e3 * a->busy_s);
        mba_grid_number(g, traced * 1e3 * a->idle_s);
        mba_grid_number(g, traced * mba_launches_of(a));
        mba_grid_number(g, mba_percent_of_least(a, MBA_ALL_KERNELS));
        mba_grid_number(g, traced * 1e3 * mba_products_s(a));
        mba_grid_number(g, traced * 1e3 * mba_kind_s(a, MBA_SSM));
        mba_grid_number(g, 1e6 * a->plain_s / a->units);
    }
    return MBA_OK;
}

/* The plain time of a step; external programs may have none, then that of the timeline. */
static double step_s(const mba_analysis *a)
{
    return isnan(a->plain_s) ? a->busy_s + (isnan(a->idle_s) ? 0 : a->idle_s) : a->plain_s;
}

static void store_heading(mba_buf *b, const mba_stores *r, int run)
{
    int peers = 0;
    (void)run;
    for (int i = 0; i < r->n; i++) peers += mba_run_is_foreign(r->run[i].a);
    if (peers) mba_buf_add(b, "%d of our stores and %d of peers", r->n - peers, peers);
    else mba_buf_add(b, "%d stores side by side", r->n);
}

static mba_status store_draw(mba_canvas *c, double w, const mba_stores *r, int run, int view)
{
    const bool   narrow = w <= MBA_NARROW;
    const double left = narrow ? 0 : 236, rh = narrow ? 38 : 24;
    mba_range    seen = { NAN, NAN };
    (void)run, (void)view;
    for (int i = 0; i < r->n; i++) mba_range_extend(&seen, 1e3 * step_s(r->run[i].a));
    seen = mba_decades(seen, 1, 1000);
    mba_svg         s = mba_svg_begin(c, w, 16 + rh * r->n + 40, "Step of every store");
    const mba_scale x = mba_log(seen.lo, seen.hi, left + 6, w - 70);
    mba_svg_axis(&s, x, 10, 14 + rh * r->n, "ms per step (log)");
    for (int i = 0; i < r->n; i++) {
        const mba_analysis *a = r->run[i].a;
        const double        y = 14 + rh * i + (narrow ? 26 : 12), ms = 1e3 * step_s(a);
        const bool          peer = mba_run_is_foreign(a);
        mba_svg_text(&s, narrow ? 0 : left - 8, narrow ? y - 12 : y + 4, "b halo", narrow ? 's' : 'e', "%s",
                     mba_short(mba_run_label(r, i), narrow ? 38 : 26).s);
        if (!(ms > 0)) continue;
        mba_svg_mark(&s, peer ? MBA_CIRCLE : MBA_DIAMOND, mba_at(x, ms), y, 5, peer ? "msg" : "ssm", false,
                     mba_tip(c, "%s (%s)|%s ms a step, %s units per s|%s", mba_run_label(r, i), peer ? "peer" : "ours",
                             mba_num(ms).s, mba_num(a->units / a->plain_s).s, mba_run_device(a)),
                     NULL);
        mba_svg_text(&s, mba_at(x, ms) + 10, y + 4, "t2 halo", 's', "%s ms", mba_num(ms).s);
    }
    mba_svg_end(&s);
    return MBA_OK;
}

static void store_legend(mba_buf *b, const mba_stores *r, int run)
{
    (void)r, (void)run;
    mba_legend_item(b, "ssm", "◆ ours");
    mba_legend_item(b, "msg", "● a peer's program");
}

const mba_figure mba_figure_stores = { "stores",
                                       "Side by side",
                                       "Peers and ours · stores side by side",
                                       "Step time of every store, and where it goes.",
                                       "{Stores|store} of {external programs|external program} come from `mambascope "
                                       "profile -- CMD`; --units sets their units per step. "
                                       "Compare only steps of equal shape.",
                                       "more than one store: mambascope report ours.db peer.db",
                                       true,
                                       NULL,
                                       store_columns,
                                       has_several,
                                       store_heading,
                                       store_numbers,
                                       store_draw,
                                       store_legend };
