// SPDX-License-Identifier: Apache-2.0
/* bench.c -- `mambascope bench ceilings | op | step | power | gemm | decode | links`: rates of the machine, and times
 * of operators and steps against their floors. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/bench_links.h"
#include "cli/bench_power.h"
#include "cli/cliffs.h"
#include "cli/command.h"
#include "cli/measure.h"
#include "cli/model_options.h"
#include "cli/options.h"
#include "cli/table.h"
#include "core/check.h"
#include "core/print.h"
#include "data/image_bench.h"
#include "device/cuda/gemm_candidates.h"
#include "train/feed.h"

static const double CEILING_S = 0.5; // per rate

typedef struct bench_options {
    bool              json, csv, memory;
    int64_t           repeats, hold_ms;
    const char       *out;
    mba_model_options model;
} bench_options;

static mba_table_form form_of(const bench_options *o) { return mba_table_form_of(o->json, o->csv); }

/* ---- ceilings ---- */

static mba_status ceilings_of(mba_ceilings *c, const mba_session_options *so)
{
    if (so->device != &mba_device_cpu) return mba_ceilings_measure_cuda(c, so->compute, so->tf32);
    return mba_ceilings_measure(c, CEILING_S);
}

static mba_status bench_ceilings(const bench_options *o)
{
    mba_table          *t;
    mba_ceilings        c;
    mba_session_options so = { 0 };
    MBA_TRY(mba_run_options_apply(&o->model, &so));
    MBA_TRY(ceilings_of(&c, &so));
    MBA_TRY(mba_table_create(&t, (const mba_column[]){ { "ceiling", "ceiling", NULL },
                                                       { "rate", "rate", "%.2f" },
                                                       { "unit", "unit", NULL },
                                                       { "how", "how", NULL },
                                                       { 0 } }));
    const struct {
        const char *name;
        double      rate;
        const char *unit, *how;
    } rows[] = {
        { "stream", c.stream_bytes / 1e9, "GB/s", "copy of arrays far larger than the caches, bytes read + written" },
        { "fma", c.fma_flops / 1e9, "GFLOP/s", "independent fp32 FMA chains in registers; an FMA is 2" },
        { "exp", c.exp_ops / 1e9, "G/s",
          "our vector exp over an array in L1; ex2 of the GPU's "
          "special-function units" },
        { "tensor", c.tensor_flops / 1e9, "GFLOP/s",
          "an 8192^3 matrix product of random numbers by the GPU's library" },
    };
    for (int i = 0; i < (c.tensor_flops > 0 ? 4 : 3); i++) {
        mba_table_text(t, "%s", rows[i].name);
        mba_table_number(t, rows[i].rate);
        mba_table_text(t, "%s", rows[i].unit);
        mba_table_text(t, "%s", rows[i].how);
    }
    const mba_status st = mba_table_print(t, stdout, form_of(o));
    mba_table_destroy(t);
    return st;
}

/* ---- above 100 % of floor ---- */

static bool any_above; /* some row is above 100 %: a line under the table says why */

static double percent_of_floor(double floor_s, double s)
{
    any_above |= floor_s > 1.005 * s;
    return 100 * floor_s / s;
}

static void explain_above(const char *cached)
{
    if (any_above)
        printf("(above 100 %% of floor: %s; or its reads and writes mix better than those of the copy that sets the "
               "memory ceiling; or "
               "its clock is higher than that of the large product that sets the tensor ceiling)\n",
               cached);
}

/* ---- op ---- */

#define OP_COLUMNS \
    { "operator", "operator", NULL }, { "case", "case", NULL }, { "ms", "ms", "%.3f" }, { "gb_s", "GB/s", "%.1f" }, \
        { "gflop_s", "GFLOP/s", "%.1f" }, { "percent_of_floor", "% of floor", "%.1f" }, \
    { \
        "bound", "floor set by", NULL \
    }
static const mba_column op_columns[] = { OP_COLUMNS, { 0 } };
static const mba_column copy_columns[] = {
    OP_COLUMNS, { "copy_ms", "copy of as many bytes, ms", "%.4f" }, { "percent_of_copy", "% of copy", "%.1f" }, { 0 }
};

