// SPDX-License-Identifier: Apache-2.0
/* fig_blocks.c -- Fig. 5: lifetimes of thread blocks. Fig. 8: occupancy, what limits it, and why warps stall. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/figure.h"
#include "scope/blocks.h"
#include "study/limiter.h"

enum { MOST = 24, REASONS = 24 };

/* ---- Fig. 5 ---- */

static bool has_life(const mba_kernel_view *k) { return k->counted.block_s > 0; }

static bool has_lives(const mba_stores *r, int run)
{
    return mba_any_kernel(r->run[run].a, has_life) || r->run[run].blocks > 0;
}

/* Lifetimes of the blocks of one kernel: the mean by counters, and percentiles from records of single blocks if there
 * are any. */
typedef struct lives {
    double mean_s, median_s, p95_s, prologue, epilogue;
} lives;

static lives lives_of(const mba_analysis *a, const mba_kernel_view *k, const mba_blocks_view *b, int64_t n)
{
    lives l = { k->counted.block_s, NAN, NAN, NAN, NAN };
    for (int64_t i = 0; i < n; i++)
        if (&a->kernel[b[i].kernel] == k)
            l = (lives){ isnan(l.mean_s) ? b[i].mean_s : l.mean_s, b[i].median_s, b[i].p95_s, b[i].prologue,
                         b[i].epilogue };
    return l;
}

static double blocks_of(const mba_kernel_view *k)
{
    const mba_row_kernel *r = k->row;
    return isnan(k->counted.blocks) ? mba_int_or_nan(r->grid_x) * mba_int_or_nan(r->grid_y) * mba_int_or_nan(r->grid_z)
                                    : k->counted.blocks;
}

static const mba_grid_column fig5_columns[] = { { "kernel", "kernel" },
                                                { "mean_us", "mean, µs" },
                                                { "median_us", "median, µs" },
                                                { "p95_us", "p95, µs" },
                                                { "prologue_pct", "prologue, %" },
                                                { "epilogue_pct", "epilogue, %" },
                                                { "blocks", "blocks" },
                                                { "waves", "waves" },
                                                { "blocks_per_sm", "blocks per SM" },
                                                { "dram_kib_per_block", "DRAM KiB per block" },
                                                { "dram_kib_per_sm_us", "DRAM KiB per SM and µs" },
                                                { 0 } };

/* Mean number of resident blocks per SM in the counter run, by Little's law; NaN without counters. */
static double resident_of(const mba_analysis *a, const mba_kernel_view *k)
{
    return blocks_of(k) * k->counted.block_s / (k->counted.time_s * a->sms);
}

/* Bytes that an SM and DRAM exchange per microsecond; times the DRAM latency, these are the bytes in flight. */
static double exchanged_of(const mba_analysis *a, const mba_kernel_view *k)
{
    return 1e-6 * k->counted.dram_bytes / k->counted.time_s / a->sms;
}

static bool any(const mba_kernel_view *k)
{
    (void)k;
    return true;
}

static mba_status fig5_numbers(mba_grid *g, const mba_stores *r, int run)
{
    mba_assert(run >= 0 && run < r->n);
    const mba_analysis *a = r->run[run].a;
    mba_blocks_view    *b;
    int64_t             n;
    mba_chosen          c;
    MBA_TRY(mba_blocks_of(a, &b, &n));
    const mba_status st = mba_choose(&c, a, any, 1 << 20);
    for (int i = 0, shown = 0; st == MBA_OK && i < c.n && shown < MOST; i++) {
        const lives l = lives_of(a, c.k[i], b, n);
        if (isnan(l.mean_s)) continue;
        mba_grid_text(g, mba_kernel_label(a, c.k[i], 60).s);
        mba_grid_number(g, 1e6 * l.mean_s);
        mba_grid_number(g, 1e6 * l.median_s);
        mba_grid_number(g, 1e6 * l.p95_s);
        mba_grid_number(g, 100 * l.prologue);
        mba_grid_number(g, 100 * l.epilogue);
        mba_grid_number(g, blocks_of(c.k[i]));
        mba_grid_number(g, c.k[i]->row->waves);
        mba_grid_number(g, resident_of(a, c.k[i]));
        mba_grid_number(g, c.k[i]->counted.dram_bytes / blocks_of(c.k[i]) / 1024);
        mba_grid_number(g, exchanged_of(a, c.k[i]) / 1024);
        shown++;
    }
    if (st == MBA_OK) free(c.k);
    free(b);
    return st;
}

