// SPDX-License-Identifier: Apache-2.0
/* soft_cross_entropy_test.c -- golden values of both losses, counts, ignored labels, same bits; tests/operators_test.c
 * checks the `cases`. */
#include "tests/rig.h"

#include "ops/cross_entropy/cross_entropy.h"
#include "ops/soft_cross_entropy/soft_cross_entropy.h"

typedef struct unit {
    rig         r;
    mba_tensor *z, *t, *loss;
} unit;

static unit make(int64_t R, int64_t V, bool hard, double smoothing)
{
    unit       u;
    mba_graph *g = graph();
    mba_type   type = MBA_TYPE(MBA_F32, R, V);
    type.count = MBA_GRAPHS;
    u.z = mba_param(g, "z", type, MBA_INIT_NORMAL(2), MBA_DECAY);
    u.t = hard ? mba_targets(g, "t", MBA_TYPE(MBA_I32, R), V) : mba_input(g, "t", MBA_TYPE(MBA_F32, R, V));
    u.loss = hard ? mba_label_cross_entropy(g, u.z, u.t, smoothing) : mba_soft_cross_entropy(g, u.z, u.t);
    u.r = rig_create(g, 1, &u.loss, (mba_tensor *[]){ NULL });
    return u;
}

/* Sets t to the softmax of sines, in three rows of four. */
static void set_soft(unit *u)
{
    for (int r = 0; r < 3; r++) {
        double e[4], s = 0;
        for (int v = 0; v < 4; v++) s += e[v] = exp(sin(1.3 * (4 * r + v) + 0.5));
        for (int v = 0; v < 4; v++) rig_set(&u->r, u->t, 4 * r + v, e[v] / s);
    }
}

/* Values of PyTorch: tools/golden/norms.py. The fourth row is beyond the count. */
static void soft_cross_entropy_of_golden_values(void **state)
{
    (void)state;
    unit u = make(4, 4, false, 0);
    u.r.step.count[MBA_GRAPHS] = 3;
    rig_sines(&u.r, u.z, 2, 0.7, 0.1);
    set_soft(&u);
    for (int v = 12; v < 16; v++) rig_set(&u.r, u.t, v, 7);
    rig_run(&u.r);
    assert_golden(&u.r, u.loss, (double[]){ 1.689149144 });
    assert_golden(&u.r, rig_grad(&u.r, u.z),
                  (double[]){ -0.07173550023, -0.07650193196, 0.07655722621, 0.07168020598, 0.1974482923,
                              -0.05170274069, -0.1185448024, -0.02720074923, -0.0140329509, -0.01060471126,
                              -0.02731854173, 0.05195620389, 0, 0, 0, 0 });
    rig_destroy(&u.r);
}

static void label_cross_entropy_of_golden_values(void **state)
{
    (void)state;
    unit u = make(4, 4, true, 0.1);
    u.r.step.count[MBA_GRAPHS] = 3;
    rig_sines(&u.r, u.z, 2, 0.7, 0.1);
    for (int r = 0; r < 4; r++) rig_set(&u.r, u.t, r, r == 0 ? 2 : r == 1 ? -100 : 0);
    rig_run(&u.r);
    assert_golden(&u.r, u.loss, (double[]){ 2.232182845 });
    assert_golden(&u.r, rig_grad(&u.r, u.z),
                  (double[]){ 0.02177938243, 0.1053708374, -0.2560894353, 0.1289392155, 0, 0, 0, 0, -0.4499650928,
                              0.03510733406, 0.1495372905, 0.2653204682, 0, 0, 0, 0 });
    rig_destroy(&u.r);
}

