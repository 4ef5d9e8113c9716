/* fig_compare.c -- what needs more than one store: Mamba-1 against Mamba-2, sizes, variants, ours against peers. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/figure.h"

/* SSM kernels of a step, per unit of work. */
typedef struct ssm_sums { double s, least_flops, bytes; } ssm_sums;

static ssm_sums ssm_of(const mba_analysis *a)
{
    ssm_sums t = { 0 };
    for (int64_t i = 0; i < a->nkernels; i++) {
        const mba_kernel_view *k = &a->kernel[i];
        if (!mba_in_group(k, MBA_SSM_KERNELS)) continue;
        t.s += k->step_s;
        t.least_flops += k->per_step * (k->least.tensor_flops + k->least.vector_flops);
        t.bytes += k->per_step * k->counted.dram_bytes;
    }
    return t;
}

static bool has_operator(const mba_analysis *a, const char *name)
{
    for (int i = 0; i < a->nops; i++) if (!strncmp(a->op[i]->op, name, strlen(name))) return true;
    return false;
}

static bool is_text(const mba_analysis *a)
{
    const char *task = mba_sheet_find(a, "run.task");
    return task && !strcmp(task, "text");
}

/* ---- Fig. 10 ---- */

typedef struct pair { const mba_analysis *scan, *matrix; } pair;

static pair pair_of(const mba_stores *r)
{
    pair p = { NULL, NULL };
    for (int i = 0; i < r->n; i++) {
        const mba_analysis *a = r->run[i].a;
        if (!is_text(a)) continue;
        if (!p.scan && has_operator(a, "selective_scan")) p.scan = a;
        if (!p.matrix && has_operator(a, "ssd") && !(mba_kind_s(a, MBA_ATTENTION) > 0)) p.matrix = a;
    }
    return p;
}

static bool has_pair(const mba_stores *r, int run)
{
    const pair p = pair_of(r);
    (void)run;
    return p.scan && p.matrix;
}

enum { ASPECTS = 6 };
static const struct { const char *what, *unit; } aspects[ASPECTS] = { { "step, per unit", "µs" },
        { "SSM operators, per unit", "µs" }, { "SSM share of the kernel time", "%" },
    { "least FLOPs of SSM, per unit", "MFLOP" }, { "SSM at this part of its floor", "%" }, { "DRAM bandwidth of SSM, "
            "time-weighted", "GB/s" } };

static double aspect(const mba_analysis *a, int i)
{
    const ssm_sums t = ssm_of(a);
    switch (i) {
    case 0:  return 1e6 * a->plain_s / a->units;
    case 1:  return 1e6 * t.s / a->units;
    case 2:  return 100 * mba_kind_s(a, MBA_SSM) / a->busy_s;
    case 3:  return 1e-6 * t.least_flops / a->units;
    case 4:  return mba_bounds_of(a, MBA_SSM_KERNELS).percent_of_floor;
    default: return mba_bandwidth_of(a, MBA_SSM_KERNELS).weighted / 1e9;
    }
}

static const mba_grid_column fig10_columns[] = { { "what", "what" }, { "unit", "unit" }, { "mamba1", "Mamba-1 (scan)" },
                                                 { "mamba2", "Mamba-2 (matrices)" }, { 0 } };

static mba_status fig10_numbers(mba_grid *g, const mba_stores *r, int run)
{
    const pair p = pair_of(r);
    (void)run;
    for (int i = 0; i < ASPECTS; i++) {
        mba_grid_text(g, aspects[i].what);
        mba_grid_text(g, aspects[i].unit);
        mba_grid_number(g, aspect(p.scan, i));
        mba_grid_number(g, aspect(p.matrix, i));
    }
    return MBA_OK;
}

static void fig10_heading(mba_buf *b, const mba_stores *r, int run)
{
    const pair   p = pair_of(r);
    const double scan = aspect(p.scan, 1), matrix = aspect(p.matrix, 1);
    (void)run;
    mba_buf_add(b, "The scan takes %s µs a unit, the matrices %s µs: %s × the time with %s × the least FLOPs",
                mba_num(scan).s, mba_num(matrix).s, mba_num(matrix / scan).s,
                mba_num(aspect(p.matrix, 3) / aspect(p.scan, 3)).s);
}

