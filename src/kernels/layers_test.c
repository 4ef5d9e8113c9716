// SPDX-License-Identifier: Apache-2.0
/* layers_test.c -- include/mba_kernels.h: conv1d and the gated norm on the host, on columns of one wide matrix, with
 * gradients that lie where their operands do. */
#include "mba_kernels.h"

#include "tests/test.h"

enum { B = 2, L = 11, H = 2, P = 6, D = H * P, W = 4, ROW = 3 * D, ROWS = B * L };
static const mba_kernels_machine host = { .cc = 0 };
static const mba_kernels_machine h200 = {
    .cc = 90, .sms = 132, .regs_sm = 65536, .threads_sm = 2048, .smem_block_bytes = 232448, .smem_sm_bytes = 233472
};

/* Columns of `wide`: z, x, and D that nothing reads; `dwide` has their gradients. */
typedef struct rig {
    _Alignas(256) float wide[ROWS * ROW], dwide[ROWS * ROW], dy[ROWS * D], y[ROWS * D];
    _Alignas(16) float weight[D * W], bias[D], initial[B * (W - 1) * D], final[B * (W - 1) * D];
    _Alignas(16) float dweight[D * W], dbias[D], dinitial[B * (W - 1) * D], dfinal[B * (W - 1) * D];
    _Alignas(16) int32_t ids[ROWS];
    _Alignas(256) char saved[4096];
    _Alignas(256) char work[1 << 16];
} rig;

static void fill(float *at, size_t n, uint32_t seed)
{
    for (size_t i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        at[i] = (float)(seed >> 8) / (float)(1 << 23) - 1;
    }
}

static rig *rig_create(void)
{
    rig *q = aligned_alloc(256, (sizeof *q + 255) / 256 * 256);
    assert_non_null(q);
    memset(q, 0, sizeof *q);
    fill(q->wide, ROWS * ROW, 1);
    fill(q->dy, ROWS * D, 2);
    fill(q->weight, D * W, 3);
    fill(q->bias, D, 4);
    fill(q->initial, B * (W - 1) * D, 5);
    fill(q->dfinal, B * (W - 1) * D, 6);
    for (int i = 0; i < ROWS; i++) q->ids[i] = i % L / 5;
    for (int i = 0; i < ROWS * ROW; i++) q->dwide[i] = 77;
    return q;
}

static const mba_kernels_strided_view columns = { { (int64_t)L * ROW, ROW, 1 }, 0 };

static mba_kernels_desc conv(uint32_t given, int final)
{
    return (mba_kernels_desc){ .bytes = sizeof(mba_kernels_desc),
                               .op = MBA_KERNELS_CONV1D,
                               .batch = B,
                               .length = L,
                               .heads = D,
                               .taps = W,
                               .silu = 1,
                               .given = given,
                               .final = final,
                               .backward = MBA_KERNELS_GRADS_STRIDED,
                               .view = { [MBA_KERNELS_X] = columns } };
}

static mba_kernels_desc norm(void)
{
    return (mba_kernels_desc){ .bytes = sizeof(mba_kernels_desc),
                               .op = MBA_KERNELS_GATED_NORM,
                               .batch = B,
                               .length = L,
                               .heads = H,
                               .head_dim = P,
                               .eps = 0.1,
                               .backward = MBA_KERNELS_GRADS_STRIDED,
                               .view = { [MBA_KERNELS_X] = columns, [MBA_KERNELS_Z] = columns } };
}

static mba_kernels_pointers pointers_of(rig *q)
{
    return (mba_kernels_pointers){ .in = { [MBA_KERNELS_X] = q->wide + D,
                                           [MBA_KERNELS_Z] = q->wide,
                                           [MBA_KERNELS_WEIGHT] = q->weight,
                                           [MBA_KERNELS_BIAS] = q->bias,
                                           [MBA_KERNELS_IDS] = q->ids,
                                           [MBA_KERNELS_INITIAL] = q->initial },
                                   .out = { q->y, q->final },
                                   .dout = { q->dy, q->dfinal },
                                   .din = { [MBA_KERNELS_X] = q->dwide + D,
                                            [MBA_KERNELS_Z] = q->dwide,
                                            [MBA_KERNELS_WEIGHT] = q->dweight,
                                            [MBA_KERNELS_BIAS] = q->dbias,
                                            [MBA_KERNELS_INITIAL] = q->dinitial },
                                   .saved = q->saved,
                                   .work = q->work };
}

