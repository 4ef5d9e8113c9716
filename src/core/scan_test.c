// SPDX-License-Identifier: Apache-2.0
/* scan_test.c -- scan.h moves past what it matches, and past nothing else. */
#include "core/scan.h"
#include "tests/test.h"

static void text_and_numbers_are_matched_in_order(void **state)
{
    (void)state;
    const char *at = "batch 4 x length -4096 tokens";
    int64_t     batch = 0, length = 0;
    assert_true(mba_scan_text(&at, "batch ") && mba_scan_int(&at, &batch) && mba_scan_text(&at, " x length "));
    assert_true(mba_scan_int(&at, &length));
    assert_int_equal(batch, 4);
    assert_int_equal(length, -4096);
    assert_string_equal(at, " tokens");
}

static void what_does_not_match_leaves_the_position(void **state)
{
    (void)state;
    static const char *const bad[] = { "", "x4", "-", "9223372036854775808", "-9223372036854775809" };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const char *at = bad[i];
        int64_t     v = 7;
        assert_false(mba_scan_int(&at, &v));
        assert_false(mba_scan_text(&at, "batch"));
        assert_ptr_equal(at, bad[i]);
        assert_int_equal(v, 7);
    }
}

static void the_largest_numbers_fit(void **state)
{
    (void)state;
    const char *at = "9223372036854775807-9223372036854775808";
    int64_t     most = 0, least = 0;
    assert_true(mba_scan_int(&at, &most) && mba_scan_int(&at, &least));
    assert_true(most == INT64_MAX && least == INT64_MIN && !*at);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_and_numbers_are_matched_in_order),
        cmocka_unit_test(what_does_not_match_leaves_the_position),
        cmocka_unit_test(the_largest_numbers_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
