// SPDX-License-Identifier: Apache-2.0
/* suite_test.c -- `suite` interrupted anywhere and resumed, on a full disk, beside broken stores, with strange parts.
 *
 * Toy models (`suite --tiny`). Two interruptions of two workloads here, one of one under sanitizers, which take their
 * time; ten of all five with MBA_TEST_LONG (`tests/long suite`). The points are random: $MBA_TEST_SEED repeats a run,
 * and the seed is printed. */
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "core/file.h"
#include "scope/store.h"
#include "tests/page.h"
#include "tests/scratch.h"
#include "tests/shell.h"

static const char *const all_parts[] = { "mamba1", "mamba2", "hybrid", "mambavision", "graphmamba" };
static bool              is_long;
static int               parts; /* the first so many of them */
static unsigned          seed;
static const char       *only(void) { return parts == 5 ? "" : parts == 2 ? "--only mamba1,mamba2" : "--only mamba1"; }
static const char       *in(const char *folder, const char *name)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return scratch(path);
}

/* Runs `mambascope suite --device cpu --out <scratch>/folder ARGS`; its exit code. `limit`: of file sizes, 0: none. */
static int suite(const char *folder, const char *args, int limit_kb)
{
    char line[2048], limit[64] = "";
    if (limit_kb) snprintf(limit, sizeof limit, "ulimit -f %d;", limit_kb);
    snprintf(line, sizeof line,
             "%s ASAN_OPTIONS=$ASAN_OPTIONS:detect_leaks=0 '%s' suite --device cpu --out '%s' %s 2>&1", limit,
             getenv("MBA_PROGRAM"), scratch(folder), args);
    return shell(line);
}

static void complete(const char *folder, const char *how)
{
    char args[128];
    snprintf(args, sizeof args, "--tiny %s %s", how, only());
    says(suite(folder, args, 0), 0, "report: ");
}

/* ---- the same up to measured times ---- */

static bool is_measured(const char *key)
{
    static const char *const keys[] = { "run.date", "run.timeline_start", "suite.seconds", "train.units_per_s" };
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (!strcmp(key, keys[i])) return true;
    return false;
}

static void same_cell(mba_value a, mba_value b, mba_cell cell, const char *what)
{
    const bool same = cell == MBA_CELL_INT    ? a.i == b.i
                      : cell == MBA_CELL_REAL ? a.r == b.r || (isnan(a.r) && isnan(b.r))
                                              : (!a.text && !b.text) || (a.text && b.text && !strcmp(a.text, b.text));
    if (!same) fail_msg("%s differs", what);
}

static void same_table(mba_store *a, mba_store *b, mba_store_rows table)
{
    const mba_store_table *t = &mba_store_tables[table];
    void                  *x, *y;
    int64_t                n, m;
    assert_ok(mba_store_load(a, table, &x, &n));
    assert_ok(mba_store_load(b, table, &y, &m));
    if (n != m) fail_msg("%s: %lld and %lld rows", t->name, (long long)n, (long long)m);
    for (int64_t i = 0; i < n; i++)
        for (int c = 0; c < t->ncolumns; c++) {
            const mba_value *p = (mba_value *)x + i * t->ncolumns, *q = (mba_value *)y + i * t->ncolumns;
            char             what[256];
            if (table == MBA_ROWS_sheet && is_measured(p[0].text)) continue;
            snprintf(what, sizeof what, "%s %lld, %s", t->name, (long long)i, t->column[c].name);
            same_cell(p[c], q[c], t->column[c].cell, what);
        }
}

/* What was planned, learned and launched is the same to the bit; how long it took is not looked at. */
static void same_store(const char *x, const char *y)
{
    static const mba_store_rows tables[] = { MBA_ROWS_sheet,   MBA_ROWS_parameter, MBA_ROWS_node,
                                             MBA_ROWS_operand, MBA_ROWS_launch,    MBA_ROWS_kernel };
    mba_store                  *a, *b;
    int64_t                     n, m;
    assert_ok(mba_store_open(&a, x));
    assert_ok(mba_store_open(&b, y));
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) same_table(a, b, tables[i]);
    assert_ok(mba_store_count(a, MBA_ROWS_event, &n));
    assert_ok(mba_store_count(b, MBA_ROWS_event, &m));
    assert_int_equal(n, m);
    assert_ok(mba_store_close(a));
    assert_ok(mba_store_close(b));
}

