// SPDX-License-Identifier: Apache-2.0
/* answers_test.c -- what a reader who has only the page needs: one word for one thing, numbers that agree with each
 * other, and answers that say what they hold for. */
#include <stdlib.h>

#include "tests/page.h"
#include "tests/report_stores.h"

static const char *const suite[] = { "tests/data/stores/suite/mamba2.db",
                                     "tests/data/stores/suite/mamba1.db",
                                     "tests/data/stores/suite/mamba2-chunked.db",
                                     "tests/data/stores/suite/mamba2-chunked-short.db",
                                     "tests/data/stores/suite/mamba2-persistent.db",
                                     "tests/data/stores/suite/mamba_ssm-mamba2.db" };
enum { SUITE = sizeof suite / sizeof *suite };

static int times_in(const char *page, const char *text)
{
    int n = 0;
    for (const char *at = page; (at = strstr(at, text)) != NULL; at += strlen(text)) n++;
    return n;
}

/* A unit limits, a floor is set: "bound" is the study's word and stands in its compounds only. */
static void one_word_says_what_limits(void **state)
{
    (void)state;
    char *page = page_of(suite, SUITE);
    assert_int_equal(times_in(page, " bound by"), 0);
    assert_int_equal(times_in(page, "highest floor"), 0);
    assert_int_equal(times_in(page, "largest floor"), 0);
    assert_int_equal(times_in(page, "<b>Limited by</b>:"), 1);
    assert_int_equal(times_in(page, "<b>Floor</b>:"), 1);
    free(page);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_word_says_what_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