static mba_status fig10_draw(mba_canvas *c, double w, const mba_stores *r, int run, int view)
{
    const pair   p = pair_of(r);
    const bool   narrow = w <= MBA_NARROW;
    const double left = narrow ? 0 : 262, rh = narrow ? 58 : 42;
    mba_svg      s = mba_svg_begin(c, w, 8 + rh * ASPECTS, "Mamba-1 against Mamba-2");
    (void)run, (void)view;
    for (int i = 0; i < ASPECTS; i++) {
        const double    v[2] = { aspect(p.scan, i), aspect(p.matrix, i) }, y = 6 + rh * i, top = y + (narrow ? 18 : 4);
        const mba_scale x = mba_lin(0, fmax(isnan(v[0]) ? 0 : v[0], isnan(v[1]) ? 0 : v[1]), left, w - 96);
        mba_svg_text(&s, narrow ? 0 : left - 10, y + (narrow ? 12 : 22), "halo", narrow ? 's' : 'e', "%s",
                     aspects[i].what);
        for (int j = 0; j < 2; j++) {
            const double width = isnan(v[j]) ? 0 : mba_at(x, v[j]) - x.a;
            mba_svg_bar(&s, x.a, top + 15 * j, fmax(1, width), 13, "", j ? "ssm" : "msg",
                        mba_tip(c, "%s · %s|%s %s", j ? p.matrix->workload : p.scan->workload, aspects[i].what,
                                mba_num(v[j]).s, aspects[i].unit), NULL);
            mba_svg_text(&s, x.a + width + 5, top + 15 * j + 11, "", 's', "%s %s", mba_num(v[j]).s, aspects[i].unit);
        }
    }
    mba_svg_end(&s);
    return MBA_OK;
}

static void fig10_legend(mba_buf *b, const mba_stores *r, int run)
{
    (void)r, (void)run;
    mba_legend_item(b, "msg", "Mamba-1, selective scan");
    mba_legend_item(b, "ssm", "Mamba-2, chunked matrices");
}

const mba_figure mba_figure_fig10 = {
    "fig10", "Mamba-1 / 2", "Fig. 10 · scan against matrices", "A step of Mamba-1 and one of Mamba-2; each row has its "
                                                               "own scale.",
    "A fair comparison needs equal sizes: Table I says what ran. A unit is a token.",
    "stores of both at equal sizes: mambascope report mamba1.db mamba2.db", true, NULL, fig10_columns, has_pair,
        fig10_heading, fig10_numbers, fig10_draw, fig10_legend };

/* ---- Fig. 11: sizes; Fig. 12: variants ---- */

/* Two layers of a preset are not the preset: they learn other numbers of values. */
static bool same_model(const mba_run *a, const mba_run *b)
{
    return *a->a->workload && !strcmp(a->a->workload, b->a->workload) && !strcmp(a->a->device, b->a->device)
        && !strcmp(a->parameters, b->parameters);
}

/* Whether run i has a partner: the same model on the same machine with other (or equal) units a step. */
static bool has_partner(const mba_stores *r, int i, bool equal_units)
{
    for (int j = 0; j < r->n; j++)
        if (j != i && same_model(&r->run[i], &r->run[j])
            && (r->run[i].a->units == r->run[j].a->units) == equal_units) return true;
    return false;
}

static bool any_partner(const mba_stores *r, bool equal_units)
{
    for (int i = 0; i < r->n; i++) if (has_partner(r, i, equal_units)) return true;
    return false;
}

static bool has_sizes(const mba_stores *r, int run)    { (void)run; return any_partner(r, false); }
static bool has_variants(const mba_stores *r, int run) { (void)run; return any_partner(r, true); }

/* How the SSM operators of a run are computed: "ssd fused, ssd_bwd fused". */
static mba_name variants_of(const mba_analysis *a)
{
    mba_name    w = { "" };
    const char *seen[8];
    int         n = 0;
    for (int64_t i = 0; i < a->nnodes && n < 8; i++) {
        const mba_row_node *k = &a->node[i];
        bool                known = !k->op || !k->variant || !k->kind || strcmp(k->kind, "ssm");
        for (int j = 0; j < n && !known; j++) known = !strcmp(seen[j], k->op);
        if (known) continue;
        const size_t used = strlen(w.s);
        snprintf(w.s + used, sizeof w.s - used, "%s%s %s", n ? ", " : "", k->op, k->variant);
        seen[n++] = k->op;
    }
    return w;
}

