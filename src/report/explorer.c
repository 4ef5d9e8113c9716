// SPDX-License-Identifier: Apache-2.0
/* explorer.c -- see parts.h: one table with the kernels of all runs, and a JSON record per row, from which the script
 * opens a card. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/parts.h"
#include "scope/blocks.h"
#include "scope/doubts.h"
#include "study/advice.h"
#include "study/limiter.h"
#include "study/source_lines.h"
#include "study/verify.h"

enum { ROWS = 250, FEWEST = 50, MOST = 120, REASONS = 8, SYMBOL = 160 };

/* Kernels shown per run: fewer if there are more runs, so that the page stays small. */
static int most_of(const mba_stores *r)
{
    mba_assert(r->shown > 0 && r->shown <= r->n);
    const int n = ROWS / r->shown;
    return n < FEWEST ? FEWEST : n > MOST ? MOST : n;
}

static bool every(const mba_kernel_view *k)
{
    (void)k;
    return true;
}

static void number_cell(mba_buf *b, double v)
{
    if (isfinite(v)) mba_buf_add(b, "<td data-v=\"%s\">%s</td>", mba_exact(v).s, mba_num(v).s);
    else mba_buf_put(b, "<td data-v=\"-1\">–</td>");
}

static void bar_cell(mba_buf *b, double percent, const char *paint)
{
    if (isfinite(percent))
        mba_buf_add(b,
                    "<td data-v=\"%s\"><span class=\"m c-%s\" "
                    "style=\"--p:%.0f\"><b>%s</b></span></td>",
                    mba_exact(percent).s, paint, fmin(percent, 100), mba_num(percent).s);
    else mba_buf_put(b, "<td data-v=\"-1\">–</td>");
}

static void text_cell(mba_buf *b, const char *text)
{
    mba_buf_put(b, "<td>");
    mba_buf_html(b, text && *text ? text : "–");
    mba_buf_put(b, "</td>");
}

static const char *const headings[] = { "kernel",       "run",          "operator", "class",     "work",
                                        "ms per step",  "launches",     "µs",       "% of step", "% of floor",
                                        "floor set by", "busiest unit", "its %",    "DRAM GB/s", NULL };

static void kernel_row(mba_buf *b, const mba_stores *r, int run, const mba_kernel_view *k, int id)
{
    const mba_analysis *a = r->run[run].a;
    mba_buf_add(b,
                "<tr class=\"row\" id=\"kernel-%d\" data-id=\"%d\" data-r=\"%d\" data-tags=\"%s\"><td "
                "class=\"pin\"><button aria-expanded=\"false\">",
                id, id, run, mba_kind_paint(k->kind));
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
    mba_debug_assert(k->row);
    if (r->before) {
        const mba_kernel_view *was = mba_kernel_before(r, run, k);
        number_cell(b, was ? 1e6 * was->median_s : NAN);
        number_cell(b, was ? k->median_s / was->median_s : NAN);
    }
    mba_buf_put(b, "</tr>\n");
}

static void controls(mba_buf *b, const mba_stores *r)
{
    mba_buf_put(b, "<div class=\"ctl\"><label>search <input type=\"search\" id=\"ksearch\" placeholder=\"kernel, "
                   "operator, class\"></label><label>class <select id=\"kclass\"><option value=\"all\">all</option>");
    for (int k = 0; k < MBA_BREAKDOWN_KINDS; k++)
        mba_buf_add(b, "<option value=\"%s\">%s</option>", mba_kind_paint(k), mba_kind_long(k));
    mba_buf_put(b, "</select></label>");
    mba_buf_put(b, "<label>run <select id=\"krun\"><option value=\"all\">all</option>");
    for (int i = 0; i < r->shown; i++) {
        mba_buf_add(b, "<option value=\"%d\"%s>", i, i || r->shown < 2 ? "" : " selected");
        mba_buf_html(b, mba_run_label(r, i));
        mba_buf_put(b, "</option>");
    }
    mba_buf_put(b, "</select></label><span id=\"kcount\" aria-live=\"polite\"></span></div>");
}

