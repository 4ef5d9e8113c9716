// SPDX-License-Identifier: Apache-2.0
/* rmsnorm_test.c -- hand-worked values and thread counts; tests/operators_test.c checks the `cases`. */
#include "tests/rig.h"

#include "ops/rmsnorm/rmsnorm.h"

/* Rows (3, 4) and (8, -6): rms 5/sqrt(2) and 10/sqrt(2). */
static void rmsnorm_of_hand_worked_values(void **state)
{
    (void)state;
    const double root = sqrt(2.0);
    mba_graph   *g = graph();
    mba_tensor  *x = mba_param(g, "x", MBA_TYPE(MBA_F32, 2, 2), MBA_INIT_CONST(0), MBA_DECAY);
    mba_tensor  *w = mba_param(g, "w", MBA_TYPE(MBA_F32, 2), MBA_INIT_CONST(0), MBA_NO_DECAY);
    mba_tensor  *y = mba_rmsnorm(g, x, w, 0), *dy = mba_input(g, "dy", y->type);
    rig          r = rig_create(g, 1, &y, &dy);
    const double vx[4] = { 3, 4, 8, -6 }, vdy[4] = { 1, 0, 0, 1 };
    for (int i = 0; i < 4; i++) {
        rig_set(&r, x, i, vx[i]);
        rig_set(&r, dy, i, vdy[i]);
    }
    rig_set(&r, w, 0, 1);
    rig_set(&r, w, 1, 2);
    rig_run(&r);
    assert_golden(&r, y, (double[]){ 0.6 * root, 1.6 * root, 0.8 * root, -1.2 * root });
    /* row 0: c = 0.3 sqrt(2), rstd = sqrt(2)/5; row 1: c = -0.6 sqrt(2), rstd = sqrt(2)/10 */
    assert_golden(&r, rig_grad(&r, x), (double[]){ 0.128 * root, -0.096 * root, 0.096 * root, 0.128 * root });
    assert_golden(&r, rig_grad(&r, w), (double[]){ 0.6 * root, -0.6 * root });
    rig_destroy(&r);
}

static void rmsnorm_takes_many_rows_at_any_thread_count(void **state)
{
    (void)state;
    mba_graph  *g = graph();
    mba_tensor *x = mba_param(g, "x", MBA_TYPE(MBA_F32, 210, 301), MBA_INIT_NORMAL(1), MBA_DECAY);
    mba_tensor *w = mba_param(g, "w", MBA_TYPE(MBA_F32, 301), MBA_INIT_NORMAL(1), MBA_NO_DECAY);
    assert_large_case(g, mba_rmsnorm(g, x, w, 1e-5f));
}

/* A reshaped view whose rows straddle two runs is refused: kernels need contiguous rows. */
static void rmsnorm_refuses_rows_in_runs(void **state)
{
    (void)state;
    mba_graph  *g = graph();
    mba_tensor *x = mba_slice(g, mba_input(g, "x", MBA_TYPE(MBA_F32, 4, 10)), 1, 0, 3);
    mba_rmsnorm(g, mba_reshape(g, x, MBA_TYPE(MBA_F32, 2, 6)), mba_input(g, "w", MBA_TYPE(MBA_F32, 6)), 0);
    assert_fails(mba_graph_status(g), MBA_E_SHAPE, "runs of 3");
    mba_graph_destroy(g);
}

MBA_TEST_MAIN(cmocka_unit_test(rmsnorm_of_hand_worked_values),
              cmocka_unit_test(rmsnorm_takes_many_rows_at_any_thread_count),
              cmocka_unit_test(rmsnorm_refuses_rows_in_runs))
