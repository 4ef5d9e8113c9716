// SPDX-License-Identifier: Apache-2.0
/* show_kernels.c -- tables with one row per kernel; the kernel with the longest time per step comes first. */
#include <stdlib.h>
#include <string.h>

#include "cli/show_tables.h"
#include "scope/blocks.h"
#include "study/advice.h"

enum { ROWS_OF_TEXT = 24, NAME_OF_TEXT = 30 };

/* ---- which kernels, in which order ---- */

typedef struct chosen {
    const mba_kernel_view **k;
    int64_t                 n;
} chosen;
typedef bool want_fn(const mba_kernel_view *k);

static int longest_first(const void *x, const void *y)
{
    const mba_kernel_view *a = *(const mba_kernel_view *const *)x, *b = *(const mba_kernel_view *const *)y;
    if (a->step_s != b->step_s) return a->step_s < b->step_s ? 1 : -1;
    return a->row->id < b->row->id ? -1 : 1;
}

static mba_status choose(chosen *c, const mba_analysis *a, want_fn *want, bool full)
{
    c->n = 0;
    c->k = calloc((size_t)a->nkernels + 1, sizeof *c->k);
    if (!c->k) return mba_fail(MBA_E_NOMEM, "no memory for %lld kernels", (long long)a->nkernels);
    for (int64_t i = 0; i < a->nkernels; i++)
        if (a->kernel[i].launches > 0 && want(&a->kernel[i])) c->k[c->n++] = &a->kernel[i];
    if (c->n) qsort(c->k, (size_t)c->n, sizeof *c->k, longest_first);
    if (!full && c->n > ROWS_OF_TEXT) c->n = ROWS_OF_TEXT;
    return MBA_OK;
}

static bool every(const mba_kernel_view *k)
{
    (void)k;
    return true;
}
static bool is_ssm(const mba_kernel_view *k) { return k->kind == MBA_SSM; }
static bool has_ratio(const mba_kernel_view *k) { return !isnan(k->ratio_a) || !isnan(k->ratio_b); }

static bool has_hits(const mba_kernel_view *k)
{
    return !isnan(k->counted.l1_hit_pct) || !isnan(k->counted.l2_hit_pct);
}

static bool has_warps(const mba_kernel_view *k)
{
    return !isnan(k->counted.occupancy_pct) || k->row->regs != MBA_ABSENT;
}

static bool has_blocks(const mba_kernel_view *k) { return !isnan(k->counted.block_s); }

static void name(mba_table *t, const mba_kernel_view *k, bool full)
{
    const char *text = k->row->name ? k->row->name : "?";
    mba_table_cut(t, text, full ? SIZE_MAX : NAME_OF_TEXT);
}

/* Fills a table: one row per wanted kernel, the name first. */
typedef void row_fn(mba_table *t, const mba_analysis *a, const mba_kernel_view *k, bool full);

static mba_status fill(mba_table *t, const mba_analysis *a, bool full, want_fn *want, row_fn *row)
{
    chosen c;
    MBA_TRY(choose(&c, a, want, full));
    for (int64_t i = 0; i < c.n; i++) {
        name(t, c.k[i], full);
        row(t, a, c.k[i], full);
    }
    free(c.k);
    return MBA_OK;
}

static double whole(int64_t v) { return v == MBA_ABSENT ? NAN : (double)v; }

static double product(int64_t x, int64_t y, int64_t z) { return whole(x) * whole(y) * whole(z); }

/* ---- kernels ---- */

const mba_column mba_kernel_columns[] = { { "kernel", "kernel", NULL },
                                          { "class", "class", NULL },
                                          { "launches", "per step", "%.0f" },
                                          { "step_ms", "ms/step", "%.3f" },
                                          { "median_us", "us", "%.1f" },
                                          { "p10_us", "p10", "%.1f" },
                                          { "p90_us", "p90", "%.1f" },
                                          { "percent_of_floor", "% of floor", "%.1f" },
                                          { "bound", "floor set by", NULL },
                                          { "busiest", "busiest unit", NULL },
                                          { "busiest_pct", "%", "%.0f" },
                                          { "shape", "shape", NULL },
                                          { 0 } };

