// SPDX-License-Identifier: Apache-2.0
/* conv2d_test.c -- values of PyTorch, direct loops by the definition, sizes with many blocks, plans;
 * tests/operators_test.c checks the `cases`. */
#include "tests/rig.h"

#include "core/check.h"
#include "core/plan_work.h"
#include "core/program.h"
#include "ops/conv2d/conv2d.h"
#include "tests/machines.h"

static mba_tensor *param(mba_graph *g, const char *name, mba_type t)
{
    return mba_param(g, name, t, MBA_INIT_NORMAL(1), MBA_DECAY);
}

/* A 3 x 3 convolution and its backward pass, with the inputs of tools/golden/convolutions.py. */
typedef struct trial {
    rig         r;
    mba_tensor *x, *w, *b, *y;
} trial;

static trial trial_of(mba_type image, int64_t Co, int64_t stride, bool bias)
{
    mba_graph *g = graph();
    trial      t = { .x = param(g, "x", image), .w = param(g, "w", MBA_TYPE(MBA_F32, Co, image.dim[3], 3, 3)) };
    if (bias) t.b = param(g, "b", MBA_TYPE(MBA_F32, Co));
    t.y = mba_conv2d(g, .x = t.x, .w = t.w, .bias = t.b, .stride = stride, .pad = 1);
    mba_tensor *dy = mba_input(g, "dy", t.y->type);
    t.r = rig_create(g, 1, &t.y, &dy);
    rig_sines(&t.r, t.x, 1, 0.7, 0.1);
    rig_sines(&t.r, t.w, 0.6, 0.9, 0.3);
    if (bias) rig_sines(&t.r, t.b, 0.2, 1, 0.5);
    rig_sines(&t.r, dy, 1, 0.3, 0.7);
    rig_run(&t.r);
    return t;
}

/* Values of tools/golden/convolutions.py. */
static void conv2d_has_the_values_of_pytorch(void **state)
{
    (void)state;
    trial t = trial_of(MBA_TYPE(MBA_F32, 1, 3, 4, 2), 3, 1, true);
    assert_golden(&t.r, t.y, (double[]){ -0.1825771496, 0.4283300877,  -0.0052141699, 0.1291204505,  0.3598761830,
                                         -0.1962449930, 0.3705396305,  -0.0144788826, 0.2222283399,  0.3755826894,
                                         -0.1521108788, 0.4597953915,  0.0048568185,  0.7223134681,  -0.7108658661,
                                         1.2628062624,  -0.5311031406, 0.2406385256,  0.9206358549,  -1.0125723527,
                                         1.4315163701,  -0.3370508577, 0.1821990097,  0.5831258606,  0.3871419631,
                                         0.0690594746,  0.0583691874,  0.3638498082,  -0.1424791687, 0.4545500240,
                                         0.0379546235,  0.0825097568,  0.3838471096,  -0.2918843045, 0.5579330631,
                                         -0.1243640094 });
    assert_sums(&t.r, rig_grad(&t.r, t.x), -0.2276744339076, 10.82896930502);
    assert_sums(&t.r, rig_grad(&t.r, t.w), 0.4692817368997, 128.1600567345);
    assert_golden(&t.r, rig_grad(&t.r, t.b), (double[]){ 1.0512483210, 0.5810491329, 0.0589465561 });
    rig_destroy(&t.r);
}

static void conv2d_with_a_stride_has_the_values_of_pytorch(void **state)
{
    (void)state;
    trial t = trial_of(MBA_TYPE(MBA_F32, 2, 5, 4, 3), 2, 2, false);
    assert_golden(&t.r, t.y, (double[]){ -0.1636279528, -1.3957981871, 1.2225018809,  2.0935469040,  2.5030899785,
                                         1.8293924024,  -2.2516582237, -0.9244942361, -0.4779591767, 0.9188336507,
                                         -0.4788757914, -1.8504677100, 1.7188691072,  1.5311270941,  -1.7994262357,
                                         -1.2027775981, -1.1992484148, 0.7910324034,  -0.1094132932, -2.0542877838,
                                         -1.4174055874, -1.7706517265, 1.6483730522,  1.5734262873 });
    assert_sums(&t.r, rig_grad(&t.r, t.x), 0.1319425858435, -77.30119565429);
    assert_sums(&t.r, rig_grad(&t.r, t.w), -0.8645439509845, -29.79843931638);
    rig_destroy(&t.r);
}

