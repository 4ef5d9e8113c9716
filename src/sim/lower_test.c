/* lower_test.c -- plans made ready for the engine: stores that fill parts of sectors. */
#include "tests/test.h"

#include "core/plan_work.h"
#include "sim/engine.h"

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

MBA_TEST_MAIN(cmocka_unit_test(parts_of_sectors_are_sectors_to_l2))
