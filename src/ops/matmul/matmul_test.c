// SPDX-License-Identifier: Apache-2.0
/* matmul_test.c -- ragged batches: rows beyond the count are never read, and become zeros in results; requirements on a
 * bias; products split in two. */
#include "tests/rig.h"

#include <stdlib.h>

#include "core/check.h"
#include "core/device.h"
#include "ops/add/add.h"
#include "ops/bias/bias.h"
#include "ops/matmul/matmul.h"

enum { R = 150, REAL = 131, K = 9, M = 13, N = 21 };

/* x v^T w^T + b + the same again, over ragged rows; everything beyond the valid rows of the inputs is NaN. */
typedef struct net {
    rig         r;
    mba_tensor *x, *v, *w, *b, *y, *dy;
} net;

static void put(net *u, const mba_tensor *t, int64_t i, double value, bool real)
{
    rig_set(&u->r, t, i, real ? value : 0);
    if (!real) ((float *)mba_program_at(u->r.p, t))[i] = NAN;
}

static net make(mba_count kind, int64_t real)
{
    net        u = { 0 };
    mba_graph *g = graph();
    mba_type   rows = MBA_TYPE(MBA_F32, R, K);
    rows.count = kind;
    u.x = mba_input(g, "x", rows);
    u.v = mba_param(g, "v", MBA_TYPE(MBA_F32, M, K), MBA_INIT_NORMAL(1), MBA_DECAY);
    u.w = mba_param(g, "w", MBA_TYPE(MBA_F32, N, M), MBA_INIT_NORMAL(1), MBA_DECAY);
    u.b = mba_param(g, "b", MBA_TYPE(MBA_F32, N), MBA_INIT_NORMAL(1), MBA_DECAY);
    mba_tensor *z = mba_bias(g, mba_linear(g, mba_linear(g, u.x, u.v), u.w), u.b);
    u.y = mba_add(g, z, z);
    u.dy = mba_input(g, "dy", u.y->type);
    u.r = rig_create(g, 1, &u.y, &u.dy);
    u.r.step.count[MBA_NODES] = REAL;
    for (int64_t i = 0; i < R * K; i++) put(&u, u.x, i, sin(0.7 * (double)i), i < real * K);
    for (int64_t i = 0; i < R * N; i++) put(&u, u.dy, i, cos(0.3 * (double)i), i < real * N);
    rig_run(&u.r);
    return u;
}

static void assert_grad_near(net *u, const mba_tensor *t, double tolerance)
{
    const mba_tensor *d = rig_grad(&u->r, t);
    for (int64_t i = 0; i < mba_elems(t); i++) assert_near(rig_have(&u->r, d, i), rig_want(&u->r, d, i), tolerance);
}

static void matmul_sees_only_real_rows(void **state)
{
    (void)state;
    net u = make(MBA_NODES, REAL);
    for (int64_t i = 0; i < R * N; i++)
        assert_near(rig_have(&u.r, u.y, i), i < REAL * N ? rig_want(&u.r, u.y, i) : 0, 1e-4);
    assert_grad_near(&u, u.v, 1e-3);
    assert_grad_near(&u, u.w, 1e-3);
    assert_grad_near(&u, u.b, 1e-3);
    assert_same_bits(&u.r);
    rig_destroy(&u.r);
}

/* There are nodes but no edges: the products over edges are empty sums. */
static void matmul_of_no_rows_leaves_no_trace(void **state)
{
    (void)state;
    net u = make(MBA_EDGES, 0);
    for (int64_t i = 0; i < R * N; i++) assert_near(rig_have(&u.r, u.y, i), 0, 0);
    for (int64_t i = 0; i < M * K; i++) assert_near(rig_have(&u.r, rig_grad(&u.r, u.v), i), 0, 0);
    for (int64_t i = 0; i < N * M; i++) assert_near(rig_have(&u.r, rig_grad(&u.r, u.w), i), 0, 0);
    for (int64_t i = 0; i < N; i++) assert_near(rig_have(&u.r, rig_grad(&u.r, u.b), i), 0, 0);
    rig_destroy(&u.r);
}

/* ---- a bias inside the product ---- */