static void kernel_row(mba_table *t, const mba_analysis *a, const mba_kernel_view *k, bool full)
{
    (void)a;
    mba_table_text(t, "%s", mba_breakdown_kind_name(k->kind));
    mba_table_number(t, k->per_step);
    mba_table_number(t, 1e3 * k->step_s);
    mba_table_number(t, 1e6 * k->median_s);
    mba_table_number(t, 1e6 * k->p10_s);
    mba_table_number(t, 1e6 * k->p90_s);
    mba_table_number(t, 100 * k->least_s / k->median_s);
    mba_table_text(t, "%s%s", isnan(k->least_s) ? "-" : mba_floor_name(k->bound), k->from_counters ? "*" : "");
    mba_table_text(t, "%s", k->busiest ? k->busiest : "-");
    mba_table_number(t, k->busiest_pct);
    mba_table_cut(t, k->row->shape ? k->row->shape : "", full ? SIZE_MAX : 40);
}

mba_status mba_fill_kernels(mba_table *t, const mba_analysis *a, bool full)
{
    return fill(t, a, full, every, kernel_row);
}

/* ---- unmatched ---- */

const mba_column mba_unmatched_columns[] = {
    { "kernel", "kernel", NULL }, { "step_ms", "ms/step", "%.3f" }, { "percent", "%", "%.2f" }, { 0 }
};

static bool is_unknown(const mba_kernel_view *k) { return k->kind == MBA_OTHER; }

/* Prints the full name, which a rule must match. */
mba_status mba_fill_unmatched(mba_table *t, const mba_analysis *a, bool full)
{
    chosen c;
    MBA_TRY(choose(&c, a, is_unknown, full));
    for (int64_t i = 0; i < c.n; i++) {
        const mba_row_kernel *r = c.k[i]->row;
        mba_table_cut(t, r->symbol ? r->symbol : r->name ? r->name : "?", full ? SIZE_MAX : 100);
        mba_table_number(t, 1e3 * c.k[i]->step_s);
        mba_table_number(t, 100 * c.k[i]->step_s / a->busy_s);
    }
    free(c.k);
    return MBA_OK;
}

/* ---- roofline ---- */

const mba_column mba_roofline_columns[] = { { "kernel", "kernel", NULL },
                                            { "gflop_s_least", "GFLOP/s", "%.1f" },
                                            { "least_flop_byte", "FLOP/byte", "%.2f" },
                                            { "tensor_gflop_s", "tensor*", "%.0f" },
                                            { "vector_gflop_s", "vector*", "%.0f" },
                                            { "dram_flop_byte", "/DRAM*", "%.2f" },
                                            { "l2_flop_byte", "/L2*", "%.2f" },
                                            { "l1_flop_byte", "/L1*", "%.2f" },
                                            { "floor_memory_us", "memory, us", "%.2f" },
                                            { "floor_tensor_us", "tensor, us", "%.2f" },
                                            { "floor_vector_us", "vector, us", "%.2f" },
                                            { "floor_special_us", "special, us", "%.2f" },
                                            { "percent_of_floor", "% of floor", "%.1f" },
                                            { 0 } };

static void roofline_row(mba_table *t, const mba_analysis *a, const mba_kernel_view *k, bool full)
{
    (void)a, (void)full;
    const mba_counted *x = &k->counted;
    const double       least = k->least.tensor_flops + k->least.vector_flops, vector = x->fp32_flops + x->half_flops,
                 both = x->tensor_flops + vector;
    const double s = isnan(x->time_s) ? k->median_s : x->time_s;
    mba_table_number(t, least / k->median_s / 1e9);
    mba_table_number(t, least / k->least.bytes);
    mba_table_number(t, x->tensor_flops / s / 1e9);
    mba_table_number(t, vector / s / 1e9);
    mba_table_number(t, both / x->dram_bytes);
    mba_table_number(t, both / x->l2_bytes);
    mba_table_number(t, both / x->l1_bytes);
    for (int f = 0; f < MBA_FLOORS; f++) mba_table_number(t, 1e6 * k->floor_s[f]);
    mba_table_number(t, 100 * k->least_s / k->median_s);
}

mba_status mba_fill_roofline(mba_table *t, const mba_analysis *a, bool full)
{
    return fill(t, a, full, every, roofline_row);
}

/* ---- Table II ---- */

