// SPDX-License-Identifier: Apache-2.0
/* kernels_test.c -- include/mba_kernels.h: plans, sizes and refusals for machines that are not present, and runs on the
 * host, where the same plan and the same calls work on host pointers. */
#include "mba_kernels.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>

#include "tests/test.h"

static const mba_kernels_machine h200 = {
    .cc = 90, .sms = 132, .regs_sm = 65536, .threads_sm = 2048, .smem_block_bytes = 232448, .smem_sm_bytes = 233472
};
static const mba_kernels_machine a100 = {
    .cc = 80, .sms = 108, .regs_sm = 65536, .threads_sm = 2048, .smem_block_bytes = 166912, .smem_sm_bytes = 167936
};
static const mba_kernels_machine host = { .cc = 0 };

static mba_kernels_desc ssd_130m(void)
{
    return (mba_kernels_desc){ .bytes = sizeof(mba_kernels_desc),
                               .op = MBA_KERNELS_SSD,
                               .type = MBA_KERNELS_BF16,
                               .batch = 8,
                               .length = 2048,
                               .heads = 24,
                               .head_dim = 64,
                               .groups = 1,
                               .state = 128,
                               .backward = 1,
                               .given = 1u << MBA_KERNELS_D | 1u << MBA_KERNELS_DT_BIAS };
}

static mba_kernels_desc scan_small(void)
{
    return (mba_kernels_desc){ .bytes = sizeof(mba_kernels_desc),
                               .op = MBA_KERNELS_SCAN,
                               .type = MBA_KERNELS_BF16,
                               .batch = 2,
                               .length = 70,
                               .heads = 64,
                               .groups = 1,
                               .state = 16,
                               .backward = 1,
                               .given = 1u << MBA_KERNELS_Z };
}

#define assert_plan(p, d, m) \
    do { \
        if (mba_kernels_plan_create(p, d, m)) fail_msg("%s", mba_kernels_error()); \
    } while (0)

static void assert_refused(const mba_kernels_desc *d, const mba_kernels_machine *m, const char *words)
{
    mba_kernels_plan *p;
    assert_int_not_equal(mba_kernels_plan_create(&p, d, m), 0);
    assert_null(p);
    if (!strstr(mba_kernels_error(), words)) fail_msg("'%s' does not say '%s'", mba_kernels_error(), words);
}

/* ---- plans ---- */

static void an_unknown_or_missing_instruction_set_is_refused(void **state)
{
    mba_kernels_plan *p;
    mba_kernels_desc  d = scan_small();
    (void)state;
    setenv("MBA_ISA", "AVX2", 1);
    assert_refused(&d, &h200, "the environment has MBA_ISA=AVX2");
#ifdef __aarch64__
    setenv("MBA_ISA", "avx2", 1);
    assert_refused(&d, &h200, "the largest instruction set of this machine is base");
#endif
    setenv("MBA_ISA", "base", 1);
    assert_plan(&p, &d, &h200);
    mba_kernels_plan_destroy(p);
    unsetenv("MBA_ISA");
}

static void a_machine_gets_the_best_variant_that_it_runs(void **state)
{
    mba_kernels_plan *p;
    mba_kernels_desc  d = ssd_130m();
    (void)state;
    assert_plan(&p, &d, &h200);
    assert_string_equal(mba_kernels_variant(p, 0), "fused");
    assert_string_equal(mba_kernels_variant(p, 1), "fused");
    mba_kernels_plan_destroy(p);
    assert_plan(&p, &d, &a100);
    assert_string_equal(mba_kernels_variant(p, 0), "fused_mma");
    assert_string_equal(mba_kernels_variant(p, 1), "fused_mma");
    mba_kernels_plan_destroy(p);
    d.type = MBA_KERNELS_F32;
    assert_plan(&p, &d, &h200);
    assert_string_equal(mba_kernels_variant(p, 1), "fma");
    mba_kernels_plan_destroy(p);
    d.variant = "fused";
    assert_refused(&d, &h200, "fp32 activations");
    d.variant = "no such";
    assert_refused(&d, &h200, "no variant no such");
}

