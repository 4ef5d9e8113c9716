// SPDX-License-Identifier: Apache-2.0
/* segment_pool_test.c -- values of PyTorch (tools/golden/graph_ops.py), counts, same bits. */
#include "tests/rig.h"

#include "ops/segment_pool/segment_pool.h"
#include "tests/machines.h"

/* Four graphs of 2, 0, 3 and 1 rows. */
static void check_golden(mba_pool kind, const double *y_want, const double *dx_want)
{
    static const int rows[5] = { 0, 2, 2, 5, 6 };
    mba_graph       *g = graph();
    mba_tensor      *x = mba_param(g, "x", MBA_TYPE(MBA_F32, 6, 3), MBA_INIT_CONST(0), MBA_DECAY);
    mba_tensor      *ptr = mba_index(g, "ptr", MBA_TYPE(MBA_I32, 5), 7), *y = mba_segment_pool(g, x, ptr, kind);
    mba_tensor      *dy = mba_input(g, "dy", y->type);
    rig              r = rig_create(g, 1, &y, &dy);
    rig_sines(&r, x, 1, 0.7, 0.1);
    rig_sines(&r, dy, 1, 0.3, 0.7);
    for (int i = 0; i < 5; i++) rig_set(&r, ptr, i, rows[i]);
    rig_run(&r);
    assert_golden(&r, y, y_want);
    assert_golden(&r, rig_grad(&r, x), dx_want);
    rig_destroy(&r);
}

static void segment_pool_has_its_golden_values(void **state)
{
    (void)state;
    check_golden(MBA_POOL_MEAN,
                 (double[]){ 0.4541649102, 0.4783027101, 0.2774872717, 0, 0, 0, -0.0003765398, -0.0023551068,
                             -0.0032260303, -0.9227754216, -0.9540192499, -0.5365729180 },
                 (double[]){ 0.3221088436, 0.4207354924, 0.4817790927, 0.3221088436, 0.4207354924, 0.4817790927,
                             0.1994907147, 0.1116627167, 0.0138602208, 0.1994907147, 0.1116627167, 0.0138602208,
                             0.1994907147, 0.1116627167, 0.0138602208, -0.2555411020, -0.5298361409, -0.7568024953 });
    check_golden(MBA_POOL_MAX,
                 (double[]){ 0.8084964038, 0.7173560909, 0.9974949866, 0, 0, 0, 0.7984871126, 0.7289690401,
                             0.9985433454, -0.9227754216, -0.9540192499, -0.5365729180 },
                 (double[]){ 0, 0.8414709848, 0.9635581854, 0.6442176872, 0, 0, 0, 0, 0, 0, 0.3349881502, 0.0415806624,
                             0.5984721441, 0, 0, -0.2555411020, -0.5298361409, -0.7568024953 });
}

/* Capacity for 12 graphs and 90 rows, of which 7 and 61 are valid; NaN and invalid indices beyond them. */
static void segment_pool_does_not_look_beyond_the_counts(void **state)
{
    (void)state;
    enum { R = 90, REAL = 61, G = 12, GREAL = 7, C = 21 };
    for (int kind = MBA_POOL_MEAN; kind <= MBA_POOL_MAX; kind++) {
        mba_graph *g = graph();
        mba_type   nodes = MBA_TYPE(MBA_F32, R, C);
        nodes.count = MBA_NODES;
        mba_tensor *x = mba_param(g, "x", nodes, MBA_INIT_NORMAL(1), MBA_DECAY);
        mba_tensor *ptr = mba_index(g, "ptr", MBA_TYPE(MBA_I32, G + 1), R + 1),
                   *y = mba_segment_pool(g, x, ptr, (mba_pool)kind);
        mba_tensor *dy = mba_input(g, "dy", y->type);
        assert_int_equal(y->type.count, MBA_GRAPHS);
        rig r = rig_create(g, 1, &y, &dy);
        r.step.count[MBA_NODES] = REAL;
        r.step.count[MBA_GRAPHS] = GREAL;
        rig_sines(&r, dy, 1, 0.7, 0.1);
        for (int s = 0; s <= G; s++) rig_set(&r, ptr, s, s <= GREAL ? s * s * REAL / (GREAL * GREAL) : 1000 + s);
        for (int i = REAL * C; i < R * C; i++) rig_set(&r, x, i, NAN);
        for (int i = GREAL * C; i < G * C; i++) rig_set(&r, dy, i, NAN);
        memset(r.p->memory[MBA_GRAD], 0xff, r.p->layout.arena_bytes[MBA_GRAD]);
        rig_run(&r);
        assert_close(&r);
        assert_same_bits(&r);
        for (int i = GREAL * C; i < G * C; i++) assert_near(rig_have(&r, y, i), 0, 0);
        for (int i = REAL * C; i < R * C; i++) assert_near(rig_have(&r, rig_grad(&r, x), i), 0, 0);
        rig_destroy(&r);
    }
}