/* With --memory-copies, only memory-bound operators have a row, each with the time of a copy of as many bytes. */
static mba_status op_row(mba_table *t, const mba_ceilings *c, const mba_device *d, const bench_options *bo,
                         const mba_node *n, const char *note, double s)
{
    const mba_cost k = n->op->cost(n);
    const double   bytes = k.read_bytes + k.write_bytes, flops = k.tensor_flops + k.vector_flops;
    double         copy_s = 0;
    if (bo->memory && !mba_ceilings_memory_bound(c, k)) return MBA_OK;
    if (bo->memory) MBA_TRY(mba_measure_copy(&copy_s, d, bytes, (int)bo->repeats + 1));
    mba_table_text(t, "%s", n->op->name);
    mba_table_text(t, "%s", note);
    mba_table_number(t, 1e3 * s);
    mba_table_number(t, bytes / s / 1e9);
    mba_table_number(t, flops / s / 1e9);
    mba_table_number(t, percent_of_floor(mba_ceilings_floor(c, k), s));
    mba_table_text(t, "%s", mba_ceilings_memory_bound(c, k) ? "memory" : "arithmetic");
    if (!bo->memory) return MBA_OK;
    mba_table_number(t, 1e3 * copy_s);
    mba_table_number(t, 100 * copy_s / s);
    return MBA_OK;
}

/* Whether the operator saves outputs for its gradient that it does not compute otherwise. */
static bool keeps(const mba_graph *g, const mba_op *op)
{
    bool any = false;
    for (int32_t i = 0; i < g->nnodes; i++)
        for (int k = 0; k < MBA_OUT_MAX; k++) any |= g->nodes[i]->op == op && g->nodes[i]->out[k] && op->out[k].saved;
    return any;
}

/* Times both directions. *again: the forward pass alone does less, so that it is timed too. */
static mba_status bench_case(mba_table *t, const mba_ceilings *c, const mba_session_options *so, const mba_op *op,
                             const mba_case *size, const bench_options *bo, bool alone, bool *again)
{
    static const mba_step step = { .seed = 1, .lr = 1e-3f };
    mba_case_graph        o;
    mba_program          *p = NULL;
    char                  note[160];
    snprintf(note, sizeof note, "%s%s", size->note, alone ? ", alone" : "");
    MBA_TRY(mba_case_build(&o, op, size, (mba_case_how){ .compute = so->compute, .tf32 = so->tf32, .alone = alone }));
    *again = !alone && keeps(o.g, op);
    double                   *best = calloc((size_t)o.g->nnodes + 1, sizeof *best);
    const mba_program_options how = { .cuda = so->device->machine->cc > 0,
                                      .machine = so->device->machine,
                                      .variants = so->variants };
    mba_status                st = best ? mba_program_create(&p, o.g, &how) : mba_fail(MBA_E_NOMEM, "no memory");
    if (st == MBA_OK) st = mba_program_bind(p, so->device);
    if (st == MBA_OK) st = mba_program_init(p, 1);
    if (st == MBA_OK) {
        mba_fill_inputs(p);
        st = mba_measure_nodes(best, p, alone ? MBA_FORWARD : MBA_FORWARD | MBA_BACKWARD, &step, (int)bo->repeats + 1,
                               true);
        for (int32_t i = 0; i < o.g->nnodes && st == MBA_OK; i++) // what only evaluation runs
            if (o.g->nodes[i]->elided_in)
                st = mba_measure_nodes(best, p, MBA_FORWARD, &step, (int)bo->repeats + 1, true);
    }
    for (int32_t i = 0; st == MBA_OK && i < o.g->nnodes; i++) {
        const mba_node *n = o.g->nodes[i];
        if (n->op == op || (n->serves_node && n->serves_node->op == op && n->op->kind != MBA_MEMORY))
            st = op_row(t, c, so->device, bo, n, note, best[i]);
    }
    free(best);
    mba_program_destroy(p);
    mba_graph_destroy(o.g);
    return st;
}

static void print_ceilings(const mba_ceilings *c, const mba_device *d)
{
    printf("ceilings of this run: stream %.1f GB/s, FMA %.1f GFLOP/s, exp %.2f G/s, ", c->stream_bytes / 1e9,
           c->fma_flops / 1e9, c->exp_ops / 1e9);
    if (c->tensor_flops > 0) printf("tensor %.1f GFLOP/s, %s\n", c->tensor_flops / 1e9, d->name);
    else printf("%d threads, %s\n", mba_cpu_threads(), mba_cpu_isa_name());
    explain_above("the cache still held results when the timer stopped");
}

