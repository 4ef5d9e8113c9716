// SPDX-License-Identifier: Apache-2.0
/* store_read.c -- see store.h: reads rows of a store one by one, or a whole table into memory. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/aliases.h"
#include "scope/store_schema.h"

enum { COLUMNS_MAX = 32 };
static const size_t LOAD_BYTES_MAX = (size_t)1 << 30;

/* True if a value has the declared type of its column: a text in a column of numbers is damage, not 0. */
static bool fits(int type, mba_cell cell)
{
    if (type == SQLITE_NULL) return true;
    if (cell == MBA_CELL_TEXT) return type == SQLITE_TEXT;
    return type == SQLITE_INTEGER || (cell == MBA_CELL_REAL && type == SQLITE_FLOAT);
}

static mba_status read_row(const mba_store *s, const mba_store_table *t, sqlite3_stmt *q, mba_value *row)
{
    for (int i = 0; i < t->ncolumns; i++) {
        const int  type = sqlite3_column_type(q, i);
        const bool absent = type == SQLITE_NULL;
        if (!fits(type, t->column[i].cell))
            return mba_fail(MBA_E_FORMAT,
                            "'%s' is not a valid store\nwhy: %s.%s has a value of another type\n"
                            "fix: record it again with `mambascope profile`",
                            s->path, t->name, t->column[i].name);
        if (t->column[i].cell == MBA_CELL_INT) row[i].i = absent ? MBA_ABSENT : sqlite3_column_int64(q, i);
        else if (t->column[i].cell == MBA_CELL_REAL) row[i].r = absent ? NAN : sqlite3_column_double(q, i);
        else row[i].text = absent ? NULL : (const char *)sqlite3_column_text(q, i);
        if (t->column[i].cell == MBA_CELL_TEXT && !absent && !row[i].text)
            return mba__store_failed(s, SQLITE_NOMEM, t->name);
    }
    return MBA_OK;
}

#define PLACE(row, field) (offsetof(row, field) / sizeof(mba_value))

/* Kernels and variants of stores of earlier releases get their current names. */
static void rename_row(mba_store_rows table, mba_value *row)
{
    mba_value *const variant = &row[PLACE(mba_row_node, variant)], *const planned = &row[PLACE(mba_row_launch, kernel)],
                     *const name = &row[PLACE(mba_row_kernel, name)];
    if (table == MBA_ROWS_node) variant->text = mba_alias_variant(row[PLACE(mba_row_node, op)].text, variant->text);
    if (table == MBA_ROWS_launch) planned->text = mba_alias_kernel(planned->text);
    if (table == MBA_ROWS_kernel) name->text = mba_alias_kernel(name->text);
}

mba_status mba_store_each(mba_store *s, mba_store_rows table, const char *order, mba_row_fn *see, void *ctx)
{
    const mba_store_table *t = &mba_store_tables[table];
    mba_value              row[COLUMNS_MAX];
    sqlite3_stmt          *q = NULL;
    mba_assert(t->ncolumns <= COLUMNS_MAX);
    if (t->since > s->version) return MBA_OK;
    char *sql = mba__schema_select(table, s->version, order);
    int   rc = sql ? sqlite3_prepare_v2(s->db, sql, -1, &q, NULL) : SQLITE_NOMEM;
    sqlite3_free(sql);
    mba_status st = rc == SQLITE_OK ? MBA_OK : mba__store_failed(s, rc, t->name);
    while (st == MBA_OK && (rc = sqlite3_step(q)) == SQLITE_ROW) {
        st = read_row(s, t, q, row);
        if (st == MBA_OK) rename_row(table, row);
        if (st == MBA_OK) st = see(ctx, row);
    }
    if (st == MBA_OK && rc != SQLITE_DONE) st = mba__store_failed(s, rc, t->name);
    sqlite3_finalize(q);
    return st;
}

mba_status mba_store_count(mba_store *s, mba_store_rows table, int64_t *n)
{
    char          sql[96];
    sqlite3_stmt *q = NULL;
    *n = 0;
    if (mba_store_tables[table].since > s->version) return MBA_OK;
    snprintf(sql, sizeof sql, "SELECT count(*) FROM \"%s\"", mba_store_tables[table].name);
    int rc = sqlite3_prepare_v2(s->db, sql, -1, &q, NULL);
    if (rc == SQLITE_OK) rc = sqlite3_step(q);
    if (rc == SQLITE_ROW) *n = sqlite3_column_int64(q, 0);
    sqlite3_finalize(q);
    return rc == SQLITE_ROW ? MBA_OK : mba__store_failed(s, rc, "counting");
}

/* ---- whole tables ---- */

struct mba__chunk {
    struct mba__chunk *next;
    size_t             used, room;
    char               bytes[];
};

