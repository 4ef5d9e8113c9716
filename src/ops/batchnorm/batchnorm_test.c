// SPDX-License-Identifier: Apache-2.0
/* batchnorm_test.c -- golden values with a count below the capacity, running statistics, a large mean, recomputation,
 * same bits; tests/operators_test.c checks the `cases`. */
#include "tests/rig.h"

#include "ops/batchnorm/batchnorm.h"
#include "ops/batchnorm/batchnorm_slots.h"
#include "ops/gelu/gelu.h"

typedef struct unit {
    rig         r;
    mba_tensor *x, *w, *b, *y, *dy, *mean, *var;
} unit;

static unit make(mba_type type, double eps, bool train, bool relu)
{
    unit           u;
    mba_graph     *g = graph();
    const mba_type row = MBA_TYPE(MBA_F32, type.dim[type.rank - 1]);
    u.x = mba_param(g, "x", type, MBA_INIT_NORMAL(1), MBA_DECAY);
    u.w = mba_param(g, "w", row, MBA_INIT_CONST(1), MBA_NO_DECAY);
    u.b = mba_param(g, "b", row, MBA_INIT_CONST(0), MBA_NO_DECAY);
    u.y = mba_batchnorm(g, .x = u.x, .w = u.w, .b = u.b, .name = "bn", .eps = eps, .momentum = 0.1, .train = train,
                        .relu = relu);
    u.dy = mba_input(g, "dy", u.y->type);
    u.r = rig_create(g, 1, &u.y, &u.dy);
    u.mean = mba_graph_find(g, "bn.running_mean");
    u.var = mba_graph_find(g, "bn.running_var");
    assert_non_null(u.mean);
    assert_non_null(u.var);
    return u;
}

typedef struct golden {
    bool   train, relu;
    double y[15], dx[18], dw[3], db[3], mean[3], var[3];
} golden;

/* Values of PyTorch for five of six rows: tools/golden/norms.py. */
static const golden want[4] = {
    { .train = true,
      .relu = false,
      .y = { 0.1482920089, 1.789697431, 1.663770174, 0.5857631586, 1.040841229, 0.06187897786, -0.4789037291,
             -0.8358520267, -0.05844523304, 0.1586109831, 1.807886735, 1.664936381, 0.5795842326, 1.015217559,
             0.04517560272 },
      .dx = { 0.1438593264, 0.5159214, -0.223920304, -0.09571758126, -0.4628632996, 0.457064645, -0.01543722865,
              0.3710631359, -0.4365828083, -0.1099231631, 0.3775109666, 0.1911364319, 0.07721864655, -0.8016322029,
              0.01230203544, 0, 0, 0 },
      .dw = { -2.914565889, 1.767447452, 1.536683933 },
      .db = { -0.3103054009, 0.05996035314, 0.3423840494 },
      .mean = { 0.586288008, -0.08701839601, 1.021811858 },
      .var = { 1.998955611, 0.6392126262, 1.614103342 } },
    { .train = false,
      .relu = false,
      .y = { 0.391325019, 4.621588087, 1.992381091, 0.7815906396, 3.318708142, 0.09123658757, -0.1681928695,
             0.05358728428, -0.05156569062, 0.4005305194, 4.653234322, 1.993765161, 0.7760784535, 3.2741274,
             0.07141281307 },
      .dx = { 0.1320114841, 1.326907137, 0.02744791694, -0.2620269301, -0.7503315234, 0.4336850964, 0.2484161421,
              -0.2375273531, -0.6570999596, -0.09863967478, 1.095189081, 0.5203350791, -0.1052046893, -1.352538913,
              -0.09835612629, 0, 0, 0 },
      .dw = { -2.789395891, 3.213241379, 1.884729904 },
      .db = { -0.3103054009, 0.05996035314, 0.3423840494 },
      .mean = { 0.5, -0.25, 1 },
      .var = { 2, 0.5, 1.5 } },
    { .train = true,
      .relu = true,
      .y = { 0.1482920089, 1.789697431, 1.663770174, 0.5857631586, 1.040841229, 0.06187897786, 0, 0, 0, 0.1586109831,
             1.807886735, 1.664936381, 0.5795842326, 1.015217559, 0.04517560272 },
      .dx = { 0.2120880631, 0.5323351792, -0.2117807632, -0.1363496822, -0.4860782708, 0.2700460656, -0.06960028566,
              0.3850589393, -0.08489304381, -0.04426221215, 0.3948873063, 0.2034209636, 0.03812411688, -0.826203154,
              -0.1767932223, 0, 0, 0 },
      .dw = { -1.344821315, 1.441898466, 0.6330818417 },
      .db = { -1.212477235, 0.2342871344, 1.337820303 },
      .mean = { 0.586288008, -0.08701839601, 1.021811858 },
      .var = { 1.998955611, 0.6392126262, 1.614103342 } },
    { .train = false,
      .relu = true,
      .y = { 0.391325019, 4.621588087, 1.992381091, 0.7815906396, 3.318708142, 0.09123658757, 0, 0.05358728428, 0,
             0.4005305194, 4.653234322, 1.993765161, 0.7760784535, 3.2741274, 0.07141281307 },
      .dx = { 0.1320114841, 1.326907137, 0.02744791694, -0.2620269301, -0.7503315234, 0.4336850964, 0, -0.2375273531, 0,
              -0.09863967478, 1.095189081, 0.5203350791, -0.1052046893, -1.352538913, -0.09835612629, 0, 0, 0 },
      .dw = { -1.93948024, 3.213241379, 0.9895980373 },
      .db = { -1.212477235, 0.05996035314, 1.337820303 },
      .mean = { 0.5, -0.25, 1 },
      .var = { 2, 0.5, 1.5 } },
};