/* Of equal maxima one row gets the gradient; numbers before or after a NaN do not hide it. */
static void segment_pool_max_takes_ties_and_nan(void **state)
{
    (void)state;
    mba_graph   *g = graph();
    mba_tensor  *x = mba_param(g, "x", MBA_TYPE(MBA_F32, 3, 3), MBA_INIT_CONST(0), MBA_DECAY);
    mba_tensor  *ptr = mba_index(g, "ptr", MBA_TYPE(MBA_I32, 2), 4), *y = mba_segment_pool(g, x, ptr, MBA_POOL_MAX);
    mba_tensor  *dy = mba_input(g, "dy", y->type);
    rig          r = rig_create(g, 1, &y, &dy);
    const double in[9] = { 1, NAN, 2, 1, 5, NAN, 0, 1, 4 };
    for (int i = 0; i < 9; i++) rig_set(&r, x, i, in[i]);
    for (int i = 0; i < 3; i++) rig_set(&r, dy, i, 1);
    rig_set(&r, ptr, 1, 3);
    rig_run(&r);
    assert_near(rig_have(&r, y, 0), 1, 0);
    assert_true(isnan(rig_have(&r, y, 1)) && isnan(rig_have(&r, y, 2)));
    for (int i = 0; i < 3; i++) assert_near(rig_have(&r, rig_grad(&r, x), 3 * i), i == 0, 0);
    rig_destroy(&r);
}

/* Four blocks per SM of any machine, the same number for every graph. */
static void segment_pool_bwd_fills_the_machine(void **state)
{
    enum { G = 16 };
    (void)state;
    mba_graph      *g = graph();
    mba_tensor     *x = mba_param(g, "x", MBA_TYPE(MBA_F32, 900, 64), MBA_INIT_NORMAL(1), MBA_DECAY);
    mba_tensor     *y = mba_segment_pool(g, x, mba_index(g, "ptr", MBA_TYPE(MBA_I32, G + 1), 901), MBA_POOL_MEAN);
    mba_tensor     *dy = mba_input(g, "dy", y->type);
    rig             r = rig_create(g, 1, &y, &dy);
    const mba_node *n = NULL;
    for (int32_t k = 0; k < g->nnodes; k++)
        if (g->nodes[k]->op == &mba_op_segment_pool_bwd) n = g->nodes[k];
    for (size_t m = 0; m < sizeof machines / sizeof *machines; m++) {
        mba_plan p = { .arena = g->arena };
        assert_ok(mba_op_segment_pool_bwd.cuda[0].plan(&p, n, &machines[m]));
        const int64_t blocks = p.launch[0].grid[0];
        assert_true(blocks % (G + 1) == 0 && blocks >= 4 * machines[m].sm && blocks < 4 * machines[m].sm + G + 1);
    }
    rig_destroy(&r);
}

MBA_TEST_MAIN(cmocka_unit_test(segment_pool_bwd_fills_the_machine),
              cmocka_unit_test(segment_pool_has_its_golden_values),
              cmocka_unit_test(segment_pool_does_not_look_beyond_the_counts),
              cmocka_unit_test(segment_pool_max_takes_ties_and_nan))
