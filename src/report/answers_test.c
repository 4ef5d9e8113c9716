// SPDX-License-Identifier: Apache-2.0
/* answers_test.c -- what a reader who has only the page needs: one word for one thing, numbers that agree with each
 * other, and answers that say what they hold for. */
#include <math.h>
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

/* The text between the first `from` behind `at` and `to`, copied. */
static void between(char *out, size_t room, const char *at, const char *from, const char *to)
{
    const char *begin = strstr(at, from);
    if (!begin) fail_msg("the page does not have: %s", from);
    begin += strlen(from);
    const char *end = strstr(begin, to);
    assert_non_null(end);
    snprintf(out, room, "%.*s", (int)(end - begin), begin);
}

/* What the matrix marks in the column of a run is what the table of claims of that run says. F1 to F3 are statements
 * about several models: their table has a number and no verdict, as `show claims` has. */
static void the_matrix_and_the_claims_of_a_run_agree(void **state)
{
    static const int columns[SUITE] = { MBA_COLUMN_FUSED, MBA_COLUMN_MAMBA1, MBA_COLUMN_BASELINE,
                                        MBA_COLUMN_NONE,  MBA_COLUMN_NONE,   MBA_COLUMN_MAMBA_SSM };
    mba_stores       r;
    (void)state;
    char *page = page_of(suite, SUITE);
    assert_ok(mba_stores_open(&r, suite, SUITE));
    for (int i = 0; i < SUITE; i++) {
        char        from[160], cell[64], own[64];
        const char *at, *matrix = strstr(page, "<table class=\"matrix\">");
        if (columns[i] == MBA_COLUMN_NONE) continue;
        snprintf(from, sizeof from, "aria-label=\"claims of %s\"", mba_run_label(&r, i));
        at = strstr(page, from);
        if (!at) fail_msg("no claims of %s", mba_run_label(&r, i));
        for (int k = 1; k <= MBA_CLAIMS; k++) {
            snprintf(from, sizeof from, "aria-label=\"F%d, %s: ", k,
                     mba_matrix_column_title((mba_matrix_column)columns[i]));
            between(cell, sizeof cell, matrix, from, ",");
            snprintf(from, sizeof from, "<td>F%d</td>", k);
            at = strstr(at, from);
            assert_non_null(at);
            between(own, sizeof own, at, "<span class=\"chip ", "\">");
            const char *want = k <= 3 && strcmp(cell, "open") ? "number" : cell;
            if (strcmp(own, want)) fail_msg("F%d of %s: %s in the matrix, %s in its table", k, suite[i], cell, own);
        }
    }
    assert_ok(mba_stores_close(&r));
    free(page);
}

/* Bytes over time is bandwidth: the three factors of Q1 have one source. */
static void persistent_blocks_have_one_source_of_time(void **state)
{
    double bytes, time, rate;
    (void)state;
    char       *page = page_of(suite, SUITE);
    const char *at = strstr(page, "SSM kernels move ");
    assert_non_null(at);
    assert_int_equal(sscanf(at, "SSM kernels move %lf × the bytes in %lf × the time, at %lf ×", &bytes, &time, &rate),
                     3);
    assert_true(fabs(bytes / time - rate) < 0.011); // each is rounded to a hundredth
    assert_non_null(strstr(at, "by counters"));
    free(page);
}

/* The share of GEMM in the overview is that of claim F1. */
static void gemm_has_one_share(void **state)
{
    (void)state;
    const char *one[] = { suite[0] };
    char       *page = page_of(one, 1), want[128];
    mba_stores  r;
    assert_ok(mba_stores_open(&r, one, 1));
    const mba_analysis *a = r.run[0].a;
    const double        share = 100 * mba_products_s(a) / a->busy_s;
    assert_true(share > 100 * mba_kind_s(a, MBA_GEMM) / a->busy_s + 0.1); // it has a head
    snprintf(want, sizeof want, "GEMM takes <b>%s\u00a0%%</b>", mba_num(share).s);
    if (!strstr(page, want)) fail_msg("the page does not say: %s", want);
    snprintf(want, sizeof want, "GEMM %s %%, SSM", mba_num(share).s); // Fig. 1
    if (!strstr(page, want)) fail_msg("the page does not say: %s", want);
    assert_ok(mba_stores_close(&r));
    free(page);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_word_says_what_limits),
        cmocka_unit_test(the_matrix_and_the_claims_of_a_run_agree),
        cmocka_unit_test(persistent_blocks_have_one_source_of_time),
        cmocka_unit_test(gemm_has_one_share),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