/* ---- loops ---- */

/* B images of H x W x Ci to Co channels, k x k taps. */
typedef struct shape {
    int64_t B, H, W, Ci, Co, k, stride, pad;
} shape;

static double at(rig *r, const mba_tensor *t, int64_t b, int64_t y, int64_t x, int64_t c)
{
    const int64_t *d = t->type.dim;
    return y < 0 || y >= d[1] || x < 0 || x >= d[2] ? 0 : rig_want(r, t, ((b * d[1] + y) * d[2] + x) * d[3] + c);
}

static double weight(rig *r, const mba_tensor *w, int64_t co, int64_t ci, int64_t i, int64_t j)
{
    const int64_t *d = w->type.dim;
    return rig_want(r, w, ((co * d[1] + ci) * d[2] + i) * d[3] + j);
}

/* y[co][p][q] = sum w[co][ci][i][j] x[ci][s p + i - pad][s q + j - pad] */
static double loop_y(rig *r, shape s, const mba_tensor *x, const mba_tensor *w, const int64_t o[4])
{
    const int64_t b = o[0], p = o[1], q = o[2], co = o[3];
    double        sum = 0;
    for (int64_t ci = 0; ci < s.Ci; ci++)
        for (int64_t i = 0; i < s.k; i++)
            for (int64_t j = 0; j < s.k; j++)
                sum += weight(r, w, co, ci, i, j) * at(r, x, b, s.stride * p + i - s.pad, s.stride * q + j - s.pad, ci);
    return sum;
}

/* dx[ci][y][x] = sum w[co][ci][i][j] dy[co][(y + pad - i) / s][(x + pad - j) / s] where both quotients are whole */
static double loop_dx(rig *r, shape s, const mba_tensor *dy, const mba_tensor *w, const int64_t o[4])
{
    const int64_t b = o[0], y = o[1], x = o[2], ci = o[3];
    double        sum = 0;
    for (int64_t co = 0; co < s.Co; co++)
        for (int64_t i = 0; i < s.k; i++)
            for (int64_t j = 0; j < s.k; j++) {
                const int64_t u = y + s.pad - i, v = x + s.pad - j;
                if (u % s.stride || v % s.stride) continue;
                sum += weight(r, w, co, ci, i, j) * at(r, dy, b, u / s.stride, v / s.stride, co);
            }
    return sum;
}

/* dw[co][ci][i][j] = sum dy[co][p][q] x[ci][s p + i - pad][s q + j - pad] */
static double loop_dw(rig *r, shape s, const mba_tensor *dy, const mba_tensor *x, const int64_t o[4])
{
    const int64_t co = o[0], ci = o[1], i = o[2], j = o[3];
    double        sum = 0;
    for (int64_t b = 0; b < s.B; b++)
        for (int64_t p = 0; p < dy->type.dim[1]; p++)
            for (int64_t q = 0; q < dy->type.dim[2]; q++)
                sum += at(r, dy, b, p, q, co) * at(r, x, b, s.stride * p + i - s.pad, s.stride * q + j - s.pad, ci);
    return sum;
}

/* Compares every element of t, of the reference and of the CPU; sums have at most a few hundred terms of magnitude
 * 1. */
typedef double loop(rig *r, shape s, const mba_tensor *a, const mba_tensor *b, const int64_t o[4]);

static void assert_loop(rig *r, shape s, const mba_tensor *t, loop *f, const mba_tensor *a, const mba_tensor *b)
{
    const int64_t *d = t->type.dim;
    for (int64_t i = 0; i < mba_elems(t); i++) {
        const int64_t o[4] = { i / d[3] / d[2] / d[1], i / d[3] / d[2] % d[1], i / d[3] % d[2], i % d[3] };
        const double  want = f(r, s, a, b, o);
        assert_near(rig_want(r, t, i), want, 1e-11);
        assert_near(rig_have(r, t, i), want, 5e-5);
    }
}

