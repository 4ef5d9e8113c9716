// SPDX-License-Identifier: Apache-2.0
/* profiled_test.c -- the inputs of the simulator and of its validation: measured sets, signatures, profiled kernels.
 * Bad files are refused, and good ones give the kernels that they describe. */
#include "tests/test.h"

#include <math.h>

#include "sim/profiled.h"
#include "sim/engine.h"
#include "sim/measured.h"
#include "sim/signature.h"

/* ---- measured sets ---- */

static void bad_measured_sets_are_refused(void **state)
{
    (void)state;
    mba_measured            *d;
    static const char *const bad[] = { "",
                                       "# nothing\n",
                                       "fitted\top\tx\n",
                                       "fitted\top\tcase\tssd\t0\t1\tfast\n",
                                       "maybe\top\tcase\tssd\t0\t1\t1\n",
                                       "held\top\tcase\tssd\t0\t1\t0\n",
                                       "held\top\tcase\tssd\t0\t1\t-1\n",
                                       "held\top\tcase\tssd\t0\t1\t1\tmore\n" };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(mba_measured_parse(&d, "bad.tsv", bad[i], strlen(bad[i])), MBA_E_FORMAT);
    assert_ok(mba_measured_load(&d, NULL));
    int held = 0, ssm = 0;
    for (int i = 0; i < d->n; i++) {
        held += d->point[i].set == MBA_POINT_HELD;
        const bool is_ssm = !strncmp(d->point[i].operator, "ssd", 3)
                            || !strncmp(d->point[i].operator, "selective_scan", 14);
        ssm += is_ssm && d->point[i].set == MBA_POINT_FITTED;
    }
    assert_true(held >= 30);
    assert_int_equal(ssm, 0); // nothing is fitted to them
    mba_measured_destroy(d);
}

/* How far off predictions are, of points counted on fingers: those of the set that were predicted, and no total. */
static void scores_are_means_over_what_was_predicted(void **state)
{
    (void)state;
    mba_point          p[] = { { .ms = 10, .predicted_ms = 11, .roofline_ms = 5 },
                               { .ms = 20, .predicted_ms = 14, .roofline_ms = 20 },
                               { .ms = 40, .predicted_ms = 40, .roofline_ms = 30 },
                               { .ms = 10, .predicted_ms = 90, .source = MBA_POINT_TOTAL },
                               { .ms = 10, .predicted_ms = 0 },
                               { .ms = 10, .predicted_ms = 50, .set = MBA_POINT_HELD } };
    const mba_measured d = { p, sizeof p / sizeof *p };
    mba_error_stats    s = mba_measured_score(&d, MBA_POINT_FITTED);
    assert_int_equal(s.points, 3);
    assert_near(s.mape, (10 + 30 + 0) / 3.0, 1e-9);
    assert_near(s.roofline_mape, (50 + 0 + 25) / 3.0, 1e-9);
    assert_near(s.worst, 30, 1e-9);
    assert_near(s.p90, 30, 1e-9);
    assert_ptr_equal(s.worst_point, &p[1]);
    assert_true(s.log_correlation > 0.9 && s.log_correlation < 0.99);
    s = mba_measured_score(&d, MBA_POINT_HELD);
    assert_true(s.points == 1 && s.worst_point == &p[5] && isnan(s.log_correlation));
    assert_near(s.mape, 400, 1e-9);
    assert_near(s.p90, 400, 1e-9);
    assert_near(s.roofline_mape, 100, 1e-9);
    s = mba_measured_score(&d, MBA_POINT_UNCOUNTED);
    assert_true(s.points == 0 && !s.worst_point && isnan(s.mape) && isnan(s.p90) && isnan(s.worst)
                && isnan(s.roofline_mape));
    for (int i = 0; i < 3; i++) p[i].predicted_ms = 3 * p[i].ms; // in proportion
    assert_near(mba_measured_score(&d, MBA_POINT_FITTED).log_correlation, 1, 1e-9);
}

/* ---- kernels by their counters ---- */

