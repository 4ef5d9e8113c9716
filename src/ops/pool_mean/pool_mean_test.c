// SPDX-License-Identifier: Apache-2.0
/* pool_mean_test.c -- hand-worked values and a large image; tests/operators_test.c checks the `cases`. */
#include "tests/rig.h"

#include "ops/pool_mean/pool_mean.h"

static mba_tensor *param(mba_graph *g, const char *name, mba_type t)
{
    return mba_param(g, name, t, MBA_INIT_NORMAL(1), MBA_DECAY);
}

/* One image of 2 x 2 pixels, two channels: 1 2 3 6 and 0 -4 0 2. */
static void pool_mean_of_hand_worked_values(void **state)
{
    (void)state;
    const double pixels[8] = { 1, 0, 2, -4, 3, 0, 6, 2 };
    mba_graph   *g = graph();
    mba_tensor  *x = param(g, "x", MBA_TYPE(MBA_F32, 1, 2, 2, 2)), *y = mba_pool_mean(g, x);
    mba_tensor  *dy = mba_input(g, "dy", y->type);
    rig          r = rig_create(g, 1, &y, &dy);
    for (int64_t i = 0; i < 8; i++) rig_set(&r, x, i, pixels[i]);
    rig_set(&r, dy, 0, 8);
    rig_set(&r, dy, 1, -2);
    rig_run(&r);
    assert_golden(&r, y, (double[]){ 3, -0.5 });
    assert_golden(&r, rig_grad(&r, x), (double[]){ 2, -0.5, 2, -0.5, 2, -0.5, 2, -0.5 });
    rig_destroy(&r);
}

static void pool_mean_takes_large_images_at_any_thread_count(void **state)
{
    (void)state;
    mba_graph *g = graph();
    assert_large_case(g, mba_pool_mean(g, param(g, "x", MBA_TYPE(MBA_F32, 3, 33, 31, 67))));
    g = graph();
    assert_large_case(g, mba_pool_mean(g, param(g, "x", MBA_TYPE(MBA_F32, 2, 49, 2051))));
}

static void pool_mean_refuses_a_matrix(void **state)
{
    (void)state;
    mba_graph *g = graph();
    mba_pool_mean(g, mba_input(g, "x", MBA_TYPE(MBA_F32, 3, 4)));
    assert_fails(mba_graph_status(g), MBA_E_SHAPE, "x has 2 axes");
    mba_graph_destroy(g);
}

MBA_TEST_MAIN(cmocka_unit_test(pool_mean_of_hand_worked_values),
              cmocka_unit_test(pool_mean_takes_large_images_at_any_thread_count),
              cmocka_unit_test(pool_mean_refuses_a_matrix))