const mba_column mba_class_columns[] = { { "kernel", "SSM kernel", NULL },
                                         { "kernel_class", "class", NULL },
                                         { "proof", "by", NULL },
                                         { "step_ms", "ms/step", "%.3f" },
                                         { "tensor_gflop", "tensor GFLOP", "%.3f" },
                                         { "fp32_gflop", "FP32 GFLOP", "%.3f" },
                                         { "half_gflop", "half GFLOP", "%.3f" },
                                         { "special_gop", "special G", "%.3f" },
                                         { "tensor_pct", "tensor %", "%.1f" },
                                         { "fma_pct", "FMA %", "%.1f" },
                                         { "alu_pct", "ALU %", "%.1f" },
                                         { "xu_pct", "special %", "%.1f" },
                                         { 0 } };

static void class_row(mba_table *t, const mba_analysis *a, const mba_kernel_view *k, bool full)
{
    (void)a, (void)full;
    const mba_counted *x = &k->counted;
    const bool         counted = k->cls_counted;
    mba_table_text(t, "%s", mba_kernel_class_name(k->cls));
    mba_table_text(t, "%s", counted ? "counters" : k->row->class ? "plan" : "least work");
    mba_table_number(t, 1e3 * k->step_s);
    mba_table_number(t, (counted ? x->tensor_flops : k->least.tensor_flops) / 1e9);
    mba_table_number(t, (counted ? x->fp32_flops : k->least.vector_flops) / 1e9);
    mba_table_number(t, (counted ? x->half_flops : NAN) / 1e9);
    mba_table_number(t, (counted ? x->special_ops : k->least.special_ops) / 1e9);
    mba_table_number(t, x->tensor_pct);
    mba_table_number(t, x->fma_pct);
    mba_table_number(t, x->alu_pct);
    mba_table_number(t, x->xu_pct);
}

mba_status mba_fill_classes(mba_table *t, const mba_analysis *a, bool full)
{
    return fill(t, a, full, is_ssm, class_row);
}

/* ---- ratios ---- */

const mba_column mba_ratio_columns[] = { { "kernel", "kernel", NULL },
                                         { "kernel_class", "class", NULL },
                                         { "ratio_a", "tensor:vector (a)", "%.2f" },
                                         { "ratio_b", "tensor:vector (b)", "%.2f" },
                                         { "ratio_special", "tensor:special", "%.1f" },
                                         { "hardware", "hardware (a)", "%.0f" },
                                         { "limits", "takes longer (a)", NULL },
                                         { 0 } };

static void ratio_row(mba_table *t, const mba_analysis *a, const mba_kernel_view *k, bool full)
{
    (void)full;
    const double hardware = mba_hardware_ratio(a);
    mba_table_text(t, "%s", mba_kernel_class_name(k->cls));
    mba_table_number(t, k->ratio_a);
    mba_table_number(t, k->ratio_b);
    mba_table_number(t, k->counted.tensor_flops / k->counted.special_ops);
    mba_table_number(t, hardware);
    mba_table_text(t, "%s", k->ratio_a < hardware ? "vector" : "tensor");
}

mba_status mba_fill_ratio(mba_table *t, const mba_analysis *a, bool full)
{
    return fill(t, a, full, has_ratio, ratio_row);
}

/* ---- caches ---- */

const mba_column mba_cache_columns[] = { { "kernel", "kernel", NULL },
                                         { "l1_hit_pct", "L1 hit %", "%.1f" },
                                         { "l2_hit_pct", "L2 hit %", "%.1f" },
                                         { "least_mb", "compulsory MB", "%.1f" },
                                         { "dram_mb", "DRAM MB", "%.1f" },
                                         { "l2_mb", "L2 MB", "%.1f" },
                                         { "l1_mb", "L1 MB", "%.1f" },
                                         { "dram_gb_s", "DRAM GB/s", "%.0f" },
                                         { "sectors_per_load", "sectors/load", "%.1f" },
                                         { "sectors_per_store", "/store", "%.1f" },
                                         { 0 } };

static void cache_row(mba_table *t, const mba_analysis *a, const mba_kernel_view *k, bool full)
{
    (void)a, (void)full;
    const mba_counted *x = &k->counted;
    mba_table_number(t, x->l1_hit_pct);
    mba_table_number(t, x->l2_hit_pct);
    mba_table_number(t, k->least.bytes / 1e6);
    mba_table_number(t, x->dram_bytes / 1e6);
    mba_table_number(t, x->l2_bytes / 1e6);
    mba_table_number(t, x->l1_bytes / 1e6);
    mba_table_number(t, x->dram_bytes / (isnan(x->time_s) ? k->median_s : x->time_s) / 1e9);
    mba_table_number(t, x->sectors_per_load);
    mba_table_number(t, x->sectors_per_store);
}

