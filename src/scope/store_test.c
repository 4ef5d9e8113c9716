// SPDX-License-Identifier: Apache-2.0
/* store_test.c -- a store keeps what it is given, whatever happens to who writes it. */
#include <fcntl.h>
#include <signal.h>
#include <sqlite3.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

#include "scope/store_schema.h"
#include "tests/scratch.h"
#include "tests/test.h"

/* ---- round trip ---- */

/* A value of its own for every cell of every table; every fifth is absent. */
static void fill(mba_value *row, int table, int k, char text[][48])
{
    const mba_store_table *t = &mba_store_tables[table];
    for (int i = 0; i < t->ncolumns; i++) {
        const bool absent = (table + k + i) % 5 == 4 && strcmp(t->column[i].name, "id");
        snprintf(text[i], sizeof text[i], "%d.%d.%d \xc3\xa4'\"", table, k, i);
        if (t->column[i].cell == MBA_CELL_INT) row[i].i = absent ? MBA_ABSENT : ((int64_t)table << 40) + 100 * k + i;
        else if (t->column[i].cell == MBA_CELL_REAL) row[i].r = absent ? NAN : 0.1 * table - 1e-9 * k + 1e30 * i;
        else row[i].text = absent ? NULL : text[i];
    }
}

static void same(const mba_store_table *t, const mba_value *a, const mba_value *b)
{
    for (int i = 0; i < t->ncolumns; i++) {
        if (t->column[i].cell == MBA_CELL_INT) assert_int_equal(a[i].i, b[i].i);
        else if (t->column[i].cell == MBA_CELL_REAL) assert_true(a[i].r == b[i].r || (isnan(a[i].r) && isnan(b[i].r)));
        else if (!a[i].text || !b[i].text) assert_ptr_equal(a[i].text, b[i].text);
        else assert_string_equal(a[i].text, b[i].text);
    }
}

static void every_table_keeps_every_value(void **state)
{
    enum { ROWS = 7 };
    mba_store *s;
    mba_value  row[32], *all;
    char       text[32][48];
    int64_t    n;
    (void)state;
    assert_ok(mba_store_create(&s, scratch("round.db")));
    for (int t = 0; t < MBA_ROWS_COUNT; t++)
        for (int k = 0; k < ROWS; k++) {
            fill(row, t, k, text);
            assert_ok(mba_store_put(s, (mba_store_rows)t, row));
        }
    assert_ok(mba_store_close(s));
    assert_int_equal(access(scratch("round.db-journal"), F_OK), -1); // one file
    assert_ok(mba_store_open(&s, scratch("round.db")));
    assert_ok(mba_store_check(s));
    assert_int_equal(mba_store_version(s), MBA_STORE_VERSION);
    for (int t = 0; t < MBA_ROWS_COUNT; t++) {
        assert_ok(mba_store_load(s, (mba_store_rows)t, (void **)&all, &n));
        assert_int_equal(n, ROWS);
        for (int k = 0; k < ROWS; k++) {
            fill(row, t, k, text);
            same(&mba_store_tables[t], row, all + k * mba_store_tables[t].ncolumns);
        }
    }
    assert_ok(mba_store_close(s));
}

static mba_status add_up(void *ctx, const void *row)
{
    const mba_row_event *e = row;
    *(int64_t *)ctx = *(int64_t *)ctx * 10 + e->duration_ns;
    return MBA_OK;
}

static void rows_come_in_the_order_asked_for(void **state)
{
    mba_store *s;
    int64_t    seen = 0;
    (void)state;
    assert_ok(mba_store_create(&s, scratch("order.db")));
    for (int i = 0; i < 4; i++) {
        mba_row_event e = mba_no_event;
        e.duration_ns = (int64_t[]){ 3, 1, 4, 2 }[i];
        assert_ok(mba_put_event(s, &e));
    }
    assert_ok(mba_store_close(s));
    assert_ok(mba_store_open(&s, scratch("order.db")));
    assert_ok(mba_store_each(s, MBA_ROWS_event, NULL, add_up, &seen));
    assert_int_equal(seen, 3142);
    seen = 0;
    assert_ok(mba_store_each(s, MBA_ROWS_event, "duration_ns", add_up, &seen));
    assert_int_equal(seen, 1234);
    assert_ok(mba_store_close(s));
}

/* ---- files that are not stores ---- */

static void write_file(const char *path, const void *bytes, size_t n)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

