// SPDX-License-Identifier: Apache-2.0
/* grid.c -- see grid.h: collects cells, and writes them as HTML and CSV. */
#include "report/grid.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/csv.h"
#include "core/status.h"

void mba_grid_begin(mba_grid *g, const mba_grid_column *columns)
{
    *g = (mba_grid){ .column = columns };
    while (columns[g->ncolumns].key) g->ncolumns++;
    mba_assert(g->ncolumns > 0);
}

void mba_grid_end(mba_grid *g)
{
    for (size_t i = 0; i < g->n; i++) free(g->cell[i].text);
    free(g->cell);
    *g = (mba_grid){ 0 };
}

static void add(mba_grid *g, mba_grid_cell cell)
{
    if (g->n == g->room) {
        const size_t   room = 2 * g->room + 64;
        mba_grid_cell *all = realloc(g->cell, room * sizeof *all);
        if (!all) {
            g->failed = true;
            free(cell.text);
            return;
        }
        g->cell = all, g->room = room;
    }
    mba_debug_assert(g->n < g->room);
    g->cell[g->n++] = cell;
}

void mba_grid_text(mba_grid *g, const char *text)
{
    char *copy = text ? strdup(text) : NULL;
    g->failed |= text && !copy;
    add(g, (mba_grid_cell){ .text = copy, .number = NAN });
}

void mba_grid_number(mba_grid *g, double v) { add(g, (mba_grid_cell){ .number = v }); }
void mba_grid_fixed(mba_grid *g, double v, int places) { add(g, (mba_grid_cell){ .number = v, .places = places }); }

/* ---- HTML ---- */

enum { COLUMNS_MAX = 32 };

static bool is_number_column(const mba_grid *g, int column)
{
    for (size_t i = (size_t)column; i < g->n; i += (size_t)g->ncolumns)
        if (g->cell[i].text) return false;
    return true;
}

static void html_cell(mba_buf *b, const mba_grid_cell *c, bool among_numbers)
{
    if (c->text) {
        mba_buf_put(b, "<td>");
        mba_buf_html(b, c->text);
    } else if (isfinite(c->number) && c->places) {
        mba_buf_add(b, "<td data-v=\"%s\">%.*f", mba_exact(c->number).s, c->places, c->number);
    } else if (isfinite(c->number)) {
        mba_buf_add(b, "<td data-v=\"%s\">%s", mba_exact(c->number).s, mba_num(c->number).s);
    } else {
        mba_buf_put(b, among_numbers ? "<td class=\"n\">–" : "<td>–");
    }
    mba_buf_put(b, "</td>");
}

void mba_grid_html(const mba_grid *g, mba_buf *b, const char *caption)
{
    b->failed |= g->failed;
    bool number[COLUMNS_MAX] = { false };
    mba_assert(g->ncolumns > 0 && g->ncolumns <= COLUMNS_MAX);
    for (int i = 0; i < g->ncolumns; i++) number[i] = is_number_column(g, i);
    mba_buf_put(b, "<table data-csv=\"");
    for (int i = 0; i < g->ncolumns; i++) mba_buf_add(b, "%s%s", i ? "," : "", g->column[i].key);
    mba_buf_put(b, "\"><caption>");
    mba_buf_html(b, caption);
    mba_buf_put(b, "</caption><thead><tr>");
    for (int i = 0; i < g->ncolumns; i++) {
        mba_buf_put(b, number[i] ? "<th scope=\"col\" class=\"n\">" : "<th scope=\"col\">");
        mba_buf_html(b, g->column[i].heading);
        mba_buf_put(b, "</th>");
    }
    mba_buf_put(b, "</tr></thead><tbody>");
    for (size_t i = 0; i < g->n; i++) {
        if (i % (size_t)g->ncolumns == 0) mba_buf_put(b, i ? "</tr>\n<tr>" : "<tr>");
        html_cell(b, &g->cell[i], number[i % (size_t)g->ncolumns]);
    }
    mba_buf_put(b, g->n ? "</tr></tbody></table>" : "</tbody></table>");
}

/* ---- CSV ---- */

static void csv_text(mba_buf *b, const char *s)
{
    const char *guard = mba_csv_guard(s);
    if (!strpbrk(s, ",\"\r\n")) {
        mba_buf_add(b, "%s%s", guard, s);
        return;
    }
    mba_buf_add(b, "\"%s", guard);
    for (; *s; s++) mba_buf_add(b, *s == '"' ? "\"%c" : "%c", *s);
    mba_buf_put(b, "\"");
}

void mba_grid_csv_heading(const mba_grid *g, mba_buf *b, bool with_run)
{
    if (with_run) mba_buf_put(b, "run,");
    for (int i = 0; i < g->ncolumns; i++) mba_buf_add(b, "%s%s", i ? "," : "", g->column[i].key);
    mba_buf_put(b, "\n");
}

void mba_grid_csv_rows(const mba_grid *g, mba_buf *b, const char *run)
{
    b->failed |= g->failed;
    for (size_t i = 0; i < g->n; i++) {
        const size_t column = i % (size_t)g->ncolumns;
        if (!column && run) csv_text(b, run);
        if (column || run) mba_buf_put(b, ",");
        if (g->cell[i].text) csv_text(b, g->cell[i].text);
        else mba_buf_put(b, mba_exact(g->cell[i].number).s);
        if (column == (size_t)g->ncolumns - 1) mba_buf_put(b, "\n");
    }
}
