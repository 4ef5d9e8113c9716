// SPDX-License-Identifier: Apache-2.0
/* source_lines.c -- see source_lines.h. */
#include "study/source_lines.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

static void add(mba_source_line *l, const mba_row_instruction *r)
{
    const char *reason = reason_of(r->metric);
    int64_t     i = 0;
    if (!strcmp(r->metric, "smsp__sass_inst_executed")) l->executed += r->value;
    if (!reason) return;
    l->samples += r->value;
    while (i < l->nreasons && strcmp(l->reason[i], reason)) i++;
    if (i == MBA_SOURCE_REASONS) return;
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
    const mba_source_line *a = x, *b = y;
    if (a->samples != b->samples) return a->samples < b->samples ? 1 : -1;
    return a->executed < b->executed ? 1 : a->executed > b->executed ? -1 : 0;
}

static int64_t gather(mba_source_line *l, const mba_row_instruction *const *r, int64_t rows)
{
    int64_t n = 0, last = 0; // the last row that counted
    for (int64_t i = 0; i < rows; i++) {
        if (!r[i]->metric || !(r[i]->value >= 0)) continue;
        if (!n || by_place(&r[i], &r[last]))
            l[n++] = (mba_source_line){ .kernel = r[i]->kernel, .file = r[i]->file, .line = r[i]->line };
        add(&l[n - 1], r[i]);
        last = i;
    }
    return n;
}

void mba_source_waits(char *text, size_t space, const mba_source_line *l, int most)
{
    bool done[MBA_SOURCE_REASONS] = { false };
    mba_assert(space > 0);
    *text = '\0';
    for (int k = 0; k < most && k < l->nreasons; k++) {
        int64_t top = -1;
        for (int64_t i = 0; i < l->nreasons; i++)
            if (!done[i] && (top < 0 || l->waited[i] > l->waited[top])) top = i;
        const size_t n = strlen(text);
        done[top] = true;
        snprintf(text + n, space - n, "%s%.60s %.0f %%", k ? ", " : "", l->reason[top],
                 100 * l->waited[top] / l->samples);
    }
}

mba_status mba_source_lines(mba_source_line **out, int64_t *n, const mba_analysis *a)
{
    mba_row_instruction *r;
    int64_t              rows;
    *out = NULL;
    *n = 0;
    MBA_TRY(mba_load_instruction(a->store, &r, &rows));
    if (!rows) return MBA_OK;
    const mba_row_instruction **order = calloc((size_t)rows, sizeof *order);
    mba_source_line            *l = calloc((size_t)rows, sizeof *l);
    if (!order || !l) {
        free(order);
        free(l);
        return mba_fail(MBA_E_NOMEM, "no memory for %lld instructions", (long long)rows);
    }
    for (int64_t i = 0; i < rows; i++) order[i] = &r[i];
    qsort(order, (size_t)rows, sizeof *order, by_place);
    *n = gather(l, order, rows);
    qsort(l, (size_t)*n, sizeof *l, most_first);
    free(order);
    *out = l;
    return MBA_OK;
}
