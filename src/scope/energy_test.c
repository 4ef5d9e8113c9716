// SPDX-License-Identifier: Apache-2.0
/* energy_test.c -- mean power between changes of the meter, and what of a store's energy is reported. */
#include "scope/energy.h"

#include "scope/meter.h"
#include "tests/made_store.h"

/* A meter of 690 W that moves every 0.1 s, read at the moments at which it was seen to have moved. */
enum { CHANGES = 8 };
static const mba_meter_change change[CHANGES] = { { 10.03, 6900 }, { 10.13, 6969 }, { 10.23, 7038 }, { 10.33, 7107 },
                                                  { 10.43, 7176 }, { 10.53, 7245 }, { 10.63, 7314 }, { 10.73, 7383 } };

/* Two readings at the ends of the window would give 7383 - 6831 J in 0.72 s: 767 W. */
static void the_mean_is_taken_between_changes(void **state)
{
    (void)state;
    assert_near(mba_mean_power_w(change, CHANGES, 10.02, 10.74, 700), 690, 1e-6);
    assert_near(mba_mean_power_w(change, CHANGES, 10.1, 10.5, -1), 690, 1e-6);
    assert_true(isnan(mba_mean_power_w(change, CHANGES, 10.1, 10.2, 700))); // one change has no length
    assert_true(isnan(mba_mean_power_w(change, 0, 0, 100, 700)));
}

static void power_never_exceeds_the_limit(void **state)
{
    (void)state;
    assert_near(mba_mean_power_w(change, CHANGES, 10, 11, 685), 685, 1e-12); // within 1 %: the meter's error
    assert_true(isnan(mba_mean_power_w(change, CHANGES, 10, 11, 600)));      // beyond it: a meter that is wrong
}

static mba_energy energy_of_row(const char *name, mba_row_energy row, double limit_w)
{
    mba_energy e;
    assert_ok(mba_store_create(&store, scratch(name)));
    assert_ok(mba_env_put_number(store, "run.units", "given", row.units / (double)row.steps, "tokens"));
    if (limit_w > 0) assert_ok(mba_env_put_number(store, "gpu.power_limit", "read", limit_w, "W"));
    assert_ok(mba_put_energy(store, &row));
    assert_ok(mba_store_close(store));
    assert_ok(mba_store_open(&store, scratch(name)));
    assert_ok(mba_analysis_create(&view, store));
    assert_ok(mba_energy_of(&e, view));
    assert_string_equal(e.mode, row.mode); // the store's memory: it ends with it
    e.mode = NULL;
    end();
    return e;
}

static void what_counts_is_reported(void **state)
{
    const mba_row_energy two_s = {
        .mode = "plain", .steps = 20, .units = 20 * 512, .seconds = 2, .joules = 1380, .source = MBA_ENERGY_SAMPLED
    };
    (void)state;
    const mba_energy e = energy_of_row("counts.db", two_s, 700);
    assert_near(e.step_j, 69, 1e-9);
    assert_near(e.unit_j, 69.0 / 512, 1e-12);
    assert_near(e.units_per_j, 512 / 69.0, 1e-9);
    assert_near(e.watts, 690, 1e-9);
    assert_string_equal(e.why, "");
    assert_near(energy_of_row("no_limit.db", two_s, 0).watts, 690, 1e-9);
}

static void what_does_not_count_says_why(void **state)
{
    mba_row_energy row = { .mode = "plain", .steps = 20, .units = 20, .seconds = 2, .joules = 1380, .source = "-" };
    mba_energy     e;
    (void)state;
    e = energy_of_row("difference.db", row, 700); // of two readings, for which 2 s are short
    assert_true(isnan(e.step_j) && isnan(e.watts));
    assert_string_equal(e.why, "not reported, the meter needs 5 s but ran for 2.00 s");
    row.source = MBA_ENERGY_SAMPLED, row.seconds = 1.9;
    e = energy_of_row("short.db", row, 700);
    assert_string_equal(e.why, "not reported, the meter needs 2 s but ran for 1.90 s");
    row.seconds = 2, row.joules = 1401;
    e = energy_of_row("hot.db", row, 700);
    assert_true(isnan(e.step_j) && isnan(e.watts) && isnan(e.units_per_j));
    assert_string_equal(e.why, "not reported, the meter shows more than the card's limit of 700 W");
}

static void a_store_without_a_meter_says_so(void **state)
{
    mba_energy e;
    (void)state;
    begin("none.db", false, 3);
    assert_ok(mba_energy_of(&e, view));
    assert_true(isnan(e.step_j) && !e.mode);
    assert_string_equal(e.why, "not measured");
    assert_true(isnan(mba_energy_kind_j(&e, view, MBA_GEMM)));
    end();
}

/* Classes and gaps share the energy of the step by their time, and nothing is left over. */
static void classes_and_gaps_add_up(void **state)
{
    mba_energy e = { .step_j = 170 };
    double     sum = 0;
    (void)state;
    begin("classes.db", false, 3);
    for (int k = 0; k < MBA_BREAKDOWN_KINDS; k++) sum += mba_energy_kind_j(&e, view, k);
    assert_near(sum + mba_energy_gaps_j(&e, view), 170, 1e-9);
    assert_near(mba_energy_kind_j(&e, view, MBA_SSM) / mba_energy_kind_j(&e, view, MBA_GEMM),
                mba_kind_s(view, MBA_SSM) / mba_kind_s(view, MBA_GEMM), 1e-12);
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_mean_is_taken_between_changes), cmocka_unit_test(power_never_exceeds_the_limit),
        cmocka_unit_test(what_counts_is_reported),           cmocka_unit_test(what_does_not_count_says_why),
        cmocka_unit_test(a_store_without_a_meter_says_so),   cmocka_unit_test(classes_and_gaps_add_up),
    };
    scratch_make();
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    scratch_remove();
    return failed;
}