static void fig5_heading(mba_buf *b, const mba_stores *r, int run)
{
    const mba_analysis *a = r->run[run].a;
    double              s = 0, life = 0;
    for (int64_t i = 0; i < a->nkernels; i++) {
        const mba_kernel_view *k = &a->kernel[i];
        if (mba_in_group(k, MBA_SSM_KERNELS) && has_life(k)) s += k->step_s, life += k->step_s * k->counted.block_s;
    }
    if (s > 0)
        mba_buf_add(b, "Blocks of SSM kernels live for %s µs (mean, weighted by time)", mba_num(1e6 * life / s).s);
    else mba_buf_put(b, "How long thread blocks live");
}

/* Three columns of numbers at the right of a wide drawing. */
static void draw_columns(mba_svg *s, const mba_lanes *lanes, const mba_analysis *a, const mba_chosen *c)
{
    static const char *const heading[] = { "blocks", "waves", "per SM" };
    for (int j = 0; j < 3; j++) {
        const double x = s->w - 4 - 58 * (2 - j);
        mba_svg_text(s, x, lanes->top - 10, "t3", 'e', "%s", heading[j]);
        for (int i = 0; i < c->n; i++) {
            const double v[] = { blocks_of(c->k[i]), c->k[i]->row->waves, resident_of(a, c->k[i]) };
            mba_svg_text(s, x, mba_lanes_at(lanes, i) + 4, "t3", 'e', "%s", mba_num(v[j]).s);
        }
    }
}

static void draw_lives(mba_svg *s, const mba_analysis *a, const mba_chosen *c, const mba_blocks_view *b, int64_t n)
{
    mba_range       seen = { NAN, NAN };
    const mba_lanes lanes = mba_lanes_for(s->w, c->n, 26, 18);
    for (int i = 0; i < c->n; i++) {
        const lives l = lives_of(a, c->k[i], b, n);
        mba_range_extend(&seen, 1e6 * l.mean_s), mba_range_extend(&seen, 1e6 * l.median_s),
            mba_range_extend(&seen, 1e6 * l.p95_s);
    }
    seen = mba_decades(seen, 1, 1000);
    const mba_scale x = mba_log(seen.lo, seen.hi, lanes.left, s->w - (s->narrow ? 12 : 196));
    mba_svg_axis(s, x, lanes.top - 4, lanes.bottom, "lifetime of a block, µs (log)");
    if (!s->narrow) draw_columns(s, &lanes, a, c);
    for (int i = 0; i < c->n; i++) {
        const lives    l = lives_of(a, c->k[i], b, n);
        const double   y = mba_lanes_at(&lanes, i);
        const mba_name name = mba_kernel_label(a, c->k[i], 60);
        mba_lanes_label(s, &lanes, i, a, c->k[i]);
        mba_svg_line(s, x.a, y, mba_at(x, 1e6 * l.mean_s), y, "stem", NULL);
        if (!isnan(l.p95_s)) mba_svg_line(s, mba_at(x, 1e6 * l.median_s), y, mba_at(x, 1e6 * l.p95_s), y, "ref", NULL);
        if (!isnan(l.mean_s))
            mba_svg_mark(s, MBA_CIRCLE, mba_at(x, 1e6 * l.mean_s), y, 4.6, mba_class_paint(c->k[i]->cls), false,
                         mba_tip(s->c, "%s|mean lifetime %s µs|%s blocks, %s waves, %s at once on an SM", name.s,
                                 mba_num(1e6 * l.mean_s).s, mba_num(blocks_of(c->k[i])).s,
                                 mba_num(c->k[i]->row->waves).s, mba_num(resident_of(a, c->k[i])).s),
                         NULL);
        if (!isnan(l.median_s))
            mba_svg_mark(s, MBA_DIAMOND, mba_at(x, 1e6 * l.median_s), y, 3.6, "ssm", false,
                         mba_tip(s->c, "%s · records|median %s µs, p95 %s µs", name.s, mba_num(1e6 * l.median_s).s,
                                 mba_num(1e6 * l.p95_s).s),
                         NULL);
    }
}