static void run_sql(const char *path, const char *sql)
{
    sqlite3 *db;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    const int rc = sqlite3_exec(db, sql, NULL, NULL, NULL);
    if (rc != SQLITE_OK) print_error("%s\n", sqlite3_errmsg(db));
    assert_int_equal(rc, SQLITE_OK);
    sqlite3_close(db);
}

static void make_store(const char *path)
{
    mba_store *s;
    assert_ok(mba_store_create(&s, path));
    assert_ok(mba_note_missing(s, "counters", "none", "sudo"));
    assert_ok(mba_store_close(s));
}

static void other_files_are_refused_with_the_reason(void **state)
{
    static const char noise[4096] = "SQLite format 3\0and then something else";
    mba_store        *s;
    (void)state;
    assert_fails(mba_store_open(&s, scratch("absent.db")), MBA_E_IO, "unable to open");
    write_file(scratch("empty.db"), "", 0);
    assert_fails(mba_store_open(&s, scratch("empty.db")), MBA_E_FORMAT, "it is empty");
    write_file(scratch("text.db"), "a letter to a friend, long enough to be read as one", 50);
    assert_fails(mba_store_open(&s, scratch("text.db")), MBA_E_FORMAT, "not a database");
    write_file(scratch("noise.db"), noise, sizeof noise);
    assert_fails(mba_store_open(&s, scratch("noise.db")), MBA_E_FORMAT, "not a");
    run_sql(scratch("foreign.db"), "CREATE TABLE people(name)");
    assert_fails(mba_store_open(&s, scratch("foreign.db")), MBA_E_FORMAT, "another program");
    run_sql(scratch("other.db"), "CREATE TABLE people(name); PRAGMA application_id=7");
    assert_fails(mba_store_open(&s, scratch("other.db")), MBA_E_FORMAT, "the database of another program");
    make_store(scratch("newer.db"));
    run_sql(scratch("newer.db"), "PRAGMA user_version=99");
    assert_fails(mba_store_open(&s, scratch("newer.db")), MBA_E_FORMAT, "newer mambascope");
    make_store(scratch("view.db"));
    run_sql(scratch("view.db"),
            "DROP TABLE note; CREATE VIEW note AS SELECT 1 AS topic, 2 AS severity, 3 AS text, 4 AS fix");
    assert_fails(mba_store_open(&s, scratch("view.db")), MBA_E_FORMAT, "views");
    make_store(scratch("column.db"));
    run_sql(scratch("column.db"), "ALTER TABLE note DROP COLUMN fix");
    assert_fails(mba_store_open(&s, scratch("column.db")), MBA_E_FORMAT, "note does not have the columns");
    make_store(scratch("computed.db"));
    run_sql(scratch("computed.db"),
            "DROP TABLE note; CREATE TABLE note(topic, severity, text, fix AS (hex(zeroblob(1000))))");
    assert_fails(mba_store_open(&s, scratch("computed.db")), MBA_E_FORMAT, "note does not have the columns");
}

static void a_value_of_another_type_is_damage(void **state)
{
    mba_store     *s;
    mba_row_event *e;
    int64_t        n;
    (void)state;
    make_store(scratch("type.db"));
    run_sql(scratch("type.db"), "INSERT INTO event(duration_ns) VALUES('soon')");
    assert_ok(mba_store_open(&s, scratch("type.db")));
    assert_fails(mba_load_event(s, &e, &n), MBA_E_FORMAT, "event.duration_ns has a value of another type");
    assert_ok(mba_store_close(s));
}

static void only_a_store_is_replaced(void **state)
{
    mba_store *s;
    int64_t    n;
    (void)state;
    write_file(scratch("letter.txt"), "a letter", 8);
    assert_fails(mba_store_create(&s, scratch("letter.txt")), MBA_E_ARG, "exists and is not a store");
    make_store(scratch("twice.db"));
    make_store(scratch("twice.db"));
    assert_ok(mba_store_open(&s, scratch("twice.db")));
    assert_ok(mba_store_count(s, MBA_ROWS_note, &n));
    assert_int_equal(n, 1);
    assert_ok(mba_store_close(s));
    assert_fails(mba_store_create(&s, scratch("no/such/folder.db")), MBA_E_IO, "cannot write the store");
    assert_non_null(strstr(mba_message(), "No such file or directory"));
    assert_fails(mba_store_create(&s, "/sys/a.db"), MBA_E_IO, "cannot write the store"); // where not even root may
    assert_null(strstr(mba_message(), "No such file"));
}

static mba_status pass_by(void *ctx, const void *row)
{
    (void)row;
    ++*(int64_t *)ctx;
    return MBA_OK;
}

