// SPDX-License-Identifier: Apache-2.0
/* watchdog_test.c -- a test that hangs is told by its name, with what it waits for, and leaves nothing behind. The
 * tests that hang are this program, started again with the name of one. */
#include "tests/shell.h"

static void a_case_that_is_fine(void **state) { (void)state; }

/* A program that was started waits for ever. */
static void a_case_that_waits(void **state)
{
    (void)state;
    shell("sleep $MBA_TEST_SLEEP; true");
}

static void a_case_that_spins(void **state)
{
    volatile unsigned turns = 0;
    (void)state;
    for (;;) turns++;
}

static int a_setup_that_waits(void **state)
{
    (void)state;
    while (pause()) continue;
    return 0;
}

static int hang(const char *how)
{
    const struct CMUnitTest waits[] = { cmocka_unit_test(a_case_that_is_fine), cmocka_unit_test(a_case_that_waits) };
    const struct CMUnitTest spins[] = { cmocka_unit_test(a_case_that_is_fine), cmocka_unit_test(a_case_that_spins) };
    const struct CMUnitTest fine[] = { cmocka_unit_test(a_case_that_is_fine) };
    if (!strcmp(how, "waits")) return cmocka_run_group_tests(waits, NULL, NULL);
    if (!strcmp(how, "spins")) return cmocka_run_group_tests(spins, NULL, NULL);
    return cmocka_run_group_tests(fine, !strcmp(how, "setup") ? a_setup_that_waits : NULL, NULL);
}

/* The exit code of this program with a test that hangs; all it says is in `output`. */
static int started(const char *limits, const char *how)
{
    char          line[512], self[300];
    const ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    assert_true(n > 0);
    self[n] = 0;
    snprintf(line, sizeof line, "%s '%s' %s 2>&1", limits, self, how);
    return shell(line);
}

static void a_program_that_waits_is_told_and_ended(void **state)
{
    char line[256], length[32], words[96];
    (void)state;
    snprintf(length, sizeof length, "9%d.5", (int)getpid()); // by which this one is known among others
    setenv("MBA_TEST_SLEEP", length, 1);
    says(started("MBA_TEST_IDLE_S=1", "waits"), 1, "HANGS: a_case_that_waits: nothing runs");
    snprintf(words, sizeof words, "s of processor: sleep %s", length);
    assert_non_null(strstr(output, words));
    assert_non_null(strstr(output, ", state S, comm sleep"));
#ifdef __GLIBC__
    assert_non_null(strstr(output, "main thread is at"));
    assert_non_null(strstr(output, "watchdog_test"));
#endif
    snprintf(line, sizeof line,
             "for p in /proc/[0-9]*; do tr '\\0' ' ' <$p/cmdline; done 2>/dev/null | grep '[s]leep %s'", length);
    assert_int_equal(shell(line), 1); // nobody sleeps any more
}

static void a_test_that_computes_without_end_is_told(void **state)
{
    (void)state;
    says(started("MBA_TEST_CPU_S=0.4", "spins"), 1, "HANGS: a_case_that_spins: it computes");
}

static void a_setup_that_hangs_is_told(void **state)
{
    (void)state;
    says(started("MBA_TEST_IDLE_S=1", "setup"), 1, "HANGS: the group's setup: nothing runs");
}

static void a_test_that_ends_is_left_alone(void **state)
{
    (void)state;
    assert_int_equal(started("MBA_TEST_IDLE_S=1", "not"), 0);
    assert_null(strstr(output, "HANGS"));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_program_that_waits_is_told_and_ended),
        cmocka_unit_test(a_test_that_computes_without_end_is_told),
        cmocka_unit_test(a_setup_that_hangs_is_told),
        cmocka_unit_test(a_test_that_ends_is_left_alone),
    };
    return argc > 1 ? hang(argv[1]) : cmocka_run_group_tests(tests, NULL, NULL);
}
