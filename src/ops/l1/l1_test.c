// SPDX-License-Identifier: Apache-2.0
/* l1_test.c -- values of PyTorch (tools/golden/graph_ops.py) in a ragged batch, missing targets. */
#include "tests/rig.h"

#include "ops/l1/l1.h"

/* Three valid rows of four values in a capacity of five; y[6] equals its target. */
static void l1_has_its_golden_values_in_a_ragged_batch(void **state)
{
    (void)state;
    mba_graph *g = graph();
    mba_type   type = MBA_TYPE(MBA_F32, 5, 4);
    type.count = MBA_GRAPHS;
    mba_tensor  *y = mba_param(g, "y", type, MBA_INIT_CONST(0), MBA_DECAY), *t = mba_input(g, "t", type);
    mba_tensor  *loss = mba_l1(g, y, t), *seed = mba_input(g, "seed", loss->type);
    rig          r = rig_create(g, 1, &loss, &seed);
    const double k = 1.0 / 12, dy[20] = { -k, k, k, -k, -k, -k, 0, k, k, k, k, -k };
    r.step.count[MBA_GRAPHS] = 3;
    rig_set(&r, seed, 0, 1);
    rig_sines(&r, y, 1, 0.9, 0.2);
    rig_sines(&r, t, 0.6, 0.4, 0.5);
    rig_set(&r, t, 6, sin(0.9 * 6 + 0.2));
    for (int i = 12; i < 20; i++) rig_set(&r, i % 2 ? y : t, i, NAN);
    memset(r.p->memory[MBA_GRAD], 0xff, r.p->layout.arena_bytes[MBA_GRAD]);
    rig_run(&r);
    assert_golden(&r, loss, (double[]){ 0.6208684738 });
    assert_golden(&r, rig_grad(&r, y), dy);
    assert_same_bits(&r);
    for (int i = 0; i < 12; i++) rig_set(&r, t, i, NAN); // no entry has a target
    rig_run(&r);
    assert_near(rig_have(&r, loss, 0), 0, 0);
    for (int i = 0; i < 20; i++) assert_near(rig_have(&r, rig_grad(&r, y), i), 0, 0);
    rig_destroy(&r);
}

MBA_TEST_MAIN(cmocka_unit_test(l1_has_its_golden_values_in_a_ragged_batch))
