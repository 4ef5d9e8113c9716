// SPDX-License-Identifier: Apache-2.0
/* analysis_extra_test.c -- a library that starts a kernel of its own in front does not move the work of the plan by
 * one. */
#include "scope/analysis.h"
#include "tests/scratch.h"
#include "tests/test.h"

enum { FILTER, CLEARS, WGRAD, DFILTER, DGRAD, KERNELS };
static const char *const names[KERNELS] = { "conv2d_filter", "init_workspace", "xmma_wgrad", "conv2d_dfilter",
                                            "xmma_dgrad" };
static const double      tensor[] = { 0, 8000, 0, 16000 }; /* of the launches: filter, library, dfilter, library */

static void put_plan(mba_store *s)
{
    static const char *const planned[] = { "conv2d_filter", "cudnn_conv2d", "conv2d_dfilter", "cudnn_conv2d" };
    mba_row_node             n = mba_no_node;
    n.id = 0, n.op = "conv2d_bwd", n.kind = "conv", n.phase = "backward";
    n.tensor_flops = 24000, n.vector_flops = 0, n.special_ops = 0, n.read_bytes = 100, n.write_bytes = 0;
    assert_ok(mba_put_node(s, &n));
    for (int64_t i = 0; i < 4; i++) {
        mba_row_launch l = mba_no_launch;
        l.id = i, l.node = 0, l.place = i, l.kernel = planned[i], l.tensor_flops = tensor[i];
        l.fma_ops = l.half2_ops = l.special_ops = 0, l.load_bytes = l.store_bytes = l.least_bytes = 10;
        assert_ok(mba_put_launch(s, &l));
    }
}

/* As a store has it: places in the plan are places among the kernels. `rounds`: equal nodes share one row in small
 * stores. */
static void put_events(mba_store *s, const int *order, int n, int steps, int rounds)
{
    static const int64_t ns[KERNELS] = { 30, 20, 500, 40, 800 };
    for (int64_t k = 0; k < KERNELS; k++) {
        mba_row_kernel row = mba_no_kernel;
        row.id = k, row.name = names[k], row.op = "conv2d_bwd", row.kind = "conv";
        assert_ok(mba_put_kernel(s, &row));
    }
    for (int64_t i = 0, at = 0; i < steps * rounds * n; i++) {
        mba_row_event e = mba_no_event;
        const int64_t place = i % n;
        e.what = "kernel", e.step = i / (rounds * n), e.kernel = order[place], e.node = 0, e.stream = 0;
        e.start_ns = at, e.duration_ns = ns[order[place]], e.launch = place < 4 ? place : MBA_ABSENT;
        at += e.duration_ns;
        assert_ok(mba_put_event(s, &e));
    }
}

static void work_is(const int *order, int n, int rounds, const double want[KERNELS])
{
    mba_store    *s;
    mba_analysis *view;
    assert_ok(mba_store_create(&s, scratch("extra.db")));
    assert_ok(
        mba_put_ceiling(s, &(mba_row_ceiling){ .name = "tensor", .rate = 16000, .unit = "1/s", .how = "measured" }));
    put_plan(s);
    put_events(s, order, n, 2, rounds);
    assert_ok(mba_store_close(s));
    assert_ok(mba_store_open(&s, scratch("extra.db")));
    assert_ok(mba_analysis_create(&view, s));
    for (int k = 0; k < KERNELS; k++)
        if (view->kernel[k].launches) assert_near(view->kernel[k].least.tensor_flops, want[k], 1e-9);
    mba_analysis_destroy(view);
    assert_ok(mba_store_close(s));
    remove(scratch("extra.db"));
}

static void a_kernel_in_front_has_no_work(void **state)
{
    (void)state;
    static const int    order[] = { FILTER, CLEARS, WGRAD, DFILTER, DGRAD };
    static const double want[KERNELS] = { [WGRAD] = 8000, [DGRAD] = 16000 };
    work_is(order, 5, 1, want);
    work_is(order, 5, 3, want); // three equal nodes in one row
}

static void as_many_as_planned_are_taken_in_order(void **state)
{
    (void)state;
    static const int    order[] = { FILTER, WGRAD, DFILTER, DGRAD };
    static const double want[KERNELS] = { [WGRAD] = 8000, [DGRAD] = 16000 };
    work_is(order, 4, 1, want);
    work_is(order, 4, 2, want);
}

/* Behind what was planned: as before, it has none. */
static void a_kernel_behind_has_no_work(void **state)
{
    (void)state;
    static const int    order[] = { FILTER, WGRAD, DFILTER, DGRAD, CLEARS };
    static const double want[KERNELS] = { [WGRAD] = 8000, [DGRAD] = 16000 };
    work_is(order, 5, 1, want);
}

/* A library may start more kernels than are looked at: then all of them stay in the order of the plan, and nothing is
 * written where there is no room. */
static void too_many_to_tell_are_taken_in_order(void **state)
{
    (void)state;
    int                 order[300] = { FILTER, WGRAD, DFILTER, DGRAD };
    static const double want[KERNELS] = { [WGRAD] = 8000, [DGRAD] = 16000 };
    for (int i = 4; i < 300; i++) order[i] = CLEARS;
    work_is(order, 300, 1, want);
}

static int prepare(void **state)
{
    (void)state;
    scratch_make();
    return 0;
}
static int clean(void **state)
{
    (void)state;
    scratch_remove();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(a_kernel_in_front_has_no_work),
                                        cmocka_unit_test(as_many_as_planned_are_taken_in_order),
                                        cmocka_unit_test(a_kernel_behind_has_no_work),
                                        cmocka_unit_test(too_many_to_tell_are_taken_in_order) };
    return cmocka_run_group_tests(tests, prepare, clean);
}