static void batchnorm_of_golden_values_below_its_capacity(void **state)
{
    (void)state;
    for (int k = 0; k < 4; k++) {
        mba_type type = MBA_TYPE(MBA_F32, 6, 3);
        type.count = MBA_NODES;
        unit u = make(type, 1e-4, want[k].train, want[k].relu);
        u.r.step.count[MBA_NODES] = 5;
        for (int i = 0; i < 18; i++) rig_set(&u.r, u.x, i, 2 * sin(0.7 * i + 0.1) + 1); // also beyond the count
        rig_sines(&u.r, u.w, 1, 0.9, 0.4);
        rig_sines(&u.r, u.b, 1, 1.1, 0.2);
        rig_sines(&u.r, u.dy, 1, 1.3, 0.5);
        for (int i = 0; i < 3; i++) {
            rig_set(&u.r, u.mean, i, (double[]){ 0.5, -0.25, 1 }[i]);
            rig_set(&u.r, u.var, i, (double[]){ 2, 0.5, 1.5 }[i]);
        }
        rig_run(&u.r);
        double y[18] = { 0 };
        memcpy(y, want[k].y, sizeof want[k].y);
        assert_golden(&u.r, u.y, y);
        assert_golden(&u.r, rig_grad(&u.r, u.x), want[k].dx);
        assert_golden(&u.r, rig_grad(&u.r, u.w), want[k].dw);
        assert_golden(&u.r, rig_grad(&u.r, u.b), want[k].db);
        assert_golden(&u.r, u.mean, want[k].mean);
        assert_golden(&u.r, u.var, want[k].var);
        for (int i = 15; i < 18; i++)
            assert_true(rig_have(&u.r, u.y, i) == 0 && rig_have(&u.r, rig_grad(&u.r, u.x), i) == 0);
        rig_destroy(&u.r);
    }
}

/* A batch of graphs without edges: the edge norm has no rows, which differs from having no count. */
static void batchnorm_of_no_rows_leaves_no_trace(void **state)
{
    (void)state;
    mba_type type = MBA_TYPE(MBA_F32, 6, 3);
    type.count = MBA_EDGES;
    unit u = make(type, 1e-4, true, false);
    for (int i = 0; i < 18; i++) rig_set(&u.r, u.x, i, 1 + i);
    rig_sines(&u.r, u.w, 1, 0.9, 0.4);
    rig_sines(&u.r, u.dy, 1, 1.3, 0.5);
    u.r.step.count[MBA_NODES] = 4;
    rig_run(&u.r);
    for (int i = 0; i < 18; i++) {
        assert_near(rig_have(&u.r, u.y, i), 0, 0);
        assert_near(rig_want(&u.r, u.y, i), 0, 0);
        assert_near(rig_have(&u.r, rig_grad(&u.r, u.x), i), 0, 0);
    }
    for (int i = 0; i < 3; i++) {
        assert_true(rig_have(&u.r, u.mean, i) == 0 && rig_have(&u.r, u.var, i) == 1);
        assert_true(rig_want(&u.r, u.mean, i) == 0 && rig_want(&u.r, u.var, i) == 1);
        assert_near(rig_have(&u.r, rig_grad(&u.r, u.w), i), 0, 0);
        assert_near(rig_have(&u.r, rig_grad(&u.r, u.b), i), 0, 0);
    }
    u.r.step.count[MBA_NODES] = 0; // no count: the batch is full
    rig_run(&u.r);
    for (int i = 0; i < 3; i++) assert_near(rig_have(&u.r, u.mean, i), 0.1 * (8.5 + i), 1e-6);
    rig_destroy(&u.r);
}

