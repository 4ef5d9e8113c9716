// SPDX-License-Identifier: Apache-2.0
/* table.c -- see table.h. */
#include "cli/table.h"

#include <jansson.h>
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "core/csv.h"
#include "data/json.h"
#include "data/unicode.h"

typedef struct cell {
    char  *text;
    double number;
} cell;

struct mba_table {
    const mba_column *column;
    int              *least; /* letters of each column, in text */
    int               ncolumns;
    cell             *cells;
    size_t            ncells, room, flown; /* flown: cells that mba_table_flow has printed */
    bool              starved;             /* a cell found no memory: the table is not printed */
};

mba_status mba_table_create(mba_table **out, const mba_column *columns)
{
    mba_table *t = calloc(1, sizeof *t);
    int        n = 0;
    while (columns[n].key) n++;
    mba_column *mine = calloc((size_t)n + 1, sizeof *mine);
    int        *least = calloc((size_t)n + 1, sizeof *least);
    if (!t || !mine || !least) {
        free(t);
        free(mine);
        free(least);
        return mba_fail(MBA_E_NOMEM, "no memory for a table");
    }
    memcpy(mine, columns, sizeof *mine * (size_t)n);
    *t = (mba_table){ .column = mine, .least = least, .ncolumns = n };
    *out = t;
    return MBA_OK;
}

void mba_table_destroy(mba_table *t)
{
    if (!t) return;
    for (size_t i = 0; i < t->ncells; i++) free(t->cells[i].text);
    free(t->cells);
    free((void *)t->column);
    free(t->least);
    free(t);
}

static mba_status no_memory(void) { return mba_fail(MBA_E_NOMEM, "no memory for a table"); }

static bool make_room(mba_table *t)
{
    if (t->ncells < t->room) return true;
    const size_t room = t->room ? 2 * t->room : 64;
    cell        *wider = realloc(t->cells, room * sizeof *wider);
    if (!wider) return false;
    t->cells = wider;
    t->room = room;
    return true;
}

/* Takes `text`; NULL: there was no memory for it. */
static void add(mba_table *t, char *text, double number)
{
    t->starved = t->starved || !text || !make_room(t);
    if (t->starved) free(text);
    else t->cells[t->ncells++] = (cell){ text, number };
}

/* Names come from other files and programs. A name that is not UTF-8 would be lost in JSON. Takes `text`; NULL: no
 * memory. */
static char *repaired(char *text)
{
    mba_text   better = { 0 };
    mba_status st = MBA_OK;
    if (!text || mba_utf8_valid(text, strlen(text))) return text;
    st = mba_utf8_repair(&better, text, strlen(text));
    if (st == MBA_OK) st = mba_text_add(&better, "", 1);
    free(text);
    if (st == MBA_OK) return better.data;
    free(better.data);
    return NULL;
}

void mba_table_text(mba_table *t, const char *fmt, ...)
{
    char   *text;
    va_list ap;
    va_start(ap, fmt);
    const int n = vasprintf(&text, fmt, ap);
    va_end(ap);
    add(t, n >= 0 ? repaired(text) : NULL, NAN);
}

void mba_table_cut(mba_table *t, const char *text, size_t most)
{
    size_t n = strlen(text);
    if (n > most)
        for (n = most; n > 0 && ((unsigned char)text[n] & 0xc0) == 0x80;) n--; // no half characters
    add(t, repaired(strndup(text, n)), NAN);
}

void mba_table_number(mba_table *t, double v)
{
    const char *format = t->column[t->ncells % (size_t)t->ncolumns].format;
    char        text[64] = "-";
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    if (!isnan(v)) snprintf(text, sizeof text, format ? format : "%g", v);
#pragma GCC diagnostic pop
    add(t, strdup(text), v);
}

static int letters_of(const char *s)
{
    int n = 0;
    for (; *s; s++) n += ((unsigned char)*s & 0xc0) != 0x80;
    return n;
}

void mba_table_widen(mba_table *t, int column, int letters)
{
    mba_assert(column >= 0 && column < t->ncolumns);
    if (letters > t->least[column]) t->least[column] = letters;
}

/* At least as wide as the heading and as requested. */
static int least_width(const mba_table *t, int column)
{
    const int w = letters_of(t->column[column].heading);
    return w > t->least[column] ? w : t->least[column];
}

static int width_of(const mba_table *t, int column)
{
    int w = least_width(t, column);
    for (size_t i = (size_t)column; i < t->ncells; i += (size_t)t->ncolumns)
        if (letters_of(t->cells[i].text) > w) w = letters_of(t->cells[i].text);
    return w;
}

/* Escapes control characters: a line break would start a row, an escape sequence would control the terminal. */
static void print_plain(FILE *f, const char *s)
{
    for (; *s; s++) {
        const bool second = (unsigned char)s[0] == 0xc2 && (unsigned char)s[1] < 0xa0; // U+0080 to U+009F: of two bytes
        fputc((unsigned char)*s < 0x20 || *s == 0x7f || second ? ' ' : *s, f);
        s += second;
    }
}

static void print_padded(const mba_table *t, FILE *f, int column, const char *s, int width)
{
    const bool last = column + 1 == t->ncolumns, number = t->column[column].format;
    const int  pad = width - letters_of(s);
    if (number) fprintf(f, "%*s", pad, "");
    print_plain(f, s);
    if (!number && !last) fprintf(f, "%*s", pad, "");
    fputs(last ? "\n" : "  ", f);
}

