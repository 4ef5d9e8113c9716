// SPDX-License-Identifier: Apache-2.0
/* sim_test.c -- laws that any machine and any kernel obey, on many random ones; public measurements of another machine;
 * the same bits from every compiler. */
#include "tests/test.h"

#include <math.h>

#include "sim/engine.h"
#include "sim/serialize.h"
#include "tests/dice.h"

static double between(double a, double b) { return a + (b - a) * (double)dice(1 << 20) / (1 << 20); }

/* ---- random machines and kernels ---- */

/* Numbers that make a machine faster when there is more of them; then those that do when there is less. */
static const int rates_of_machine[] = { MBA_GPU_issue,     MBA_GPU_fma,        MBA_GPU_alu,         MBA_GPU_half2,
                                        MBA_GPU_xu,        MBA_GPU_mma16,      MBA_GPU_smem_bw,     MBA_GPU_l2_rd,
                                        MBA_GPU_l2_wr,     MBA_GPU_sm_l2_read, MBA_GPU_sm_l2_write, MBA_GPU_hbm,
                                        MBA_GPU_block_rate };
static const int costs_of_machine[] = { MBA_GPU_issue_gap,   MBA_GPU_barrier,          MBA_GPU_l2_lat,
                                        MBA_GPU_hbm_lat,     MBA_GPU_hbm_turnaround,   MBA_GPU_t_kernel,
                                        MBA_GPU_block_start, MBA_GPU_block_start_warp, MBA_GPU_block_exit,
                                        MBA_GPU_async_lat };
enum {
    RATES = sizeof rates_of_machine / sizeof *rates_of_machine,
    COSTS = sizeof costs_of_machine / sizeof *costs_of_machine
};

/* By name: the bits that are written down here do not change with the files in machines/. */
static const char *const machines[] = { "a100", "b200", "h100", "h200", "mi300x", "v100" };

static mba_gpu random_machine(void)
{
    mba_gpu m;
    assert_ok(mba_gpu_load(&m, machines[dice(sizeof machines / sizeof *machines)]));
    for (int i = 0; i < RATES; i++) m.v[rates_of_machine[i]] *= between(0.5, 2);
    for (int i = 0; i < COSTS; i++) m.v[costs_of_machine[i]] *= between(0.3, 2);
    m.v[MBA_GPU_sm] = 1 + (double)dice(200);
    m.v[MBA_GPU_clk_mma] = m.v[MBA_GPU_clk]; // the clock is tried by itself
    return m;
}

static mba_sim_op *op(mba_sim_kernel *k, mba_sim_work work)
{
    mba_sim_op *o = &k->op[k->nops++];
    *o = (mba_sim_op){ .work = (int32_t)work, .stream = -1, .ring = -1, .parts = 1 };
    return o;
}

static void random_body(mba_sim_kernel *k, bool in_loop)
{
    for (uint64_t n = 1 + dice(4); n; n--) {
        const uint64_t kind = dice(6);
        if (kind == 0) {
            mba_sim_op *o = op(k, MBA_OP_LOAD);
            o->stream = (int32_t)dice(2);
            o->bytes = 32 + dice(1 << 14);
        }
        if (kind == 1 && in_loop) {
            mba_sim_op *o = op(k, MBA_OP_ASYNC);
            o->stream = 0;
            o->bytes = 32 + dice(1 << 14);
            o->ahead = (int32_t)k->depth - 1;
        }
        if (kind == 2) {
            mba_sim_op *o = op(k, MBA_OP_STORE);
            o->stream = 2;
            o->bytes = 32 + dice(1 << 13);
        }
        if (kind == 3) op(k, MBA_OP_BARRIER);
        if (kind >= 4) {
            mba_sim_op *o = op(k, MBA_OP_MIX);
            for (int p = 0; p < MBA_P_ISSUE; p++) o->n[p] = dice(3) ? 0 : dice(p == MBA_P_MMA ? 1 << 20 : 1 << 14);
        }
    }
}

