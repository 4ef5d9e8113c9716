// SPDX-License-Identifier: Apache-2.0
/* diff.c -- `mambascope diff A.db B.db`: compares two stores; --gate fails if B is slower. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/command.h"
#include "cli/options.h"
#include "cli/say.h"
#include "cli/table.h"
#include "scope/diff.h"
#include "scope/doubts.h"

enum { ROWS_OF_TEXT = 16 };
static const double SAME_APART = 0.02; /* equal kernels may differ by this much without a note */

static const mba_column columns[] = { { "what", "what", NULL },
                                      { "name", "name", NULL },
                                      { "phase", "phase", NULL },
                                      { "a_ms", "A, ms/step", "%.3f" },
                                      { "b_ms", "B, ms/step", "%.3f" },
                                      { "ratio", "B / A", "%.3f" },
                                      { "spread_ms", "spread, ms", "%.3f" },
                                      { "a_launches", "launches A", "%.0f" },
                                      { "b_launches", "launches B", "%.0f" },
                                      { "verdict", "verdict", NULL },
                                      { 0 } };

/* "3%" or "3": percent. */
static mba_status gate_of(double *out, const char *text)
{
    char *end;
    *out = strtod(text, &end) / 100;
    if (*end == '%') end++;
    if (end == text || *end || !(*out >= 0 && *out <= 10))
        return mba_fail(MBA_E_ARG, "--gate must be a percentage from 0 to 1000, not %s\nfix: for example --gate 3%%",
                        text);
    return MBA_OK;
}

static mba_status open_both(mba_store **s, mba_analysis **a, const mba_operands *words)
{
    for (int i = 0; i < 2; i++) {
        MBA_TRY(mba_store_open(&s[i], words->word[i]));
        MBA_TRY(mba_analysis_create(&a[i], s[i]));
    }
    return MBA_OK;
}

static void print_row(mba_table *t, const mba_diff_row *r, bool alike, bool full)
{
    mba_table_text(t, "%s", mba_diff_name(r->what));
    mba_table_cut(t, r->name, full ? SIZE_MAX : 34);
    mba_table_text(t, "%s", r->phase);
    mba_table_number(t, 1e3 * r->a_s);
    mba_table_number(t, 1e3 * r->b_s);
    mba_table_number(t, r->b_s / r->a_s);
    const double spread = r->a_spread_s > r->b_spread_s ? r->a_spread_s : r->b_spread_s;
    mba_table_number(t, spread > 0 ? 1e3 * spread : NAN); // classes and kernels have no spread
    mba_table_number(t, isnan(r->a_s) || !(r->a_launches > 0) ? NAN : r->a_launches);
    mba_table_number(t, isnan(r->b_s) || !(r->b_launches > 0) ? NAN : r->b_launches);
    const bool apart = alike && mba_diff_same(r) && fabs(r->b_s / r->a_s - 1) > SAME_APART;
    mba_table_text(t, "%s",
                   r->slower       ? "slower"
                   : isnan(r->a_s) ? "only in B"
                   : isnan(r->b_s) ? "only in A"
                   : apart         ? "same kernel"
                                   : "");
}

static mba_status print_rows(const mba_diff_row *row, int64_t n, bool alike, mba_table_form form)
{
    mba_table *t;
    int        shown = 0;
    MBA_TRY(mba_table_create(&t, columns));
    for (int64_t i = 0; i < n; i++) {
        shown = i && row[i].what == row[i - 1].what ? shown + 1 : 0;
        if (form != MBA_TABLE_TEXT || shown < ROWS_OF_TEXT || row[i].slower)
            print_row(t, &row[i], alike, form != MBA_TABLE_TEXT);
    }
    const mba_status st = mba_table_print(t, stdout, form);
    if (mba_table_rows(t) < (size_t)n)
        printf("(%zu of %lld rows; --csv prints all)\n", mba_table_rows(t), (long long)n);
    mba_table_destroy(t);
    return st;
}

/* Times of two workloads or machines may be compared, but the reader must know that they differ. */
static void warn(mba_analysis *const *a)
{
    static const char *const keys[] = { "run.workload", "run.device", "gpu.name", "cpu.name", "run.precision" };
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const char *x = mba_env_find(a[0], keys[i]), *y = mba_env_find(a[1], keys[i]);
        if (x && y && strcmp(x, y)) mba_say(stderr, "note: %s differs: %s, %s\n", keys[i], x, y);
    }
    if (*a[0]->batch && *a[1]->batch && strcmp(a[0]->batch, a[1]->batch))
        mba_say(stderr, "note: the batch differs: %s, %s\n", a[0]->batch, a[1]->batch);
    else if (a[0]->units < a[1]->units || a[0]->units > a[1]->units)
        mba_say(stderr, "note: the units of a step differ: %g, %g\n", a[0]->units, a[1]->units);
    if (*a[0]->parameters && *a[1]->parameters && strcmp(a[0]->parameters, a[1]->parameters))
        mba_say(stderr, "note: the parameters differ: %s, %s\n", a[0]->parameters, a[1]->parameters);
}

static bool same_work(mba_analysis *const *a)
{
    return !strcmp(a[0]->workload, a[1]->workload) && !(a[0]->units < a[1]->units || a[0]->units > a[1]->units);
}

