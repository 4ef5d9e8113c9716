// SPDX-License-Identifier: Apache-2.0
/* program.h -- for tests of the program as a person or a script meets it: run it, see what it says.
 *
 *     says(run("train " SMALL " " DATA " --steps 2 --quiet", scratch_dir), 0, "2 steps");
 *     assert_true(number("loss") < 6);                    // of the JSON that was printed last
 *     cmocka_run_group_tests(tests, make_data, remove_data);
 */
#ifndef MBA_TEST_PROGRAM_H
#define MBA_TEST_PROGRAM_H

#include <jansson.h>
#include <math.h>
#include <stdbool.h>

#include "tests/scratch.h"
#include "tests/shell.h"

/* The sanitizer's search for leaks takes seconds at the end of every process, so one of so many has it, not the first
 * ones: nearly every test begins by preparing the same data. 0: none. */
static int runs_per_leak_search = 24;

/* The program that is tested. */
static inline const char *program_path(void)
{
    const char *program = getenv("MBA_PROGRAM");
    if (!program) fail_msg("MBA_PROGRAM is not set\nfix: run this test by ctest, or set it to build/mambascope");
    return program;
}

/* Runs `mambascope ARGS` in the shell and returns its exit code. */
static inline int run(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static inline int run(const char *fmt, ...)
{
    char        args[2048], line[4096];
    const char *program = program_path();
    va_list     ap;
    va_start(ap, fmt);
    vsnprintf(args, sizeof args, fmt, ap);
    va_end(ap);
    static int runs;
    const bool leaks = runs_per_leak_search && runs++ % runs_per_leak_search == runs_per_leak_search / 3;
    snprintf(line, sizeof line, "ASAN_OPTIONS=$ASAN_OPTIONS:detect_leaks=%d '%s' %s 2>&1", leaks, program, args);
    return shell(line);
}

static inline void put(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static inline json_t *json_output(void)
{
    json_error_t e;
    json_t      *j = json_loads(output, 0, &e);
    if (!j) print_error("not JSON: %s\n%s\n", e.text, output);
    assert_non_null(j);
    return j;
}

/* A number of the JSON that was printed; NaN where there is none. */
static inline double number(const char *key)
{
    json_t       *j = json_output();
    const json_t *v = json_object_get(j, key);
    const double  x = json_is_number(v) ? json_number_value(v) : NAN;
    json_decref(j);
    return x;
}

#define DATA "--data '%s/tokens'"
#define VISION \
    "--model mambavision-t --set dim=8,in_dim=8,depths=1:1:1:1,heads=1:1:2:4,windows=0:0:2:1,image=24," \
    "drop_path=0.1"
#define GRAPH "--model graphmamba-peptides-func --set layers=2,width=16,pe_count=4,pe_width=4 --graphs 4"
#define SMALL "--model mamba2-130m --set width=32,layers=2,vocab=264,state=8,head_dim=16,chunk=16 --batch 2 --length 32"

static inline int make_data(void **state)
{
    (void)state;
    scratch_make();
    return run("data prepare --out '%s/tokens' --synthetic 200K", scratch_dir);
}

static inline int remove_data(void **state)
{
    (void)state;
    scratch_remove();
    return 0;
}

#endif