/* The sizes to time of an operator that is named, or of every operator if none is. */
static const mba_case *sizes_wanted(const mba_op *op, const mba_operands *words)
{
    bool wanted = words->n == 1;
    for (int w = 1; w < words->n; w++) wanted |= !strcmp(words->word[w], op->name);
    return wanted ? op->sizes : NULL;
}

/* Rows are printed as they are measured, so columns get the width of the widest row before the first one. */
static void widen_for(mba_table *t, const mba_operands *words)
{
    enum { BWD = 4, ALONE = 7, MS = 10, RATE = 8 }; // "_bwd", ", alone", 123456.789, 123456.7
    for (int i = 0; mba_ops[i]; i++)
        for (const mba_case *k = sizes_wanted(mba_ops[i], words); k && k->note; k++) {
            mba_table_widen(t, 0, (int)strlen(mba_ops[i]->name) + BWD);
            mba_table_widen(t, 1, (int)strlen(k->note) + ALONE);
        }
    mba_table_widen(t, 2, MS);
    mba_table_widen(t, 3, RATE);
    mba_table_widen(t, 4, RATE);
    mba_table_widen(t, 6, (int)strlen("arithmetic"));
}

static mba_status bench_ops(const bench_options *o, const mba_operands *words)
{
    mba_table *t;
    for (int w = 1; w < words->n; w++) {
        const mba_op *op;
        MBA_TRY(mba_op_named(&op, words->word[w]));
        if (!op->sizes || !op->sizes->note)
            return mba_fail(
                MBA_E_ARG, "%s has no size worth timing by itself\nfix: time it in a model, with mambascope bench step",
                words->word[w]);
    }
    MBA_TRY(mba_table_create(&t, o->memory ? copy_columns : op_columns));
    widen_for(t, words);
    mba_session_options so = { 0 };
    mba_ceilings        c;
    mba_status          st = mba_run_options_apply(&o->model, &so);
    if (st == MBA_OK) st = ceilings_of(&c, &so);
    for (int i = 0; mba_ops[i] && st == MBA_OK; i++) {
        for (const mba_case *k = sizes_wanted(mba_ops[i], words); k && k->note && st == MBA_OK; k++) {
            bool again;
            st = bench_case(t, &c, &so, mba_ops[i], k, o, false, &again);
            if (st == MBA_OK) st = mba_table_flow(t, stdout, form_of(o), false);
            if (st == MBA_OK && again) st = bench_case(t, &c, &so, mba_ops[i], k, o, true, &again);
            if (st == MBA_OK) st = mba_table_flow(t, stdout, form_of(o), false);
        }
    }
    if (st == MBA_OK) st = mba_table_flow(t, stdout, form_of(o), true);
    if (st == MBA_OK && form_of(o) == MBA_TABLE_TEXT) print_ceilings(&c, so.device);
    mba_table_destroy(t);
    return st;
}

/* ---- step ---- */

static const mba_column breakdown_columns[] = { { "operator", "operator", NULL },
                                                { "kind", "kind", NULL },
                                                { "pass", "pass", NULL },
                                                { "nodes", "nodes", "%.0f" },
                                                { "ms", "ms", "%.2f" },
                                                { "percent", "% of step", "%.1f" },
                                                { "percent_of_floor", "% of floor", "%.1f" },
                                                { 0 } };

/* One row per operator and pass, the longest first. */
static void print_breakdown(mba_table *t, const mba_session *s, const mba_step_times *r)
{
    typedef struct group {
        const mba_op *op;
        mba_pass      pass;
        int           n;
        double        s, floor;
    } group;
    group g[128];
    int   n = 0;
    for (int32_t i = 0; i < s->graph->nnodes; i++) {
        const mba_node *node = s->graph->nodes[i];
        int             k = 0;
        if (!mba_runs(node, MBA_STEP)) continue;
        while (k < n && !(g[k].op == node->op && g[k].pass == node->pass)) k++;
        if (k == n) {
            mba_assert(n < 128);
            g[n++] = (group){ node->op, node->pass, 0, 0, 0 };
        }
        g[k].n++;
        g[k].s += r->node_s[i];
        g[k].floor += r->node_floor_s[i];
    }
    for (int k = 0; k < n; k++) {
        int top = k;
        for (int j = k + 1; j < n; j++)
            if (g[j].s > g[top].s) top = j;
        const group x = g[top];
        g[top] = g[k];
        mba_table_text(t, "%s", x.op->name);
        mba_table_text(t, "%s", mba_kind_name(x.op->kind));
        mba_table_text(t, "%s", mba_pass_name(x.pass));
        mba_table_number(t, x.n);
        mba_table_number(t, 1e3 * x.s);
        mba_table_number(t, 100 * x.s / r->nodes_s);
        mba_table_number(t, percent_of_floor(x.floor, x.s));
    }
}