static void bad_signatures_are_refused(void **state)
{
    (void)state;
    mba_signatures           s;
    static const char *const bad[] = { "",
                                       "#\n",
                                       "k\t1\n",
                                       "k\t0\t128\t32\t0\t1\t50\t0\t0\t0\t0\t0\n",
                                       "k\t1\t128\t32\t0\t1\t150\t0\t0\t0\t0\t0\n",
                                       "k\t1\t128\t32\t0\t-1\t50\t0\t0\t0\t0\t0\n",
                                       "k\t1\t128\t32\t0\t1\t50\t0\t0\t0\t0\t0\t12 us\n" };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(mba_signatures_parse(&s, "bad.tsv", bad[i], strlen(bad[i])), MBA_E_FORMAT);
}

/* The 19 SSD launches of mamba_ssm: their counters predict their times, which are in another file. */
static void counters_of_peers_predict_their_times(void **state)
{
    (void)state;
    enum { SSD_LAUNCHES = 19 };
    mba_signatures s;
    mba_gpu        m;
    double         sum = 0;
    char           line[256];
    int            n = 0;
    FILE          *f = fopen("src/sim/data/peers_times.tsv", "r");
    if (!f) skip(); // only from the root of the sources
    assert_ok(mba_signatures_load(&s, "src/sim/data/peers_signatures.tsv"));
    assert_ok(mba_gpu_load(&m, "h200"));
    while (n < SSD_LAUNCHES && fgets(line, sizeof line, f)) {
        mba_sim_kernel k;
        if (*line == '#') continue;
        assert_ok(mba_signature_kernel(&k, &s.one[n++], &m));
        assert_non_null(strchr(line, '\t'));
        mba_sim_result r;
        assert_ok(mba_sim_run(&r, &k, &m, MBA_SIM_ONE_SM));
        sum += fabs(1e6 * r.seconds / atof(strchr(line, '\t')) - 1);
    }
    fclose(f);
    mba_signatures_free(&s);
    assert_int_equal(n, SSD_LAUNCHES);
    printf("%d launches of peers: off by %.1f %% on average\n", n, 100 * sum / n);
    assert_true(sum / n < 0.20);
}

/* ---- kernels by what a store counted ---- */

#define COUNTED_WORDS "held\tmamba2-130m\tssd\tfused\tforward\t0\tk\tshape\t"
#define COUNTED_COUNTS \
    "1\t2\t3\t4\t5\t6\t7\t8\t9\t10\t11\t12\t13\t14\t15\t16\t17\t18\t19\t20\t21\t22\t23\t24\t25\t-\t-\t-\t-\t-\t-\t-" \
    "\t-\t"

static void bad_counted_kernels_are_refused(void **state)
{
    (void)state;
    mba_profiled_set *d;
    static const char good[] = "# head\n" COUNTED_WORDS "1\t2\t128\t1\t32\t0\t" COUNTED_COUNTS "5.5\n";
    static const char more[] = "# head\tbehind\tus\n" COUNTED_WORDS "1\t2\t128\t1\t32\t0\t" COUNTED_COUNTS "900\t5.5\n";
    static const char *const bad[] = { "",
                                       "#\n",
                                       "held\tonly\n",
                                       "other" COUNTED_WORDS "1\t2\t128\t1\t32\t0\t" COUNTED_COUNTS "5.5\n",
                                       COUNTED_WORDS "1\t0\t128\t1\t32\t0\t" COUNTED_COUNTS "5.5\n",
                                       COUNTED_WORDS "1\t2\t128\t1\t32\t-\t" COUNTED_COUNTS "5.5\n",
                                       COUNTED_WORDS "1\t2\t128\t1\t32\t0\t" COUNTED_COUNTS "0\n",
                                       COUNTED_WORDS "1\t2\t128\t1\t32\t0\t" COUNTED_COUNTS "-1\n",
                                       COUNTED_WORDS "1\t2\t128\t1\t32\t0\t" COUNTED_COUNTS "5.5\t6\t7\n",
                                       COUNTED_WORDS "1\t2\t128\t1\t32\t0\t5.5\n",
                                       "# head\tbehind\tus\n" COUNTED_WORDS "1\t2\t128\t1\t32\t0\t" COUNTED_COUNTS
                                       "5.5\n" };
    assert_ok(mba_profiled_parse(&d, "good.tsv", good, strlen(good)));
    assert_true(d->n == 1 && d->one[0].set == MBA_POINT_HELD && d->one[0].n[MBA_N_INST] == 1 && d->one[0].us == 5.5);
    assert_true(d->one[0].n[MBA_N_DRAM_WR] == 23 && isnan(d->one[0].n[MBA_N_PATH]) && isnan(d->one[0].n[MBA_N_BEHIND]));
    mba_profiled_destroy(d);
    assert_ok(mba_profiled_parse(&d, "more.tsv", more, strlen(more)));
    assert_true(d->one[0].n[MBA_N_BEHIND] == 900 && d->one[0].us == 5.5);
    mba_profiled_destroy(d);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(mba_profiled_parse(&d, "bad.tsv", bad[i], strlen(bad[i])), MBA_E_FORMAT);
}

