// SPDX-License-Identifier: Apache-2.0
/* number_table.c -- see number_table.h: a scanner for numbers, fields and rows. */
#include "data/number_table.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "data/array.h"

enum { NUMBER_CHARS = 63, DIGITS_EXACT = 15 };
/* The largest expansion of a compressed file. Tables of numbers compress to a third or a tenth, constant columns
 * further. A hostile file can expand a thousand times. Small files may expand to 64 MiB. */
enum { SHRINKS_MAX = 64 };
#define UNPACKED_FREE ((size_t)64 << 20)
#define UNPACKED_MAX  ((size_t)4 << 30)
#define EXACT_MAX     9007199254740992.0 /* 2^53: a double represents every integer below it */

typedef struct scanner {
    const mba_named_text        *t;
    const mba_number_table_form *form;
    const char                  *at, *end; /* the rest of the text */
    const char                  *stop;     /* of the line */
    int64_t                      line;
} scanner;

/* ---- one number ---- */

static mba_status refuse(const scanner *s, const char *field, size_t n, const char *why)
{
    return mba_fail(MBA_E_FORMAT,
                    "'%s', line %" PRId64 ", is wrong\nwhy: '%s' %s\n"
                    "fix: check the file, or get it again",
                    s->t->name, s->line, mba_quote_bytes(field, n).text, why);
}

/* The fast path for nearly all numbers: digits with a sign, few enough to be exact. */
static bool parse_short(double *out, const char *p, size_t n)
{
    const bool negative = n && *p == '-';
    int64_t    v = 0;
    if (n <= negative || n > DIGITS_EXACT) return false;
    for (size_t i = negative; i < n; i++) {
        if (p[i] < '0' || p[i] > '9') return false;
        v = 10 * v + (p[i] - '0');
    }
    *out = (double)(negative ? -v : v);
    return true;
}

static mba_status parse_number(double *out, const scanner *s, const char *p, size_t n)
{
    char  copy[NUMBER_CHARS + 1];
    char *end;
    if (parse_short(out, p, n)) return MBA_OK;
    if (n > NUMBER_CHARS) return refuse(s, p, n, "is too long for a number");
    memcpy(copy, p, n);
    copy[n] = 0;
    *out = strtod(copy, &end);
    if (!n || *end || end != copy + n) return refuse(s, p, n, "is not a number");
    if (isnan(*out)) return refuse(s, p, n, "stands for a value that is not a number (NaN)");
    if (!(fabs(*out) <= FLT_MAX)) return refuse(s, p, n, "is infinite or too large");
    if (s->form->whole && *out != floor(*out)) return refuse(s, p, n, "is not a whole number");
    if (s->form->whole && fabs(*out) > EXACT_MAX) return refuse(s, p, n, "is too large");
    return MBA_OK;
}

/* ---- lines and fields ---- */

/* Advances to the next line that is no comment and sets its end; false at the end of the text. */
static bool next_line(scanner *s)
{
    for (;;) {
        if (s->at == s->end) return false;
        const char *feed = memchr(s->at, '\n', (size_t)(s->end - s->at));
        s->stop = feed ? feed : s->end;
        s->line++;
        if (!s->form->comment || *s->at != s->form->comment) return true;
        s->at = feed ? feed + 1 : s->end;
    }
}

static void leave_line(scanner *s) { s->at = s->stop < s->end ? s->stop + 1 : s->end; }

static bool blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

static void skip_blanks(scanner *s)
{
    while (s->at < s->stop && blank(*s->at)) s->at++;
}

/* Reads one field and the separator after it; *more: another field must follow. */
static mba_status read_field(double *out, bool *more, scanner *s)
{
    skip_blanks(s);
    const char *first = s->at;
    while (s->at < s->stop && *s->at != ',' && !blank(*s->at)) s->at++;
    const size_t n = (size_t)(s->at - first);
    skip_blanks(s);
    *more = s->at < s->stop && (*s->at == ',' || !s->form->missing);
    if (!*more && s->at < s->stop) return refuse(s, first, (size_t)(s->stop - first), "holds two values in one field");
    if (*more && *s->at == ',') s->at++;
    *out = NAN;
    if (!n && s->form->missing) return MBA_OK;
    return parse_number(out, s, first, n);
}

typedef struct values {
    double *v;
    size_t  n, room;
} values;

static mba_status push(values *a, double x)
{
    if (a->n == a->room) {
        const size_t room = a->room ? 2 * a->room : 1024;
        double      *wider = realloc(a->v, room * sizeof *wider);
        if (!wider) return mba_fail(MBA_E_NOMEM, "no memory for a table of %zu numbers", room);
        a->v = wider;
        a->room = room;
    }
    a->v[a->n++] = x;
    return MBA_OK;
}

