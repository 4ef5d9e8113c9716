// SPDX-License-Identifier: Apache-2.0
/* threads.h -- proves that a graph gives the same bits at 1, 2 and 3 threads.
 *
 *     assert_same_bits(g, &step);          // the graph is complete: backward and optimizer appended
 *
 * All parameters start from their initial values, inputs from random numbers (targets are ignored now and
 * then, where they may be), and the step arena is full of NaN. Everything that outlives a step is compared. */
#ifndef MBA_TEST_THREADS_H
#define MBA_TEST_THREADS_H

#include "tests/test.h"

#include "core/program.h"
#include "core/rng.h"

static inline void fill_inputs(mba_program *p)
{
    for (int32_t k = 0; k < p->graph->ntensors; k++) {
        const mba_tensor *t = p->graph->tensors[k];
        if (t->st->role != MBA_INPUT || t->base) continue;
        for (int64_t i = 0; i < mba_elems(t); i++) {
            uint32_t u[4];
            mba_philox(u, mba_stream(t->name), 7, (uint64_t)i);
            const bool ignored = t->may_ignore && u[1] % 5 == 0;
            if (t->type.dtype == MBA_I32)
                ((int32_t *)mba_program_at(p, t))[i] = ignored ? -100 : (int32_t)(u[0] % t->bound);
            else ((float *)mba_program_at(p, t))[i] = (float)(2 * mba_unit(u[0]) - 1);
        }
    }
}

/* A program that is bound, filled and has run one step. */
static inline mba_program *run_once(const mba_graph *g, const mba_step *step, int threads)
{
    static const mba_machine host = { .name = "host" };
    mba_program             *p;
    mba_cpu_set_threads(threads);
    assert_ok(mba_program_create(&p, g, &(mba_program_options){ .machine = &host }));
    assert_ok(mba_program_bind(p, &mba_device_cpu));
    assert_ok(mba_program_init(p, 3));
    fill_inputs(p);
    if (p->memory[MBA_ACT]) memset(p->memory[MBA_ACT], 0xff, p->layout.arena_bytes[MBA_ACT]);
    assert_ok(mba_program_run(p, MBA_STEP, step, NULL));
    mba_cpu_set_threads(0);
    return p;
}

static inline void assert_same_bits(const mba_graph *g, const mba_step *step)
{
    mba_program *one = run_once(g, step, 1);
    for (int threads = 2; threads <= 3; threads++) {
        mba_program *p = run_once(g, step, threads);
        for (int role = 0; role < MBA_ACT; role++)
            if (p->layout.arena_bytes[role])
                assert_memory_equal(p->memory[role], one->memory[role], p->layout.arena_bytes[role]);
        mba_program_destroy(p);
    }
    mba_program_destroy(one);
}

#endif
