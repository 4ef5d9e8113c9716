// SPDX-License-Identifier: Apache-2.0
/* residual_test.c -- hand-worked values, the share of dropped samples, dropped branches, same bits;
 * tests/operators_test.c checks the `cases`. */
#include "tests/rig.h"

#include "ops/add/add.h"
#include "ops/residual/residual.h"

enum { S = 400, R = 3, C = 2, ALL = S * R * C };
typedef struct unit {
    rig         r;
    mba_tensor *x, *v, *gamma, *y, *dy;
} unit;

/* x = 10, v = 1, gamma = (2, 3), dy = 5. */
static unit make(float drop, bool active)
{
    unit       u;
    mba_graph *g = graph();
    u.x = mba_param(g, "x", MBA_TYPE(MBA_F32, S, R, C), MBA_INIT_CONST(10), MBA_DECAY);
    u.v = mba_param(g, "v", MBA_TYPE(MBA_F32, S, R, C), MBA_INIT_CONST(1), MBA_DECAY);
    u.gamma = mba_param(g, "gamma", MBA_TYPE(MBA_F32, C), MBA_INIT_CONST(2), MBA_NO_DECAY);
    u.y = mba_residual(g, .x = u.x, .v = u.v, .gamma = u.gamma, .drop = drop, .active = active);
    u.dy = mba_input(g, "dy", u.y->type);
    u.r = rig_create(g, 1, &u.y, &u.dy);
    for (int i = 0; i < ALL; i++) rig_set(&u.r, u.dy, i, 5);
    rig_set(&u.r, u.gamma, 1, 3);
    rig_run(&u.r);
    return u;
}

static void residual_drops_whole_samples_and_keeps_the_mean(void **state)
{
    (void)state;
    unit u = make(0.2f, true);
    int  kept = 0;
    for (int s = 0; s < S; s++) {
        const bool on = rig_have(&u.r, u.y, s * R * C) != 10;
        kept += on;
        for (int i = s * R * C; i < (s + 1) * R * C; i++) {
            const double gamma = i % C ? 3 : 2;
            assert_near(rig_have(&u.r, u.y, i), on ? 10 + 1.25 * gamma : 10, 1e-6);
            assert_near(rig_want(&u.r, u.y, i), on ? 10 + 1.25 * gamma : 10, 1e-6);
            assert_near(rig_have(&u.r, rig_grad(&u.r, u.x), i), 5, 0);
            assert_near(rig_have(&u.r, rig_grad(&u.r, u.v), i), on ? 6.25 * gamma : 0, 2e-6); // the same choice
        }
    }
    assert_near(kept, 0.8 * S, 5 * sqrt(0.16 * S)); // within five standard deviations of a binomial draw
    for (int i = 0; i < C; i++) assert_near(rig_have(&u.r, rig_grad(&u.r, u.gamma), i), kept * R * 6.25, 1e-2);
    rig_destroy(&u.r);
}

static void residual_drops_nothing_in_evaluation(void **state)
{
    (void)state;
    unit u = make(0.2f, false);
    for (int i = 0; i < ALL; i++) assert_near(rig_have(&u.r, u.y, i), 10 + (i % C ? 3 : 2), 0);
    rig_destroy(&u.r);
}

static void residual_draws_anew_each_step_and_the_same_on_any_threads(void **state)
{
    (void)state;
    unit u = make(0.5f, true);
    bool before[S];
    int  same = 0;
    assert_same_bits(&u.r);
    for (int s = 0; s < S; s++) before[s] = rig_have(&u.r, u.y, s * R * C) != 10;
    u.r.step.index++;
    rig_run(&u.r);
    for (int s = 0; s < S; s++) same += before[s] == (rig_have(&u.r, u.y, s * R * C) != 10);
    assert_near(same, 0.5 * S, 5 * sqrt(0.25 * S));
    rig_destroy(&u.r);
}