static void near_to(double a, double b)
{
    if (fabs(a / b - 1) > 0.01) fail_msg("%g is not %g", a, b);
}

/* A kernel does what was counted, whatever its plan had said. */
static void a_bound_kernel_does_what_was_counted(void **state)
{
    (void)state;
    mba_gpu             m;
    mba_sim_kernel      k = { .name = "k",
                              .grid = 1000,
                              .threads = 256,
                              .warps = 8,
                              .regs = 32,
                              .nroles = 1,
                              .depth = 1,
                              .role_warps = { 8 },
                              .nops = 4,
                              .nstreams = 2 };
    mba_profiled_kernel c = { .grid = 1000, .block = 256, .regs = 40, .smem_bytes = 1024 };
    mba_sim_result      r;
    assert_ok(mba_gpu_load(&m, "h200"));
    k.op[0] = (mba_sim_op){ .work = MBA_OP_LOAD, .stream = 0, .ring = -1, .parts = 1, .bytes = 4096 };
    k.op[1] = (mba_sim_op){ .work = MBA_OP_MIX, .stream = -1, .ring = -1, .parts = 1, .n = { [MBA_P_FMA] = 4096 } };
    k.op[2] = (mba_sim_op){ .work = MBA_OP_STORE, .stream = 1, .ring = -1, .parts = 1, .bytes = 4096 };
    k.op[3] = (mba_sim_op){ .work = MBA_OP_EXIT, .stream = -1, .ring = -1, .parts = 1 };
    k.stream[0] = (mba_sim_stream){ .operand = 0 };
    k.stream[1] = (mba_sim_stream){ .operand = 1, .writes = 1 };
    assert_ok(mba_sim_finish(&k, &m));
    c.n[MBA_N_INST] = 1e6;
    c.n[MBA_N_FMA] = 3e5;
    c.n[MBA_N_ALU] = 2e5;
    c.n[MBA_N_XU] = 1e5;
    c.n[MBA_N_SHARED_WF] = 5e4;
    c.n[MBA_N_L2_RD] = 4e5;
    c.n[MBA_N_L2_WR] = 1e5;
    c.n[MBA_N_DRAM_RD] = 3.2e6;
    c.n[MBA_N_DRAM_WR] = 1.6e6;
    c.n[MBA_N_PATH] = 3;
    c.n[MBA_N_GLOBAL_LD] = 32000;
    c.n[MBA_N_WAITS] = 0.5;
    mba_profiled_apply(&k, &c, &m);
    near_to(k.total[MBA_P_ISSUE], 32e6);
    near_to(k.total[MBA_P_FMA], 9.6e6);
    near_to(k.total[MBA_P_ALU], 6.4e6);
    near_to(k.total[MBA_P_XU], 3.2e6);
    near_to(k.total[MBA_P_SMEM], 6.4e6);
    near_to(k.stream[0].moved, 12.8e6);
    near_to(k.stream[1].moved, 3.2e6);
    const double path = 3 * 1e6 / 8000; // a warp's instructions, three cycles each
    assert_true((double)k.op[1].trips > 1.05 * path && (double)k.op[1].trips < 4 * path); // and it is not alone
    assert_true(k.regs == 40 && k.op[0].parts == 2); // four loads of a warp, two at a time
    assert_ok(mba_sim_run(&r, &k, &m, MBA_SIM_ONE_SM));
    near_to(r.dram_read, 3.2e6);
    near_to(r.dram_write, 1.6e6);
}

