// SPDX-License-Identifier: Apache-2.0
/* analysis.c -- see analysis.h: loading and names. The timeline is analysis_events.c, counters analysis_counters.c. */
#include <stdlib.h>
#include <string.h>

#include "core/print.h"
#include "core/sort.h"
#include "scope/analysis_parts.h"
#include "scope/ranks.h"
#include "scope/rules.h"

/* ---- names ---- */

const char *mba_breakdown_kind_name(int kind)
{
    mba_assert(kind >= 0 && kind < MBA_BREAKDOWN_KINDS);
    return kind < MBA_KINDS ? mba_kind_name((mba_kind)kind) : "other";
}

const char *mba_mode_words(const char *mode)
{
    static const struct {
        const char *mode, *words;
    } known[] = { { "plain", "without profiler" },
                  { "queued", "back to back" },
                  { "attached", "library attached" },
                  { "graph", "graph-traced" },
                  { "record", "graph-traced, on the GPU" },
                  { "timeline", "kernel-traced" },
                  { "settled", "cold L2" },
                  { "blocks", "block lifetimes" },
                  { "deep", "source" } };
    for (size_t i = 0; mode && i < sizeof known / sizeof *known; i++)
        if (!strcmp(mode, known[i].mode)) return known[i].words;
    return mode;
}

static int kind_of(const char *name)
{
    for (int k = 0; name && k < MBA_KINDS; k++)
        if (!strcmp(name, mba_kind_name((mba_kind)k))) return k;
    return MBA_OTHER;
}

const char *mba_phase_name(int phase)
{
    mba_assert(phase >= 0 && phase < MBA_PHASES);
    return (const char *const[]){ "forward", "backward", "update", "-" }[phase];
}

const char *mba_floor_name(mba_floor f)
{
    mba_assert(f < MBA_FLOORS);
    return (const char *const[]){ "memory", "tensor", "vector", "special" }[f];
}

const char *mba_kernel_class_name(mba_kernel_class c)
{
    mba_assert(c <= MBA_CLASS_COPY);
    return (const char *const[]){ "-", "tensor", "vector", "mixed", "copy" }[c];
}

/* ---- the sheet ---- */

static const mba_row_sheet *sheet_row(const mba_analysis *a, const char *key)
{
    for (int64_t i = 0; i < a->nsheet; i++)
        if (a->sheet_row[i].key && !strcmp(a->sheet_row[i].key, key)) return &a->sheet_row[i];
    return NULL;
}

const char *mba_env_find(const mba_analysis *a, const char *key)
{
    const mba_row_sheet *r = sheet_row(a, key);
    return r ? r->text : NULL;
}

double mba_env_value(const mba_analysis *a, const char *key)
{
    const mba_row_sheet *r = sheet_row(a, key);
    return r ? r->number : NAN;
}

const char *mba_env_unit(const mba_analysis *a, const char *key)
{
    const mba_row_sheet *r = sheet_row(a, key);
    return r && r->unit ? r->unit : "";
}

static const char *or_empty(const char *text) { return text ? text : ""; }

/* ---- ceilings ---- */

static mba_status read_ceilings(mba_analysis *a)
{
    mba_row_ceiling *row;
    int64_t          n;
    MBA_TRY(mba_load_ceiling(a->store, &row, &n));
    a->measured = a->sheet = a->best = (mba_rates){ NAN, NAN, NAN, NAN, NAN, NAN };
    for (int64_t i = 0; i < n; i++) {
        const bool measured = row[i].how && !strcmp(row[i].how, "measured");
        mba_rates *to = measured ? &a->measured : &a->sheet;
        const struct {
            const char *name;
            double     *at;
        } into[] = { { "dram", &to->dram },     { "l2", &to->l2 },   { "l1", &to->l1 },
                     { "tensor", &to->tensor }, { "fma", &to->fma }, { "special", &to->special } };
        for (size_t k = 0; k < sizeof into / sizeof *into; k++)
            if (row[i].name && !strcmp(row[i].name, into[k].name) && row[i].rate > 0) *into[k].at = row[i].rate;
    }
    const double *m = &a->measured.dram, *s = &a->sheet.dram;
    for (size_t k = 0; k < sizeof(mba_rates) / sizeof(double); k++) (&a->best.dram)[k] = isnan(m[k]) ? s[k] : m[k];
    return MBA_OK;
}

