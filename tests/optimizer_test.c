// SPDX-License-Identifier: Apache-2.0
/* optimizer_test.c -- AdamW, LAMB, the average behind them and the norm before them against fp64, on the GPU where
 * there is one and on the CPU: several steps, resumed late, clipped, one of them skipped. On the GPU the compute copy
 * goes along.
 *
 * These operators have no cases: tests/cuda_test.c does not see them. */
#include "tests/test.h"

#include <math.h>

#include "core/program.h"
#include "core/rng.h"
#include "ops/adamw/adamw.h"
#include "ops/ema/ema.h"
#include "ops/lamb/lamb.h"
#include "ops/matmul/matmul.h"
#include "ops/relu2/relu2.h"

/* One tensor longer than a block, and more small ones than one launch of LAMB takes as its argument. */
enum { SMALL = 250, TENSORS = SMALL + 3, LONG = 40011, STEPS = 5, SKIPPED = 3 };
static const int64_t index_of[STEPS] = { 0, 1, 2, 100000, 100001 };

typedef struct rig {
    mba_graph        *g;
    mba_program      *p;
    mba_reference    *r;
    const mba_device *d;
    mba_tensor       *t[TENSORS];
} rig;

/* Masters: what a bf16 parameter hands out is its copy. */
static mba_tensor *master(mba_graph *g, const char *name, int64_t rows, int64_t cols, mba_dtype dtype, mba_group group)
{
    mba_tensor *w = mba_param(g, name, MBA_TYPE(dtype, rows, cols), MBA_INIT_NORMAL(1), group);
    if (dtype == MBA_F32) mba_relu2(g, w);
    else mba_linear(g, mba_input(g, mba_arena_printf(g->arena, "x.%s", name), MBA_TYPE(dtype, 1, cols)), w);
    return mba_graph_find(g, name);
}

static void start(rig *m)
{
    for (int32_t k = 0; k < m->g->ntensors; k++) {
        const mba_tensor *t = m->g->tensors[k];
        if (!mba_is_param(t)) continue;
        for (int64_t i = 0; i < mba_elems(t); i++) mba_reference_at(m->r, t)[i] = mba_init_value(t, 5, i);
    }
    assert_ok(mba_program_init(m->p, 5));
}

static rig make(const mba_device *d, mba_dtype compute, bool lamb)
{
    rig         m = { .d = d };
    mba_tensor *y[TENSORS], *seed[TENSORS] = { 0 };
    int         n = 0;
    assert_ok(mba_graph_create(&m.g));
    m.g->accumulate = true;
    m.t[0] = master(m.g, "long", LONG, 1, MBA_F32, MBA_DECAY);
    mba_param_cut(m.g, m.t[0], 7); // parts that begin anywhere, of a few values and of two blocks
    mba_param_cut(m.g, m.t[0], 9);
    mba_param_cut(m.g, m.t[0], LONG - 5);
    m.t[1] = master(m.g, "copied", 40, 24, compute, MBA_DECAY);
    mba_param_cut(m.g, m.t[1], 13);
    m.t[2] = master(m.g, "still", 3, 5, MBA_F32, MBA_NO_DECAY);
    for (int k = 0; k < SMALL; k++)
        m.t[3 + k] = master(m.g, mba_arena_printf(m.g->arena, "small.%d", k), 1, 1 + k % 70, MBA_F32, MBA_DECAY);
    for (int32_t i = 0; i < m.g->nnodes; i++) y[n++] = m.g->nodes[i]->out[0];
    assert_ok(mba_backward_from(m.g, n, y, seed));
    if (lamb) {
        mba_lamb_options o = mba_lamb_defaults();
        mba_lamb_all(m.g, &o);
    } else {
        mba_adamw_options o = mba_adamw_defaults();
        mba_adamw_all(m.g, &o);
    }
    mba_ema_all(m.g, 0.75);
    assert_ok(
        mba_program_create(&m.p, m.g, &(mba_program_options){ .cuda = d->machine->cc > 0, .machine = d->machine }));
    assert_ok(mba_program_bind(m.p, d));
    assert_ok(mba_reference_create(&m.r, m.g));
    start(&m);
    return m;
}

static void destroy(rig *m)
{
    mba_reference_destroy(m->r);
    mba_program_destroy(m->p);
    mba_graph_destroy(m->g);
}