/* SSD launches of a step of mamba_ssm, by their counts and their code: into bound_us what is predicted. NULL: only from
 * the root of the sources. */
static mba_profiled_set *peers_of(const char *path)
{
    mba_profiled_set *d;
    mba_gpu           m;
    FILE             *f = fopen(path, "r");
    if (!f) return NULL;
    fclose(f);
    assert_ok(mba_profiled_load(&d, path));
    assert_ok(mba_gpu_load(&m, "h200"));
    for (int i = 0; i < d->n; i++) {
        mba_sim_kernel k;
        mba_sim_result r;
        assert_ok(mba_profiled_lower(&k, &d->one[i], &m));
        assert_ok(mba_sim_run(&r, &k, &m, MBA_SIM_ONE_SM));
        d->one[i].bound_us = 1e6 * r.seconds;
    }
    return d;
}

#define PEERS       "src/sim/data/peers_counted.tsv"
#define PEERS_AGAIN "src/sim/data/peers_counted_again.tsv"
#define PEERS_1_3B  "src/sim/data/peers_counted_1.3b.tsv"

/* How far off on average; each within a quarter. */
static double peers_off(const mba_profiled_set *d)
{
    double sum = 0;
    for (int i = 0; i < d->n; i++) {
        const double off = d->one[i].bound_us / d->one[i].us - 1;
        if (fabs(off) > 0.25) fail_msg("%s: %+.1f %%", d->one[i].kernel, 100 * off);
        sum += fabs(off) / d->n;
    }
    printf("%d launches of peers: off by %.1f %% on average\n", d->n, 100 * sum);
    return sum;
}

static void peers_are_within_a_quarter(void **state)
{
    (void)state;
    mba_profiled_set *d = peers_of(PEERS);
    if (!d) skip();
    assert_int_equal(d->n, 15);
    assert_true(peers_off(d) < 0.07);
    mba_profiled_destroy(d);
}

/* A store counted later, with exact counts. */
static void peers_counted_again_are_too(void **state)
{
    (void)state;
    mba_profiled_set *d = peers_of(PEERS_AGAIN);
    if (!d) skip();
    assert_int_equal(d->n, 14);
    assert_true(peers_off(d) < 0.09);
    mba_profiled_destroy(d);
}

/* The 19 launches of a layer of mamba2-1.3b, 15 different ones, with the code that ran (12 of 15 at first sight). */
static void peers_of_1_3b_are_too(void **state)
{
    (void)state;
    mba_profiled_set *d = peers_of(PEERS_1_3B);
    if (!d) skip();
    assert_int_equal(d->n, 15);
    assert_true(peers_off(d) < 0.10);
    mba_profiled_destroy(d);
}

/* Behind a fence nothing begins before all that was stored is in L2; what a block merely ends with does. */
static void what_is_behind_a_fence_comes_after_stores(void **state)
{
    (void)state;
    enum { CYCLES = 1500 }; // less than stores may be behind (SLACK_CYCLES of engine.c)
    double  us[3];
    mba_gpu m;
    assert_ok(mba_gpu_load(&m, "h200"));
    for (int i = 0; i < 3; i++) {
        mba_profiled_kernel c = { .kernel = "k", .grid = 1056, .block = 128, .regs = 32 };
        mba_sim_kernel      k;
        mba_sim_result      r;
        for (int n = 0; n < MBA_N_KINDS; n++) c.n[n] = 0;
        c.n[MBA_N_INST] = 1056 * 4 * 300, c.n[MBA_N_CODE] = 300, c.n[MBA_N_PATH] = 3;
        c.n[MBA_N_L2_WR] = 1056 * 4 * 64, c.n[MBA_N_GLOBAL_ST] = 1056 * 4 * 2;
        c.n[i == 1 ? MBA_N_TAIL : MBA_N_BEHIND] = i ? CYCLES : 0;
        assert_ok(mba_profiled_lower(&k, &c, &m));
        assert_ok(mba_sim_run(&r, &k, &m, MBA_SIM_ONE_SM));
        us[i] = 1e6 * r.seconds;
    }
    const double whole = CYCLES / (1e3 * m.v[MBA_GPU_clk]);
    printf("stores alone %.2f us, with a tail %.2f, with a fence %.2f; what is behind takes %.2f\n", us[0], us[1],
           us[2], whole);
    assert_true(us[2] > us[0] + 0.95 * whole && us[1] < us[0] + 0.5 * whole);
}

