// SPDX-License-Identifier: Apache-2.0
/* outputs_test.c -- files that commands write: none takes the place of a store, and a path that cannot be written is
 * told before the work. */
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "tests/program.h"

#define STORE "tests/data/stores/v1.db"

/* The bytes of a file, for comparing; the caller frees them. */
static char *bytes_of(const char *path, size_t *n)
{
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    assert_int_equal(fseek(f, 0, SEEK_END), 0);
    *n = (size_t)ftell(f);
    rewind(f);
    char *b = malloc(*n + 1);
    assert_non_null(b);
    assert_int_equal(fread(b, 1, *n, f), *n);
    fclose(f);
    return b;
}

static void copy_store(const char *path)
{
    size_t n;
    char  *b = bytes_of(STORE, &n);
    scratch_put(path, b, n);
    free(b);
}

static void assert_untouched(const char *path)
{
    size_t n, m;
    char  *was = bytes_of(STORE, &n), *is = bytes_of(path, &m);
    assert_int_equal(n, m);
    assert_memory_equal(was, is, n);
    free(was);
    free(is);
}

/* What is measured once may take a GPU that is gone; a page, a trace or a smaller copy must not be written over it. */
static void no_output_replaces_a_store(void **state)
{
    char path[512], link[512];
    (void)state;
    snprintf(path, sizeof path, "%s", scratch("a.db"));
    snprintf(link, sizeof link, "%s", scratch("b.db"));
    copy_store(path);
    copy_store(link);
    says(run("export '%s' --json '%s'", path, path), 2,
         "is a store\n  why: writing there would destroy its measurements");
    says(run("export '%s' --trace '%s'", path, path), 2, "is a store");
    says(run("report '%s' --no-simulation --out '%s'", path, path), 2, "is a store");
    says(run("report '%s' --no-simulation --out '%s'", path, link), 2, "is a store"); // named by mistake: not read
    says(run("export '%s' --store '%s/./a.db'", path, scratch_dir), 2, "its own copy");
    assert_untouched(path);
    assert_untouched(link);
    assert_int_equal(unlink(link), 0);
    assert_int_equal(symlink("a.db", link), 0);
    says(run("export '%s' --store '%s'", path, link), 2, "its own copy");
    says(run("export '%s' --json '%s'", path, link), 2, "is a store");
    assert_untouched(path);
    says(run("export '%s' --json '%s'", path, scratch("a.json")), 0, "wrote");
    says(run("export '%s' --json '%s'", path, scratch("a.json")), 0, "wrote"); // a file that is none is replaced
}

/* Root's /dev/stdout is a link; where it leads to a file, that file is written and the link stays. A store is made by a
 * rename of its own, so there a link is refused. */
static void links_are_not_replaced(void **state)
{
    struct stat s;
    size_t      n;
    (void)state;
    put(scratch("empty"), "");
    assert_int_equal(symlink("empty", scratch("stdout")), 0);
    says(run("profile --model mamba2-130m --set layers=1,width=64,vocab=264 --length 16 --steps 1 --out '%s'",
             scratch("stdout")),
         2, "not a store");
    says(run("report " STORE " --no-simulation --out '%s'", scratch("stdout")), 0, "wrote");
    assert_int_equal(lstat(scratch("stdout"), &s), 0);
    assert_true(S_ISLNK(s.st_mode));
    char *page = bytes_of(scratch("empty"), &n);
    assert_true(n > 10000 && !memcmp(page, "<!doctype html>", 15));
    free(page);
}

/* `-` is stdout wherever a file is written that a program could read from a pipe, and never a file of that name. */
static void a_dash_is_stdout(void **state)
{
    (void)state;
    says(run("report " STORE " --no-simulation --out - | head -c 15"), 0, "<!doctype html>");
    assert_int_equal(access("-", F_OK), -1);
    says(run("export " STORE " --json - --trace -"), 2, "not valid JSON");
}

/* A page simulates for ten seconds: where it goes is looked at before anything is read, as these inputs show, which are
 * not there. */
