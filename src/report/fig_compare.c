// SPDX-License-Identifier: Apache-2.0
/* fig_compare.c -- figures that need more than one store: Fig. 10, Mamba-1 against Mamba-2; Fig. 11, sizes; Fig. 12,
 * variants. fig_peers.c has the comparison with other programs. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/figure.h"
#include "report/lines.h"
#include "report/questions.h"
#include "report/ssm_runs.h"

static bool has_operator(const mba_analysis *a, const char *name)
{
    for (int i = 0; i < a->nops; i++)
        if (!strncmp(a->op[i]->op, name, strlen(name))) return true;
    return false;
}

static bool is_text(const mba_analysis *a)
{
    const char *task = mba_env_find(a, "run.task");
    return task && !strcmp(task, "text");
}

/* ---- Fig. 10 ---- */

typedef struct pair {
    const mba_analysis *scan, *matrix;
} pair;

static bool has_matrices(const mba_analysis *a)
{
    return has_operator(a, "ssd") && !(mba_kind_s(a, MBA_ATTENTION) > 0);
}

/* The first run of each kind that ran on the same machine. */
static pair pair_of(const mba_stores *r)
{
    for (int i = 0; i < r->n; i++)
        for (int j = 0; j < r->n; j++) {
            const mba_analysis *a = r->run[i].a, *b = r->run[j].a;
            if (is_text(a) && is_text(b) && has_operator(a, "selective_scan") && has_matrices(b)
                && !strcmp(mba_run_device(a), mba_run_device(b)))
                return (pair){ a, b };
        }
    return (pair){ NULL, NULL };
}

static const char *label_of(const mba_stores *r, const mba_analysis *a)
{
    for (int i = 0; i < r->n; i++)
        if (r->run[i].a == a) return mba_run_label(r, i);
    return "";
}

static bool has_pair(const mba_stores *r, int run)
{
    const pair p = pair_of(r);
    (void)run;
    return p.scan && p.matrix;
}

enum { ASPECTS = 6 };
static const struct {
    const char *what, *unit;
} aspects[ASPECTS] = { { "step, per unit", "µs" },
                       { "SSM operators, per unit", "µs" },
                       { "SSM share of the kernel time", "%" },
                       { "least FLOPs of SSM, per unit", "MFLOP" },
                       { "SSM, % of floor", "%" },
                       { "DRAM bandwidth of SSM, "
                         "time-weighted",
                         "GB/s" } };

static double aspect(const mba_analysis *a, int i)
{
    mba_assert(a && i >= 0 && i < ASPECTS);
    const mba_ssm_sums t = mba_ssm_of(a);
    switch (i) {
    case 0: return 1e6 * a->plain_s / a->units;
    case 1: return 1e6 * t.s / a->units;
    case 2: return 100 * mba_kind_s(a, MBA_SSM) / a->busy_s;
    case 3: return 1e-6 * t.least_flops / a->units;
    case 4: return mba_percent_of_least(a, MBA_SSM_KERNELS);
    default: return mba_ssm_gb_s(a);
    }
}

static const mba_grid_column fig10_columns[] = {
    { "what", "what" }, { "unit", "unit" }, { "mamba1", "Mamba-1 (scan)" }, { "mamba2", "Mamba-2 (matrices)" }, { 0 }
};

