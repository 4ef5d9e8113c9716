/* lower_test.c -- plans made ready for the engine: stores that fill parts of sectors, warps that wait for one of
 * their block. */
#include "tests/test.h"

#include "core/plan_work.h"
#include "sim/counted.h"
#include "sim/engine.h"
#include "sim/frozen.h"

/* A plan of one store of 32 KB a block, in `parts` of a sector. */
static void lower_store(mba_sim_kernel *k, mba_work_sums *sum, mba_arena *a, int parts, const mba_gpu *m)
{
    enum { BLOCKS = 13200, BYTES = 32768 };
    mba_plan    p = { .arena = a };
    mba_launch *l = mba_plan_launch(&p, "k", MBA_VECTOR, BLOCKS, 256);
    const int   to = mba_plan_scratch(&p, "to", (size_t)2 * BLOCKS * BYTES);
    l->regs = 32;
    mba_phase_work(l, MBA_FMA, 4096, NULL);
    mba_phase_move(l, MBA_STORE, MBA_ARG_SCRATCH(to), BYTES);
    mba_phase_share(l, parts);
    assert_ok(mba_sim_lower(k, NULL, l, &p, m));
    mba_launch_sums(sum, l);
}

/* Each part is a sector to L2, alone of its line; no more bytes are stored, and none that reach DRAM. */
static void parts_of_sectors_are_sectors_to_l2(void **state)
{
    (void)state;
    mba_arena     *a;
    mba_gpu        m;
    mba_sim_kernel k[2];
    mba_work_sums  sum[2];
    mba_sim_result r[2];
    assert_ok(mba_arena_create(&a, 1 << 20));
    assert_ok(mba_gpu_load(&m, "h200"));
    for (int i = 0; i < 2; i++) {
        lower_store(&k[i], &sum[i], a, 1 + i, &m);
        assert_ok(mba_sim_run(&r[i], &k[i], &m, MBA_SIM_FOLDED));
    }
    assert_true(k[0].partly == 0 && k[1].partly == 563);       // two sectors for one, each 1.6 times as long: 2.2 times 256 more
    assert_true(k[1].stream[0].moved == k[0].stream[0].moved && k[1].stream[0].unique == k[0].stream[0].unique);
    assert_memory_equal(&sum[0], &sum[1], sizeof *sum);
    assert_near(r[1].bound[MBA_LIMIT_L2] / r[0].bound[MBA_LIMIT_L2], 3.2, 0.01);
    mba_arena_destroy(a);
}

/* One block of eight warps on an SM, of which one does four times the mean's work: by the plan and by counts it takes four
 * times as long as if all did the same, less what nobody was in that one's way; and the pipes have no more to do. */
static void others_wait_for_the_busiest_warp(void **state)
{
    (void)state;
    enum { SMS = 132, WARPS = 8, EACH = 4000 };
    static char    text[MBA_FROZEN_BYTES];
    mba_arena     *a;
    mba_gpu        m;
    mba_sim_kernel k[2], again;
    mba_sim_result plain[2], bound[2];
    assert_ok(mba_arena_create(&a, 1 << 20));
    assert_ok(mba_gpu_load(&m, "h200"));
    for (int i = 0; i < 2; i++) {
        mba_plan           p = { .arena = a };
        mba_launch        *l = mba_plan_launch(&p, "k", MBA_VECTOR, SMS, 32 * WARPS);
        mba_counted_kernel c = { .grid = SMS, .block = 32 * WARPS, .regs = 32 };
        l->regs    = 32;
        l->busiest = i ? 4 : 0;
        mba_phase_work(l, MBA_FMA, 32.0 * WARPS * EACH, NULL);
        assert_ok(mba_sim_lower(&k[i], NULL, l, &p, &m));
        assert_ok(mba_sim_run(&plain[i], &k[i], &m, MBA_SIM_FOLDED));
        assert_true(mba_sim_freeze(text, sizeof text, &k[i]));
        assert_ok(mba_sim_thaw(&again, text, &m));
        assert_true(again.busiest == k[i].busiest && k[i].busiest == (i ? 1024 : 0));
        c.n[MBA_N_INST] = c.n[MBA_N_FMA] = (double)SMS * WARPS * EACH;
        c.n[MBA_N_PATH] = 4;
        mba_counted_bind(&again, &c, &m);
        assert_ok(mba_sim_run(&bound[i], &again, &m, MBA_SIM_FOLDED));
    }
    const double more = (bound[1].seconds - bound[0].seconds) * m.v[MBA_GPU_clk] * 1e9;    // cycles
    assert_true(plain[1].seconds > 2 * plain[0].seconds && plain[1].seconds <= 4 * plain[0].seconds);
    assert_true(more > 2.5 * 4 * EACH && more < 3.01 * 4 * EACH);
    assert_true(bound[1].bound[MBA_P_FMA] == bound[0].bound[MBA_P_FMA]);
    mba_arena_destroy(a);
}

MBA_TEST_MAIN(cmocka_unit_test(parts_of_sectors_are_sectors_to_l2), cmocka_unit_test(others_wait_for_the_busiest_warp))
