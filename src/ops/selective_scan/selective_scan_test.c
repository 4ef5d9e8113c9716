// SPDX-License-Identifier: Apache-2.0
/* selective_scan_test.c -- golden values, states passed from call to call, long sequences, documents, threads.
 * tests/operators_test.c proves over `cases` that every variant agrees with the reference, and the reference with
 * finite differences. */
#include "tests/test.h"

#include "core/check.h"
#include "core/program.h"
#include "ops/selective_scan/selective_scan.h"
#include "ops/selective_scan/selective_scan_slots.h"
#include "tests/gpu_cases.h"

static const mba_machine host = { .name = "host" };
static const mba_step    step = { 0 };

/* ---- golden values ---- */

enum { E = 2, L = 5, N = 3 };

static double wave(double amp, double fr, double ph, int k) { return amp * sin(fr * k + ph); }

/* The published layout is [channel][time]; ours is [time][channel]. */
static void fill_turned(double *x, int rows, double amp, double fr, double ph)
{
    for (int r = 0; r < rows; r++)
        for (int t = 0; t < L; t++) x[t * rows + r] = wave(amp, fr, ph, r * L + t);
}

static void fill(double *x, int n, double amp, double fr, double ph)
{
    for (int k = 0; k < n; k++) x[k] = wave(amp, fr, ph, k);
}

static double u[L * E], delta[L * E], z[L * E], B[L * N], C[L * N], dout[L * E], A_log[E * N], D[E], dt_bias[E];
static double space[L * N + L + 2 * N]; // selective_scan_ref_space

static mba_ref_call golden_call(mba_node *n, mba_tensor t[4])
{
    fill_turned(u, E, 1, .7, .1);
    fill_turned(delta, E, .8, .5, .3);
    fill_turned(z, E, 1.2, .9, .2);
    fill_turned(B, N, 1, .6, .4);
    fill_turned(C, N, 1, .8, .5);
    fill_turned(dout, E, 1, .3, .7);
    fill(A_log, E * N, .5, 1.1, .6);
    fill(D, E, .5, 1, 1);
    fill(dt_bias, E, .4, 1, 2);
    t[0].type = MBA_TYPE(MBA_F32, 1, L, E);
    t[1].type = MBA_TYPE(MBA_F32, 1, L, N);
    *n = (mba_node){ .in = { [U] = &t[0], [DELTA] = &t[0], [BM] = &t[1], [CM] = &t[1] } };
    assert_int_equal(selective_scan_ref_space(n), sizeof space / sizeof *space);
    return (mba_ref_call){ .node = n,
                           .space = space,
                           .in = { [U] = u,
                                   [DELTA] = delta,
                                   [A_LOG] = A_log,
                                   [BM] = B,
                                   [CM] = C,
                                   [SKIP] = D,
                                   [Z] = z,
                                   [DT_BIAS] = dt_bias,
                                   [DOUT] = dout } };
}

static void forward_gives_the_golden_values(void **state)
{
    (void)state;
    static const double y[E * L] = { 0.0968576870,  1.6969840048,  1.0825630809,  -1.4006597919, -0.7088432762,
                                     -0.4047085258, -1.4833382418, -0.9137744714, 0.7576720087,  1.4021441901 };
    static const double out[E * L] = { 0.0129153625, 1.3511322001, 0.8842803216,  -0.2297301949, 0.1687660839,
                                       0.1124153210, 0.3586548297, -0.1330818131, 0.6097287528,  1.1339036482 };
    static const double last[E * N] = { 0.3142246283,  -0.2831840540, 0.4766282599,
                                        -0.6343721108, 0.6594226583,  -0.4743165823 };
    double              got[L * E] = { 0 }, h[E * N] = { 0 };
    mba_node            n;
    mba_tensor          t[4];
    mba_ref_call        c = golden_call(&n, t);
    c.out[OUT] = got;
    c.out[FINAL] = h;
    selective_scan_ref(&c);
    for (int k = 0; k < E * L; k++) assert_near(got[k % L * E + k / L], out[k], 6e-11);
    for (int k = 0; k < E * N; k++) assert_near(h[k], last[k], 6e-11);
    c.in[Z] = NULL; // without the gate: y itself
    selective_scan_ref(&c);
    for (int k = 0; k < E * L; k++) assert_near(got[k % L * E + k / L], y[k], 6e-11);
}