/* ---- steps ---- */

double mba__median(double *v, int64_t n)
{
    if (n <= 0) return NAN;
    mba_sort(v, n);
    return n % 2 ? v[n / 2] : 0.5 * (v[n / 2 - 1] + v[n / 2]);
}

double mba__quartile_distance(double *sorted, int64_t n)
{
    mba_debug_assert(n < 2 || !(sorted[n - 1] < sorted[0]));
    return n < 2 ? 0 : sorted[(3 * (n - 1) + 2) / 4] - sorted[(n - 1) / 4];
}

/* Copies the times of the steps of one mode into v, in order; returns how many. */
static int64_t steps_of(double *v, const mba_row_step *row, int64_t n, const char *mode)
{
    int64_t m = 0;
    for (int64_t i = 0; i < n; i++)
        if (row[i].mode && !strcmp(row[i].mode, mode)) v[m++] = row[i].seconds;
    return m;
}

/* v is room for all. */
static void read_spread(mba_analysis *a, double *v, const mba_row_step *row, int64_t rows)
{
    static const struct {
        const char *mode, *how;
    } modes[] = { { "plain", "without profiler" },
                  { "attached", "with our library attached" },
                  { "timeline", "of the timeline" } };
    a->spread = (mba_step_spread){ NAN, NAN, NAN, 0, "" };
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        const int64_t n = steps_of(v, row, rows, modes[i].mode);
        if (n < 2) continue;
        mba_assert(n <= rows);
        const double median = mba__median(v, n); // sorts
        a->spread = (mba_step_spread){ v[(n - 1) / 10], median, v[(n - 1) - (n - 1) / 10], n, modes[i].how };
        return;
    }
}

static mba_status read_steps(mba_analysis *a)
{
    mba_row_step *row;
    int64_t       n;
    MBA_TRY(mba_load_step(a->store, &row, &n));
    double *v = calloc((size_t)n + 1, sizeof *v);
    if (!v) return mba_fail(MBA_E_NOMEM, "no memory for %lld steps", (long long)n);
    a->units = mba_env_value(a, "run.units");
    const int64_t plain = steps_of(v, row, n, "plain");
    a->plain_s = mba__median(v, plain);
    a->plain_spread_s = plain ? mba__quartile_distance(v, plain) : NAN;
    a->timeline_s = mba__median(v, steps_of(v, row, n, "timeline"));
    a->whole_s = mba__median(v, steps_of(v, row, n, "graph"));
    a->record_s = mba__median(v, steps_of(v, row, n, "record"));
    a->queued_s = mba__median(v, steps_of(v, row, n, "queued"));
    a->attached_s = mba__median(v, steps_of(v, row, n, "attached"));
    a->record_cost_s = 1e-9 * mba_env_value(a, "timeline.record_cost");
    read_spread(a, v, row, n);
    free(v);
    return MBA_OK;
}

const char *mba_step_word(const mba_analysis *a) { return a->whole_program ? "whole program" : "step"; }

/* ---- the model ---- */

static mba_status read_model(mba_analysis *a)
{
    mba_row_parameter *p;
    int64_t            n;
    a->parameters = a->batch = "";
    MBA_TRY(mba_load_parameter(a->store, &p, &n));
    for (int64_t i = 0; i < n; i++) {
        if (!p[i].name || !p[i].value) continue;
        if (!strcmp(p[i].name, "parameters")) a->parameters = p[i].value;
        if (!strcmp(p[i].name, "batch")) a->batch = p[i].value;
    }
    return MBA_OK;
}

/* ---- all of it ---- */

static int by_kernel_and_metric(const void *x, const void *y)
{
    const mba_row_counter *a = x, *b = y;
    if (a->kernel != b->kernel) return a->kernel < b->kernel ? -1 : 1;
    const int metric = strcmp(or_empty(a->metric), or_empty(b->metric));
    return metric ? metric : strcmp(or_empty(a->metric_set), or_empty(b->metric_set));
}