/* A step that is skipped because of a non-finite number must not change the running statistics. */
static void batchnorm_of_what_is_not_finite_moves_nothing(void **state)
{
    (void)state;
    unit u = make(MBA_TYPE(MBA_F32, 4, 3), 1e-5, true, false);
    for (int i = 0; i < 12; i++) rig_set(&u.r, u.x, i, i == 4 ? (double)NAN : i == 8 ? (double)INFINITY : 2);
    rig_run(&u.r);
    for (int i = 0; i < 3; i++) {
        assert_near(rig_have(&u.r, u.mean, i), i ? 0 : 0.2, 1e-6);
        assert_near(rig_have(&u.r, u.var, i), i ? 1 : 0.9, 1e-6);
        assert_near(rig_want(&u.r, u.mean, i), i ? 0 : 0.2, 1e-6);
        assert_near(rig_want(&u.r, u.var, i), i ? 1 : 0.9, 1e-6);
    }
    assert_true(isnan(rig_have(&u.r, u.y, 1))
                && isfinite(rig_have(&u.r, u.y, 0))); // the NaN stays visible to the watchdog
    rig_destroy(&u.r);
}

/* Running statistics start at 0 and 1; those of a channel that is always 3 converge to 3 and 0. */
static void batchnorm_statistics_run(void **state)
{
    (void)state;
    unit u = make(MBA_TYPE(MBA_F32, 4, 2, 2), 1e-5, true, false);
    for (int i = 0; i < 2; i++) assert_true(rig_have(&u.r, u.mean, i) == 0 && rig_have(&u.r, u.var, i) == 1);
    for (int i = 0; i < 16; i++) rig_set(&u.r, u.x, i, i % 2 ? 3 : i / 2);
    for (int s = 1; s <= 3; s++) {
        rig_run(&u.r);
        assert_near(rig_have(&u.r, u.mean, 0), 3.5 * (1 - pow(0.9, s)), 1e-6);
        assert_near(rig_have(&u.r, u.var, 0), 6 + (1 - 6) * pow(0.9, s), 1e-6); // of 0 .. 7: 42/7
        assert_near(rig_have(&u.r, u.mean, 1), 3 * (1 - pow(0.9, s)), 1e-6);
        assert_near(rig_have(&u.r, u.var, 1), pow(0.9, s), 1e-6);
    }
    rig_destroy(&u.r);
}

static void batchnorm_takes_a_large_mean_and_one_row(void **state)
{
    (void)state;
    unit u = make(MBA_TYPE(MBA_F32, 200, 1), 1e-12, true, false);
    for (int i = 0; i < 200; i++) rig_set(&u.r, u.x, i, 10000 + (i % 2 ? 1 : -1));
    rig_run(&u.r);
    for (int i = 0; i < 200; i++) assert_near(rig_have(&u.r, u.y, i), i % 2 ? 1 : -1, 1e-6);
    rig_destroy(&u.r);
    u = make(MBA_TYPE(MBA_F32, 1, 3), 1e-5, true, false);
    rig_run(&u.r);
    for (int i = 0; i < 3; i++) {
        assert_near(rig_have(&u.r, u.y, i), 0, 0);
        assert_near(rig_have(&u.r, u.var, i), 0.9, 1e-7);
    }
    rig_destroy(&u.r);
}

