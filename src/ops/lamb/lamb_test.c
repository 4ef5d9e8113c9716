// SPDX-License-Identifier: Apache-2.0
/* lamb_test.c -- a step worked by hand, golden steps, clips, skipping, the reference over ten steps, cleared gradients,
 * same bits. */
#include "tests/threads.h"

#include "ops/lamb/lamb.h"
#include "ops/lamb/lamb_slots.h"
#include "ops/relu2/relu2.h"

enum { TENSORS = 4 };
typedef struct opt_graph {
    mba_graph   *g;
    mba_program *p;
    mba_tensor  *t[TENSORS], *norm;
} opt_graph;

/* Tensors of these sizes, the last one without decay. The tests write the gradients themselves and run only the
 * update. */
static opt_graph make(const int64_t elems[TENSORS], const mba_lamb_options *o, bool accumulate)
{
    opt_graph   t;
    mba_tensor *y[TENSORS], *seed[TENSORS] = { 0 };
    assert_ok(mba_graph_create(&t.g));
    t.g->accumulate = accumulate;
    for (int k = 0; k < TENSORS; k++) {
        const char *name = mba_arena_printf(t.g->arena, "t%d", k);
        t.t[k] = mba_param(t.g, name, MBA_TYPE(MBA_F32, elems[k]), MBA_INIT_NORMAL(1), (mba_group)(k == TENSORS - 1));
        y[k] = mba_relu2(t.g, t.t[k]);
    }
    assert_ok(mba_backward_from(t.g, TENSORS, y, seed));
    mba_lamb_all(t.g, o);
    assert_ok(mba_graph_status(t.g));
    t.norm = t.g->nodes[t.g->nnodes - 1]->in[NORM];
    t.p = run_once(t.g, &(mba_step){ 0 }, 2); // this run writes moments, which the next line clears
    memset(t.p->memory[MBA_OPTIM], 0, t.p->layout.arena_bytes[MBA_OPTIM]);
    return t;
}

static void destroy(opt_graph t)
{
    mba_program_destroy(t.p);
    mba_graph_destroy(t.g);
}

static void step(const opt_graph *t, int64_t index, float lr, float norm_max)
{
    assert_ok(mba_program_run(t->p, MBA_UPDATE, &(mba_step){ .index = index, .lr = lr, .norm_max = norm_max }, NULL));
}

static float *param(const opt_graph *t, int k) { return mba_program_at(t->p, t->t[k]); }
static float *grad(const opt_graph *t, int k) { return mba_program_counterpart(t->p, t->t[k]->st->grad, t->t[k]); }
static float *moment(const opt_graph *t, int k, const char *name)
{
    const mba_tensor *m = mba_graph_find(t->g, name);
    assert_non_null(m);
    return mba_program_counterpart(t->p, m->st, t->t[k]);
}

static void set(float *x, const double *v, int n)
{
    for (int i = 0; i < n; i++) x[i] = (float)v[i];
}

/* The first step: m/(1-b1) = g and v/(1-b2) = g^2, so Adam's direction is the sign of g. With lr = 1/10, decay 1/5:
 *   t0  p = (3, 4), g = (2, -1):  u = (1 + 0.6, -1 + 0.8) = (1.6, -0.2), |p| = 5, |u| = sqrt(2.6)
 *   t1  p = (0, 0), g = (1, 1):   u = (1, 1), |p| = 0: not scaled
 *   t2  p = (6, 8), g = (0, 0):   u = p/5, scaled to |p|: p (1 - lr)
 *   t3  p = (1, 1), g = (5, -9):  without decay: only the sign */