static void agrees_with_loops(shape s)
{
    mba_graph  *g = graph();
    mba_tensor *x = param(g, "x", MBA_TYPE(MBA_F32, s.B, s.H, s.W, s.Ci));
    mba_tensor *w = param(g, "w", MBA_TYPE(MBA_F32, s.Co, s.Ci, s.k, s.k));
    mba_tensor *y = mba_conv2d(g, .x = x, .w = w, .stride = s.stride, .pad = s.pad), *dy = mba_input(g, "dy", y->type);
    rig         r = rig_create(g, 1, &y, &dy);
    assert_int_equal(y->type.dim[1], (s.H + 2 * s.pad - s.k) / s.stride + 1);
    assert_int_equal(y->type.dim[2], (s.W + 2 * s.pad - s.k) / s.stride + 1);
    rig_sines(&r, x, 1, 0.7, 0.1);
    rig_sines(&r, w, 0.6, 0.9, 0.3);
    rig_sines(&r, dy, 1, 0.3, 0.7);
    rig_run(&r);
    assert_loop(&r, s, y, loop_y, x, w);
    assert_loop(&r, s, rig_grad(&r, x), loop_dx, dy, w);
    assert_loop(&r, s, rig_grad(&r, w), loop_dw, dy, x);
    assert_same_bits(&r);
    rig_destroy(&r);
}

static void conv2d_agrees_with_plain_loops(void **state)
{
    (void)state;
    agrees_with_loops((shape){ 2, 7, 9, 3, 5, 3, 1, 1 });
    agrees_with_loops((shape){ 2, 7, 9, 3, 5, 3, 2, 1 }); // odd sides
    agrees_with_loops((shape){ 1, 8, 6, 5, 4, 3, 2, 1 }); // even sides
    agrees_with_loops((shape){ 1, 7, 8, 4, 6, 3, 2, 1 }); // one of each
    agrees_with_loops((shape){ 2, 5, 4, 7, 3, 1, 1, 0 });
    agrees_with_loops((shape){ 1, 5, 6, 2, 3, 1, 2, 0 });
    agrees_with_loops((shape){ 1, 9, 9, 2, 2, 3, 4, 0 }); // some lines are not used by any tap
    agrees_with_loops((shape){ 1, 10, 11, 2, 3, 5, 3, 2 });
    agrees_with_loops((shape){ 1, 2, 2, 3, 2, 3, 1, 2 });   // some outputs depend on padding only
    agrees_with_loops((shape){ 1, 27, 31, 3, 4, 3, 1, 1 }); // more positions than one block takes
    agrees_with_loops((shape){ 2, 6, 9, 16, 18, 3, 1, 1 }); // tiles (Winograd): sides that 4 does not divide
    agrees_with_loops((shape){ 1, 8, 4, 17, 16, 3, 1, 0 }); // no padding: dx has more tiles than y
    agrees_with_loops((shape){ 1, 2, 1, 16, 16, 3, 1, 2 }); // y has more tiles than dx
}

/* ---- many blocks, parts and slices ---- */

static void large(shape s, bool bias)
{
    mba_graph  *g = graph();
    mba_tensor *x = param(g, "x", MBA_TYPE(MBA_F32, s.B, s.H, s.W, s.Ci));
    mba_tensor *w = param(g, "w", MBA_TYPE(MBA_F32, s.Co, s.Ci, s.k, s.k));
    mba_tensor *b = bias ? param(g, "b", MBA_TYPE(MBA_F32, s.Co)) : NULL;
    assert_large_case(g, mba_conv2d(g, .x = x, .w = w, .bias = b, .stride = s.stride, .pad = s.pad));
}

static void conv2d_takes_large_images_at_any_thread_count(void **state)
{
    (void)state;
    large((shape){ 3, 41, 37, 5, 9, 3, 1, 1 }, true);    // dw in one slice, several parts
    large((shape){ 2, 50, 47, 17, 22, 3, 1, 1 }, true);  // more tiles than one chunk takes
    large((shape){ 2, 33, 31, 45, 62, 3, 2, 1 }, true);  // dw in three slices
    large((shape){ 1, 11, 13, 260, 70, 3, 2, 1 }, true); // a matrix of patches beyond the usual size
    large((shape){ 2, 30, 29, 130, 17, 1, 1, 0 }, false);
}

