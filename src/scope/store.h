// SPDX-License-Identifier: Apache-2.0
/* store.h -- the measurement store: one run as one SQLite file. docs/store.md lists its tables.
 *
 *     mba_store *s;
 *     MBA_TRY(mba_store_create(&s, "run.db"));                        // replaces an old store, no other file
 *     mba_row_event e = mba_no_event;                                 // every field absent
 *     e.id = 0, e.what = "kernel", e.start_ns = 10, e.duration_ns = 250, e.kernel = 3;
 *     MBA_TRY(mba_put_event(s, &e));                                  // one such function per table
 *     MBA_TRY(mba_store_close(s));                                    // commits the rest
 *
 *     MBA_TRY(mba_store_open(&s, "run.db"));                          // reading: any version up to ours
 *     mba_row_node *node; int64_t n;
 *     MBA_TRY(mba_load_node(s, &node, &n));                           // all rows; the store owns them until close
 *     MBA_TRY(mba_store_each(s, MBA_ROWS_event, NULL, see, &ctx));    // row by row, in bounded memory
 *
 * Rows are structs of 8-byte fields, generated from store.def: int64_t, double or text. A value that was not measured
 * is absent (MBA_ABSENT, NaN, NULL), never 0. Text is UTF-8; put copies it, `each` passes it for one call.
 *
 * Writing is batched: rows are committed every few thousand rows and every second. With SQLite's rollback journal, a
 * process killed at any moment leaves a file whose next reader rolls back the unfinished batch, and a closed store is
 * one file. The file appears under its name with all its tables. One thread at a time. */
#ifndef MBA_STORE_H
#define MBA_STORE_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/status.h"

enum { MBA_STORE_VERSION = 4, MBA_STORE_ID = 0x6d626173 }; /* user_version; application_id: "mbas" */
#define MBA_ABSENT INT64_MIN

/* ---- rows ---- */
#define TABLE(name, since, doc)      typedef struct mba_row_##name {
#define INT(name, since, unit, doc)  int64_t name;
#define REAL(name, since, unit, doc) double name;
#define TEXT(name, since, unit, doc) const char *name;
#define END(name) \
    } \
    mba_row_##name;
#include "scope/store.def"
#undef TABLE
#undef INT
#undef REAL
#undef TEXT
#undef END

/* mba_no_event: a row with every field absent. */
#define TABLE(name, since, doc)      __attribute__((unused)) static const mba_row_##name mba_no_##name = {
#define INT(name, since, unit, doc)  .name = MBA_ABSENT,
#define REAL(name, since, unit, doc) .name = NAN,
#define TEXT(name, since, unit, doc) .name = NULL,
#define END(name) \
    } \
    ;
#include "scope/store.def"
#undef TABLE
#undef INT
#undef REAL
#undef TEXT
#undef END

typedef enum mba_store_rows {
#define TABLE(name, since, doc) MBA_ROWS_##name,
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
    MBA_ROWS_COUNT
} mba_store_rows;

/* ---- the schema as data, for export and documentation ---- */
typedef enum mba_cell { MBA_CELL_INT, MBA_CELL_REAL, MBA_CELL_TEXT } mba_cell;
typedef struct mba_store_column {
    const char *name;
    mba_cell    cell;
    int         since;
    const char *unit, *doc;
} mba_store_column;
typedef struct mba_store_table {
    const char             *name, *doc;
    int                     since, ncolumns;
    const mba_store_column *column;
} mba_store_table;
extern const mba_store_table mba_store_tables[MBA_ROWS_COUNT];

/* Field `column` of a row of any table. */
typedef union mba_value {
    int64_t     i;
    double      r;
    const char *text;
} mba_value;
static inline mba_value mba_row_field(const void *row, int column) { return ((const mba_value *)row)[column]; }

/* ---- writing ---- */
typedef struct mba_store mba_store;

/* Creates a store at `path`. An existing file is replaced only if it is a store or empty; else MBA_E_ARG. */
MBA_MUST mba_status mba_store_create(mba_store **out, const char *path);
/* MBA_OK if the path is free, a store or an empty file: a typing error must not cost a file. */
MBA_MUST mba_status mba_store_may_replace(const char *path);
/* Removes a store and its journal; nobody may have it open. */
void                mba_store_remove(const char *path);
MBA_MUST mba_status mba_store_put(mba_store *s, mba_store_rows table, const void *row);
MBA_MUST mba_status mba_store_commit(mba_store *s); /* commits the current batch now */
/* Commits and frees; frees even if the commit fails. NULL is fine. */
MBA_MUST mba_status mba_store_close(mba_store *s);

/* ---- reading ---- */
/* MBA_E_FORMAT: not a store, damaged, or of a newer version; MBA_E_IO: cannot be read. */
MBA_MUST mba_status mba_store_open(mba_store **out, const char *path);
/* Opens a store in memory; the bytes must outlive it. */
MBA_MUST mba_status mba_store_open_bytes(mba_store **out, const char *name, const void *bytes, size_t n);
MBA_MUST mba_status mba_store_check(mba_store *s);         /* every page: SQLite's integrity_check */
int                 mba_store_version(const mba_store *s); /* of the file */
const char         *mba_store_path(const mba_store *s);

/* Calls `see` for every row until it fails, sorted by the columns in `order` ("kernel, duration_ns"; NULL: as written).
 */
typedef mba_status  mba_row_fn(void *ctx, const void *row);
MBA_MUST mba_status mba_store_each(mba_store *s, mba_store_rows table, const char *order, mba_row_fn *see, void *ctx);

/* Loads all rows of a small table; they live until close. More than MBA_LOAD_MAX rows: MBA_E_FORMAT. */
enum { MBA_LOAD_MAX = 1 << 21 };
MBA_MUST mba_status mba_store_load(mba_store *s, mba_store_rows table, void **rows, int64_t *n);
/* Index of the row with this `id` in a loaded table that has an id; -1: none. */
int64_t             mba_store_find(mba_store_rows table, const void *rows, int64_t n, int64_t id);
MBA_MUST mba_status mba_store_count(mba_store *s, mba_store_rows table, int64_t *n);

/* mba_put_event(s, &row), mba_load_event(s, &rows, &n): typed. */
#define TABLE(name, since, doc) \
    MBA_MUST static inline mba_status mba_put_##name(mba_store *s, const mba_row_##name *r) \
    { \
        return mba_store_put(s, MBA_ROWS_##name, r); \
    } \
    MBA_MUST static inline mba_status mba_load_##name(mba_store *s, mba_row_##name **rows, int64_t *n) \
    { \
        void            *all = NULL; \
        const mba_status st = mba_store_load(s, MBA_ROWS_##name, &all, n); \
        *rows = (mba_row_##name *)all; \
        return st; \
    }
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

/* ---- shorthands for writers ---- */
MBA_MUST mba_status mba_env_put_text(mba_store *s, const char *key, const char *how, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
MBA_MUST mba_status mba_env_put_number(mba_store *s, const char *key, const char *how, double number, const char *unit);
MBA_MUST mba_status mba_note_missing(mba_store *s, const char *topic, const char *text, const char *fix);

#endif