static void lamb_of_hand_worked_values(void **state)
{
    (void)state;
    const mba_lamb_options o = { .beta1 = 0.5, .beta2 = 0.75, .eps = 1e-12, .decay = 0.2 };
    const double           p[TENSORS][2] = { { 3, 4 }, { 0, 0 }, { 6, 8 }, { 1, 1 } };
    const double           g[TENSORS][2] = { { 2, -1 }, { 1, 1 }, { 0, 0 }, { 5, -9 } };
    const double           k = 0.1 * 5 / sqrt(2.6);
    const double want[TENSORS][2] = { { 3 - 1.6 * k, 4 + 0.2 * k }, { -0.1, -0.1 }, { 5.4, 7.2 }, { 0.9, 1.1 } };
    opt_graph    t = make((int64_t[]){ 2, 2, 2, 2 }, &o, false);
    for (int j = 0; j < TENSORS; j++) {
        set(param(&t, j), p[j], 2);
        set(grad(&t, j), g[j], 2);
    }
    step(&t, 0, 0.1f, 0);
    for (int j = 0; j < TENSORS; j++)
        for (int i = 0; i < 2; i++) {
            assert_near(param(&t, j)[i], want[j][i], 1e-6);
            assert_near(grad(&t, j)[i], g[j][i], 0); // one micro-batch: the update leaves gradients unchanged
        }
    assert_near(moment(&t, 0, "m.decay")[0], 1, 0);
    assert_near(moment(&t, 0, "v.decay")[1], 0.25, 0);
    assert_near(moment(&t, 3, "v.no_decay")[1], 81 / 4.0, 0);
    destroy(t);
}

/* Tensors t0 and t2 above as rows of one tensor that is divided between them: the update equals that of the two. A
 * second tensor is divided at odd offsets, with one part longer than a block, and compared with the reference. */
static void lamb_takes_apart_what_is_cut(void **state)
{
    (void)state;
    const mba_lamb_options o = { .beta1 = 0.5, .beta2 = 0.75, .eps = 1e-12, .decay = 0.2 };
    const double           p[2][2] = { { 3, 4 }, { 6, 8 } }, g[2][2] = { { 2, -1 }, { 0, 0 } };
    const double           k = 0.1 * 5 / sqrt(2.6), want[4] = { 3 - 1.6 * k, 4 + 0.2 * k, 5.4, 7.2 };
    mba_graph             *graph;
    assert_ok(mba_graph_create(&graph));
    mba_tensor *t = mba_param(graph, "both", MBA_TYPE(MBA_F32, 2, 2), MBA_INIT_NORMAL(1), MBA_DECAY);
    mba_tensor *odd = mba_param(graph, "odd", MBA_TYPE(MBA_F32, 6000, 3), MBA_INIT_NORMAL(1), MBA_DECAY);
    mba_tensor *y[2] = { mba_relu2(graph, t), mba_relu2(graph, odd) };
    mba_param_cut(graph, odd, 5999);
    mba_param_cut(graph, odd, 1);
    mba_param_cut(graph, t, 1);
    assert_int_equal(t->st->nstarts, 5);
    assert_ok(mba_backward_from(graph, 2, y, (mba_tensor *[2]){ NULL }));
    mba_lamb_all(graph, &o);
    mba_program   *program = run_once(graph, &(mba_step){ 0 }, 2);
    mba_reference *r;
    assert_ok(mba_reference_create(&r, graph));
    memset(program->memory[MBA_OPTIM], 0, program->layout.arena_bytes[MBA_OPTIM]);
    float     *value = mba_program_at(program, t), *grad_of = mba_program_counterpart(program, t->st->grad, t);
    mba_tensor grads[2] = { *t, *odd };
    for (int i = 0; i < 2; i++) {
        set(value + 2 * i, p[i], 2);
        set(grad_of + 2 * i, g[i], 2);
        grads[i].st = t->st->grad;
    }
    for (int j = 0; j < 2; j++)
        for (int64_t i = 0; i < mba_elems(&grads[j]); i++) {
            const mba_tensor *at = j ? odd : t;
            if (j) ((float *)mba_program_counterpart(program, grads[j].st, at))[i] = (float)sin((double)i);
            mba_reference_at(r, at)[i] = ((float *)mba_program_at(program, at))[i];
            mba_reference_at(r, &grads[j])[i] = ((float *)mba_program_counterpart(program, grads[j].st, at))[i];
        }
    const mba_step s = { .lr = 0.1f };
    assert_ok(mba_reference_run(r, MBA_UPDATE, &s));
    assert_ok(mba_program_run(program, MBA_UPDATE, &s, NULL));
    for (int i = 0; i < 4; i++) assert_near(value[i], want[i], 1e-6);
    for (int64_t i = 0; i < mba_elems(odd); i++)
        assert_near(((float *)mba_program_at(program, odd))[i], mba_reference_at(r, odd)[i], 4e-6);
    mba_reference_destroy(r);
    mba_program_destroy(program);
    mba_graph_destroy(graph);
}

