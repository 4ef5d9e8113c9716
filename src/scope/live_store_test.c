// SPDX-License-Identifier: Apache-2.0
/* live_store_test.c -- a store that is read while a profile still writes it: the readings of the timeline may each find
 * more rows than the one before. */
#include <sqlite3.h>
#include <string.h>

#include "scope/analysis.h"
#include "tests/scratch.h"
#include "tests/test.h"

enum { LATER_STEPS = 1000 };
static int  readings, late; // of the timeline, so far; the one in front of which rows are added
static bool writing;        // our own writes are not readings

static void append_steps(void)
{
    sqlite3 *db;
    char     sql[160];
    writing = true;
    assert_int_equal(sqlite3_open(scratch("live.db"), &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "BEGIN", NULL, NULL, NULL), SQLITE_OK);
    for (int i = 1; i <= LATER_STEPS; i++) {
        snprintf(sql, sizeof sql,
                 "INSERT INTO event(id, what, start_ns, duration_ns, stream, step, kernel) "
                 "VALUES(%d, 'kernel', %d, 10, 7, %d, 0)",
                 1000 * readings + i, 100 * i, i);
        assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    }
    assert_int_equal(sqlite3_exec(db, "COMMIT", NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
    writing = false;
}

/* Called where a statement begins, before it sees the file. */
static int statement_begins(unsigned what, void *ctx, void *statement, void *sql)
{
    (void)what, (void)ctx, (void)statement;
    const bool counts = strstr(sql, "count(*)") != NULL;
    if (!writing && !counts && strstr(sql, "FROM \"event\"") && ++readings == late) append_steps();
    return 0;
}

static int watch_statements(sqlite3 *db, const char **error, const struct sqlite3_api_routines *api)
{
    (void)error, (void)api;
    return sqlite3_trace_v2(db, SQLITE_TRACE_STMT, statement_begins, NULL);
}

static void put_step(mba_store *s)
{
    mba_row_kernel k = mba_no_kernel;
    mba_row_event  e = mba_no_event;
    k.id = 0, k.name = "scan", k.kind = "ssm";
    e.id = 0, e.what = "kernel", e.start_ns = 0, e.duration_ns = 10, e.stream = 7, e.step = 0, e.kernel = 0;
    assert_ok(mba_put_kernel(s, &k));
    assert_ok(mba_put_event(s, &e));
}

/* A store of one step that grows in front of this reading of its timeline. */
static mba_store *open_growing(int reading)
{
    mba_store *s;
    assert_ok(mba_store_create(&s, scratch("live.db")));
    put_step(s);
    assert_ok(mba_store_close(s));
    readings = 0, late = reading;
    assert_int_equal(sqlite3_auto_extension((void (*)(void))watch_statements), SQLITE_OK);
    assert_ok(mba_store_open(&s, scratch("live.db")));
    return s;
}

static void rows_that_come_later_are_left_out(void **state)
{
    mba_store     *s = open_growing(1);
    mba_row_event *row;
    int64_t        n;
    (void)state;
    assert_ok(mba_load_event(s, &row, &n));
    sqlite3_reset_auto_extension();
    assert_int_equal(readings, 1);
    assert_int_equal(n, 1);
    assert_ok(mba_store_close(s));
}

static void steps_that_come_later_are_left_out(void **state)
{
    mba_store    *s = open_growing(2);
    mba_analysis *a;
    (void)state;
    assert_ok(mba_analysis_create(&a, s));
    sqlite3_reset_auto_extension();
    assert_true(readings > 2);
    assert_int_equal(a->steps, 1);
    assert_near(a->busy_s, 10e-9, 1e-18);
    assert_int_equal(a->kernel[0].launches, 1);
    mba_analysis_destroy(a);
    assert_ok(mba_store_close(s));
}

static int prepare(void **state)
{
    (void)state;
    scratch_make();
    return 0;
}
static int clean(void **state)
{
    (void)state;
    scratch_remove();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(rows_that_come_later_are_left_out),
                                        cmocka_unit_test(steps_that_come_later_are_left_out) };
    return cmocka_run_group_tests(tests, prepare, clean);
}
