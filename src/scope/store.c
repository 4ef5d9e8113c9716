// SPDX-License-Identifier: Apache-2.0
/* store.c -- see store.h: creates, opens and writes stores. store_schema.c has the tables, store_read.c reads rows. */
#include "scope/store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/file.h"
#include "scope/clock.h"
#include "scope/store_schema.h"

enum { BATCH_ROWS = 8192, BATCH_LOOK = 64, CACHE_KB = 4096, TEXT_BYTES_MAX = 1 << 20, WAIT_MS = 5000 };
static const double BATCH_S = 1;

static bool memory_is_left(void)
{
    enum { PLENTY = 16 << 20 };       // far more than the pages and the schema of a store
    void *p = sqlite3_malloc(PLENTY); // compilers may remove a pair of malloc and free
    sqlite3_free(p);
    return p != NULL;
}

/* True if SQLite reports lack of memory because of a damaged file: sizes in it exceed what SQLite allocates. If even
 * the schema is damaged, the file cannot be checked; then this tests whether memory is available. */
static bool asks_too_much(const mba_store *s)
{
    sqlite3_stmt *q = NULL;
    bool          damaged = false;
    if (s->writing || !s->db) return false;
    int rc = sqlite3_prepare_v2(s->db, "PRAGMA quick_check(1)", -1, &q, NULL);
    if (rc == SQLITE_OK) rc = sqlite3_step(q);
    if (rc == SQLITE_ROW) {
        const char *text = (const char *)sqlite3_column_text(q, 0);
        damaged = text && strcmp(text, "ok") != 0;
    }
    sqlite3_finalize(q);
    return damaged || ((rc & 0xff) == SQLITE_NOMEM && memory_is_left());
}

/* errno of creating a file at this path. SQLite loses it: after a failed creation it tries to read, and reports only
 * that the file does not exist. */
static int why_not_created(const char *path)
{
    char     *probe = sqlite3_mprintf("%s.%d.probe", path, (int)getpid());
    const int fd = probe ? open(probe, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600) : -1,
              error = fd < 0 && probe ? errno : 0;
    if (fd >= 0) {
        close(fd);
        unlink(probe);
    }
    sqlite3_free(probe);
    return error;
}

mba_status mba__store_failed(const mba_store *s, int code, const char *doing)
{
    const int  c = (code & 0xff) == SQLITE_NOMEM && asks_too_much(s) ? SQLITE_CORRUPT : code & 0xff;
    const bool damaged = c == SQLITE_NOTADB || c == SQLITE_CORRUPT || c == SQLITE_ERROR || c == SQLITE_SCHEMA
                         || c == SQLITE_TOOBIG || c == SQLITE_MISMATCH || c == SQLITE_INTERRUPT
                         || s->in_memory; // without a file only its bytes can be wrong, e.g. a journal mode
    const char *why = s->db && c == (code & 0xff) ? sqlite3_errmsg(s->db) : sqlite3_errstr(c);
    if (c == SQLITE_NOMEM)
        return mba_fail(MBA_E_NOMEM, "no memory for the store '%s'\nwhy: %s\nfix: close other programs", s->path,
                        doing);
    if (s->writing && c == SQLITE_CANTOPEN) {
        const int seen = s->db ? sqlite3_system_errno(s->db) : 0,
                  error = seen == ENOENT ? why_not_created(s->path) : seen;
        return mba_fail(MBA_E_IO,
                        "cannot write the store '%s'\nwhy: %s: %s\nfix: choose a file in a writable "
                        "folder",
                        s->path, doing, error ? strerror(error) : why);
    }
    if (s->writing)
        return mba_fail(
            MBA_E_IO,
            "cannot write the store '%s'\nwhy: %s: %s\nfix: free disk space, and close the file in other programs",
            s->path, doing, why);
    if (damaged)
        return mba_fail(MBA_E_FORMAT,
                        "'%s' is not a readable store\nwhy: %s: %s\nfix: record it again with `mambascope profile`",
                        s->path, doing, why);
    return mba_fail(MBA_E_IO,
                    "cannot read the store '%s'\nwhy: %s: %s\nfix: give a store that exists and that you may "
                    "read and write",
                    s->path, doing, why);
}