mba_status mba_fill_caches(mba_table *t, const mba_analysis *a, bool full)
{
    return fill(t, a, full, has_hits, cache_row);
}

/* ---- all of one launch ---- */

static void stall_text(mba_table *t, const mba_counted *c)
{
    char text[160] = "";
    for (int i = 0; i < 2 && c->stall[i]; i++) {
        const size_t n = strlen(text);
        const char  *end = strstr(c->stall[i], "_per_issue");
        snprintf(text + n, sizeof text - n, "%s%.*s %.1f", i ? ", " : "", end ? (int)(end - c->stall[i]) : 20,
                 c->stall[i], c->stalled[i]);
    }
    mba_table_text(t, "%s", *text ? text : "-");
}

const mba_column mba_counter_columns[] = { { "kernel", "kernel", NULL },
                                           { "grid", "grid", NULL },
                                           { "block", "block", "%.0f" },
                                           { "us", "us", "%.1f" },
                                           { "dram_mb", "DRAM MB", "%.1f" },
                                           { "dram_pct", "DRAM %", "%.0f" },
                                           { "l2_hit_pct", "L2 hit", "%.0f" },
                                           { "l1_hit_pct", "L1 hit", "%.0f" },
                                           { "tensor_pct", "tensor", "%.0f" },
                                           { "fma_pct", "FMA", "%.0f" },
                                           { "alu_pct", "ALU", "%.0f" },
                                           { "xu_pct", "XU", "%.0f" },
                                           { "l1_pct", "L1 path", "%.0f" },
                                           { "issue_pct", "issue", "%.0f" },
                                           { "occupancy_pct", "occupancy", "%.0f" },
                                           { "occupancy_limit", "limit", "%.0f" },
                                           { "regs", "regs", "%.0f" },
                                           { "smem_kb", "smem KB", "%.0f" },
                                           { "waves", "waves", "%.1f" },
                                           { "stalls", "main stalls", NULL },
                                           { 0 } };

static bool is_counted(const mba_kernel_view *k) { return k->ncounters > 0 && !isnan(k->counted.time_s); }

static void counter_row(mba_table *t, const mba_analysis *a, const mba_kernel_view *k, bool full)
{
    (void)a, (void)full;
    const mba_counted    *x = &k->counted;
    const mba_row_kernel *r = k->row;
    mba_table_text(t, "(%.0f, %.0f, %.0f)", whole(r->grid_x), whole(r->grid_y), whole(r->grid_z));
    mba_table_number(t, product(r->block_x, r->block_y, r->block_z));
    mba_table_number(t, 1e6 * x->time_s);
    mba_table_number(t, x->dram_bytes / 1e6);
    const double pct[] = { x->dram_pct, x->l2_hit_pct, x->l1_hit_pct, x->tensor_pct,    x->fma_pct,        x->alu_pct,
                           x->xu_pct,   x->l1_pct,     x->issue_pct,  x->occupancy_pct, r->occupancy_limit };
    for (size_t p = 0; p < sizeof pct / sizeof *pct; p++) mba_table_number(t, pct[p]);
    mba_table_number(t, whole(r->regs));
    mba_table_number(t, (whole(r->smem_static_bytes) + whole(r->smem_dynamic_bytes)) / 1024);
    mba_table_number(t, r->waves);
    stall_text(t, x);
}

mba_status mba_fill_counters(mba_table *t, const mba_analysis *a, bool full)
{
    return fill(t, a, full, is_counted, counter_row);
}

/* ---- occupancy ---- */

const mba_column mba_occupancy_columns[] = { { "kernel", "kernel", NULL },
                                             { "grid", "blocks", "%.0f" },
                                             { "block", "threads", "%.0f" },
                                             { "regs", "regs", "%.0f" },
                                             { "smem_kb", "smem KB", "%.1f" },
                                             { "local_bytes", "local B", "%.0f" },
                                             { "waves", "waves", "%.2f" },
                                             { "occupancy_pct", "occupancy %", "%.1f" },
                                             { "occupancy_limit", "limit %", "%.0f" },
                                             { "limiter", "limited by", NULL },
                                             { "issue_pct", "issue %", "%.1f" },
                                             { "stalls", "stalls, warps per issue", NULL },
                                             { 0 } };

