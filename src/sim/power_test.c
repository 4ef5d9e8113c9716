// SPDX-License-Identifier: Apache-2.0
/* power_test.c -- the fit finds the energies that made a power, and power falls with every one of its causes. */
#include "sim/power.h"

#include <math.h>

#include "tests/test.h"

static const mba_power_model made = { 110, 20, 1, 100, 0.25 };

static void a_fit_finds_what_made_the_powers(void **state)
{
    mba_power_point p[12];
    (void)state;
    for (int i = 0; i < 12; i++) {
        p[i] = (mba_power_point){ { 0.5 * i, 40.0 * (i % 5), 0.3 * (i % 4) },
                                  .x = 1 - 0.04 * i,
                                  .weight = i % 3 ? 1 : 0.1 };
        p[i].watts = mba_power_w(&made, &p[i].rates, p[i].x);
    }
    const mba_power_model m = mba_power_fit(p, 12);
    assert_near(m.v_floor, made.v_floor, 1e-9);
    assert_near(m.idle_w, made.idle_w, 0.1);
    assert_near(m.vector_pj, made.vector_pj, 0.05);
    assert_near(m.tensor_pj, made.tensor_pj, 0.005);
    assert_near(m.dram_pj, made.dram_pj, 0.5);
}

static void no_energy_is_negative(void **state)
{
    (void)state;
    const mba_power_point p[] = { { { 1, 0, 0 }, 1, 100, 1 }, { { 2, 0, 0 }, 1, 90, 1 }, { { 0, 5, 1 }, 1, 300, 1 } };
    const mba_power_model m = mba_power_fit(p, 3);
    assert_true(m.idle_w >= 0 && m.vector_pj >= 0 && m.tensor_pj >= 0 && m.dram_pj >= 0);
}

static void less_work_or_a_lower_clock_draws_less(void **state)
{
    const mba_power_rates r = { 5, 200, 2 }, less[] = { { 4, 200, 2 }, { 5, 150, 2 }, { 5, 200, 1 } };
    (void)state;
    for (int i = 0; i < 3; i++) assert_true(mba_power_w(&made, &less[i], 0.8) < mba_power_w(&made, &r, 0.8));
    for (double x = 0.2; x < 1; x += 0.1) assert_true(mba_power_w(&made, &r, x) < mba_power_w(&made, &r, x + 0.1));
    const mba_power_rates none = { 0, 0, 0 };
    assert_near(mba_power_w(&made, &none, 1), made.idle_w, 1e-12);
}

MBA_TEST_MAIN(cmocka_unit_test(a_fit_finds_what_made_the_powers), cmocka_unit_test(no_energy_is_negative),
              cmocka_unit_test(less_work_or_a_lower_clock_draws_less))
