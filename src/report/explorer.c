/* explorer.c -- every kernel of every run in one table; the script opens a card from the record of its row. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "report/parts.h"

enum { ROWS = 300, FEWEST = 50, MOST = 120, REASONS = 8, SYMBOL = 160 };

/* Kernels of a run: more stores, fewer of each, so that the page stays small. */
static int most_of(const mba_stores *r)
{
    const int n = ROWS / r->shown;
    return n < FEWEST ? FEWEST : n > MOST ? MOST : n;
}

static bool every(const mba_kernel_view *k) { (void)k; return true; }

static void number_cell(mba_buf *b, double v)
{
    if (isfinite(v)) mba_buf_add(b, "<td class=\"n\" data-v=\"%s\">%s</td>", mba_exact(v).s, mba_num(v).s);
    else             mba_buf_put(b, "<td class=\"n\" data-v=\"-1\">–</td>");
}

static void bar_cell(mba_buf *b, double percent, const char *paint)
{
    if (isfinite(percent)) mba_buf_add(b, "<td class=\"n\" data-v=\"%s\"><span class=\"m c-%s\" "
                                          "style=\"--p:%.0f\"><b>%s</b></span></td>", mba_exact(percent).s, paint,
                                              fmin(percent, 100), mba_num(percent).s);
    else                   mba_buf_put(b, "<td class=\"n\" data-v=\"-1\">–</td>");
}

static void text_cell(mba_buf *b, const char *text)
{
    mba_buf_put(b, "<td>");
    mba_buf_html(b, text && *text ? text : "–");
    mba_buf_put(b, "</td>");
}

static const char *const headings[] = { "kernel", "run", "operator", "class", "work", "ms per step", "launches", "µs",
                                        "% of step", "% of floor", "floor by", "busiest unit", "its %", "DRAM GB/s",
                                        NULL };

static void kernel_row(mba_buf *b, const mba_stores *r, int run, const mba_kernel_view *k, int id)
{
    const mba_analysis *a = r->run[run].a;
    mba_buf_add(b, "<tr class=\"row\" id=\"kernel-%d\" data-id=\"%d\" data-r=\"%d\" data-tags=\"%s\"><td "
                   "class=\"pin\"><button aria-expanded=\"false\">", id, id, run, mba_kind_paint(k->kind));
    mba_buf_html(b, mba_kernel_label(a, k, 28).s);
    mba_buf_put(b, "</button></td>");
    text_cell(b, mba_run_label(r, run));
    text_cell(b, k->row->op);
    text_cell(b, mba_breakdown_kind_name(k->kind));
    mba_buf_add(b, "<td><span class=\"cls %s\">%s</span></td>", mba_kernel_class_name(k->cls),
                mba_kernel_class_name(k->cls));
    number_cell(b, 1e3 * k->step_s);
    number_cell(b, k->per_step);
    number_cell(b, 1e6 * k->median_s);
    bar_cell(b, 100 * k->step_s / a->busy_s, mba_kind_paint(k->kind));
    bar_cell(b, 100 * k->least_s / k->median_s, "norm");
    text_cell(b, isnan(k->least_s) ? NULL : mba_floor_name(k->bound));
    text_cell(b, k->busiest);
    number_cell(b, k->busiest_pct);
    number_cell(b, k->counted.dram_bytes / k->counted.time_s / 1e9);
    mba_buf_put(b, "</tr>");
    mba_buf_put(b, "<tr class=\"cardrow\" hidden><td colspan=\"14\"></td></tr>\n");
}

