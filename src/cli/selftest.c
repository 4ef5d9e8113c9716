// SPDX-License-Identifier: Apache-2.0
/* selftest.c -- `mambascope selftest`: checks every case of every operator on this machine against fp64. */
#include <math.h>
#include <string.h>

#include "cli/command.h"
#include "cli/model_options.h"
#include "cli/options.h"
#include "cli/progress.h"
#include "cli/table.h"
#include "core/check.h"

/* As in tests/operators_test.c: fourth-order differences with h = 1e-3 leave 1e-8 of the largest derivative. */
static const double GRADIENT_BOUND = 1e-8;

static bool wanted(const mba_operands *words, const char *name)
{
    for (int i = 0; i < words->n; i++)
        if (!strcmp(words->word[i], name)) return true;
    return words->n == 0;
}

static mba_status check_all(mba_table *t, const mba_operands *words, int *wrong)
{
    int n = 0;
    while (mba_ops[n]) n++;
    mba_progress p = mba_progress_start("selftest", n);
    for (int i = 0; mba_ops[i]; i++) {
        const mba_op *op = mba_ops[i];
        mba_check     w = { 0 };
        mba_progress_show(&p, i, op->name);
        if (!op->cases || !wanted(words, op->name)) continue;
        MBA_TRY(mba_check_op(&w, op));
        const bool fine = w.grad_error < GRADIENT_BOUND && w.cpu_error <= 1 && !w.strays && !w.changed;
        mba_table_text(t, "%s", op->name);
        mba_table_number(t, w.values);
        mba_table_number(t, w.grad_error);
        mba_table_number(t, w.cpu_error);
        mba_table_number(t, w.strays);
        mba_table_number(t, w.changed);
        mba_table_text(t, "%s", fine ? "ok" : "WRONG");
        *wrong += !fine;
    }
    mba_progress_end(&p);
    return MBA_OK;
}

/* ---- on a GPU: errors of every variant, relative to their tolerances ---- */

static const mba_column gpu_columns[] = { { "operator", "operator", NULL },
                                          { "variant", "variant", NULL },
                                          { "runs", "runs", "%.0f" },
                                          { "fp32_error", "fp32: largest error", "%.1e" },
                                          { "fp32_tolerance", "/ tolerance", "%.2f" },
                                          { "tf32_error", "tf32: largest error", "%.1e" },
                                          { "tf32_tolerance", "/ tolerance", "%.2f" },
                                          { "bf16_error", "bf16: largest error", "%.1e" },
                                          { "bf16_tolerance", "/ tolerance", "%.2f" },
                                          { "strays", "strays", "%.0f" },
                                          { "changed", "changed", "%.0f" },
                                          { "verdict", "verdict", NULL },
                                          { 0 } };

enum { FP32, TF32, BF16, PRECISIONS, LINES_MAX = 48 };
typedef struct line {
    const mba_op *op;
    const char   *variant;
    int           runs[PRECISIONS], strays, changed;
    mba_check     worst[PRECISIONS];
} line;

/* The rows of an operator and of its gradient, and the current precision. */
typedef struct budget {
    const mba_op *op;
    int           precision, n;
    line          at[LINES_MAX];
} budget;

static line *line_of(budget *b, const mba_op *op, const char *variant)
{
    int k = 0;
    while (k < b->n && (b->at[k].op != op || strcmp(b->at[k].variant, variant))) k++;
    mba_assert(k < LINES_MAX);
    if (k == b->n) b->at[b->n++] = (line){ .op = op, .variant = variant };
    return &b->at[k];
}

static bool is_ours(const budget *b, const mba_node *n)
{
    return n->op == b->op || (n->serves_node && n->serves_node->op == b->op);
}

/* A run counts for every variant that took part in it, so that a wrong variant marks the others of its run. */
static void tell(void *ctx, const mba_program *p, const mba_check *one)
{
    budget     *b = ctx;
    const line *last = NULL;
    for (int32_t i = 0; i < p->graph->nnodes; i++) {
        if (!is_ours(b, p->graph->nodes[i])) continue;
        line *l = line_of(b, p->graph->nodes[i]->op, p->plan[i]->variant);
        if (l == last) continue; // the operator twice in one graph
        mba_check *w = &l->worst[b->precision];
        if (!(one->cpu_error <= w->cpu_error)) w->cpu_error = one->cpu_error;
        if (!(one->cpu_relative <= w->cpu_relative)) w->cpu_relative = one->cpu_relative;
        l->strays += one->strays;
        l->changed += one->changed;
        l->runs[b->precision]++;
        last = l;
    }
}

/* Adds variants that took none of the cases: this machine cannot run them, or no case fits (operators_test checks). */
static void add_the_rest(budget *b)
{
    line_of(b, b->op, b->op->cuda ? b->op->cuda->name : "none");
    for (int k = 0, told = b->n; k < told; k++)
        for (const mba_variant *v = b->at[k].op->cuda; v && v->name; v++) line_of(b, b->at[k].op, v->name);
}

static bool within(const line *l)
{
    bool all = !l->strays && !l->changed;
    for (int k = 0; k < PRECISIONS; k++) all &= l->worst[k].cpu_error <= 1;
    return all;
}

