// SPDX-License-Identifier: Apache-2.0
/* sweep_test.c -- points of a sweep against steps that are simulated by themselves, and axes that make no sense. */
#include "study/sweep.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/test.h"

static const mba_model_options small = { .name = "mamba2-130m", .shape = { .batch = 1, .length = 64 } };

static mba_sweep begin(void)
{
    mba_sweep s = { .w = { .machine = "h200" }, .validated = { 0.9, 1.1 } };
    assert_ok(mba_sim_create(&s.sim));
    return s;
}

static double alone_ms(mba_sweep *s, const char *changes)
{
    mba_workload  w = s->w;
    mba_simulated r = { 0 };
    w.changes = changes;
    w.model = small;
    assert_ok(mba_simulated_run(&r, &w, s->sim));
    const double ms = 1e3 * r.step.seconds;
    mba_simulated_end(&r);
    return ms;
}

static void points_are_steps_of_changed_machines(void **state)
{
    static const char *const changes[] = { "hbm=x0.5,xu=x1", "hbm=x0.5,xu=x2", "hbm=x1,xu=x1", "hbm=x1,xu=x2" };
    mba_sweep_point          p[4];
    mba_sweep                s = begin();
    (void)state;
    assert_ok(mba_sweep_axes(&s, "hbm=x0.5:x1", "xu=x1:x2"));
    assert_int_equal(mba_sweep_size(&s), 4);
    assert_false(mba_sweep_draws(&s));
    assert_ok(mba_sweep_points(p, &s, &small));
    const double base = alone_ms(&s, NULL);
    for (int i = 0; i < 4; i++) {
        assert_true(p[i].ms == alone_ms(&s, changes[i]));
        assert_true(p[i].speedup == base / p[i].ms);
        assert_true(p[i].low_ms < p[i].ms && p[i].ms < p[i].high_ms);
        assert_near(p[i].units_s, 64 / (1e-3 * p[i].ms), 1e-6);
        assert_string_equal(p[i].model, "mamba2-130m");
        assert_string_equal(p[i].refused, "");
        assert_int_equal(p[i].grade, 'C');
    }
    assert_string_equal(p[1].value[0], "x0.5");
    assert_string_equal(p[1].value[1], "x2");
    assert_true(p[2].ms == base && p[2].speedup == 1);
    assert_true(p[0].ms > base && p[3].ms <= p[2].ms);
    assert_int_equal(s.points, 4);
    mba_sim_destroy(s.sim);
}

/* Both machines are sampled in the same order, so the ratio of a machine to itself is 1 in every draw. */
static void a_machine_is_as_fast_as_itself(void **state)
{
    mba_sweep_point p[2];
    mba_sweep       s = begin();
    (void)state;
    assert_ok(mba_sweep_axes(&s, "machine=h200:a100", NULL));
    assert_true(mba_sweep_draws(&s));
    assert_ok(mba_sweep_points(p, &s, &small));
    assert_true(p[0].speedup == 1 && p[0].ratio.band.low == 1 && p[0].ratio.band.high == 1 && p[0].ratio.above == 0.5);
    assert_true(p[1].speedup < 1 && p[1].speedup * p[1].ratio.band.high < 1 && p[1].ratio.above == 0);
    assert_int_equal(p[0].grade, 'B');
    assert_int_equal(p[1].grade, 'C');
    assert_string_equal(p[0].value[1], "-");
    mba_sim_destroy(s.sim);
}

static void a_machine_too_small_is_an_answer(void **state)
{
    mba_sweep_point p[2];
    mba_sweep       s = begin();
    (void)state;
    assert_ok(mba_sweep_axes(&s, "rf=16:256", NULL));
    assert_ok(mba_sweep_points(p, &s, &small));
    assert_non_null(strstr(p[0].refused, "cannot run on h200"));
    assert_true(isnan(p[0].ms) && isnan(p[0].speedup) && p[0].grade == '-');
    assert_true(p[1].ms > 0 && !*p[1].refused);
    mba_sim_destroy(s.sim);
}

static void elasticity_is_a_slope(void **state)
{
    double    per_percent[MBA_SWEEP_NUMBERS], sum = 0;
    mba_sweep s = begin();
    (void)state;
    assert_ok(mba_sweep_elasticity(per_percent, &s, &small));
    for (int k = 0; k < MBA_SWEEP_NUMBERS; k++) {
        sum += per_percent[k];
        if (strcmp(mba_sweep_numbers[k], "hbm")) continue;
        assert_near(per_percent[k], log(alone_ms(&s, "hbm=x0.95") / alone_ms(&s, "hbm=x1.05")) / log(1.05 / 0.95),
                    1e-12);
        assert_true(per_percent[k] >= 0 && per_percent[k] <= 1);
    }
    assert_true(isfinite(sum));
    assert_int_equal(s.points, 2 * MBA_SWEEP_NUMBERS);
    mba_sim_destroy(s.sim);
}

static void balance_is_the_ratio_of_busy_pipes(void **state)
{
    mba_balance b[MBA_BALANCE_ROWS];
    mba_gpu     m;
    int         n;
    mba_sweep   s = begin();
    (void)state;
    assert_ok(mba_gpu_load(&m, "h200"));
    assert_ok(mba_sweep_balance(b, &n, &s, &small));
    assert_true(n >= 3);
    assert_string_equal(b[0].op, "whole step");
    const double here = m.v[MBA_GPU_mma16] / (2 * m.v[MBA_GPU_fma]);
    for (int i = 0; i < n; i++) {
        assert_true(b[i].ms > 0 && b[i].ms <= b[0].ms && b[i].tensor_percent > 0 && b[i].tensor_percent <= 100);
        assert_near(b[i].ratio, here * b[i].tensor_percent / b[i].vector_percent, 1e-9 * b[i].ratio);
    }
    mba_sim_destroy(s.sim);
}

static void axes_without_sense_are_refused(void **state)
{
    mba_sweep s = { .points = 0 };
    (void)state;
    assert_fails(mba_sweep_axes(&s, "hbm", NULL), MBA_E_ARG, "an axis is name=value:value");
    assert_fails(mba_sweep_axes(&s, "hbm=", NULL), MBA_E_ARG, "it has no values");
    assert_fails(mba_sweep_axes(&s, "hbm=x1::x2", NULL), MBA_E_ARG, "none of them empty");
    assert_fails(mba_sweep_axes(&s, "ratio=32", "mma16=x2"), MBA_E_ARG, "both change the same number");
    assert_ok(mba_sweep_axes(&s, "l2=x2", "l2_half_reuse=x2"));
    assert_ok(mba_sweep_axes(&s, NULL, NULL));
    assert_int_equal(mba_sweep_size(&s), 0);
}

static void every_experiment_has_a_question_and_axes(void **state)
{
    int n = 0;
    (void)state;
    for (const mba_experiment *e = mba_experiments; e->id; e++, n++) {
        mba_sweep s;
        assert_non_null(e->question);
        assert_ok(mba_sweep_axes(&s, e->axis, e->by));
        assert_int_equal((e->axis != NULL) + e->elasticity + e->balance, 1);
    }
    assert_true(n >= 10);
}

MBA_TEST_MAIN(cmocka_unit_test(points_are_steps_of_changed_machines), cmocka_unit_test(a_machine_is_as_fast_as_itself),
              cmocka_unit_test(a_machine_too_small_is_an_answer), cmocka_unit_test(elasticity_is_a_slope),
              cmocka_unit_test(balance_is_the_ratio_of_busy_pipes), cmocka_unit_test(axes_without_sense_are_refused),
              cmocka_unit_test(every_experiment_has_a_question_and_axes))
