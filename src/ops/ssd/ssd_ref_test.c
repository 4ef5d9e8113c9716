// SPDX-License-Identifier: Apache-2.0
/* ssd_ref_test.c -- the fp64 reference of ssd against golden values. */
#include "tests/test.h"

#include "ops/ssd/ssd.h"
#include "ops/ssd/ssd_slots.h"

/* ---- fp64: a node made by hand ---- */

enum { SLOTS_IN = DFINAL + 1, SLOTS_OUT = DINITIAL + 1 };

typedef struct bench { /* one call of both references */
    ssd_attr   attr;
    mba_tensor tensor[SLOTS_IN + SLOTS_OUT];
    mba_node   node;
    double    *in[SLOTS_IN];
    double    *y, *final, *grad[SLOTS_OUT], *space;
} bench;

static double *array(int64_t n)
{
    double *x = calloc((size_t)n, sizeof *x);
    assert_non_null(x);
    return x;
}

static int64_t elems(const bench *t, int slot) { return mba_elems(&t->tensor[slot]); }

static void bench_init(bench *t, const int64_t d[6]) /* d: B, L, H, P, G, N */
{
    const mba_type type[SLOTS_IN] = { [X] = MBA_TYPE(MBA_F32, d[0], d[1], d[2], d[3]),
                                      [DT] = MBA_TYPE(MBA_F32, d[0], d[1], d[2]),
                                      [BM] = MBA_TYPE(MBA_F32, d[0], d[1], d[4], d[5]),
                                      [CM] = MBA_TYPE(MBA_F32, d[0], d[1], d[4], d[5]),
                                      [A_LOG] = MBA_TYPE(MBA_F32, d[2]),
                                      [SKIP] = MBA_TYPE(MBA_F32, d[2]),
                                      [DT_BIAS] = MBA_TYPE(MBA_F32, d[2]),
                                      [INITIAL] = MBA_TYPE(MBA_F32, d[0], d[2], d[3], d[5]),
                                      [DY] = MBA_TYPE(MBA_F32, d[0], d[1], d[2], d[3]),
                                      [DFINAL] = MBA_TYPE(MBA_F32, d[0], d[2], d[3], d[5]) };
    *t = (bench){ .attr = { .chunk = 4, .final = 1, .dt_max = (double)INFINITY } };
    for (int k = 0; k < SLOTS_IN; k++) {
        if (k == IDS) continue;
        const int64_t n = mba_type_elems(&type[k]);
        t->tensor[k] = (mba_tensor){ .type = type[k], .run = n, .pitch = n };
        t->node.in[k] = &t->tensor[k];
        t->in[k] = array(n);
    }
    t->node.attr = &t->attr;
    t->space = array(ssd_ref_space(&t->node));
    t->y = array(elems(t, X));
    t->final = array(elems(t, INITIAL));
    const int of[SLOTS_OUT] = { X, DT, BM, CM, A_LOG, SKIP, DT_BIAS, INITIAL };
    for (int k = 0; k < SLOTS_OUT; k++) t->grad[k] = array(elems(t, of[k]));
}

static void bench_free(bench *t)
{
    for (int k = 0; k < SLOTS_IN; k++) free(t->in[k]);
    for (int k = 0; k < SLOTS_OUT; k++) free(t->grad[k]);
    free(t->y);
    free(t->final);
    free(t->space);
}

static mba_ref_call call_of(bench *t, bool backward)
{
    mba_ref_call c = { .node = &t->node, .space = t->space };
    for (int k = 0; k < SLOTS_IN; k++) c.in[k] = t->in[k];
    if (!backward) {
        c.out[Y] = t->y;
        c.out[FINAL] = t->final;
    }
    for (int k = 0; k < SLOTS_OUT && backward; k++) c.out[k] = t->grad[k];
    return c;
}

static void fill(double *x, int64_t n, double amp, double fr, double ph)
{
    for (int64_t k = 0; k < n; k++) x[k] = amp * sin(fr * (double)k + ph);
}

/* ---- the golden case ---- */

static void golden_init(bench *t)
{
    bench_init(t, (const int64_t[]){ 1, 10, 2, 2, 1, 3 });
    fill(t->in[X], 40, 1, .7, .1);
    fill(t->in[DT], 20, .8, .5, .3);
    fill(t->in[A_LOG], 2, .5, 1.1, .6);
    fill(t->in[BM], 30, 1, .6, .4);
    fill(t->in[CM], 30, 1, .8, .5);
    fill(t->in[SKIP], 2, .5, 1, 1);
    fill(t->in[DT_BIAS], 2, .4, 1, 2);
    fill(t->in[INITIAL], 12, .3, .9, .2);
    fill(t->in[DY], 40, 1, .3, .7);
    fill(t->in[DFINAL], 12, .5, .4, .9);
}

static void assert_sums(const double *x, int64_t n, double sum, double weighted)
{
    double s = 0, w = 0;
    for (int64_t k = 0; k < n; k++) {
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
    for (int i = 0; i < 8; i++) assert_near(t->y[i], y[i], 1e-10);
    for (int i = 0; i < 4; i++) assert_near(t->y[36 + i], tail[i], 1e-10);
    for (int i = 0; i < 12; i++) assert_near(t->final[i], last[i], 1e-10);
}

static void assert_golden_gradients(const bench *t)
{
    assert_sums(t->grad[DX], 40, -0.05494335104425, -332.2162876405);
    assert_sums(t->grad[DDT], 20, 3.139925309713, 16.03877028381);
    assert_sums(t->grad[DA_LOG], 2, 1.619409218976, 2.179654474424);
    assert_sums(t->grad[DBM], 30, 13.50579791441, 204.2531831111);
    assert_sums(t->grad[DCM], 30, 16.40638127064, 209.2037878834);
    assert_sums(t->grad[DSKIP], 2, 1.400457928676, 2.418983872819);
    assert_sums(t->grad[DDT_BIAS], 2, 3.139925309713, 6.637437377607);
    assert_sums(t->grad[DINITIAL], 12, 1.539980843331, 10.35731640384);
}

static void recurrence_gives_the_golden_values(void **state)
{
    (void)state;
    bench t;
    golden_init(&t);
    mba_ref_call f = call_of(&t, false), b = call_of(&t, true);
    ssd_ref(&f);
    ssd_bwd_ref(&b);
    assert_golden_outputs(&t);
    assert_golden_gradients(&t);
    bench_free(&t);
}

MBA_TEST_MAIN(cmocka_unit_test(recurrence_gives_the_golden_values))
