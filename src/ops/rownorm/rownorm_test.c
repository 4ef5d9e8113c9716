// SPDX-License-Identifier: Apache-2.0
/* rownorm_test.c -- hand-worked values, the lower bound of the norm, many rows; tests/operators_test.c checks the
 * `cases`. */
#include "tests/rig.h"

#include "ops/rownorm/rownorm.h"

/* (3, 4) / 5 with dy = (1, 0): dx = ((1, 0) - 0.6 (0.6, 0.8)) / 5. The norm of a row of zeros is bounded below: dx = dy
 * / 1e-12. So is that of a tiny row, whose y is x / 1e-12. */
static void rownorm_of_hand_worked_values(void **state)
{
    (void)state;
    mba_graph   *g = graph();
    mba_tensor  *x = mba_param(g, "x", MBA_TYPE(MBA_F32, 3, 2), MBA_INIT_CONST(0), MBA_DECAY);
    mba_tensor  *y = mba_rownorm(g, x), *dy = mba_input(g, "dy", y->type);
    rig          r = rig_create(g, 1, &y, &dy);
    const double in[6] = { 3, 4, 0, 0, 1e-13, 0 }, d[6] = { 1, 0, 2, -1, 0, 3 };
    const double want[6] = { 0.6, 0.8, 0, 0, 0.1, 0 }, dwant[6] = { 0.128, -0.096, 2e12, -1e12, 0, 3e12 };
    for (int i = 0; i < 6; i++) rig_set(&r, x, i, in[i]);
    for (int i = 0; i < 6; i++) rig_set(&r, dy, i, d[i]);
    rig_run(&r);
    for (int i = 0; i < 6; i++) {
        assert_near(rig_want(&r, y, i), want[i], 1e-12);
        assert_near(rig_have(&r, y, i), want[i], 1e-7);
        assert_near(rig_want(&r, rig_grad(&r, x), i), dwant[i], 1e-12 * fabs(dwant[i]) + 1e-12);
        assert_near(rig_have(&r, rig_grad(&r, x), i), dwant[i], 4e-7 * fabs(dwant[i]) + 1e-7);
    }
    rig_destroy(&r);
}

static void rownorm_takes_many_rows_at_any_thread_count(void **state)
{
    (void)state;
    mba_graph  *g = graph();
    mba_tensor *x = mba_param(g, "x", MBA_TYPE(MBA_F32, 3, 100, 203), MBA_INIT_NORMAL(1), MBA_DECAY);
    assert_large_case(g, mba_rownorm(g, x));
}

MBA_TEST_MAIN(cmocka_unit_test(rownorm_of_hand_worked_values),
              cmocka_unit_test(rownorm_takes_many_rows_at_any_thread_count))