/* ---- records of single blocks: one histogram per kernel ---- */

enum { BINS = 40, KERNELS_MAX = 8 };

/* Lifetime of a recorded block in seconds; NaN if the record is not valid. */
static double life_of(const mba_row_block *b)
{
    return b->start_ns == MBA_ABSENT || b->end_ns < b->start_ns ? NAN
                                                                : 1e-9 * ((double)b->end_ns - (double)b->start_ns);
}

/* Histogram of the lifetimes of a kernel's blocks, in BINS shares from 0 to *hi_s, the longest. */
static void bins_of(const mba_row_block *b, int64_t n, int64_t kernel, double bin[BINS], double *hi_s)
{
    double all = 0;
    *hi_s = 0;
    for (int i = 0; i < BINS; i++) bin[i] = 0;
    for (int64_t i = 0; i < n; i++)
        if (b[i].kernel == kernel && life_of(&b[i]) > *hi_s) *hi_s = life_of(&b[i]);
    for (int64_t i = 0; i<n && * hi_s> 0; i++) {
        if (b[i].kernel != kernel || isnan(life_of(&b[i]))) continue;
        const int at = (int)(BINS * life_of(&b[i]) / *hi_s);
        mba_debug_assert(at >= 0 && at <= BINS);
        bin[at < BINS ? at : BINS - 1]++, all++;
    }
    for (int i = 0; i < BINS && all > 0; i++) bin[i] /= all;
}

static void draw_histogram(mba_svg *s, double top, const mba_analysis *a, const mba_blocks_view *v,
                           const mba_row_block *b, int64_t n)
{
    mba_assert(v->kernel >= 0 && v->kernel < a->nkernels);
    const mba_kernel_view *k = &a->kernel[v->kernel];
    double                 bin[BINS], hi_s, most = 0;
    bins_of(b, n, k->row->id, bin, &hi_s);
    for (int i = 0; i < BINS; i++) most = fmax(most, bin[i]);
    const mba_scale x = mba_lin(0, 1e6 * hi_s, 8, s->w - 12), y = mba_lin(0, most, top + 86, top + 24);
    const mba_name  name = mba_kernel_label(a, k, s->narrow ? 24 : 60);
    char            said[160] = "";
    if (!isnan(v->prologue))
        snprintf(said, sizeof said, ", prologue %s %%, epilogue %s %%", mba_num(100 * v->prologue).s,
                 mba_num(100 * v->epilogue).s);
    mba_svg_text(s, 8, top + 12, "b", 's', "%s", name.s);
    if (s->narrow) mba_svg_text(s, s->w - 12, top + 12, "t3", 'e', "%lld blocks", (long long)v->blocks);
    else
        mba_svg_text(s, s->w - 12, top + 12, "t3", 'e', "%lld blocks, median %s µs, p95 %s µs%s", (long long)v->blocks,
                     mba_num(1e6 * v->median_s).s, mba_num(1e6 * v->p95_s).s, said);
    mba_svg_axis(s, x, y.b, y.a, "");
    for (int i = 0; i < BINS; i++)
        if (bin[i] > 0)
            mba_svg_bar(s, mba_at(x, x.hi * i / BINS), mba_at(y, bin[i]), (x.b - x.a) / BINS - 0.6,
                        y.a - mba_at(y, bin[i]), "", mba_class_paint(k->cls),
                        mba_tip(s->c, "%s|%s %% of %lld blocks live %s to %s µs", name.s, mba_num(100 * bin[i]).s,
                                (long long)v->blocks, mba_num(x.hi * i / BINS).s, mba_num(x.hi * (i + 1) / BINS).s),
                        NULL);
    mba_svg_line(s, mba_at(x, 1e6 * v->median_s), y.b - 4, mba_at(x, 1e6 * v->median_s), y.a, "ref", NULL);
    mba_svg_line(s, mba_at(x, 1e6 * v->p95_s), y.b - 4, mba_at(x, 1e6 * v->p95_s), y.a, "ref dash", NULL);
}

