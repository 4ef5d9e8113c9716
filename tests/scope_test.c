// SPDX-License-Identifier: Apache-2.0
/* scope_test.c -- profile, show, export, diff as a person or a script meets them. */
#include "tests/test.h"

#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <sqlite3.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "core/file.h"
#include "scope/store.h"
#include "tests/scratch.h"
#include "tests/shell.h"

/* Runs `mambascope ARGS`; stdout is kept, and stderr too where ARGS say so. Returns the exit code. */
static int run(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

static int run(const char *fmt, ...)
{
    char    args[2048], line[4096];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(args, sizeof args, fmt, ap);
    va_end(ap);
    /* The sanitizer's search for leaks takes seconds at the end of every process: the first of each command has it. */
    static char seen[128];
    char        name[16];
    snprintf(name, sizeof name, " %.*s ", (int)strcspn(args, " "), args);
    const int first = !strstr(seen, name);
    if (first) strncat(seen, name, sizeof seen - 1 - strlen(seen));
    snprintf(line, sizeof line, "ASAN_OPTIONS=$ASAN_OPTIONS:detect_leaks=%d '%s' %s", first, getenv("MBA_PROGRAM"),
             args);
    return shell(line);
}

#define SMALL "--model mamba2-130m --set width=32,layers=2,vocab=264,state=8,head_dim=16,chunk=16 --batch 2 --length 32"
#define GRAPH "--model graphmamba-peptides-func --set layers=2,width=16,pe_count=4,pe_width=4 --graphs 4"

static int make_stores(void **state)
{
    (void)state;
    scratch_make();
    return run("profile " SMALL " --steps 4 --warmup 1 --out '%s/a.db' 2>&1", scratch_dir);
}

static int remove_stores(void **state)
{
    (void)state;
    scratch_remove();
    return 0;
}

static json_t *shown(void)
{
    json_error_t e;
    json_t      *o = json_loads(output, 0, &e);
    if (!o) print_error("%s in line %d of:\n%.2000s\n", e.text, e.line, output);
    assert_non_null(o);
    return o;
}

/* ---- show ---- */

static void show_prints_every_table_that_needs_no_gpu(void **state)
{
    (void)state;
    static const char *const tables[] = { "environment", "parameters", "ceilings", "steps",    "collection",
                                          "breakdown",   "operators",  "kernels",  "roofline", "intensity",
                                          "classes",     "bandwidth",  "bounds",   "claims" };
    assert_int_equal(run("show '%s/a.db'", scratch_dir), 0);
    static const char *const words[] = {
        "Environment", "SYNTHETIC", "Table I",  "Ceilings",  "Fig. 1",
        "gemm",        "roofline",  "Table II", "FLOP/byte", "not measured here: needs"
    };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) says(0, 0, words[i]);
    assert_int_equal(run("show '%s/a.db' --json", scratch_dir), 0);
    json_t *all = shown();
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        if (json_array_size(json_object_get(all, tables[i])) == 0) print_error("no rows: %s\n", tables[i]);
        assert_true(json_array_size(json_object_get(all, tables[i])) > 0);
    }
    assert_int_equal(json_array_size(json_object_get(all, "claims")), 11);
    json_decref(all);
    says(run("show '%s/a.db' blocks", scratch_dir), 0, "not measured");
    says(run("show '%s/a.db' breakdown --csv", scratch_dir), 0,
         "class,phase,step_ms,percent,launches,percent_of_floor\n");
}

/* What the tables say adds up. */
static void shares_add_up(void **state)
{
    double  percent = 0, ms = 0, busy = 0;
    size_t  i;
    json_t *row;
    (void)state;
    assert_int_equal(run("show '%s/a.db' breakdown steps --json", scratch_dir), 0);
    json_t *all = shown();
    json_array_foreach(json_object_get(all, "breakdown"), i, row)
    {
        if (strcmp(json_string_value(json_object_get(row, "phase")), "all")) continue;
        percent += json_number_value(json_object_get(row, "percent"));
        ms += json_number_value(json_object_get(row, "step_ms"));
    }
    json_array_foreach(json_object_get(all, "steps"), i,
                       row) if (!strcmp(json_string_value(json_object_get(row, "what")), "kernels and copies"))
        busy = json_number_value(json_object_get(row, "value"));
    assert_near(percent, 100, 0.1);
    assert_near(ms, busy, 1e-6 * busy);
    json_decref(all);
}