typedef struct loading {
    mba_store             *s;
    const mba_store_table *t;
    mba_value             *rows;
    int64_t                n, room;
} loading;

static mba_status too_large(const loading *l)
{
    return mba_fail(MBA_E_FORMAT,
                    "'%s' is not a valid store\nwhy: its table %s is too large (%lld rows)\n"
                    "fix: record it again with `mambascope profile`",
                    l->s->path, l->t->name, (long long)l->room);
}

/* Takes memory that lives until close. MBA_E_FORMAT: the file wants more than a store ever does. MBA_E_NOMEM: there is
 * none. */
static mba_status take(void **out, const loading *l, size_t bytes)
{
    enum { CHUNK_BYTES = 1 << 16 };
    mba_store *s = l->s;
    bytes = (bytes + 15) & ~(size_t)15;
    if (bytes > LOAD_BYTES_MAX - s->loaded_bytes) return too_large(l);
    struct mba__chunk *c = s->loaded;
    if (!c || c->room - c->used < bytes) {
        const size_t room = bytes > CHUNK_BYTES ? bytes : CHUNK_BYTES;
        c = malloc(sizeof *c + room);
        if (!c) return mba_fail(MBA_E_NOMEM, "no memory to read the table %s of '%s'", l->t->name, s->path);
        *c = (struct mba__chunk){ .next = s->loaded, .room = room };
        s->loaded = c;
    }
    mba_assert(c->used + bytes <= c->room);
    *out = c->bytes + c->used;
    c->used += bytes;
    s->loaded_bytes += bytes;
    return MBA_OK;
}

void mba__store_unload(mba_store *s)
{
    for (struct mba__chunk *c = s->loaded, *next; c; c = next) {
        next = c->next;
        free(c);
    }
    s->loaded = NULL;
}

static mba_status keep(void *ctx, const void *row)
{
    loading *l = ctx;
    if (l->n == l->room) return MBA_OK; // added since the rows were counted
    mba_debug_assert(l->n >= 0 && l->n < l->room);
    mba_value *to = l->rows + l->n++ * l->t->ncolumns;
    memcpy(to, row, (size_t)l->t->ncolumns * sizeof *to);
    for (int i = 0; i < l->t->ncolumns; i++)
        if (l->t->column[i].cell == MBA_CELL_TEXT && to[i].text) {
            const size_t bytes = strlen(to[i].text) + 1;
            void        *copy = NULL;
            MBA_TRY(take(&copy, l, bytes));
            to[i].text = memcpy(copy, to[i].text, bytes);
        }
    return MBA_OK;
}

mba_status mba_store_load(mba_store *s, mba_store_rows table, void **rows, int64_t *n)
{
    mba_assert(table < MBA_ROWS_COUNT);
    loading l = { .s = s, .t = &mba_store_tables[table] };
    *rows = NULL;
    *n = 0;
    MBA_TRY(mba_store_count(s, table, &l.room));
    if (l.room > MBA_LOAD_MAX) return too_large(&l);
    void *memory = NULL;
    MBA_TRY(take(&memory, &l, (size_t)l.room * (size_t)l.t->ncolumns * sizeof *l.rows + 1));
    l.rows = memory;
    MBA_TRY(mba_store_each(s, table, NULL, keep, &l));
    *rows = l.rows;
    *n = l.n;
    return MBA_OK;
}

/* Binary search: `id` is the first column and the key of its table, so rows are sorted by it. */
int64_t mba_store_find(mba_store_rows table, const void *rows, int64_t n, int64_t id)
{
    mba_debug_assert(n >= 0 && !strcmp(mba_store_tables[table].column[0].name, "id"));
    const mba_value *row = rows;
    const int        columns = mba_store_tables[table].ncolumns;
    int64_t          lo = 0, hi = n;
    while (lo < hi) {
        const int64_t mid = lo + (hi - lo) / 2;
        if (row[mid * columns].i < id) lo = mid + 1;
        else hi = mid;
    }
    return lo < n && row[lo * columns].i == id ? lo : -1;
}

/* ---- every page ---- */

mba_status mba_store_check(mba_store *s)
{
    sqlite3_stmt *q = NULL;
    int           rc = sqlite3_prepare_v2(s->db, "PRAGMA integrity_check(1)", -1, &q, NULL);
    if (rc == SQLITE_OK) rc = sqlite3_step(q);
    const char *says = rc == SQLITE_ROW ? (const char *)sqlite3_column_text(q, 0) : NULL;
    mba_status  st = MBA_OK;
    if (!says) st = mba__store_failed(s, rc, "checking it");
    else if (strcmp(says, "ok"))
        st = mba_fail(MBA_E_FORMAT, "'%s' is damaged\nwhy: %s\nfix: record it again with `mambascope profile`", s->path,
                      says);
    sqlite3_finalize(q);
    return st;
}
