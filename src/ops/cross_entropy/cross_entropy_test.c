// SPDX-License-Identifier: Apache-2.0
/* cross_entropy_test.c -- hand-worked values, ignored targets, scales, large and masked logits, memory, same bits. */
#include "tests/threads.h"

#include "ops/cross_entropy/cross_entropy.h"
#include "ops/cross_entropy/cross_entropy_slots.h"
#include "ops/matmul/matmul.h"

typedef struct loss_graph {
    mba_graph   *g;
    mba_program *p;
    mba_tensor  *z, *t, *loss;
} loss_graph;

/* Logits as a parameter, so that their gradient can be read after the step. */
static loss_graph make(int64_t R, int64_t V)
{
    loss_graph l;
    assert_ok(mba_graph_create(&l.g));
    l.z = mba_param(l.g, "z", MBA_TYPE(MBA_F32, R, V), MBA_INIT_NORMAL(2), MBA_DECAY);
    l.t = mba_targets(l.g, "t", MBA_TYPE(MBA_I32, R), V);
    l.loss = mba_result(l.g, "loss", mba_cross_entropy(l.g, l.z, l.t));
    assert_ok(mba_backward(l.g, l.loss));
    l.p = run_once(l.g, &(mba_step){ 0 }, 2);
    return l;
}

static double run(const loss_graph *l, const float *z, const int32_t *t, float scale)
{
    memcpy(mba_program_at(l->p, l->z), z, sizeof(float) * (size_t)mba_elems(l->z));
    memcpy(mba_program_at(l->p, l->t), t, sizeof(int32_t) * (size_t)mba_elems(l->t));
    assert_ok(mba_program_run(l->p, MBA_STEP, &(mba_step){ .loss_scale = scale }, NULL));
    return *(const float *)mba_program_at(l->p, l->loss);
}

static const float *gradient(const loss_graph *l) { return l->p->memory[MBA_GRAD]; }

static void destroy(loss_graph l)
{
    mba_program_destroy(l.p);
    mba_graph_destroy(l.g);
}

/* softmax(0, ln 3) = (1/4, 3/4). Row 1 is ignored, so the mean is over rows 0 and 2. */
static void cross_entropy_of_hand_worked_values(void **state)
{
    (void)state;
    const float   ln3 = 1.0986123f, z[6] = { 0, ln3, 5, -5, 0, ln3 };
    const int32_t t[3] = { 1, -1, 0 };
    const double  mean[6] = { 0.125, -0.125, 0, 0, -0.375, 0.375 };
    loss_graph    l = make(3, 2);
    assert_near(run(&l, z, t, 0), (log(4.0 / 3) + log(4.0)) / 2, 1e-7);
    for (int i = 0; i < 6; i++) assert_near(gradient(&l)[i], mean[i], 1e-7);
    assert_near(run(&l, z, t, 0.01f), (log(4.0 / 3) + log(4.0)) * 0.01, 1e-8); // a scale given by the step
    for (int i = 0; i < 6; i++) assert_near(gradient(&l)[i], mean[i] * 0.02, 1e-9);
    destroy(l);
}

static void cross_entropy_without_valid_targets_is_zero(void **state)
{
    (void)state;
    const float   z[4] = { 3, 1, -2, 8 };
    const int32_t t[2] = { -1, -100 };
    loss_graph    l = make(2, 2);
    for (int k = 0; k < 2; k++) {
        assert_near(run(&l, z, t, k ? 0.5f : 0), 0, 0);
        for (int i = 0; i < 4; i++) assert_near(gradient(&l)[i], 0, 0);
    }
    destroy(l);
}

/* exp(1000) overflows, so the largest logit must be subtracted first. Masked logits contribute nothing. */
static void cross_entropy_takes_large_and_masked_logits(void **state)
{
    (void)state;
    const float   z[8] = { 1000, 1001, -INFINITY, -INFINITY, -2000, -2000, -2001, -INFINITY };
    const int32_t t[2] = { 0, 2 };
    const double  e = exp(1.0), s = 2 + 1 / e;
    loss_graph    l = make(2, 4);
    assert_near(run(&l, z, t, 1), log(1 + e) + log(s) + 1, 1e-4); // the rounding error of an lse of 2000 is 6e-5
    const double want[8] = { 1 / (1 + e) - 1, e / (1 + e), 0, 0, 1 / s, 1 / s, 1 / e / s - 1, 0 };
    for (int i = 0; i < 8; i++) assert_near(gradient(&l)[i], want[i], 7e-5);
    destroy(l);
}