/* Time of the slowest of the same model and size over that of run i: of the step, of its SSM operators. */
static double faster(const mba_stores *r, int i, int which)
{
    double slowest = aspect(r->run[i].a, which);
    for (int j = 0; j < r->n; j++)
        if (same_model(&r->run[i], &r->run[j]) && r->run[i].a->units == r->run[j].a->units)
            slowest = fmax(slowest, aspect(r->run[j].a, which));
    return slowest / aspect(r->run[i].a, which);
}

static const mba_grid_column partner_columns[] = { { "run", "run" }, { "variants", "SSM operators by" },
                                                   { "units", "units a step" },
                                                   { "step_us_per_unit", "step, µs per unit" },
                                                       { "ssm_us_per_unit", "SSM, µs per unit" },
    { "ssm_percent_of_floor", "SSM, % of floor" }, { "ssm_gb_s", "SSM, DRAM GB/s" },
        { "ssm_mb", "SSM, DRAM MB a step" }, { "step_faster", "step, × the slowest" },
        { "ssm_faster", "SSM, × the slowest" }, { 0 } };

static mba_status partner_numbers(mba_grid *g, const mba_stores *r, bool equal_units)
{
    for (int i = 0; i < r->n; i++) {
        const mba_analysis *a = r->run[i].a;
        if (!has_partner(r, i, equal_units)) continue;
        mba_grid_text(g, mba_run_label(r, i));
        mba_grid_text(g, variants_of(a).s);
        mba_grid_number(g, a->units);
        mba_grid_number(g, aspect(a, 0));
        mba_grid_number(g, aspect(a, 1));
        mba_grid_number(g, aspect(a, 4));
        mba_grid_number(g, aspect(a, 5));
        mba_grid_number(g, ssm_of(a).bytes / 1e6);
        mba_grid_number(g, equal_units ? faster(r, i, 0) : NAN);
        mba_grid_number(g, equal_units ? faster(r, i, 1) : NAN);
    }
    return MBA_OK;
}

static mba_status fig11_numbers(mba_grid *g, const mba_stores *r, int run)
{
    (void)run;
    return partner_numbers(g, r, false);
}

static mba_status fig12_numbers(mba_grid *g, const mba_stores *r, int run)
{
    (void)run;
    return partner_numbers(g, r, true);
}

static void fig11_heading(mba_buf *b, const mba_stores *r, int run)
{
    (void)r, (void)run;
    mba_buf_put(b, "The same models at several sizes");
}

static void fig12_heading(mba_buf *b, const mba_stores *r, int run)
{
    double best = 0;
    int    which = 0;
    (void)run;
    for (int i = 0; i < r->n; i++)
        if (has_partner(r, i, true) && faster(r, i, 0) > best) best = faster(r, i, 0), which = i;
    mba_buf_add(b, "The fastest way takes the step %s × as fast as the slowest: ", mba_num(best).s);
    mba_buf_html(b, mba_run_label(r, which));
}

static mba_status fig12_draw(mba_canvas *c, double w, const mba_stores *r, int run, int view)
{
    const bool   narrow = w <= MBA_NARROW;
    const double left = narrow ? 4 : 300, rh = narrow ? 40 : 26;
    double       most = 1.5;
    int          rows = 0, row = 0;
    (void)run, (void)view;
    for (int i = 0; i < r->n; i++) {
        if (!has_partner(r, i, true)) continue;
        rows++;
        for (int k = 0; k < 2; k++) if (faster(r, i, k) > most) most = faster(r, i, k);
    }
    mba_svg         s = mba_svg_begin(c, w, 10 + rh * rows + 40, "Variants of the same model and size");
    const mba_scale x = mba_lin(0, mba_round_up(most), left, w - 14);
    mba_svg_axis(&s, x, 6, 10 + rh * rows, "× as fast as the slowest of the same model and size");
    for (int i = 0; i < r->n; i++) {
        if (!has_partner(r, i, true)) continue;
        const double y = 10 + rh * row++ + (narrow ? 28 : 13);
        const double v[2] = { faster(r, i, 0), faster(r, i, 1) };
        mba_svg_text(&s, narrow ? 0 : left - 8, narrow ? y - 13 : y + 4, "halo", narrow ? 's' : 'e', "%s",
                     mba_short(mba_run_label(r, i), narrow ? 46 : 40).s);
        for (int k = 0; k < 2; k++) {
            if (!isfinite(v[k])) continue;
            mba_svg_mark(&s, k ? MBA_DIAMOND : MBA_CIRCLE, mba_at(x, v[k]), y, 5, k ? "ssm" : "gemm", false,
                         mba_tip(c, "%s · %s|%s × the slowest|%s", mba_run_label(r, i), k ? "SSM operators" : "step",
                                 mba_num(v[k]).s, variants_of(r->run[i].a).s), NULL);
        }
    }
    mba_svg_end(&s);
    return MBA_OK;
}