static void residual_does_not_look_at_what_it_leaves_out(void **state)
{
    (void)state;
    unit u = make(0.5f, true);
    for (int i = 0; i < ALL; i++)
        if (rig_have(&u.r, u.y, i) == 10) ((float *)mba_program_at(u.r.p, u.v))[i] = NAN;
    assert_ok(mba_program_run(u.r.p, MBA_STEP, &u.r.step, NULL));
    for (int i = 0; i < ALL; i++)
        assert_false(isnan(rig_have(&u.r, u.y, i)) || isnan(rig_have(&u.r, rig_grad(&u.r, u.v), i)));
    for (int i = 0; i < C; i++) assert_false(isnan(rig_have(&u.r, rig_grad(&u.r, u.gamma), i)));
    rig_destroy(&u.r);
}

static void residual_without_anything_is_a_sum(void **state)
{
    (void)state;
    mba_graph  *g = graph();
    mba_tensor *x = mba_input(g, "x", MBA_TYPE(MBA_F32, 6, 3));
    assert_ptr_equal(mba_residual(g, .x = x, .v = x)->producer_node->op, &mba_op_add);
    assert_ptr_equal(mba_residual(g, .x = x, .v = x, .drop = 0.5f)->producer_node->op, &mba_op_add); // not active
    mba_residual(g, .x = x, .v = x, .drop = 0.5f, .active = true, .rows = 4);
    assert_fails(mba_graph_status(g), MBA_E_SHAPE, "6 rows are not samples of 4");
    mba_graph_destroy(g);
    g = graph();
    x = mba_input(g, "x", MBA_TYPE(MBA_F32, 6, 3));
    mba_residual(g, .x = x, .v = x, .drop = 1, .active = true);
    assert_fails(mba_graph_status(g), MBA_E_SHAPE, "a probability of 1");
    mba_graph_destroy(g);
    g = graph();
    x = mba_input(g, "x", MBA_TYPE(MBA_F32, 6, 3));
    mba_residual(g, .x = x, .v = x, .rows = 2, .factor = mba_input(g, "f", MBA_TYPE(MBA_F32, 4)));
    assert_fails(mba_graph_status(g), MBA_E_SHAPE, "4 factors for samples of 2 of 6 rows");
    mba_graph_destroy(g);
}

/* y = x + f v with f = 0, 2, 0.5 for samples of two rows; nothing is drawn. */
static void residual_takes_the_factors_it_is_given(void **state)
{
    (void)state;
    static const double f[] = { 0, 2, 0.5 };
    mba_graph          *g = graph();
    mba_tensor         *x = mba_param(g, "x", MBA_TYPE(MBA_F32, 6, 3), MBA_INIT_CONST(10), MBA_DECAY);
    mba_tensor         *v = mba_param(g, "v", MBA_TYPE(MBA_F32, 6, 3), MBA_INIT_CONST(1), MBA_DECAY);
    mba_tensor         *factor = mba_input(g, "f", MBA_TYPE(MBA_F32, 3));
    mba_tensor         *y = mba_residual(g, .x = x, .v = v, .rows = 2, .drop = 0.9f, .active = true, .factor = factor);
    mba_tensor         *dy = mba_input(g, "dy", y->type);
    rig                 r = rig_create(g, 1, &y, &dy);
    for (int i = 0; i < 3; i++) rig_set(&r, factor, i, f[i]);
    for (int i = 0; i < 18; i++) rig_set(&r, dy, i, 1 + i);
    rig_run(&r);
    for (int i = 0; i < 18; i++) {
        assert_near(rig_have(&r, y, i), 10 + f[i / 6], 0);
        assert_near(rig_want(&r, y, i), 10 + f[i / 6], 0);
        assert_near(rig_have(&r, rig_grad(&r, v), i), f[i / 6] * (1 + i), 0);
        assert_near(rig_want(&r, rig_grad(&r, v), i), f[i / 6] * (1 + i), 0);
    }
    rig_destroy(&r);
}

MBA_TEST_MAIN(cmocka_unit_test(residual_drops_whole_samples_and_keeps_the_mean),
              cmocka_unit_test(residual_drops_nothing_in_evaluation),
              cmocka_unit_test(residual_draws_anew_each_step_and_the_same_on_any_threads),
              cmocka_unit_test(residual_does_not_look_at_what_it_leaves_out),
              cmocka_unit_test(residual_takes_the_factors_it_is_given),
              cmocka_unit_test(residual_without_anything_is_a_sum))