/* NaN must reach the loss, because training stops on it: a mask or a maximum must not hide it. */
static void cross_entropy_lets_nan_through(void **state)
{
    (void)state;
    enum { V = 70 };
    loss_graph l = make(1, V);
    for (int at = 0; at < V; at++) {
        float z[V] = { 0 };
        z[at] = NAN;
        assert_true(isnan(run(&l, z, (int32_t[]){ 1 }, 0)));
    }
    destroy(l);
}

/* A real vocabulary with several spans per row and the largest logit in any of them, compared with plain loops. */
static void cross_entropy_of_a_real_vocabulary(void **state)
{
    (void)state;
    enum { R = 5, V = 50277 };
    loss_graph     l = make(R, V);
    float         *z = mba_program_at(l.p, l.z);
    const int32_t *t = mba_program_at(l.p, l.t);
    double         loss = 0, lse[R];
    int            valid = 0;
    for (int r = 0; r < R; r++) z[r * V + r * 12000] = 15;
    assert_ok(mba_program_run(l.p, MBA_STEP, &(mba_step){ 0 }, NULL));
    for (int r = 0; r < R; r++) {
        double s = 0;
        for (int v = 0; v < V; v++) s += exp(z[r * V + v]);
        lse[r] = log(s);
        valid += t[r] >= 0;
        if (t[r] >= 0) loss += lse[r] - z[r * V + t[r]];
    }
    assert_true(valid > 0);
    assert_near(*(const float *)mba_program_at(l.p, l.loss), loss / valid, 4e-6);
    for (int i = 0; i < R * V; i++) {
        const int    r = i / V;
        const double want = t[r] < 0 ? 0 : (exp(z[i] - lse[r]) - (i % V == t[r])) / valid;
        assert_near(gradient(&l)[i], want, 2e-6 * fabs(want) + 1e-12); // relative, so that small gradients count
    }
    destroy(l);
}

static void cross_entropy_gradient_overwrites_the_logits(void **state)
{
    (void)state;
    mba_graph   *g;
    mba_program *p;
    assert_ok(mba_graph_create(&g));
    mba_tensor *x = mba_input(g, "x", MBA_TYPE(MBA_F32, 4, 3));
    mba_tensor *w = mba_param(g, "w", MBA_TYPE(MBA_F32, 50, 3), MBA_INIT_NORMAL(1), MBA_DECAY);
    mba_tensor *z = mba_linear(g, x, w);
    mba_tensor *t = mba_targets(g, "t", MBA_TYPE(MBA_I32, 4), 50);
    assert_ok(mba_backward(g, mba_result(g, "loss", mba_cross_entropy(g, z, t))));
    assert_ok(mba_program_create(&p, g, &(mba_program_options){ .machine = &(mba_machine){ .name = "host" } }));
    assert_true(p->layout.offset[z->st->id] == p->layout.offset[z->st->grad->id]);
    mba_program_destroy(p);
    mba_graph_destroy(g);
}

static void cross_entropy_gives_the_same_bits_at_any_thread_count(void **state)
{
    (void)state;
    loss_graph l = make(37, 5003);
    assert_same_bits(l.g, &(mba_step){ 0 });
    destroy(l);
}

static void cross_entropy_refuses_what_does_not_fit(void **state)
{
    (void)state;
    for (int k = 0; k < 2; k++) {
        mba_graph *g;
        assert_ok(mba_graph_create(&g));
        mba_tensor *z = mba_input(g, "z", MBA_TYPE(MBA_F32, 3, 10));
        mba_cross_entropy(g, z, mba_targets(g, "t", MBA_TYPE(MBA_I32, k ? 3 : 4), k ? 11 : 10));
        assert_fails(mba_graph_status(g), MBA_E_SHAPE, k ? "targets up to 10" : "4 targets");
        mba_graph_destroy(g);
    }
}

MBA_TEST_MAIN(cmocka_unit_test(cross_entropy_of_hand_worked_values),
              cmocka_unit_test(cross_entropy_without_valid_targets_is_zero),
              cmocka_unit_test(cross_entropy_takes_large_and_masked_logits),
              cmocka_unit_test(cross_entropy_lets_nan_through), cmocka_unit_test(cross_entropy_of_a_real_vocabulary),
              cmocka_unit_test(cross_entropy_gradient_overwrites_the_logits),
              cmocka_unit_test(cross_entropy_gives_the_same_bits_at_any_thread_count),
              cmocka_unit_test(cross_entropy_refuses_what_does_not_fit))
