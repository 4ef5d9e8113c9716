// SPDX-License-Identifier: Apache-2.0
/* step_limits_test.c -- what limits a kernel and a step: made-up kernels on both sides of every rule, and the
 * stores of the repository against numbers that SQL over their tables gave. */
#include <math.h>
#include <stdio.h>

#include "study/step_limits.h"
#include "tests/test.h"

static mba_kernel_view busy(double tensor, double dram, double l1, double issue)
{
    const mba_counted c = { .tensor_pct = tensor,
                            .dram_pct = dram,
                            .l1_pct = l1,
                            .issue_pct = issue,
                            .fma_pct = NAN,
                            .alu_pct = NAN,
                            .xu_pct = NAN };
    return (mba_kernel_view){ .counted = c };
}

static void the_busiest_unit_limits_from_sixty_percent_on(void **state)
{
    const struct {
        double         tensor, dram, l1, issue;
        mba_step_limit want;
    } cases[] = {
        { 61, 90, 90, 90, MBA_STEP_DRAM },    { 91, 90, 90, 90, MBA_STEP_PRODUCTS },
        { 59, 61, 60, 10, MBA_STEP_DRAM },    { 0, 61, 62, 10, MBA_STEP_CHIP },
        { 0, 59, 59, 59, MBA_STEP_LATENCY },  { 0, 10, 10, 60, MBA_STEP_CHIP },
        { 60, 0, 0, 0, MBA_STEP_PRODUCTS },   { NAN, NAN, NAN, NAN, MBA_STEP_UNKNOWN },
        { NAN, 70, NAN, NAN, MBA_STEP_DRAM }, { NAN, 5, NAN, NAN, MBA_STEP_LATENCY },
    };
    (void)state;
    const mba_analysis none = { .best = { .l2 = NAN } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const mba_kernel_view k = busy(cases[i].tensor, cases[i].dram, cases[i].l1, cases[i].issue);
        assert_int_equal(mba_step_limit_of(&none, &k, MBA_BUSY_PCT), cases[i].want);
    }
}

/* Percent of the step: products, DRAM, on chip, latency, host; by SQL over the same stores. */
static void stores_of_the_repository(void **state)
{
    static const struct {
        const char *name;
        double      want[5];
        bool        clear; /* the largest part leads by more than five */
    } runs[] = {
        { "chunked", { 29.5, 20.8, 8.2, 41.5, 0 }, true },   { "mamba2", { 44.2, 30.0, 14.2, 11.5, 0 }, true },
        { "mamba1", { 30.8, 16.4, 18.9, 33.8, 0 }, false },  { "hybrid", { 45.9, 24.0, 17.5, 12.6, 0 }, true },
        { "vision", { 36.8, 13.1, 10.0, 31.1, 9.0 }, true }, { "graph", { 0, 0, 7.1, 89.6, 3.2 }, true },
    };
    (void)state;
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        char          path[64];
        mba_store    *s;
        mba_analysis *a;
        snprintf(path, sizeof path, "tests/data/stores/h200_%s.db", runs[i].name);
        assert_ok(mba_store_open(&s, path));
        assert_ok(mba_analysis_create(&a, s));
        const mba_step_limits l = mba_step_limits_of(a, MBA_BUSY_PCT);
        double                sum = 0;
        for (int k = 0; k < MBA_STEP_LIMITS; k++) sum += l.share[k];
        assert_true(fabs(sum - 1) < 1e-9);
        assert_true(mba_step_limit_is_large(&l, (int)l.most));
        assert_int_equal(l.clear, runs[i].clear);
        for (int k = 0; k < 5; k++)
            if (fabs(100 * l.share[k] - runs[i].want[k]) > 1)
                fail_msg("%s: %s limits %.1f %% of the step, want %.1f", runs[i].name,
                         mba_step_limit_name((mba_step_limit)k), 100 * l.share[k], runs[i].want[k]);
        mba_analysis_destroy(a);
        assert_ok(mba_store_close(s));
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_busiest_unit_limits_from_sixty_percent_on),
        cmocka_unit_test(stores_of_the_repository),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
