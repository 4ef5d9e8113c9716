// SPDX-License-Identifier: Apache-2.0
/* adamw_test.c -- three steps worked by hand, twenty against loops in double, skipping, clipping, cleared gradients,
 * same bits. */
#include "tests/threads.h"

#include "ops/adamw/adamw.h"
#include "ops/adamw/adamw_slots.h"
#include "ops/relu2/relu2.h"

static const mba_adamw_options usual = { .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .decay = 0.1, .clip = 0 };

typedef struct opt_graph {
    mba_graph   *g;
    mba_program *p;
    mba_tensor  *decay, *no_decay, *norm;
} opt_graph;

/* n parameters that decay and n that do not. The tests write the gradients themselves and run only the update. */
static opt_graph make(int64_t n, const mba_adamw_options *o, bool accumulate)
{
    opt_graph   t;
    mba_tensor *y[2];
    assert_ok(mba_graph_create(&t.g));
    t.g->accumulate = accumulate;
    t.decay = mba_param(t.g, "a", MBA_TYPE(MBA_F32, n), MBA_INIT_NORMAL(1), MBA_DECAY);
    t.no_decay = mba_param(t.g, "b", MBA_TYPE(MBA_F32, n), MBA_INIT_NORMAL(1), MBA_NO_DECAY);
    y[0] = mba_relu2(t.g, t.decay);
    y[1] = mba_relu2(t.g, t.no_decay);
    assert_ok(mba_backward_from(t.g, 2, y, (mba_tensor *[2]){ NULL, NULL }));
    mba_adamw_all(t.g, o);
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

static float *param(const opt_graph *t, const mba_tensor *p) { return mba_program_at(t->p, p); }

/* The same view of another storage. */
static float *beside(const opt_graph *t, const mba_tensor *p, mba_storage *st)
{
    mba_tensor w = *p;
    w.st = st;
    return mba_program_at(t->p, &w);
}

static float *grad(const opt_graph *t, const mba_tensor *p) { return beside(t, p, p->st->grad); }

/* Finds a moment as a checkpoint does: by role and name. */
static float *moment(const opt_graph *t, const mba_tensor *p, const char *name)
{
    for (int32_t s = 0; s < t->g->nstorages; s++)
        if (t->g->storages[s]->role == MBA_OPTIM && !strcmp(t->g->storages[s]->name, name)) {
            assert_int_equal(t->g->storages[s]->elems, p->st->elems);
            return beside(t, p, t->g->storages[s]);
        }
    fail_msg("no moments named %s", name);
    return NULL;
}

/* beta1 = 1/2, beta2 = 3/4, lr = 1/10, decay 1/5, p = 1, gradients 2, -1, 0 (eps is too small to see):
 *   t  m       v        m/(1-b1^t)  v/(1-b2^t)       decaying p                          p without decay
 *   1  1       1        2           4                1 - 0.1 (2/2 + 0.2) = 0.88          0.9
 *   2  0       1        0           1/(7/16)         0.88 (1 - 0.02) = 0.8624            0.9
 *   3  0       3/4      0           (3/4)/(37/64)    0.8624 0.98 = 0.845152              0.9
 * and with a last gradient of 4 instead of 0: m = 2, v = 3/4 + 4 = 19/4, (16/7)/sqrt(304/37) = 0.797418 */
static void adamw_of_hand_worked_values(void **state)
{
    (void)state;
    const mba_adamw_options o = { .beta1 = 0.5, .beta2 = 0.75, .eps = 1e-12, .decay = 0.2, .clip = 0 };
    const float             g[3][2] = { { 2, 2 }, { -1, -1 }, { 0, 4 } };
    const double            last = 16.0 / 7 / sqrt(304.0 / 37);
    const double            p[3][2] = { { 0.88, 0.88 }, { 0.8624, 0.8624 }, { 0.845152, 0.845152 - 0.1 * last } };
    const double            q[3][2] = { { 0.9, 0.9 }, { 0.9, 0.9 }, { 0.9, 0.9 - 0.1 * last } };
    const double m[3][2] = { { 1, 1 }, { 0, 0 }, { 0, 2 } }, v[3][2] = { { 1, 1 }, { 1, 1 }, { 0.75, 4.75 } };
    opt_graph    t = make(2, &o, false);
    for (int i = 0; i < 2; i++) param(&t, t.decay)[i] = param(&t, t.no_decay)[i] = 1;
    for (int k = 0; k < 3; k++) {
        memcpy(grad(&t, t.decay), g[k], sizeof g[k]);
        memcpy(grad(&t, t.no_decay), g[k], sizeof g[k]);
        step(&t, k, 0.1f, 0);
        for (int i = 0; i < 2; i++) {
            assert_near(param(&t, t.decay)[i], p[k][i], 3e-7);
            assert_near(param(&t, t.no_decay)[i], q[k][i], 3e-7);
            assert_near(moment(&t, t.decay, "m.decay")[i], m[k][i], 1e-6);
            assert_near(moment(&t, t.decay, "v.decay")[i], v[k][i], 1e-6);
            assert_near(moment(&t, t.no_decay, "v.no_decay")[i], v[k][i], 1e-6);
            assert_near(grad(&t, t.decay)[i], g[k][i], 0); // one micro-batch: the update leaves gradients unchanged
        }
    }
    destroy(t);
}

typedef struct adam {
    double p, m, v;
} adam;

static void plain_step(adam *x, double g, int t, double lr, const mba_adamw_options *o, double decay)
{
    x->m = o->beta1 * x->m + (1 - o->beta1) * g;
    x->v = o->beta2 * x->v + (1 - o->beta2) * g * g;
    x->p -= lr * (x->m / (1 - pow(o->beta1, t)) / (sqrt(x->v / (1 - pow(o->beta2, t))) + o->eps) + decay * x->p);
}

/* Twenty steps over more than one block: gradients of all magnitudes, clipped in every other step, starting at a late
 * step number. */
static void adamw_follows_plain_loops_in_double(void **state)
{
    (void)state;
    enum { N = 20011, STEPS = 20 };
    mba_adamw_options o = usual;
    o.clip = 30;
    opt_graph t = make(N, &o, true);
    adam     *x = calloc(2 * N, sizeof *x);
    float    *p[2] = { param(&t, t.decay), param(&t, t.no_decay) }, *g[2] = { grad(&t, t.decay), grad(&t, t.no_decay) };
    assert_non_null(x);
    for (int i = 0; i < 2 * N; i++) x[i].p = p[i / N][i % N];
    for (int k = 0; k < STEPS; k++) {
        const int index = k < STEPS / 2 ? k : 100000 + k;
        double    sum = 0;
        for (int i = 0; i < 2 * N; i++) {
            uint32_t u[4];
            mba_philox(u, 1, (uint64_t)k, (uint64_t)i);
            g[i / N][i % N] = (float)((2 * mba_unit(u[0]) - 1) * (k % 2 ? 1 : 0.1) * pow(10, -(i % 5)));
            sum += pow(g[i / N][i % N], 2);
        }
        const double clip = fmin(1, o.clip / (sqrt(sum) + 1e-6));
        assert_true(k % 2 ? clip < 0.9 : clip == 1);
        for (int i = 0; i < 2 * N; i++)
            plain_step(&x[i], g[i / N][i % N] * clip, index + 1, 1e-2, &o, i < N ? o.decay : 0);
        step(&t, index, 1e-2f, 0);
        assert_near(*(float *)mba_program_at(t.p, t.norm), sqrt(sum), 1e-7 * sqrt(sum));
        for (int i = 0; i < 2 * N; i++) assert_near(g[i / N][i % N], 0, 0); // cleared for the next accumulation
    }
    /* per step: p rounds (2^-24 |p|), and the step of 1e-2 is off by some 10 roundings */
    for (int i = 0; i < 2 * N; i++) assert_near(p[i / N][i % N], x[i].p, STEPS * (fabs(x[i].p) + 0.1) / 16777216);
    free(x);
    destroy(t);
}

/* NaN, infinity and a norm above the limit leave parameters and moments unchanged, bit for bit. */
static void adamw_skips_bad_steps(void **state)
{
    (void)state;
    enum { N = 100 };
    for (int accumulate = 0; accumulate < 2; accumulate++) {
        opt_graph    t = make(N, &usual, accumulate);
        const size_t pn = t.p->layout.arena_bytes[MBA_PARAM], on = t.p->layout.arena_bytes[MBA_OPTIM];
        for (int i = 0; i < N; i++) grad(&t, t.decay)[i] = grad(&t, t.no_decay)[i] = 1;
        step(&t, 0, 0.1f, 1000); // a valid step, which makes moments
        char *p = malloc(pn), *o = malloc(on);
        assert_true(p && o);
        memcpy(p, t.p->memory[MBA_PARAM], pn);
        memcpy(o, t.p->memory[MBA_OPTIM], on);
        for (int bad = 0; bad < 3; bad++) {
            for (int i = 0; i < N; i++) grad(&t, t.decay)[i] = 1;
            grad(&t, t.decay)[3] = bad == 0 ? NAN : bad == 1 ? INFINITY : 2000;
            step(&t, 1, 0.1f, 1000);
            assert_memory_equal(t.p->memory[MBA_PARAM], p, pn);
            assert_memory_equal(t.p->memory[MBA_OPTIM], o, on);
            for (int i = 0; i < N; i++) assert_true((grad(&t, t.decay)[i] == 0) == accumulate);
        }
        for (int i = 0; i < N; i++) grad(&t, t.decay)[i] = 1;
        grad(&t, t.decay)[3] = 2000;
        step(&t, 1, 0.1f, 0); // without a limit the update happens
        assert_true(memcmp(t.p->memory[MBA_PARAM], p, pn) && memcmp(t.p->memory[MBA_OPTIM], o, on));
        free(p);
        free(o);
        destroy(t);
    }
}

/* Moments are linear in the clipped gradient: (3, 4) clipped to norm 1 is (0.6, 0.8). */
static void adamw_clips_by_the_whole_norm(void **state)
{
    (void)state;
    mba_adamw_options o = usual;
    for (int k = 0; k < 2; k++) {
        o.clip = k ? 1 : 6; // 6: above the norm of the gradient
        opt_graph t = make(1, &o, false);
        grad(&t, t.decay)[0] = 3;
        grad(&t, t.no_decay)[0] = 4;
        step(&t, 0, 1e-3f, 0);
        assert_near(*(float *)mba_program_at(t.p, t.norm), 5, 0);
        assert_near(moment(&t, t.decay, "m.decay")[0], 0.1 * (k ? 3 / (5 + 1e-6) : 3), 1e-7);
        assert_near(moment(&t, t.no_decay, "m.no_decay")[0], 0.1 * (k ? 4 / (5 + 1e-6) : 4), 1e-7);
        assert_near(moment(&t, t.no_decay, "v.no_decay")[0], 0.05 * (k ? 0.64 : 16), 1e-6);
        destroy(t);
    }
}

static void adamw_reference_agrees_with_the_program(void **state)
{
    (void)state;
    mba_adamw_options o = usual;
    o.clip = 1;
    opt_graph      t = make(70, &o, true);
    mba_reference *r;
    assert_ok(mba_reference_create(&r, t.g));
    assert_ok(mba_program_init(t.p, 3));
    memset(t.p->memory[MBA_GRAD], 0, t.p->layout.arena_bytes[MBA_GRAD]);
    for (int i = 0; i < 70; i++) mba_reference_at(r, t.decay)[i] = param(&t, t.decay)[i];
    for (int i = 0; i < 70; i++) mba_reference_at(r, t.no_decay)[i] = param(&t, t.no_decay)[i];
    for (int k = 0; k < 3; k++) {
        const mba_step s = { .index = k, .lr = 0.01f, .norm_max = k == 1 ? 1e-3f : 0 }; // the second is skipped
        assert_ok(mba_reference_run(r, MBA_STEP, &s));
        assert_ok(mba_program_run(t.p, MBA_STEP, &s, NULL));
        for (int i = 0; i < 70; i++) assert_near(param(&t, t.decay)[i], mba_reference_at(r, t.decay)[i], 1e-6);
    }
    mba_reference_destroy(r);
    destroy(t);
}

static void adamw_gives_the_same_bits_at_any_thread_count(void **state)
{
    (void)state;
    opt_graph t = make(100003, &usual, false);
    assert_same_bits(t.g, &(mba_step){ .index = 4, .lr = 1e-3f });
    destroy(t);
}

static void adamw_refuses_what_cannot_work(void **state)
{
    (void)state;
    static const char *const words[] = { "betas", "eps", "negative" };
    for (int k = 0; k < 3; k++) {
        mba_adamw_options o = usual;
        if (k == 0) o.beta2 = 1;
        if (k == 1) o.eps = 0;
        if (k == 2) o.clip = -1;
        mba_graph *g;
        assert_ok(mba_graph_create(&g));
        mba_tensor *y = mba_relu2(g, mba_param(g, "a", MBA_TYPE(MBA_F32, 3), MBA_INIT_NORMAL(1), MBA_DECAY));
        assert_ok(mba_backward_from(g, 1, &y, (mba_tensor *[]){ NULL }));
        mba_adamw_all(g, &o);
        assert_fails(mba_graph_status(g), MBA_E_SHAPE, words[k]);
        mba_graph_destroy(g);
    }
}

MBA_TEST_MAIN(cmocka_unit_test(adamw_of_hand_worked_values), cmocka_unit_test(adamw_follows_plain_loops_in_double),
              cmocka_unit_test(adamw_skips_bad_steps), cmocka_unit_test(adamw_clips_by_the_whole_norm),
              cmocka_unit_test(adamw_reference_agrees_with_the_program),
              cmocka_unit_test(adamw_gives_the_same_bits_at_any_thread_count),
              cmocka_unit_test(adamw_refuses_what_cannot_work))