/* Saved are a state (64, 16) of fp32 for every 8 of 70 tokens, and y before the gate. */
static void sizes_are_what_is_kept(void **state)
{
    mba_kernels_plan *p;
    mba_kernels_desc  d = scan_small();
    (void)state;
    assert_plan(&p, &d, &h200);
    assert_int_equal(mba_kernels_saved_bytes(p), 2 * 9 * 64 * 16 * 4 + 2 * 70 * 64 * 2); // a state every 8 tokens, y
    assert_true(mba_kernels_work_bytes(p, 1) > 0);
    mba_kernels_plan_destroy(p);
    d.backward = 0;
    assert_plan(&p, &d, &h200);
    assert_int_equal(mba_kernels_saved_bytes(p), 0);
    assert_int_equal(mba_kernels_work_bytes(p, 1), 0);
    assert_string_equal(mba_kernels_variant(p, 1), "");
    mba_kernels_plan_destroy(p);
}

/* A backward variant that recomputes states does not use those of `fused`, so their 60 MB are not saved. */
static void nothing_is_saved_for_who_makes_it_again(void **state)
{
    mba_kernels_plan *p;
    mba_kernels_desc  d = ssd_130m();
    (void)state;
    assert_plan(&p, &d, &h200);
    assert_true(mba_kernels_saved_bytes(p) > 50e6);
    mba_kernels_plan_destroy(p);
    d.variant = "chunked";
    assert_plan(&p, &d, &a100);
    assert_int_equal(mba_kernels_saved_bytes(p), 0);
    mba_kernels_plan_destroy(p);
    assert_int_equal(mba_kernels_saved_bytes(NULL), 0);
    assert_int_equal(mba_kernels_work_bytes(NULL, 1), 0);
    assert_string_equal(mba_kernels_variant(NULL, 0), "");
}

/* A machine that cannot hold one block of any variant. */
static void shared_memory_is_looked_at(void **state)
{
    (void)state;
    mba_kernels_machine small = h200;
    mba_kernels_desc    ssd = ssd_130m(), scan = scan_small();
    small.smem_block_bytes = 1024;
    small.smem_sm_bytes = 2048;
    assert_refused(&ssd, &small, "bytes of shared memory, the machine has 1024");
    assert_refused(&scan, &small, "bytes of shared memory, the machine has 1024");
}

static void windows_are_seen_or_refused(void **state)
{
    mba_kernels_plan *p;
    mba_kernels_desc  d = ssd_130m();
    const int64_t     row = 24 * 64 + 2 * 128;
    (void)state;
    d.view[MBA_KERNELS_X] = (mba_kernels_strided_view){ { 2048 * row, row, 64, 1 }, 0 };
    d.view[MBA_KERNELS_B] = (mba_kernels_strided_view){ { 2048 * row, row, 128, 1 }, 0 };
    assert_plan(&p, &d, &h200);
    assert_string_equal(mba_kernels_variant(p, 0), "fused");
    mba_kernels_plan_destroy(p);
    d.view[MBA_KERNELS_B].skew = 1; // rows do not begin at multiples of 16 bytes: they are copied
    assert_plan(&p, &d, &h200);
    assert_string_equal(mba_kernels_variant(p, 0), "fused");
    mba_kernels_plan_destroy(p);
    d.view[MBA_KERNELS_B].skew = 8;
    assert_refused(&d, &h200, "skew of 8");
    d.view[MBA_KERNELS_B] = (mba_kernels_strided_view){ { row, 8 * row, 128, 1 }, 0 }; // tokens before sequences
    assert_refused(&d, &h200, "B lies at strides");
}

