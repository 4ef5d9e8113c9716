// SPDX-License-Identifier: Apache-2.0
/* add_rmsnorm_test.c -- hand-worked values, thread counts; tests/operators_test.c checks the `cases`. */
#include "tests/rig.h"

#include "ops/add_rmsnorm/add_rmsnorm.h"

/* res + m = (3, 4): mean square 12.5, rstd = sqrt(2)/5, h = (0.6, 0.8) sqrt(2). */
static void add_rmsnorm_of_hand_worked_values(void **state)
{
    (void)state;
    const double      root = sqrt(2.0);
    mba_graph        *g = graph();
    mba_tensor       *res = mba_param(g, "res", MBA_TYPE(MBA_F32, 1, 2), MBA_INIT_CONST(0), MBA_DECAY), *sum = res;
    mba_tensor       *m = mba_param(g, "m", MBA_TYPE(MBA_F32, 1, 2), MBA_INIT_CONST(0), MBA_DECAY);
    mba_tensor       *w = mba_param(g, "w", MBA_TYPE(MBA_F32, 2), MBA_INIT_CONST(0), MBA_NO_DECAY);
    mba_tensor       *y = mba_add_rmsnorm(g, &sum, m, w, MBA_F32, 0);
    mba_tensor       *dy = mba_input(g, "dy", y->type), *dsum = mba_input(g, "dsum", y->type);
    rig               r = rig_create(g, 2, (mba_tensor *[]){ y, sum }, (mba_tensor *[]){ dy, dsum });
    const double      in[5][2] = { { 1, 6 }, { 2, -2 }, { 1, 2 }, { 1, 0 }, { 10, 20 } };
    mba_tensor *const at[5] = { res, m, w, dy, dsum };
    for (int k = 0; k < 5; k++)
        for (int i = 0; i < 2; i++) rig_set(&r, at[k], i, in[k][i]);
    rig_run(&r);
    assert_golden(&r, sum, (double[]){ 3, 4 });
    assert_golden(&r, y, (double[]){ 0.6 * root, 1.6 * root });
    /* c = mean(h w dy) = 0.3 sqrt(2); dx = rstd (w dy - h c) = sqrt(2)/5 (1 - 0.36, -0.48) */
    const double d[2] = { 10 + 0.128 * root, 20 - 0.096 * root };
    assert_golden(&r, rig_grad(&r, res), d);
    assert_golden(&r, rig_grad(&r, m), d);
    assert_golden(&r, rig_grad(&r, w), (double[]){ 0.6 * root, 0 });
    rig_destroy(&r);
}

static void add_rmsnorm_takes_many_rows_at_any_thread_count(void **state)
{
    (void)state;
    mba_graph     *g = graph();
    const mba_type t = MBA_TYPE(MBA_F32, 3, 70, 301);
    mba_tensor    *res = mba_param(g, "res", t, MBA_INIT_NORMAL(1), MBA_DECAY);
    mba_tensor    *m = mba_param(g, "m", t, MBA_INIT_NORMAL(1), MBA_DECAY);
    mba_tensor    *w = mba_param(g, "w", MBA_TYPE(MBA_F32, 301), MBA_INIT_NORMAL(1), MBA_NO_DECAY);
    mba_tensor    *y = mba_add_rmsnorm(g, &res, m, w, MBA_F32, 1e-5f);
    assert_large_case(g, mba_add_rmsnorm(g, &res, y, w, MBA_F32, 1e-5f));
}

/* Only the sum is used: the operator is an add, and needs no backward node. */
static void add_rmsnorm_without_a_use_of_its_output_is_an_add(void **state)
{
    (void)state;
    mba_graph     *g = graph();
    const mba_type t = MBA_TYPE(MBA_F32, 3, 5);
    mba_tensor    *res = mba_param(g, "res", t, MBA_INIT_NORMAL(1), MBA_DECAY), *sum = res;
    mba_tensor    *m = mba_param(g, "m", t, MBA_INIT_NORMAL(1), MBA_DECAY);
    mba_add_rmsnorm(g, &sum, m, mba_param(g, "w", MBA_TYPE(MBA_F32, 5), MBA_INIT_CONST(1), MBA_NO_DECAY), MBA_F32, 0);
    mba_tensor *d = mba_input(g, "d", t);
    rig         r = rig_create(g, 1, &sum, &d);
    rig_sines(&r, d, 1, 1, 1);
    rig_run(&r);
    for (int i = 0; i < 15; i++) {
        assert_near(rig_have(&r, rig_grad(&r, res), i), (float)sin(i + 1), 0);
        assert_near(rig_have(&r, rig_grad(&r, m), i), (float)sin(i + 1), 0);
    }
    rig_destroy(&r);
}

static void add_rmsnorm_refuses_what_does_not_fit(void **state)
{
    (void)state;
    mba_graph  *g = graph();
    mba_tensor *x = mba_input(g, "x", MBA_TYPE(MBA_F32, 3, 5));
    mba_add_rmsnorm(g, &x, NULL, mba_input(g, "w", MBA_TYPE(MBA_F32, 4)), MBA_F32, 0);
    assert_fails(mba_graph_status(g), MBA_E_SHAPE, "rows of 5, a weight of 4");
    mba_graph_destroy(g);
}

MBA_TEST_MAIN(cmocka_unit_test(add_rmsnorm_of_hand_worked_values),
              cmocka_unit_test(add_rmsnorm_takes_many_rows_at_any_thread_count),
              cmocka_unit_test(add_rmsnorm_without_a_use_of_its_output_is_an_add),
              cmocka_unit_test(add_rmsnorm_refuses_what_does_not_fit))
