// SPDX-License-Identifier: Apache-2.0
/* show_source.c -- the table `source` of `show`: one kernel line by line, from `profile --source KERNEL`. */
#include <stdlib.h>
#include <string.h>

#include "cli/show_tables.h"

enum { ROWS_OF_TEXT = 32, REASONS_MAX = 64 };

/* A line of source: how often its instructions ran, and what warps waited for there. */
typedef struct source_line {
    int64_t     kernel, line, nreasons;
    const char *file, *reason[REASONS_MAX];
    double      executed, samples, waited[REASONS_MAX];
} source_line;

/* "smsp__pcsamp_warps_issue_stalled_barrier" -> "barrier". Samples "_not_issued" are part of those of their reason:
 * NULL. */
static const char *reason_of(const char *metric)
{
    const size_t n = strlen(metric);
    const char  *at = strstr(metric, "stalled_");
    if (!strstr(metric, "pcsamp")) return NULL;
    if (n > 11 && !strcmp(metric + n - 11, "_not_issued")) return NULL;
    return at ? at + strlen("stalled_") : metric;
}

static void add(source_line *l, const mba_row_instruction *r)
{
    const char *reason = reason_of(r->metric);
    int64_t     i = 0;
    if (!strcmp(r->metric, "smsp__sass_inst_executed")) l->executed += r->value;
    if (!reason) return;
    l->samples += r->value;
    while (i < l->nreasons && strcmp(l->reason[i], reason)) i++;
    if (i == REASONS_MAX) return;
    if (i == l->nreasons) l->reason[l->nreasons++] = reason;
    l->waited[i] += r->value;
}

static int by_place(const void *x, const void *y)
{
    const mba_row_instruction *a = *(const mba_row_instruction *const *)x, *b = *(const mba_row_instruction *const *)y;
    const int                  files = strcmp(a->file ? a->file : "", b->file ? b->file : "");
    if (a->kernel != b->kernel) return a->kernel < b->kernel ? -1 : 1;
    if (files) return files;
    return a->line < b->line ? -1 : a->line > b->line;
}

static int most_first(const void *x, const void *y)
{
    const source_line *a = x, *b = y;
    if (a->samples != b->samples) return a->samples < b->samples ? 1 : -1;
    return a->executed < b->executed ? 1 : a->executed > b->executed ? -1 : 0;
}

static int64_t gather(source_line *l, const mba_row_instruction *const *r, int64_t rows)
{
    int64_t n = 0, last = 0; // the last row that counted
    for (int64_t i = 0; i < rows; i++) {
        if (!r[i]->metric || !(r[i]->value >= 0)) continue;
        if (!n || by_place(&r[i], &r[last]))
            l[n++] = (source_line){ .kernel = r[i]->kernel, .file = r[i]->file, .line = r[i]->line };
        add(&l[n - 1], r[i]);
        last = i;
    }
    return n;
}

static void put_reasons(mba_table *t, const source_line *l)
{
    char text[160] = "";
    bool done[REASONS_MAX] = { false };
    for (int k = 0; k < 2 && k < l->nreasons; k++) {
        int64_t top = -1;
        for (int64_t i = 0; i < l->nreasons; i++)
            if (!done[i] && (top < 0 || l->waited[i] > l->waited[top])) top = i;
        const size_t n = strlen(text);
        done[top] = true;
        snprintf(text + n, sizeof text - n, "%s%.60s %.0f %%", k ? ", " : "", l->reason[top],
                 100 * l->waited[top] / l->samples);
    }
    mba_table_text(t, "%s", *text ? text : "-");
}

const mba_column mba_source_columns[] = { { "kernel", "kernel", NULL },
                                          { "file", "file", NULL },
                                          { "line", "line", "%.0f" },
                                          { "samples", "samples", "%.0f" },
                                          { "samples_pct", "% of samples", "%.1f" },
                                          { "waits", "stall reasons", NULL },
                                          { "executed", "warp instructions", "%.0f" },
                                          { "executed_pct", "% of instructions", "%.1f" },
                                          { 0 } };

static const char *kernel_name(const mba_analysis *a, int64_t id)
{
    for (int64_t i = 0; i < a->nkernels; i++)
        if (a->kernel[i].row->id == id) return a->kernel[i].row->name ? a->kernel[i].row->name : "?";
    return "?";
}

static void put_lines(mba_table *t, const mba_analysis *a, const source_line *l, int64_t n, bool full)
{
    double samples = 0, executed = 0;
    for (int64_t i = 0; i < n; i++) samples += l[i].samples, executed += l[i].executed;
    for (int64_t i = 0; i < n && (full || i < ROWS_OF_TEXT); i++) {
        const char *file = l[i].file ? l[i].file : "-", *last = strrchr(file, '/');
        mba_table_cut(t, kernel_name(a, l[i].kernel), full ? SIZE_MAX : 30);
        mba_table_text(t, "%s", full || !last ? file : last + 1);
        mba_table_number(t, l[i].line == MBA_ABSENT ? NAN : (double)l[i].line);
        mba_table_number(t, l[i].samples);
        mba_table_number(t, 100 * l[i].samples / samples);
        put_reasons(t, &l[i]);
        mba_table_number(t, l[i].executed);
        mba_table_number(t, 100 * l[i].executed / executed);
    }
}

mba_status mba_fill_source(mba_table *t, const mba_analysis *a, bool full)
{
    mba_row_instruction *r;
    int64_t              rows;
    MBA_TRY(mba_load_instruction(a->store, &r, &rows));
    const mba_row_instruction **order = calloc((size_t)rows + 1, sizeof *order);
    source_line                *l = calloc((size_t)rows + 1, sizeof *l);
    mba_status st = order && l ? MBA_OK : mba_fail(MBA_E_NOMEM, "no memory for %lld instructions", (long long)rows);
    for (int64_t i = 0; st == MBA_OK && i < rows; i++) order[i] = &r[i];
    if (st == MBA_OK && rows) {
        qsort(order, (size_t)rows, sizeof *order, by_place);
        const int64_t n = gather(l, order, rows);
        qsort(l, (size_t)n, sizeof *l, most_first);
        put_lines(t, a, l, n, full);
    }
    free(order);
    free(l);
    return st;
}