static mba_sim_kernel random_kernel(const mba_gpu *m)
{
    mba_sim_kernel k;
    do {
        memset(&k, 0, sizeof k);
        snprintf(k.name, sizeof k.name, "random");
        k.warps = 1 + (int64_t)dice(16);
        k.threads = 32 * k.warps;
        k.grid = 1 + (int64_t)dice(dice(2) ? 4000 : 100);
        k.regs = 16 + (int64_t)dice(112);
        k.smem_bytes = (int64_t)dice(40000);
        k.depth = 1 + (int64_t)dice(4);
        k.mma_flops = dice(2) ? 16 : 116;
        k.nroles = 1;
        k.role_warps[0] = k.warps;
        k.nstreams = 3;
        for (int s = 0; s < 3; s++)
            k.stream[s] = (mba_sim_stream){ .operand = -1, .writes = s == 2, .hit = dice(2) ? (int64_t)dice(257) : 0 };
        random_body(&k, false);
        if (dice(2)) {
            op(&k, MBA_OP_LOOP)->trips = 1 + (int64_t)dice(20);
            random_body(&k, true);
            op(&k, MBA_OP_END);
        }
        op(&k, MBA_OP_EXIT);
    } while (mba_sim_finish(&k, m) != MBA_OK);
    return k;
}

static double time_of(const mba_sim_kernel *k, const mba_gpu *m, mba_sim_fidelity fidelity)
{
    mba_sim_result r;
    assert_ok(mba_sim_run(&r, k, m, fidelity));
    return r.seconds;
}

enum { CASES = 10000 };

/* Law 2: nothing is faster than its bounds, no pipe is busier than always. */
static void no_kernel_beats_its_bounds(void **state)
{
    (void)state;
    dice_state = 88172645463325252u;
    for (int i = 0; i < CASES; i++) {
        const mba_gpu        m = random_machine();
        const mba_sim_kernel k = random_kernel(&m);
        mba_sim_result       r;
        assert_ok(mba_sim_run(&r, &k, &m, i % 20 ? MBA_SIM_ONE_SM : MBA_SIM_ALL_SMS));
        for (int b = 0; b < MBA_LIMITS; b++)
            if (r.seconds < r.bound[b] * 0.995)
                fail_msg("case %d: %g us below the %s bound of %g us", i, 1e6 * r.seconds, mba_sim_limits[b],
                         1e6 * r.bound[b]);
        for (int p = 0; p < MBA_PIPES; p++) assert_true(r.busy[p] <= 1.006);
        assert_true(r.dram_read <= r.l2_read * 1.0001 && r.dram_write <= r.l2_write * 1.0001);
    }
}

/* Law 1. Who is first in a queue may change, so that single kernels show small anomalies; larger ones are counted and
 * printed. */
static void a_better_machine_is_not_slower(void **state)
{
    (void)state;
    int    anomalies = 0;
    double worst = 1;
    dice_state = 362436069362436069u;
    for (int i = 0; i < CASES; i++) {
        const mba_gpu        m = random_machine();
        const mba_sim_kernel k = random_kernel(&m);
        mba_gpu              better = m;
        const bool           rate = dice(2);
        const int            key = rate ? rates_of_machine[dice(RATES)] : costs_of_machine[dice(COSTS)];
        better.v[key] *= rate ? between(1.05, 3) : between(0, 0.95);
        const double a = time_of(&k, &m, MBA_SIM_ONE_SM), b = time_of(&k, &better, MBA_SIM_ONE_SM);
        if (b > a * 1.005) anomalies++;
        if (b / a > worst) worst = b / a;
    }
    printf("%d of %d pairs are slower by more than 0.5 %%, the worst by %.1f %%\n", anomalies, (int)CASES,
           100 * (worst - 1));
    assert_true(anomalies <= CASES / 200);
    assert_true(worst < 1.15);
}

/* Law 4: a machine twice as fast in everything takes half the time, to the bit; a larger grid takes proportionally
 * longer. */