/* The sum of dx is zero for each channel: a bias before the norm has no gradient except rounding. */
static void batchnorm_takes_many_rows_at_any_thread_count(void **state)
{
    (void)state;
    for (int k = 0; k < 4; k++) {
        mba_graph  *g = graph();
        mba_tensor *x = mba_param(g, "x", MBA_TYPE(MBA_F32, 3, 11, 13, 70), MBA_INIT_NORMAL(1), MBA_DECAY);
        mba_tensor *w = mba_param(g, "w", MBA_TYPE(MBA_F32, 70), MBA_INIT_NORMAL(1), MBA_NO_DECAY);
        mba_tensor *b = mba_param(g, "b", MBA_TYPE(MBA_F32, 70), MBA_INIT_NORMAL(1), MBA_NO_DECAY);
        assert_large_case(g, mba_batchnorm(g, .x = x, .w = w, .b = b, .name = "bn", .eps = 1e-5, .momentum = 0.1,
                                           .train = k % 2, .relu = k / 2));
    }
    unit u = make(MBA_TYPE(MBA_F32, 3000, 3), 1e-5, true, false);
    rig_sines(&u.r, u.dy, 1, 1.3, 0.5);
    rig_run(&u.r);
    for (int i = 0; i < 3; i++) {
        double sum = 0;
        for (int r = 0; r < 3000; r++) sum += rig_have(&u.r, rig_grad(&u.r, u.x), r * 3 + i);
        assert_near(sum, 0, 1e-5);
    }
    rig_destroy(&u.r);
}

/* y is recomputed in the backward pass; the running statistics change once. */
static void batchnorm_recomputes_without_moving_twice(void **state)
{
    (void)state;
    mba_graph *g = graph();
    g->recompute = true;
    mba_tensor *x = mba_param(g, "x", MBA_TYPE(MBA_F32, 8, 2), MBA_INIT_NORMAL(1), MBA_DECAY);
    mba_tensor *w = mba_param(g, "w", MBA_TYPE(MBA_F32, 2), MBA_INIT_CONST(1), MBA_NO_DECAY);
    mba_tensor *n = mba_batchnorm(g, .x = x, .w = w, .b = w, .name = "bn", .eps = 1e-5, .momentum = 0.5, .train = true);
    mba_tensor *y = mba_gelu(g, n, true), *dy = mba_input(g, "dy", y->type);
    rig         r = rig_create(g, 1, &y, &dy);
    double      mean = 0;
    int         norms = 0, stats = 0;
    for (int32_t i = 0; i < g->nnodes; i++) {
        norms += g->nodes[i]->op == &mba_op_batchnorm;
        stats += g->nodes[i]->op == &mba_op_batchnorm_stats;
    }
    assert_int_equal(norms, 2);
    assert_int_equal(stats, 1);
    rig_run(&r);
    assert_close(&r);
    for (int i = 0; i < 8; i++) mean += rig_have(&r, x, 2 * i) / 8.0;
    assert_near(rig_have(&r, mba_graph_find(g, "bn.running_mean"), 0), 0.5 * mean, 1e-7);
    rig_destroy(&r);
}

static void batchnorm_refuses_what_does_not_fit(void **state)
{
    (void)state;
    static const char *const words[] = { "rows of 5, weight of 6", "an eps of 0", "a momentum of 2" };
    for (int k = 0; k < 3; k++) {
        mba_graph  *g = graph();
        mba_tensor *x = mba_input(g, "x", MBA_TYPE(MBA_F32, 4, 5));
        mba_tensor *w = mba_input(g, "w", MBA_TYPE(MBA_F32, k == 0 ? 6 : 5));
        mba_batchnorm(g, .x = x, .w = w, .b = w, .name = "bn", .eps = k == 1 ? 0 : 1e-5, .momentum = k == 2 ? 2 : 0.1,
                      .train = true);
        assert_fails(mba_graph_status(g), MBA_E_SHAPE, words[k]);
        mba_graph_destroy(g);
    }
}

MBA_TEST_MAIN(cmocka_unit_test(batchnorm_of_golden_values_below_its_capacity),
              cmocka_unit_test(batchnorm_of_no_rows_leaves_no_trace),
              cmocka_unit_test(batchnorm_of_what_is_not_finite_moves_nothing),
              cmocka_unit_test(batchnorm_statistics_run), cmocka_unit_test(batchnorm_takes_a_large_mean_and_one_row),
              cmocka_unit_test(batchnorm_takes_many_rows_at_any_thread_count),
              cmocka_unit_test(batchnorm_recomputes_without_moving_twice),
              cmocka_unit_test(batchnorm_refuses_what_does_not_fit))