static void a_ragged_batch_is_as_full_as_it_is(void **state)
{
    mba_store    *s;
    mba_row_node *n;
    int64_t       count, partly = 0;
    (void)state;
    assert_int_equal(run("profile " GRAPH " --steps 1 --warmup 1 --out '%s/graph.db' 2>&1", scratch_dir), 0);
    assert_ok(mba_store_open(&s, scratch("graph.db")));
    assert_ok(mba_load_node(s, &n, &count));
    for (int64_t i = 0; i < count; i++) {
        assert_true(n[i].filled > 0 && n[i].filled <= 1);
        partly += n[i].filled < 1;
    }
    assert_true(partly > 0);
    assert_ok(mba_store_close(s));
}

/* ---- export ---- */

static void exports_can_be_read(void **state)
{
    size_t  i, slices = 0;
    json_t *e;
    int64_t events;
    (void)state;
    mba_store *s;
    assert_ok(mba_store_open(&s, scratch("a.db")));
    assert_ok(mba_store_count(s, MBA_ROWS_event, &events));
    assert_ok(mba_store_close(s));
    assert_int_equal(run("export '%s/a.db' --check --trace - ", scratch_dir), 0);
    json_t *trace = shown();
    json_array_foreach(json_object_get(trace, "traceEvents"), i, e)
        slices += !strcmp(json_string_value(json_object_get(e, "ph")), "X");
    assert_int_equal(slices, events);
    json_decref(trace);
    assert_int_equal(run("export '%s/a.db' --json -", scratch_dir), 0);
    json_t *all = shown();
    assert_int_equal(json_integer_value(json_object_get(all, "version")), MBA_STORE_VERSION);
    assert_int_equal(json_array_size(json_object_get(all, "event")), events);
    json_decref(all);
    says(run("export '%s/a.db' --csv '%s/csv' 2>&1", scratch_dir, scratch_dir), 0, "csv/event.csv");
    char  *text;
    size_t n, lines = 0;
    assert_ok(mba_file_read(&text, &n, scratch("csv/event.csv"), 1 << 24));
    for (i = 0; i < n; i++) lines += text[i] == '\n';
    assert_int_equal(lines, events + 1);
    assert_true(!strncmp(text, "id,what,start_ns [ns],duration_ns [ns],", 39));
    free(text);
}

/* Counters of the processor, or the line that would enable them. */
static void counters_are_there_or_the_way_to_them(void **state)
{
    mba_store    *s;
    mba_row_note *note;
    int64_t       counters, notes, told = 0;
    (void)state;
    assert_ok(mba_store_open(&s, scratch("a.db")));
    assert_ok(mba_store_count(s, MBA_ROWS_counter, &counters));
    assert_ok(mba_load_note(s, &note, &notes));
    for (int64_t i = 0; i < notes; i++)
        told += !strcmp(note[i].topic, "counters") && note[i].fix && strstr(note[i].text, "perf_event_open");
    assert_true(counters > 0 || told == 1);
    assert_ok(mba_store_close(s));
}

static void a_small_store_says_the_same_of_a_step(void **state)
{
    mba_store *s;
    int64_t    events, operands, all;
    (void)state;
    assert_ok(mba_store_open(&s, scratch("a.db")));
    assert_ok(mba_store_count(s, MBA_ROWS_event, &all));
    assert_ok(mba_store_close(s));
    assert_int_equal(run("export '%s/a.db' --store '%s/small.db' --steps 2", scratch_dir, scratch_dir), 0);
    assert_ok(mba_store_open(&s, scratch("small.db")));
    assert_ok(mba_store_count(s, MBA_ROWS_event, &events));
    assert_ok(mba_store_count(s, MBA_ROWS_operand, &operands));
    assert_int_equal(events * 2, all); // of four steps
    assert_int_equal(operands, 0);
    assert_ok(mba_store_close(s));
    says(run("show '%s/small.db' breakdown", scratch_dir), 0, "gemm");
    says(run("export '%s/a.db' --store '%s/a.db' 2>&1", scratch_dir, scratch_dir), 2, "its own copy");
}