static void time_scales(void **state)
{
    (void)state;
    dice_state = 521288629521288629u;
    for (int i = 0; i < 2000; i++) {
        mba_gpu m = random_machine();
        m.v[MBA_GPU_t_kernel] = 0; // once per launch, however large the grid is
        const mba_sim_kernel k = random_kernel(&m);
        mba_gpu              fast = m;
        static const int     in_seconds[] = { MBA_GPU_clk,   MBA_GPU_clk_tc, MBA_GPU_clk_busy, MBA_GPU_clk_mma,
                                              MBA_GPU_l2_rd, MBA_GPU_l2_wr,  MBA_GPU_hbm };
        for (int j = 0; j < 7; j++) fast.v[in_seconds[j]] *= 2;
        fast.v[MBA_GPU_t_power] /= 2;
        const double a = time_of(&k, &m, MBA_SIM_ONE_SM), b = time_of(&k, &fast, MBA_SIM_ONE_SM);
        assert_true(a == 2 * b);
        mba_sim_kernel large = k;
        large.grid = 40 * (int64_t)m.v[MBA_GPU_sm] * mba_sim_resident(&k, &m);
        assert_ok(mba_sim_finish(&large, &m));
        const double once = time_of(&large, &m, MBA_SIM_ONE_SM);
        large.grid *= 3;
        assert_ok(mba_sim_finish(&large, &m));
        const double thrice = time_of(&large, &m, MBA_SIM_ONE_SM);
        if (fabs(thrice / once / 3 - 1) > 0.06)
            fail_msg("case %d: three times the grid takes %.3f times as long", i, thrice / once);
    }
}

/* Law 3: without latencies and costs only throughput is left. */
static void without_latencies_only_throughput_counts(void **state)
{
    (void)state;
    double worst = 0;
    dice_state = 13579111315171921u;
    for (int i = 0; i < 1000; i++) {
        mba_gpu m = random_machine();
        for (int j = 0; j < COSTS; j++) m.v[costs_of_machine[j]] = 0;
        m.v[MBA_GPU_block_rate] = 1e4;
        mba_sim_kernel k = random_kernel(&m);
        k.grid = 60 * (int64_t)m.v[MBA_GPU_sm] * mba_sim_resident(&k, &m);
        k.warps = k.role_warps[0] = 4; // every sub-partition, and many blocks
        k.threads = 128;
        k.regs = 16;
        k.smem_bytes = 0;
        assert_ok(mba_sim_finish(&k, &m));
        mba_sim_result r;
        assert_ok(mba_sim_run(&r, &k, &m, MBA_SIM_ONE_SM));
        double most = 0;
        for (int b = 0; b < MBA_LIMITS; b++)
            if (b != MBA_LIMIT_LAUNCH && r.bound[b] > most) most = r.bound[b];
        if (most > 0 && r.seconds / most > worst) worst = r.seconds / most;
    }
    printf("at worst %.3f times the longest throughput bound\n", worst);
    assert_true(worst < 1.35); // phases of a team do not overlap each other
}

/* Law 3: one warp, one block, one load after the other. */
static void one_warp_takes_the_sum_of_its_path(void **state)
{
    (void)state;
    mba_gpu m;
    assert_ok(mba_gpu_load(&m, "h200"));
    mba_sim_kernel k = { .name = "chase",
                         .grid = 1,
                         .threads = 32,
                         .warps = 1,
                         .regs = 16,
                         .nroles = 1,
                         .depth = 1,
                         .role_warps = { 1 },
                         .nstreams = 1 };
    k.stream[0] = (mba_sim_stream){ .operand = -1, .hit = 0 };
    op(&k, MBA_OP_LOOP)->trips = 100;
    mba_sim_op *o = op(&k, MBA_OP_LOAD);
    o->stream = 0;
    o->bytes = 128;
    op(&k, MBA_OP_BARRIER);
    op(&k, MBA_OP_END);
    op(&k, MBA_OP_EXIT);
    assert_ok(mba_sim_finish(&k, &m));
    mba_sim_result r;
    assert_ok(mba_sim_run(&r, &k, &m, MBA_SIM_ONE_SM));
    const double each = m.v[MBA_GPU_hbm_lat] + m.v[MBA_GPU_barrier],
                 fixed = m.v[MBA_GPU_t_kernel] + m.v[MBA_GPU_block_start] + m.v[MBA_GPU_block_start_warp]
                         + m.v[MBA_GPU_block_exit];
    assert_true(fabs(r.cycles - fixed - 100 * each) < 0.02 * r.cycles);
}