static void wrong_descriptions_are_refused_with_a_reason(void **state)
{
    mba_kernels_desc d = ssd_130m();
    (void)state;
    d.bytes = 8;
    assert_refused(&d, &h200, "set .bytes");
    d = ssd_130m();
    d.op = 7;
    assert_refused(&d, &h200, "no operator 7");
    d = ssd_130m();
    d.type = 2;
    assert_refused(&d, &h200, "type 2");
    d = ssd_130m();
    d.groups = 5;
    assert_refused(&d, &h200, "24 heads do not share 5 groups");
    d = ssd_130m();
    d.length = 0;
    assert_refused(&d, &h200, "a dimension is 0");
    d = ssd_130m();
    d.batch = d.length = INT64_MAX / 4;
    assert_refused(&d, &h200, "no machine holds them");
    d = ssd_130m();
    d.given |= 1u << MBA_KERNELS_Z;
    assert_refused(&d, &h200, "no gate");
    d = ssd_130m();
    d.dt_min = 2;
    d.dt_max = 1;
    assert_refused(&d, &h200, "the step is to lie in");
    d = ssd_130m();
    d.given |= 1u << 31; // a bit of a future header
    assert_refused(&d, &h200, "operands that nobody knows");
    d = ssd_130m();
    d.op = MBA_KERNELS_SCAN;
    d.state = 16;
    d.dt_max = 0.1;
    assert_refused(&d, &h200, "only ssd has limits of the step");
    d.dt_max = 0;
    d.d_per_channel = 1;
    assert_refused(&d, &h200, "leave d_per_channel 0");
    assert_refused(NULL, &h200, "no description");
    d = ssd_130m();
    assert_refused(&d, &host, "x of two bytes");
}

/* ---- runs on the host ---- */

/* x, B, C are columns of one matrix, x from an odd column on; all optional operands are given. */
enum { B = 2, L = 37, H = 4, P = 3, G = 2, N = 5, ROW = H * P + 2 * G * N + 2, SKEW = 1 };
enum { XBC = B * L * ROW, DTS = B * L * H, STATES = B * H * P * N };
typedef struct numbers {
    _Alignas(256) float xbc[XBC + 8], dt[DTS], A_log[H], D[H * P], dt_bias[H], initial[STATES];
    _Alignas(16) int32_t ids[B * L];
} numbers;
typedef struct gradients {
    _Alignas(16) float x[B * L * H * P];
    _Alignas(16) float dt[DTS];
    _Alignas(16) float B_[B * L * G * N];
    _Alignas(16) float C[B * L * G * N];
    _Alignas(16) float A_log[H];
    _Alignas(16) float D[H * P];
    _Alignas(16) float dt_bias[H];
    _Alignas(16) float initial[STATES];
} gradients;
typedef struct results {
    _Alignas(16) float y[B * L * H * P];
    _Alignas(16) float final[STATES];
} results;

static float draw(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return (float)(*seed >> 8) / (float)(1 << 23) - 1;
}

static mba_kernels_desc everything(void)
{
    const int64_t step = (int64_t)L * ROW;
    return (mba_kernels_desc){ .bytes = sizeof(mba_kernels_desc),
                               .op = MBA_KERNELS_SSD,
                               .type = MBA_KERNELS_F32,
                               .batch = B,
                               .length = L,
                               .heads = H,
                               .head_dim = P,
                               .groups = G,
                               .state = N,
                               .d_per_channel = 1,
                               .final = 1,
                               .backward = 1,
                               .given = 1u << MBA_KERNELS_D | 1u << MBA_KERNELS_DT_BIAS | 1u << MBA_KERNELS_IDS
                                        | 1u << MBA_KERNELS_INITIAL,
                               .view = { [MBA_KERNELS_X] = { { step, ROW, P, 1 }, SKEW },
                                         [MBA_KERNELS_B] = { { step, ROW, N, 1 }, (SKEW + H * P) % 4 },
                                         [MBA_KERNELS_C] = { { step, ROW, N, 1 }, (SKEW + H * P + G * N) % 4 } } };
}

