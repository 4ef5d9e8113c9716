// SPDX-License-Identifier: Apache-2.0
/* bce_test.c -- values of PyTorch (tools/golden/graph_ops.py), large logits, ragged batches. */
#include "tests/rig.h"

#include "ops/bce/bce.h"

typedef struct loss_rig {
    rig         r;
    mba_tensor *z, *t, *loss;
} loss_rig;

static loss_rig make(mba_type type, bool weighted)
{
    loss_rig   l;
    mba_graph *g = graph();
    l.z = mba_param(g, "z", type, MBA_INIT_CONST(0), MBA_DECAY);
    l.t = mba_input(g, "t", type);
    l.loss = mba_bce(g, l.z, l.t, weighted);
    mba_tensor *seed = mba_input(g, "seed", l.loss->type);
    l.r = rig_create(g, 1, &l.loss, &seed);
    rig_set(&l.r, seed, 0, 1);
    rig_sines(&l.r, l.z, 3, 0.9, 0.2);
    return l;
}

static void bce_has_its_golden_values(void **state)
{
    (void)state;
    loss_rig     l = make(MBA_TYPE(MBA_F32, 3, 4), false);
    const double t[12] = { 1, 0, NAN, 1, 0, 0, 1, NAN, 1, 1, 0, 0 };
    for (int i = 0; i < 12; i++) rig_set(&l.r, l.t, i, t[i]);
    rig_run(&l.r);
    assert_golden(&l.r, l.loss, (double[]){ 0.7162115483 });
    assert_golden(&l.r, rig_grad(&l.r, l.z),
                  (double[]){ -0.0355257532, 0.0935452083, 0, -0.0327889084, 0.0137575628, 0.0047436275, -0.0869188187,
                              0, -0.0063202441, -0.0062589984, 0.0661205228, 0.0132939808 });
    rig_destroy(&l.r);
}

/* One logit per node; seven of ten rows are valid. */
static void bce_weighted_has_its_golden_values_in_a_ragged_batch(void **state)
{
    (void)state;
    mba_type type = MBA_TYPE(MBA_F32, 10, 1);
    type.count = MBA_NODES;
    loss_rig     l = make(type, true);
    const double t[10] = { 1, 0, 0, 1, 0, 0, 0, 1, 1, NAN };
    l.r.step.count[MBA_NODES] = 7;
    for (int i = 0; i < 10; i++) rig_set(&l.r, l.t, i, t[i]);
    for (int i = 7; i < 10; i++) rig_set(&l.r, l.z, i, NAN);
    memset(l.r.p->memory[MBA_GRAD], 0xff, l.r.p->layout.arena_bytes[MBA_GRAD]);
    rig_run(&l.r);
    assert_golden(&l.r, l.loss, (double[]){ 0.3248547683 });
    assert_golden(&l.r, rig_grad(&l.r, l.z),
                  (double[]){ -0.0362507686, 0.0381817177, 0.0383123501, -0.0334580698, 0.0056153318, 0.0019361745,
                              0.0053392577, 0, 0, 0 });
    assert_same_bits(&l.r);
    rig_destroy(&l.r);
}

static void bce_takes_large_logits_and_lets_nan_through(void **state)
{
    (void)state;
    loss_rig     l = make(MBA_TYPE(MBA_F32, 4), false);
    const double z[4] = { 1000, -1000, 1000, -1000 }, t[4] = { 1, 0, 0, 1 }, dz[4] = { 0, 0, 0.25, -0.25 };
    for (int i = 0; i < 4; i++) rig_set(&l.r, l.z, i, z[i]), rig_set(&l.r, l.t, i, t[i]);
    rig_run(&l.r);
    assert_near(rig_have(&l.r, l.loss, 0), 500, 0);
    for (int i = 0; i < 4; i++) assert_near(rig_have(&l.r, rig_grad(&l.r, l.z), i), dz[i], 0);
    rig_set(&l.r, l.z, 2, NAN);
    rig_run(&l.r);
    assert_true(isnan(rig_have(&l.r, l.loss, 0)));
    rig_destroy(&l.r);
}

static void bce_without_targets_is_zero(void **state)
{
    (void)state;
    loss_rig l = make(MBA_TYPE(MBA_F32, 2, 2), true);
    for (int i = 0; i < 4; i++) rig_set(&l.r, l.t, i, NAN);
    rig_run(&l.r);
    assert_near(rig_have(&l.r, l.loss, 0), 0, 0);
    for (int i = 0; i < 4; i++) assert_near(rig_have(&l.r, rig_grad(&l.r, l.z), i), 0, 0);
    rig_destroy(&l.r);
}

MBA_TEST_MAIN(cmocka_unit_test(bce_has_its_golden_values),
              cmocka_unit_test(bce_weighted_has_its_golden_values_in_a_ragged_batch),
              cmocka_unit_test(bce_takes_large_logits_and_lets_nan_through),
              cmocka_unit_test(bce_without_targets_is_zero))
