// SPDX-License-Identifier: Apache-2.0
/* swiglu_test.c -- hand-worked values and thread counts; tests/operators_test.c checks the `cases`. */
#include "tests/rig.h"

#include "ops/swiglu/swiglu.h"

/* silu(0) = 0 with slope 1/2; silu(ln 3) = 3/4 ln 3 with slope 3/4 + 3/16 ln 3; silu(-ln 3) = -1/4 ln 3 with slope
 * 1/4 - 3/16 ln 3: the sigmoid of ln 3 is 3/4. */
static void swiglu_of_hand_worked_values(void **state)
{
    (void)state;
    const double l = log(3.0), gate[3] = { 0, l, -l };
    mba_graph   *g = graph();
    mba_tensor  *h = mba_param(g, "h", MBA_TYPE(MBA_F32, 1, 6), MBA_INIT_CONST(0), MBA_DECAY);
    mba_tensor  *y = mba_swiglu(g, mba_slice(g, h, 1, 0, 3), mba_slice(g, h, 1, 3, 3));
    mba_tensor  *dy = mba_input(g, "dy", y->type);
    rig          r = rig_create(g, 1, &y, &dy);
    for (int i = 0; i < 3; i++) {
        rig_set(&r, h, i, i + 2);
        rig_set(&r, h, 3 + i, gate[i]);
        rig_set(&r, dy, i, 10);
    }
    rig_run(&r);
    assert_golden(&r, y, (double[]){ 0, 2.25 * l, -l });
    assert_golden(&r, rig_grad(&r, h),
                  (double[]){ 0, 7.5 * l, -2.5 * l, 10, 30 * (0.75 + 3 * l / 16), 40 * (0.25 - 3 * l / 16) });
    rig_destroy(&r);
}

static void swiglu_takes_many_rows_at_any_thread_count(void **state)
{
    (void)state;
    mba_graph  *g = graph();
    mba_tensor *h = mba_param(g, "h", MBA_TYPE(MBA_F32, 210, 602), MBA_INIT_NORMAL(3), MBA_DECAY);
    assert_large_case(g, mba_swiglu(g, mba_slice(g, h, 1, 0, 301), mba_slice(g, h, 1, 301, 301)));
}

MBA_TEST_MAIN(cmocka_unit_test(swiglu_of_hand_worked_values),
              cmocka_unit_test(swiglu_takes_many_rows_at_any_thread_count))
