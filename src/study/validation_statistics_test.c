// SPDX-License-Identifier: Apache-2.0
/* validation_statistics_test.c -- statistics of synthetic points and kernels, computed by hand. */
#include "study/validation.h"

#include <math.h>
#include <string.h>

#include "tests/test.h"

static void errors_have_a_sign_and_need_both_numbers(void **state)
{
    (void)state;
    assert_near(mba_error_percent(110, 100), 10, 1e-12);
    assert_near(mba_error_percent(50, 100), -50, 1e-12);
    assert_true(isnan(mba_error_percent(0, 100)) && isnan(mba_error_percent(100, 0))
                && isnan(mba_error_percent(NAN, 1)));
}

static mba_profiled_kernel kernel(const char *workload, double launches, double bytes)
{
    mba_profiled_kernel c = { .launches = launches, .us = 100, .set = MBA_POINT_HELD };
    snprintf(c.workload, sizeof c.workload, "%s", workload);
    c.n[MBA_N_DRAM_RD] = bytes;
    return c;
}

static void a_step_is_the_sum_of_its_kernels(void **state)
{
    mba_profiled_kernel one[] = { kernel("a", 2, 100), kernel("b", 1, 7), kernel("a", 3, 1000), kernel("a", 5, NAN) };
    mba_profiled_set    k = { one, 4 };
    mba_point           p = { .source = MBA_POINT_TOTAL, .subject = "a", .ms = 10, .inputs_ms = 0.5 };
    (void)state;
    assert_near(mba_step_dram_bytes(&k, "a"), 2 * 100 + 3 * 1000, 0); // kernels without counters are left out
    assert_near(mba_step_dram_bytes(&k, "c"), 0, 0);
    assert_near(mba_step_ms_from_counters(&k, &p), 0, 0);
    one[2].step_ms = 9;
    one[1].step_ms = 4;
    assert_near(mba_step_ms_from_counters(&k, &p), 9.5, 0);
}

static void the_worst_is_the_farthest_either_way(void **state)
{
    mba_profiled_kernel one[] = { kernel("a", 1, 1), kernel("b", 1, 1), kernel("c", 1, 1), kernel("d", 1, 1) };
    mba_profiled_set    k = { one, 4 };
    mba_point           p[] = { { .source = MBA_POINT_TOTAL, .ms = 10, .predicted_ms = 11 },
                                { .source = MBA_POINT_TOTAL, .ms = 10, .predicted_ms = 8 },
                                { .source = MBA_POINT_OP, .ms = 10, .predicted_ms = 30 } };
    (void)state;
    assert_null(mba_worst_kernel(&k)); // nothing is predicted
    one[0].bound_us = 120;
    one[1].bound_us = 70;
    one[2].bound_us = 300;
    one[2].again = true;
    one[3].bound_us = 300;
    one[3].set = MBA_POINT_FITTED;
    assert_ptr_equal(mba_worst_kernel(&k), &one[1]);
    assert_near(mba_worst_step_percent(&(mba_measured){ p, 3 }), -20, 1e-12);
}

/* Rows of the built-in set, measured as predicted, then with the opposite sign, then unchanged. */
static void signs_are_counted_by_what_was_measured(void **state)
{
    static mba_emulated_set d;
    mba_emulation_agreement a;
    mba_gpu                 m;
    int                     changed = 0;
    (void)state;
    assert_ok(mba_gpu_load(&m, "h200"));
    assert_ok(mba_emulated_load(&d, NULL));
    assert_ok(mba_emulation_compare(&a, &d, &m));
    for (int i = 0; i < d.n; i++) {
        d.one[i].slower = a.predicted[i];
        changed += a.predicted[i] > 1.01 || a.predicted[i] < 0.99;
    }
    assert_true(changed > 0 && changed <= d.n);
    assert_ok(mba_emulation_compare(&a, &d, &m));
    assert_true(a.opposite == 0 && a.missed == 0 && a.invented == 0 && a.within == a.near);
    for (int i = 0; i < d.n; i++) d.one[i].slower = 1 / a.predicted[i];
    assert_ok(mba_emulation_compare(&a, &d, &m));
    assert_true(a.opposite > 0 && a.opposite <= changed);
    for (int i = 0; i < d.n; i++) d.one[i].slower = 1;
    assert_ok(mba_emulation_compare(&a, &d, &m));
    assert_true(a.opposite == 0 && a.invented == changed && a.near == d.n);
}

MBA_TEST_MAIN(cmocka_unit_test(errors_have_a_sign_and_need_both_numbers),
              cmocka_unit_test(a_step_is_the_sum_of_its_kernels),
              cmocka_unit_test(the_worst_is_the_farthest_either_way),
              cmocka_unit_test(signs_are_counted_by_what_was_measured))
