// SPDX-License-Identifier: Apache-2.0
/* sm_test.c -- the SM against cycles on paper, and programs from counters against the cycles they are made for. */
#include "sim/sm.h"

#include <math.h>

#include "tests/test.h"

static mba_sm_code loop_of(mba_sm_unit unit, int stall, int fronts)
{
    mba_sm_code code = { .n = 64 };
    for (int i = 0; i < code.n; i++) code.inst[i] = (mba_sm_inst){ (uint8_t)unit, (uint8_t)stall, -1, -1, fronts };
    return code;
}

/* A lone warp waits for stalls, many warps for the pipe of their sub-partition. */
static void pipes_and_stalls_take_their_cycles(void **state)
{
    static const struct {
        mba_sm_unit unit;
        double      each; /* cycles of an instruction in one sub-partition of sm_90 */
    } of[] = { { MBA_SM_NONE, 1 },  { MBA_SM_FMA, 1 }, { MBA_SM_HEAVY, 2 },
               { MBA_SM_ALU, 2 },   { MBA_SM_XU, 8 },  { MBA_SM_MMA, 4096 / (1024 * 0.662) },
               { MBA_SM_GROUP, 64 } };
    const mba_sm home = mba_sm_90();
    (void)state;
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        const mba_sm_code code = loop_of(of[i].unit, 6, 0);
        const double      lone = mba_sm_cycles(&code, &home, 1, 1), many = mba_sm_cycles(&code, &home, 16, 4);
        assert_near(lone, of[i].unit == MBA_SM_GROUP ? 6 : fmax(6, of[i].each), 0.01);
        if (of[i].unit != MBA_SM_GROUP) assert_near(many, 16 * of[i].each > 6 ? 16 * of[i].each : 6, 0.02 * many);
    }
}

/* Four wavefronts of 128 bytes, of all four sub-partitions, one after the other. */
static void wavefronts_of_all_warps_share_one_memory(void **state)
{
    const mba_sm      home = mba_sm_90();
    const mba_sm_code code = loop_of(MBA_SM_MEMORY, 1, 4 * 16);
    mba_sm_code       waits = code;
    (void)state;
    for (int i = 0; i < waits.n; i++) waits.inst[i].sets = waits.inst[i].waits = 0;
    assert_near(mba_sm_cycles(&waits, &home, 1, 1), 4 + 30, 0.1);      // its wavefronts and its latency
    assert_near(mba_sm_cycles(&waits, &home, 64, 1), 4 * 4 * 16, 2.6); // 64 warps wait for each other
}

/* Whatever the counters say, a program takes what was read in the code, unless its pipes need more. */
static void programs_take_the_cycles_they_are_made_for(void **state)
{
    mba_profiled_set *d;
    int               rows = 0, near = 0;
    const mba_sm      home = mba_sm_90();
    (void)state;
    assert_ok(mba_profiled_load(&d, NULL));
    for (int i = 0; i < d->n; i++) {
        mba_sm_code code;
        if (!mba_sm_code_of(&code, &d->one[i])) continue;
        const double off = mba_sm_cycles(&code, &home, 1, 1) / d->one[i].n[MBA_N_PATH] - 1;
        rows++;
        near += fabs(off) < 0.03;
    }
    printf("%d of %d programs are within 3 %% of the path of a lone warp\n", near, rows);
    assert_true(rows > 700 && near > 0.95 * rows);
    mba_profiled_destroy(d);
}

/* At home nothing changes, to the bit; elsewhere every number of the SM that is used does. */
static void kernels_react_to_the_sm(void **state)
{
    static const char *const slower[] = { "fma=x0.25,alu=x0.25", "lat_alu=x3",  "xu=x0.1",     "smem_bw=x0.1",
                                          "issue=x0.25",         "mma16=x0.05", "lat_smem=x10" };
    mba_profiled_set        *d;
    mba_gpu                  m;
    (void)state;
    assert_ok(mba_gpu_load(&m, "h200"));
    assert_ok(mba_profiled_load(&d, "src/sim/data/peers_counted_1.3b.tsv"));
    const mba_profiled_kernel *scan = &d->one[4]; // _chunk_scan_fwd_kernel
    mba_profiled_kernel        c = *scan;
    mba_sm_react(&c, &m, 2, 6);
    for (int i = 0; i < MBA_N_KINDS; i++) assert_true(c.n[i] == scan->n[i] || isnan(scan->n[i]));
    for (size_t i = 0; i < sizeof slower / sizeof *slower; i++) {
        mba_gpu other = m;
        assert_ok(mba_gpu_set(&other, slower[i]));
        c = *scan;
        mba_sm_react(&c, &other, 2, 6);
        const double was = scan->n[MBA_N_STEP] + 5 * scan->n[MBA_N_BESIDE],
                     now = c.n[MBA_N_STEP] + 5 * c.n[MBA_N_BESIDE];
        if (!(now > 1.05 * was)) fail_msg("%s: %.2f cycles, %.2f before", slower[i], now, was);
    }
    mba_profiled_destroy(d);
}

/* A slower unit adds no more than the time that its work takes longer, however long warps wait for each other. */
static void a_slower_unit_adds_no_more_than_its_work(void **state)
{
    static const double SLOWER = 1.3, HERE = 1.005;
    mba_profiled_set   *d;
    mba_gpu             m;
    int                 rows = 0;
    (void)state;
    assert_ok(mba_gpu_load(&m, "h200"));
    assert_ok(mba_profiled_load(&d, NULL));
    m.v[MBA_GPU_smem_bw] /= SLOWER;
    for (int i = 0; i < d->n; i++) {
        mba_profiled_kernel c = d->one[i];
        const int           warps = (int)ceil(c.block / 32);
        const double        was = c.n[MBA_N_STEP] + c.n[MBA_N_BESIDE],
                     busy = 2 * warps * c.n[MBA_N_LSU_WF] / c.n[MBA_N_INST] / was; // one wavefront a cycle
        if (!(was > 0 && busy > 0 && busy < 1)) continue;
        mba_sm_react(&c, &m, warps, 2);
        const double now = c.n[MBA_N_STEP] + c.n[MBA_N_BESIDE];
        rows++;
        if (!(now <= HERE * was * (1 + (SLOWER - 1) * busy)))
            fail_msg("%s: %.2f cycles, %.2f before, busy for %.2f", c.kernel, now, was, busy);
    }
    printf("%d kernels\n", rows);
    assert_true(rows > 50);
    mba_profiled_destroy(d);
}

MBA_TEST_MAIN(cmocka_unit_test(pipes_and_stalls_take_their_cycles),
              cmocka_unit_test(wavefronts_of_all_warps_share_one_memory),
              cmocka_unit_test(programs_take_the_cycles_they_are_made_for), cmocka_unit_test(kernels_react_to_the_sm),
              cmocka_unit_test(a_slower_unit_adds_no_more_than_its_work))
