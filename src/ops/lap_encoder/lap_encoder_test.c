// SPDX-License-Identifier: Apache-2.0
/* lap_encoder_test.c -- values of PyTorch (tools/golden/graph_ops.py), signs, counts, same bits. */
#include "tests/rig.h"

#include "ops/lap_encoder/lap_encoder.h"

typedef struct lap {
    rig         r;
    mba_tensor *phi, *lam, *wa, *ba, *wb, *bb, *y, *dy;
} lap;

static lap make(int64_t nodes, int64_t K, int64_t p, bool flip)
{
    lap        l;
    mba_graph *g = graph();
    mba_type   t = MBA_TYPE(MBA_F32, nodes, K);
    t.count = MBA_NODES;
    l.phi = mba_input(g, "phi", t);
    l.lam = mba_input(g, "lam", t);
    l.wa = mba_param(g, "wa", MBA_TYPE(MBA_F32, 2 * p, 2), MBA_INIT_NORMAL(1), MBA_DECAY);
    l.ba = mba_param(g, "ba", MBA_TYPE(MBA_F32, 2 * p), MBA_INIT_NORMAL(1), MBA_DECAY);
    l.wb = mba_param(g, "wb", MBA_TYPE(MBA_F32, p, 2 * p), MBA_INIT_NORMAL(1), MBA_DECAY);
    l.bb = mba_param(g, "bb", MBA_TYPE(MBA_F32, p), MBA_INIT_NORMAL(1), MBA_DECAY);
    l.y = mba_lap_encoder(g, .phi = l.phi, .lam = l.lam, .wa = l.wa, .ba = l.ba, .wb = l.wb, .bb = l.bb, .flip = flip);
    l.dy = mba_input(g, "dy", l.y->type);
    l.r = rig_create(g, 1, &l.y, &l.dy);
    rig_sines(&l.r, l.phi, 1, 1.1, 0.2);
    for (int64_t i = 0; i < nodes * K; i++) rig_set(&l.r, l.lam, i, fabs(0.5 * sin(0.6 * (double)i + 1)));
    rig_sines(&l.r, l.dy, 1, 0.4, 0.3);
    return l;
}

static void lap_encoder_has_its_golden_values(void **state)
{
    (void)state;
    lap l = make(4, 5, 3, false);
    rig_sines(&l.r, l.wa, 1, 0.8, 0.3);
    rig_sines(&l.r, l.ba, 0.5, 0.5, 0.6);
    rig_sines(&l.r, l.wb, 1, 1.3, 0.9);
    rig_sines(&l.r, l.bb, 0.4, 0.9, 0.2);
    for (int k = 3; k < 5; k++) rig_set(&l.r, l.phi, 5 + k, NAN), rig_set(&l.r, l.lam, 5 + k, NAN);
    rig_run(&l.r);
    assert_golden(&l.r, l.y,
                  (double[]){ 6.5141505915, 4.7916946255, 2.6334256952, 4.9419329698, 3.9159228648, 0.9612952964,
                              5.6525456483, 4.5427429746, 1.9029377944, 5.7162826915, 4.5960047368, 2.7620282981 });
    assert_golden(&l.r, rig_grad(&l.r, l.wa),
                  (double[]){ 2.0304015823, 1.8097632024, 1.6072494011, 0.0029349339, 0.1946843088, 0.3072114064,
                              0.5640738222, -0.4887477025, 1.9123737361, 0.3438879828, 1.9903551371, 1.3797307415 });
    assert_golden(&l.r, rig_grad(&l.r, l.ba),
                  (double[]){ 3.0444752570, -0.3089758762, 1.1943035731, -0.9977876663, 0.1469266845, 2.7688857674 });
    assert_golden(&l.r, rig_grad(&l.r, l.wb),
                  (double[]){ 2.2517980499, 3.0583362458, 0.1423594737, 0.2389893001, 2.4097070218, 1.8120222896,
                              1.5146641292, 2.1692224052, -0.3107939039, -0.8233670599, 1.7255767052, 1.2927622046,
                              -0.4275857672, -0.1060453050, 0.0023503427, -0.5044939837, -0.3610958014,
                              -0.0427799580 });
    assert_golden(&l.r, rig_grad(&l.r, l.bb), (double[]){ 2.5277716366, 1.0428446404, -0.5240762659 });
    rig_destroy(&l.r);
}

/* With random signs the result equals that of some choice of signs, one per eigenvector; the test tries all choices. */
static void lap_encoder_flips_whole_eigenvectors(void **state)
{
    (void)state;
    enum { NODES = 70, K = 5, P = 7, STEPS = 12 };
    lap f = make(NODES, K, P, true), q = make(NODES, K, P, false);
    int flipped = 0;
    for (int step = 0; step < STEPS; step++) {
        int matches = 0;
        f.r.step.index = step;
        rig_run(&f.r);
        assert_close(&f.r);
        for (int signs = 0; signs < 1 << K; signs++) {
            for (int i = 0; i < NODES * K; i++)
                rig_set(&q.r, q.phi, i, (signs >> i % K & 1 ? -1 : 1) * sin(1.1 * i + 0.2));
            rig_run(&q.r);
            double off = 0;
            for (int i = 0; i < NODES * P; i++) off = fmax(off, fabs(rig_want(&q.r, q.y, i) - rig_want(&f.r, f.y, i)));
            for (int i = 0; i < 2 * P * P; i++)
                off = fmax(off,
                           fabs(rig_want(&q.r, rig_grad(&q.r, q.wb), i) - rig_want(&f.r, rig_grad(&f.r, f.wb), i)));
            if (off > 1e-9) continue;
            matches++;
            flipped |= signs;
        }
        assert_int_equal(matches, 1);
    }
    assert_int_equal(flipped, (1 << K) - 1); // in twelve steps each is flipped at least once
    rig_destroy(&f.r);
    rig_destroy(&q.r);
}

static void lap_encoder_does_not_look_beyond_the_count(void **state)
{
    (void)state;
    enum { NODES = 200, REAL = 131, K = 10, P = 20 };
    lap l = make(NODES, K, P, true);
    l.r.step.count[MBA_NODES] = REAL;
    for (int i = 0; i < NODES * K; i++)
        if (i >= REAL * K || (i / K % 7 == 2 && i % K > 3)) rig_set(&l.r, i % 2 ? l.phi : l.lam, i, NAN);
    for (int i = REAL * P; i < NODES * P; i++) rig_set(&l.r, l.dy, i, NAN);
    rig_run(&l.r);
    assert_close(&l.r);
    assert_same_bits(&l.r);
    for (int i = REAL * P; i < NODES * P; i++) assert_near(rig_have(&l.r, l.y, i), 0, 0);
    rig_destroy(&l.r);
}

MBA_TEST_MAIN(cmocka_unit_test(lap_encoder_has_its_golden_values),
              cmocka_unit_test(lap_encoder_flips_whole_eigenvectors),
              cmocka_unit_test(lap_encoder_does_not_look_beyond_the_count))