static void a_wrong_path_is_told_first(void **state)
{
    (void)state;
    says(run("report nosuch.db --out '%s/nowhere/page.html'", scratch_dir), 1, "nowhere/page.html");
    says(run("validate --kernels nosuch.tsv --serialize '%s/nowhere/x.tsv'", scratch_dir), 1, "nowhere/x.tsv");
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

/* ---- one at a time ---- */

#define PROFILE "profile " SMALL " --steps 1 --warmup 1 --metric-sets ''"

static int hold(const char *path)
{
    const int fd = open(path, O_RDWR | O_CREAT, 0666);
    assert_true(fd >= 0);
    assert_int_equal(flock(fd, LOCK_EX), 0);
    dprintf(fd, "%ld\n", (long)getpid());
    return fd;
}

/* Two of one name removed each other's file. */
static void an_output_that_is_being_made_is_not_made_twice(void **state)
{
    char who[64];
    (void)state;
    snprintf(who, sizeof who, "why: process %ld holds the lock", (long)getpid());
    copy_store(scratch("held.db"));
    const int store = hold(scratch(".held.db.lock")), page = hold(scratch(".held.html.lock")),
              tokens = hold(scratch(".held.lock"));
    const int suite = (mkdir(scratch("suite"), 0777), hold(scratch("suite/.lock")));
    says(run(PROFILE " --out '%s/held.db'", scratch_dir), 2, who);
    says(run("report " STORE " --no-simulation --out '%s/held.html'", scratch_dir), 2, who);
    says(run("data prepare --synthetic 1K --out '%s/held/'", scratch_dir), 2, who);
    says(run("suite --tiny --only mamba1 --out '%s/suite'", scratch_dir), 2, who);
    assert_untouched(scratch("held.db"));
    assert_true(access(scratch("held.html"), F_OK) && access(scratch("held"), F_OK));
    assert_int_equal(scratch_entries("suite"), 1);
    close(store); // as when the process is killed: its file is left
    close(page);
    close(tokens);
    close(suite);
    says(run("report " STORE " --no-simulation --out '%s/held.html'", scratch_dir), 0, "wrote");
    says(run("data prepare --synthetic 1K --out '%s/held'", scratch_dir), 0, "tokens");
    assert_true(access(scratch(".held.html.lock"), F_OK) && access(scratch(".held.lock"), F_OK));
}

/* The one that was left over failed too, and no store was there. */
static void a_killed_profile_costs_no_other(void **state)
{
    char line[2048];
    (void)state;
    snprintf(line, sizeof line,
             "export ASAN_OPTIONS=$ASAN_OPTIONS:detect_leaks=0; { exec '%s' " PROFILE
             " --steps 4000 --out '%s/two.db' >/dev/null 2>&1; } & p=$!; "
             "while [ ! -s '%s/.two.db.lock' ]; do sleep 0.01; done; '%s' " PROFILE
             " --out '%s/two.db' 2>&1; echo code $?; kill -9 $p; wait $p",
             getenv("MBA_PROGRAM"), scratch_dir, scratch_dir, getenv("MBA_PROGRAM"), scratch_dir);
    says(shell(line), 128 + 9, "code 2");
    assert_non_null(strstr(output, "another mambascope is writing to"));
    says(run(PROFILE " --out '%s/two.db'", scratch_dir), 0, "wrote");
    says(run("show '%s/two.db'", scratch_dir), 0, "mamba2-130m");
    assert_true(access(scratch(".two.db.lock"), F_OK) && access(scratch("two.db.unfinished"), F_OK));
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(no_output_replaces_a_store),
                                        cmocka_unit_test(links_are_not_replaced),
                                        cmocka_unit_test(a_dash_is_stdout),
                                        cmocka_unit_test(a_wrong_path_is_told_first),
                                        cmocka_unit_test(an_output_that_is_being_made_is_not_made_twice),
                                        cmocka_unit_test(a_killed_profile_costs_no_other) };
    return cmocka_run_group_tests(tests, prepare, clean);
}