/* What a page consists of, without what was measured: sections, tables with their columns and numbers of rows. */
static char *skeleton_of(const char *path)
{
    char    *html, *out = calloc(1, 1 << 20);
    size_t   bytes, n = 0;
    page_tag t;
    int      rows = 0;
    assert_non_null(out);
    assert_ok(mba_file_read(&html, &bytes, path, 1 << 24));
    check_tags(html);
    for (const char *at = html; (at = next_tag(at, &t)) != NULL; at = behind_text_of(&t)) {
        const char *id = strstr(t.start, " id=\""), *csv = strstr(t.start, "data-csv=\"");
        if (!t.closes && id && id < t.end && strcmp(t.name, "tr"))
            n += (size_t)snprintf(out + n, 256, "%s %.*s\n", t.name, (int)strcspn(id + 5, "\""), id + 5);
        if (!t.closes && csv && csv < t.end)
            n += (size_t)snprintf(out + n, 512, "table %.*s\n", (int)strcspn(csv + 10, "\""), csv + 10);
        if (!t.closes && !strcmp(t.name, "tr")) rows++;
        if (t.closes && !strcmp(t.name, "table")) n += (size_t)snprintf(out + n, 64, "%d rows\n", rows), rows = 0;
        assert_true(n < (1 << 20) - 1024);
    }
    free(html);
    return out;
}

static void whole_page(const char *folder) { free(skeleton_of(in(folder, "report.html"))); }

static void same_report(const char *x, const char *y)
{
    char *a = skeleton_of(x), *b = skeleton_of(y);
    if (strcmp(a, b)) {
        size_t at = 0;
        while (a[at] == b[at]) at++;
        while (at && a[at - 1] != '\n') at--;
        fail_msg("the reports differ: \"%.*s\" and \"%.*s\"", (int)strcspn(a + at, "\n"), a + at,
                 (int)strcspn(b + at, "\n"), b + at);
    }
    free(a);
    free(b);
}

static void same_folder(const char *x, const char *y)
{
    for (int i = 0; i < parts; i++) {
        char name[64], path[512];
        snprintf(name, sizeof name, "%s.db", all_parts[i]);
        snprintf(path, sizeof path, "%s", in(x, name));
        same_store(path, in(y, name));
    }
    char path[512];
    snprintf(path, sizeof path, "%s", in(x, "report.html"));
    same_report(path, in(y, "report.html"));
    assert_int_equal(scratch_entries(x), scratch_entries(y)); // nothing half-made lies about
}

/* ---- interruptions ---- */

static void put(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Starts the suite, lets it run for a while, ends it. */
static void interrupt_after(double s, int signal_number, bool first)
{
    char folder[512], *argv[12] = { "mambascope", "suite", "--device", "cpu", "--tiny", "--out", folder };
    int  n = 7, status;
    snprintf(folder, sizeof folder, "%s", scratch("disturbed"));
    if (!first) argv[n++] = "--resume";
    if (!is_long) argv[n++] = "--only", argv[n++] = parts == 2 ? "mamba1,mamba2" : "mamba1";
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        if (!freopen("/dev/null", "w", stdout) || !freopen("/dev/null", "w", stderr)) _exit(1);
        execv(getenv("MBA_PROGRAM"), argv);
        _exit(127);
    }
    nanosleep(&(struct timespec){ (time_t)s, (long)(1e9 * (s - floor(s))) }, NULL);
    kill(child, signal_number);
    assert_int_equal(waitpid(child, &status, 0), child);
}

static int kept(const char *folder, struct stat is[])
{
    int n = 0;
    for (int i = 0; i < parts; i++) {
        char name[64];
        snprintf(name, sizeof name, "%s.db", all_parts[i]);
        if (stat(in(folder, name), &is[i])) is[i] = (struct stat){ 0 };
        n += is[i].st_ino != 0;
    }
    return n;
}

static void resumed_anywhere_it_ends_the_same(void **state)
{
    struct stat before[8], after[8];
    const int   points = is_long ? 10 : parts;
    (void)state;
    const double began = now_s();
    complete("whole", "");
    const double all_s = now_s() - began; // points follow the machine: a busy one is not always caught early
    for (int i = 0; i < points; i++) {
        const double s = 0.05 + (is_long ? 0.26 : 0.8) * all_s * rand_r(&seed) / RAND_MAX;
        const int    number = rand_r(&seed) % 2 ? SIGKILL : SIGINT;
        if (i) kept("disturbed", before);
        interrupt_after(s, number, i == 0);
        const int n = kept("disturbed", after);
        print_message("%s after %.2f s: %d of %d parts finished\n", number == SIGKILL ? "killed" : "interrupted", s, n,
                      parts);
        for (int k = 0; i && k < parts; k++)
            if (before[k].st_ino) assert_int_equal(before[k].st_ino, after[k].st_ino); // not made again
    }
    put(in("disturbed", ".mamba1.part.db.99999.new"), "left by a part that was killed while it made its tables");
    put(in("disturbed", ".report.html.99999.0.tmp"), "left by a suite that was killed while it wrote the page");
    complete("disturbed", "--resume");
    for (int i = 0; i < 3; i++) // nothing is left but the page: interrupted while it is made
        interrupt_after(0.02 + 0.2 * rand_r(&seed) / RAND_MAX, rand_r(&seed) % 2 ? SIGKILL : SIGINT, false);
    whole_page("disturbed"); // the old one or the new one, whole
    complete("disturbed", "--resume");
    same_folder("whole", "disturbed");
}

