/* outputs_test.c -- files that commands write: none takes the place of a store, and a path that cannot be written is told
 * before the work. */
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
    says(run("export '%s' --json '%s'", path, path), 2, "is a store\n  why: what was measured would be gone");
    says(run("export '%s' --trace '%s'", path, path), 2, "is a store");
    says(run("report '%s' --no-simulation --out '%s'", path, path), 2, "is a store");
    says(run("report '%s' --no-simulation --out '%s'", path, link), 2, "is a store");        // named by mistake: not read
    says(run("export '%s' --store '%s/./a.db'", path, scratch_dir), 2, "its own copy");
    assert_untouched(path);
    assert_untouched(link);
    assert_int_equal(unlink(link), 0);
    assert_int_equal(symlink("a.db", link), 0);
    says(run("export '%s' --store '%s'", path, link), 2, "its own copy");
    says(run("export '%s' --json '%s'", path, link), 2, "is a store");
    assert_untouched(path);
    says(run("export '%s' --json '%s'", path, scratch("a.json")), 0, "wrote");
    says(run("export '%s' --json '%s'", path, scratch("a.json")), 0, "wrote");               // a file that is none is replaced
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
             scratch("stdout")), 2, "not a store");
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
    says(run("export " STORE " --json - --trace -"), 2, "no JSON");
}

/* A page simulates for ten seconds: where it goes is looked at before anything is read, as these inputs show, which are
 * not there. */
static void a_wrong_path_is_told_first(void **state)
{
    (void)state;
    says(run("report nosuch.db --out '%s/nowhere/page.html'", scratch_dir), 1, "nowhere/page.html");
    says(run("validate --kernels nosuch.tsv --freeze '%s/nowhere/x.tsv'", scratch_dir), 1, "nowhere/x.tsv");
}

static int prepare(void **state) { (void)state; scratch_make(); return 0; }
static int clean(void **state)   { (void)state; scratch_remove(); return 0; }

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(no_output_replaces_a_store),
                                        cmocka_unit_test(links_are_not_replaced),
                                        cmocka_unit_test(a_dash_is_stdout),
                                        cmocka_unit_test(a_wrong_path_is_told_first) };
    return cmocka_run_group_tests(tests, prepare, clean);
}
