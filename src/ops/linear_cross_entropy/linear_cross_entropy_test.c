// SPDX-License-Identifier: Apache-2.0
/* linear_cross_entropy_test.c -- several blocks compared with plain loops and with the two operators it replaces;
 * hand-worked values, single gradients, which node runs in which pass, cost and memory, same bits. */
#include "tests/threads.h"

#include "core/print.h"
#include "ops/add/add.h"
#include "ops/cross_entropy/cross_entropy.h"
#include "ops/linear_cross_entropy/linear_cross_entropy.h"
#include "ops/linear_cross_entropy/linear_cross_entropy_slots.h"
#include "ops/matmul/matmul.h"

/* Three blocks of rows, more columns than one span of a sum, and sizes that no vector width divides. */
enum { R = 2 * LCE_ROWS + 11, M = 5, V = 4096 + 37 };

typedef struct head {
    mba_graph   *g;
    mba_program *p;
    mba_tensor  *x, *w, *t, *loss;
} head;

static head make(int64_t rows, int64_t width, int64_t vocab, bool fused, bool accumulate)
{
    head h;
    assert_ok(mba_graph_create(&h.g));
    h.g->accumulate = accumulate;
    h.x = mba_param(h.g, "x", MBA_TYPE(MBA_F32, rows, width), MBA_INIT_NORMAL(1), MBA_DECAY);
    h.w = mba_param(h.g, "w", MBA_TYPE(MBA_F32, vocab, width), MBA_INIT_NORMAL(1), MBA_NO_DECAY);
    h.t = mba_targets(h.g, "t", MBA_TYPE(MBA_I32, rows), vocab);
    h.loss = fused ? mba_linear_cross_entropy(h.g, h.x, h.w, h.t)
                   : mba_cross_entropy(h.g, mba_linear(h.g, h.x, h.w), h.t);
    mba_result(h.g, "loss", h.loss);
    assert_ok(mba_backward(h.g, h.loss));
    h.p = run_once(h.g, &(mba_step){ 0 }, 2);
    return h;
}

static void destroy(head h)
{
    mba_program_destroy(h.p);
    mba_graph_destroy(h.g);
}

static float *values(const head *h, const mba_tensor *t) { return mba_program_at(h->p, t); }

static float *gradient(const head *h, const mba_tensor *t)
{
    mba_tensor w = *t;
    w.st = t->st->grad;
    return mba_program_at(h->p, &w);
}

/* Logits (0, ln 3) and (ln 3, 0): the softmax is (1/4, 3/4) and (3/4, 1/4). Rows: target 1, ignored, target 1. */
static void linear_cross_entropy_of_hand_worked_values(void **state)
{
    (void)state;
    const double ln3 = log(3.0);
    head         h = make(3, 1, 2, true, false);
    memcpy(values(&h, h.x), (float[]){ 1, 7, -1 }, 12);
    memcpy(values(&h, h.w), (float[]){ 0, (float)ln3 }, 8);
    memcpy(values(&h, h.t), (int32_t[]){ 1, -1, 1 }, 12);
    assert_ok(mba_program_run(h.p, MBA_STEP, &(mba_step){ 0 }, NULL));
    assert_near(*values(&h, h.loss), (log(4.0 / 3) + log(4.0)) / 2, 1e-7);
    const double dx[3] = { -0.25 * ln3 / 2, 0, -0.75 * ln3 / 2 }; // (p1 - 1) w1: p1 = 3/4, then 1/4
    for (int i = 0; i < 3; i++) assert_near(gradient(&h, h.x)[i], dx[i], 1e-7);
    assert_near(gradient(&h, h.w)[0], (0.25 - 0.75) / 2, 1e-7); // sum of p0 x
    assert_near(gradient(&h, h.w)[1], (-0.25 + 0.75) / 2, 1e-7);
    destroy(h);
}

