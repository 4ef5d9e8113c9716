// SPDX-License-Identifier: Apache-2.0
/* known_code_test.c -- counts of known kernels go to launches of other shapes: their own at the counted shape, in
 * proportion elsewhere, none where nothing is known. */
#include "study/known_code.h"

#include <math.h>
#include <string.h>

#include "tests/test.h"

typedef struct seen {
    mba_known_code *code;
    const char     *kernel;          /* whose launches are counted */
    double          before, after;   /* instructions of its first launch: by the plan, by what is known */
    int64_t         launches, known; /* of it */
    bool            changed;         /* a launch that is not known was changed */
} seen;

static void look(void *of, const mba_program *p, int32_t node, int launch, mba_sim_kernel *k)
{
    seen                *s = of;
    const mba_sim_kernel was = *k;
    mba_known_code_apply(s->code, p, node, launch, k);
    if (!k->counted) s->changed |= memcmp(&was, k, sizeof was) != 0;
    if (strcmp(was.name, s->kernel)) return;
    if (!s->launches++) s->before = was.total[MBA_P_ISSUE] / 32, s->after = k->total[MBA_P_ISSUE] / 32;
    s->known += k->counted;
}

static seen look_in(const char *model, const char *kernel, mba_batch_shape shape, const char *variants,
                    const char *without)
{
    mba_workload  w = { .machine = "h200", .model = { .name = model, .shape = shape, .variants = variants } };
    mba_simulated r = { 0 };
    mba_sim      *sim = NULL;
    mba_sim_step  step = { 0 };
    seen          s = { .kernel = kernel };
    assert_ok(mba_known_code_load(&s.code));
    mba_known_code_leave_out(s.code, without);
    assert_ok(mba_simulated_plan(&r, &w));
    mba_known_code_on(s.code, &r.gpu);
    assert_ok(mba_sim_create(&sim));
    assert_ok(mba_sim_program(&step, sim, r.session.program, &r.gpu,
                              &(mba_sim_how){ .passes = MBA_STEP, .bounds = true, .before_launch = look, .of = &s }));
    assert_true(s.launches > 0);
    assert_false(s.changed);
    mba_sim_step_free(&step);
    mba_sim_destroy(sim);
    mba_simulated_end(&r);
    mba_known_code_free(s.code);
    return s;
}

static seen look_at(const char *kernel, mba_batch_shape shape, const char *variants, const char *without)
{
    return look_in("mamba2-headline", kernel, shape, variants, without);
}

static const char   CHUNKED[] = "ssd=chunked,ssd_bwd=chunked";
static const double INSTRUCTIONS = 7.335117e+07; /* of chunk_scan_fwd there: src/sim/data/kernels */

static void a_counted_launch_has_its_own_counts(void **state)
{
    (void)state;
    const seen s = look_at("chunk_scan_fwd", (mba_batch_shape){ .batch = 4, .length = 4096 }, CHUNKED, NULL);
    assert_int_equal(s.known, s.launches);
    assert_near(s.after / INSTRUCTIONS, 1, 1e-3);
    assert_true(fabs(s.before / INSTRUCTIONS - 1) > 0.05); // the plan alone estimates
}

static void twice_the_blocks_execute_twice_the_instructions(void **state)
{
    (void)state;
    const seen s = look_at("chunk_scan_fwd", (mba_batch_shape){ .batch = 8, .length = 4096 }, CHUNKED, NULL);
    assert_int_equal(s.known, s.launches);
    assert_near(s.after / INSTRUCTIONS, 2, 2e-3);
}

static void a_workload_that_is_left_out_teaches_nothing(void **state)
{
    (void)state;
    const mba_batch_shape shape = { .batch = 2, .length = 4096 };
    const char           *kernel = "scan_fwd_specialized16", *counted_in = "mamba-130m --batch 2 --length 4096";
    assert_true(look_in("mamba-130m", kernel, shape, NULL, NULL).known > 0);
    const seen s = look_in("mamba-130m", kernel, shape, NULL, counted_in);
    assert_int_equal(s.known, 0);
    assert_true(s.after == s.before);
}

static void what_was_never_counted_keeps_its_plan(void **state)
{
    (void)state;
    const seen s = look_at("bc_chunk_scan_fwd", (mba_batch_shape){ .batch = 4, .length = 4096 },
                           "ssd=bc_fused,ssd_bwd=bc_fused", NULL);
    assert_int_equal(s.known, 0);
    assert_true(s.after == s.before);
}

/* A launch of fewer warps than the GPU has schedulers waits for latencies, which counts do not tell. */
static void small_launches_keep_their_plan(void **state)
{
    (void)state;
    assert_int_equal(
        look_at("cross_entropy_fwd_total", (mba_batch_shape){ .batch = 4, .length = 4096 }, NULL, NULL).known, 0);
}

MBA_TEST_MAIN(cmocka_unit_test(a_counted_launch_has_its_own_counts),
              cmocka_unit_test(twice_the_blocks_execute_twice_the_instructions),
              cmocka_unit_test(a_workload_that_is_left_out_teaches_nothing),
              cmocka_unit_test(what_was_never_counted_keeps_its_plan), cmocka_unit_test(small_launches_keep_their_plan))