/* Sum and weighted sum in the order of the published layout. turned: our layout is [time][row]. */
static void assert_checksum(const double *g, int rows, int cols, bool turned, double sum, double weighted)
{
    double s = 0, w = 0;
    for (int k = 0; k < rows * cols; k++) {
        const double v = turned ? g[k % cols * rows + k / cols] : g[k];
        s += v;
        w += (k + 1) * v;
    }
    assert_near(s, sum, 1e-11 * (1 + fabs(sum)));
    assert_near(w, weighted, 1e-11 * (1 + fabs(weighted)));
}

static void backward_gives_the_golden_checksums(void **state)
{
    (void)state;
    double        du[L * E] = { 0 }, dd[L * E] = { 0 }, dz[L * E] = { 0 }, dB[L * N] = { 0 }, dC[L * N] = { 0 };
    double        dA[E * N] = { 0 }, dD[E] = { 0 }, db[E] = { 0 };
    mba_node      n;
    mba_tensor    t[4];
    mba_ref_call  c = golden_call(&n, t);
    double *const out[GRADS] = { du, dd, dA, dB, dC, dD, dz, db };
    memcpy(c.out, out, sizeof out);
    selective_scan_bwd_ref(&c);
    assert_checksum(du, E, L, true, 2.598268183035, 6.480571760263);
    assert_checksum(dd, E, L, true, 0.7080210557617, 1.802272466566);
    assert_checksum(dA, E, N, false, -0.05590229232475, 0.6938550259653);
    assert_checksum(dB, N, L, true, 0.2796429454588, -10.86222409714);
    assert_checksum(dC, N, L, true, 1.902215012935, 13.63698713797);
    assert_checksum(dD, E, 1, false, 1.495590483789, 1.638246531147);
    assert_checksum(dz, E, L, true, 0.7331119424107, -4.083151333161);
    assert_checksum(db, E, 1, false, 0.7080210557617, 0.7805661580408);
}

/* ---- graphs that run ---- */

/* A scan of parameters with initial and final state; ids if `documents`. */
typedef struct model {
    mba_graph              *g;
    mba_program            *p;
    mba_selective_scan_args a;
    mba_tensor             *out, *final, *seed[2];
} model;

static mba_tensor *param(model *m, const char *name, mba_type type, mba_init init)
{
    return mba_param(m->g, name, type, init, MBA_DECAY);
}

static void make_inputs(model *m, scan_dims d, bool documents)
{
    const mba_type x = MBA_TYPE(MBA_F32, d.B, d.L, d.D), s = MBA_TYPE(MBA_F32, d.B, d.L, d.G, d.N);
    const mba_init A = documents ? MBA_INIT_LOG_UNIFORM(0.1, 2) : MBA_INIT_LOG_UNIFORM(1e-6, 1e-3); // weak decay
    assert_ok(mba_graph_create(&m->g));
    m->a = (mba_selective_scan_args){ .u = param(m, "u", x, MBA_INIT_NORMAL(1)),
                                      .delta = param(m, "delta", x, MBA_INIT_NORMAL(1)),
                                      .A_log = param(m, "A_log", MBA_TYPE(MBA_F32, d.D, d.N), A),
                                      .B = param(m, "B", s, MBA_INIT_NORMAL(1)),
                                      .C = param(m, "C", s, MBA_INIT_NORMAL(1)),
                                      .D = param(m, "D", MBA_TYPE(MBA_F32, d.D), MBA_INIT_NORMAL(1)),
                                      .z = param(m, "z", x, MBA_INIT_NORMAL(1)),
                                      .dt_bias = param(m, "dt_bias", MBA_TYPE(MBA_F32, d.D), MBA_INIT_STEP(0.001, 0.1)),
                                      .initial = param(m, "initial", MBA_TYPE(MBA_F32, d.B, d.D, d.N),
                                                       MBA_INIT_NORMAL(1)) };
    if (documents) m->a.ids = mba_input(m->g, "ids", MBA_TYPE(MBA_I32, d.B, d.L));
}