static void linear_cross_entropy_of_several_blocks_follows_plain_loops(void **state)
{
    (void)state;
    head           h = make(R, M, V, true, false);
    const float   *x = values(&h, h.x), *w = values(&h, h.w);
    const int32_t *t = (const int32_t *)(const void *)values(&h, h.t);
    double         loss = 0, *dx = calloc(R * M, 8), *dw = calloc(V * M, 8), *z = calloc(V, 8);
    int            valid = 0;
    assert_true(dx && dw && z);
    for (int r = 0; r < R; r++) valid += t[r] >= 0;
    assert_true(valid > 0 && valid < R);
    for (int r = 0; r < R; r++) {
        double s = 0;
        for (int v = 0; v < V; v++) {
            z[v] = 0;
            for (int i = 0; i < M; i++) z[v] += (double)x[r * M + i] * w[v * M + i];
            s += exp(z[v]);
        }
        if (t[r] < 0) continue;
        loss += (log(s) - z[t[r]]) / valid;
        for (int v = 0; v < V; v++)
            for (int i = 0; i < M; i++) {
                const double dz = (exp(z[v]) / s - (v == t[r])) / valid;
                dx[r * M + i] += dz * w[v * M + i];
                dw[v * M + i] += dz * x[r * M + i];
            }
    }
    assert_near(*values(&h, h.loss), loss, 1e-6 * loss);
    double topx = 0, topw = 0; // tolerance for sums of V and of R terms: 4 sqrt(K) units of the largest
    for (int i = 0; i < R * M; i++) topx = fmax(topx, fabs(dx[i]));
    for (int i = 0; i < V * M; i++) topw = fmax(topw, fabs(dw[i]));
    for (int i = 0; i < R * M; i++) assert_near(gradient(&h, h.x)[i], dx[i], topx * 4 * sqrt(V) / 16777216);
    for (int i = 0; i < V * M; i++) assert_near(gradient(&h, h.w)[i], dw[i], topw * 4 * sqrt(R) / 16777216);
    free(dx);
    free(dw);
    free(z);
    destroy(h);
}

/* Equals the two operators; accumulating a second micro-batch doubles both gradients. */
static void linear_cross_entropy_is_linear_then_cross_entropy(void **state)
{
    (void)state;
    head h = make(40, 33, 77, true, true), two = make(40, 33, 77, false, true);
    for (int k = 1; k <= 2; k++) {
        assert_near(*values(&h, h.loss), *values(&two, two.loss), 2e-6);
        for (int i = 0; i < 40 * 33; i++) assert_near(gradient(&h, h.x)[i], gradient(&two, two.x)[i], k * 1e-6);
        for (int i = 0; i < 77 * 33; i++) assert_near(gradient(&h, h.w)[i], gradient(&two, two.w)[i], k * 1e-6);
        assert_ok(mba_program_run(h.p, MBA_STEP, &(mba_step){ .micro = 1 }, NULL));
        assert_ok(mba_program_run(two.p, MBA_STEP, &(mba_step){ .micro = 1 }, NULL));
    }
    destroy(h);
    destroy(two);
}

/* With a frozen table, or an input as x, only the other gradient is computed and counted. */
static void linear_cross_entropy_makes_only_the_gradients_that_are_wanted(void **state)
{
    (void)state;
    for (int k = 0; k < 2; k++) {
        mba_graph *g;
        assert_ok(mba_graph_create(&g));
        const mba_type t[2] = { MBA_TYPE(MBA_F32, 6, 4), MBA_TYPE(MBA_F32, 9, 4) };
        mba_tensor    *p = mba_param(g, "p", t[k], MBA_INIT_NORMAL(1), MBA_DECAY), *i = mba_input(g, "i", t[!k]);
        mba_tensor    *y = mba_targets(g, "t", MBA_TYPE(MBA_I32, 6), 9);
        mba_tensor    *loss = mba_linear_cross_entropy(g, k ? i : p, k ? p : i, y);
        assert_ok(mba_backward(g, mba_result(g, "loss", loss)));
        const mba_node *b = g->nodes[g->nnodes - 1];
        assert_true(b->op == &mba_op_linear_cross_entropy_bwd);
        assert_int_equal(b->out[DX] != NULL, !k);
        assert_int_equal(b->out[DW] != NULL, k);
        assert_near(b->op->cost(b).tensor_flops, 2 * 2 * 6 * 9 * 4, 0); // the product of the logits, and one gradient
        mba_program_destroy(run_once(g, &(mba_step){ 0 }, 1));
        mba_graph_destroy(g);
    }
}

static void linear_cross_entropy_never_holds_the_logits(void **state)
{
    (void)state;
    head         h = make(R, M, V, true, false);
    const size_t most = sizeof(float) * LCE_ROWS * (V + LCE_PAD)
                        + 64 * R; // a block, and vectors with one value per row
    assert_true(h.p->layout.arena_bytes[MBA_ACT] <= most && most < sizeof(float) * R * V * 0.6);
    const mba_cost f = h.g->nodes[0]->op->cost(h.g->nodes[0]);
    assert_near(f.tensor_flops, 2.0 * R * M * V, 0);
    assert_near(f.read_bytes, 4.0 * (R * M + V * M + R), 0);
    destroy(h);
}

