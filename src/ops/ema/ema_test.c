// SPDX-License-Identifier: Apache-2.0
/* ema_test.c -- hand-worked values, names and places of the averages, same bits. */
#include "tests/threads.h"

#include "ops/batchnorm/batchnorm.h"
#include "ops/ema/ema.h"

typedef struct model {
    mba_graph   *g;
    mba_program *p;
    mba_tensor  *x, *w;
} model;

static model make(int64_t R, double decay)
{
    model       m;
    mba_tensor *y;
    assert_ok(mba_graph_create(&m.g));
    m.x = mba_param(m.g, "x", MBA_TYPE(MBA_F32, R, 2), MBA_INIT_NORMAL(1), MBA_DECAY);
    m.w = mba_param(m.g, "w", MBA_TYPE(MBA_F32, 2), MBA_INIT_CONST(1), MBA_NO_DECAY);
    mba_enter(m.g, "layers.%d", 3);
    y = mba_batchnorm(m.g, .x = m.x, .w = m.w, .b = m.w, .name = "bn", .eps = 1e-5, .momentum = 0.5, .train = true);
    mba_leave(m.g);
    assert_ok(mba_backward_from(m.g, 1, &y, (mba_tensor *[]){ NULL }));
    mba_ema_all(m.g, decay);
    assert_ok(mba_graph_status(m.g));
    m.p = run_once(m.g, &(mba_step){ 0 }, 2);
    return m;
}

static float *at(const model *m, const char *name)
{
    const mba_tensor *t = mba_graph_find(m->g, name);
    assert_non_null(t);
    return mba_program_at(m->p, t);
}

static void step(const model *m) { assert_ok(mba_program_run(m->p, MBA_UPDATE, &(mba_step){ 0 }, NULL)); }

static void destroy(model m)
{
    mba_program_destroy(m.p);
    mba_graph_destroy(m.g);
}

/* p drops from 8 to 0 and stays: the averages are 8, 6, 4.5, 3.375 with a decay of 3/4. */
static void ema_of_hand_worked_values(void **state)
{
    (void)state;
    model             m = make(70, 0.75);
    const mba_tensor *e = mba_graph_find(m.g, "ema.decay");
    float            *x = mba_program_at(m.p, m.x), *mine = mba_program_counterpart(m.p, e->st, m.x);
    float            *var = at(&m, "layers.3.bn.running_var"), *its = at(&m, "ema.layers.3.bn.running_var");
    for (int i = 0; i < 140; i++) x[i] = 8;
    var[0] = var[1] = 2;
    assert_ok(mba_ema_start(m.p));
    assert_true(mine[0] == 8 && mine[139] == 8 && its[1] == 2 && at(&m, "ema.no_decay")[1] == 1);
    for (int i = 0; i < 140; i++) x[i] = 0;
    var[1] = 6;
    for (int k = 1; k <= 3; k++) {
        step(&m);
        assert_near(mine[139], 8 * pow(0.75, k), 0);
        assert_near(its[1], 6 - 4 * pow(0.75, k), 0);
        assert_true(its[0] == 2 && at(&m, "ema.no_decay")[1] == 1);
    }
    destroy(m);
}

/* An average that equals p does not change, at any decay. */
static void ema_of_the_same_stays(void **state)
{
    (void)state;
    model  m = make(70, 0.9998);
    float *x = mba_program_at(m.p, m.x);
    assert_ok(mba_ema_start(m.p));
    for (int k = 0; k < 50; k++) step(&m);
    assert_memory_equal(mba_program_counterpart(m.p, mba_graph_find(m.g, "ema.decay")->st, m.x), x, 140 * sizeof *x);
    destroy(m);
}

static void ema_reference_agrees_with_the_program(void **state)
{
    (void)state;
    model          m = make(40, 0.9);
    mba_reference *r;
    assert_ok(mba_reference_create(&r, m.g));
    const mba_tensor *e = mba_graph_find(m.g, "ema.decay");
    assert_ok(mba_ema_start(m.p));
    for (int i = 0; i < 80; i++) mba_reference_at(r, e)[i] = ((float *)mba_program_at(m.p, e))[i];
    for (int i = 0; i < 80; i++) mba_reference_at(r, m.x)[i] = ((float *)mba_program_at(m.p, m.x))[i] = (float)sin(i);
    for (int k = 0; k < 3; k++) {
        step(&m);
        assert_ok(mba_reference_run(r, MBA_UPDATE, &(mba_step){ 0 }));
    }
    for (int i = 0; i < 80; i++) assert_near(((float *)mba_program_at(m.p, e))[i], mba_reference_at(r, e)[i], 1e-6);
    mba_reference_destroy(r);
    destroy(m);
}

static void ema_gives_the_same_bits_at_any_thread_count(void **state)
{
    (void)state;
    model m = make(30011, 0.99);
    assert_same_bits(m.g, &(mba_step){ 0 });
    destroy(m);
}

static void ema_refuses_a_decay_of_one(void **state)
{
    (void)state;
    mba_graph *g;
    assert_ok(mba_graph_create(&g));
    mba_param(g, "x", MBA_TYPE(MBA_F32, 3), MBA_INIT_CONST(0), MBA_DECAY);
    mba_ema_all(g, 1);
    assert_fails(mba_graph_status(g), MBA_E_SHAPE, "a decay of 1");
    mba_graph_destroy(g);
}

MBA_TEST_MAIN(cmocka_unit_test(ema_of_hand_worked_values), cmocka_unit_test(ema_of_the_same_stays),
              cmocka_unit_test(ema_reference_agrees_with_the_program),
              cmocka_unit_test(ema_gives_the_same_bits_at_any_thread_count),
              cmocka_unit_test(ema_refuses_a_decay_of_one))
