// SPDX-License-Identifier: Apache-2.0
/* grad_norm_test.c -- compared with a plain sum in double, over both groups; extreme values; limits; same bits. */
#include "tests/threads.h"

#include "ops/grad_norm/grad_norm.h"
#include "ops/relu2/relu2.h"

typedef struct norm_graph {
    mba_graph   *g;
    mba_program *p;
    mba_tensor  *norm;
} norm_graph;

/* Two groups of odd sizes, one larger than a block. */
static norm_graph make(int64_t decay, int64_t no_decay)
{
    norm_graph  n;
    mba_tensor *y[2];
    int         outs = 0;
    assert_ok(mba_graph_create(&n.g));
    if (decay) y[outs++] = mba_relu2(n.g, mba_param(n.g, "a", MBA_TYPE(MBA_F32, decay), MBA_INIT_NORMAL(1), MBA_DECAY));
    if (no_decay)
        y[outs++] = mba_relu2(n.g, mba_param(n.g, "b", MBA_TYPE(MBA_F32, no_decay), MBA_INIT_NORMAL(1), MBA_NO_DECAY));
    assert_ok(mba_backward_from(n.g, outs, y, (mba_tensor *[2]){ NULL, NULL }));
    n.norm = mba_grad_norm(n.g);
    assert_ok(mba_graph_status(n.g));
    n.p = run_once(n.g, &(mba_step){ 0 }, 2);
    return n;
}

static float norm_of(const norm_graph *n)
{
    assert_ok(mba_program_run(n->p, MBA_UPDATE, &(mba_step){ 0 }, NULL));
    return *(const float *)mba_program_at(n->p, n->norm);
}

static void destroy(norm_graph n)
{
    mba_program_destroy(n.p);
    mba_graph_destroy(n.g);
}

static float *gradient(const norm_graph *n, mba_group k) { return mba_program_at(n->p, mba_flat_grads(n->g, k)); }

static void grad_norm_is_that_of_all_groups(void **state)
{
    (void)state;
    enum { A = 40007, B = 13 };
    norm_graph n = make(A, B);
    double     s = 0;
    for (int i = 0; i < A; i++) s += pow(gradient(&n, MBA_DECAY)[i], 2);
    for (int i = 0; i < B; i++) s += pow(gradient(&n, MBA_NO_DECAY)[i], 2);
    assert_true(s > 1000);
    assert_near(norm_of(&n), sqrt(s), 6e-8 * sqrt(s)); // correctly rounded except for the sum in double
    destroy(n);
    n = make(0, 3); // one group only: 3-4-12-13
    memcpy(gradient(&n, MBA_NO_DECAY), (float[]){ 3, 4, 12 }, 12);
    assert_near(norm_of(&n), 13, 0);
    destroy(n);
}

static void grad_norm_neither_overflows_nor_hides(void **state)
{
    (void)state;
    norm_graph n = make(20000, 0);
    float     *g = gradient(&n, MBA_DECAY);
    memset(g, 0, 20000 * sizeof *g);
    g[3] = 3e30f;
    g[19999] = 4e30f;
    assert_near(norm_of(&n), 5e30, 5e23);
    g[17000] = NAN;
    assert_true(isnan(norm_of(&n)));
    g[17000] = -INFINITY;
    assert_true(isinf(norm_of(&n)));
    destroy(n);
}

/* The second value is set by a norm or a loss above the limits of the step, or not finite. */
static void grad_norm_says_which_updates_to_leave_out(void **state)
{
    (void)state;
    static const struct {
        float loss, norm_max, loss_max;
        bool  skip;
    } cases[] = { { 2, 0, 0, false },   { 2, 5, 2, false },  { 2, 4.9f, 0, true },
                  { 2, 0, 1.9f, true }, { NAN, 0, 0, true }, { INFINITY, 0, 0, true } };
    mba_graph *g;
    assert_ok(mba_graph_create(&g));
    mba_tensor *y = mba_relu2(g, mba_param(g, "a", MBA_TYPE(MBA_F32, 1), MBA_INIT_NORMAL(1), MBA_DECAY));
    assert_ok(mba_backward(g, y));
    mba_tensor *norm = mba_grad_norm(g);
    assert_ok(mba_graph_status(g));
    mba_program *p = run_once(g, &(mba_step){ 0 }, 2);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        *(float *)mba_program_at(p, g->loss) = cases[i].loss;
        *(float *)mba_program_at(p, mba_flat_grads(g, MBA_DECAY)) = -5;
        assert_ok(mba_program_run(p, MBA_UPDATE,
                                  &(mba_step){ .norm_max = cases[i].norm_max, .loss_max = cases[i].loss_max }, NULL));
        assert_near(((const float *)mba_program_at(p, norm))[0], 5, 0);
        assert_near(((const float *)mba_program_at(p, norm))[1], cases[i].skip, 0);
    }
    mba_program_destroy(p);
    mba_graph_destroy(g);
}

static void grad_norm_gives_the_same_bits_at_any_thread_count(void **state)
{
    (void)state;
    norm_graph n = make(150001, 33333);
    assert_same_bits(n.g, &(mba_step){ 0 });
    destroy(n);
}

static void grad_norm_refuses_a_graph_without_gradients(void **state)
{
    (void)state;
    mba_graph *g;
    assert_ok(mba_graph_create(&g));
    mba_param(g, "a", MBA_TYPE(MBA_F32, 3), MBA_INIT_NORMAL(1), MBA_DECAY);
    mba_grad_norm(g);
    assert_fails(mba_graph_status(g), MBA_E_SHAPE, "no gradients");
    mba_graph_destroy(g);
}

MBA_TEST_MAIN(cmocka_unit_test(grad_norm_is_that_of_all_groups),
              cmocka_unit_test(grad_norm_neither_overflows_nor_hides),
              cmocka_unit_test(grad_norm_says_which_updates_to_leave_out),
              cmocka_unit_test(grad_norm_gives_the_same_bits_at_any_thread_count),
              cmocka_unit_test(grad_norm_refuses_a_graph_without_gradients))