// clang-format off
#define STEP_COLUMNS(a, b, unit) \
    { { "model", "model", NULL }, { a, a, "%.0f" }, { b, b, "%.0f" }, { "step_ms", "best, ms", "%.1f" }, \
      { "median_ms", "median, ms", "%.1f" }, { "host_ms", "host, ms", "%.3f" }, \
      { "gemm_ms", "GEMMs alone, ms", "%.1f" }, \
      { "ratio", "step / GEMMs", "%.3f" }, { unit "_per_s", unit "/s", "%.1f" }, \
      { "percent_of_floor", "% of floor", "%.1f" }, { 0 } }
// clang-format on
static const mba_column step_columns[MBA_TASKS][11] = {
    STEP_COLUMNS("batch", "length", "tokens"),
    STEP_COLUMNS("batch", "image", "images"),
    STEP_COLUMNS("graphs", "nodes", "graphs"),
};

static void step_row(mba_table *t, const mba_session *s, const mba_step_times *r)
{
    const mba_model *m = &s->model;
    const int64_t    size[MBA_TASKS][2] = { { m->lm.batch, m->lm.length },
                                            { m->vision.batch, m->vision.image },
                                            { m->graph.graphs, m->graph.nodes } };
    mba_table_text(t, "%s", mba_model_name(m));
    mba_table_number(t, (double)size[m->task][0]);
    mba_table_number(t, (double)size[m->task][1]);
    mba_table_number(t, 1e3 * r->step_s);
    mba_table_number(t, 1e3 * r->median_s);
    mba_table_number(t, 1e3 * r->host_s);
    mba_table_number(t, 1e3 * r->gemm_s);
    mba_table_number(t, r->step_s / r->gemm_s);
    mba_table_number(t, r->units / r->median_s); // training has no best step
    mba_table_number(t, 100 * r->floor_s / r->median_s);
}

static mba_status bench_step(const bench_options *o)
{
    mba_table          *t = NULL, *parts = NULL;
    mba_session         s = { 0 };
    mba_step_times      r = { 0 };
    mba_session_options so = { .backward = true, .update = true };
    so.adamw = mba_adamw_defaults();
    MBA_TRY(mba_model_options_apply(&o->model, &so));
    mba_ceilings c;
    MBA_TRY(ceilings_of(&c, &so));
    mba_status st = mba_table_create(&t, step_columns[so.model.task]);
    if (st == MBA_OK) st = mba_table_create(&parts, breakdown_columns);
    if (st == MBA_OK) st = mba_session_plan(&s, &so);
    if (st == MBA_OK) mba_cliffs_tell(&so);
    if (st == MBA_OK) st = mba_session_bind(&s, 1);
    if (st == MBA_OK) st = mba_measure_step(&r, &s, &c, (int)o->repeats);
    if (st == MBA_OK) {
        print_breakdown(parts, &s, &r);
        step_row(t, &s, &r);
        if (form_of(o) == MBA_TABLE_TEXT) {
            st = mba_table_print(parts, stdout, MBA_TABLE_TEXT);
            explain_above("the cache held operands that the floor counts as memory traffic");
            putchar('\n');
        }
        if (st == MBA_OK) st = mba_table_print(t, stdout, form_of(o));
    }
    free(r.node_s);
    free(r.node_floor_s);
    mba_session_end(&s);
    mba_table_destroy(parts);
    mba_table_destroy(t);
    return st;
}

/* ---- gemm ---- */

