// SPDX-License-Identifier: Apache-2.0
/* relu_test.c -- hand-worked values, NaN, memory, same bits; tests/operators_test.c checks the `cases`. */
#include "tests/rig.h"

#include "ops/add/add.h"
#include "ops/relu/relu.h"

static void relu_of_hand_worked_values(void **state)
{
    (void)state;
    const double x[4] = { -2, 0, 0.5, 3 }, dy[4] = { 1, 4, 2, -1 };
    mba_graph   *g = graph();
    mba_tensor  *p = mba_param(g, "x", MBA_TYPE(MBA_F32, 4), MBA_INIT_CONST(0), MBA_DECAY);
    mba_tensor  *y = mba_relu(g, p), *seed = mba_input(g, "dy", y->type);
    rig          r = rig_create(g, 1, &y, &seed);
    for (int i = 0; i < 4; i++) {
        rig_set(&r, p, i, x[i]);
        rig_set(&r, seed, i, dy[i]);
    }
    rig_run(&r);
    assert_golden(&r, y, (double[]){ 0, 0, 0.5, 3 });
    assert_golden(&r, rig_grad(&r, p), (double[]){ 0, 0, 2, -1 });
    rig_set(&r, p, 1, NAN); // NaN must reach the loss
    rig_run(&r);
    assert_true(isnan(rig_have(&r, y, 1)));
    rig_destroy(&r);
}

static void relu_takes_the_place_of_its_input(void **state)
{
    (void)state;
    mba_graph  *g = graph();
    mba_tensor *x = mba_param(g, "x", MBA_TYPE(MBA_F32, 300, 7), MBA_INIT_NORMAL(1), MBA_DECAY);
    mba_tensor *s = mba_add(g, x, x), *a = mba_relu(g, s), *y = mba_add(g, a, x), *seed = mba_input(g, "dy", y->type);
    rig         r = rig_create(g, 1, &y, &seed);
    assert_true(r.p->layout.offset[s->st->id] == r.p->layout.offset[a->st->id]);
    rig_run(&r);
    assert_same_bits(&r);
    rig_destroy(&r);
}

MBA_TEST_MAIN(cmocka_unit_test(relu_of_hand_worked_values), cmocka_unit_test(relu_takes_the_place_of_its_input))