/* As launched and compiled, and what it writes (a row of state_passing is the mean of launches that differ). */
static bool same_launch(const mba_profiled_kernel *a, const mba_profiled_kernel *b)
{
    return !strcmp(a->kernel, b->kernel) && a->grid == b->grid && a->block == b->block && a->regs == b->regs
           && a->smem_bytes == b->smem_bytes && fabs(a->n[MBA_N_L2_WR] / b->n[MBA_N_L2_WR] - 1) < 0.01;
}

/* What was counted of a launch (copies among loads or apart, percents or instructions) decides little. */
static void two_counts_of_a_launch_agree(void **state)
{
    (void)state;
    mba_profiled_set *d[2] = { peers_of(PEERS), peers_of(PEERS_AGAIN) };
    int               same = 0;
    if (!d[0] || !d[1]) skip();
    for (int i = 0; i < d[0]->n; i++)
        for (int j = 0; j < d[1]->n; j++) {
            const mba_profiled_kernel *a = &d[0]->one[i], *b = &d[1]->one[j];
            if (!same_launch(a, b)) continue;
            same++;
            if (fabs(a->bound_us / b->bound_us - 1) > 0.1)
                fail_msg("%s: %.1f and %.1f us", a->kernel, a->bound_us, b->bound_us);
        }
    assert_int_equal(same, 10);
    for (int i = 0; i < 2; i++) mba_profiled_destroy(d[i]);
}

/* Nobody knows how long a kernel waits whose loads were not counted. */
static void too_little_counted_is_refused(void **state)
{
    (void)state;
    static const mba_profiled_metric needed[] = { MBA_N_INST, MBA_N_GLOBAL_LD, MBA_N_DRAM_RD };
    mba_profiled_kernel              c = { .kernel = "k", .grid = 1000, .block = 256, .regs = 32 };
    mba_sim_kernel                   k;
    mba_gpu                          m;
    assert_ok(mba_gpu_load(&m, "h200"));
    for (int i = 0; i < MBA_N_KINDS; i++) c.n[i] = NAN;
    c.n[MBA_N_INST] = 1e6, c.n[MBA_N_GLOBAL_LD] = 0, c.n[MBA_N_DRAM_RD] = 0;
    assert_ok(mba_profiled_lower(&k, &c, &m));
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++) {
        mba_profiled_kernel less = c;
        less.n[needed[i]] = NAN;
        assert_int_equal(mba_profiled_lower(&k, &less, &m), MBA_E_UNSUPPORTED);
        assert_non_null(strstr(mba_message(), "were not counted"));
    }
}