/* Documents begin at token 1, at the last token, and around the boundaries of chunks and segments. */
static int32_t document_of(int64_t t, int64_t length)
{
    int32_t id = 0;
    for (int64_t at = SEGMENT; at <= length; at += SEGMENT) id += 3 * (t >= at - 1) + (t >= at) - 2 * (t >= at + 5);
    return id + (t >= 1) + 7 * (t == length - 1);
}

static float seed_value(int64_t i) { return (float)((i * 7919 + 13) % 1009) / 504 - 1; }

/* Adds the backward pass of out and final, binds memory, and sets all values. */
static void make_ready(model *m, int threads)
{
    const scan_dims d = { .B = m->out->type.dim[0], .L = m->out->type.dim[1] };
    mba_result(m->g, "out", m->out);
    mba_result(m->g, "final", m->final);
    m->seed[0] = mba_input(m->g, "dout", m->out->type);
    m->seed[1] = mba_input(m->g, "dfinal", m->final->type);
    assert_ok(mba_backward_from(m->g, 2, (mba_tensor *[]){ m->out, m->final }, m->seed));
    mba_cpu_set_threads(threads);
    assert_ok(mba_program_create(&m->p, m->g, &(mba_program_options){ .machine = &host }));
    assert_ok(mba_program_bind(m->p, &mba_device_cpu));
    assert_ok(mba_program_init(m->p, 3));
    for (int s = 0; s < 2; s++)
        for (int64_t i = 0; i < mba_elems(m->seed[s]); i++)
            ((float *)mba_program_at(m->p, m->seed[s]))[i] = seed_value(i);
    for (int64_t i = 0; m->a.ids && i < d.B * d.L; i++)
        ((int32_t *)mba_program_at(m->p, m->a.ids))[i] = document_of(i % d.L, d.L);
}

static model make_model(scan_dims d, bool documents, int threads)
{
    model m = { 0 };
    make_inputs(&m, d, documents);
    m.a.final = &m.final;
    m.out = mba_selective_scan_of(m.g, &m.a);
    make_ready(&m, threads);
    return m;
}

static void run(model *m) { assert_ok(mba_program_run(m->p, MBA_FORWARD | MBA_BACKWARD, &step, NULL)); }

static void end_model(model *m)
{
    mba_program_destroy(m->p);
    mba_graph_destroy(m->g);
    mba_cpu_set_threads(0);
}

/* All gradients of parameters, as one flat tensor. */
static mba_tensor *gradients(model *m) { return mba_flat_grads(m->g, MBA_DECAY); }

static int64_t differing(const model *a, const mba_tensor *x, const model *b, const mba_tensor *y)
{
    int64_t         n = 0;
    const uint32_t *p = mba_program_at(a->p, x), *q = mba_program_at(b->p, y);
    for (int64_t i = 0; i < mba_elems(x); i++) n += p[i] != q[i];
    return n;
}

/* ---- claims ---- */

static void same_bits_at_any_number_of_threads(void **state)
{
    (void)state;
    const scan_dims d = { 3, 2 * SEGMENT + 37, 2 * (STRIP + 19), 5, 2 };
    model           one = make_model(d, true, 1);
    run(&one);
    for (int threads = 2; threads <= 3; threads++) {
        model m = make_model(d, true, threads);
        run(&m);
        assert_int_equal(differing(&one, one.out, &m, m.out), 0);
        assert_int_equal(differing(&one, one.final, &m, m.final), 0);
        assert_int_equal(differing(&one, gradients(&one), &m, gradients(&m)), 0);
        end_model(&m);
    }
    model few = make_model(d, true, 1); // planned for fewer threads than it runs with
    mba_cpu_set_threads(3);
    run(&few);
    assert_int_equal(differing(&one, gradients(&one), &few, gradients(&few)), 0);
    end_model(&few);
    end_model(&one);
}

