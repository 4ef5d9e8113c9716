/* selftest.c -- `mambascope selftest`: every operator, every case, on this machine, against fp64. */
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
        const bool fine = w.grad_error < GRADIENT_BOUND && w.cpu_error <= 1 && !w.strays;
        mba_table_text(t, "%s", op->name);
        mba_table_number(t, w.values);
        mba_table_number(t, w.grad_error);
        mba_table_number(t, w.cpu_error);
        mba_table_number(t, w.strays);
        mba_table_text(t, "%s", fine ? "ok" : "WRONG");
        *wrong += !fine;
    }
    mba_progress_end(&p);
    return MBA_OK;
}

/* ---- on a GPU ---- */

static const mba_column gpu_columns[] = {
    { "operator", "operator", NULL }, { "precision", "precision", NULL }, { "variants", "variants", "%.0f" },
    { "cases", "cases", "%.0f" },
    { "relative_error", "largest error, relative", "%.1e" }, { "tolerance_used", "of its tolerance", "%.2f" },
    { "strays", "strays", "%.0f" },
    { "verdict", "verdict", NULL }, { 0 } };

static mba_status gpu_row(mba_table *t, const mba_op *op, const mba_device *d, mba_dtype compute, int *wrong)
{
    mba_check  w = { 0 };
    int        cases = 0, variants = 0;
    while (op->cases[cases].note) cases++;
    while (op->cuda && op->cuda[variants].name) variants++;
    const mba_status st = mba_check_op_on(&w, op, d, compute);
    if (st != MBA_OK && st != MBA_E_UNSUPPORTED) return st;
    const bool fine = st == MBA_OK && w.cpu_error <= 1 && !w.strays;
    mba_table_text(t, "%s", op->name);
    mba_table_text(t, "%s", compute == MBA_BF16 ? "bf16" : "fp32");
    mba_table_number(t, variants);
    mba_table_number(t, cases);
    mba_table_number(t, w.cpu_relative);
    mba_table_number(t, w.cpu_error);
    mba_table_number(t, w.strays);
    mba_table_text(t, "%s", st != MBA_OK ? "NO KERNEL" : fine ? "ok" : "WRONG");
    *wrong += !fine;
    return MBA_OK;
}

static mba_status check_gpu(mba_table *t, const mba_operands *words, const mba_device *d, int *wrong)
{
    int n = 0;
    while (mba_ops[n]) n++;
    mba_progress p = mba_progress_start("selftest", n);
    for (int i = 0; mba_ops[i]; i++) {
        mba_progress_show(&p, i, mba_ops[i]->name);
        if (!mba_ops[i]->cases || !wanted(words, mba_ops[i]->name)) continue;
        MBA_TRY(gpu_row(t, mba_ops[i], d, MBA_F32, wrong));
        MBA_TRY(gpu_row(t, mba_ops[i], d, MBA_BF16, wrong));
    }
    mba_progress_end(&p);
    return MBA_OK;
}

mba_status mba_command_selftest(int argc, char **argv)
{
    bool              json = false, csv = false, help;
    mba_model_options run = { 0 };
    const mba_option options[] = {
        { "--device", MBA_OPT_TEXT, &run.device, "WHERE", "cpu (default), cuda, cuda:1", 0, 0 },
        { "--json", MBA_OPT_FLAG, &json, NULL,
          "as JSON: operator, derivatives, gradient_error, cpu_error, strays, verdict", 0, 0 },
        { "--csv",  MBA_OPT_FLAG, &csv,  NULL, "as CSV", 0, 0 },
        { 0 },
    };
    const mba_usage usage = { "selftest", "[OPERATOR..] [options]",
                              "Proves the operators of this build right on this machine: their gradients against "
                              "central differences\n"
                              "in fp64, the fast paths against fp64 in units of the tolerance derived for their sums, "
                              "and that\n"
                              "nothing is written outside outputs and scratch. On a GPU: every variant of every "
                              "operator, with fp32 and with bf16\n"
                              "activations, against fp64: what to run first on a new machine.",
                              options, "mambascope selftest\nmambascope selftest ssd selective_scan\nmambascope "
                                       "selftest --device cuda\n" };
    mba_operands words = { 0 };
    MBA_TRY(mba_options_parse(&usage, argc, argv, &words, &help));
    if (help) return MBA_OK;
    for (int i = 0; i < words.n; i++)
        if (!mba_op_find(words.word[i]))
            return mba_fail(MBA_E_ARG, "no operator '%s'\nfix: mambascope list ops", words.word[i]);
    mba_session_options so = { 0 };
    mba_table          *t;
    int                 wrong = 0;
    MBA_TRY(mba_run_options_apply(&run, &so));
    const bool gpu = so.device != &mba_device_cpu;
    MBA_TRY(mba_table_create(&t, gpu ? gpu_columns : (const mba_column[]){
        { "operator", "operator", NULL }, { "derivatives", "derivatives", "%.0f" },
        { "gradient_error", "gradient error", "%.1e" },
        { "cpu_error", "CPU error, tolerances", "%.2f" }, { "strays", "strays", "%.0f" },
        { "verdict", "verdict", NULL }, { 0 } }));
    mba_status st = gpu ? check_gpu(t, &words, so.device, &wrong) : check_all(t, &words, &wrong);
    if (st == MBA_OK) mba_table_print(t, stdout, mba_table_form_of(json, csv));
    mba_table_destroy(t);
    if (st == MBA_OK && wrong)
        st = mba_fail(MBA_E_DEVICE, "%d operators are wrong on this machine\nfix: do not trust this build here", wrong);
    return st;
}