static void say_baseline(mba_buf *b, const mba_stores *r)
{
    const char *commit = mba_env_find(r->before, "program.commit");
    mba_buf_put(b, "<p class=\"small\">Baseline: <b>");
    mba_buf_html(b, mba_store_path(r->before_store));
    mba_buf_put(b, "</b>, ");
    mba_buf_html(b, *r->before->workload ? r->before->workload : "a program");
    if (commit) {
        mba_buf_put(b, ", commit ");
        mba_buf_html(b, commit);
    }
    if (isfinite(r->before->plain_s)) mba_buf_add(b, ", %s ms a step", mba_num(1e3 * r->before->plain_s).s);
    mba_buf_put(b, ". The columns at the right have its times, the tick on a bar its utilisation.</p>");
}

mba_status mba_part_explorer(mba_buf *b, const mba_stores *r)
{
    static const char *const before[] = { "before, µs", "× before" };
    int                      id = 0, left_out = 0;
    if (r->before) say_baseline(b, r);
    controls(b, r);
    mba_buf_add(b,
                "<div class=\"scroll kscroll\" tabindex=\"0\" role=\"region\" aria-label=\"kernel explorer\"><table "
                "class=\"kt one%s\" id=\"kt\"><thead><tr>",
                r->before ? " behind" : "");
    for (int i = 0; headings[i]; i++)
        mba_buf_add(b, "<th scope=\"col\"%s><button>%s</button></th>",
                    i == 0                         ? " class=\"pin\""
                    : i >= 5 && i != 10 && i != 11 ? " class=\"n\""
                                                   : "",
                    headings[i]);
    for (int i = 0; r->before && i < 2; i++)
        mba_buf_add(b, "<th scope=\"col\" class=\"n\"><button>%s</button></th>", before[i]);
    mba_buf_put(b, "</tr></thead><tbody>");
    for (int run = 0; run < r->shown; run++) {
        mba_chosen c;
        MBA_TRY(mba_choose(&c, r->run[run].a, every, most_of(r)));
        for (int i = 0; i < c.n; i++) kernel_row(b, r, run, c.k[i], id++);
        left_out += c.left_out;
        free(c.k);
    }
    mba_buf_put(b, "</tbody></table></div>");
    if (left_out)
        mba_buf_add(b,
                    "<p class=\"small\">%d shorter kernels of these runs are not on the page; "
                    "print them with <code>mambascope show FILE.db kernels --csv</code></p>",
                    left_out);
    return MBA_OK;
}

/* ---- records ---- */

/* The records of kernels as one table: keys once, then a row of values per kernel; null: not measured. The same
 * function writes keys and values, so they cannot differ. Stall reasons are indices into one list of names. */
enum { NAMES_MAX = 64 };
typedef struct remedy {
    const char *cause, *remedy;
} remedy;
typedef struct records {
    mba_buf *b;
    bool     keys, any; /* keys: write names instead of values; any: a field was written */
    char     stall[NAMES_MAX][48];
    int      nstalls;
    remedy   remedy[NAMES_MAX];
    int      nremedies;
} records;

/* Starts the next field; true if its value is to be written, false for its key. */
static bool begin_field(records *r, const char *name)
{
    if (r->any) mba_buf_put(r->b, ",");
    r->any = true;
    if (r->keys) mba_buf_add(r->b, "\"%s\"", name);
    return !r->keys;
}

static void text_field(records *r, const char *name, const char *text)
{
    if (begin_field(r, name)) mba_buf_json(r->b, text);
}

static void field(records *r, const char *name, double v)
{
    if (begin_field(r, name)) mba_buf_json_number(r->b, v);
}

static void list_field(records *r, const char *name, const double *v, int n)
{
    if (!begin_field(r, name)) return;
    mba_buf_put(r->b, "[");
    for (int i = 0; i < n; i++) {
        if (i) mba_buf_put(r->b, ",");
        mba_buf_json_number(r->b, v[i]);
    }
    mba_buf_put(r->b, "]");
}

static int number_of_stall(records *r, const mba_stall *s)
{
    char name[sizeof r->stall[0]];
    snprintf(name, sizeof name, "%.*s", s->length, s->name);
    for (int i = 0; i < r->nstalls; i++)
        if (!strcmp(r->stall[i], name)) return i;
    mba_assert(r->nstalls <= NAMES_MAX);
    if (r->nstalls == NAMES_MAX) return -1; // a hostile file
    snprintf(r->stall[r->nstalls], sizeof name, "%s", name);
    return r->nstalls++;
}