static const mba_column gemm_columns[] = {
    { "product", "product", NULL },       { "form", "form", NULL },     { "calls", "calls", "%.0f" },
    { "candidate", "candidate", "%.0f" }, { "us", "us", "%.1f" },       { "tflop_s", "TFLOP/s", "%.0f" },
    { "gain", "gain, %", "%.1f" },        { "kernel", "kernel", NULL }, { 0 }
};

/* Sums of a step as chosen and at best, then of the product at hand: the library's first candidate, the one in use, the
 * best. */
typedef struct gemm_rows {
    mba_table *t;
    double     chosen, best, first, now, least;
    int64_t    calls;
} gemm_rows;

/* The sums of the product before, whose candidates are all there. */
static void end_product(gemm_rows *r)
{
    r->chosen += (double)r->calls * r->now;
    r->best += (double)r->calls * r->least;
    r->now = r->least = 0;
}

static void gemm_row(void *ctx, const mba_cuda_gemm_candidate *p)
{
    gemm_rows *r = ctx;
    if (p->rank == 0) {
        end_product(r);
        r->calls = p->calls;
        r->first = p->seconds;
    }
    if (p->rank == p->used) r->now = p->seconds;
    if (p->seconds > 0 && (r->least <= 0 || p->seconds < r->least)) r->least = p->seconds;
    mba_table_text(r->t, "%lld x %lld x %lld", (long long)p->m, (long long)p->n, (long long)p->k);
    mba_table_text(r->t, "%s %s %s -> %s%s", p->ta ? "A^T" : "A", p->tb ? "B^T" : "B",
                   mba_precision_name(p->in, p->tf32), mba_precision_name(p->out, false),
                   p->adds   ? ", adds"
                   : p->bias ? ", bias"
                             : "");
    mba_table_number(r->t, (double)p->calls);
    mba_table_number(r->t, p->rank);
    mba_table_number(r->t, 1e6 * p->seconds);
    mba_table_number(r->t, 2e-12 * (double)p->m * (double)p->n * (double)p->k / p->seconds);
    mba_table_number(r->t, 100 * (r->first / p->seconds - 1));
    const mba_cuda_algorithm *a = &p->is; // in the order of gemm_choices.def
    mba_table_text(r->t, "%s%d, %d, %d, %d, %d, %d, %d, %d; %zu B", p->rank == p->used ? "used: " : "", a->id, a->tile,
                   a->stages, a->split, a->swizzle, a->option, a->inner, a->cluster, p->work_bytes);
}

/* Every product of a step by each of the library's first candidates. */
static mba_status bench_gemm(const bench_options *o)
{
    enum { CANDIDATES = 8 };
    gemm_rows           r = { 0 };
    mba_session         s = { 0 };
    mba_session_options so = { .backward = true, .update = true };
    mba_step            step = { .seed = 1, .lr = 1e-4f };
    so.adamw = mba_adamw_defaults();
    MBA_TRY(mba_model_options_apply(&o->model, &so));
    if (so.device == &mba_device_cpu)
        return mba_fail(MBA_E_ARG, "bench gemm times kernels of the GPU's library\nfix: add --device cuda");
    mba_status st = mba_table_create(&r.t, gemm_columns);
    if (st == MBA_OK) st = mba_session_plan(&s, &so);
    if (st == MBA_OK) st = mba_session_bind(&s, 1);
    if (st == MBA_OK) st = mba_feed_example(&s, &step);
    if (st == MBA_OK) st = mba_program_run(s.program, MBA_STEP, &step, NULL);
    if (st == MBA_OK) st = so.device->wait();
    if (st == MBA_OK)
        st = mba_cuda_gemm_candidates(CANDIDATES, (int)o->repeats, 1e-3 * (double)o->hold_ms, gemm_row, &r);
    end_product(&r);
    if (st == MBA_OK) st = mba_table_print(r.t, stdout, form_of(o));
    if (st == MBA_OK && form_of(o) == MBA_TABLE_TEXT)
        printf("matrix products of a step: %.2f ms as chosen, %.2f ms with the best of %d candidates each\n",
               1e3 * r.chosen, 1e3 * r.best, CANDIDATES);
    mba_session_end(&s);
    mba_table_destroy(r.t);
    return st;
}

/* ---- decode ---- */