static void run(rig *q, const mba_kernels_desc *d)
{
    mba_kernels_plan          *p;
    const mba_kernels_pointers a = pointers_of(q);
    if (mba_kernels_plan_create(&p, d, &host)) fail_msg("%s", mba_kernels_error());
    assert_true(mba_kernels_saved_bytes(p) <= sizeof q->saved);
    assert_true(mba_kernels_work_bytes(p, 0) <= sizeof q->work && mba_kernels_work_bytes(p, 1) <= sizeof q->work);
    if (mba_kernels_forward(p, &a, NULL) || mba_kernels_backward(p, &a, NULL)) fail_msg("%s", mba_kernels_error());
    mba_kernels_plan_destroy(p);
}

static double silu(double v) { return v / (1 + exp(-v)); }

/* sum(dy y) + sum(dfinal final) in double; the results go to y and final unless these are NULL. */
static double conv_loss(const rig *q, const mba_kernels_desc *d, float *y, float *final)
{
    const bool has_ids = d->given >> MBA_KERNELS_IDS & 1, has_initial = d->given >> MBA_KERNELS_INITIAL & 1;
    double     loss = 0;
    for (int i = 0; i < ROWS * D; i++) {
        const int c = i % D, t = i / D % L, b = i / D / L;
        double    a = q->bias[c];
        for (int k = 0; k < W; k++) {
            const int    from = t - (W - 1) + k;
            const double before = has_initial ? q->initial[(b * (W - 1) + (from + W - 1) % (W - 1)) * D + c] : 0;
            if (from < 0) a += q->weight[c * W + k] * before;
            else if (!has_ids || q->ids[b * L + from] == q->ids[b * L + t])
                a += (double)q->weight[c * W + k] * q->wide[(b * L + from) * ROW + D + c];
        }
        if (y) y[i] = (float)silu(a);
        loss += q->dy[i] * silu(a);
    }
    for (int i = 0; d->final && i < B * (W - 1) * D; i++) {
        const int c = i % D, t = L - (W - 1) + i / D % (W - 1), b = i / D / (W - 1);
        loss += (double)q->dfinal[i] * q->wide[(b * L + t) * ROW + D + c];
        if (final) final[i] = q->wide[(b * L + t) * ROW + D + c];
    }
    return loss;
}

static double norm_loss(const rig *q, const mba_kernels_desc *d, float *y, float *final)
{
    double loss = 0;
    (void) final;
    for (int r = 0; r < ROWS * H; r++) {
        const float *z = q->wide + r / H * ROW + r % H * P, *x = z + D;
        double       squares = 0;
        for (int c = 0; c < P; c++) squares += pow(x[c] * silu(z[c]), 2);
        for (int c = 0; c < P; c++) {
            const double v = q->weight[r % H * P + c] * x[c] * silu(z[c]) / sqrt(squares / P + d->eps);
            if (y) y[r * P + c] = (float)v;
            loss += q->dy[r * P + c] * v;
        }
    }
    return loss;
}

typedef double loss_fn(const rig *q, const mba_kernels_desc *d, float *y, float *final);

static void assert_slope(rig *q, const mba_kernels_desc *d, loss_fn *loss, float *value, float gradient)
{
    const float was = *value, by = 1.0f / 256;
    *value = was + by;
    const double up = loss(q, d, NULL, NULL), up_by = *value - was;
    *value = was - by;
    const double down = loss(q, d, NULL, NULL), down_by = was - *value;
    *value = was;
    const double slope = (up - down) / (up_by + down_by);
    assert_near(gradient, slope, 1e-3 * (1 + fabs(slope))); // the third derivative leaves by^2 f''' / 6
}

/* Gradients of x (and of z where the operator has one) stand in their columns, and nothing in the others. */
static void assert_columns(rig *q, const mba_kernels_desc *d, loss_fn *loss, int from)
{
    for (int i = 0; i < ROWS * ROW; i++)
        if (i % ROW < from || i % ROW >= 2 * D) assert_true(q->dwide[i] == 77);
        else if (i % 7 == 0) assert_slope(q, d, loss, &q->wide[i], q->dwide[i]);
}