/* ---- what may stand in the way; `whole` has been made ---- */

static void options_that_differ_are_refused(void **state)
{
    (void)state;
    says(suite("whole", "--resume --full", 0), 2, "was started with scale tiny, not full");
    says(suite("whole", "--resume --steps 7", 0), 2, "was started with steps 3, not 7");
    says(suite("whole", "--tiny --resume --threads 1", 0), 2, "was recorded with other options");
    says(suite("whole", "--tiny --quick", 0), 2, "one of them");
    says(suite("whole", "--only nobody", 0), 2, "--only: there is no workload 'nobody'");
    put(in("whole", "suite.json"), "{\"scale\": \"ti");
    says(suite("whole", "--resume", 0), 1, "suite.json' is damaged");
    assert_int_equal(unlink(in("whole", "suite.json")), 0);
    complete("whole", "--resume");
    assert_non_null(strstr(output, "parts are finished and kept"));
}

static void a_part_of_another_folder_counts(void **state)
{
    char line[1200];
    (void)state;
    assert_int_equal(mkdir(scratch("elsewhere"), 0777), 0);
    snprintf(line, sizeof line, "cp '%s' '%s'", in("whole", "mamba1.db"), in("elsewhere", "mamba1.db"));
    assert_int_equal(system(line), 0);
    says(suite("elsewhere", "--tiny --resume --only mamba1", 0), 0, "1 of 5 parts are finished and kept");
}

static void a_broken_store_costs_itself_alone(void **state)
{
    (void)state;
    put(in("whole", "mamba2.db"), "this is no store, but it is longer than nothing");
    says(suite("whole", "--tiny --resume --only mamba1", 0), 0, "mamba2.db.broken");
    assert_non_null(strstr(output, "report: "));
    assert_int_equal(access(in("whole", "mamba2.db.broken"), F_OK), 0);
    says(suite("elsewhere", "--tiny --resume --only mamba1", 0), 0, "report: ");
    put(in("elsewhere", "bad.db"), "neither is this");
    char args[1200], line[2000];
    snprintf(args, sizeof args, "'%s' '%s' --out '%s'", in("whole", "mamba1.db"), in("elsewhere", "bad.db"),
             scratch("r.html"));
    snprintf(line, sizeof line, "'%s' report %s 2>'%s'", getenv("MBA_PROGRAM"), args, scratch("story"));
    const int status = system(line);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 1);
    char  *html;
    size_t n;
    assert_ok(mba_file_read(&html, &n, scratch("r.html"), 1 << 24));
    assert_non_null(strstr(html, "LEFT OUT, because they could not be read: bad.db"));
    free(html);
}

static void a_full_disk_is_told_and_survived(void **state)
{
    (void)state;
    says(suite("full", "--tiny --only mamba1", 64), 1, "cannot write");
    assert_non_null(strstr(output, "every part of the suite failed"));
    assert_int_equal(scratch_entries("full"), 1); // the options: no half-made store
    says(suite("full", "--tiny --resume --only mamba1", 0), 0, "report: ");
    says(suite("../../proc/mambascope", "--tiny", 0), 1, "cannot make the directory");
}

int main(void)
{
    const char             *long_one = getenv("MBA_TEST_LONG"), *given = getenv("MBA_TEST_SEED");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(resumed_anywhere_it_ends_the_same), cmocka_unit_test(options_that_differ_are_refused),
        cmocka_unit_test(a_part_of_another_folder_counts),   cmocka_unit_test(a_broken_store_costs_itself_alone),
        cmocka_unit_test(a_full_disk_is_told_and_survived),
    };
    is_long = long_one && *long_one;
    parts = is_long ? 5 : getenv("MBA_TEST_SANITIZED") ? 1 : 2;
    seed = given ? (unsigned)strtoul(given, NULL, 10) : (unsigned)time(NULL);
    printf("MBA_TEST_SEED=%u\n", seed);
    scratch_make();
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    scratch_remove();
    return failed;
}
