// SPDX-License-Identifier: Apache-2.0
/* status_test.c -- status.h: messages keep what, why, fix and where; a false assertion ends the program and says
 * where. */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/test.h"

static void a_message_keeps_what_why_fix_and_where(void **state)
{
    (void)state;
    const mba_status st = mba_fail(MBA_E_SHAPE, "%d heads do not split into %d groups\nfix: choose a divisor", 6, 4);
    assert_int_equal(mba_where(st, "layer %d", 3), MBA_E_SHAPE);
    assert_string_equal(mba_message(), "6 heads do not split into 4 groups\nfix: choose a divisor\nwhere: layer 3");
    assert_string_equal(mba_status_name(MBA_OK), "OK");
    assert_string_equal(mba_status_name(MBA_E_DEVICE), "E_DEVICE");
}

/* Longer than its buffer: cut, and still a string to which `where:` is added as far as it fits. */
static void a_message_that_is_too_long_is_cut(void **state)
{
    (void)state;
    static char long_name[5000];
    memset(long_name, 'x', sizeof long_name - 1);
    assert_int_equal(mba_where(mba_fail(MBA_E_IO, "cannot open '%s'", long_name), "reading"), MBA_E_IO);
    assert_int_equal(strlen(mba_message()), 2047);
    assert_int_equal(mba_message()[2046], 'x');
}

/* Asserts that a > b in a child. *text gets what the child prints to stderr. Returns how the child ended, as waitpid
 * says it. */
static int assert_greater_in_child(int a, int b, char *text, size_t room)
{
    int ends[2], code = 0;
    assert_int_equal(pipe(ends), 0);
    const pid_t child = fork();
    if (child == 0) {
        signal(SIGABRT, SIG_DFL); // without cmocka's handler
        if (dup2(ends[1], STDERR_FILENO) < 0) _exit(2);
        mba_assert(a > b);
        _exit(0);
    }
    close(ends[1]);
    size_t n = 0;
    for (ssize_t got; (got = read(ends[0], text + n, room - 1 - n)) > 0;) n += (size_t)got;
    text[n] = 0;
    close(ends[0]);
    assert_int_equal(waitpid(child, &code, 0), child);
    return code;
}

static void a_false_assertion_ends_the_program_and_says_where(void **state)
{
    (void)state;
    char      text[1024];
    const int good = assert_greater_in_child(2, 1, text, sizeof text);
    assert_true(WIFEXITED(good) && WEXITSTATUS(good) == 0);
    assert_string_equal(text, "");
    const int bad = assert_greater_in_child(1, 2, text, sizeof text);
    assert_true(WIFSIGNALED(bad) && WTERMSIG(bad) == SIGABRT);
    assert_non_null(strstr(text, "status_test.c:"));
    assert_non_null(strstr(text, ": assertion failed: a > b\n"));
}

static void a_debug_assertion_is_evaluated_in_debug_builds_only(void **state)
{
    (void)state;
    int evaluated = 0;
    mba_debug_assert(++evaluated);
#ifdef MBA_DEBUG_ASSERTS
    assert_int_equal(evaluated, 1);
#else
    assert_int_equal(evaluated, 0);
#endif
}

MBA_TEST_MAIN(cmocka_unit_test(a_message_keeps_what_why_fix_and_where),
              cmocka_unit_test(a_message_that_is_too_long_is_cut),
              cmocka_unit_test(a_false_assertion_ends_the_program_and_says_where),
              cmocka_unit_test(a_debug_assertion_is_evaluated_in_debug_builds_only))