static mba_status execute(mba_store *s, const char *sql, const char *doing)
{
    const int rc = sql ? sqlite3_exec(s->db, sql, NULL, NULL, NULL) : SQLITE_NOMEM;
    return rc == SQLITE_OK ? MBA_OK : mba__store_failed(s, rc, doing);
}

static mba_status make(mba_store **out, const char *path)
{
    *out = calloc(1, sizeof **out);
    if (!*out || !((*out)->path = strdup(path))) {
        free(*out);
        *out = NULL;
        return mba_fail(MBA_E_NOMEM, "no memory to open '%s'", path);
    }
    return MBA_OK;
}

/* Hardens a connection against hostile files: no triggers, views or functions of its schema run, values are limited. */
static void distrust(sqlite3 *db)
{
    static const int off[] = { SQLITE_DBCONFIG_ENABLE_TRIGGER, SQLITE_DBCONFIG_ENABLE_VIEW,
                               SQLITE_DBCONFIG_TRUSTED_SCHEMA, SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION };
    for (size_t i = 0; i < sizeof off / sizeof *off; i++) sqlite3_db_config(db, off[i], 0, NULL);
    sqlite3_db_config(db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    sqlite3_limit(db, SQLITE_LIMIT_LENGTH, TEXT_BYTES_MAX);
    sqlite3_busy_timeout(db, WAIT_MS);
}

/* ---- writing ---- */

/* A rollback journal, so that a closed store is one file; a small cache; temporary tables in files. */
static mba_status set_pragmas(mba_store *s)
{
    char text[160];
    snprintf(text, sizeof text,
             "PRAGMA journal_mode=DELETE; PRAGMA synchronous=NORMAL; PRAGMA cache_size=-%d; PRAGMA temp_store=FILE;",
             CACHE_KB);
    return execute(s, text, "setting it up");
}

static mba_status connect(mba_store *s, const char *path, int flags)
{
    const int rc = sqlite3_open_v2(path, &s->db, flags | SQLITE_OPEN_NOMUTEX, NULL);
    if (rc != SQLITE_OK) return mba__store_failed(s, rc, "opening it");
    distrust(s->db);
    return MBA_OK;
}

static mba_status create_tables(mba_store *s)
{
    char text[128];
    MBA_TRY(set_pragmas(s));
    snprintf(text, sizeof text, "BEGIN; PRAGMA application_id=%d; PRAGMA user_version=%d;", MBA_STORE_ID,
             MBA_STORE_VERSION);
    MBA_TRY(execute(s, text, "beginning"));
    for (int t = 0; t < MBA_ROWS_COUNT; t++) {
        char            *sql = mba__schema_create((mba_store_rows)t, MBA_STORE_VERSION);
        const mba_status st = execute(s, sql, "making its tables");
        sqlite3_free(sql);
        MBA_TRY(st);
    }
    return execute(s, "COMMIT", "making its tables");
}

mba_status mba_store_may_replace(const char *path)
{
    struct stat is;
    mba_store  *old = NULL;
    if (lstat(path, &is) || (S_ISREG(is.st_mode) && !is.st_size)) return MBA_OK; // lstat: /dev/stdout may be a link
    mba_status st = mba_store_open(&old, path);
    if (st == MBA_OK) st = mba_store_close(old);
    if (st == MBA_OK) return MBA_OK;
    return mba_fail(MBA_E_ARG,
                    "'%s' exists and is not a store\nwhy: only a store is replaced\nfix: name another file, or "
                    "remove it",
                    path);
}

void mba_store_remove(const char *path)
{
    char *journal = sqlite3_mprintf("%s-journal", path);
    if (journal) unlink(journal); // first: beside a new store it would damage that
    unlink(path);
    sqlite3_free(journal);
}

/* Removes the temporary stores of killed processes: NAME.PID.new and its journal. */
static void remove_stale(const char *path)
{
    const char  *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
    char        *folder = slash ? strndup(path, (size_t)(base - path)) : strdup("."), *end;
    const size_t n = strlen(base);
    DIR         *d = folder ? opendir(folder) : NULL;
    for (const struct dirent *e; d && (e = readdir(d));) {
        if (strncmp(e->d_name, base, n) || e->d_name[n] != '.') continue;
        const long pid = strtol(e->d_name + n + 1, &end, 10);
        if (pid > 0 && (!strcmp(end, ".new") || !strcmp(end, ".new-journal")) && kill((pid_t)pid, 0) && errno == ESRCH)
            (void)unlinkat(dirfd(d), e->d_name, 0);
    }
    if (d) closedir(d);
    free(folder);
}

/* Makes the tables in a temporary file and renames it, so no reader sees a store without tables. SQLite names the
 * journal after the file, so the file is closed before it is renamed. */
static mba_status make_file(mba_store *s)
{
    char      *fresh = sqlite3_mprintf("%s.%d.new", s->path, (int)getpid());
    char      *journal = sqlite3_mprintf("%s-journal", s->path);
    mba_status st = fresh && journal ? MBA_OK : mba_fail(MBA_E_NOMEM, "no memory");
    if (st == MBA_OK) {
        remove_stale(s->path);
        unlink(fresh);
        st = connect(s, fresh, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE);
    }
    if (st == MBA_OK) st = create_tables(s);
    sqlite3_close_v2(s->db);
    s->db = NULL;
    if (st == MBA_OK) {
        if (unlink(journal) == 0) st = mba_name_sync(journal); // a killed run's must not reappear beside the new store
        if (st == MBA_OK && rename(fresh, s->path)) st = mba__store_failed(s, SQLITE_CANTOPEN, "giving it its name");
        if (st == MBA_OK) st = mba_name_sync(s->path);
    }
    if (st != MBA_OK && fresh) unlink(fresh);
    sqlite3_free(fresh);
    sqlite3_free(journal);
    return st;
}

mba_status mba_store_create(mba_store **out, const char *path)
{
    mba_store *s = NULL;
    *out = NULL;
    MBA_TRY(mba_store_may_replace(path));
    MBA_TRY(make(&s, path));
    s->writing = true;
    s->version = MBA_STORE_VERSION;
    mba_status st = make_file(s);
    if (st == MBA_OK) st = connect(s, path, SQLITE_OPEN_READWRITE);
    if (st == MBA_OK) st = set_pragmas(s);
    if (st == MBA_OK) *out = s;
    else (void)!mba_store_close(s);
    return st;
}

static int bind(sqlite3_stmt *q, int k, mba_cell cell, mba_value v)
{
    if (cell == MBA_CELL_INT) return v.i == MBA_ABSENT ? sqlite3_bind_null(q, k) : sqlite3_bind_int64(q, k, v.i);
    if (cell == MBA_CELL_REAL) return isnan(v.r) ? sqlite3_bind_null(q, k) : sqlite3_bind_double(q, k, v.r);
    return v.text ? sqlite3_bind_text(q, k, v.text, -1, SQLITE_STATIC) : sqlite3_bind_null(q, k);
}

static mba_status prepare_insert(mba_store *s, mba_store_rows table)
{
    mba_assert(!s->insert[table]);
    char     *sql = mba__schema_insert(table);
    const int rc = sql ? sqlite3_prepare_v3(s->db, sql, -1, SQLITE_PREPARE_PERSISTENT, &s->insert[table], NULL)
                       : SQLITE_NOMEM;
    sqlite3_free(sql);
    return rc == SQLITE_OK ? MBA_OK : mba__store_failed(s, rc, mba_store_tables[table].name);
}

static mba_status begin(mba_store *s)
{
    mba_assert(!s->open_batch && s->batched == 0);
    MBA_TRY(execute(s, "BEGIN IMMEDIATE", "beginning a batch"));
    s->open_batch = true;
    s->batch_began_s = mba_clock_s();
    return MBA_OK;
}

mba_status mba_store_put(mba_store *s, mba_store_rows table, const void *row)
{
    const mba_store_table *t = &mba_store_tables[table];
    mba_assert(s->writing && table < MBA_ROWS_COUNT);
    if (!s->insert[table]) MBA_TRY(prepare_insert(s, table));
    if (!s->open_batch) MBA_TRY(begin(s));
    int rc = SQLITE_OK;
    for (int i = 0; i < t->ncolumns && rc == SQLITE_OK; i++)
        rc = bind(s->insert[table], i + 1, t->column[i].cell, mba_row_field(row, i));
    if (rc == SQLITE_OK) rc = sqlite3_step(s->insert[table]);
    const mba_status st = rc == SQLITE_DONE ? MBA_OK : mba__store_failed(s, rc, t->name);
    sqlite3_reset(s->insert[table]);
    MBA_TRY(st);
    s->batched++;
    const bool late = s->batched % BATCH_LOOK == 0 && mba_clock_s() - s->batch_began_s > BATCH_S;
    return s->batched >= BATCH_ROWS || late ? mba_store_commit(s) : MBA_OK;
}

mba_status mba_store_commit(mba_store *s)
{
    if (!s->open_batch) return MBA_OK;
    MBA_TRY(execute(s, "COMMIT", "committing"));
    s->open_batch = false;
    s->batched = 0;
    return MBA_OK;
}

mba_status mba_store_close(mba_store *s)
{
    if (!s) return MBA_OK;
    const mba_status st = s->writing ? mba_store_commit(s) : MBA_OK;
    for (int t = 0; t < MBA_ROWS_COUNT; t++) sqlite3_finalize(s->insert[t]);
    sqlite3_close_v2(s->db);
    mba__store_unload(s);
    free(s->path);
    free(s);
    return st;
}

/* ---- opening ---- */

static mba_status finish_open(mba_store **out, mba_store *s, mba_status st)
{
    mba_assert(!s->writing && !s->open_batch);
    if (st == MBA_OK)
        st = execute(s, "PRAGMA query_only=1; PRAGMA cell_size_check=1; PRAGMA temp_store=FILE;", "opening it");
    if (st == MBA_OK) st = mba__schema_check(s);
    if (st == MBA_OK) *out = s;
    else (void)!mba_store_close(s);
    return st;
}

/* Opens for reading and writing, because the next one to open a store rolls back the unfinished batch of a killed run.
 */
mba_status mba_store_open(mba_store **out, const char *path)
{
    mba_store *s = NULL;
    *out = NULL;
    MBA_TRY(make(&s, path));
    return finish_open(out, s, connect(s, path, SQLITE_OPEN_READWRITE));
}

mba_status mba_store_open_bytes(mba_store **out, const char *name, const void *bytes, size_t n)
{
    mba_store *s = NULL;
    *out = NULL;
    MBA_TRY(make(&s, name));
    s->in_memory = true;
    mba_status st = connect(s, ":memory:", SQLITE_OPEN_READWRITE);
    if (st == MBA_OK) {
        const int rc = sqlite3_deserialize(s->db, "main", (unsigned char *)(uintptr_t)bytes, (sqlite3_int64)n,
                                           (sqlite3_int64)n, SQLITE_DESERIALIZE_READONLY);
        if (rc != SQLITE_OK) st = mba__store_failed(s, rc, "opening it");
    }
    return finish_open(out, s, st);
}

int         mba_store_version(const mba_store *s) { return s->version; }
const char *mba_store_path(const mba_store *s) { return s->path; }

/* ---- shorthands ---- */

mba_status mba_env_put_text(mba_store *s, const char *key, const char *how, const char *fmt, ...)
{
    char    text[4096];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return mba_put_sheet(s, &(mba_row_sheet){ .key = key, .text = text, .number = NAN, .how = how });
}

mba_status mba_env_put_number(mba_store *s, const char *key, const char *how, double number, const char *unit)
{
    return mba_put_sheet(s, &(mba_row_sheet){ .key = key, .number = number, .unit = unit, .how = how });
}

mba_status mba_note_missing(mba_store *s, const char *topic, const char *text, const char *fix)
{
    return mba_put_note(s, &(mba_row_note){ .topic = topic, .severity = "missing", .text = text, .fix = fix });
}