/* Law 6, where some SMs have one block more than others: the last block of the busiest SM shares with fewer. */
static void the_busiest_sm_stands_for_all(void **state)
{
    (void)state;
    enum { PAIRS = 300 };
    double sum = 0, worst = 0;
    dice_state = 88172645463325252u;
    for (int i = 0; i < PAIRS; i++) {
        mba_gpu m = random_machine();
        m.v[MBA_GPU_sm] = 16 + (double)dice(32);
        mba_sim_kernel k = random_kernel(&m);
        k.grid = (int64_t)m.v[MBA_GPU_sm] * (1 + (int64_t)dice(3)) + 1 + (int64_t)m.v[MBA_GPU_sm] / 4;
        assert_ok(mba_sim_finish(&k, &m));
        const double off = fabs(time_of(&k, &m, MBA_SIM_ONE_SM) / time_of(&k, &m, MBA_SIM_ALL_SMS) - 1);
        if (off > worst) worst = off;
        sum += off / PAIRS;
    }
    printf("the busiest SM and all SMs differ by %.2f %% on average, at most by %.1f %%\n", 100 * sum, 100 * worst);
    assert_true(sum < 0.01 && worst < 0.1);
}

/* Law 6: one SM with its share stands for all of them. */
static void one_sm_stands_for_all(void **state)
{
    (void)state;
    double sum = 0, worst = 0;
    int    far = 0;
    enum { PAIRS = 300 };
    dice_state = 1442695040888963407u;
    for (int i = 0; i < PAIRS; i++) {
        mba_gpu m = random_machine();
        m.v[MBA_GPU_sm] = 8 + (double)dice(40);
        mba_sim_kernel k = random_kernel(&m);
        k.grid = (int64_t)m.v[MBA_GPU_sm] * mba_sim_resident(&k, &m) * (1 + (int64_t)dice(12));
        assert_ok(mba_sim_finish(&k, &m));
        const double off = fabs(time_of(&k, &m, MBA_SIM_ONE_SM) / time_of(&k, &m, MBA_SIM_ALL_SMS) - 1);
        sum += off;
        far += off > 0.05;
        if (off > worst) worst = off;
    }
    printf("folded against whole: %.2f %% on average, %d of %d beyond 5 %%, the worst %.1f %%\n", 100 * sum / PAIRS,
           far, (int)PAIRS, 100 * worst);
    assert_true(sum / PAIRS < 0.01);
    assert_true(far < PAIRS / 50);
}

/* Law 8: as the occupancy calculator of CUDA says. */
static void occupancy_is_that_of_the_calculator(void **state)
{
    (void)state;
    static const struct {
        int64_t threads, regs, smem, blocks;
    } known[] = { { 256, 32, 0, 8 },      { 1024, 32, 0, 2 }, { 1024, 33, 0, 1 }, { 256, 255, 0, 1 },
                  { 128, 128, 0, 4 },     { 64, 32, 0, 32 },  { 256, 40, 0, 6 },  { 128, 32, 49152, 4 },
                  { 256, 32, 232448, 1 }, { 32, 32, 0, 32 } };
    mba_gpu m;
    assert_ok(mba_gpu_load(&m, "h200"));
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        const mba_sim_kernel k = { .threads = known[i].threads,
                                   .warps = known[i].threads / 32,
                                   .regs = known[i].regs,
                                   .smem_bytes = known[i].smem };
        assert_int_equal(mba_sim_resident(&k, &m), known[i].blocks);
    }
}

/* ---- impossible kernels ---- */