/* Sectors of which a plan fills half come alone of their line: more time in L2, no more bytes anywhere. */
static void parts_of_sectors_take_longer(void **state)
{
    (void)state;
    enum { BLOCKS = 13200, SECTORS = 1024 };
    mba_sim_result r[2];
    mba_gpu        m;
    assert_ok(mba_gpu_load(&m, "h200"));
    for (int i = 0; i < 2; i++) {
        mba_sim_kernel      k = { .name = "k",
                                  .grid = BLOCKS,
                                  .threads = 256,
                                  .warps = 8,
                                  .regs = 32,
                                  .nroles = 1,
                                  .depth = 1,
                                  .role_warps = { 8 },
                                  .nops = 3,
                                  .nstreams = 1 };
        mba_profiled_kernel c = { .grid = BLOCKS, .block = 256, .regs = 32 };
        k.op[0] = (mba_sim_op){ .work = MBA_OP_MIX, .stream = -1, .ring = -1, .parts = 1, .n = { [MBA_P_ALU] = 4096 } };
        k.op[1] = (mba_sim_op){
            .work = MBA_OP_STORE, .stream = 0, .ring = -1, .parts = 1, .bytes = i ? 16 * SECTORS : 32 * SECTORS
        };
        k.op[2] = (mba_sim_op){ .work = MBA_OP_EXIT, .stream = -1, .ring = -1, .parts = 1 };
        k.stream[0] = (mba_sim_stream){ .operand = 0, .writes = 1 };
        assert_ok(mba_sim_finish(&k, &m));
        c.n[MBA_N_INST] = c.n[MBA_N_ALU] = 128.0 * BLOCKS;
        c.n[MBA_N_PATH] = 3;
        c.n[MBA_N_L2_WR] = (double)SECTORS * BLOCKS;
        mba_profiled_apply(&k, &c, &m);
        assert_int_equal(k.partial_stores, i ? 154 : 0); // 60 % of 256
        assert_ok(mba_sim_run(&r[i], &k, &m, MBA_SIM_ONE_SM));
    }
    near_to(r[1].bound[MBA_LIMIT_L2], 1.6 * r[0].bound[MBA_LIMIT_L2]);
    near_to(r[1].l2_write, r[0].l2_write);
    assert_true(r[1].seconds > 1.4 * r[0].seconds && r[1].seconds < 1.7 * r[0].seconds);
}

/* A warp that is alone on its SM takes its own path, one among many waits for the others. */
static void warps_wait_for_each_other(void **state)
{
    (void)state;
    double  before = 0;
    mba_gpu m;
    assert_ok(mba_gpu_load(&m, "h200"));
    for (int64_t warps = 1; warps <= 32; warps *= 2) {
        mba_sim_kernel      k = { .name = "k",
                                  .grid = 132,
                                  .threads = 32 * warps,
                                  .warps = warps,
                                  .regs = 32,
                                  .nroles = 1,
                                  .depth = 1,
                                  .role_warps = { warps },
                                  .nops = 2 };
        mba_profiled_kernel c = { .grid = 132, .block = (double)(32 * warps), .regs = 32 };
        k.op[0] = (mba_sim_op){ .work = MBA_OP_MIX, .stream = -1, .ring = -1, .parts = 1, .n = { [MBA_P_FMA] = 4096 } };
        k.op[1] = (mba_sim_op){ .work = MBA_OP_EXIT, .stream = -1, .ring = -1, .parts = 1 };
        assert_ok(mba_sim_finish(&k, &m));
        c.n[MBA_N_INST] = 132.0 * 1000 * (double)warps;
        c.n[MBA_N_FMA] = c.n[MBA_N_INST] / 2;
        c.n[MBA_N_PATH] = 4;
        mba_profiled_apply(&k, &c, &m);
        const double cycles = (double)k.op[0].trips;
        if (warps == 1) near_to(cycles, 4 * 1000);
        printf("%d warps: %.0f cycles each\n", (int)warps, cycles);
        assert_true(cycles >= before && cycles >= 1000 * (double)warps / 4 && cycles < 4000 + 1000 * (double)warps);
        before = cycles;
    }
}

/* Of eight blocks on an SM one has more to do: it goes on when the others have left, and nobody is in its way then. */
static void the_longest_block_ends_alone(void **state)
{
    (void)state;
    enum { SMS = 132, BESIDE = 8, WARPS = 8, EACH = 1000, MORE = 500 };
    int64_t longest[2];
    mba_gpu m;
    assert_ok(mba_gpu_load(&m, "h200"));
    for (int i = 0; i < 2; i++) {
        mba_sim_kernel      k = { .name = "k",
                                  .grid = SMS * BESIDE,
                                  .threads = 32 * WARPS,
                                  .warps = WARPS,
                                  .regs = 32,
                                  .nroles = 1,
                                  .depth = 1,
                                  .role_warps = { WARPS },
                                  .nops = 2 };
        mba_profiled_kernel c = { .grid = SMS * BESIDE, .block = 32 * WARPS, .regs = 32 };
        k.op[0] = (mba_sim_op){ .work = MBA_OP_MIX, .stream = -1, .ring = -1, .parts = 1, .n = { [MBA_P_FMA] = 4096 } };
        k.op[1] = (mba_sim_op){ .work = MBA_OP_EXIT, .stream = -1, .ring = -1, .parts = 1 };
        assert_ok(mba_sim_finish(&k, &m));
        c.n[MBA_N_INST] = (double)SMS * BESIDE * WARPS * EACH;
        c.n[MBA_N_PATH] = 4;
        c.n[MBA_N_MOST] = BESIDE * WARPS / 4 * EACH + (i + 4) * WARPS / 4 * MORE;
        mba_profiled_apply(&k, &c, &m);
        longest[i] = k.longest;
    }
    const double each = (double)(longest[1] - longest[0])
                        / MORE; // 16 warps of a scheduler take 16 cycles, two their own 4
    assert_true(each >= 4 && each < 4.5);
}