/* docs/store.md has a line for each table with the names of its columns; `export --schema` explains each of them. */
static void the_documentation_has_every_column(void **state)
{
    char  *doc, line[64], column[64];
    size_t n;
    (void)state;
    assert_int_equal(run("export --schema"), 0);
    assert_ok(mba_file_read(&doc, &n, "docs/store.md", 1 << 20));
    for (int t = 0; t < MBA_ROWS_COUNT; t++) {
        const mba_store_table *table = &mba_store_tables[t];
        snprintf(line, sizeof line, "\n| `%s` | ", table->name);
        char *row = strstr(doc, line), *end = row ? strchr(row + 1, '\n') : NULL;
        if (!end) print_error("docs/store.md has no table %s\n", table->name);
        assert_non_null(end);
        *end = 0;
        for (int i = 0; i < table->ncolumns; i++) {
            snprintf(column, sizeof column, "`%s`", table->column[i].name);
            if (!strstr(row, column)) print_error("docs/store.md has no column %s of %s\n", column, table->name);
            assert_non_null(strstr(row, column));
            snprintf(column, sizeof column, "\n| `%s` | ", table->column[i].name);
            assert_non_null(strstr(output, column));
        }
        *end = '\n';
    }
    free(doc);
}

/* ---- diff ---- */

/* A copy of the store in which one operator takes so long, every time: the real ones wobble. */
static void make_slow(const char *path, int ms)
{
    char     sql[256], line[1400];
    sqlite3 *db;
    snprintf(line, sizeof line, "cp '%s/a.db' '%s'", scratch_dir, path);
    assert_int_equal(system(line), 0);
    snprintf(sql, sizeof sql,
             "UPDATE event SET duration_ns = %d WHERE kernel IN (SELECT id FROM kernel WHERE name = 'ssd_bwd')",
             1000000 * ms);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
}

static void the_gate_exits_with_1(void **state)
{
    (void)state;
    says(run("diff '%s/a.db' '%s/a.db' --gate 0%%", scratch_dir, scratch_dir), 0, "operator");
    make_slow(scratch("base.db"), 10);
    make_slow(scratch("slow.db"), 30);
    says(run("diff '%s/base.db' '%s/slow.db' --gate 3%% 2>&1", scratch_dir, scratch_dir), 1,
         "1 row is slower by more than 3 %");
    says(0, 0, "the first is 'ssd_bwd'");
    says(run("diff '%s/slow.db' '%s/base.db' --gate 3%%", scratch_dir, scratch_dir), 0, "ssd_bwd");
    says(run("diff '%s/base.db' '%s/slow.db' --gate 250%%", scratch_dir, scratch_dir), 0, "ssd_bwd");
    says(run("diff '%s/base.db' '%s/slow.db'", scratch_dir, scratch_dir), 0, "ssd_bwd");
    says(run("diff '%s/base.db' '%s/slow.db' --csv", scratch_dir, scratch_dir), 0, "what,name,phase,a_ms,b_ms,ratio");
}

/* A program that is not ours has no step without profiler: its kernels and copies are judged. Without any step nothing
 * passes. */