static void occupancy_row(mba_table *t, const mba_analysis *a, const mba_kernel_view *k, bool full)
{
    (void)a, (void)full;
    const mba_row_kernel *r = k->row;
    mba_table_number(t, product(r->grid_x, r->grid_y, r->grid_z));
    mba_table_number(t, product(r->block_x, r->block_y, r->block_z));
    mba_table_number(t, whole(r->regs));
    mba_table_number(t, (whole(r->smem_static_bytes) + whole(r->smem_dynamic_bytes)) / 1024);
    mba_table_number(t, whole(r->local_bytes));
    mba_table_number(t, r->waves);
    mba_table_number(t, k->counted.occupancy_pct);
    mba_table_number(t, r->occupancy_limit);
    mba_table_text(t, "%s", r->limiter ? r->limiter : "-");
    mba_table_number(t, k->counted.issue_pct);
    stall_text(t, &k->counted);
}

mba_status mba_fill_occupancy(mba_table *t, const mba_analysis *a, bool full)
{
    return fill(t, a, full, has_warps, occupancy_row);
}

/* ---- blocks ---- */

const mba_column mba_block_columns[] = { { "kernel", "kernel", NULL },
                                         { "how", "by", NULL },
                                         { "blocks", "blocks", "%.0f" },
                                         { "mean_us", "mean, us", "%.2f" },
                                         { "median_us", "median", "%.2f" },
                                         { "p95_us", "p95", "%.2f" },
                                         { "prologue_pct", "prologue %", "%.1f" },
                                         { "epilogue_pct", "epilogue %", "%.1f" },
                                         { "block_bytes", "bytes/block", "%.0f" },
                                         { 0 } };

static void lifetimes(mba_table *t, const mba_kernel_view *k, const mba_blocks_view *b)
{
    const double bytes = isnan(k->counted.dram_bytes) ? k->least.bytes : k->counted.dram_bytes,
                 blocks = b ? (double)b->blocks : k->counted.blocks;
    mba_table_text(t, "%s", b ? "records" : "counters");
    mba_table_number(t, blocks);
    mba_table_number(t, 1e6 * (b ? b->mean_s : k->counted.block_s));
    mba_table_number(t, b ? 1e6 * b->median_s : NAN);
    mba_table_number(t, b ? 1e6 * b->p95_s : NAN);
    mba_table_number(t, b ? 100 * b->prologue : NAN);
    mba_table_number(t, b ? 100 * b->epilogue : NAN);
    mba_table_number(t, bytes / (isnan(k->counted.blocks) ? blocks : k->counted.blocks));
}

static void counted_lifetimes(mba_table *t, const mba_analysis *a, const mba_kernel_view *k, bool full)
{
    (void)a, (void)full;
    lifetimes(t, k, NULL);
}

mba_status mba_fill_blocks(mba_table *t, const mba_analysis *a, bool full)
{
    mba_blocks_view *b = NULL;
    int64_t          n;
    MBA_TRY(mba_blocks_of(a, &b, &n));
    for (int64_t i = 0; i < n; i++) {
        name(t, &a->kernel[b[i].kernel], full);
        lifetimes(t, &a->kernel[b[i].kernel], &b[i]);
    }
    free(b);
    return fill(t, a, full, has_blocks, counted_lifetimes);
}

/* ---- advice ---- */

const mba_column mba_advice_columns[] = { { "kernel", "kernel", NULL },
                                          { "rank", "rank", "%.0f" },
                                          { "cause", "cause", NULL },
                                          { "kernel_saved_pct", "kernel %", "%.0f" },
                                          { "step_saved_pct", "step %", "%.1f" },
                                          { "evidence", "evidence", NULL },
                                          { "remedy", "what to try", NULL },
                                          { 0 } };

mba_status mba_fill_advice(mba_table *t, const mba_analysis *a, bool full)
{
    chosen c;
    MBA_TRY(choose(&c, a, is_counted, full));
    for (int64_t i = 0; i < c.n; i++) {
        mba_advice tip[MBA_ADVICE_MAX];
        const int  n = mba_advice_of(a, c.k[i], tip);
        for (int r = 0; r < (full || n < 2 ? n : 2); r++) {
            name(t, c.k[i], full);
            mba_table_number(t, r + 1);
            mba_table_text(t, "%s", tip[r].cause);
            mba_table_number(t, 100 * tip[r].kernel_saved);
            mba_table_number(t, 100 * tip[r].step_saved);
            mba_table_text(t, "%s", tip[r].evidence);
            mba_table_text(t, "%s", tip[r].remedy);
        }
    }
    free(c.k);
    return MBA_OK;
}