static void stall_field(records *r, const mba_kernel_view *k)
{
    mba_stall all[REASONS];
    bool      any = false;
    if (!begin_field(r, "stalls")) return;
    mba_buf_put(r->b, "[");
    for (int i = 0, n = mba_stalls_of(k, all, REASONS); i < n; i++) {
        const int number = number_of_stall(r, &all[i]);
        if (number < 0) continue;
        mba_buf_add(r->b, "%s[%d,", any ? "," : "", number);
        mba_buf_json_number(r->b, all[i].warps);
        mba_buf_put(r->b, "]");
        any = true;
    }
    mba_buf_put(r->b, "]");
}

static void geometry_fields(records *r, const mba_row_kernel *k)
{
    const double grid[] = { mba_int_or_nan(k->grid_x), mba_int_or_nan(k->grid_y), mba_int_or_nan(k->grid_z) };
    list_field(r, "grid", grid, 3);
    field(r, "threads", mba_int_or_nan(k->block_x) * mba_int_or_nan(k->block_y) * mba_int_or_nan(k->block_z));
    field(r, "regs", mba_int_or_nan(k->regs));
    field(r, "smem", mba_int_or_nan(k->smem_static_bytes) + mba_int_or_nan(k->smem_dynamic_bytes));
    field(r, "local", mba_int_or_nan(k->local_bytes));
    field(r, "blocks_per_sm", mba_int_or_nan(k->blocks_per_sm));
    field(r, "waves", k->waves);
    field(r, "occ_max", k->occupancy_limit);
    text_field(r, "limiter", k->limiter);
}

static void counted_fields(records *r, const mba_kernel_view *k)
{
    const mba_counted *c = &k->counted;
    const double util[] = { c->dram_pct, c->l1_pct, c->tensor_pct, c->fma_pct, c->alu_pct, c->xu_pct, c->issue_pct };
    list_field(r, "util", util, 7);
    field(r, "us_c", 1e6 * c->time_s);
    field(r, "ghz", c->clock_hz / 1e9);
    field(r, "dram", c->dram_bytes);
    field(r, "l2", c->l2_bytes);
    field(r, "l1", c->l1_bytes);
    field(r, "l1_hit", c->l1_hit_pct);
    field(r, "l2_hit", c->l2_hit_pct);
    field(r, "tf", c->tensor_flops);
    field(r, "vf", c->fp32_flops + c->half_flops);
    field(r, "lf", c->lane_flops);
    field(r, "sf", c->special_ops);
    field(r, "occ", c->occupancy_pct);
    field(r, "life", 1e6 * c->block_s);
    stall_field(r, k);
}

static void least_fields(records *r, const mba_analysis *a, const mba_kernel_view *k)
{
    const mba_above above = mba_above_floor(a, k);
    double          floors[MBA_FLOORS];
    for (int f = 0; f < MBA_FLOORS; f++) floors[f] = 1e6 * k->floor_s[f];
    list_field(r, "floors", floors, MBA_FLOORS);
    field(r, "floor", 1e6 * k->least_s);
    text_field(r, "bound", isnan(k->least_s) ? NULL : mba_floor_name(k->bound));
    field(r, "executed_floor", k->from_counters ? 1 : 0);
    text_field(r, "above", above == MBA_NOT_ABOVE ? NULL : mba_above_words(a, above).text);
    text_field(r, "busy", k->busiest);
    field(r, "busy_pct", k->busiest_pct);
    const mba_limiter limit = mba_limiter_of(a, k, MBA_BUSY_PCT);
    text_field(r, "limit", limit == MBA_LIMIT_UNKNOWN ? NULL : mba_limiter_name(limit));
    field(r, "least_b", k->least.bytes);
    field(r, "least_tf", k->least.tensor_flops);
    field(r, "least_vf", k->least.vector_flops);
    field(r, "least_sf", k->least.special_ops);
}

/* More facts on the kernels of a run: plans compared with counters, records of their blocks, lines of their source. */
typedef struct proofs {
    mba_verification *plan;
    mba_blocks_view  *block;
    mba_source_line  *line;
    int64_t           nplans, nblocks, nlines;
} proofs;

static void proofs_free(proofs *p)
{
    free(p->line);
    free(p->plan);
    free(p->block);
}

static mba_status proofs_of(proofs *p, const mba_analysis *a)
{
    *p = (proofs){ 0 };
    mba_status st = a->nlaunches && a->ncounters ? mba_verify(&p->plan, &p->nplans, a) : MBA_OK;
    if (st == MBA_OK) st = mba_blocks_of(a, &p->block, &p->nblocks);
    if (st == MBA_OK) st = mba_source_lines(&p->line, &p->nlines, a);
    if (st != MBA_OK) proofs_free(p);
    return st;
}