static mba_kernels_pointers pointers_of(const numbers *n, results *r, gradients *g, const results *d, void *work)
{
    return (mba_kernels_pointers){ .in = { [MBA_KERNELS_X] = n->xbc + SKEW,
                                           [MBA_KERNELS_DT] = n->dt,
                                           [MBA_KERNELS_B] = n->xbc + SKEW + H * P,
                                           [MBA_KERNELS_C] = n->xbc + SKEW + H * P + G * N,
                                           [MBA_KERNELS_A_LOG] = n->A_log,
                                           [MBA_KERNELS_D] = n->D,
                                           [MBA_KERNELS_DT_BIAS] = n->dt_bias,
                                           [MBA_KERNELS_IDS] = n->ids,
                                           [MBA_KERNELS_INITIAL] = n->initial },
                                   .out = { r->y, r->final },
                                   .dout = { d->y, d->final },
                                   .din = { [MBA_KERNELS_X] = g->x,
                                            [MBA_KERNELS_DT] = g->dt,
                                            [MBA_KERNELS_B] = g->B_,
                                            [MBA_KERNELS_C] = g->C,
                                            [MBA_KERNELS_A_LOG] = g->A_log,
                                            [MBA_KERNELS_D] = g->D,
                                            [MBA_KERNELS_DT_BIAS] = g->dt_bias,
                                            [MBA_KERNELS_INITIAL] = g->initial },
                                   .work = work };
}

typedef struct rig {
    numbers              n;
    results              r, d;
    gradients            g;
    mba_kernels_plan    *plan;
    void                *work;
    mba_kernels_pointers a;
} rig;

static rig *rig_create(void)
{
    const mba_kernels_desc d = everything();
    uint32_t               seed = 7;
    rig                   *q = aligned_alloc(256, (sizeof *q + 255) / 256 * 256);
    assert_non_null(q);
    for (int i = 0; i < XBC + 8; i++) q->n.xbc[i] = draw(&seed);
    for (int i = 0; i < DTS; i++) q->n.dt[i] = draw(&seed);
    for (int i = 0; i < H; i++) q->n.A_log[i] = draw(&seed), q->n.dt_bias[i] = draw(&seed);
    for (int i = 0; i < H * P; i++) q->n.D[i] = draw(&seed);
    for (int i = 0; i < STATES; i++) q->n.initial[i] = draw(&seed), q->d.final[i] = draw(&seed);
    for (int i = 0; i < B * L; i++) q->n.ids[i] = i % L / 13;
    for (int i = 0; i < B * L * H * P; i++) q->d.y[i] = draw(&seed);
    assert_plan(&q->plan, &d, &host);
    const size_t forward = mba_kernels_work_bytes(q->plan, 0), back = mba_kernels_work_bytes(q->plan, 1);
    q->work = aligned_alloc(256, ((forward > back ? forward : back) + 255) / 256 * 256);
    q->a = pointers_of(&q->n, &q->r, &q->g, &q->d, q->work);
    assert_int_equal(mba_kernels_saved_bytes(q->plan), 0);
    return q;
}

static void rig_destroy(rig *q)
{
    mba_kernels_plan_destroy(q->plan);
    free(q->work);
    free(q);
}

#define assert_ran(call) \
    do { \
        if (call) fail_msg("%s", mba_kernels_error()); \
    } while (0)

/* Computes the recurrence in double and returns sum(dy y) + sum(dfinal final), whose gradients backward computes. */
static double loss_of(const numbers *n, const results *d, results *out)
{
    double loss = 0;
    for (int i = 0; i < STATES / N; i++) { // i: sequence, head, column of x
        const int b = i / (H * P), h = i / P % H, p = i % P, g = h / (H / G);
        double    state[N];
        for (int k = 0; k < N; k++) state[k] = n->initial[i * N + k];
        for (int t = 0; t < L; t++) {
            const float *row = n->xbc + SKEW + (b * L + t) * ROW, *bt = row + H * P + g * N, *ct = bt + G * N;
            const double x = row[h * P + p], step = log1p(exp((double)n->dt[(b * L + t) * H + h] + n->dt_bias[h]));
            const bool   reset = t > 0 && n->ids[b * L + t] != n->ids[b * L + t - 1];
            double       y = n->D[h * P + p] * x;
            for (int k = 0; k < N; k++) {
                state[k] = (reset ? 0 : exp(-exp(n->A_log[h]) * step) * state[k]) + step * x * bt[k];
                y += state[k] * ct[k];
            }
            const int at = (b * L + t) * H * P + h * P + p;
            if (out) out->y[at] = (float)y;
            loss += y * d->y[at];
        }
        for (int k = 0; k < N; k++) loss += state[k] * d->final[i * N + k];
        for (int k = 0; k < N && out; k++) out->final[i * N + k] = (float)state[k];
    }
    return loss;
}

