// SPDX-License-Identifier: Apache-2.0
/* rig.h -- a small graph run twice, by the fp64 reference and by the fp32 CPU, for tests of operators.
 *
 *     mba_tensor *out[] = { y }, *seed[] = { mba_input(g, "dy", y->type) };
 *     rig r = rig_create(g, 1, out, seed);                 // appends the backward pass
 *     rig_sines(&r, x, 1, 0.7, 0.1);                       // x[k] = sin(0.7 k + 0.1)
 *     rig_run(&r);
 *     assert_sums(&r, rig_grad(&r, x), 2.680289968844, 10.77876022595);
 *     rig_destroy(&r);                                     // takes the graph along */
#ifndef MBA_RIG_H
#define MBA_RIG_H

#include "core/program.h"
#include "core/rng.h"
#include "tests/test.h"

typedef struct rig {
    mba_graph     *g;
    mba_program   *p;
    mba_reference *ref;
    mba_step       step;
} rig;

static inline mba_graph *graph(void)
{
    mba_graph *g;
    assert_ok(mba_graph_create(&g));
    return g;
}

static inline rig rig_create(mba_graph *g, int n, mba_tensor *const out[], mba_tensor *const seed[])
{
    static const mba_machine host = { .name = "host" };
    rig                      r = { .g = g, .step = { .seed = 7 } };
    for (int k = 0; k < n; k++) mba_result(g, mba_arena_printf(g->arena, "out.%d", k), out[k]);
    if (n && seed) assert_ok(mba_backward_from(g, n, out, seed));
    assert_ok(mba_program_create(&r.p, g, &(mba_program_options){ .machine = &host }));
    assert_ok(mba_program_bind(r.p, &mba_device_cpu));
    assert_ok(mba_reference_create(&r.ref, g));
    assert_ok(mba_program_init(r.p, 5));
    for (int32_t k = 0; k < g->ntensors; k++) {
        const mba_tensor *t = g->tensors[k];
        if (!mba_is_param(t) && !mba_is_state(t)) continue;
        for (int64_t i = 0; i < mba_elems(t); i++) mba_reference_at(r.ref, t)[i] = mba_init_value(t, 5, i);
    }
    return r;
}

static inline void rig_destroy(rig *r)
{
    mba_reference_destroy(r->ref);
    mba_program_destroy(r->p);
    mba_graph_destroy(r->g);
}

static inline void rig_set(rig *r, const mba_tensor *t, int64_t i, double v)
{
    mba_reference_at(r->ref, t)[i] = v;
    if (t->type.dtype == MBA_I32) ((int32_t *)mba_program_at(r->p, t))[i] = (int32_t)v;
    else ((float *)mba_program_at(r->p, t))[i] = (float)v;
}

static inline void rig_sines(rig *r, const mba_tensor *t, double amp, double fr, double ph)
{
    for (int64_t k = 0; k < mba_elems(t); k++) rig_set(r, t, k, amp * sin(fr * (double)k + ph));
}

static inline void rig_run(rig *r)
{
    assert_ok(mba_reference_run(r->ref, MBA_FORWARD | MBA_BACKWARD, &r->step));
    assert_ok(mba_program_run(r->p, MBA_FORWARD | MBA_BACKWARD, &r->step, NULL));
}

/* The gradient of a parameter, a tensor like any other. */
static inline mba_tensor *rig_grad(rig *r, const mba_tensor *t)
{
    mba_tensor *d = mba_arena_new(r->g->arena, mba_tensor, 1);
    *d = *t;
    d->st = t->st->grad;
    return d;
}

static inline double rig_want(rig *r, const mba_tensor *t, int64_t i) { return mba_reference_at(r->ref, t)[i]; }
static inline float  rig_have(rig *r, const mba_tensor *t, int64_t i) { return ((float *)mba_program_at(r->p, t))[i]; }