static void conv1d_is_a_convolution(void **state)
{
    const uint32_t bias = 1u << MBA_KERNELS_BIAS, ids = 1u << MBA_KERNELS_IDS, initial = 1u << MBA_KERNELS_INITIAL;
    const struct {
        uint32_t given;
        int      final;
    } cases[] = { { bias, 0 }, { bias | ids, 0 }, { bias | initial, 1 } };
    (void)state;
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        const mba_kernels_desc d = conv(cases[k].given, cases[k].final);
        rig                   *q = rig_create();
        static float           y[ROWS * D], final[B * (W - 1) * D];
        run(q, &d);
        conv_loss(q, &d, y, final);
        for (int i = 0; i < ROWS * D; i++) assert_near(q->y[i], y[i], 1e-6);
        for (int i = 0; d.final && i < B * (W - 1) * D; i++) assert_near(q->final[i], final[i], 0);
        assert_columns(q, &d, conv_loss, D);
        for (int i = 0; i < D * W; i += 5) assert_slope(q, &d, conv_loss, &q->weight[i], q->dweight[i]);
        for (int i = 0; i < D; i++) assert_slope(q, &d, conv_loss, &q->bias[i], q->dbias[i]);
        if (d.given & initial) assert_slope(q, &d, conv_loss, &q->initial[D + 1], q->dinitial[D + 1]);
        free(q);
    }
}

static void the_gated_norm_gates_first(void **state)
{
    const mba_kernels_desc d = norm();
    rig                   *q = rig_create();
    static float           y[ROWS * D];
    (void)state;
    run(q, &d);
    norm_loss(q, &d, y, NULL);
    for (int i = 0; i < ROWS * D; i++) assert_near(q->y[i], y[i], 2e-6);
    assert_columns(q, &d, norm_loss, 0);
    for (int i = 0; i < D; i++) assert_slope(q, &d, norm_loss, &q->weight[i], q->dweight[i]);
    free(q);
}

/* Sizes of a layer of mamba2-370m, all of whose activations are columns of one projection. */
static void a_gpu_gets_the_fast_variants(void **state)
{
    const int64_t                  row = 4384;
    const mba_kernels_strided_view view = { { 2048 * row, row, 1 }, 0 };
    mba_kernels_desc               c = conv(1u << MBA_KERNELS_BIAS, 0), n = norm();
    mba_kernels_plan              *p;
    (void)state;
    c.type = n.type = MBA_KERNELS_BF16;
    c.batch = n.batch = 8;
    c.length = n.length = 2048;
    c.heads = 2304;
    n.heads = 1;
    n.head_dim = 2048;
    c.view[MBA_KERNELS_X] = n.view[MBA_KERNELS_Z] = view;
    n.view[MBA_KERNELS_X] = (mba_kernels_strided_view){ { 0 }, 0 };
    assert_int_equal(mba_kernels_plan_create(&p, &c, &h200), 0);
    assert_string_equal(mba_kernels_variant(p, 0), "tiles");
    assert_string_equal(mba_kernels_variant(p, 1), "tiles");
    mba_kernels_plan_destroy(p);
    assert_int_equal(mba_kernels_plan_create(&p, &n, &h200), 0);
    assert_string_equal(mba_kernels_variant(p, 0), "group");
    assert_string_equal(mba_kernels_variant(p, 1), "group");
    mba_kernels_plan_destroy(p);
}

static void assert_refused(const mba_kernels_desc *d, const char *words)
{
    mba_kernels_plan *p;
    assert_int_not_equal(mba_kernels_plan_create(&p, d, &host), 0);
    if (!strstr(mba_kernels_error(), words)) fail_msg("'%s' does not say '%s'", mba_kernels_error(), words);
}

static void what_they_do_not_have_is_refused(void **state)
{
    mba_kernels_desc d = conv(1u << MBA_KERNELS_D, 0);
    (void)state;
    assert_refused(&d, "conv1d has no operand D");
    d = conv(0, 0);
    d.taps = 17;
    assert_refused(&d, "17 taps");
    d.taps = 0;
    assert_refused(&d, "a dimension is 0");
    d = conv(0, 0);
    d.backward = 3;
    assert_refused(&d, "backward is 3");
    d = norm();
    d.given = 1u << MBA_KERNELS_BIAS;
    assert_refused(&d, "gated_rmsnorm has no operand bias");
    d = norm();
    d.final = 1;
    assert_refused(&d, "it has no state");
}

MBA_TEST_MAIN(cmocka_unit_test(conv1d_is_a_convolution), cmocka_unit_test(the_gated_norm_gates_first),
              cmocka_unit_test(a_gpu_gets_the_fast_variants), cmocka_unit_test(what_they_do_not_have_is_refused))