/* Without smoothing it equals the loss of language models, also with the scale of a global batch. */
static void label_cross_entropy_without_smoothing_is_cross_entropy(void **state)
{
    (void)state;
    enum { R = 9, V = 101 };
    mba_graph  *g = graph();
    mba_tensor *z = mba_param(g, "z", MBA_TYPE(MBA_F32, R, V), MBA_INIT_NORMAL(2), MBA_DECAY);
    mba_tensor *t = mba_targets(g, "t", MBA_TYPE(MBA_I32, R), V);
    mba_tensor *two[2] = { mba_label_cross_entropy(g, z, t, 0), mba_cross_entropy(g, z, t) };
    rig         r = rig_create(g, 2, two, (mba_tensor *[2]){ NULL, NULL });
    for (int i = 0; i < R; i++) rig_set(&r, t, i, i % 4 == 3 ? -1 : 11 * i);
    for (int k = 0; k < 2; k++) {
        r.step.loss_scale = k ? 0.01f : 0;
        rig_run(&r);
        assert_true(rig_have(&r, two[0], 0) > 0 && rig_have(&r, two[0], 0) == rig_have(&r, two[1], 0));
    }
    for (int i = 0; i < R; i++) rig_set(&r, t, i, -1);
    rig_run(&r);
    assert_near(rig_have(&r, two[0], 0), 0, 0);
    rig_destroy(&r);
}

static void soft_cross_entropy_takes_large_and_undefined_logits(void **state)
{
    (void)state;
    unit u = make(1, 5, false, 0);
    for (int v = 0; v < 5; v++) {
        rig_set(&u.r, u.z, v, v < 2 ? 1000 : -1000);
        rig_set(&u.r, u.t, v, v < 2 ? 0.5 : 0);
    }
    rig_run(&u.r);
    assert_near(rig_have(&u.r, u.loss, 0), log(2.0), 1e-4); // the rounding error of an lse of 1000 is 3e-5
    rig_set(&u.r, u.z, 3, NAN);
    assert_ok(mba_program_run(u.r.p, MBA_STEP, &u.r.step, NULL));
    assert_true(isnan(rig_have(&u.r, u.loss, 0)));
    rig_destroy(&u.r);
}

static void soft_cross_entropy_takes_many_rows_at_any_thread_count(void **state)
{
    (void)state;
    for (int hard = 0; hard < 2; hard++) {
        unit u = make(37, 1003, hard, 0.1);
        for (int i = 0; i < mba_elems(u.t); i++)
            rig_set(&u.r, u.t, i, hard ? 27 * i : (float)((i * 37 % 101) / 50000.0));
        rig_run(&u.r);
        assert_close(&u.r);
        assert_same_bits(&u.r);
        rig_destroy(&u.r);
    }
}

static void soft_cross_entropy_refuses_what_does_not_fit(void **state)
{
    (void)state;
    static const char *const words[] = { "targets of 3 x 9", "2 labels", "labels up to 10", "a smoothing of 1",
                                         "want a gradient" };
    for (int k = 0; k < 5; k++) {
        mba_graph  *g = graph();
        mba_tensor *z = mba_input(g, "z", MBA_TYPE(MBA_F32, 3, 10));
        if (k == 0) mba_soft_cross_entropy(g, z, mba_input(g, "t", MBA_TYPE(MBA_F32, 3, 9)));
        if (k == 4) mba_soft_cross_entropy(g, z, mba_param(g, "t", z->type, MBA_INIT_CONST(0), MBA_DECAY));
        if (k % 4)
            mba_label_cross_entropy(g, z, mba_targets(g, "t", MBA_TYPE(MBA_I32, k == 1 ? 2 : 3), k == 2 ? 11 : 10),
                                    k == 3 ? 1 : 0);
        assert_fails(mba_graph_status(g), MBA_E_SHAPE, words[k]);
        mba_graph_destroy(g);
    }
}

MBA_TEST_MAIN(cmocka_unit_test(soft_cross_entropy_of_golden_values),
              cmocka_unit_test(label_cross_entropy_of_golden_values),
              cmocka_unit_test(label_cross_entropy_without_smoothing_is_cross_entropy),
              cmocka_unit_test(soft_cross_entropy_takes_large_and_undefined_logits),
              cmocka_unit_test(soft_cross_entropy_takes_many_rows_at_any_thread_count),
              cmocka_unit_test(soft_cross_entropy_refuses_what_does_not_fit))