static void forward_is_the_recurrence(void **state)
{
    rig     *q = rig_create();
    results *want = malloc(sizeof *want);
    (void)state;
    assert_ran(mba_kernels_forward(q->plan, &q->a, NULL));
    loss_of(&q->n, &q->d, want);
    for (int i = 0; i < B * L * H * P; i++) assert_near(q->r.y[i], want->y[i], 2e-5); // some dozen products near 1
    for (int i = 0; i < STATES; i++) assert_near(q->r.final[i], want->final[i], 2e-5);
    free(want);
    rig_destroy(q);
}

/* Checks the slope along one value, by differences in double. Values are fp32, so the step is 1/256 after rounding. */
static void assert_slope(rig *q, float *value, float gradient)
{
    const float was = *value, by = 1.0f / 256;
    *value = was + by;
    const float  up_by = *value - was;
    const double up = loss_of(&q->n, &q->d, NULL);
    *value = was - by;
    const float  down_by = was - *value;
    const double down = loss_of(&q->n, &q->d, NULL);
    *value = was;
    const double slope = (up - down) / ((double)up_by + down_by);
    assert_near(gradient, slope, 2e-3 * (1 + fabs(slope))); // the third derivative leaves by^2 f''' / 6
}

static void gradients_are_its_slopes(void **state)
{
    rig *q = rig_create();
    (void)state;
    memset(&q->g, 0xff, sizeof q->g); // NaN: what is not written shows
    assert_ran(mba_kernels_backward(q->plan, &q->a, NULL));
    for (int i = 0; i < B * L; i += 5) {
        float *row = q->n.xbc + SKEW + i * ROW;
        assert_slope(q, row + i % (H * P), q->g.x[i * H * P + i % (H * P)]);
        assert_slope(q, row + H * P + i % (G * N), q->g.B_[i * G * N + i % (G * N)]);
        assert_slope(q, row + H * P + G * N + i % (G * N), q->g.C[i * G * N + i % (G * N)]);
        assert_slope(q, &q->n.dt[i * H + i % H], q->g.dt[i * H + i % H]);
    }
    for (int h = 0; h < H; h++) {
        assert_slope(q, &q->n.A_log[h], q->g.A_log[h]);
        assert_slope(q, &q->n.dt_bias[h], q->g.dt_bias[h]);
        assert_slope(q, &q->n.D[h * P + 1], q->g.D[h * P + 1]);
        assert_slope(q, &q->n.initial[h * P * N + 7], q->g.initial[h * P * N + 7]);
    }
    rig_destroy(q);
}

/* ---- several threads, one plan ---- */

typedef struct task {
    rig    *q;
    results r;
    void   *work;
    int     code;
} task;

static void *work_on(void *arg)
{
    task                *t = arg;
    mba_kernels_pointers a = t->q->a;
    a.work = t->work;
    a.out[MBA_KERNELS_Y] = t->r.y;
    a.out[MBA_KERNELS_FINAL] = t->r.final;
    for (int i = 0; i < 20 && !t->code; i++) t->code = mba_kernels_forward(t->q->plan, &a, NULL);
    return NULL;
}