static mba_graph *with_bias(mba_count kind, mba_dtype type, int64_t columns)
{
    mba_graph *g = graph();
    mba_type   rows = MBA_TYPE(MBA_F32, R, K);
    rows.count = kind;
    mba_tensor *x = mba_input(g, "x", rows);
    mba_tensor *w = mba_param(g, "w", MBA_TYPE(MBA_F32, N, K), MBA_INIT_NORMAL(1), MBA_DECAY);
    mba_linear_bias(g, x, w, mba_param(g, "b", MBA_TYPE(type, columns), MBA_INIT_NORMAL(1), MBA_NO_DECAY));
    return g;
}

static void a_bias_fits_the_result_and_wants_every_row_real(void **state)
{
    (void)state;
    static const struct {
        mba_count   kind;
        mba_dtype   type;
        int64_t     columns;
        const char *words;
    } wrong[] = { { MBA_ALL, MBA_F32, N + 1, "21 columns, bias of 22" },
                  { MBA_ALL, MBA_BF16, N, "the bias has another type than the result" },
                  { MBA_NODES, MBA_F32, N, "a bias in a ragged batch" } };
    for (int i = 0; i < 3; i++) {
        mba_graph *g = with_bias(wrong[i].kind, wrong[i].type, wrong[i].columns);
        assert_fails(mba_graph_status(g), MBA_E_SHAPE, wrong[i].words);
        mba_graph_destroy(g);
    }
    mba_graph *g = with_bias(MBA_ALL, MBA_F32, N);
    assert_ok(mba_graph_status(g));
    mba_graph_destroy(g);
}

/* ---- a gradient of weights that is split in two products, on a GPU ---- */

/* The gradient of w (N, K) in y = x w^T over `rows` rows, in bf16 with fp32 sums; the caller frees it. */
static float *weight_gradient(const mba_device *d, const mba_case *c, const char *variants)
{
    mba_case_graph o;
    mba_program   *p;
    const size_t   n = (size_t)(c->dim[1] * c->dim[2]);
    float         *out = malloc(n * sizeof *out);
    assert_non_null(out);
    assert_ok(mba_case_build(&o, &mba_op_matmul, c, (mba_case_how){ .compute = MBA_BF16 }));
    assert_ok(mba_program_create(&p, o.g,
                                 &(mba_program_options){ .cuda = true, .machine = d->machine, .variants = variants }));
    assert_ok(mba_program_bind(p, d));
    assert_ok(mba_program_init(p, 5));
    mba_fill_inputs(p);
    assert_ok(mba_program_run(p, MBA_FORWARD | MBA_BACKWARD, &(mba_step){ 0 }, NULL));
    assert_ok(mba_program_pull(p));
    memcpy(out, mba_program_host(p, mba_flat_grads(o.g, MBA_DECAY)), n * sizeof *out);
    mba_program_destroy(p);
    mba_graph_destroy(o.g);
    return out;
}

/* On 132 SMs the tiles of 17000 x 512 make two waves and two tiles more, so the last 104 rows are a product of their
 * own. */
static void a_product_cut_in_two_is_the_whole_one(void **state)
{
    (void)state;
    const mba_case    c = { { 4096, 17000, 512 }, "cut" };
    const mba_device *d;
    double            norm = 0, off = 0;
    if (mba_device_cuda(&d, 0) != MBA_OK) skip();
    float *cut = weight_gradient(d, &c, NULL), *whole = weight_gradient(d, &c, "matmul=unsplit");
    for (int64_t r = 0; r < c.dim[1]; r++) {
        double row = 0;
        for (int64_t i = r * c.dim[2]; i < (r + 1) * c.dim[2]; i++) {
            norm += (double)whole[i] * (double)whole[i];
            row += ((double)cut[i] - (double)whole[i]) * ((double)cut[i] - (double)whole[i]);
        }
        if (row > off) off = row; // the worst row: an error shows as a large difference
    }
    norm /= (double)c.dim[1];
    assert_true(norm > 0);
    assert_near(sqrt(off / norm), 0, 1e-5); // fp32 sums of 4096 terms in another order
    free(cut);
    free(whole);
}

MBA_TEST_MAIN(cmocka_unit_test(matmul_sees_only_real_rows), cmocka_unit_test(matmul_of_no_rows_leaves_no_trace),
              cmocka_unit_test(a_bias_fits_the_result_and_wants_every_row_real),
              cmocka_unit_test(a_product_cut_in_two_is_the_whole_one))
