// SPDX-License-Identifier: Apache-2.0
/* export.c -- see export.h: CSV and JSON, one row at a time. export_trace.c and export_store.c have the other
 * formats. */
#include "scope/export.h"

#include <stdlib.h>
#include <string.h>

#include "core/csv.h"

/* ---- words ---- */

/* Length of the UTF-8 character at s, 0 if it is not valid by RFC 3629. */
static int utf8_length(const unsigned char *s)
{
    if (s[0] < 0x80) return 1;
    const int n = s[0] >= 0xf0 && s[0] <= 0xf4  ? 4
                  : s[0] >= 0xe0 && s[0] < 0xf0 ? 3
                  : s[0] >= 0xc2 && s[0] < 0xe0 ? 2
                                                : 0;
    for (int i = 1; i < n; i++)
        if ((s[i] & 0xc0) != 0x80) return 0;
    if (n == 3 && ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f))) return 0;
    if (n == 4 && ((s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f))) return 0;
    return n;
}

void mba_export_string(FILE *f, const char *text)
{
    fputc('"', f);
    for (const unsigned char *s = (const unsigned char *)text; *s;) {
        const int n = utf8_length(s);
        if (n == 0) fputs("\\ufffd", f);
        else if (*s == '"' || *s == '\\') fprintf(f, "\\%c", *s);
        else if (*s < 0x20) fprintf(f, "\\u%04x", *s);
        else fwrite(s, 1, (size_t)n, f);
        s += n ? n : 1;
    }
    fputc('"', f);
}

static void number(FILE *f, double v)
{
    char text[32];
    snprintf(text, sizeof text, "%.17g", v); // else the fewest digits that read back as v
    for (int digits = 1; digits < 17; digits++) {
        char shorter[32];
        snprintf(shorter, sizeof shorter, "%.*g", digits, v);
        if (strtod(shorter, NULL) == v) {
            fputs(shorter, f);
            return;
        }
    }
    fputs(text, f);
}

static bool absent(mba_cell cell, mba_value v)
{
    return cell == MBA_CELL_INT ? v.i == MBA_ABSENT : cell == MBA_CELL_REAL ? !isfinite(v.r) : !v.text;
}

/* ---- CSV ---- */

typedef struct writing {
    FILE                  *f;
    const mba_store_table *t;
    int64_t                rows;
} writing;

static void csv_text(FILE *f, const char *s)
{
    const char *guard = mba_csv_guard(s);
    if (!strpbrk(s, ",\"\r\n")) {
        fprintf(f, "%s%s", guard, s);
        return;
    }
    fprintf(f, "\"%s", guard);
    for (; *s; s++) {
        if (*s == '"') fputc('"', f);
        fputc(*s, f);
    }
    fputc('"', f);
}

static mba_status csv_row(void *ctx, const void *row)
{
    const writing *w = ctx;
    for (int i = 0; i < w->t->ncolumns; i++) {
        const mba_value v = mba_row_field(row, i);
        if (i) fputc(',', w->f);
        if (absent(w->t->column[i].cell, v)) continue;
        if (w->t->column[i].cell == MBA_CELL_INT) fprintf(w->f, "%lld", (long long)v.i);
        else if (w->t->column[i].cell == MBA_CELL_REAL) number(w->f, v.r);
        else csv_text(w->f, v.text);
    }
    fputc('\n', w->f);
    return MBA_OK;
}

mba_status mba_export_csv(FILE *f, mba_store *s, mba_store_rows table)
{
    mba_assert(table < MBA_ROWS_COUNT);
    writing w = { f, &mba_store_tables[table], 0 };
    for (int i = 0; i < w.t->ncolumns; i++) {
        char        heading[128];
        const char *unit = w.t->column[i].unit;
        snprintf(heading, sizeof heading, *unit ? "%s [%s]" : "%s", w.t->column[i].name, unit);
        if (i) fputc(',', f);
        csv_text(f, heading);
    }
    fputc('\n', f);
    return mba_store_each(s, table, NULL, csv_row, &w);
}

/* ---- JSON ---- */

static mba_status json_row(void *ctx, const void *row)
{
    writing *w = ctx;
    fputs(w->rows++ ? ",\n  {" : "\n  {", w->f);
    for (int i = 0; i < w->t->ncolumns; i++) {
        const mba_value v = mba_row_field(row, i);
        fprintf(w->f, "%s\"%s\": ", i ? ", " : "", w->t->column[i].name);
        if (absent(w->t->column[i].cell, v)) fputs("null", w->f);
        else if (w->t->column[i].cell == MBA_CELL_INT) fprintf(w->f, "%lld", (long long)v.i);
        else if (w->t->column[i].cell == MBA_CELL_REAL) number(w->f, v.r);
        else mba_export_string(w->f, v.text);
    }
    fputc('}', w->f);
    return MBA_OK;
}

mba_status mba_export_json(FILE *f, mba_store *s)
{
    fprintf(f, "{\"version\": %d", mba_store_version(s));
    for (int t = 0; t < MBA_ROWS_COUNT; t++) {
        writing w = { f, &mba_store_tables[t], 0 };
        fprintf(f, ",\n \"%s\": [", w.t->name);
        MBA_TRY(mba_store_each(s, (mba_store_rows)t, NULL, json_row, &w));
        fputc(']', f);
    }
    fputs("}\n", f);
    return MBA_OK;
}