/* Three steps, the second with a norm below both clips: tools/golden/norms.py. */
static void lamb_of_golden_values(void **state)
{
    (void)state;
    const mba_lamb_options o = mba_lamb_defaults();
    const int              n[TENSORS] = { 12, 5, 1, 3 };
    const double           amp[TENSORS] = { 1, 0.3, 0, 1 };
    const double           fr[TENSORS] = { 0.7, 0.9, 0, 1.1 }, ph[TENSORS] = { 0.1, 0.4, 0, 0.2 };
    const double           size[TENSORS] = { 4, 2, 0, 1 }, late[TENSORS] = { 0, 0.3, 0, 0.6 };
    const double           want[TENSORS][12] = {
                  { 0.09977186836, 0.7049438909, 0.9849615556, 0.7963285413, 0.2293290341, -0.4423631157, -0.9034731882,
                    -0.9464115237, -0.5403933461, 0.1225762152, 0.7288511206, 0.9856841104 },
                  { 0.1135841425, 0.2857797246, 0.2392888254, 0.009376663442, -0.2288586391 },
                  { 0 },
                  { 0.1842059041, 0.9490567067, 0.6611043278 },
    };
    opt_graph t = make((int64_t[]){ 12, 5, 1, 3 }, &o, false);
    for (int k = 0; k < TENSORS; k++)
        for (int i = 0; i < n[k]; i++) param(&t, k)[i] = (float)(amp[k] * sin(fr[k] * i + ph[k]));
    for (int s = 1; s <= 3; s++) {
        for (int k = 0; k < TENSORS; k++)
            for (int i = 0; i < n[k]; i++)
                grad(&t, k)[i] = (float)((s == 2 ? 0.05 : 1) * size[k] * sin((0.5 + 0.1 * s) * i + late[k]));
        step(&t, s - 1, 5e-3f, 0);
    }
    for (int k = 0; k < TENSORS; k++)
        for (int i = 0; i < n[k]; i++) assert_near(param(&t, k)[i], want[k][i], 3e-7);
    destroy(t);
}

/* (3, 4) is clipped to norm 2 by the first clip and to 1 by the second; smaller gradients are left unchanged. */
static void lamb_clips_twice(void **state)
{
    (void)state;
    const double clips[4][2] = { { 0, 0 }, { 2, 0 }, { 2, 1 }, { 9, 8 } }, length[4] = { 5, 2, 1, 5 };
    for (int k = 0; k < 4; k++) {
        mba_lamb_options o = mba_lamb_defaults();
        o.clip = clips[k][0];
        o.own_clip = clips[k][1];
        opt_graph t = make((int64_t[]){ 1, 1, 1, 1 }, &o, false);
        memset(t.p->memory[MBA_GRAD], 0, t.p->layout.arena_bytes[MBA_GRAD]);
        grad(&t, 0)[0] = 3;
        grad(&t, 3)[0] = 4;
        step(&t, 0, 1e-3f, 0);
        assert_near(*(float *)mba_program_at(t.p, t.norm), 5, 0);
        assert_near(moment(&t, 0, "m.decay")[0], 0.1 * 0.6 * length[k], 1e-6);
        assert_near(moment(&t, 3, "m.no_decay")[0], 0.1 * 0.8 * length[k], 1e-6);
        destroy(t);
    }
}

/* NaN, infinity and a norm above the limit leave parameters and moments unchanged, bit for bit. */
static void lamb_skips_bad_steps(void **state)
{
    (void)state;
    const mba_lamb_options o = mba_lamb_defaults();
    for (int accumulate = 0; accumulate < 2; accumulate++) {
        opt_graph    t = make((int64_t[]){ 100, 7, 3, 50 }, &o, accumulate);
        const size_t pn = t.p->layout.arena_bytes[MBA_PARAM], on = t.p->layout.arena_bytes[MBA_OPTIM];
        for (int i = 0; i < 100; i++) grad(&t, 0)[i] = 1;
        step(&t, 0, 0.1f, 1000); // a valid step, which makes moments
        char *p = malloc(pn), *m = malloc(on);
        assert_true(p && m);
        memcpy(p, t.p->memory[MBA_PARAM], pn);
        memcpy(m, t.p->memory[MBA_OPTIM], on);
        for (int bad = 0; bad < 3; bad++) {
            for (int i = 0; i < 100; i++) grad(&t, 0)[i] = 1;
            grad(&t, 0)[3] = bad == 0 ? NAN : bad == 1 ? INFINITY : 2000;
            step(&t, 1, 0.1f, 1000);
            assert_memory_equal(t.p->memory[MBA_PARAM], p, pn);
            assert_memory_equal(t.p->memory[MBA_OPTIM], m, on);
            for (int i = 0; i < 100; i++) assert_true((grad(&t, 0)[i] == 0) == accumulate);
        }
        for (int i = 0; i < 100; i++) grad(&t, 0)[i] = i == 3 ? 2000 : 1;
        step(&t, 1, 0.1f, 0); // without a limit the update happens
        assert_true(memcmp(t.p->memory[MBA_PARAM], p, pn) && memcmp(t.p->memory[MBA_OPTIM], m, on));
        free(p);
        free(m);
        destroy(t);
    }
}

