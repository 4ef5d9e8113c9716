// SPDX-License-Identifier: Apache-2.0
/* weighted_cross_entropy_test.c -- values of PyTorch (tools/golden/graph_ops.py), counts, one class only, same bits. */
#include "tests/rig.h"

#include "ops/weighted_cross_entropy/weighted_cross_entropy.h"

typedef struct wce {
    rig         r;
    mba_tensor *z, *t, *loss, *seed;
} wce;

static wce make(int64_t R, int64_t V)
{
    wce        w;
    mba_graph *g = graph();
    mba_type   nodes = MBA_TYPE(MBA_F32, R, V);
    nodes.count = MBA_NODES;
    w.z = mba_param(g, "z", nodes, MBA_INIT_NORMAL(2), MBA_DECAY);
    w.t = mba_targets(g, "t", MBA_TYPE(MBA_I32, R), V);
    w.loss = mba_weighted_cross_entropy(g, w.z, w.t);
    w.seed = mba_input(g, "seed", w.loss->type);
    w.r = rig_create(g, 1, &w.loss, &w.seed);
    rig_set(&w.r, w.seed, 0, 1);
    return w;
}

static void weighted_cross_entropy_has_its_golden_values(void **state)
{
    (void)state;
    wce              w = make(7, 4);
    static const int target[7] = { 0, 2, 2, 1, 2, 0, 2 };
    rig_sines(&w.r, w.z, 2, 0.7, 0.1);
    for (int i = 0; i < 7; i++) rig_set(&w.r, w.t, i, target[i]);
    rig_run(&w.r);
    assert_golden(&w.r, w.loss, (double[]){ 1.6788630812 });
    assert_golden(&w.r, rig_grad(&w.r, w.z),
                  (double[]){ -0.1663287920, 0.0420967276,  0.0737180588,  0.0505140055, 0.0740969150,  0.0189505765,
                              -0.0997940106, 0.0067465191,  0.0026860516,  0.0102015716, -0.0724205806, 0.0595329575,
                              0.1499188441,  -0.1668725598, 0.0121587381,  0.0047949776, 0.0025673745,  0.0059166858,
                              -0.0845555894, 0.0760715291,  -0.0852324480, 0.0611985304, 0.0191165415,  0.0049173761,
                              0.0083242029,  0.0080022785,  -0.0883627508, 0.0720362694 });
    rig_destroy(&w.r);
}

/* A batch of seven rows in a capacity of twenty, with invalid values beyond it, gives the same loss; so do ignored
 * rows. */
static void weighted_cross_entropy_does_not_look_beyond_the_count(void **state)
{
    (void)state;
    wce              w = make(20, 4);
    static const int target[8] = { 0, 2, 2, 1, -1, 2, 0, 2 };
    w.r.step.count[MBA_NODES] = 8;
    for (int i = 0; i < 20 * 4; i++) rig_set(&w.r, w.z, i, i < 32 ? 2 * sin(0.7 * (i < 16 ? i : i - 4) + 0.1) : NAN);
    for (int i = 0; i < 20; i++) rig_set(&w.r, w.t, i, i < 8 ? target[i] : 3);
    memset(w.r.p->memory[MBA_GRAD], 0xff, w.r.p->layout.arena_bytes[MBA_GRAD]);
    rig_run(&w.r);
    assert_golden(&w.r, w.loss, (double[]){ 1.6788630812 });
    for (int i = 0; i < 20 * 4; i++)
        if (i >= 32 || i / 4 == 4) assert_near(rig_have(&w.r, rig_grad(&w.r, w.z), i), 0, 0);
    assert_close(&w.r);
    rig_destroy(&w.r);
}

static void weighted_cross_entropy_of_one_class_is_zero(void **state)
{
    (void)state;
    wce w = make(5, 3);
    for (int i = 0; i < 5; i++) rig_set(&w.r, w.t, i, i == 2 ? -1 : 1);
    rig_run(&w.r);
    assert_near(rig_have(&w.r, w.loss, 0), 0, 0);
    for (int i = 0; i < 15; i++) assert_near(rig_have(&w.r, rig_grad(&w.r, w.z), i), 0, 0);
    rig_destroy(&w.r);
}

static void weighted_cross_entropy_takes_many_rows_at_any_thread_count(void **state)
{
    (void)state;
    wce w = make(3000, 81);
    for (int i = 0; i < 3000; i++) rig_set(&w.r, w.t, i, i % 11 ? i * i % 81 : -1);
    rig_run(&w.r);
    assert_close(&w.r);
    assert_same_bits(&w.r);
    rig_destroy(&w.r);
}

MBA_TEST_MAIN(cmocka_unit_test(weighted_cross_entropy_has_its_golden_values),
              cmocka_unit_test(weighted_cross_entropy_does_not_look_beyond_the_count),
              cmocka_unit_test(weighted_cross_entropy_of_one_class_is_zero),
              cmocka_unit_test(weighted_cross_entropy_takes_many_rows_at_any_thread_count))