static const char *agreement(mba_agreement a)
{
    switch (a) {
    case MBA_AGREES: return "agrees";
    case MBA_AT_MOST: return "at most; the data decides";
    case MBA_LAGS: return "late writes: L2 delays them";
    case MBA_KEPT: return "L2 hits";
    case MBA_AGAIN: return "rereads, as planned";
    case MBA_DIFFERS: return "DIFFERS";
    default: return NULL;
    }
}

static void proof_fields(records *r, const mba_analysis *a, const mba_kernel_view *k, const proofs *p)
{
    const mba_verification *v = NULL;
    const mba_blocks_view  *b = NULL;
    for (int64_t i = 0; i < p->nblocks; i++) mba_debug_assert(p->block[i].kernel < a->nkernels);
    for (int64_t i = 0; i < p->nplans && !v; i++)
        if (p->plan[i].kernel == k && p->plan[i].launch) v = &p->plan[i];
    for (int64_t i = 0; i < p->nblocks && !b; i++)
        if (&a->kernel[p->block[i].kernel] == k) b = &p->block[i];
    field(r, "plan_tf", v && v->ours ? v->tensor_expected : NAN);
    field(r, "plan_b", v ? v->bytes_expected : NAN);
    text_field(r, "plan_tf_said", v && v->ours ? agreement(v->tensor) : NULL);
    text_field(r, "plan_bytes_said", v ? agreement(v->bytes) : NULL);
    field(r, "life_median", b ? 1e6 * b->median_s : NAN);
    field(r, "life_p95", b ? 1e6 * b->p95_s : NAN);
    field(r, "prologue", b ? 100 * b->prologue : NAN);
    field(r, "epilogue", b ? 100 * b->epilogue : NAN);
}

/* [place, % of the kernel's stall samples, reasons] of the lines where warps stall most. */
static void hot_field(records *r, const mba_kernel_view *k, const proofs *p)
{
    enum { SHOWN = 4 };
    double samples = 0;
    int    n = 0;
    if (!begin_field(r, "hot")) return;
    mba_buf_put(r->b, "[");
    for (int64_t i = 0; i < p->nlines; i++)
        if (p->line[i].kernel == k->row->id) samples += p->line[i].samples;
    for (int64_t i = 0; i < p->nlines && n < SHOWN; i++) {
        const mba_source_line *l = &p->line[i];
        const char            *file = l->file ? l->file : "?", *last = strrchr(file, '/');
        char                   place[160], waits[160];
        if (l->kernel != k->row->id || !(l->samples > 0)) continue;
        snprintf(place, sizeof place, "%.120s:%lld", last ? last + 1 : file, (long long)l->line);
        mba_source_waits(waits, sizeof waits, l, 2);
        mba_buf_put(r->b, n++ ? ",[" : "[");
        mba_buf_json(r->b, place);
        mba_buf_put(r->b, ",");
        mba_buf_json_number(r->b, 100 * l->samples / samples);
        mba_buf_put(r->b, ",");
        mba_buf_json(r->b, waits);
        mba_buf_put(r->b, "]");
    }
    mba_assert(n <= SHOWN);
    mba_buf_put(r->b, "]");
}

static void before_fields(records *r, const mba_stores *all, int run, const mba_kernel_view *k)
{
    const mba_kernel_view *was = mba_kernel_before(all, run, k);
    const mba_counted     *c = was ? &was->counted : NULL;
    const double util[] = { c ? c->dram_pct : NAN, c ? c->l1_pct : NAN, c ? c->tensor_pct : NAN, c ? c->fma_pct : NAN,
                            c ? c->alu_pct : NAN,  c ? c->xu_pct : NAN, c ? c->issue_pct : NAN };
    field(r, "was_us", was ? 1e6 * was->median_s : NAN);
    list_field(r, "was_util", util, 7);
}

static int number_of_remedy(records *r, const mba_advice *tip)
{
    for (int i = 0; i < r->nremedies; i++)
        if (r->remedy[i].remedy == tip->remedy && r->remedy[i].cause == tip->cause) return i;
    mba_assert(r->nremedies < NAMES_MAX);
    r->remedy[r->nremedies] = (remedy){ tip->cause, tip->remedy };
    return r->nremedies++;
}