static mba_status print_text(const mba_table *t, FILE *f)
{
    int *width = calloc((size_t)t->ncolumns, sizeof *width);
    if (!width) return no_memory();
    for (int c = 0; c < t->ncolumns; c++) width[c] = width_of(t, c);
    for (int c = 0; c < t->ncolumns; c++) print_padded(t, f, c, t->column[c].heading, width[c]);
    for (size_t i = 0; i < t->ncells; i++) {
        const int c = (int)(i % (size_t)t->ncolumns);
        print_padded(t, f, c, t->cells[i].text, width[c]);
    }
    free(width);
    return MBA_OK;
}

static void print_csv_field(FILE *f, const char *s)
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

/* Cells from `from` on; in front of the first the heading. */
static void print_csv(const mba_table *t, FILE *f, size_t from)
{
    for (int c = 0; !from && c < t->ncolumns; c++)
        fprintf(f, "%s%s", t->column[c].key, c + 1 == t->ncolumns ? "\n" : ",");
    for (size_t i = from; i < t->ncells; i++) {
        const bool last = (i + 1) % (size_t)t->ncolumns == 0;
        if (t->column[i % (size_t)t->ncolumns].format && !isnan(t->cells[i].number))
            fprintf(f, "%.10g", t->cells[i].number);
        else if (!t->column[i % (size_t)t->ncolumns].format) print_csv_field(f, t->cells[i].text);
        fputc(last ? '\n' : ',', f);
    }
}

/* The row whose first cell is i; NULL: no memory. */
static json_t *json_row(const mba_table *t, size_t i)
{
    json_t *row = json_object();
    bool    whole_row = row != NULL;
    for (int c = 0; c < t->ncolumns; c++) {
        const cell  *is = &t->cells[i + (size_t)c];
        const double v = is->number;
        const bool   whole = v == floor(v) && fabs(v) < 9e15;
        whole_row &= !json_object_set_new(row, t->column[c].key,
                                          !t->column[c].format ? json_string(is->text)
                                          : whole              ? json_integer((json_int_t)v)
                                                               : mba_json_finite(v));
    }
    if (whole_row) return row;
    json_decref(row);
    return NULL;
}

/* The owner of the file reports write errors; other failures of json_dumpf are lack of memory. */
static mba_status dump(const json_t *j, FILE *f, size_t flags)
{
    return j && (json_dumpf(j, f, flags) == 0 || ferror(f)) ? MBA_OK : no_memory();
}

static mba_status print_json(const mba_table *t, FILE *f)
{
    json_t *rows = json_array();
    bool    all = rows != NULL;
    for (size_t i = 0; all && i < t->ncells; i += (size_t)t->ncolumns)
        all = !json_array_append_new(rows, json_row(t, i));
    const mba_status st = dump(all ? rows : NULL, f, JSON_INDENT(1) | JSON_REAL_PRECISION(10));
    fputc('\n', f);
    json_decref(rows);
    return st;
}

mba_status mba_table_status(const mba_table *t) { return t->starved ? no_memory() : MBA_OK; }

size_t mba_table_rows(const mba_table *t) { return t->ncells / (size_t)t->ncolumns; }

mba_status mba_table_print(const mba_table *t, FILE *f, mba_table_form form)
{
    MBA_TRY(mba_table_status(t));
    mba_assert(t->ncells % (size_t)t->ncolumns == 0);
    if (form == MBA_TABLE_JSON) return print_json(t, f);
    if (form == MBA_TABLE_TEXT) return print_text(t, f);
    print_csv(t, f, 0);
    return MBA_OK;
}

static void flow_text(const mba_table *t, FILE *f)
{
    for (int c = 0; !t->flown && c < t->ncolumns; c++) print_padded(t, f, c, t->column[c].heading, least_width(t, c));
    for (size_t i = t->flown; i < t->ncells; i++) {
        const int c = (int)(i % (size_t)t->ncolumns);
        print_padded(t, f, c, t->cells[i].text, least_width(t, c));
    }
}

static mba_status flow_json(const mba_table *t, FILE *f)
{
    mba_status st = MBA_OK;
    for (size_t i = t->flown; st == MBA_OK && i < t->ncells; i += (size_t)t->ncolumns) {
        json_t *row = json_row(t, i);
        fputs(i ? ",\n" : "[\n", f);
        st = dump(row, f, JSON_INDENT(1) | JSON_REAL_PRECISION(10));
        json_decref(row);
    }
    return st;
}

mba_status mba_table_flow(mba_table *t, FILE *f, mba_table_form form, bool last)
{
    mba_status st = MBA_OK;
    MBA_TRY(mba_table_status(t));
    mba_assert(t->ncells % (size_t)t->ncolumns == 0);
    if (last && !t->ncells) {
        st = mba_table_print(t, f, form);
    } else if (t->flown < t->ncells) {
        if (form == MBA_TABLE_JSON) st = flow_json(t, f);
        else if (form == MBA_TABLE_CSV) print_csv(t, f, t->flown);
        else flow_text(t, f);
        t->flown = t->ncells;
    }
    if (last && t->ncells && form == MBA_TABLE_JSON) fputs("\n]\n", f);
    fflush(f);
    return st;
}

mba_table_form mba_table_form_of(bool json, bool csv)
{
    return json ? MBA_TABLE_JSON : csv ? MBA_TABLE_CSV : MBA_TABLE_TEXT;
}

mba_status mba_table_json_text(FILE *f, const char *text)
{
    char            *copy = repaired(strdup(text));
    json_t          *j = copy ? json_string(copy) : NULL;
    const mba_status st = dump(j, f, JSON_ENCODE_ANY);
    json_decref(j);
    free(copy);
    return st;
}
