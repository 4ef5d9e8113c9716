// SPDX-License-Identifier: Apache-2.0
/* test.h -- what every test program starts with: cmocka and a few words of our own.
 *
 *     static void claim_in_words(void **state) { (void)state; assert_near(got, want, 1e-6); }
 *     MBA_TEST_MAIN(cmocka_unit_test(claim_in_words), ..)
 *
 * A case that hangs is told and ended: watchdog.h. */
#ifndef MBA_TEST_H
#define MBA_TEST_H

#include <math.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/status.h"
#include "tests/watchdog.h"

/* |got - want| <= tolerance; NaN never passes. */
#define assert_near(got, want, tolerance) \
    assert_near_((double)(got), (double)(want), (double)(tolerance), __FILE__, __LINE__)
static inline void assert_near_(double got, double want, double tolerance, const char *file, int line)
{
    if (fabs(got - want) <= tolerance) return;
    print_error("%.10g, should be %.10g: off by %.3g, allowed %.3g\n", got, want, fabs(got - want), tolerance);
    _fail(file, line);
}

/* A call that must succeed; the story of its failure is printed. */
#define assert_ok(call) assert_ok_((call), __FILE__, __LINE__)
static inline void assert_ok_(mba_status st, const char *file, int line)
{
    if (st == MBA_OK) return;
    print_error("%s: %s\n", mba_status_name(st), mba_message());
    _fail(file, line);
}

/* A call that must fail with this code and a message that contains these words. */
#define assert_fails(call, code, words) assert_fails_((call), (code), (words), __FILE__, __LINE__)
static inline void assert_fails_(mba_status st, mba_status code, const char *words, const char *file, int line)
{
    if (st == code && strstr(mba_message(), words)) return;
    print_error("%s (wanted %s with \"%s\"): %s\n", mba_status_name(st), mba_status_name(code), words,
                st == MBA_OK ? "" : mba_message());
    _fail(file, line);
}

#define MBA_TEST_MAIN(...) \
    int main(void) \
    { \
        const struct CMUnitTest tests[] = { __VA_ARGS__ }; \
        return cmocka_run_group_tests(tests, NULL, NULL); \
    }

#endif