/* Damage in the middle of a page is found when the page is read, and told. */
static void damage_is_told(void **state)
{
    enum { EVENTS = 4000 };
    mba_store *s;
    int64_t    seen = 0;
    (void)state;
    assert_ok(mba_store_create(&s, scratch("damaged.db")));
    for (int i = 0; i < EVENTS; i++) {
        mba_row_event e = mba_no_event;
        e.id = i, e.duration_ns = 1, e.what = "kernel";
        assert_ok(mba_put_event(s, &e));
    }
    assert_ok(mba_store_close(s));
    const int   f = open(scratch("damaged.db"), O_RDWR);
    const off_t end = lseek(f, 0, SEEK_END);
    char        junk[4096];
    memset(junk, 0xff, sizeof junk);
    assert_int_equal(pwrite(f, junk, sizeof junk, end - 2 * (off_t)sizeof junk), sizeof junk);
    close(f);
    assert_ok(mba_store_open(&s, scratch("damaged.db")));
    assert_fails(mba_store_check(s), MBA_E_FORMAT, "is damaged");
    assert_fails(mba_store_each(s, MBA_ROWS_event, NULL, pass_by, &seen), MBA_E_FORMAT, "malformed");
    assert_true(seen < EVENTS);
    assert_ok(mba_store_close(s));
}

/* ---- older versions ---- */

/* tests/data/stores/v1.db was written by the program that had version 1: three nodes, none with `filled`. */
static void a_store_of_version_1_opens(void **state)
{
    mba_store    *s;
    mba_row_node *node;
    int64_t       n;
    (void)state;
    assert_ok(mba_store_open(&s, "tests/data/stores/v1.db"));
    assert_ok(mba_store_check(s));
    assert_int_equal(mba_store_version(s), 1);
    assert_ok(mba_load_node(s, &node, &n));
    assert_int_equal(n, 3);
    assert_string_equal(node[2].op, "matmul");
    assert_true(node[2].tensor_flops == 38273024.0);
    for (int i = 0; i < 3; i++) assert_true(isnan(node[i].filled));
    assert_ok(mba_store_close(s));
}

/* Every version there was: a file with its tables reads, and has what is newer as absent. */
static void every_older_version_reads(void **state)
{
    (void)state;
    for (int version = 1; version <= MBA_STORE_VERSION; version++) {
        char       name[32], sql[128];
        mba_store *s;
        mba_value *all;
        int64_t    n;
        snprintf(name, sizeof name, "version%d.db", version);
        for (int t = 0; t < MBA_ROWS_COUNT; t++) {
            if (mba_store_tables[t].since > version) continue;
            char *create = mba__schema_create((mba_store_rows)t, version);
            run_sql(scratch(name), create);
            sqlite3_free(create);
            snprintf(sql, sizeof sql, "INSERT INTO \"%s\"(\"%s\") VALUES(7)", mba_store_tables[t].name,
                     mba_store_tables[t].column[0].name);
            run_sql(scratch(name), sql);
        }
        snprintf(sql, sizeof sql, "PRAGMA application_id=%d; PRAGMA user_version=%d", MBA_STORE_ID, version);
        run_sql(scratch(name), sql);
        assert_ok(mba_store_open(&s, scratch(name)));
        for (int t = 0; t < MBA_ROWS_COUNT; t++) {
            assert_ok(mba_store_load(s, (mba_store_rows)t, (void **)&all, &n));
            assert_int_equal(n, mba_store_tables[t].since <= version);
            for (int i = 1; n && i < mba_store_tables[t].ncolumns; i++) {
                const mba_cell cell = mba_store_tables[t].column[i].cell;
                assert_true(cell == MBA_CELL_INT    ? all[i].i == MBA_ABSENT
                            : cell == MBA_CELL_REAL ? isnan(all[i].r)
                                                    : !all[i].text);
            }
        }
        assert_ok(mba_store_close(s));
    }
}

/* ---- killed writers ---- */

static void write_for_ever(const char *path, int seed)
{
    mba_store *s;
    if (mba_store_create(&s, path) != MBA_OK) _exit(3);
    for (int64_t i = 0;; i++) {
        mba_row_event  e = mba_no_event;
        mba_row_kernel k = mba_no_kernel;
        e.id = i, e.what = "kernel", e.start_ns = i, e.duration_ns = seed, e.kernel = i / 100;
        if (mba_put_event(s, &e) != MBA_OK) _exit(4);
        if (i % 100) continue;
        k.id = i / 100, k.name = "a kernel with a name that is longer than a few bytes, as kernels have", k.regs = 128;
        if (mba_put_kernel(s, &k) != MBA_OK) _exit(4);
        if (i % 1300 == 0 && mba_store_commit(s) != MBA_OK) _exit(5);
    }
}

