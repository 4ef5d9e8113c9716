// SPDX-License-Identifier: Apache-2.0
/* error_bands_test.c -- bands by hand: which residuals make them, which are tried, and what too few say. */
#include "tests/test.h"

#include <math.h>

#include "sim/error_bands.h"

static void a_tenth_lies_on_either_side(void **state)
{
    (void)state;
    mba_prediction_residual r[19];
    mba_error_bands         b;
    for (int i = 0; i < 19; i++) // 0.91 to 1.09, in no order
        r[i] = (mba_prediction_residual){ "scan", MBA_SIM_VECTOR, 0.91 + 0.01 * (i * 7 % 19) };
    assert_ok(mba_error_bands_of(&b, r, 19));
    assert_near(b.of[MBA_SIM_VECTOR].band.low, 0.92,
                1e-12); // the second of 19: one of 20 equal chances lies below the first
    assert_near(b.of[MBA_SIM_VECTOR].band.high, 1.08, 1e-12);
    assert_int_equal(b.of[MBA_SIM_VECTOR].points, 19);
    assert_int_equal(b.of[MBA_SIM_MEMORY].points, 0);
    assert_true(b.of[MBA_SIM_MEMORY].band.low == 0 && isinf(b.of[MBA_SIM_MEMORY].band.high)); // nothing is known
}

/* An operator that is far off lies outside the band of the others, however much it widens its own; its backward helps
 * it no more. */
static void a_family_is_tried_on_the_others(void **state)
{
    (void)state;
    mba_prediction_residual r[24];
    mba_error_bands         b;
    for (int i = 0; i < 20; i++)
        r[i] = (mba_prediction_residual){ i % 2 ? "norm" : "conv_bwd", MBA_SIM_MEMORY, 0.95 + 0.005 * i };
    for (int i = 20; i < 24; i++) r[i] = (mba_prediction_residual){ i % 2 ? "ssd" : "ssd_bwd", MBA_SIM_MEMORY, 1.5 };
    assert_ok(mba_error_bands_of(&b, r, 24));
    assert_near(b.of[MBA_SIM_MEMORY].band.high, 1.5, 1e-12); // two of 24 lie above: they are among four that are alike
    int outside = 0;
    for (int i = 0; i < 20; i++) outside += r[i].times < b.of[MBA_SIM_MEMORY].band.low;
    assert_int_equal(outside, 1);
    assert_int_equal(b.points - b.inside, 4 + 1); // those four, and the least of the rest
}

static void nine_are_the_fewest_that_say_anything(void **state)
{
    (void)state;
    double         v[] = { 1.2, 0.9, 1.1, 1.0, 1.3, 0.8, 1.05, 0.95, 1.15 };
    const mba_band nine = mba_band_of_residuals(v, 9), eight = mba_band_of_residuals(v, 8);
    assert_true(nine.low == 0.8 && nine.high == 1.3);
    assert_true(eight.low == 0 && isinf(eight.high));
}

MBA_TEST_MAIN(cmocka_unit_test(a_tenth_lies_on_either_side), cmocka_unit_test(a_family_is_tried_on_the_others),
              cmocka_unit_test(nine_are_the_fewest_that_say_anything))