static mba_status fig10_numbers(mba_grid *g, const mba_stores *r, int run)
{
    const pair p = pair_of(r);
    (void)run;
    mba_assert(p.scan && p.matrix);
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
    const pair p = pair_of(r);
    mba_assert(p.scan && p.matrix);
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
    mba_assert(p.scan && p.matrix);
    (void)run, (void)view;
    for (int i = 0; i < ASPECTS; i++) {
        const double    v[2] = { aspect(p.scan, i), aspect(p.matrix, i) }, y = 6 + rh * i, top = y + (narrow ? 18 : 4);
        const mba_scale x = mba_lin(0, fmax(isnan(v[0]) ? 0 : v[0], isnan(v[1]) ? 0 : v[1]), left, w - 96);
        mba_svg_text(&s, narrow ? 0 : left - 10, y + (narrow ? 12 : 22), "halo", narrow ? 's' : 'e', "%s",
                     aspects[i].what);
        for (int j = 0; j < 2; j++) {
            const double width = isnan(v[j]) ? 0 : mba_at(x, v[j]) - x.a;
            mba_svg_bar(&s, x.a, top + 15 * j, fmax(1, width), 13, "", j ? "ssm" : "msg",
                        mba_tip(c, "%s · %s|%s %s", label_of(r, j ? p.matrix : p.scan), aspects[i].what,
                                mba_num(v[j]).s, aspects[i].unit),
                        NULL);
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

const mba_figure mba_figure_fig10 = { "fig10",
                                      "Mamba-1 / 2",
                                      "Fig. 10 · scan against matrices",
                                      "A step of Mamba-1 and one of Mamba-2; each row has its own scale.",
                                      "A fair comparison needs equal sizes; Table I has them. A unit is a token.",
                                      "stores of both at equal sizes: mambascope report mamba1.db mamba2.db",
                                      true,
                                      NULL,
                                      fig10_columns,
                                      has_pair,
                                      fig10_heading,
                                      fig10_numbers,
                                      fig10_draw,
                                      fig10_legend };

/* ---- Fig. 11: sizes; Fig. 12: variants ---- */

/* True if another run has the same model on the same machine at the same size, or (`same` false) at another size. */
static bool has_partner(const mba_stores *r, int i, bool same)
{
    for (int j = 0; j < r->n; j++)
        if (j != i && mba_same_model(&r->run[i], &r->run[j]) && mba_same_size(&r->run[i], &r->run[j]) == same)
            return true;
    return false;
}

static bool any_partner(const mba_stores *r, bool same)
{
    for (int i = 0; i < r->n; i++)
        if (has_partner(r, i, same)) return true;
    return false;
}

static bool has_sizes(const mba_stores *r, int run)
{
    (void)run;
    return any_partner(r, false);
}
static bool has_variants(const mba_stores *r, int run)
{
    (void)run;
    return any_partner(r, true);
}

/* Time of the slowest run of the same model and size divided by that of run i; which: 0 the step, 1 SSM operators. */
static double faster(const mba_stores *r, int i, int which)
{
    mba_assert(i >= 0 && i < r->n);
    double slowest = aspect(r->run[i].a, which);
    for (int j = 0; j < r->n; j++)
        if (mba_same_model(&r->run[i], &r->run[j]) && mba_same_size(&r->run[i], &r->run[j]))
            slowest = fmax(slowest, aspect(r->run[j].a, which));
    return slowest / aspect(r->run[i].a, which);
}

/* The columns that the tables of sizes and of variants have in common. */
#define PARTNER_COLUMNS \
    { "run", "run" }, { "variants", "SSM operators by" }, { "units", "units a step" }, \
        { "step_us_per_unit", "step, µs per unit" }, { "ssm_us_per_unit", "SSM, µs per unit" }, \
        { "ssm_percent_of_floor", "SSM, % of floor" }, { "ssm_gb_s", "SSM, DRAM GB/s" }, \
    { \
        "ssm_mb", "SSM, DRAM MB a step" \
    }

static void add_partner(mba_grid *g, const mba_stores *r, int i)
{
    const mba_analysis *a = r->run[i].a;
    mba_grid_text(g, mba_run_label(r, i));
    mba_grid_text(g, mba_variants_of(a).s);
    mba_grid_number(g, a->units);
    mba_grid_number(g, aspect(a, 0));
    mba_grid_number(g, aspect(a, 1));
    mba_grid_number(g, aspect(a, 4));
    mba_grid_number(g, aspect(a, 5));
    mba_grid_number(g, mba_ssm_of(a).bytes / 1e6);
}

static const mba_grid_column partner_columns[] = { PARTNER_COLUMNS, { 0 } };

static mba_status fig11_numbers(mba_grid *g, const mba_stores *r, int run)
{
    (void)run;
    for (int i = 0; i < r->n; i++) {
        if (has_partner(r, i, false)) add_partner(g, r, i);
    }
    return MBA_OK;
}

static const mba_grid_column variant_columns[] = { PARTNER_COLUMNS,
                                                   { "ssm_l2_mb", "SSM, L2 MB a step" },
                                                   { "ssm_block_us", "SSM, block lifetime, µs" },
                                                   { "step_faster", "step, × the slowest" },
                                                   { "ssm_faster", "SSM, × the slowest" },
                                                   { 0 } };

static mba_status fig12_numbers(mba_grid *g, const mba_stores *r, int run)
{
    (void)run;
    for (int i = 0; i < r->n; i++) {
        const mba_analysis *a = r->run[i].a;
        if (!has_partner(r, i, true)) continue;
        add_partner(g, r, i);
        mba_grid_number(g, mba_ssm_of(a).l2_bytes / 1e6);
        mba_grid_number(g, 1e6 * mba_ssm_of(a).block_s);
        mba_grid_number(g, faster(r, i, 0));
        mba_grid_number(g, faster(r, i, 1));
    }
    return MBA_OK;
}

bool mba_run_is_size(const mba_stores *r, int run)
{
    const mba_name by = mba_variants_of(r->run[run].a);
    for (int i = 0; run >= r->shown && i < r->shown; i++)
        if (mba_same_model(&r->run[i], &r->run[run]) && !mba_same_size(&r->run[i], &r->run[run])
            && !strcmp(by.s, mba_variants_of(r->run[i].a).s))
            return true;
    return false;
}

/* Tokens per sequence, from the text of the store's batch; 0: not known. */
static double length_of(const mba_run *run)
{
    const char *at = strstr(run->a->batch, "length ");
    return at ? strtod(at + 7, NULL) : 0;
}

enum { BY_LENGTH, BY_UNITS };
static double swept(const mba_run *run, int view) { return view == BY_LENGTH ? length_of(run) : run->a->units; }

/* The same model with the same variants. */
static bool of_one_kind(const mba_run *a, const mba_run *b)
{
    return mba_same_model(a, b) && !strcmp(mba_variants_of(a->a).s, mba_variants_of(b->a).s);
}

/* What does not change along a line. By length: the tokens of a step, those of the first run of its kind also for one
 * sequence that is longer than that. */
static double held(const mba_stores *r, int run, int view)
{
    const mba_analysis *a = r->run[run].a;
    int                 first = 0;
    if (view != BY_LENGTH) return 0;
    while (!of_one_kind(&r->run[first], &r->run[run]) && first < run) first++;
    const double tokens = r->run[first].a->units;
    return length_of(&r->run[run]) == a->units && a->units > tokens ? tokens : a->units;
}

/* True if two runs belong to one line: equal in all but the swept parameter. */
static bool of_one_line(const mba_stores *r, int a, int b, int view)
{
    return of_one_kind(&r->run[a], &r->run[b]) && held(r, a, view) == held(r, b, view);
}

static int first_of_line(const mba_stores *r, int run, int view)
{
    int first = 0;
    while (!of_one_line(r, first, run, view) && first < run) first++;
    return first;
}

/* The colour and shape of a model with its variants, the same in both charts. */
static int look_of(const mba_stores *r, int run)
{
    const int first = first_of_line(r, run, BY_UNITS);
    int       look = 0;
    for (int i = 0; i < first; i++) look += first_of_line(r, i, BY_UNITS) == i;
    return look;
}

/* A model with its variants is called as the run of its largest step is. */
static const char *name_of(const mba_stores *r, int run)
{
    int most = run;
    for (int i = 0; i < r->n; i++)
        if (of_one_line(r, i, run, BY_UNITS) && r->run[i].a->units > r->run[most].a->units) most = i;
    return mba_run_label(r, most);
}

static mba_line line_from(const mba_stores *r, int first, int view)
{
    mba_assert(first >= 0 && first < r->n);
    mba_line l = { .name = name_of(r, first), .look = look_of(r, first) };
    for (int i = first; i < r->n && l.n < MBA_LINE_POINTS; i++) {
        const double x = swept(&r->run[i], view);
        int          at = 0;
        if (!(x > 0) || !of_one_line(r, first, i, view)) continue;
        while (at < l.n && l.x[at] < x) at++;
        if (at < l.n && l.x[at] == x) continue;
        for (int k = l.n++; k > at; k--) l.x[k] = l.x[k - 1], l.y[k] = l.y[k - 1];
        l.x[at] = x;
        l.y[at] = aspect(r->run[i].a, 0);
    }
    mba_assert(l.n <= MBA_LINE_POINTS);
    return l;
}

enum { LINES_MAX = 12 };
static int lines_of(const mba_stores *r, int view, mba_line *line)
{
    int n = 0;
    for (int i = 0; i < r->n && n < LINES_MAX; i++) {
        if (!*r->run[i].a->workload || first_of_line(r, i, view) < i) continue;
        line[n] = line_from(r, i, view);
        n += line[n].n > 1;
    }
    return n;
}

/* What the last point of a line costs over its first: "hybrid-130m 3.1 ×". */
static void say_cost(mba_buf *b, const mba_stores *r, const mba_line *l, int view)
{
    int run = 0;
    while (run + 1 < r->n && strcmp(name_of(r, run), l->name)) run++;
    mba_buf_html(b, r->run[run].a->workload);
    const double ratio = l->y[l->n - 1] / l->y[0];
    mba_buf_add(b, " %s ×", mba_two_digits(view == BY_LENGTH ? ratio : 1 / ratio).s);
}

/* All lines between the same two lengths; else of the lines the one whose ends differ by most. */
static void fig11_heading(mba_buf *b, const mba_stores *r, int run)
{
    static const char *const what[] = { "tokens a sequence a token", "units a step a unit" };
    mba_line                 line[LINES_MAX];
    (void)run;
    for (int view = BY_LENGTH; view <= BY_UNITS; view++) {
        const int n = lines_of(r, view, line);
        double    most = 0;
        int       which = 0, alike = 0;
        for (int i = 0; i < n; i++) {
            const mba_line *l = &line[i];
            const double    ratio = view == BY_LENGTH ? l->y[l->n - 1] / l->y[0] : l->y[0] / l->y[l->n - 1];
            if (ratio > most) most = ratio, which = i;
        }
        if (!(most > 0)) continue;
        const mba_line *l = &line[which];
        const int       from = view == BY_LENGTH ? 0 : l->n - 1, to = view == BY_LENGTH ? l->n - 1 : 0;
        mba_buf_add(b, "At %s instead of %s %s costs ", mba_num(l->x[to]).s, mba_num(l->x[from]).s, what[view]);
        say_cost(b, r, l, view);
        for (int i = 0; i < n; i++)
            if (i != which && line[i].x[0] == l->x[0] && line[i].x[line[i].n - 1] == l->x[l->n - 1])
                mba_buf_put(b, ", "), say_cost(b, r, &line[i], view), alike++;
        mba_buf_put(b, " as much");
        if (n > 1 + alike) mba_buf_add(b, ", the most of %d models", n);
        return;
    }
    mba_buf_put(b, "The same models at several sizes");
}

static void size_chart(mba_canvas *c, double w, const mba_stores *r, int view)
{
    static const char *const x[] = { "tokens of a sequence (log)", "tokens, images or graphs of a step (log)" };
    mba_line                 line[LINES_MAX];
    const int                n = lines_of(r, view, line);
    if (n)
        mba_lines_draw(c, w,
                       &(mba_lines){ "Time per unit at other sizes", x[view], "µs per unit", "µs per unit", line, n });
}

static mba_status fig11_draw(mba_canvas *c, double w, const mba_stores *r, int run, int view)
{
    (void)run, (void)view;
    size_chart(c, w, r, BY_LENGTH);
    if (!c->alone || !c->out.n) size_chart(c, w, r, BY_UNITS); // a standalone SVG has one drawing
    return MBA_OK;
}

static void fig11_legend(mba_buf *b, const mba_stores *r, int run)
{
    mba_line  line[LINES_MAX], other[LINES_MAX];
    int       n = lines_of(r, BY_LENGTH, line);
    const int m = lines_of(r, BY_UNITS, other);
    (void)run;
    for (int i = 0; i < m && n < LINES_MAX; i++) {
        bool known = false;
        for (int k = 0; k < n; k++) known |= line[k].look == other[i].look;
        if (!known) line[n++] = other[i];
    }
    for (int i = 0; i < n; i++) mba_lines_legend(b, &line[i], -1);
}

static void fig12_heading(mba_buf *b, const mba_stores *r, int run)
{
    double best = 0;
    int    which = 0;
    (void)run;
    for (int i = 0; i < r->n; i++)
        if (has_partner(r, i, true) && faster(r, i, 0) > best) best = faster(r, i, 0), which = i;
    mba_buf_html(b, mba_run_label(r, which));
    mba_buf_add(b, ": its variants do the step %s\u00a0× as fast", mba_num(best).s);
    if (isfinite(faster(r, which, 1)))
        mba_buf_add(b, " as the slowest ones, its SSM operators %s\u00a0×", mba_num(faster(r, which, 1)).s);
    else mba_buf_put(b, " as the slowest ones");
}

/* The first run of the same model and size. */
static int first_variant(const mba_stores *r, int i)
{
    int k = 0;
    while (!mba_same_model(&r->run[i], &r->run[k]) || !mba_same_size(&r->run[i], &r->run[k])) k++;
    mba_assert(k < r->n); // i has a partner
    return k;
}

/* Draws what the SSM kernels of a variant move, and the lifetime of their blocks, as columns at the right. */
static void draw_moved(mba_svg *s, double y, const mba_analysis *a, bool first)
{
    static const char *const heading[] = { "DRAM GB", "L2 GB", "GB/s", "block µs" };
    const mba_ssm_sums       in = mba_ssm_of(a);
    const double             v[] = { mba_ssm_of(a).bytes / 1e9, in.l2_bytes / 1e9, aspect(a, 5), 1e6 * in.block_s };
    for (int j = 0; j < 4; j++) {
        const double x = s->w - 4 - 66 * (3 - j);
        if (first) mba_svg_text(s, x, 16, "t3", 'e', "%s", heading[j]);
        mba_svg_text(s, x, y + 4, "t3", 'e', "%s", mba_num(v[j]).s);
    }
}

static mba_status fig12_draw(mba_canvas *c, double w, const mba_stores *r, int run, int view)
{
    const bool   narrow = w <= MBA_NARROW;
    const double left = narrow ? 4 : 200, rh = narrow ? 40 : 26, head = narrow ? 10 : 30;
    double       most = 1.5;
    int          rows = 0, row = 0;
    (void)run, (void)view;
    for (int i = 0; i < r->n; i++) {
        if (!has_partner(r, i, true)) continue;
        rows++;
        for (int k = 0; k < 2; k++)
            if (faster(r, i, k) > most) most = faster(r, i, k);
    }
    mba_svg         s = mba_svg_begin(c, w, head + rh * rows + 40, "Variants of the same model and size");
    const mba_scale x = mba_lin(0, mba_axis_end(most), left, w - (narrow ? 14 : 280));
    mba_svg_axis(&s, x, head - 4, head + rh * rows,
                 narrow ? "× as fast as the slowest" : "× as fast as the slowest of the same model and size");
    for (int n = 0; n < r->n * r->n; n++) { // groups the variants of a model
        const int i = n % r->n, first = n / r->n;
        if (!has_partner(r, i, true) || first_variant(r, i) != first) continue;
        const double y = head + rh * row++ + (narrow ? 28 : 13);
        const double v[2] = { faster(r, i, 0), faster(r, i, 1) };
        mba_svg_text(&s, narrow ? 0 : left - 8, narrow ? y - 13 : y + 4, "halo", narrow ? 's' : 'e', "%s",
                     mba_short(mba_run_label(r, i), narrow ? 46 : 26).s);
        if (!narrow) draw_moved(&s, y, r->run[i].a, row == 1);
        for (int k = 0; k < 2; k++) {
            if (!isfinite(v[k])) continue;
            mba_svg_mark(&s, k ? MBA_DIAMOND : MBA_CIRCLE, mba_at(x, v[k]), k ? y + 4 : y - 4, 5, k ? "ssm" : "gemm",
                         false,
                         mba_tip(c, "%s · %s|%s × the slowest|%s", mba_run_label(r, i), k ? "SSM operators" : "step",
                                 mba_num(v[k]).s, mba_variants_of(r->run[i].a).s),
                         NULL);
        }
    }
    mba_assert(row == rows);
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
    "fig11",
    "Sensitivity",
    "Fig. 11 · sensitivity to size",
    "Measured time of a step per token, image or graph of the same model at other lengths and batches.",
    "Flat line: the cost per unit does not depend on the size. Where the time per unit stops falling as steps "
    "grow, the machine is fully used. More sizes follow, simulated.",
    "stores of one model at several sizes, part sizes of mambascope suite --full --device cuda; or mambascope profile "
    "--length "
    "512 --out a.db; --length 4096 --out b.db; mambascope report a.db b.db",
    true,
    NULL,
    partner_columns,
    has_sizes,
    fig11_heading,
    fig11_numbers,
    fig11_draw,
    fig11_legend
};

const mba_figure mba_figure_fig12 = {
    "fig12",
    "Variants",
    "Fig. 12 · all variants",
    "The same model and size with other {variants|variant} of its operators; on the right, the bytes that the {SSM "
    "kernels} "
    "of a step move, and their block lifetimes (mean, weighted by time).",
    "Variants differ in several ways: fused kernels launch less, move fewer bytes, and divide the work otherwise. "
    "{#persistent} has those that differ in the lifetime of blocks alone.",
    "stores of one model and size with other variants: mambascope profile --op ssd=VARIANT --out b.db; mambascope "
    "report a.db b.db",
    true,
    NULL,
    variant_columns,
    has_variants,
    fig12_heading,
    fig12_numbers,
    fig12_draw,
    fig12_legend
};

void mba_sizes_sure(mba_buf *b, const mba_stores *r)
{
    int    models = 0, runs = 0;
    double longest = 0;
    for (int i = 0; i < r->n; i++) {
        if (!has_partner(r, i, false)) continue;
        runs++;
        models += first_of_line(r, i, BY_UNITS) == i;
        longest = fmax(longest, length_of(&r->run[i]));
    }
    mba_buf_add(b, "measured: %d runs, %d model%s with their kernels", runs, models, models == 1 ? "" : "s");
    if (longest > 0) mba_buf_add(b, ", sequences of up to %s tokens", mba_num(longest).s);
}