static const mba_column decode_columns[] = { { "recipe", "recipe", NULL },
                                             { "threads", "threads", "%.0f" },
                                             { "images", "images", "%.0f" },
                                             { "images_per_s_per_core", "images/s per core", "%.1f" },
                                             { "images_per_cpu_s", "images/s of CPU time", "%.1f" },
                                             { "images_per_s", "images/s", "%.1f" },
                                             { "file_kb", "file, kB", "%.1f" },
                                             { 0 } };

static mba_status decode_row(mba_table *t, const char *recipe, int threads, bool plain, bool png, int64_t repeats)
{
    const mba_image_bench_options how = { .threads = threads, .plain = plain, .png = png, .seconds = 0.5 };
    mba_image_bench               b = { 0 }, run;
    for (int64_t i = 0; i < repeats; i++) {
        MBA_TRY(mba_image_bench_run(&run, &how));
        if (run.images_per_s > b.images_per_s) b = run;
    }
    mba_table_text(t, "%s", recipe);
    mba_table_number(t, threads);
    mba_table_number(t, (double)b.images);
    mba_table_number(t, b.images_per_s);
    mba_table_number(t, b.images_per_cpu_s);
    mba_table_number(t, b.images_per_s * threads);
    mba_table_number(t, 1e-3 * b.file_bytes);
    return MBA_OK;
}

/* Times the reading of image files as training reads them, by one core and by all of them. */
static mba_status bench_decode(const bench_options *o)
{
    mba_table          *t;
    mba_session_options so = { 0 };
    MBA_TRY(mba_run_options_apply(&o->model, &so));
    MBA_TRY(mba_table_create(&t, decode_columns));
    const int  all = mba_cpu_threads();
    mba_status st = MBA_OK;
    for (int threads = 1; st == MBA_OK && threads <= all; threads = threads == 1 && all > 1 ? all : all + 1) {
        st = decode_row(t, "decode, crop, augment, normalise", threads, false, false, o->repeats);
        if (st == MBA_OK) st = decode_row(t, "decode, crop, normalise", threads, true, false, o->repeats);
        if (st == MBA_OK) st = decode_row(t, "the same for PNG files", threads, true, true, o->repeats);
    }
    if (st == MBA_OK) st = mba_table_print(t, stdout, form_of(o));
    mba_table_destroy(t);
    return st;
}

/* Refuses options that the benchmark would ignore: operators have sizes of their own, and only `step` and `gemm` use a
 * model. */
static mba_status check_options(const bench_options *o, const char *what)
{
    static const char *const known[] = { "ceilings", "op", "step", "power", "gemm", "decode", "links" };
    const mba_batch_shape    none = { 0 };
    bool                     is_known = false;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) is_known |= !strcmp(what, known[i]);
    if (!is_known) return MBA_OK; // the caller says so
    const bool  model = !strcmp(what, "step") || !strcmp(what, "gemm"), op = !strcmp(what, "op");
    const bool  links = !strcmp(what, "links");
    const char *with = !model && o->model.name                                 ? "--model"
                       : !model && o->model.set                                ? "--set"
                       : !model && memcmp(&o->model.shape, &none, sizeof none) ? "a size"
                       : !model && o->model.memory                             ? "--memory"
                       : !model && o->model.recompute                          ? "--recompute"
                       : !model && !op && o->model.variants                    ? "--op"
                       : !op && o->memory                                      ? "--memory-copies"
                       : o->hold_ms && strcmp(what, "gemm")                    ? "--hold"
                       : o->out && !links                                      ? "--out"
                       : links && o->model.device                              ? "--device"
                       : links && o->model.precision                           ? "--precision"
                       : links && o->model.threads                             ? "--threads"
                                                                               : NULL;
    return with ? mba_fail(MBA_E_ARG, "bench %s does not use %s\nfix: %s", what, with,
                           model || !op ? "leave it out" : "leave it out, or use bench step --model NAME")
                : MBA_OK;
}