/* What no SM holds is refused, and not simulated as if it took nothing. */
static void a_foreign_kernel_holds_what_it_was_compiled_with(void **state)
{
    (void)state;
    mba_profiled_kernel c = { .kernel = "k", .grid = 1000, .block = 256, .regs = 32, .smem_bytes = 2048 };
    mba_sim_kernel      k;
    mba_gpu             m;
    assert_ok(mba_gpu_load(&m, "h200"));
    for (int i = 0; i < MBA_N_KINDS; i++) c.n[i] = NAN;
    c.n[MBA_N_INST] = 1e6, c.n[MBA_N_GLOBAL_LD] = 0, c.n[MBA_N_DRAM_RD] = 0;
    assert_ok(mba_profiled_lower(&k, &c, &m));
    assert_true(k.regs == 32 && k.smem_bytes == 2048 && k.counted == 1 && !k.uses_tensor);
    assert_string_equal(k.name, "k");
    c.regs = 4096;
    assert_int_not_equal(mba_profiled_lower(&k, &c, &m), MBA_OK);
    c.regs = 32, c.smem_bytes = 1 << 20;
    assert_int_not_equal(mba_profiled_lower(&k, &c, &m), MBA_OK);
}

/* Blocks that come after others are away while they begin and end: to those beside them one is as good as the other. */
static int64_t path_beside(int number, double cycles, int64_t grid)
{
    mba_gpu m;
    assert_ok(mba_gpu_load(&m, "h200"));
    if (number >= 0) m.v[number] += cycles;
    mba_sim_kernel      k = { .name = "k",
                              .grid = grid,
                              .threads = 256,
                              .warps = 8,
                              .regs = 32,
                              .nroles = 1,
                              .depth = 1,
                              .role_warps = { 8 },
                              .nops = 2 };
    mba_profiled_kernel c = { .grid = (double)grid, .block = 256, .regs = 32 };
    k.op[0] = (mba_sim_op){ .work = MBA_OP_MIX, .stream = -1, .ring = -1, .parts = 1, .n = { [MBA_P_FMA] = 4096 } };
    k.op[1] = (mba_sim_op){ .work = MBA_OP_EXIT, .stream = -1, .ring = -1, .parts = 1 };
    assert_ok(mba_sim_finish(&k, &m));
    c.n[MBA_N_INST] = (double)grid * 8 * 1000;
    c.n[MBA_N_PATH] = 4;
    mba_profiled_apply(&k, &c, &m);
    return k.op[0].trips;
}

static void blocks_that_begin_or_end_are_away(void **state)
{
    (void)state;
    const int64_t many = path_beside(-1, 0, 132 * 80), few = path_beside(-1, 0, 132 * 4);
    assert_true(path_beside(MBA_GPU_block_exit, 2000, 132 * 80) < many);
    assert_int_equal(path_beside(MBA_GPU_block_exit, 2000, 132 * 80), path_beside(MBA_GPU_block_start, 2000, 132 * 80));
    assert_int_equal(path_beside(MBA_GPU_block_exit, 2000, 132 * 80),
                     path_beside(MBA_GPU_block_start_warp, 250, 132 * 80));
    assert_int_equal(path_beside(MBA_GPU_block_exit, 2000, 132 * 4), few); // nobody comes after them
}