static void impossible_kernels_are_refused(void **state)
{
    (void)state;
    mba_gpu m;
    assert_ok(mba_gpu_load(&m, "h200"));
    mba_sim_kernel k = {
        .name = "bad", .grid = 1, .threads = 128, .warps = 4, .regs = 32, .nroles = 1, .depth = 2, .role_warps = { 4 }
    };
    op(&k, MBA_OP_LOOP)->trips = 3;
    op(&k, MBA_OP_EXIT);
    assert_int_equal(mba_sim_finish(&k, &m), MBA_E_UNSUPPORTED);
    k.nops = 0;
    op(&k, MBA_OP_WAIT)->ring = 0; // nobody fills it
    op(&k, MBA_OP_EXIT);
    assert_int_equal(mba_sim_finish(&k, &m), MBA_E_UNSUPPORTED);
    k.nops = 0;
    op(&k, MBA_OP_EXIT);
    k.smem_bytes = 1 << 20;
    assert_int_equal(mba_sim_finish(&k, &m), MBA_E_UNSUPPORTED);
    assert_non_null(strstr(mba_message(), "shared memory"));
    k.smem_bytes = 0;
    k.grid = 0;
    assert_int_equal(mba_sim_finish(&k, &m), MBA_E_UNSUPPORTED);
}

/* ---- public measurements of streaming kernels: RRZE-HPC/gpu-benches, GH200, one 8-byte element per thread ---- */

typedef struct row {
    int    threads, blocks;
    double dram[4], l2[4];
} row; /* GB/s: store, load, load + store, triad */
static const row gh200[] = { { 64, 2, { 591, 245, 464, 798 }, { 571, 384, 743, 1427 } },
                             { 128, 2, { 1167, 486, 854, 1408 }, { 1108, 754, 1447, 2752 } },
                             { 256, 2, { 2186, 935, 1397, 2367 }, { 2052, 1459, 2711, 4951 } },
                             { 512, 2, { 3718, 1715, 2269, 3338 }, { 3449, 2720, 4682, 8068 } },
                             { 768, 2, { 3941, 2314, 2854, 3686 }, { 4052, 3787, 6076, 9998 } },
                             { 1024, 2, { 3942, 2775, 3174, 3783 }, { 4046, 4670, 6822, 10845 } } };

static double streaming_gbs(const mba_gpu *m, const row *w, int kind, bool resident)
{
    static const int loads[4] = { 0, 1, 1, 3 }, stores[4] = { 1, 0, 1, 1 };
    mba_sim_kernel   k = { .name = "stream",
                           .grid = 132 * 400,
                           .threads = w->threads,
                           .warps = w->threads / 32,
                           .nroles = 1,
                           .depth = 1,
                           .nstreams = 2,
                           .regs = 16,
                           .smem_bytes = 116000 / w->blocks * 2 - 3000 }; // two blocks fit on an SM
    k.role_warps[0] = k.warps;
    for (int s = 0; s < 2; s++) k.stream[s] = (mba_sim_stream){ .operand = -1, .writes = s, .hit = resident ? 256 : 0 };
    for (int i = 0; i < loads[kind]; i++) {
        mba_sim_op *o = op(&k, MBA_OP_LOAD);
        o->stream = 0;
        o->bytes = 8 * (uint64_t)w->threads;
    }
    for (int i = 0; i < stores[kind]; i++) {
        mba_sim_op *o = op(&k, MBA_OP_STORE);
        o->stream = 1;
        o->bytes = 8 * (uint64_t)w->threads;
    }
    op(&k, MBA_OP_EXIT);
    assert_ok(mba_sim_finish(&k, m));
    assert_int_equal(mba_sim_resident(&k, m), w->blocks);
    mba_sim_result r;
    assert_ok(mba_sim_run(&r, &k, m, MBA_SIM_ONE_SM));
    return 8.0 * (double)(w->threads * k.grid) * (loads[kind] + stores[kind]) / r.seconds / 1e9;
}