static void the_gate_judges_some_step(void **state)
{
    sqlite3 *db;
    (void)state;
    says(run("diff tests/data/stores/h200_mamba2.db tests/data/stores/h200_peer.db --gate 3%% 2>&1"), 1,
         "the first is 'kernels and copies'");
    make_slow(scratch("stepless.db"), 10);
    assert_int_equal(sqlite3_open(scratch("stepless.db"), &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "DELETE FROM event; DELETE FROM step", NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
    says(run("diff '%s/a.db' '%s/stepless.db' --gate 3%% 2>&1", scratch_dir, scratch_dir), 1,
         "no step is measured in both stores");
}

/* ---- what goes wrong ---- */

static void misuse_is_told(void **state)
{
    (void)state;
    says(run("show 2>&1"), 2, "show what?");
    says(run("show '%s/a.db' dance 2>&1", scratch_dir), 2, "no table 'dance'");
    says(run("show '%s/a.db' --csv 2>&1", scratch_dir), 2, "--csv prints one table, not 0");
    says(run("show '%s/none.db' 2>&1", scratch_dir), 1, "cannot read the store");
    says(run("show docs/architecture.md 2>&1"), 1, "not a database");
    says(run("export '%s/a.db' 2>&1", scratch_dir), 2, "export as what?");
    says(run("report '%s/a.db' --csv 2>&1", scratch_dir), 2, "--csv needs a figure");
    says(run("diff '%s/a.db' 2>&1", scratch_dir), 2, "two stores");
    says(run("diff '%s/a.db' '%s/a.db' --gate much 2>&1", scratch_dir, scratch_dir), 2,
         "--gate must be a percentage from 0 to 1000, not much");
    says(run("profile " SMALL " --out docs/architecture.md 2>&1"), 2, "exists and is not a store");
    says(run("profile -- 2>&1"), 2, "no command follows --");
    says(run("profile " SMALL " --metric-sets overview,frob --out '%s/none.db' 2>&1", scratch_dir), 2,
         "no counter set 'frob'");
    run("profile --out '%s/none.db' -- /bin/true 2>&1", scratch_dir); // nothing on a GPU, or no CUPTI
    assert_true(access(scratch("none.db"), F_OK) != 0);
}

static pid_t profile(const char *path)
{
    const pid_t child = fork();
    if (child) return child;
    const int nowhere = open("/dev/null", O_WRONLY);
    dup2(nowhere, 1);
    dup2(nowhere, 2);
    execl(getenv("MBA_PROGRAM"), "mambascope", "profile", "--model", "mamba2-130m", "--set",
          "width=32,layers=2,vocab=264,state=8,head_dim=16,chunk=16", "--batch", "2", "--length", "32", "--steps",
          "4000", "--out", path, (char *)NULL);
    _exit(127);
}

/* Whole runs of the program; store_test.c kills the writer alone fifty times. */
static void killed_runs_leave_readable_stores(void **state)
{
    const char *test_long = getenv("MBA_TEST_LONG");
    const int   runs = test_long && *test_long ? 50 : 6;
    (void)state;
    srand(3);
    for (int i = 0; i < runs; i++) {
        int        how;
        mba_store *s;
        int64_t    nodes;
        remove(scratch("killed.db"));
        remove(scratch("killed.db-journal"));
        const pid_t child = profile(scratch("killed.db"));
        assert_true(child > 0);
        while (access(scratch("killed.db"), F_OK)) nanosleep(&(struct timespec){ 0, 1000000 }, NULL);
        nanosleep(&(struct timespec){ i % 3, rand() % 1000000000 }, NULL);
        kill(child, SIGKILL);
        waitpid(child, &how, 0);
        assert_true(WIFSIGNALED(how));
        assert_ok(mba_store_open(&s, scratch("killed.db")));
        assert_ok(mba_store_check(s));
        assert_ok(mba_store_count(s, MBA_ROWS_node, &nodes));
        if (i % 3) assert_true(nodes > 0); // a second or more has passed
        assert_ok(mba_store_close(s));
        assert_int_equal(run("show '%s/killed.db'", scratch_dir), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(show_prints_every_table_that_needs_no_gpu),
        cmocka_unit_test(shares_add_up),
        cmocka_unit_test(a_ragged_batch_is_as_full_as_it_is),
        cmocka_unit_test(exports_can_be_read),
        cmocka_unit_test(counters_are_there_or_the_way_to_them),
        cmocka_unit_test(a_small_store_says_the_same_of_a_step),
        cmocka_unit_test(the_documentation_has_every_column),
        cmocka_unit_test(the_gate_exits_with_1),
        cmocka_unit_test(the_gate_judges_some_step),
        cmocka_unit_test(misuse_is_told),
        cmocka_unit_test(killed_runs_leave_readable_stores),
    };
    return cmocka_run_group_tests(tests, make_stores, remove_stores);
}