static void fig12_legend(mba_buf *b, const mba_stores *r, int run)
{
    (void)r, (void)run;
    mba_legend_item(b, "gemm", "● the step");
    mba_legend_item(b, "ssm", "◆ its SSM operators");
}

const mba_figure mba_figure_fig11 = {
    "fig11", "Sensitivity", "Fig. 11 · sensitivity to size", "Time per unit of the same model at other batches and "
                                                             "lengths.", "Where time per unit stops falling, the "
                                                                         "machine is full.",
    "stores of one model at several sizes: mambascope profile --length 512 --out a.db; --length 4096 --out b.db; "
    "mambascope report a.db b.db", true, NULL, partner_columns, has_sizes,
    fig11_heading, fig11_numbers, NULL, NULL };

const mba_figure mba_figure_fig12 = {
    "fig12", "Variants", "Fig. 12 · fused and persistent variants", "The same model and size with other variants of "
                                                                    "its operators.", "The intervention behind claim "
                                                                            "F5: do longer lives of blocks raise the "
                                                                            "bandwidth?",
    "stores of one model and size with other variants: mambascope profile --op ssd=VARIANT --out b.db; mambascope "
    "report a.db b.db", true, NULL, partner_columns, has_variants,
    fig12_heading, fig12_numbers, fig12_draw, fig12_legend };

/* ---- stores side by side ---- */

static bool has_several(const mba_stores *r, int run) { (void)run; return r->n > 1; }

static const mba_grid_column store_columns[] = { { "run", "run" }, { "whose", "whose" }, { "device", "device" },
                                                 { "step_ms", "step, ms" }, { "spread_ms", "spread, ms" },
    { "units_per_s", "units per s" }, { "busy_ms", "kernels, ms" }, { "idle_ms", "idle, ms" },
        { "launches", "launches" }, { "percent_of_floor", "% of floor" },
    { "gemm_ms", "GEMM, ms" }, { "ssm_ms", "SSM, ms" }, { "step_us_per_unit", "µs per unit" }, { 0 } };

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
        mba_grid_number(g, 1e3 * a->busy_s);
        mba_grid_number(g, 1e3 * a->idle_s);
        mba_grid_number(g, mba_launches_of(a));
        mba_grid_number(g, mba_bounds_of(a, MBA_ALL_KERNELS).percent_of_floor);
        mba_grid_number(g, 1e3 * mba_kind_s(a, MBA_GEMM));
        mba_grid_number(g, 1e3 * mba_kind_s(a, MBA_SSM));
        mba_grid_number(g, aspect(a, 0));
    }
    return MBA_OK;
}

/* Steps of foreign programs may have no plain time: then what the timeline says. */
static double step_s(const mba_analysis *a)
{
    return isnan(a->plain_s) ? a->busy_s + (isnan(a->idle_s) ? 0 : a->idle_s) : a->plain_s;
}

static void store_heading(mba_buf *b, const mba_stores *r, int run)
{
    int peers = 0;
    (void)run;
    for (int i = 0; i < r->n; i++) peers += mba_run_is_foreign(r->run[i].a);
    if (peers) mba_buf_add(b, "%d of ours beside %d of peers", r->n - peers, peers);
    else       mba_buf_add(b, "%d stores side by side", r->n);
}

static mba_status store_draw(mba_canvas *c, double w, const mba_stores *r, int run, int view)
{
    const bool      narrow = w <= MBA_NARROW;
    const double    left = narrow ? 0 : 236, rh = narrow ? 38 : 24;
    mba_range       seen = { NAN, NAN };
    (void)run, (void)view;
    for (int i = 0; i < r->n; i++) mba_see(&seen, 1e3 * step_s(r->run[i].a));
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
                             mba_num(ms).s, mba_num(a->units / a->plain_s).s, mba_run_device(a)), NULL);
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

const mba_figure mba_figure_stores = {
    "stores", "Side by side", "Peers and ours · stores side by side", "Time of a step of every store given, and where "
                                                                      "it goes.",
    "Stores of programs that are not ours come from `mambascope profile -- CMD`. Their units are not known; compare "
    "steps of equal shape only.",
    "more than one store: mambascope report ours.db peer.db", true, NULL, store_columns, has_several, store_heading,
        store_numbers, store_draw, store_legend };