static mba_status draw_records(mba_canvas *canvas, double w, const mba_analysis *a, const mba_blocks_view *v, int64_t n)
{
    mba_row_block *b;
    int64_t        rows;
    const int      shown = n < KERNELS_MAX ? (int)n : KERNELS_MAX;
    if (!n) {
        mba_svg_frame(canvas, w, "Histograms: no data yet", "lifetime of a block, µs", "share of the blocks",
                      "needs records of blocks: mambascope profile --blocks on a GPU (our kernels that write "
                      "them)");
        return MBA_OK;
    }
    MBA_TRY(mba_load_block(a->store, &b, &rows));
    mba_svg s = mba_svg_begin(canvas, w, 112.0 * shown + 20, "Histograms of the lifetimes of thread blocks");
    for (int i = 0; i < shown; i++) draw_histogram(&s, 112.0 * i, a, &v[i], b, rows);
    mba_svg_text(&s, w / 2, 112.0 * shown + 12, "t2", 'm', "lifetime of a block, µs; line: median, dashed: p95");
    mba_svg_end(&s);
    return MBA_OK;
}

static mba_status fig5_draw(mba_canvas *canvas, double w, const mba_stores *r, int run, int view)
{
    mba_assert(run >= 0 && run < r->n);
    mba_assert(run >= 0 && run < r->n && view >= 0 && view < 2);
    const mba_analysis *a = r->run[run].a;
    mba_blocks_view    *b;
    int64_t             n;
    mba_chosen          c;
    MBA_TRY(mba_blocks_of(a, &b, &n));
    if (view) {
        const mba_status drawn = draw_records(canvas, w, a, b, n);
        free(b);
        return drawn;
    }
    const mba_status st = mba_choose(&c, a, n ? any : has_life, mba_marks_max(r, MOST));
    if (st == MBA_OK) {
        mba_svg s = mba_svg_begin(canvas, w, 26 + 18.0 * c.n + 40, "Lifetimes of thread blocks");
        draw_lives(&s, a, &c, b, n);
        mba_svg_end(&s);
        free(c.k);
    }
    free(b);
    return st;
}

static void class_legend(mba_buf *b, const mba_stores *r, int run)
{
    (void)r, (void)run;
    mba_legend_item(b, "tensor", "tensor-only");
    mba_legend_item(b, "vector", "vector-only");
    mba_legend_item(b, "mixed", "mixed");
    mba_legend_view(b, 0, "ssm", "◆ median of records, line to p95");
}

static const char *const fig5_views[] = { "means", "histograms", NULL };

const mba_figure mba_figure_fig5 = {
    "fig5",
    "Block lifetime",
    "Fig. 5 · thread-block lifetimes",
    "Mean lifetime of a thread block: resident block cycles over launched blocks. The histograms show records "
    "of single blocks, which some of our kernels write, with median, p95, prologue and epilogue.",
    "Short-lived blocks pay for launch and first loads more often. This figure does not show whether that "
    "causes low bandwidth; a variant with longer-lived blocks does (Q1 above). Blocks per SM follow from "
    "Little's law. The table has the bytes that an SM and DRAM exchange in a microsecond; multiplied by the "
    "DRAM latency (0.34 µs on an H200, measured by pointer chasing), these are the bytes in flight.",
    "counters of occupancy (mambascope profile --metric-sets occupancy), or records of blocks (--blocks)",
    false,
    fig5_views,
    fig5_columns,
    has_lives,
    fig5_heading,
    fig5_numbers,
    fig5_draw,
    class_legend
};

/* ---- Fig. 8 ---- */

static const struct {
    const char *name, *words, *text, *paint;
} reasons[] = { { "long_scoreboard", "global memory", "global memory (long scoreboard)", "ssm" },
                { "short_scoreboard", "shared memory or special functions",
                  "shared memory, special functions (short scoreboard)", "elt" },
                { "mio_throttle", "a full memory queue", "memory queue full", "attn" },
                { "barrier", "barriers", "barrier", "msg" },
                { "math_pipe_throttle", "busy math pipes", "math pipe busy", "gemm" },
                { "wait", "fixed latencies", "fixed latency", "mem" },
                { "gmma", "tensor results", "tensor result", "conv" },
                { "dispatch_stall", "the dispatcher", "dispatcher busy (dispatch stall)", "norm" },
                { "no_instruction", "instructions", "instruction not fetched (no instruction)", "red" } };