/* Gives each kernel its range of the counters: both are sorted by kernel. */
static void deal_counters(mba_analysis *a)
{
    int64_t at = 0;
    if (a->ncounters) qsort(a->counter, (size_t)a->ncounters, sizeof *a->counter, by_kernel_and_metric);
    for (int64_t k = 0; k < a->nkernels; k++) {
        while (at < a->ncounters && a->counter[at].kernel < a->kernel[k].row->id) at++;
        a->kernel[k].counter = a->counter + at;
        while (at < a->ncounters && a->counter[at].kernel == a->kernel[k].row->id) at++, a->kernel[k].ncounters++;
        mba_debug_assert(at <= a->ncounters);
    }
}

/* Marks matrix products. Our graph computes the head inside the loss operator, so the library's products for it have
 * the class of the loss. The rules for kernel names recognise them, as they do in external programs. */
static mba_status mark_products(mba_analysis *a)
{
    mba_rules *rules;
    MBA_TRY(mba_rules_open(&rules, NULL));
    for (int64_t i = 0; i < a->nkernels; i++) {
        mba_kernel_view *k = &a->kernel[i];
        const char      *name = k->row->symbol ? k->row->symbol : k->row->name;
        const mba_rule  *rule = k->kind == MBA_EMBED_LOSS && name ? mba_rules_match(rules, name) : NULL;
        k->product = k->kind == MBA_GEMM || (rule && rule->kind == MBA_GEMM);
    }
    mba_rules_free(rules);
    return MBA_OK;
}

static mba_status read_kernels(mba_analysis *a)
{
    mba_row_kernel *row;
    MBA_TRY(mba_load_kernel(a->store, &row, &a->nkernels));
    a->kernel = calloc((size_t)a->nkernels + 1, sizeof *a->kernel);
    if (!a->kernel) return mba_fail(MBA_E_NOMEM, "no memory for %lld kernels", (long long)a->nkernels);
    for (int64_t i = 0; i < a->nkernels; i++) {
        a->kernel[i].row = &row[i];
        a->kernel[i].kind = kind_of(row[i].kind);
    }
    MBA_TRY(mark_products(a));
    deal_counters(a);
    return MBA_OK;
}

static mba_status analyse(mba_analysis *a)
{
    mba_store *s = a->store;
    MBA_TRY(mba_load_sheet(s, &a->sheet_row, &a->nsheet));
    MBA_TRY(mba_load_node(s, &a->node, &a->nnodes));
    MBA_TRY(mba_load_launch(s, &a->launch, &a->nlaunches));
    MBA_TRY(mba_load_counter(s, &a->counter, &a->ncounters));
    MBA_TRY(mba_load_note(s, &a->note, &a->nnotes));
    a->workload = or_empty(mba_env_find(a, "run.workload"));
    a->device = or_empty(mba_env_find(a, "run.device"));
    a->unit = or_empty(mba_env_find(a, "run.unit"));
    a->steps_found = !strcmp(or_empty(mba_env_find(a, "run.loop")), "found");
    a->whole_program = !strcmp(or_empty(mba_env_find(a, "run.loop")), "whole program");
    a->sms = mba_env_value(a, "gpu.sms");
    a->l2_bytes = mba_env_value(a, "gpu.l2");
    MBA_TRY(read_model(a));
    MBA_TRY(read_ceilings(a));
    MBA_TRY(read_steps(a));
    MBA_TRY(read_kernels(a));
    for (int64_t k = 0; k < a->nkernels; k++) mba__analysis_counted(a, &a->kernel[k]);
    MBA_TRY(mba__analysis_events(a));
    for (int64_t k = 0; k < a->nkernels; k++) mba__analysis_label(a, &a->kernel[k]);
    return MBA_OK;
}

mba_status mba_analysis_create(mba_analysis **out, mba_store *s)
{
    mba_analysis *a = calloc(1, sizeof *a);
    *out = NULL;
    if (!a) return mba_fail(MBA_E_NOMEM, "no memory for the analysis");
    a->store = s;
    mba_status st = analyse(a);
    if (st == MBA_OK) st = mba_ranks_read(&a->ranks, s);
    if (st == MBA_OK) *out = a;
    else mba_analysis_destroy(a);
    return st;
}

void mba_analysis_destroy(mba_analysis *a)
{
    if (!a) return;
    for (int i = 0; i < a->nops; i++) free(a->op[i]);
    free(a->op);
    free(a->kernel);
    mba_ranks_free(a->ranks);
    free(a);
}