/* The same sequence in two parts with the state passed on; the parts are strided views along time. */
static model make_halves(scan_dims d, int64_t first)
{
    model m = { 0 };
    make_inputs(&m, d, false);
    mba_selective_scan_args part[2] = { m.a, m.a };
    mba_tensor             *middle, *out[2];
    for (int i = 0; i < 2; i++) {
        mba_tensor **const cut[] = { &part[i].u, &part[i].delta, &part[i].z, &part[i].B, &part[i].C };
        for (int k = 0; k < 5; k++) *cut[k] = mba_slice(m.g, *cut[k], 1, i * first, i ? d.L - first : first);
    }
    part[0].final = &middle;
    out[0] = mba_selective_scan_of(m.g, &part[0]);
    part[1].initial = middle;
    part[1].final = &m.final;
    out[1] = mba_selective_scan_of(m.g, &part[1]);
    mba_result(m.g, "first", out[0]);
    m.out = out[1];
    mba_tensor *seed = mba_input(m.g, "dfirst", out[0]->type);
    m.a.ids = NULL;
    m.seed[0] = mba_input(m.g, "dout", m.out->type);
    m.seed[1] = mba_input(m.g, "dfinal", m.final->type);
    mba_result(m.g, "out", m.out);
    mba_result(m.g, "final", m.final);
    assert_ok(mba_backward_from(m.g, 3, (mba_tensor *[]){ out[0], m.out, m.final },
                                (mba_tensor *[]){ seed, m.seed[0], m.seed[1] }));
    assert_ok(mba_program_create(&m.p, m.g, &(mba_program_options){ .machine = &host }));
    assert_ok(mba_program_bind(m.p, &mba_device_cpu));
    assert_ok(mba_program_init(m.p, 3));
    for (int64_t b = 0; b < d.B; b++)
        for (int64_t i = 0; i < d.L * d.D; i++) {
            const int64_t at = i < first * d.D ? b * first * d.D + i : b * (d.L - first) * d.D + i - first * d.D;
            ((float *)mba_program_at(m.p, i < first * d.D ? seed : m.seed[0]))[at] = seed_value(b * d.L * d.D + i);
        }
    for (int64_t i = 0; i < mba_elems(m.final); i++) ((float *)mba_program_at(m.p, m.seed[1]))[i] = seed_value(i);
    return m;
}

static void two_halves_equal_the_whole(void **state)
{
    (void)state;
    const scan_dims d = { 2, SEGMENT + 91, 21, 6, 3 };
    model           whole = make_model(d, false, 0), halves = make_halves(d, 150);
    run(&whole);
    run(&halves);
    const float *a = mba_program_at(whole.p, whole.out), *b = mba_program_at(halves.p, halves.out);
    for (int64_t i = 0; i < d.B * (d.L - 150) * d.D; i++) { // the same bits
        const int64_t half = (d.L - 150) * d.D;
        assert_true(a[i / half * d.L * d.D + 150 * d.D + i % half] == b[i]);
    }
    assert_int_equal(differing(&whole, whole.final, &halves, halves.final), 0);
    const float *da = mba_program_at(whole.p, gradients(&whole)), *db = mba_program_at(halves.p, gradients(&halves));
    double       top = 0;
    for (int64_t i = 0; i < mba_elems(gradients(&whole)); i++) top = fmax(top, fabs(da[i]));
    for (int64_t i = 0; i < mba_elems(gradients(&whole)); i++) // sums over time have another order
        assert_near(db[i], da[i], 4 * sqrt((double)(d.B * d.L)) * 0x1p-24 * top);
    end_model(&whole);
    end_model(&halves);
}

/* The tolerance of mba_check: 8 + 4 sqrt(K) units of 2^-24 of the largest value, for each of the two nodes. */
static void assert_like_reference(model *m, mba_reference *r, const mba_tensor *t, double terms)
{
    const double *want = mba_reference_at(r, t);
    const float  *have = mba_program_at(m->p, t);
    double        top = 0;
    for (int64_t i = 0; i < mba_elems(t); i++) top = fmax(top, fabs(want[i]));
    for (int64_t i = 0; i < mba_elems(t); i++) assert_near(have[i], want[i], (16 + 8 * sqrt(terms)) * 0x1p-24 * top);
}