enum { KNOWN = sizeof reasons / sizeof *reasons };

static int reason_named(const char *name)
{
    int i = 0;
    while (i < KNOWN && strcmp(reasons[i].name, name)) i++;
    return i;
}

const char *mba_stall_words(const char *reason)
{
    const int i = reason_named(reason);
    return i < KNOWN ? reasons[i].words : reason;
}

const char *mba_stall_paint(const char *reason)
{
    const int i = reason_named(reason);
    return i < KNOWN ? reasons[i].paint : "oth";
}

static bool has_warps(const mba_kernel_view *k)
{
    return k->row->occupancy_limit > 0 || !isnan(k->counted.occupancy_pct);
}

static bool has_occupancy(const mba_stores *r, int run) { return mba_any_kernel(r->run[run].a, has_warps); }

static const mba_grid_column fig8_columns[] = { { "kernel", "kernel" },
                                                { "occupancy_pct", "occupancy, %" },
                                                { "occupancy_limit_pct", "possible, %" },
                                                { "limiter", "limited by" },
                                                { "registers", "registers" },
                                                { "shared_kib", "shared, KiB" },
                                                { "local_bytes", "local, byte" },
                                                { "threads", "threads" },
                                                { "waves", "waves" },
                                                { "issue_pct", "issue, %" },
                                                { "stall", "main stall" },
                                                { "stalled", "warps per issue" },
                                                { 0 } };

static mba_status fig8_numbers(mba_grid *g, const mba_stores *r, int run)
{
    mba_assert(run >= 0 && run < r->n);
    const mba_analysis *a = r->run[run].a;
    mba_chosen          c;
    MBA_TRY(mba_choose(&c, a, has_warps, mba_marks_max(r, MOST)));
    for (int i = 0; i < c.n; i++) {
        const mba_row_kernel *k = c.k[i]->row;
        mba_stall             top[1];
        char                  name[64] = "";
        const bool            stalled = mba_stalls_of(c.k[i], top, 1) > 0;
        if (stalled) snprintf(name, sizeof name, "%.*s", top[0].length, top[0].name);
        mba_grid_text(g, mba_kernel_label(a, c.k[i], 60).s);
        mba_grid_number(g, c.k[i]->counted.occupancy_pct);
        mba_grid_number(g, k->occupancy_limit);
        mba_grid_text(g, k->limiter);
        mba_grid_number(g, mba_int_or_nan(k->regs));
        mba_grid_number(g, (mba_int_or_nan(k->smem_static_bytes) + mba_int_or_nan(k->smem_dynamic_bytes)) / 1024);
        mba_grid_number(g, mba_int_or_nan(k->local_bytes));
        mba_grid_number(g, mba_int_or_nan(k->block_x) * mba_int_or_nan(k->block_y) * mba_int_or_nan(k->block_z));
        mba_grid_number(g, k->waves);
        mba_grid_number(g, c.k[i]->counted.issue_pct);
        mba_grid_text(g, stalled ? name : NULL);
        mba_grid_number(g, stalled ? top[0].warps : NAN);
    }
    free(c.k);
    return MBA_OK;
}

static void fig8_heading(mba_buf *b, const mba_stores *r, int run)
{
    const mba_analysis *a = r->run[run].a;
    const struct {
        const char *word;
    } why[] = { { "registers" },
                { "shared memory" },
                { "threads" },
                { "blocks" },
                { "grid" },
                { "registers and shared memory" },
                { "registers and the grid" },
                { "registers, shared memory and the grid" } };
    enum { WHY = sizeof why / sizeof *why };
    double s = 0, by[WHY] = { 0 };
    int    top = 0;
    for (int64_t i = 0; i < a->nkernels; i++) {
        const mba_kernel_view *k = &a->kernel[i];
        if (k->launches <= 0 || !k->row->limiter) continue;
        s += k->step_s;
        for (int j = 0; j < WHY; j++)
            if (!strcmp(mba_occupancy_limiter(a, k), why[j].word)) by[j] += k->step_s;
    }
    for (int j = 1; j < WHY; j++)
        if (by[j] > by[top]) top = j;
    if (s > 0)
        mba_buf_add(b, "Occupancy is limited by %s for %s %% of the kernel time",
                    top == 4 ? "the size of the grid" : why[top].word, mba_num(100 * by[top] / s).s);
    else mba_buf_put(b, "Occupancy and stall reasons");
}