/* [index of cause and remedy, evidence, saved of the kernel in %, saved of the step in %], the best first. */
static void advice_field(records *r, const mba_analysis *a, const mba_kernel_view *k)
{
    mba_advice tip[MBA_ADVICE_MAX];
    if (!begin_field(r, "advice")) return;
    const int n = mba_advice_of(a, k, tip);
    mba_buf_put(r->b, "[");
    for (int i = 0; i < n; i++) {
        mba_buf_add(r->b, "%s[%d,", i ? "," : "", number_of_remedy(r, &tip[i]));
        mba_buf_json(r->b, tip[i].evidence);
        mba_buf_put(r->b, ",");
        mba_buf_json_number(r->b, 100 * tip[i].kernel_saved);
        mba_buf_put(r->b, ",");
        mba_buf_json_number(r->b, 100 * tip[i].step_saved);
        mba_buf_put(r->b, "]");
    }
    mba_buf_put(r->b, "]");
}

static void record(records *r, const mba_stores *all, int run, const mba_kernel_view *k, int id, const proofs *p)
{
    mba_assert(run >= 0 && run < all->n && id >= 0);
    const mba_analysis *a = all->run[run].a;
    mba_buf_put(r->b, id && !r->keys ? ",\n[" : "[");
    r->any = false;
    field(r, "id", id);
    field(r, "run", run);
    text_field(r, "name", mba_kernel_label(a, k, 90).s);
    text_field(r, "symbol", k->row->symbol ? mba_short(k->row->symbol, SYMBOL).s : NULL);
    text_field(r, "op", k->row->op);
    text_field(r, "kind", mba_breakdown_kind_name(k->kind));
    text_field(r, "cls", mba_kernel_class_name(k->cls));
    text_field(r, "phase", k->row->phase);
    text_field(r, "shape", k->row->shape ? mba_short(k->row->shape, 300).s : NULL);
    field(r, "n", k->per_step);
    field(r, "ms", 1e3 * k->step_s);
    field(r, "us", 1e6 * k->median_s);
    field(r, "p10", 1e6 * k->p10_s);
    field(r, "p90", 1e6 * k->p90_s);
    field(r, "gap", 1e6 * k->gap_s);
    least_fields(r, a, k);
    geometry_fields(r, k->row);
    counted_fields(r, k);
    proof_fields(r, a, k, p);
    advice_field(r, a, k);
    hot_field(r, k, p);
    if (all->before) before_fields(r, all, run, k);
    mba_buf_put(r->b, "]");
}

static mba_status records_of(records *r, const mba_stores *all, int run, int *id)
{
    mba_chosen c;
    proofs     p;
    MBA_TRY(proofs_of(&p, all->run[run].a));
    const mba_status st = mba_choose(&c, all->run[run].a, every, most_of(all));
    if (st == MBA_OK) {
        for (int i = 0; i < c.n; i++) record(r, all, run, c.k[i], (*id)++, &p);
        free(c.k);
    }
    proofs_free(&p);
    return st;
}

mba_status mba_part_kernels_json(mba_buf *b, const mba_stores *r)
{
    static const mba_row_kernel  no_row;
    static const mba_kernel_view none = { .row = &no_row };
    records                     *out = calloc(1, sizeof *out);
    int                          id = 0;
    if (!out) return mba_fail(MBA_E_NOMEM, "no memory for the records of kernels");
    *out = (records){ .b = b, .keys = true };
    mba_buf_put(b, "{\"keys\":");
    record(out, r, 0, &none, 0, &(proofs){ 0 });
    out->keys = false;
    mba_buf_put(b, ",\n\"rows\":[");
    mba_status st = MBA_OK;
    for (int run = 0; run < r->shown && st == MBA_OK; run++) st = records_of(out, r, run, &id);
    mba_buf_put(b, "],\n\"stalls\":[");
    for (int i = 0; i < out->nstalls; i++) {
        if (i) mba_buf_put(b, ",");
        mba_buf_json(b, out->stall[i]);
    }
    mba_buf_put(b, "],\n\"remedies\":[");
    for (int i = 0; i < out->nremedies; i++) {
        mba_buf_put(b, i ? ",[" : "[");
        mba_buf_json(b, out->remedy[i].cause);
        mba_buf_put(b, ",");
        mba_buf_json(b, out->remedy[i].remedy);
        mba_buf_put(b, "]");
    }
    mba_buf_put(b, "]}");
    free(out);
    return st;
}