static void assert_length_like_reference(scan_dims d, bool documents)
{
    model          m = make_model(d, documents, 0);
    mba_reference *r;
    assert_ok(mba_reference_create(&r, m.g));
    for (int32_t k = 0; k < m.g->ntensors; k++) {
        const mba_tensor *t = m.g->tensors[k];
        const bool        i32 = t->type.dtype == MBA_I32;
        if (t->st->role != MBA_INPUT && !(t->st->role == MBA_PARAM && !t->producer_node)) continue;
        const void *at = mba_program_at(m.p, t);
        for (int64_t i = 0; i < mba_elems(t); i++)
            mba_reference_at(r, t)[i] = i32 ? ((const int32_t *)at)[i] : ((const float *)at)[i];
    }
    run(&m);
    assert_ok(mba_reference_run(r, MBA_FORWARD | MBA_BACKWARD, &step));
    assert_like_reference(&m, r, m.out, (double)(d.L * d.N));
    assert_like_reference(&m, r, m.final, (double)(d.L * d.N));
    for (int32_t k = 0; k < m.g->ntensors; k++)
        if (m.g->tensors[k]->st->role == MBA_GRAD && m.g->tensors[k]->producer_node)
            assert_like_reference(&m, r, m.g->tensors[k], (double)(d.B * d.L * d.N));
    mba_reference_destroy(r);
    end_model(&m);
}

static void any_length_agrees_with_the_reference(void **state)
{
    (void)state;
    for (int documents = 0; documents < 2; documents++) {
        assert_length_like_reference((scan_dims){ 2, SEGMENT, STRIP_MIN + 1, 4, 1 }, documents);
        assert_length_like_reference((scan_dims){ 1, SEGMENT + 1, 2 * STRIP + 6, 7, 2 }, documents);
        assert_length_like_reference((scan_dims){ ITEMS_MIN, SEGMENT + 2, STRIP + 5, 2, 1 }, documents);
        assert_length_like_reference((scan_dims){ 1, 4 * SEGMENT + 11, 3, 3, 1 }, documents);
        assert_length_like_reference((scan_dims){ 1, 16 * SEGMENT + 1, 6, 2, 1 }, documents);
    }
}

static void any_number_of_states_agrees_with_the_reference(void **state)
{
    (void)state;
    static const int64_t states[] = { 1, 2, 3, 8, 16, 24, 32, 64, 100, 128, 256 };
    for (size_t i = 0; i < sizeof states / sizeof *states; i++) {
        assert_length_like_reference((scan_dims){ 2, 1, 5, states[i], 1 }, true);
        assert_length_like_reference((scan_dims){ 1, 19, 34, states[i], 2 }, i % 2);
    }
}

/* One token of one channel, by hand: h = a h0 + dt u B, out = C h; a raw step above 20 is the step itself. */
static void large_steps_are_taken_as_they_are(void **state)
{
    (void)state;
    model          m = { 0 };
    const mba_type one = MBA_TYPE(MBA_F32, 1, 1, 1);
    assert_ok(mba_graph_create(&m.g));
    m.a = (mba_selective_scan_args){ .u = param(&m, "u", one, MBA_INIT_CONST(3)),
                                     .delta = param(&m, "delta", one, MBA_INIT_CONST(24)),
                                     .dt_bias = param(&m, "dt_bias", MBA_TYPE(MBA_F32, 1), MBA_INIT_CONST(1)),
                                     .A_log = param(&m, "A_log", MBA_TYPE(MBA_F32, 1, 1), MBA_INIT_CONST(0)),
                                     .B = param(&m, "B", one, MBA_INIT_CONST(2)),
                                     .C = param(&m, "C", one, MBA_INIT_CONST(0.5)),
                                     .final = &m.final };
    m.out = mba_selective_scan_of(m.g, &m.a);
    make_ready(&m, 1);
    ((float *)mba_program_at(m.p, m.seed[0]))[0] = 1;
    ((float *)mba_program_at(m.p, m.seed[1]))[0] = 10;
    run(&m);
    assert_near(*(float *)mba_program_at(m.p, m.final), 25 * 3 * 2, 0);
    assert_near(*(float *)mba_program_at(m.p, m.out), 0.5 * 25 * 3 * 2, 0);
    const double lam = 0.5 + 10, want[] = { lam * 25 * 2, lam * 3 * 2, lam * 3 * 2, 0, lam * 25 * 3, 25 * 3 * 2 };
    mba_tensor  *x[] = { m.a.u, m.a.delta, m.a.dt_bias, m.a.A_log, m.a.B, m.a.C };
    for (int k = 0; k < 6; k++) assert_near(*(float *)mba_program_at(m.p, mba_grad_of(m.g, x[k])), want[k], 0);
    end_model(&m);
}

