// SPDX-License-Identifier: Apache-2.0
/* ssd_ref_test.c -- the fp64 reference of ssd against golden values. */
#include "tests/test.h"

#include "core/check.h"
#include "core/program.h"
#include "ops/ssd/ssd.h"
#include "ops/ssd/ssd_slots.h"

/* The golden case in fp64; its nodes, forward and backward. */
typedef struct bench {
    mba_case_graph  o;
    mba_reference  *r;
    const mba_node *fwd, *bwd;
} bench;

static const double *at(const bench *t, const mba_tensor *x) { return mba_reference_at(t->r, x); }

static void fill(const bench *t, const mba_tensor *to, double amp, double fr, double ph)
{
    double *x = mba_reference_at(t->r, to);
    for (int64_t k = 0; k < mba_elems(to); k++) x[k] = amp * sin(fr * (double)k + ph);
}

static void golden_init(bench *t)
{
    const mba_case golden = { { 1, 10, 2, 2, 1, 3, 4, SKIP_HEAD | BIAS | STATES }, "the golden shape" };
    assert_ok(mba_case_build(&t->o, &mba_op_ssd, &golden, (mba_case_how){ .compute = MBA_F32 }));
    assert_ok(mba_reference_create(&t->r, t->o.g));
    for (int32_t k = 0; k < t->o.g->nnodes; k++) {
        if (t->o.g->nodes[k]->op == &mba_op_ssd) t->fwd = t->o.g->nodes[k];
        if (t->o.g->nodes[k]->op == &mba_op_ssd_bwd) t->bwd = t->o.g->nodes[k];
    }
    fill(t, t->fwd->in[X], 1, .7, .1);
    fill(t, t->fwd->in[DT], .8, .5, .3);
    fill(t, t->fwd->in[A_LOG], .5, 1.1, .6);
    fill(t, t->fwd->in[BM], 1, .6, .4);
    fill(t, t->fwd->in[CM], 1, .8, .5);
    fill(t, t->fwd->in[SKIP], .5, 1, 1);
    fill(t, t->fwd->in[DT_BIAS], .4, 1, 2);
    fill(t, t->fwd->in[INITIAL], .3, .9, .2);
    fill(t, t->o.seed[0], 1, .3, .7);
    fill(t, t->o.seed[1], .5, .4, .9);
}

static void assert_sums(const bench *t, int out, double sum, double weighted)
{
    const double *x = at(t, t->bwd->out[out]);
    double        s = 0, w = 0;
    for (int64_t k = 0; k < mba_elems(t->bwd->out[out]); k++) {
        s += x[k];
        w += (double)(k + 1) * x[k];
    }
    assert_near(s, sum, 1e-11 * fmax(1, fabs(sum)));
    assert_near(w, weighted, 1e-11 * fmax(1, fabs(weighted)));
}

static void assert_golden_outputs(const bench *t)
{
    const double y[] = { 0.3664681196, 1.5851072223,  2.4512782237,  1.9633600295,
                         0.1541134116, -0.4884664294, -0.9130292557, -0.8949996082 };
    const double tail[] = { 0.2693432188, 1.4815886419, 1.3495026338, 1.0991340551 };
    const double last[] = { -0.2478645188, -0.1724087197, -0.0367257388, -0.8201739046, -0.7773127357, -0.4629137659,
                            -0.7009188984, -0.6242196688, -0.3294625825, -0.4937173013, -0.4892182216, -0.3138211759 };
    for (int i = 0; i < 8; i++) assert_near(at(t, t->fwd->out[Y])[i], y[i], 1e-10);
    for (int i = 0; i < 4; i++) assert_near(at(t, t->fwd->out[Y])[36 + i], tail[i], 1e-10);
    for (int i = 0; i < 12; i++) assert_near(at(t, t->fwd->out[FINAL])[i], last[i], 1e-10);
}

static void assert_golden_gradients(const bench *t)
{
    assert_sums(t, DX, -0.05494335104425, -332.2162876405);
    assert_sums(t, DDT, 3.139925309713, 16.03877028381);
    assert_sums(t, DA_LOG, 1.619409218976, 2.179654474424);
    assert_sums(t, DBM, 13.50579791441, 204.2531831111);
    assert_sums(t, DCM, 16.40638127064, 209.2037878834);
    assert_sums(t, DSKIP, 1.400457928676, 2.418983872819);
    assert_sums(t, DDT_BIAS, 3.139925309713, 6.637437377607);
    assert_sums(t, DINITIAL, 1.539980843331, 10.35731640384);
}

static void recurrence_gives_the_golden_values(void **state)
{
    (void)state;
    bench t = { 0 };
    golden_init(&t);
    assert_ok(mba_reference_run(t.r, MBA_FORWARD | MBA_BACKWARD, &(mba_step){ 0 }));
    assert_golden_outputs(&t);
    assert_golden_gradients(&t);
    mba_reference_destroy(t.r);
    mba_graph_destroy(t.o.g);
}

MBA_TEST_MAIN(cmocka_unit_test(recurrence_gives_the_golden_values))
