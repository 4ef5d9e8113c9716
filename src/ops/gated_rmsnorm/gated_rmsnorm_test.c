// SPDX-License-Identifier: Apache-2.0
/* gated_rmsnorm_test.c -- golden values and thread counts; tests/operators_test.c checks the `cases`. */
#include "tests/rig.h"

#include "ops/gated_rmsnorm/gated_rmsnorm.h"

/* Two rows of six channels in two groups; the values are computed in double precision, independently of this code. */
static void gated_rmsnorm_has_its_golden_values(void **state)
{
    (void)state;
    mba_graph  *g = graph();
    mba_tensor *y = mba_param(g, "y", MBA_TYPE(MBA_F32, 2, 6), MBA_INIT_CONST(0), MBA_DECAY);
    mba_tensor *z = mba_param(g, "z", MBA_TYPE(MBA_F32, 2, 6), MBA_INIT_CONST(0), MBA_DECAY);
    mba_tensor *w = mba_param(g, "w", MBA_TYPE(MBA_F32, 6), MBA_INIT_CONST(0), MBA_NO_DECAY);
    mba_tensor *v = mba_gated_rmsnorm(g, y, z, w, 2, 1e-5f), *dv = mba_input(g, "dv", v->type);
    mba_tensor *rstd = v->producer_node->out[1];
    rig         r = rig_create(g, 1, &v, &dv);
    rig_sines(&r, y, 1, 0.7, 0.1);
    rig_sines(&r, z, 1.2, 0.9, 0.2);
    rig_sines(&r, dv, 1, 0.3, 0.7);
    for (int k = 0; k < 6; k++) rig_set(&r, w, k, 1 + 0.3 * sin(1.3 * k + 0.4));
    rig_run(&r);
    assert_golden(&r, v,
                  (double[]){ 0.0258766325, 1.2898406525, 1.4781864049, 0.8782015971, -0.4217020626, 1.3173892910,
                              0.8324120298, -0.6096963230, -1.5542083596, 0.4215906030, 0.5522631026, -1.7393241300 });
    const double k[4] = { 1.7404998694, 9.1327743688, 3.3646693708, 6.1683662041 };
    for (int i = 0; i < 4; i++) assert_near(rig_want(&r, rstd, i), k[i], 1e-9);
    assert_sums(&r, rig_grad(&r, y), -4.393855002978, -30.92885939607);
    assert_sums(&r, rig_grad(&r, z), -3.118091363654, -36.29376123818);
    assert_sums(&r, rig_grad(&r, w), 4.682557050909, 17.88991706122);
    rig_destroy(&r);
}

static void gated_rmsnorm_takes_many_rows_at_any_thread_count(void **state)
{
    (void)state;
    mba_graph     *g = graph();
    const mba_type t = MBA_TYPE(MBA_F32, 2, 100, 302);
    mba_tensor    *y = mba_param(g, "y", t, MBA_INIT_NORMAL(1), MBA_DECAY);
    mba_tensor    *z = mba_param(g, "z", t, MBA_INIT_NORMAL(2), MBA_DECAY);
    mba_tensor    *w = mba_param(g, "w", MBA_TYPE(MBA_F32, 302), MBA_INIT_NORMAL(1), MBA_NO_DECAY);
    assert_large_case(g, mba_gated_rmsnorm(g, y, z, w, 2, 1e-5f));
}

static void gated_rmsnorm_refuses_unequal_groups(void **state)
{
    (void)state;
    mba_graph  *g = graph();
    mba_tensor *y = mba_input(g, "y", MBA_TYPE(MBA_F32, 2, 6));
    mba_gated_rmsnorm(g, y, y, mba_input(g, "w", MBA_TYPE(MBA_F32, 6)), 4, 1e-5f);
    assert_fails(mba_graph_status(g), MBA_E_SHAPE, "6 channels in 4 groups");
    mba_graph_destroy(g);
}

MBA_TEST_MAIN(cmocka_unit_test(gated_rmsnorm_has_its_golden_values),
              cmocka_unit_test(gated_rmsnorm_takes_many_rows_at_any_thread_count),
              cmocka_unit_test(gated_rmsnorm_refuses_unequal_groups))