static int by_ratio(const void *x, const void *y)
{
    const double a = *(const double *)x, b = *(const double *)y;
    return (a > b) - (a < b);
}

/* Kernels of one name with as many launches do the same work: the median ratio of their times. */
static double same_kernels(const mba_diff_row *row, int64_t n, int64_t *count)
{
    double *ratio = calloc((size_t)n + 1, sizeof *ratio), middle = NAN;
    *count = 0;
    for (int64_t i = 0; i < n && ratio; i++)
        if (mba_diff_same(&row[i])) ratio[(*count)++] = row[i].b_s / row[i].a_s;
    if (*count) qsort(ratio, (size_t)*count, sizeof *ratio, by_ratio);
    if (*count) middle = ratio[*count / 2];
    free(ratio);
    return middle;
}

static void tell_doubts(mba_analysis *const *a, const mba_diff_row *row, int64_t n)
{
    const mba_clocks x = mba_clocks_of(a[0]), y = mba_clocks_of(a[1]);
    int64_t          same = 0;
    const double     ratio = same_kernels(row, n, &same);
    for (int i = 0; i < 2; i++) {
        mba_doubt d[MBA_DOUBTS_MAX];
        for (int k = 0, m = mba_doubts_of(d, a[i]); k < m; k++) mba_say(stderr, "note: %c: %s\n", "AB"[i], d[k].text);
    }
    if (!isnan(x.mean) && !isnan(y.mean))
        mba_say(stderr,
                "note: clock of B / A: %.3f (%.0f and %.0f MHz, means of the driver's readings while steps ran)\n",
                y.mean / x.mean, x.mean, y.mean);
    if (same && same_work(a) && fabs(ratio - 1) > SAME_APART)
        mba_say(stderr,
                "note: %lld kernels are the same in both and are launched as often, but take %.3f times as long in B "
                "(median): the machine causes this, not the code\n",
                (long long)same, ratio);
}

static mba_status judged(const mba_diff_row *row, int64_t n, double gate)
{
    int64_t     slower = 0, steps = 0, operators = 0;
    const char *first = "";
    for (int64_t i = 0; i < n; i++) {
        const bool both = !isnan(row[i].a_s) && !isnan(row[i].b_s);
        steps += both && row[i].what == MBA_DIFF_STEP;
        operators += both && row[i].what == MBA_DIFF_OPERATOR;
        if (row[i].slower && !slower++) first = row[i].name;
    }
    if (!steps) // an interrupted run must not pass as a fast one
        return mba_fail(MBA_E_FORMAT,
                        "no step is measured in both stores\nwhy: a run was interrupted, "
                        "or measured other things\nfix: `mambascope show FILE.db steps` shows which; profile it again");
    if (!operators) fputs("note: no operator is in both stores; --gate compared the step only\n", stderr);
    if (!slower) return MBA_OK;
    return mba_fail(MBA_E_FORMAT,
                    "%lld %s slower by more than %g %%\nwhy: the first is '%s'\nfix: make it faster, or accept "
                    "it and use store B as the new A",
                    (long long)slower, slower == 1 ? "row is" : "rows are", 100 * gate, first);
}

mba_status mba_command_diff(int argc, char **argv)
{
    const char      *gate_text = NULL;
    bool             json = false, csv = false, help;
    const mba_option options[] = {
        { "--gate", MBA_OPT_TEXT, &gate_text, "P%",
          "exit 1 if the step or an operator of B is slower by more than P % and more than its spread", 0, 0 },
        MBA_TABLE_OPTIONS(&json, &csv),
        { 0 },
    };
    const mba_usage usage = {
        "diff", "A.db B.db [options]",
        "Compares two stores: steps, classes, operators and kernels (by name). --gate\n"
        "ignores operators below 1 % of the step and changes below the spread of the steps.",
        options,
        "mambascope diff before.db after.db\nmambascope diff before.db after.db --gate 3%\nmambascope diff peer.db "
        "ours.db --csv > peer.csv\n"
    };
    mba_operands  words = { 0 };
    mba_store    *s[2] = { NULL, NULL };
    mba_analysis *a[2] = { NULL, NULL };
    mba_diff_row *row = NULL;
    int64_t       n = 0;
    double        gate = 0;
    MBA_TRY(mba_options_parse(&usage, argc, argv, &words, &help));
    if (help) return MBA_OK;
    if (words.n != 2) return mba_fail(MBA_E_ARG, "diff needs two stores\nfix: mambascope diff A.db B.db");
    if (gate_text) MBA_TRY(gate_of(&gate, gate_text));
    mba_status st = open_both(s, a, &words);
    if (st == MBA_OK) st = mba_diff(&row, &n, a[0], a[1], gate_text ? gate : HUGE_VAL);
    if (st == MBA_OK) warn(a);
    if (st == MBA_OK) tell_doubts(a, row, n);
    if (st == MBA_OK) st = print_rows(row, n, same_work(a), mba_table_form_of(json, csv));
    if (st == MBA_OK && gate_text) st = judged(row, n, gate);
    free(row);
    for (int i = 0; i < 2; i++) {
        mba_analysis_destroy(a[i]);
        const mba_status closed = mba_store_close(s[i]);
        if (st == MBA_OK) st = closed;
    }
    return st;
}
