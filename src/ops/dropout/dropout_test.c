// SPDX-License-Identifier: Apache-2.0
/* dropout_test.c -- the mask: its density, the same mask in the backward pass, another mask in the next step;
 * tests/operators_test.c checks the `cases`. */
#include "tests/rig.h"

#include "ops/dropout/dropout.h"

enum { R = 100, C = 203, ALL = R * C };

static rig dropout_rig(mba_tensor **x, mba_tensor **y, float p)
{
    mba_graph *g = graph();
    *x = mba_param(g, "x", MBA_TYPE(MBA_F32, R, C), MBA_INIT_CONST(3), MBA_DECAY);
    *y = mba_dropout(g, *x, p);
    mba_tensor *dy = mba_input(g, "dy", (*y)->type);
    rig         r = rig_create(g, 1, y, &dy);
    for (int i = 0; i < ALL; i++) rig_set(&r, dy, i, 5);
    return r;
}

static void dropout_keeps_its_share_and_the_mean(void **state)
{
    (void)state;
    mba_tensor *x, *y;
    rig         r = dropout_rig(&x, &y, 0.25f);
    int         kept = 0;
    rig_run(&r);
    for (int i = 0; i < ALL; i++) {
        const float v = rig_have(&r, y, i), d = rig_have(&r, rig_grad(&r, x), i);
        assert_true(v == 0 || v == 4);               // 3 / (1 - 1/4)
        assert_near(d, v == 0 ? 0 : 5 / 0.75, 1e-6); // the same mask
        assert_true(v == 0 ? rig_want(&r, y, i) == 0 : rig_want(&r, y, i) == 4);
        kept += v != 0;
    }
    assert_near(kept, 0.75 * ALL, 5 * sqrt(0.25 * 0.75 * ALL)); // within five standard deviations of a binomial draw
    rig_destroy(&r);
}

static void dropout_draws_anew_each_step_and_the_same_on_any_threads(void **state)
{
    (void)state;
    mba_tensor  *x, *y;
    rig          r = dropout_rig(&x, &y, 0.5f);
    static float before[ALL];
    int          same = 0;
    rig_run(&r);
    assert_same_bits(&r);
    for (int i = 0; i < ALL; i++) before[i] = rig_have(&r, y, i);
    r.step.index++;
    rig_run(&r);
    for (int i = 0; i < ALL; i++) same += before[i] == rig_have(&r, y, i);
    assert_near(same, 0.5 * ALL, 5 * sqrt(0.25 * ALL));
    rig_destroy(&r);
}

static void dropout_of_nothing_is_no_node(void **state)
{
    (void)state;
    mba_graph  *g = graph();
    mba_tensor *x = mba_input(g, "x", MBA_TYPE(MBA_F32, 3));
    assert_ptr_equal(mba_dropout(g, x, 0), x);
    mba_dropout(g, x, 1);
    assert_fails(mba_graph_status(g), MBA_E_SHAPE, "a probability of 1");
    mba_graph_destroy(g);
}

MBA_TEST_MAIN(cmocka_unit_test(dropout_keeps_its_share_and_the_mean),
              cmocka_unit_test(dropout_draws_anew_each_step_and_the_same_on_any_threads),
              cmocka_unit_test(dropout_of_nothing_is_no_node))