static void a_broken_document_leaves_the_next_one_whole(void **state)
{
    (void)state;
    const scan_dims d = { 1, 40, 5, 4, 1 };
    model           m = make_model(d, true, 0);
    for (int64_t t = 0; t < d.L; t++) ((int32_t *)mba_program_at(m.p, m.a.ids))[t] = t >= 17;
    ((float *)mba_program_at(m.p, m.a.u))[16 * d.D + 2] = INFINITY;
    run(&m);
    for (int64_t i = 17 * d.D; i < d.L * d.D; i++) assert_true(isfinite(((float *)mba_program_at(m.p, m.out))[i]));
    const float *ddelta = mba_program_at(m.p, mba_grad_of(m.g, m.a.delta));
    for (int64_t i = 17 * d.D; i < d.L * d.D; i++) assert_true(isfinite(ddelta[i]));
    end_model(&m);
}

/* Sizes that are too large for finite differences: segmented and packed sequences, several blocks of channels, ragged
 * ends, wide blocks. */
static void long_and_short_sequences_agree_with_fp64_on_the_gpu(void **state)
{
    (void)state;
    static const mba_case cases[] = {
        { { 3, 15, 32, 16, 1, 0 }, "less than a tile" },
        { { 3, 16, 40, 16, 1, WITH_IDS }, "a tile; a block and eight channels" },
        { { 2, 17, 64, 16, 1, WITH_INITIAL | WITH_FINAL }, "a tile and a token, from state to state" },
        { { 5, 33, 96, 16, 1, NO_Z | NO_SKIP }, "two tiles and a token; neither gate nor skip" },
        { { 2, 100, 32, 16, 1, NO_BIAS | WITH_IDS | WITH_FINAL }, "no bias" },
        { { 3, 15, 64, 8, 1, WITH_IDS }, "eight states, less than a tile" },
        { { 3, 16, 40, 8, 1, 0 }, "eight states, a tile; less than a block" },
        { { 2, 17, 96, 8, 1, WITH_INITIAL | WITH_FINAL | WITH_IDS },
          "eight states, a tile and a token; a block and a half" },
        { { 2, 100, 72, 8, 2, NO_SKIP }, "eight states, two groups of 36" },
        { { 2, 48, 64, 16, 1, 0 }, "whole tiles and blocks of channels" },
        { { 1, 1600, 64, 16, 1, 0 }, "the same in segments" },
        { { 2, 272, 64, 16, 1, 0 }, "the same in blocks of 16 channels" },
        { { 2, 260, 44, 16, 1, WITH_IDS | WITH_INITIAL | WITH_FINAL }, "blocks of 16 channels, from state to state" },
        { { 2, 48, 64, 16, 1, WINDOWS, 16 }, "the same in windows" },
        { { 2, 48, 64, 16, 1, WINDOWS, 12 }, "u and z are halves of rows, B and C columns of others" },
        { { 2, 40, 64, 8, 1, WINDOWS | WITH_IDS, 4 }, "the same with eight states and documents" },
        { { 513, 24, 36, 8, 1, NO_Z | WITH_IDS }, "packs that the forward keeps states of, eight states" },
        { { 513, 24, 36, 16, 1, 0 }, "packs that the forward keeps states of, the last one short" },
        { { 1, 500, 36, 16, 1, WITH_IDS }, "segments, a ragged block" },
        { { 2, 490, 40, 8, 1, WITH_IDS | WITH_INITIAL | WITH_FINAL }, "segments, initial and final states, N = 8" },
        { { 1, 3000, 40, 16, 2, 0 }, "many segments, two groups" },
        { { 520, 23, 36, 16, 1, WITH_IDS }, "packs of short sequences" },
        { { 1100, 5, 44, 8, 1, NO_Z }, "packs of sequences shorter than a tile, eight states" },
        { { 16, 49, 320, 8, 1, NO_Z | RANK3 }, "windows of an image" },
        { { 4, 32, 4096, 16, 1, WINDOWS }, "wide blocks" },
        { { 2, 100, 70, 33, 1, WITH_IDS }, "33 states: three groups, channels not a multiple of four" },
        { { 3, 33, 37, 1, 1, 0 }, "one state, an odd number of channels" },
        { { 1, 700, 64, 1, 1, WITH_IDS | WITH_INITIAL | WITH_FINAL }, "one state, segments" },
        { { 2, 40, 66, 2, 2, NO_Z }, "two states, groups of 33 channels" },
        { { 140, 33, 37, 1, 1, 0 }, "one state, many sequences" },
        { { 70, 150, 66, 1, 2, WITH_IDS | WITH_INITIAL | WITH_FINAL },
          "one state, two groups, documents, from state to state" },
        { { 67, 65, 34, 2, 1, NO_Z | NO_SKIP | NO_BIAS },
          "two states, four tiles and a token, neither gate nor skip nor bias" },
        { { 67, 64, 40, 3, 1, WITH_IDS | WINDOWS }, "three states, documents, views" },
        { { 140, 7, 32, 4, 1, WITH_INITIAL | WITH_FINAL }, "four states, less than a tile" },
        { { 2, 51, 36, 3, 1, WITH_INITIAL | WITH_FINAL }, "three states, from state to state" },
        { { 520, 9, 33, 4, 1, NO_Z }, "four states: packs, an odd number of channels" },
        { { 2, 49, 35, 8, 1, WITH_IDS }, "eight states, an odd number of channels" },
        { { 1, 333, 101, 16, 1, WITH_FINAL }, "sixteen states, an odd number of channels, segments" },
        { { 2, 64, 50, 16, 1, WITH_IDS | WITH_INITIAL }, "sixteen states, 50 channels" },
        { { 2, 35, 40, 24, 1, 0 }, "24 states: a group and a half" },
        { { 2, 300, 64, 32, 1, WITH_IDS | WITH_INITIAL | WITH_FINAL }, "32 states, segments, documents" },
        { { 3, 48, 96, 64, 1, 0 }, "64 states" },
        { { 3, 17, 45, 64, 3, WITH_FINAL }, "64 states, groups of 15 channels" },
        { { 2, 23, 34, 100, 1, NO_SKIP | NO_BIAS }, "100 states" },
        { { 2, 1, 64, 128, 1, WITH_INITIAL | WITH_FINAL }, "128 states, one token" },
        { { 1, 40, 33, 256, 1, WINDOWS }, "256 states, odd windows" },
        { { 70, 5, 34, 32, 1, WITH_IDS }, "32 states, packs of short sequences" },
        { { 0 }, NULL }
    };
    assert_right_on_the_gpu(&mba_op_selective_scan, cases);
}