static void threads_share_a_plan(void **state)
{
    enum { THREADS = 3 };
    rig      *q = rig_create();
    task     *t = aligned_alloc(256, THREADS * ((sizeof *t + 255) / 256 * 256));
    pthread_t id[THREADS];
    (void)state;
    assert_ran(mba_kernels_forward(q->plan, &q->a, NULL));
    for (int i = 0; i < THREADS; i++) {
        t[i].q = q;
        t[i].code = 0;
        t[i].work = aligned_alloc(256, (mba_kernels_work_bytes(q->plan, 0) + 255) / 256 * 256);
        assert_int_equal(pthread_create(&id[i], NULL, work_on, &t[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) pthread_join(id[i], NULL);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(t[i].code, 0);
        assert_memory_equal(t[i].r.y, q->r.y, sizeof q->r.y);
        free(t[i].work);
    }
    free(t);
    rig_destroy(q);
}

static void assert_stopped(int code, const char *words)
{
    assert_int_not_equal(code, 0);
    if (!strstr(mba_kernels_error(), words)) fail_msg("'%s' does not say '%s'", mba_kernels_error(), words);
}

static void wrong_pointers_are_named(void **state)
{
    rig                 *q = rig_create();
    mba_kernels_pointers a = q->a;
    mba_kernels_plan    *p;
    mba_kernels_desc     d = ssd_130m();
    (void)state;
    a.in[MBA_KERNELS_DT_BIAS] = NULL;
    assert_stopped(mba_kernels_forward(q->plan, &a, NULL), "no pointer for dt_bias");
    a = q->a;
    a.in[MBA_KERNELS_X] = q->n.xbc;
    assert_stopped(mba_kernels_forward(q->plan, &a, NULL), "x lies 0 bytes beyond a multiple of 16");
    a = q->a;
    a.din[MBA_KERNELS_C] = NULL;
    assert_stopped(mba_kernels_backward(q->plan, &a, NULL), "the gradient of C");
    a = q->a;
    a.work = NULL;
    assert_stopped(mba_kernels_forward(q->plan, &a, NULL), "no workspace");
    assert_stopped(mba_kernels_forward(q->plan, NULL, NULL), "no pointers");
    assert_stopped(mba_kernels_backward(NULL, &a, NULL), "no plan");
    assert_stopped(mba_kernels_plan_create(NULL, &d, &h200), "no place for the plan");
    assert_plan(&p, &d, &h200);
    assert_int_not_equal(mba_kernels_forward(p, &q->a, NULL), 0);
    mba_kernels_plan_destroy(p);
    d = everything();
    d.backward = 0;
    assert_plan(&p, &d, &host);
    assert_stopped(mba_kernels_backward(p, &q->a, NULL), "no backward");
    mba_kernels_plan_destroy(p);
    rig_destroy(q);
}

/* ---- the library ---- */

static void the_library_shows_its_functions_only(void **state)
{
    const char *path = getenv("MBA_KERNELS_LIBRARY");
    (void)state;
    if (!path) skip();
    void *lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!lib) fail_msg("%s", dlerror());
    assert_non_null(dlsym(lib, "mba_kernels_plan_create"));
    assert_non_null(dlsym(lib, "mba_kernels_version"));
    assert_null(dlsym(lib, "mba_program_create"));
    assert_null(dlsym(lib, "mba_op_ssd"));
    dlclose(lib);
}

MBA_TEST_MAIN(cmocka_unit_test(an_unknown_or_missing_instruction_set_is_refused),
              cmocka_unit_test(a_machine_gets_the_best_variant_that_it_runs), cmocka_unit_test(sizes_are_what_is_kept),
              cmocka_unit_test(nothing_is_saved_for_who_makes_it_again), cmocka_unit_test(shared_memory_is_looked_at),
              cmocka_unit_test(windows_are_seen_or_refused),
              cmocka_unit_test(wrong_descriptions_are_refused_with_a_reason),
              cmocka_unit_test(forward_is_the_recurrence), cmocka_unit_test(gradients_are_its_slopes),
              cmocka_unit_test(threads_share_a_plan), cmocka_unit_test(wrong_pointers_are_named),
              cmocka_unit_test(the_library_shows_its_functions_only))
