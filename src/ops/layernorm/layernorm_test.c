// SPDX-License-Identifier: Apache-2.0
/* layernorm_test.c -- golden values, a large mean, many rows and threads; tests/operators_test.c checks the `cases`. */
#include "tests/rig.h"

#include "ops/layernorm/layernorm.h"

/* Values of PyTorch: tools/golden/norms.py. */
static void layernorm_of_golden_values(void **state)
{
    (void)state;
    mba_graph  *g = graph();
    mba_tensor *x = mba_param(g, "x", MBA_TYPE(MBA_F32, 3, 5), MBA_INIT_CONST(0), MBA_DECAY);
    mba_tensor *w = mba_param(g, "w", MBA_TYPE(MBA_F32, 5), MBA_INIT_CONST(0), MBA_NO_DECAY);
    mba_tensor *b = mba_param(g, "b", MBA_TYPE(MBA_F32, 5), MBA_INIT_CONST(0), MBA_NO_DECAY);
    mba_tensor *y = mba_layernorm(g, x, w, b, 1e-5f), *dy = mba_input(g, "dy", y->type);
    rig         r = rig_create(g, 1, &y, &dy);
    rig_sines(&r, x, 1, 0.7, 0.1);
    rig_sines(&r, w, 1, 0.9, 0.4);
    rig_sines(&r, b, 1, 1.1, 0.2);
    rig_sines(&r, dy, 1, 1.3, 0.5);
    rig_run(&r);
    assert_golden(&r, y,
                  (double[]){ -0.3363252531, 1.369297831, 1.674236801, -0.3222590343, -0.2606533127, 0.3065728186,
                              0.05777352236, -0.1733916655, -0.3508191447, -2.290649401, 0.399682159, 1.956246032,
                              1.199974823, -0.3694463457, 0.3279335748 });
    assert_golden(&r, rig_grad(&r, x),
                  (double[]){ -0.5503596318, 1.895984039, -0.6151250298, -0.9078957028, 0.1773963257, 0.05259461585,
                              1.545379087, -1.058183852, -0.7303021053, 0.1905122544, 0.1670958038, 0.9077334159,
                              -1.047388365, -0.3004403086, 0.2729994543 });
    assert_golden(&r, rig_grad(&r, w),
                  (double[]){ -0.06170212751, 0.3740754164, -0.01347328763, -0.2063894313, 0.1796843409 });
    assert_golden(&r, rig_grad(&r, b),
                  (double[]){ 1.940196564, 2.664271532, -0.514817536, -2.939697708, -1.057913851 });
    rig_destroy(&r);
}

/* Rows 1000 + (-1, 1): mean(x^2) - mean^2 in fp32 would lose all digits of the variance. */
static void layernorm_takes_a_large_mean(void **state)
{
    (void)state;
    mba_graph  *g = graph();
    mba_tensor *x = mba_param(g, "x", MBA_TYPE(MBA_F32, 1, 6), MBA_INIT_CONST(0), MBA_DECAY);
    mba_tensor *w = mba_param(g, "w", MBA_TYPE(MBA_F32, 6), MBA_INIT_CONST(1), MBA_NO_DECAY);
    mba_tensor *b = mba_param(g, "b", MBA_TYPE(MBA_F32, 6), MBA_INIT_CONST(0), MBA_NO_DECAY);
    mba_tensor *y = mba_layernorm(g, x, w, b, 0), *dy = mba_input(g, "dy", y->type);
    rig         r = rig_create(g, 1, &y, &dy);
    for (int i = 0; i < 6; i++) rig_set(&r, x, i, 1000 + (i % 2 ? 1 : -1));
    rig_run(&r);
    for (int i = 0; i < 6; i++) assert_near(rig_have(&r, y, i), i % 2 ? 1 : -1, 1e-6);
    rig_destroy(&r);
}

static void layernorm_takes_many_rows_at_any_thread_count(void **state)
{
    (void)state;
    mba_graph  *g = graph();
    mba_tensor *x = mba_param(g, "x", MBA_TYPE(MBA_F32, 210, 301), MBA_INIT_NORMAL(1), MBA_DECAY);
    mba_tensor *w = mba_param(g, "w", MBA_TYPE(MBA_F32, 301), MBA_INIT_NORMAL(1), MBA_NO_DECAY);
    mba_tensor *b = mba_param(g, "b", MBA_TYPE(MBA_F32, 301), MBA_INIT_NORMAL(1), MBA_NO_DECAY);
    assert_large_case(g, mba_layernorm(g, x, w, b, 1e-5f));
}

static void layernorm_refuses_what_does_not_fit(void **state)
{
    (void)state;
    mba_graph  *g = graph();
    mba_tensor *w = mba_input(g, "w", MBA_TYPE(MBA_F32, 6));
    mba_layernorm(g, mba_input(g, "x", MBA_TYPE(MBA_F32, 4, 5)), w, w, 0);
    assert_fails(mba_graph_status(g), MBA_E_SHAPE, "rows of 5");
    mba_graph_destroy(g);
}

MBA_TEST_MAIN(cmocka_unit_test(layernorm_of_golden_values), cmocka_unit_test(layernorm_takes_a_large_mean),
              cmocka_unit_test(layernorm_takes_many_rows_at_any_thread_count),
              cmocka_unit_test(layernorm_refuses_what_does_not_fit))