static void print_line(mba_table *t, const line *l, bool none)
{
    int runs = 0;
    for (int k = 0; k < PRECISIONS; k++) runs += l->runs[k];
    mba_table_text(t, "%s", l->op->name);
    mba_table_text(t, "%s", l->variant);
    mba_table_number(t, runs);
    for (int k = 0; k < PRECISIONS; k++) {
        mba_table_number(t, l->runs[k] ? l->worst[k].cpu_relative : NAN);
        mba_table_number(t, l->runs[k] ? l->worst[k].cpu_error : NAN);
    }
    mba_table_number(t, l->strays);
    mba_table_number(t, l->changed);
    mba_table_text(t, "%s", none ? "NO KERNEL" : !runs ? "no case fits here" : within(l) ? "ok" : "WRONG");
}

static mba_status check_gpu_op(mba_table *t, const mba_op *op, const mba_device *d, int *wrong)
{
    budget b = { .op = op };
    int    none = 0;
    for (; b.precision < PRECISIONS; b.precision++) {
        if (b.precision == TF32 && !op->tf32) continue; // the same as fp32
        mba_check        w = { .tf32 = b.precision == TF32, .told = tell, .ctx = &b };
        const mba_status st = mba_check_op_on(&w, op, d, b.precision == BF16 ? MBA_BF16 : MBA_F32);
        if (st != MBA_OK && st != MBA_E_UNSUPPORTED) return st;
        none += st != MBA_OK;
    }
    add_the_rest(&b);
    for (int k = 0; k < b.n; k++) {
        const bool lacks = none && b.at[k].op == op;
        print_line(t, &b.at[k], lacks);
        *wrong += lacks || !within(&b.at[k]);
    }
    return MBA_OK;
}

static mba_status check_gpu(mba_table *t, const mba_operands *words, const mba_device *d, int *wrong)
{
    int n = 0;
    while (mba_ops[n]) n++;
    mba_progress p = mba_progress_start("selftest", n);
    for (int i = 0; mba_ops[i]; i++) {
        mba_progress_show(&p, i, mba_ops[i]->name);
        if (mba_ops[i]->cases && wanted(words, mba_ops[i]->name)) MBA_TRY(check_gpu_op(t, mba_ops[i], d, wrong));
    }
    mba_progress_end(&p);
    return MBA_OK;
}

/* Refuses names without cases: an empty table would look like a proof. */
static mba_status check_names(const mba_operands *words)
{
    for (int i = 0; i < words->n; i++) {
        const mba_op *op;
        MBA_TRY(mba_op_named(&op, words->word[i]));
        if (!op->cases)
            return mba_fail(MBA_E_ARG, "%s has no cases of its own\nwhy: %s\nfix: %s", op->name,
                            op->no_grad && !strcmp(op->no_grad, "a gradient")
                                ? "it is checked with the operator whose gradient it is"
                                : "it is part of a step, not of a model; the tests of the source tree check it",
                            "choose another name, or none to check all (mambascope list ops)");
    }
    return MBA_OK;
}

mba_status mba_command_selftest(int argc, char **argv)
{
    bool              json = false, csv = false, help;
    mba_model_options run = { 0 };
    const mba_option  options[] = {
         { "--device", MBA_OPT_TEXT, &run.device, "WHERE", "cpu, cuda or cuda:N [cpu]", 0, 0 },
         { "--json", MBA_OPT_FLAG, &json, NULL, "print JSON, an array of objects", 0, 0 },
         { "--csv", MBA_OPT_FLAG, &csv, NULL, "print CSV", 0, 0 },
         { 0 },
    };
    const mba_usage usage = { "selftest", "[OPERATOR..] [options]",
                              "Checks every operator of this build on this machine: gradients against central\n"
                              "differences in fp64, kernels against fp64 in units of the tolerance derived for\n"
                              "their sums, that nothing is written outside outputs and scratch (strays), and\n"
                              "that a second run gives the same bits (changed). On a GPU it checks every variant\n"
                              "of every operator and gradient with fp32 and bf16 activations, one line each,\n"
                              "and operators with matrix products also in TF32 (--precision tf32 elsewhere).\n"
                              "Run it first on a new machine. (Optimizers are checked by optimizer_test.)",
                              options,
                              "mambascope selftest\nmambascope selftest ssd selective_scan\nmambascope "
                              "selftest --device cuda\n" };
    mba_operands    words = { 0 };
    MBA_TRY(mba_options_parse(&usage, argc, argv, &words, &help));
    if (help) return MBA_OK;
    MBA_TRY(check_names(&words));
    mba_session_options so = { 0 };
    mba_table          *t;
    int                 wrong = 0;
    MBA_TRY(mba_run_options_apply(&run, &so));
    const bool gpu = so.device != &mba_device_cpu;
    MBA_TRY(mba_table_create(&t, gpu ? gpu_columns
                                     : (const mba_column[]){ { "operator", "operator", NULL },
                                                             { "derivatives", "derivatives", "%.0f" },
                                                             { "gradient_error", "gradient error", "%.1e" },
                                                             { "cpu_error", "CPU error / tolerance", "%.2f" },
                                                             { "strays", "strays", "%.0f" },
                                                             { "changed", "changed", "%.0f" },
                                                             { "verdict", "verdict", NULL },
                                                             { 0 } }));
    mba_status st = gpu ? check_gpu(t, &words, so.device, &wrong) : check_all(t, &words, &wrong);
    if (st == MBA_OK) st = mba_table_print(t, stdout, mba_table_form_of(json, csv));
    mba_table_destroy(t);
    if (st == MBA_OK && wrong)
        st = mba_fail(MBA_E_DEVICE, "%d operators are wrong on this machine\nfix: do not use this build here", wrong);
    return st;
}