mba_status mba_command_bench(int argc, char **argv)
{
    bench_options    o = { .repeats = 5 };
    bool             help;
    const mba_option options[] = {
        MBA_OPTION_GROUP("Measurement"),
        { "--repeats", MBA_OPT_INT, &o.repeats, "N", "number of runs, of which the fastest counts [5]", 1, 1000 },
        { "--out", MBA_OPT_TEXT, &o.out, "FILE.ini", "links: also write a cluster file, for simulate --cluster", 0, 0 },
        { "--memory-copies", MBA_OPT_FLAG, &o.memory, NULL,
          "op: time only memory-bound operators, each beside a copy of as many bytes", 0, 0 },
        MBA_OPTION_ALIAS("--copies", "--memory-copies"),
        { "--hold", MBA_OPT_INT, &o.hold_ms, "MS",
          "gemm: mean over this many milliseconds of back-to-back runs, as warm as in a step", 1, 10000 },
        MBA_TABLE_OPTIONS(&o.json, &o.csv),
        MBA_MODEL_OPTIONS(&o.model),
        { 0 },
    };
    const mba_usage usage = {
        "bench", "ceilings | op [NAME..] | step | power WORKLOAD.. | gemm | decode [options]",
        "ceilings  measures the rates from which floors are computed: memory, FMA, exp\n"
        "op        times operators at realistic sizes, with cold caches; `alone` is the\n"
        "          forward pass without what it saves for its gradient\n"
        "step      times a training step [mamba2-130m, 1 x 1024 tokens], its matrix products\n"
        "          and image convolutions alone, and says where the time goes\n"
        "power     mean power, clock and energy of steps on the GPU, by the driver's meter\n"
        "gemm      times every matrix product of a step with each of the first eight\n"
        "          kernels that the GPU's library proposes\n"
        "decode    times reading photographs (500 x 375, made here) as training does, per core\n"
        "links     latency and bandwidth between the ranks that mpirun or srun has started\n"
        "\n"
        "The floor is the shortest time in which the machine could do the least work:\n"
        "on a CPU max(bytes / stream, FLOPs / FMA + exponentials / exp); on a GPU, whose\n"
        "units work in parallel, the largest of bytes / stream, tensor FLOPs / tensor,\n"
        "vector FLOPs / FMA and exponentials / exp. Rows are printed as they are measured.\n"
        "The stream rate is that of a copy of gigabytes; a copy of a few megabytes is\n"
        "slower because it starts and ends. --memory-copies therefore also times a plain copy of\n"
        "as many bytes in the same process: `% of copy` is the time of the copy over the operator's.",
        options,
        "mambascope bench ceilings\nmambascope bench op ssd selective_scan\n"
        "mambascope bench step --model mamba2-130m --batch 1 --length 1024\n"
        "mambascope bench step --model mambavision-t --batch 8\n"
        "mambascope bench step --model graphmamba-peptides-func --graphs 32\n"
        "mambascope bench power 'mamba2-130m --batch 8 --length 2048' 'mambavision-t --batch 128'\n"
        "mambascope bench decode\n"
        "mpirun -np 2 mambascope bench links --out here.ini\n"
    };
    mba_operands words = { 0 };
    MBA_TRY(mba_options_parse(&usage, argc, argv, &words, &help));
    if (help) return MBA_OK;
    if (words.n) MBA_TRY(check_options(&o, words.word[0]));
    if (!o.model.name) o.model.name = "mamba2-130m";
    if (words.n == 1 && !strcmp(words.word[0], "ceilings")) return bench_ceilings(&o);
    if (words.n == 1 && !strcmp(words.word[0], "decode")) return bench_decode(&o);
    if (words.n >= 2 && !strcmp(words.word[0], "power")) return mba_bench_power(&words, form_of(&o));
    if (words.n == 1 && !strcmp(words.word[0], "links"))
        return mba_bench_links(&(mba_bench_links_options){ form_of(&o), o.repeats, o.out });
    if (words.n >= 1 && !strcmp(words.word[0], "op")) return bench_ops(&o, &words);
    if (words.n == 1 && (!strcmp(words.word[0], "step") || !strcmp(words.word[0], "gemm"))) {
        mba_model m;
        MBA_TRY(mba_model_preset(&m, o.model.name));
        if (m.task == MBA_TASK_TEXT && !o.model.shape.batch) o.model.shape.batch = 1;
        if (m.task == MBA_TASK_TEXT && !o.model.shape.length) o.model.shape.length = 1024;
        return !strcmp(words.word[0], "step") ? bench_step(&o) : bench_gemm(&o);
    }
    return mba_fail(MBA_E_ARG,
                    "bench what?\nfix: mambascope bench ceilings, op, step, power WORKLOAD, gemm, decode or links");
}