static void controls(mba_buf *b, const mba_stores *r)
{
    mba_buf_put(b, "<div class=\"ctl\"><label>search <input type=\"search\" id=\"ksearch\" placeholder=\"kernel, "
                   "operator, class\"></label><label>class <select id=\"kclass\"><option value=\"all\">all</option>");
    for (int k = 0; k < MBA_BREAKDOWN_KINDS; k++) mba_buf_add(b, "<option value=\"%s\">%s</option>", mba_kind_paint(k),
                                                              mba_kind_long(k));
    mba_buf_put(b, "</select></label>");
    mba_buf_put(b, "<label>run <select id=\"krun\"><option value=\"all\">all</option>");
    for (int i = 0; i < r->shown; i++) {
        mba_buf_add(b, "<option value=\"%d\"%s>", i, i || r->shown < 2 ? "" : " selected");
        mba_buf_html(b, mba_run_label(r, i));
        mba_buf_put(b, "</option>");
    }
    mba_buf_put(b, "</select></label><span id=\"kcount\" aria-live=\"polite\"></span></div>");
}

mba_status mba_part_explorer(mba_buf *b, const mba_stores *r)
{
    int    id = 0, left_out = 0;
    controls(b, r);
    mba_buf_put(b, "<div class=\"scroll kscroll\" tabindex=\"0\" role=\"region\" aria-label=\"kernel explorer\"><table "
                   "class=\"kt one\" id=\"kt\"><thead><tr>");
    for (int i = 0; headings[i]; i++) mba_buf_add(b, "<th scope=\"col\"%s><button>%s</button></th>", i == 0
                                                  ? " class=\"pin\"" : i >= 5 && i != 10 && i != 11 ? " class=\"n\""
                                                      : "", headings[i]);
    mba_buf_put(b, "</tr></thead><tbody>");
    for (int run = 0; run < r->shown; run++) {
        mba_chosen c;
        MBA_TRY(mba_choose(&c, r->run[run].a, every, most_of(r)));
        for (int i = 0; i < c.n; i++) kernel_row(b, r, run, c.k[i], id++);
        left_out += c.left_out;
        free(c.k);
    }
    mba_buf_put(b, "</tbody></table></div>");
    if (left_out) mba_buf_add(b, "<p class=\"small\">%d shorter kernels of these runs are not on the page: "
                                 "<code>mambascope show FILE.db kernels --csv</code></p>", left_out);
    return MBA_OK;
}

/* ---- records ---- */

/* What was not measured is left out of a record. */
static void text_field(mba_buf *b, const char *name, const char *text)
{
    if (!text) return;
    mba_buf_add(b, ",\"%s\":", name);
    mba_buf_json(b, text);
}

static void field(mba_buf *b, const char *name, double v)
{
    if (!isfinite(v)) return;
    mba_buf_add(b, ",\"%s\":", name);
    mba_buf_json_number(b, v);
}

static void list_field(mba_buf *b, const char *name, const double *v, int n)
{
    mba_buf_add(b, ",\"%s\":[", name);
    for (int i = 0; i < n; i++) {
        if (i) mba_buf_put(b, ",");
        mba_buf_json_number(b, v[i]);
    }
    mba_buf_put(b, "]");
}

static void stall_field(mba_buf *b, const mba_kernel_view *k)
{
    mba_stall all[REASONS];
    const int n = mba_stalls_of(k, all, REASONS);
    mba_buf_put(b, ",\"stalls\":[");
    for (int i = 0; i < n; i++) {
        char name[64];
        snprintf(name, sizeof name, "%.*s", all[i].length, all[i].name);
        mba_buf_put(b, i ? ",[" : "[");
        mba_buf_json(b, name);
        mba_buf_put(b, ",");
        mba_buf_json_number(b, all[i].warps);
        mba_buf_put(b, "]");
    }
    mba_buf_put(b, "]");
}

