// SPDX-License-Identifier: Apache-2.0
/* public_numbers_test.c -- the table of published measurements parses, and all of its work can be simulated. */
#include "study/public_numbers.h"

#include <math.h>
#include <string.h>

#include "tests/test.h"

static void ratios_are_speeds(void **state)
{
    mba_public_number p[MBA_PUBLIC_MAX];
    int               n;
    (void)state;
    assert_ok(mba_public_parse(
        p, &n, "test", "a#1\tmatmul bf16 1 1 1\th100\t4\th200\t5\tms\t-\na#1\tstep x\ta100\t4\th200\t5\tTFLOP/s\t-\n"));
    assert_int_equal(n, 2);
    assert_near(p[0].measured, 0.8, 1e-12); // less time is more speed
    assert_near(p[1].measured, 1.25, 1e-12);
}

static void bad_rows_are_refused(void **state)
{
    static const char *const bad[] = { "a\tb\n", "a\tb\th100\t0\th200\t5\tms\t-\n", "a\tb\th100\tx\th200\t5\tms\t-\n",
                                       "a\tb\th100\t1\th200\t5\tms\t-\tmore\n" };
    mba_public_number        p[MBA_PUBLIC_MAX];
    int                      n;
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(mba_public_parse(p, &n, "test", bad[i]), MBA_E_FORMAT);
    mba_public_number q = { .work = "nothing bf16 1", .gpu = { "h100", "h200" } };
    assert_int_equal(mba_public_predict(&q), MBA_E_FORMAT);
}

/* docs/simulator.md says how many. */
static void most_ratios_are_within_a_fifth(void **state)
{
    mba_public_number p[MBA_PUBLIC_MAX];
    int               n, near = 0;
    (void)state;
    assert_ok(mba_public_parse(p, &n, "the built-in table", mba_public_text));
    assert_true(n >= 25);
    for (int i = 0; i < n; i++) {
        assert_ok(mba_public_predict(&p[i]));
        near += fabs(p[i].predicted / p[i].measured - 1) <= 0.2;
    }
    printf("%d of %d ratios between GPUs are within 20 %%\n", near, n);
    assert_true(near >= 24);
}

MBA_TEST_MAIN(cmocka_unit_test(ratios_are_speeds), cmocka_unit_test(bad_rows_are_refused),
              cmocka_unit_test(most_ratios_are_within_a_fifth))