static double warps_of(const mba_stall *all, int n, const char *name)
{
    for (int i = 0; i < n; i++)
        if ((int)strlen(name) == all[i].length && !strncmp(name, all[i].name, (size_t)all[i].length))
            return all[i].warps;
    return 0;
}

/* Draws the shares of the known stall reasons, then the rest. */
static void draw_stalls(mba_svg *s, mba_scale x, double y, const char *kernel, const mba_kernel_view *k)
{
    mba_stall all[REASONS];
    const int n = mba_stalls_of(k, all, REASONS);
    mba_assert(n <= REASONS);
    double sum = 0, rest, at = 0;
    for (int i = 0; i < n; i++) sum += all[i].warps;
    rest = sum;
    for (int j = 0; j <= KNOWN; j++) {
        const double v = j < KNOWN ? warps_of(all, n, reasons[j].name) : rest, pct = 100 * v / sum;
        rest -= v;
        if (!(v > 0.005 * sum)) continue;
        mba_svg_bar(s, mba_at(x, at), y - 6, mba_at(x, at + pct) - mba_at(x, at), 12, "bar",
                    j < KNOWN ? reasons[j].paint : "oth",
                    mba_tip(s->c, "%s|%s: %s %%, %s warps per issue", kernel, j < KNOWN ? reasons[j].text : "others",
                            mba_num(pct).s, mba_num(v).s),
                    NULL);
        at += pct;
    }
}

static void draw_occupancy(mba_svg *s, mba_scale x, double y, const char *kernel, const mba_kernel_view *k)
{
    const double limit = k->row->occupancy_limit, got = k->counted.occupancy_pct;
    if (limit > 0)
        mba_svg_bar(s, x.a, y - 6, mba_at(x, limit) - x.a, 12, "bar", "oth",
                    mba_tip(s->c,
                            "%s|possible occupancy %s "
                            "%%, limited by %s",
                            kernel, mba_num(limit).s, k->row->limiter ? k->row->limiter : "?"),
                    NULL);
    if (!isnan(got))
        mba_svg_bar(s, x.a, y - 3, mba_at(x, got) - x.a, 6, "", "gemm",
                    mba_tip(s->c,
                            "%s|occupancy %s "
                            "%%",
                            kernel, mba_num(got).s),
                    NULL);
}

static mba_status fig8_draw(mba_canvas *c, double w, const mba_stores *r, int run, int view)
{
    mba_assert(run >= 0 && run < r->n);
    mba_assert(run >= 0 && run < r->n && view >= 0 && view < 2);
    const mba_analysis *a = r->run[run].a;
    mba_chosen          chosen;
    mba_stall           one[1];
    bool                counted = false;
    MBA_TRY(mba_choose(&chosen, a, has_warps, mba_marks_max(r, MOST)));
    for (int i = 0; i < chosen.n; i++) counted |= mba_stalls_of(chosen.k[i], one, 1) > 0;
    if (view == 1 && !counted) {
        mba_svg_frame(c, w, "Stalls: no data yet", "share of stalled warps, %", "kernels",
                      "stall counters, on a GPU: "
                      "mambascope profile --metric-sets stalls");
        free(chosen.k);
        return MBA_OK;
    }
    const mba_lanes lanes = mba_lanes_for(w, chosen.n, view && w > MBA_NARROW ? 24 : 10, 18);
    mba_svg         s = mba_svg_begin(c, w, lanes.bottom + 40, view ? "Why warps wait" : "Occupancy and its limit");
    const mba_scale x = mba_lin(0, 100, lanes.left, w - (s.narrow ? 14 : view ? 170 : 130));
    mba_svg_axis(&s, x, lanes.top - 4, lanes.bottom, view ? "share of stalled warps, %" : "occupancy, %");
    for (int i = 0; i < chosen.n; i++) {
        const mba_name name = mba_kernel_label(a, chosen.k[i], 60);
        const double   y = mba_lanes_at(&lanes, i);
        mba_lanes_label(&s, &lanes, i, a, chosen.k[i]);
        if (view) draw_stalls(&s, x, y, name.s, chosen.k[i]);
        else draw_occupancy(&s, x, y, name.s, chosen.k[i]);
        if (s.narrow) continue;
        if (view && i == 0) mba_svg_text(&s, w - 4, lanes.top - 8, "t3", 'e', "occupancy, %% limited by");
        if (view) mba_svg_text(&s, w - 124, y + 4, "t3", 'e', "%s", mba_num(chosen.k[i]->counted.occupancy_pct).s);
        if (chosen.k[i]->row->limiter)
            mba_svg_text(&s, w - 118, y + 4, "t3", 's', "%s", mba_short(chosen.k[i]->row->limiter, 16).s);
    }
    mba_svg_end(&s);
    free(chosen.k);
    return MBA_OK;
}

