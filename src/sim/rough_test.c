// SPDX-License-Identifier: Apache-2.0
/* rough_test.c -- two parts of a long loop stand for all of it: nearly the same time, in a fraction of the events. */
#include "tests/test.h"

#include <math.h>

#include "sim/engine.h"
#include "tests/dice.h"

static mba_sim_op *op(mba_sim_kernel *k, mba_sim_work work)
{
    mba_sim_op *o = &k->op[k->nops++];
    *o = (mba_sim_op){ .work = (int32_t)work, .stream = -1, .ring = 0, .parts = 1 };
    return o;
}

static void move(mba_sim_kernel *k, mba_sim_work work, int stream, uint64_t bytes)
{
    mba_sim_op *o = op(k, work);
    o->stream = stream;
    o->bytes = bytes;
}

/* As a product of a library is lowered: one role copies tiles, the other works with them and stores a little of each.
 * Vector units, not tensor units: fidelities have clocks of their own for those. */
static mba_sim_kernel product(const mba_gpu *m, int64_t trips)
{
    mba_sim_kernel k = { .name = "product",
                         .grid = (int64_t)m->v[MBA_GPU_sm],
                         .threads = 384,
                         .warps = 12,
                         .regs = 128,
                         .smem_bytes = 40000,
                         .nroles = 2,
                         .role_warps = { 8, 4 },
                         .depth = 4,
                         .nstreams = 3 };
    for (int s = 0; s < 3; s++)
        k.stream[s] = (mba_sim_stream){ .operand = s, .writes = s == 2, .hit = (int64_t)dice(257) };
    op(&k, MBA_OP_LOOP)->trips = trips;
    op(&k, MBA_OP_WAIT);
    op(&k, MBA_OP_MIX)->n[MBA_P_FMA] = 1000 + dice(1 << 16);
    op(&k, MBA_OP_RELEASE);
    move(&k, MBA_OP_STORE, 2, 32 + dice(1 << 12));
    op(&k, MBA_OP_END);
    move(&k, MBA_OP_STORE, 2, 1 << 14);
    op(&k, MBA_OP_EXIT);
    k.first[1] = k.nops;
    op(&k, MBA_OP_LOOP)->trips = trips;
    op(&k, MBA_OP_FILL);
    for (int s = 0; s < 2; s++) move(&k, MBA_OP_ASYNC, s, 1024 + dice(1 << 14));
    op(&k, MBA_OP_COMMIT);
    op(&k, MBA_OP_END);
    op(&k, MBA_OP_EXIT);
    assert_ok(mba_sim_finish(&k, m));
    return k;
}

static void parts_of_a_loop_stand_for_all(void **state)
{
    (void)state;
    enum { CASES = 200 };
    mba_gpu m;
    double  sum = 0, worst = 0, ratio = 0;
    for (int i = 0; i < CASES; i++) {
        mba_sim_result all, rough;
        assert_ok(mba_gpu_load(&m, mba_gpu_name((int)dice(6))));
        const mba_sim_kernel k = product(&m, 769 + (int64_t)dice(4000));
        assert_ok(mba_sim_run(&all, &k, &m, MBA_SIM_ONE_SM));
        assert_ok(mba_sim_run(&rough, &k, &m, MBA_SIM_FAST));
        const double off = fabs(rough.seconds / all.seconds - 1);
        if (off > worst) worst = off;
        sum += off;
        ratio += (double)rough.events / (double)all.events / CASES;
    }
    printf("two parts of a loop: %.3f %% off on average, %.2f %% at most; %.0f %% of the events\n", 100 * sum / CASES,
           100 * worst, 100 * ratio);
    assert_true(sum / CASES < 0.001 && worst < 0.01);
    assert_true(ratio < 0.5);
}

static void short_loops_are_run_whole(void **state)
{
    (void)state;
    mba_gpu        m;
    mba_sim_result all, rough;
    assert_ok(mba_gpu_load(&m, "h200"));
    const mba_sim_kernel k = product(&m, 700);
    assert_ok(mba_sim_run(&all, &k, &m, MBA_SIM_ONE_SM));
    assert_ok(mba_sim_run(&rough, &k, &m, MBA_SIM_FAST));
    assert_true(all.seconds == rough.seconds && all.events == rough.events);
}

MBA_TEST_MAIN(cmocka_unit_test(parts_of_a_loop_stand_for_all), cmocka_unit_test(short_loops_are_run_whole))