static mba_status read_row(values *a, mba_number_table *t, scanner *s)
{
    const char *line = s->at;
    int64_t     n = 0;
    for (bool more = true; more; n++) {
        double x = 0;
        MBA_TRY(read_field(&x, &more, s));
        MBA_TRY(push(a, x));
        t->whole = t->whole && x == floor(x);
    }
    if (!t->columns) t->columns = n;
    if (n != t->columns)
        return mba_fail(MBA_E_FORMAT,
                        "'%s', line %" PRId64 ", is wrong\nwhy: '%s' has %" PRId64 " fields instead of %" PRId64
                        "\nfix: check the file, or get it again",
                        s->t->name, s->line, mba_quote_bytes(line, (size_t)(s->stop - line)).text, n, t->columns);
    t->rows++;
    return MBA_OK;
}

/* Reads all rows. An empty line ends the table; only empty lines may follow. In a table of one column with missing
 * values, an empty line is a row. */
static mba_status read_rows(values *a, mba_number_table *t, scanner *s)
{
    int64_t emptied = 0;
    for (; next_line(s); leave_line(s)) {
        const char *first = s->at;
        skip_blanks(s);
        const bool empty = s->at == s->stop && !(s->form->missing && t->columns <= 1);
        s->at = first;
        if (!empty && emptied) {
            s->line = emptied;
            return refuse(s, "", 0, "is an empty line between others");
        }
        if (empty) emptied = s->line;
        else MBA_TRY(read_row(a, t, s));
    }
    if (!t->rows && !s->form->may_be_empty)
        return mba_fail(MBA_E_FORMAT,
                        "'%s' has no values\nwhy: the file is empty\n"
                        "fix: check the file, or get it again",
                        s->t->name);
    return MBA_OK;
}

mba_status mba_number_table_read(mba_number_table *out, const mba_named_text *t, const mba_number_table_form *form)
{
    scanner          s = { .t = t, .form = form, .at = t->text, .end = t->text + t->bytes };
    mba_number_table table = { .columns = form->columns, .whole = true };
    values           a = { 0 };
    const mba_status st = read_rows(&a, &table, &s);
    if (st != MBA_OK) {
        free(a.v);
        return st;
    }
    table.value = a.v;
    *out = table;
    return MBA_OK;
}

mba_status mba_number_table_load(mba_number_table *out, const char *path, const mba_number_table_form *form)
{
    mba_text_file f;
    MBA_TRY(mba_text_file_open(&f, path));
    const mba_status st = mba_number_table_read(out, &f.text, form);
    mba_text_file_close(&f);
    return st;
}

void mba_number_table_free(mba_number_table *t)
{
    free(t->value);
    *t = (mba_number_table){ 0 };
}

/* ---- files ---- */

/* The most bytes to which a compressed file of this size may expand. */
static size_t unpacked_most(const char *path)
{
    struct stat  s;
    const size_t bytes = stat(path, &s) ? 0 : (size_t)s.st_size;
    if (bytes > UNPACKED_MAX / SHRINKS_MAX) return UNPACKED_MAX;
    return bytes * SHRINKS_MAX > UNPACKED_FREE ? bytes * SHRINKS_MAX : UNPACKED_FREE;
}

mba_status mba_text_file_open(mba_text_file *out, const char *path)
{
    mba_text_file f = { .text.name = path };
    bool          last = false;
    const size_t  most = unpacked_most(path);
    mba_status    st = mba_reader_open(&f.reader, path, most);
    while (st == MBA_OK && !last) {
        st = mba_reader_view(f.reader, &f.text.text, &f.text.bytes, &last);
        if (st == MBA_OK && !last && f.text.bytes >= most)
            st = mba_fail(MBA_E_UNSUPPORTED,
                          "'%s' unpacks to more than %s\nwhy: a compressed table may be %d times as large as "
                          "its file, at least %s and at most %s\nfix: unpack it first, if the file is right",
                          path, mba_size_of((double)most).text, SHRINKS_MAX, mba_size_of((double)UNPACKED_FREE).text,
                          mba_size_of((double)UNPACKED_MAX).text);
    }
    if (st == MBA_OK) *out = f;
    else mba_text_file_close(&f);
    return st;
}

void mba_text_file_close(mba_text_file *f)
{
    mba_reader_close(f->reader);
    *f = (mba_text_file){ 0 };
}
