// SPDX-License-Identifier: Apache-2.0
/* refused_rows.h -- a store that refuses the n-th row, and takes all others: whoever writes it has to say so.
 *
 *     for (bool refused = true; refused; n += refused) {
 *         refuse_row(s, n);                                           // in a store that is empty again
 *         const mba_status st = write_all(s);
 *         refused = row_was_refused(s);                               // or there are no more than n rows
 *         assert_true((st != MBA_OK) == refused);
 *     }
 */
#ifndef MBA_REFUSED_ROWS_H
#define MBA_REFUSED_ROWS_H

#include <sqlite3.h>

#include "scope/store_schema.h"
#include "tests/test.h"

static inline void refuse_do(mba_store *s, const char *sql)
{
    if (sqlite3_exec(s->db, sql, NULL, NULL, NULL) != SQLITE_OK) fail_msg("%s: %s", sql, sqlite3_errmsg(s->db));
}

static inline void refuse_row(mba_store *s, int64_t n)
{
    char text[400];
    assert_int_equal(sqlite3_db_config(s->db, SQLITE_DBCONFIG_ENABLE_TRIGGER, 1, NULL), SQLITE_OK);
    snprintf(text, sizeof text,
             "CREATE TEMP TABLE IF NOT EXISTS places(n); DELETE FROM places; INSERT INTO places VALUES(%lld)",
             (long long)n);
    refuse_do(s, text);
    for (int t = 0; t < MBA_ROWS_COUNT; t++) {
        const char *name = mba_store_tables[t].name;
        snprintf(
            text, sizeof text,
            "DELETE FROM main.\"%s\"; CREATE TEMP TRIGGER IF NOT EXISTS refuse%d BEFORE INSERT ON main.\"%s\" "
            "BEGIN UPDATE places SET n = n - 1; SELECT RAISE(FAIL, 'no place') WHERE (SELECT n FROM places) = -1; END",
            name, t, name);
        refuse_do(s, text);
    }
}

static inline bool row_was_refused(mba_store *s)
{
    sqlite3_stmt *q;
    assert_int_equal(sqlite3_prepare_v2(s->db, "SELECT n FROM places", -1, &q, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(q), SQLITE_ROW);
    const bool refused = sqlite3_column_int64(q, 0) < 0;
    sqlite3_finalize(q);
    return refused;
}

#endif
