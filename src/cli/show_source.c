// SPDX-License-Identifier: Apache-2.0
/* show_source.c -- the table `source` of `show`: one kernel line by line, from `profile --source KERNEL`. */
#include <stdlib.h>
#include <string.h>

#include "cli/show_tables.h"
#include "study/source_lines.h"

enum { ROWS_OF_TEXT = 32 };

static void put_reasons(mba_table *t, const mba_source_line *l)
{
    char text[160];
    mba_source_waits(text, sizeof text, l, 2);
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

static void put_lines(mba_table *t, const mba_analysis *a, const mba_source_line *l, int64_t n, bool full)
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
    mba_source_line *l;
    int64_t          n;
    MBA_TRY(mba_source_lines(&l, &n, a));
    put_lines(t, a, l, n, full);
    free(l);
    return MBA_OK;
}