typedef struct sums {
    int64_t n, wrong, seed;
} sums;

static mba_status see_event(void *ctx, const void *row)
{
    sums                *u = ctx;
    const mba_row_event *e = row;
    u->wrong += e->id != u->n || e->start_ns != u->n || e->duration_ns != u->seed;
    u->n++;
    return MBA_OK;
}

/* Whenever it is killed: the store opens, is sound, and holds a beginning of what was written. */
static void killed_writers_leave_readable_stores(void **state)
{
    enum { CHILDREN = 50 };
    int64_t all = 0;
    (void)state;
    srand(7);
    for (int c = 0; c < CHILDREN; c++) {
        const char *path = scratch("killed.db");
        remove(path);
        remove(scratch("killed.db-journal"));
        const pid_t child = fork();
        assert_true(child >= 0);
        if (!child) write_for_ever(path, c);
        while (access(path, F_OK)) nanosleep(&(struct timespec){ 0, 200000 }, NULL);
        nanosleep(&(struct timespec){ 0, rand() % 40000000 }, NULL);
        kill(child, SIGKILL);
        int how;
        assert_int_equal(waitpid(child, &how, 0), child);
        assert_true(WIFSIGNALED(how)); // it was still writing
        mba_store *s;
        sums       u = { .seed = c };
        assert_ok(mba_store_open(&s, path));
        assert_ok(mba_store_check(s));
        assert_ok(mba_store_each(s, MBA_ROWS_event, NULL, see_event, &u));
        assert_int_equal(u.wrong, 0);
        assert_ok(mba_store_close(s));
        all += u.n;
    }
    assert_true(all > 0); // and not because nothing was ever committed
}

/* ---- a long run ---- */

static long resident_peak_kb(void)
{
    struct rusage r;
    getrusage(RUSAGE_SELF, &r);
    return r.ru_maxrss;
}

/* In a process of its own: the peak is that of the whole life of one. */
static void write_a_million(const char *path)
{
    mba_store *s;
    const long before = resident_peak_kb();
    if (mba_store_create(&s, path) != MBA_OK) _exit(3);
    for (int64_t i = 0; i < 1000000; i++) {
        mba_row_event e = mba_no_event;
        e.id = i, e.what = "kernel", e.start_ns = i, e.duration_ns = 0, e.kernel = i % 300, e.step = i / 1000,
        e.phase = "forward";
        if (mba_put_event(s, &e) != MBA_OK) _exit(4);
    }
    if (mba_store_close(s) != MBA_OK) _exit(5);
    sums u = { .seed = 0 };
    if (mba_store_open(&s, path) != MBA_OK || mba_store_each(s, MBA_ROWS_event, "id", see_event, &u) != MBA_OK)
        _exit(6);
    if (mba_store_close(s) != MBA_OK || u.n != 1000000 || u.wrong) _exit(7);
    const long  grown = resident_peak_kb() - before;
    const char *sanitized = getenv("MBA_TEST_SANITIZED"); // whose quarantine alone is 256 MB
    if (grown > 24 * 1024 && !(sanitized && *sanitized)) {
        print_error("%ld KB more\n", grown);
        _exit(8);
    }
    _exit(0);
}

static void a_million_launches_take_little_memory(void **state)
{
    int how;
    (void)state;
    const pid_t child = fork();
    assert_true(child >= 0);
    if (!child) write_a_million(scratch("million.db"));
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(WIFEXITED(how));
    assert_int_equal(WEXITSTATUS(how), 0);
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
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_table_keeps_every_value),
        cmocka_unit_test(rows_come_in_the_order_asked_for),
        cmocka_unit_test(other_files_are_refused_with_the_reason),
        cmocka_unit_test(a_value_of_another_type_is_damage),
        cmocka_unit_test(only_a_store_is_replaced),
        cmocka_unit_test(damage_is_told),
        cmocka_unit_test(a_store_of_version_1_opens),
        cmocka_unit_test(every_older_version_reads),
        cmocka_unit_test(killed_writers_leave_readable_stores),
        cmocka_unit_test(a_million_launches_take_little_memory),
    };
    return cmocka_run_group_tests(tests, prepare, clean);
}
