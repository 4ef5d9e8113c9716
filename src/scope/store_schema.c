// SPDX-License-Identifier: Apache-2.0
/* store_schema.c -- see store_schema.h: the tables of store.def as data and as SQL, and the check that an open file has
 * them. */
#include "scope/store_schema.h"

#include <string.h>

#define TABLE(name, since, doc)      static const mba_store_column name##_columns[] = {
#define INT(name, since, unit, doc)  { #name, MBA_CELL_INT, since, unit, doc },
#define REAL(name, since, unit, doc) { #name, MBA_CELL_REAL, since, unit, doc },
#define TEXT(name, since, unit, doc) { #name, MBA_CELL_TEXT, since, unit, doc },
#define END(name) \
    } \
    ; \
    _Static_assert(sizeof(mba_row_##name) == sizeof(mba_value) * (sizeof name##_columns / sizeof *name##_columns), \
                   "8-byte fields");
#include "scope/store.def"
#undef TABLE
#undef INT
#undef REAL
#undef TEXT
#undef END

const mba_store_table mba_store_tables[MBA_ROWS_COUNT] = {
#define TABLE(name, since, doc) { #name, doc, since, sizeof name##_columns / sizeof *name##_columns, name##_columns },
#define INT(name, since, unit, doc)
#define REAL(name, since, unit, doc)
#define TEXT(name, since, unit, doc)
#define END(name)
#include "scope/store.def"
#undef TABLE
#undef INT
#undef REAL
#undef TEXT
#undef END
};

static const char *const sql_type[] = {
    [MBA_CELL_INT] = "INTEGER", [MBA_CELL_REAL] = "REAL", [MBA_CELL_TEXT] = "TEXT"
};

static bool is_key(const mba_store_column *c) { return c->cell == MBA_CELL_INT && !strcmp(c->name, "id"); }

char *mba__schema_create(mba_store_rows table, int version)
{
    mba_assert(table < MBA_ROWS_COUNT && version >= 1 && version <= MBA_STORE_VERSION);
    const mba_store_table *t = &mba_store_tables[table];
    sqlite3_str           *s = sqlite3_str_new(NULL);
    int                    n = 0;
    sqlite3_str_appendf(s, "CREATE TABLE \"%s\"(", t->name);
    for (int i = 0; i < t->ncolumns; i++)
        if (t->column[i].since <= version)
            sqlite3_str_appendf(s, "%s\"%s\" %s%s", n++ ? ", " : "", t->column[i].name, sql_type[t->column[i].cell],
                                is_key(&t->column[i]) ? " PRIMARY KEY" : "");
    sqlite3_str_appendall(s, ")");
    return sqlite3_str_finish(s);
}

char *mba__schema_insert(mba_store_rows table)
{
    sqlite3_str *s = sqlite3_str_new(NULL);
    sqlite3_str_appendf(s, "INSERT INTO \"%s\" VALUES(", mba_store_tables[table].name);
    for (int i = 0; i < mba_store_tables[table].ncolumns; i++) sqlite3_str_appendall(s, i ? ",?" : "?");
    sqlite3_str_appendall(s, ")");
    return sqlite3_str_finish(s);
}

char *mba__schema_select(mba_store_rows table, int version, const char *order)
{
    mba_assert(table < MBA_ROWS_COUNT && version >= 1 && version <= MBA_STORE_VERSION);
    const mba_store_table *t = &mba_store_tables[table];
    sqlite3_str           *s = sqlite3_str_new(NULL);
    sqlite3_str_appendall(s, "SELECT ");
    for (int i = 0; i < t->ncolumns; i++) {
        if (t->column[i].since <= version) sqlite3_str_appendf(s, "%s\"%s\"", i ? "," : "", t->column[i].name);
        else sqlite3_str_appendf(s, "%sNULL", i ? "," : "");
    }
    sqlite3_str_appendf(s, " FROM \"%s\" ORDER BY %s", t->name, order ? order : "rowid");
    return sqlite3_str_finish(s);
}

/* ---- is it a store? ---- */

static mba_status number_of(mba_store *s, const char *sql, int64_t *out)
{
    sqlite3_stmt *q = NULL;
    int           rc = sqlite3_prepare_v2(s->db, sql, -1, &q, NULL);
    if (rc == SQLITE_OK) rc = sqlite3_step(q);
    if (rc == SQLITE_ROW) *out = sqlite3_column_int64(q, 0);
    sqlite3_finalize(q);
    return rc == SQLITE_ROW ? MBA_OK : mba__store_failed(s, rc, "reading the header");
}

/* A table must have our columns, and no generated ones. */
static mba_status check_table(mba_store *s, const mba_store_table *t)
{
    sqlite3_stmt *q = NULL;
    int rc = sqlite3_prepare_v2(s->db, "SELECT name, hidden FROM pragma_table_xinfo(?)", -1, &q, NULL), found = 0,
        wanted = 0;
    bool sound = true;
    if (rc == SQLITE_OK) rc = sqlite3_bind_text(q, 1, t->name, -1, SQLITE_STATIC);
    for (int i = 0; i < t->ncolumns; i++) wanted += t->column[i].since <= s->version;
    while (rc == SQLITE_OK && (rc = sqlite3_step(q)) == SQLITE_ROW) {
        const char *name = (const char *)sqlite3_column_text(q, 0);
        sound &= !sqlite3_column_int(q, 1) && name;
        for (int i = 0; name && i < t->ncolumns; i++)
            found += t->column[i].since <= s->version && !strcmp(name, t->column[i].name);
        rc = SQLITE_OK;
    }
    sqlite3_finalize(q);
    if (rc != SQLITE_DONE) return mba__store_failed(s, rc, "reading its tables");
    if (!sound || found != wanted)
        return mba_fail(MBA_E_FORMAT,
                        "'%s' is not a valid store\nwhy: its table %s does not have the columns of version %d\n"
                        "fix: record it again with `mambascope profile`",
                        s->path, t->name, s->version);
    return MBA_OK;
}

mba_status mba__schema_check(mba_store *s)
{
    int64_t id = 0, version = 0, strange = 0;
    MBA_TRY(number_of(s, "PRAGMA application_id", &id));
    MBA_TRY(number_of(s, "PRAGMA user_version", &version));
    if (id != MBA_STORE_ID)
        return mba_fail(MBA_E_FORMAT,
                        "'%s' is not a store of mambascope\nwhy: %s\nfix: make one with `mambascope profile --out "
                        "FILE.db`",
                        s->path,
                        id ? "it is the database of another program" : "it is empty, or a database of another program");
    if (version > MBA_STORE_VERSION)
        return mba_fail(MBA_E_FORMAT,
                        "'%s' was written by a newer mambascope\nwhy: its schema has version %lld, this program "
                        "knows %d\n"
                        "fix: build the newer program",
                        s->path, (long long)version, MBA_STORE_VERSION);
    if (version < 1)
        return mba_fail(MBA_E_FORMAT,
                        "'%s' is not a valid store\nwhy: it has no version\nfix: make it again with `mambascope "
                        "profile`",
                        s->path);
    s->version = (int)version;
    mba_assert(s->version >= 1 && s->version <= MBA_STORE_VERSION);
    MBA_TRY(number_of(s, "SELECT count(*) FROM sqlite_schema WHERE type <> 'table' OR rootpage < 1", &strange));
    if (strange)
        return mba_fail(MBA_E_FORMAT,
                        "'%s' is not a valid store\nwhy: it has views, triggers, indexes or virtual tables; a store "
                        "has none\n"
                        "fix: record it again with `mambascope profile`",
                        s->path);
    for (int t = 0; t < MBA_ROWS_COUNT; t++)
        if (mba_store_tables[t].since <= s->version) MBA_TRY(check_table(s, &mba_store_tables[t]));
    return MBA_OK;
}