static void fig8_legend(mba_buf *b, const mba_stores *r, int run)
{
    (void)r, (void)run;
    mba_legend_view(b, 0, "oth", "possible occupancy");
    mba_legend_view(b, 0, "gemm", "measured occupancy");
    for (int i = 0; i < KNOWN; i++) mba_legend_view(b, 1, reasons[i].paint, reasons[i].text);
    mba_legend_view(b, 1, "oth", "other reasons");
}

/* Occupancy that registers limit and time that registers limit are two things: the share of the time with such
 * occupancy, and what twice the registers give in the simulator. */
void mba_registers_explained(mba_buf *b, const mba_stores *r, int run)
{
    mba_assert(run >= 0 && run < r->n);
    const mba_analysis *a = r->run[run].a;
    const mba_whatif   *w = r->whatif;
    double              by = 0, tied = 0, all = 0;
    for (int64_t i = 0; i < a->nkernels; i++) {
        const mba_kernel_view *k = &a->kernel[i];
        if (k->launches <= 0 || !k->row->limiter) continue;
        all += k->step_s;
        const char *limiter = mba_occupancy_limiter(a, k);
        if (!strcmp(limiter, "registers")) by += k->step_s;
        else if (strstr(limiter, "registers")) tied += k->step_s;
    }
    if (!(all > 0)) return;
    mba_buf_add(
        b,
        "<p><b>Registers.</b> They alone limit the occupancy of kernels with %s %% of the time, and together with "
        "shared memory or the grid of %s %%: no further block fits beside those that run. That is not a limit of time: "
        "it costs time only where the warps that do fit wait for latency.",
        mba_num(100 * by / all).s, mba_num(100 * tied / all).s);
    for (int m = 0; w && m < w->nmodels; m++)
        for (int k = 0; k < w->ncurves && !strcmp(w->model[m].name, a->workload); k++)
            for (int i = 0; i < w->curve[k].n && !strcmp(w->curve[k].key, "registers"); i++)
                if (w->curve[k].value[i] == 2 && isfinite(w->model[m].curve_ms[MBA_WI_STEP][k][i]))
                    mba_buf_add(b, " SIMULATED: twice the registers make the step %s × and SSM operators %s × as fast.",
                                mba_num(mba_wi_speedup(w, m, MBA_WI_STEP, k, i)).s,
                                mba_num(mba_wi_speedup(w, m, MBA_WI_SSM, k, i)).s);
    mba_buf_put(b, "</p>");
}

static const char *const fig8_views[] = { "occupancy", "stalls", NULL };

const mba_figure mba_figure_fig8 = {
    "fig8",
    "Stalls",
    "Fig. 8 · occupancy and stalls",
    "Possible and measured occupancy, and what limits it; stall reasons as shares of the stalled warps.",
    "Low occupancy costs time only if warps wait for latency. The stall reasons show whether they do.",
    "launch geometry of a GPU (mambascope profile on a GPU), and for stalls: --metric-sets occupancy,stalls",
    false,
    fig8_views,
    fig8_columns,
    has_occupancy,
    fig8_heading,
    fig8_numbers,
    fig8_draw,
    fig8_legend
};
