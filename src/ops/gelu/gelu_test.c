// SPDX-License-Identifier: Apache-2.0
/* gelu_test.c -- golden values of both forms, the tail, extremes, same bits; tests/operators_test.c checks the
 * `cases`. */
#include "tests/rig.h"

#include "ops/gelu/gelu.h"

enum { N = 8 };
static const double at[N] = { -3, -1.5, -0.3, 0, 0.2, 0.9, 1.7, 4 }, seeds[N] = { 1, -2, 0.5, 3, 1, -1, 2, 0.25 };

typedef struct unit {
    rig         r;
    mba_tensor *x, *y, *dy;
} unit;

static unit make(bool tanh_form)
{
    unit       u;
    mba_graph *g = graph();
    u.x = mba_param(g, "x", MBA_TYPE(MBA_F32, N), MBA_INIT_CONST(0), MBA_DECAY);
    u.y = mba_gelu(g, u.x, tanh_form);
    u.dy = mba_input(g, "dy", u.y->type);
    u.r = rig_create(g, 1, &u.y, &u.dy);
    for (int i = 0; i < N; i++) {
        rig_set(&u.r, u.x, i, at[i]);
        rig_set(&u.r, u.dy, i, seeds[i]);
    }
    rig_run(&u.r);
    return u;
}

/* Values of PyTorch: tools/golden/norms.py. */
static void gelu_of_golden_values(void **state)
{
    (void)state;
    unit exact = make(false), by_tanh = make(true);
    assert_golden(&exact.r, exact.y,
                  (double[]){ -0.004049694095, -0.1002108019, -0.1146265733, 0, 0.1158519419, 0.7343458872, 1.624238713,
                              3.999873315 });
    assert_golden(&exact.r, rig_grad(&exact.r, exact.x),
                  (double[]){ -0.0119456472, 0.2549383845, 0.1338361166, 1.5, 0.6574682482, -1.0554166, 2.230635938,
                              0.2501259124 });
    assert_golden(&by_tanh.r, by_tanh.y,
                  (double[]){ -0.003637392082, -0.100428423, -0.1146290765, 0, 0.1158514298, 0.7342284887, 1.624105896,
                              3.999929754 });
    assert_golden(&by_tanh.r, rig_grad(&by_tanh.r, by_tanh.x),
                  (double[]){ -0.01158416663, 0.2554215863, 0.1338522742, 1.5, 0.6574581492, -1.055067205, 2.231829263,
                              0.2500837808 });
    rig_destroy(&exact.r);
    rig_destroy(&by_tanh.r);
}

static void gelu_keeps_its_digits_far_below_zero(void **state)
{
    (void)state;
    for (int t = 0; t < 2; t++) {
        unit u = make(t);
        for (int i = 0; i < N; i++) rig_set(&u.r, u.x, i, -4 - 0.25 * i);
        rig_run(&u.r);
        for (int i = 0; i < N; i++) {
            const double y = rig_want(&u.r, u.y, i), d = rig_want(&u.r, rig_grad(&u.r, u.x), i);
            assert_near(rig_have(&u.r, u.y, i), y, 4e-6 * fabs(y));
            assert_near(rig_have(&u.r, rig_grad(&u.r, u.x), i), d, 2e-5 * fabs(d));
        }
        rig_destroy(&u.r);
    }
}

static void gelu_takes_extremes(void **state)
{
    (void)state;
    for (int t = 0; t < 2; t++) {
        unit         u = make(t);
        const double x[4] = { 1e30, -1e30, 60, -60 }, y[4] = { 1e30, 0, 60, 0 };
        const double d[4] = { 1, 0, 0.5, 0 }; // times the seeds 1, -2, 0.5, 3
        for (int i = 0; i < 4; i++) rig_set(&u.r, u.x, i, x[i]);
        rig_set(&u.r, u.x, 4, NAN);
        assert_ok(mba_program_run(u.r.p, MBA_STEP, &u.r.step, NULL));
        for (int i = 0; i < 4; i++) {
            assert_near(rig_have(&u.r, u.y, i), y[i], 1e-7 * y[i]);
            assert_near(rig_have(&u.r, rig_grad(&u.r, u.x), i), d[i], 1e-30);
        }
        assert_true(isnan(rig_have(&u.r, u.y, 4)) && isnan(rig_have(&u.r, rig_grad(&u.r, u.x), 4)));
        rig_destroy(&u.r);
    }
}

static void gelu_takes_many_at_any_thread_count(void **state)
{
    (void)state;
    for (int t = 0; t < 2; t++) {
        mba_graph  *g = graph();
        mba_tensor *x = mba_param(g, "x", MBA_TYPE(MBA_F32, 210, 301), MBA_INIT_NORMAL(3), MBA_DECAY);
        assert_large_case(g, mba_gelu(g, x, t));
    }
}

MBA_TEST_MAIN(cmocka_unit_test(gelu_of_golden_values), cmocka_unit_test(gelu_keeps_its_digits_far_below_zero),
              cmocka_unit_test(gelu_takes_extremes), cmocka_unit_test(gelu_takes_many_at_any_thread_count))