/* With as many operations as there can be, what stands behind them is left alone. */
static void a_full_kernel_is_bound_within_its_bounds(void **state)
{
    (void)state;
    mba_gpu             m;
    mba_sim_kernel      k = { .name = "k",
                              .grid = 1000,
                              .threads = 256,
                              .warps = 8,
                              .regs = 32,
                              .nroles = 1,
                              .depth = 1,
                              .role_warps = { 8 },
                              .nops = MBA_SIM_OPS,
                              .nstreams = 2 };
    mba_profiled_kernel c = { .grid = 1000, .block = 256, .regs = 32 };
    assert_ok(mba_gpu_load(&m, "h200"));
    for (int i = 0; i < MBA_SIM_OPS; i++)
        k.op[i] = (mba_sim_op){ .work = i ? MBA_OP_MIX : MBA_OP_LOAD,
                                .stream = i ? -1 : 0,
                                .ring = -1,
                                .parts = 1,
                                .bytes = i ? 0 : 4096,
                                .n = { [MBA_P_FMA] = i ? 4096 : 0 } };
    k.op[MBA_SIM_OPS - 2] = (mba_sim_op){ .work = MBA_OP_STORE, .stream = 1, .ring = -1, .parts = 1, .bytes = 4096 };
    k.op[MBA_SIM_OPS - 1] = (mba_sim_op){ .work = MBA_OP_EXIT, .stream = -1, .ring = -1, .parts = 1 };
    k.stream[1].writes = 1;
    for (int i = 2; i < MBA_SIM_STREAMS; i++) // of none; as a product would look to who goes one too far
        k.stream[i] = (mba_sim_stream){ .operand = 7, .writes = 7, .moved = 7, .unique = 7, .hit = 7 };
    assert_ok(mba_sim_finish(&k, &m));
    c.n[MBA_N_INST] = 1e6, c.n[MBA_N_FMA] = 3e5, c.n[MBA_N_ALU] = 2e5, c.n[MBA_N_XU] = 1e5, c.n[MBA_N_SHARED_WF] = 5e4;
    c.n[MBA_N_L2_RD] = 4e5, c.n[MBA_N_L2_WR] = 1e5, c.n[MBA_N_DRAM_RD] = 3.2e6, c.n[MBA_N_DRAM_WR] = 1.6e6,
    c.n[MBA_N_PATH] = 3;
    mba_profiled_apply(&k, &c, &m);
    assert_true(k.counted && k.nops == MBA_SIM_OPS);
    near_to(k.total[MBA_P_FMA], 9.6e6);
    near_to(k.stream[0].moved, 12.8e6);
    near_to(k.stream[1].moved, 3.2e6);
    for (int i = 2; i < MBA_SIM_STREAMS; i++) {
        const mba_sim_stream *s = &k.stream[i];
        assert_true(s->operand == 7 && s->writes == 7 && s->moved == 7 && s->unique == 7 && s->hit == 7);
    }
}

MBA_TEST_MAIN(cmocka_unit_test(scores_are_means_over_what_was_predicted),
              cmocka_unit_test(a_foreign_kernel_holds_what_it_was_compiled_with),
              cmocka_unit_test(blocks_that_begin_or_end_are_away),
              cmocka_unit_test(a_full_kernel_is_bound_within_its_bounds),
              cmocka_unit_test(bad_measured_sets_are_refused), cmocka_unit_test(bad_signatures_are_refused),
              cmocka_unit_test(counters_of_peers_predict_their_times),
              cmocka_unit_test(bad_counted_kernels_are_refused), cmocka_unit_test(a_bound_kernel_does_what_was_counted),
              cmocka_unit_test(peers_are_within_a_quarter), cmocka_unit_test(peers_counted_again_are_too),
              cmocka_unit_test(peers_of_1_3b_are_too), cmocka_unit_test(what_is_behind_a_fence_comes_after_stores),
              cmocka_unit_test(two_counts_of_a_launch_agree), cmocka_unit_test(too_little_counted_is_refused),
              cmocka_unit_test(parts_of_sectors_take_longer), cmocka_unit_test(warps_wait_for_each_other),
              cmocka_unit_test(the_longest_block_ends_alone))