/* Gradients of all sizes; what lies between parameters stays zero. */
static void set_gradients(rig *m, int step)
{
    for (int k = 0; k < TENSORS; k++) {
        const mba_tensor *t = m->t[k];
        const int64_t     n = mba_elems(t);
        float            *g = malloc(sizeof *g * (size_t)n);
        mba_tensor        grad = *t;
        grad.st = t->st->grad;
        assert_non_null(g);
        for (int64_t i = 0; i < n; i++) {
            uint32_t u[4];
            mba_philox(u, (uint64_t)k, (uint64_t)step, (uint64_t)i);
            g[i] = (float)((2 * mba_unit(u[0]) - 1) * (step % 2 ? 1 : 1e-3) * pow(10, -(double)(i % 4)));
            mba_reference_at(m->r, &grad)[i] = (double)g[i];
        }
        assert_ok(m->d->put(mba_program_counterpart(m->p, grad.st, t), g, sizeof *g * (size_t)n));
        if (m->d->wait) assert_ok(m->d->wait()); // g goes away
        free(g);
    }
}

/* Every value within `units` roundings of want, or of `least` where that is more. */
static void compare(const rig *m, const mba_tensor *t, double least, double units)
{
    const int64_t n = mba_elems(t);
    float        *have = malloc(sizeof *have * (size_t)n);
    assert_non_null(have);
    assert_ok(mba_program_get(m->p, t, have));
    for (int64_t i = 0; i < n; i++) {
        const double want = mba_reference_at(m->r, t)[i];
        assert_near(have[i], want, units * fmax(fabs(want), least) / 16777216);
    }
    free(have);
}

static void compare_named(const rig *m, const char *name, double least, double units)
{
    const mba_tensor *t = mba_graph_find(m->g, name);
    assert_non_null(t);
    compare(m, t, least, units);
}

/* The compute copy is the parameter, rounded. */
static void compare_copy(const rig *m)
{
    float    want[24 * 40];
    uint16_t have[24 * 40];
    assert_ok(mba_program_get(m->p, m->t[1], want));
    assert_ok(m->d->get(have, mba_program_counterpart(m->p, m->g->copies[MBA_DECAY], m->t[1]), sizeof have));
    for (int i = 0; i < 24 * 40; i++) assert_int_equal(have[i], mba_to_bf16(want[i]));
}

/* A parameter rounds at its own size every step, and a step of 1e-2 is off by some ten roundings; so are the
 * moments. */
static void follow(const mba_device *d, mba_dtype compute, bool lamb)
{
    rig m = make(d, compute, lamb);
    for (int k = 0; k < STEPS; k++) {
        const mba_step s = { .index = index_of[k], .lr = 1e-2f, .norm_max = k == SKIPPED ? 1e-6f : 0 };
        set_gradients(&m, k);
        assert_ok(mba_reference_run(m.r, MBA_UPDATE, &s));
        assert_ok(mba_program_run(m.p, MBA_UPDATE, &s, NULL));
        compare_named(&m, "grad_norm", 0, 4);
        for (int j = 0; j < TENSORS; j++) compare(&m, m.t[j], 0.1, 12 * STEPS);
        for (int j = 0; j < TENSORS; j++) {
            mba_tensor grad = *m.t[j];
            grad.st = grad.st->grad;
            compare(&m, &grad, 0, 0); // left at zero, also by the step that was skipped
        }
        compare_named(&m, "m.decay", 1e-3, 12 * STEPS);
        compare_named(&m, "v.decay", 1e-6, 12 * STEPS);
        compare_named(&m, "v.no_decay", 1e-6, 12 * STEPS);
        compare_named(&m, "ema.decay", 0.1, 12 * STEPS);
        if (compute == MBA_BF16) compare_copy(&m);
    }
    destroy(&m);
}

static void optimizers_follow_fp64_on_the_cpu(void **state)
{
    (void)state;
    for (int lamb = 0; lamb < 2; lamb++) follow(&mba_device_cpu, MBA_F32, lamb);
}

static void optimizers_follow_fp64_on_the_gpu(void **state)
{
    (void)state;
    const mba_device *d;
    if (mba_device_cuda(&d, 0) != MBA_OK) skip();
    for (int lamb = 0; lamb < 2; lamb++) {
        follow(d, MBA_F32, lamb);
        follow(d, MBA_BF16, lamb);
    }
}

MBA_TEST_MAIN(cmocka_unit_test(optimizers_follow_fp64_on_the_cpu), cmocka_unit_test(optimizers_follow_fp64_on_the_gpu))