static void geometry_fields(mba_buf *b, const mba_row_kernel *k)
{
    const double grid[] = { mba_whole(k->grid_x), mba_whole(k->grid_y), mba_whole(k->grid_z) };
    list_field(b, "grid", grid, 3);
    field(b, "threads", mba_whole(k->block_x) * mba_whole(k->block_y) * mba_whole(k->block_z));
    field(b, "regs", mba_whole(k->regs));
    field(b, "smem", mba_whole(k->smem_static_bytes) + mba_whole(k->smem_dynamic_bytes));
    field(b, "local", mba_whole(k->local_bytes));
    field(b, "blocks_per_sm", mba_whole(k->blocks_per_sm));
    field(b, "waves", k->waves);
    field(b, "occ_max", k->occupancy_limit);
    text_field(b, "limiter", k->limiter);
}

static void counted_fields(mba_buf *b, const mba_kernel_view *k)
{
    const mba_counted *c = &k->counted;
    const double util[] = { c->dram_pct, c->l1_pct, c->tensor_pct, c->fma_pct, c->alu_pct, c->xu_pct, c->issue_pct };
    list_field(b, "util", util, 7);
    field(b, "us_c", 1e6 * c->time_s);
    field(b, "ghz", c->clock_hz / 1e9);
    field(b, "dram", c->dram_bytes);
    field(b, "l2", c->l2_bytes);
    field(b, "l1", c->l1_bytes);
    field(b, "l1_hit", c->l1_hit_pct);
    field(b, "l2_hit", c->l2_hit_pct);
    field(b, "tf", c->tensor_flops);
    field(b, "vf", c->fp32_flops + c->half_flops);
    field(b, "sf", c->special_ops);
    field(b, "occ", c->occupancy_pct);
    field(b, "life", 1e6 * c->block_s);
    stall_field(b, k);
}

static void record(mba_buf *b, const mba_stores *r, int run, const mba_kernel_view *k, int id)
{
    double floors[MBA_FLOORS];
    for (int f = 0; f < MBA_FLOORS; f++) floors[f] = 1e6 * k->floor_s[f];
    mba_buf_add(b, "%s\n{\"id\":%d,\"run\":%d", id ? "," : "", id, run);
    text_field(b, "name", mba_kernel_label(r->run[run].a, k, 90).s);
    text_field(b, "symbol", k->row->symbol ? mba_short(k->row->symbol, SYMBOL).s : NULL);
    text_field(b, "op", k->row->op);
    text_field(b, "kind", mba_breakdown_kind_name(k->kind));
    text_field(b, "cls", mba_kernel_class_name(k->cls));
    text_field(b, "phase", k->row->phase);
    text_field(b, "shape", k->row->shape ? mba_short(k->row->shape, 300).s : NULL);
    field(b, "n", k->per_step);
    field(b, "ms", 1e3 * k->step_s);
    field(b, "us", 1e6 * k->median_s);
    field(b, "p10", 1e6 * k->p10_s);
    field(b, "p90", 1e6 * k->p90_s);
    field(b, "gap", 1e6 * k->gap_s);
    list_field(b, "floors", floors, MBA_FLOORS);
    field(b, "floor", 1e6 * k->least_s);
    text_field(b, "bound", isnan(k->least_s) ? NULL : mba_floor_name(k->bound));
    field(b, "executed_floor", k->from_counters ? 1 : 0);
    text_field(b, "busy", k->busiest);
    field(b, "busy_pct", k->busiest_pct);
    field(b, "least_b", k->least.bytes);
    field(b, "least_tf", k->least.tensor_flops);
    field(b, "least_vf", k->least.vector_flops);
    field(b, "least_sf", k->least.special_ops);
    geometry_fields(b, k->row);
    counted_fields(b, k);
    mba_buf_put(b, "}");
}

mba_status mba_part_kernels_json(mba_buf *b, const mba_stores *r)
{
    int id = 0;
    mba_buf_put(b, "[");
    for (int run = 0; run < r->shown; run++) {
        mba_chosen c;
        MBA_TRY(mba_choose(&c, r->run[run].a, every, most_of(r)));
        for (int i = 0; i < c.n; i++, id++) record(b, r, run, c.k[i], id);
        free(c.k);
    }
    mba_buf_put(b, "]");
    return MBA_OK;
}