static void conv2d_needs_no_gradient_of_pixels(void **state)
{
    (void)state;
    mba_graph  *g = graph();
    mba_tensor *x = mba_input(g, "x", MBA_TYPE(MBA_F32, 1, 4, 4, 3)), *w = param(g, "w", MBA_TYPE(MBA_F32, 2, 3, 3, 3));
    mba_tensor *y = mba_conv2d(g, .x = x, .w = w, .stride = 2, .pad = 1), *dy = mba_input(g, "dy", y->type);
    assert_ok(mba_backward_from(g, 1, &y, &dy));
    const mba_node *n = g->nodes[g->nnodes - 1];
    assert_ptr_equal(n->op, &mba_op_conv2d_bwd);
    assert_null(n->out[0]);
    assert_near(n->op->cost(n).tensor_flops, g->nodes[0]->op->cost(g->nodes[0]).tensor_flops, 0);
    assert_near(n->op->cost(n).tensor_flops, 2. * 2 * 2 * 2 * 27, 0);
    mba_graph_destroy(g);
}

/* ---- plans ---- */

enum { X, W, BIAS, DY, Y = 0, DX = 0 }; /* slots */

/* The node and plan of `op` in a bf16 case, with these variants; asserts that its launches are `kernels`. */
static const mba_node *planned(mba_program **p, mba_case_graph *o, const mba_op *op, const char *variants,
                               const char *const *kernels)
{
    int32_t i = 0;
    int     n = 0;
    assert_ok(
        mba_program_create(p, o->g,
                           &(mba_program_options){ .cuda = true, .machine = &machines[1], .variants = variants }));
    while (o->g->nodes[i]->op != op) i++;
    for (; kernels[n]; n++) {
        assert_true(n < (*p)->plan[i]->nlaunches);
        assert_string_equal((*p)->plan[i]->launch[n].kernel, kernels[n]);
    }
    assert_int_equal((*p)->plan[i]->nlaunches, n);
    return o->g->nodes[i];
}

/* Bytes of an operand that a launch moves, in units of the tensor `of`. */
static double moved(const mba_program *p, const mba_node *n, int launch, int operand, bool stored, const mba_tensor *of)
{
    mba_work_sums sum;
    mba_launch_sums(&sum, &p->plan[n->id]->launch[launch]);
    return sum.operand[operand][stored] / mba_tensor_bytes(of);
}

/* The plan lists what conv2d_cuda.cu launches: adding a bias is a pass over y, and each of the three kernels that need
 * dy reads all of it. */
static void conv2d_plans_every_launch(void **state)
{
    (void)state;
    static const char *const        forward[] = { "conv2d_filter", "cudnn_conv2d", "conv2d_bias", NULL },
                             *const stem[] = { "conv2d_filter", "conv2d_pixels", "cudnn_conv2d", NULL },
                             *const backward[] = { "conv2d_filter",
                                                   "cudnn_conv2d",
                                                   "conv2d_dfilter",
                                                   "conv2d_bias_sums",
                                                   "column_totals",
                                                   "cudnn_conv2d",
                                                   NULL },
                             *const stem_backward[] = { "conv2d_filter", "conv2d_pixels", "cudnn_conv2d",
                                                        "conv2d_dfilter", NULL };
    const mba_case                 *sizes = mba_op_conv2d.sizes; // a block with a bias, and the stem
    mba_case_graph                  o;
    mba_program                    *p;
    assert_ok(mba_case_build(&o, &mba_op_conv2d, &sizes[0], (mba_case_how){ .compute = MBA_BF16 }));
    const mba_node *n = planned(&p, &o, &mba_op_conv2d, "conv2d=cudnn", forward);
    assert_near(moved(p, n, 2, MBA_ARG_OUT(Y), false, n->out[Y]), 1, 1e-12);
    assert_near(moved(p, n, 2, MBA_ARG_OUT(Y), true, n->out[Y]), 1, 1e-12);
    mba_program_destroy(p);
    n = planned(&p, &o, &mba_op_conv2d_bwd, NULL, backward);
    assert_true(moved(p, n, 1, MBA_ARG_IN(DY), false, n->in[DY]) >= 1);
    assert_near(moved(p, n, 3, MBA_ARG_IN(DY), false, n->in[DY]), 1, 1e-12);
    assert_true(moved(p, n, 5, MBA_ARG_IN(DY), false, n->in[DY]) >= 1);
    assert_near(moved(p, n, 5, MBA_ARG_OUT(DX), true, n->out[DX]), 1, 1e-12);
    mba_program_destroy(p);
    mba_graph_destroy(o.g);
    assert_ok(mba_case_build(&o, &mba_op_conv2d, &sizes[2], (mba_case_how){ .compute = MBA_BF16 }));
    planned(&p, &o, &mba_op_conv2d, NULL, stem);
    mba_program_destroy(p);
    planned(&p, &o, &mba_op_conv2d_bwd, NULL, stem_backward);
    mba_program_destroy(p);
    mba_graph_destroy(o.g);
}