static void streaming_agrees_with_public_measurements(void **state)
{
    (void)state;
    mba_gpu m;
    double  sum = 0, worst = 0;
    int     n = 0;
    assert_ok(mba_gpu_load(&m, "h200"));
    m.v[MBA_GPU_hbm] = 4000; // a GH200 of 96 GB: its plateau is 3.9 TB/s
    m.v[MBA_GPU_hbm_rd] = m.v[MBA_GPU_hbm_wr] = 0.985;
    m.v[MBA_GPU_hbm_mix] = 0.96;
    m.v[MBA_GPU_clk] = 1.98; // kernels alone, not in training steps; its own L2
    m.v[MBA_GPU_l2_lat] = 280;
    m.v[MBA_GPU_l2_wr] = 4250;
    m.v[MBA_GPU_l2_rd] = 10300;
    for (size_t i = 0; i < sizeof gh200 / sizeof *gh200; i++)
        for (int kind = 0; kind < 4; kind++)
            for (int resident = 0; resident < 2; resident++) {
                const double truth = resident ? gh200[i].l2[kind] : gh200[i].dram[kind],
                             said = streaming_gbs(&m, &gh200[i], kind, resident);
                const double off = fabs(said / truth - 1);
                if (off > worst) worst = off;
                if (getenv("MBA_TEST_VERBOSE"))
                    printf("%4d threads, kind %d, %s: %5.0f GB/s measured, %5.0f simulated\n", gh200[i].threads, kind,
                           resident ? "L2" : "DRAM", truth, said);
                sum += off;
                n++;
            }
    printf("%d public points: off by %.1f %% on average, %.1f %% at worst\n", n, 100 * sum / n, 100 * worst);
    assert_true(sum / n < 0.06);
}

/* ---- the same bits ---- */

static void every_compiler_gives_the_same_bits(void **state)
{
    (void)state;
    uint64_t hash = 0xcbf29ce484222325u;
    dice_state = 2685821657736338717u;
    for (int i = 0; i < 500; i++) {
        const mba_gpu        m = random_machine();
        const mba_sim_kernel k = random_kernel(&m);
        const double         t = time_of(&k, &m, i % 10 ? MBA_SIM_ONE_SM : MBA_SIM_ALL_SMS);
        unsigned char        bytes[sizeof t];
        memcpy(bytes, &t, sizeof t);
        for (size_t b = 0; b < sizeof t; b++) hash = (hash ^ bytes[b]) * 0x100000001b3u;
    }
    if (hash != 0x748bf9806d2176bdu)
        fail_msg("%016llx: changed on purpose? then write it here", (unsigned long long)hash);
}

/* What is written down and read again takes the same time to the bit, and what is cut off or changed is refused. */
static void frozen_kernels_are_the_same(void **state)
{
    (void)state;
    static char text[MBA_SIM_KERNEL_TEXT_BYTES];
    dice_state = 88172645463325252u;
    for (int i = 0; i < 200; i++) {
        const mba_gpu  m = random_machine();
        mba_sim_kernel k = random_kernel(&m), again;
        snprintf(k.name, sizeof k.name, "k");
        assert_true(mba_sim_kernel_write(text, sizeof text, &k));
        assert_ok(mba_sim_kernel_parse(&again, text, &m));
        assert_true(time_of(&k, &m, MBA_SIM_ONE_SM) == time_of(&again, &m, MBA_SIM_ONE_SM));
        text[strlen(text) / 2] = i % 2 ? '\0' : 'x';
        assert_int_equal(mba_sim_kernel_parse(&again, text, &m), MBA_E_FORMAT);
    }
}

MBA_TEST_MAIN(cmocka_unit_test(no_kernel_beats_its_bounds), cmocka_unit_test(a_better_machine_is_not_slower),
              cmocka_unit_test(time_scales), cmocka_unit_test(without_latencies_only_throughput_counts),
              cmocka_unit_test(one_warp_takes_the_sum_of_its_path), cmocka_unit_test(one_sm_stands_for_all),
              cmocka_unit_test(the_busiest_sm_stands_for_all), cmocka_unit_test(occupancy_is_that_of_the_calculator),
              cmocka_unit_test(impossible_kernels_are_refused),
              cmocka_unit_test(streaming_agrees_with_public_measurements),
              cmocka_unit_test(every_compiler_gives_the_same_bits), cmocka_unit_test(frozen_kernels_are_the_same))