/* Golden values are printed with ten digits; fp32 may be off by a few units of the largest of them. */
static inline void assert_golden(rig *r, const mba_tensor *t, const double *values)
{
    double top = 0;
    for (int64_t i = 0; i < mba_elems(t); i++) top = fmax(top, fabs(values[i]));
    for (int64_t i = 0; i < mba_elems(t); i++) {
        assert_near(rig_want(r, t, i), values[i], 1e-9);
        assert_near(rig_have(r, t, i), values[i], 32 * top / 16777216);
    }
}

/* The checksums of the specs: sum of g[k] and of (k+1) g[k]. */
static inline void assert_sums(rig *r, const mba_tensor *t, double sum, double weighted)
{
    double want[2] = { 0 }, have[2] = { 0 }, size[2] = { 0 };
    for (int64_t i = 0; i < mba_elems(t); i++) {
        const double k[2] = { 1, (double)(i + 1) };
        for (int j = 0; j < 2; j++) {
            want[j] += k[j] * rig_want(r, t, i);
            have[j] += k[j] * (double)rig_have(r, t, i);
            size[j] += k[j] * fabs(rig_want(r, t, i));
        }
    }
    assert_near(want[0], sum, 1e-10 * size[0]);
    assert_near(want[1], weighted, 1e-10 * size[1]);
    assert_near(have[0], sum, 32 * size[0] / 16777216);
    assert_near(have[1], weighted, 32 * size[1] / 16777216);
}

/* Forward and backward at 1, 2 and 3 threads leave the same bytes in all results and parameter gradients. */
static inline void assert_same_bits(rig *r)
{
    const int roles[] = { MBA_RESULT, MBA_GRAD };
    char     *first[2] = { 0 };
    for (int threads = 1; threads <= 3; threads++) {
        mba_cpu_set_threads(threads);
        assert_ok(mba_program_run(r->p, MBA_FORWARD | MBA_BACKWARD, &r->step, NULL));
        for (int k = 0; k < 2; k++) {
            const size_t bytes = r->p->layout.arena_bytes[roles[k]];
            if (threads == 1) first[k] = memcpy(test_malloc(bytes), r->p->memory[roles[k]], bytes);
            else assert_memory_equal(first[k], r->p->memory[roles[k]], bytes);
        }
    }
    mba_cpu_set_threads(0);
    for (int k = 0; k < 2; k++) test_free(first[k]);
}

/* fp32 against fp64 in all results and parameter gradients, by the tolerance of core/check.c: per node 8 units and
 * 4 sqrt(K) for a sum of K terms, relative to the largest value of a tensor. */
static inline void assert_close(rig *r)
{
    double units = 0;
    for (int32_t i = 0; i < r->g->nnodes; i++) {
        const mba_node *n = r->g->nodes[i];
        double          K = 1;
        for (int k = 0; k < MBA_OUT_MAX && n->op->terms; k++)
            if (n->out[k]) K = fmax(K, n->op->terms(n, k));
        units += 8 + 4 * sqrt(K);
    }
    for (int32_t k = 0; k < r->g->ntensors; k++) {
        const mba_tensor *t = r->g->tensors[k];
        if (!mba_dense(t) || !(t->st->role == MBA_RESULT || (t->st->role == MBA_GRAD && t->producer_node))) continue;
        double top = 1e-6;
        for (int64_t i = 0; i < mba_elems(t); i++) top = fmax(top, fabs(rig_want(r, t, i)));
        for (int64_t i = 0; i < mba_elems(t); i++)
            assert_near(rig_have(r, t, i), rig_want(r, t, i), units / 16777216 * top);
    }
}

/* A case too large for finite differences: y, made by `build` with a random gradient, is close to fp64 and has the
 * same bits at any number of threads. */
static inline void assert_large_case(mba_graph *g, mba_tensor *y)
{
    mba_tensor *seed = mba_input(g, "seed", y->type);
    rig         r = rig_create(g, 1, &y, &seed);
    for (int64_t i = 0; i < mba_elems(seed); i++) {
        uint32_t u[4];
        mba_philox(u, 3, 1, (uint64_t)i);
        rig_set(&r, seed, i, (float)(2 * mba_unit(u[0]) - 1));
    }
    rig_run(&r);
    assert_close(&r);
    assert_same_bits(&r);
    rig_destroy(&r);
}

#endif