/* More than one block per tensor, odd sizes, and a single value: the program compared with the reference, over ten
 * steps. */
static void lamb_reference_agrees_with_the_program(void **state)
{
    (void)state;
    const mba_lamb_options o = mba_lamb_defaults();
    const int64_t          n[TENSORS] = { 2 * LAMB_BLOCK + 77, 1, 129, 300 };
    opt_graph              t = make(n, &o, true);
    mba_reference         *r;
    assert_ok(mba_reference_create(&r, t.g));
    assert_ok(mba_program_init(t.p, 3));
    memset(t.p->memory[MBA_GRAD], 0, t.p->layout.arena_bytes[MBA_GRAD]);
    for (int k = 0; k < TENSORS; k++)
        for (int i = 0; i < n[k]; i++) mba_reference_at(r, t.t[k])[i] = param(&t, k)[i];
    for (int s = 0; s < 10; s++) {
        const mba_step at = { .index = s, .lr = 0.01f, .norm_max = s == 1 ? 1e-3f : 0 }; // the second is skipped
        assert_ok(mba_reference_run(r, MBA_STEP, &at));
        assert_ok(mba_program_run(t.p, MBA_STEP, &at, NULL));
    }
    for (int k = 0; k < TENSORS; k++)
        for (int i = 0; i < n[k]; i++) assert_near(param(&t, k)[i], mba_reference_at(r, t.t[k])[i], 4e-6);
    mba_reference_destroy(r);
    destroy(t);
}

static void lamb_gives_the_same_bits_at_any_thread_count(void **state)
{
    (void)state;
    const mba_lamb_options o = mba_lamb_defaults();
    opt_graph              t = make((int64_t[]){ 100003, 17, 40000, 50001 }, &o, false);
    assert_same_bits(t.g, &(mba_step){ .index = 4, .lr = 1e-3f });
    destroy(t);
}

static void lamb_refuses_what_cannot_work(void **state)
{
    (void)state;
    static const char *const words[] = { "betas", "eps", "negative" };
    for (int k = 0; k < 3; k++) {
        mba_lamb_options o = mba_lamb_defaults();
        if (k == 0) o.beta2 = 1;
        if (k == 1) o.eps = 0;
        if (k == 2) o.own_clip = -1;
        mba_graph *g;
        assert_ok(mba_graph_create(&g));
        mba_tensor *y = mba_relu2(g, mba_param(g, "a", MBA_TYPE(MBA_F32, 3), MBA_INIT_NORMAL(1), MBA_DECAY));
        assert_ok(mba_backward_from(g, 1, &y, (mba_tensor *[]){ NULL }));
        mba_lamb_all(g, &o);
        assert_fails(mba_graph_status(g), MBA_E_SHAPE, words[k]);
        mba_graph_destroy(g);
    }
}

MBA_TEST_MAIN(cmocka_unit_test(lamb_of_hand_worked_values), cmocka_unit_test(lamb_of_golden_values),
              cmocka_unit_test(lamb_takes_apart_what_is_cut), cmocka_unit_test(lamb_clips_twice),
              cmocka_unit_test(lamb_skips_bad_steps), cmocka_unit_test(lamb_reference_agrees_with_the_program),
              cmocka_unit_test(lamb_gives_the_same_bits_at_any_thread_count),
              cmocka_unit_test(lamb_refuses_what_cannot_work))