static void count_node(void *ctx, const mba_node *n, const mba_plan *plan)
{
    (void)plan;
    ((int *)ctx)[n->op == &mba_op_linear_cross_entropy_bwd] += n->op == &mba_op_linear_cross_entropy
                                                               || n->op == &mba_op_linear_cross_entropy_bwd;
}

/* A step runs only backward, which computes the loss, too: three products. Evaluation runs only forward, and leaves the
 * gradients unchanged. The losses have the same bits. */
static void linear_cross_entropy_runs_once_in_a_step(void **state)
{
    (void)state;
    head            h = make(R, M, V, true, true);
    int             ran[2] = { 0 };
    const mba_hooks hooks = { .before = count_node, .ctx = ran };
    const float     loss = *values(&h, h.loss), dw = gradient(&h, h.w)[7];
    assert_near(mba_graph_cost(h.g, MBA_STEP).tensor_flops, 3 * 2.0 * R * M * V, 0);
    assert_near(mba_graph_cost(h.g, MBA_FORWARD).tensor_flops, 2.0 * R * M * V, 0);
    *values(&h, h.loss) = NAN;
    assert_ok(mba_program_run(h.p, MBA_FORWARD, &(mba_step){ 0 }, &hooks));
    assert_true(ran[0] == 1 && ran[1] == 0 && *values(&h, h.loss) == loss && gradient(&h, h.w)[7] == dw);
    *values(&h, h.loss) = NAN;
    assert_ok(mba_program_run(h.p, MBA_FORWARD | MBA_BACKWARD, &(mba_step){ 0 }, &hooks));
    assert_true(ran[0] == 1 && ran[1] == 1 && *values(&h, h.loss) == loss);
    assert_near(gradient(&h, h.w)[7], 2 * dw, 1e-6 * fabs(dw));
    destroy(h);
}

/* If another node reads the loss, it must exist before the backward pass: then the forward node runs. */
static void linear_cross_entropy_runs_where_its_loss_is_read(void **state)
{
    (void)state;
    mba_graph  *g;
    mba_tensor *loss[2];
    assert_ok(mba_graph_create(&g));
    mba_tensor *x = mba_param(g, "x", MBA_TYPE(MBA_F32, 6, 4), MBA_INIT_NORMAL(1), MBA_DECAY);
    mba_tensor *w = mba_param(g, "w", MBA_TYPE(MBA_F32, 9, 4), MBA_INIT_NORMAL(1), MBA_DECAY);
    mba_tensor *t = mba_targets(g, "t", MBA_TYPE(MBA_I32, 6), 9);
    for (int k = 0; k < 2; k++) loss[k] = mba_linear_cross_entropy(g, x, w, t);
    mba_tensor *sum = mba_result(g, "sum", mba_add(g, loss[0], loss[1]));
    assert_ok(mba_backward(g, sum));
    assert_true(mba_runs(g->nodes[0], MBA_STEP) && mba_runs(g->nodes[1], MBA_STEP));
    mba_program *p = run_once(g, &(mba_step){ 0 }, 2);
    assert_near(*(float *)mba_program_at(p, sum), 2 * *(float *)mba_program_at(p, loss[0]), 0);
    mba_program_destroy(p);
    mba_graph_destroy(g);
}

static void linear_cross_entropy_gives_the_same_bits_at_any_thread_count(void **state)
{
    (void)state;
    head h = make(R, M, V, true, false);
    assert_same_bits(h.g, &(mba_step){ 0 });
    destroy(h);
}

MBA_TEST_MAIN(cmocka_unit_test(linear_cross_entropy_of_hand_worked_values),
              cmocka_unit_test(linear_cross_entropy_of_several_blocks_follows_plain_loops),
              cmocka_unit_test(linear_cross_entropy_is_linear_then_cross_entropy),
              cmocka_unit_test(linear_cross_entropy_makes_only_the_gradients_that_are_wanted),
              cmocka_unit_test(linear_cross_entropy_runs_once_in_a_step),
              cmocka_unit_test(linear_cross_entropy_runs_where_its_loss_is_read),
              cmocka_unit_test(linear_cross_entropy_never_holds_the_logits),
              cmocka_unit_test(linear_cross_entropy_gives_the_same_bits_at_any_thread_count))