/* "wgmma" adds the bias in the product, reads x with the neighbours of its tiles, and writes y once; it takes all
 * cases of its own. */
static void conv2d_plans_products(void **state)
{
    (void)state;
    static const char *const kernels[] = { "conv2d_wgmma_filter", "conv2d_wgmma", NULL };
    mba_case_graph           o;
    mba_program             *p;
    assert_ok(mba_case_build(&o, &mba_op_conv2d, &mba_op_conv2d.sizes[0], (mba_case_how){ .compute = MBA_BF16 }));
    const mba_node *n = planned(&p, &o, &mba_op_conv2d, NULL, kernels);
    assert_in_range(100 * moved(p, n, 1, MBA_ARG_IN(X), false, n->in[X]), 100, 150);
    assert_near(moved(p, n, 1, MBA_ARG_OUT(Y), false, n->out[Y]), 0, 0);
    assert_near(moved(p, n, 1, MBA_ARG_OUT(Y), true, n->out[Y]), 1, 1e-12);
    mba_program_destroy(p);
    mba_graph_destroy(o.g);
    for (const mba_case *c = mba_op_conv2d.device_cases; c->note; c++) {
        assert_ok(mba_case_build(&o, &mba_op_conv2d, c, (mba_case_how){ .compute = MBA_BF16 }));
        planned(&p, &o, &mba_op_conv2d, NULL, kernels);
        mba_program_destroy(p);
        mba_graph_destroy(o.g);
    }
}

static void refuses(mba_type image, mba_type weight_type, mba_conv2d_args a, const char *words)
{
    mba_graph *g = graph();
    a.x = mba_input(g, "x", image);
    a.w = mba_input(g, "w", weight_type);
    mba_conv2d_(g, a);
    assert_fails(mba_graph_status(g), MBA_E_SHAPE, words);
    mba_graph_destroy(g);
}

static void conv2d_refuses_what_does_not_fit(void **state)
{
    (void)state;
    const mba_type x = MBA_TYPE(MBA_F32, 1, 4, 4, 3), w = MBA_TYPE(MBA_F32, 2, 3, 3, 3);
    refuses(MBA_TYPE(MBA_F32, 4, 4, 3), w, (mba_conv2d_args){ .pad = 1 }, "x has 3 axes");
    refuses(x, MBA_TYPE(MBA_F32, 2, 4, 3, 3), (mba_conv2d_args){ .pad = 1 }, "x has 3 channels, w takes 4");
    refuses(x, MBA_TYPE(MBA_F32, 2, 3, 9), (mba_conv2d_args){ .pad = 1 }, "not (out, in, height, width)");
    refuses(x, MBA_TYPE(MBA_F32, 2, 3, 7, 7), (mba_conv2d_args){ .pad = 1 }, "6 pixels, 7 taps");
    refuses(x, w, (mba_conv2d_args){ .stride = -1 }, "a stride of -1");
    mba_graph  *g = graph();
    mba_tensor *wide = mba_input(g, "wide", MBA_TYPE(MBA_F32, 1, 4, 6, 3));
    mba_conv2d(g, .x = mba_slice(g, wide, 2, 0, 4), .w = mba_input(g, "w", w), .pad = 1);
    assert_fails(mba_graph_status(g), MBA_E_SHAPE, "a part of an image");
    mba_graph_destroy(g);
}

MBA_TEST_MAIN(cmocka_unit_test(conv2d_has_the_values_of_pytorch),
              cmocka_unit_test(conv2d_with_a_stride_has_the_values_of_pytorch),
              cmocka_unit_test(conv2d_agrees_with_plain_loops),
              cmocka_unit_test(conv2d_takes_large_images_at_any_thread_count),
              cmocka_unit_test(conv2d_needs_no_gradient_of_pixels), cmocka_unit_test(conv2d_plans_every_launch),
              cmocka_unit_test(conv2d_plans_products), cmocka_unit_test(conv2d_refuses_what_does_not_fit))