static void wrong_shapes_are_explained(void **state)
{
    (void)state;
    model m = { 0 };
    make_inputs(&m, (scan_dims){ 1, 4, 6, 2, 3 }, false);
    mba_selective_scan_args a = m.a;
    a.D = m.a.u;
    mba_selective_scan_of(m.g, &a);
    assert_fails(mba_graph_status(m.g), MBA_E_SHAPE, "D is not (6)");
    mba_graph_destroy(m.g);
    make_inputs(&m, (scan_dims){ 1, 4, 6, 2, 4 }, false);
    mba_selective_scan_of(m.g, &m.a);
    assert_fails(mba_graph_status(m.g), MBA_E_SHAPE, "6 channels do not split into 4 groups");
    mba_graph_destroy(m.g);
}

MBA_TEST_MAIN(cmocka_unit_test(forward_gives_the_golden_values), cmocka_unit_test(backward_gives_the_golden_checksums),
              cmocka_unit_test(same_bits_at_any_number_of_threads), cmocka_unit_test(two_halves_equal_the_whole),
              cmocka_unit_test(any_length_agrees_with_the_reference),
              cmocka_unit_test(any_number_of_states_agrees_with_the_reference),
              cmocka_unit_test(large_steps_are_taken_as_they_are),
              cmocka_unit_test(a_broken_document_leaves_the_next_one_whole),
              cmocka_unit_test(long_and_short_sequences_agree_with_fp64_on_the_gpu),
              cmocka_unit_test(wrong_shapes_are_explained))
