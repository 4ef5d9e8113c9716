// SPDX-License-Identifier: Apache-2.0
/* advice_test.c -- the causes that advice names, on kernels with one planted fault each (tests/planted_kernels.cu,
 * profiled on an H200), and what it says without counters. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "study/advice.h"
#include "tests/test.h"

static mba_store    *store;
static mba_analysis *analysis;

static int open_store(void **state)
{
    (void)state;
    assert_ok(mba_store_open(&store, "tests/data/stores/h200_planted.db"));
    assert_ok(mba_analysis_create(&analysis, store));
    return 0;
}

static int close_store(void **state)
{
    (void)state;
    mba_analysis_destroy(analysis);
    assert_ok(mba_store_close(store));
    return 0;
}

static const mba_kernel_view *kernel(const char *name)
{
    for (int64_t i = 0; i < analysis->nkernels; i++)
        if (!strcmp(analysis->kernel[i].row->name, name)) return &analysis->kernel[i];
    fail_msg("no kernel %s", name);
    return NULL;
}

/* The faults as in tools/planted. Advice must not name a mended kernel's former fault first. */
static void the_planted_cause_comes_first(void **state)
{
    static const char *const faults[][2] = {
        { "strided_loads", "uncoalesced loads" },
        { "one_field", "uncoalesced loads" },
        { "transpose", "uncoalesced stores" },
        { "conflicts_8", "bank conflicts" },
        { "conflicts_2", "bank conflicts" },
        { "shared_occupancy", "low occupancy" },
        { "block_occupancy", "low occupancy" },
        { "small_grid", "small grid" },
        { "last_wave", "tail" },
        { "unequal_blocks", "tail" },
        { "indexed_array", "spills" },
        { "few_registers", "spills" },
        { "doubles", "double precision" },
        { "exponentials", "special functions" },
        { "divisions", "integer work" },
        { "one_load", "exposed latency" },
        { "barriers", "barriers" },
        { "late_host", "idle before launch" },
    };
    (void)state;
    int named = 0;
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        char       name[64];
        mba_advice tip[MBA_ADVICE_MAX];
        snprintf(name, sizeof name, "fault_%s", faults[i][0]);
        const bool first = mba_advice_of(analysis, kernel(name), tip) > 0 && !strcmp(tip[0].cause, faults[i][1]);
        if (!first) print_message("%s: not named first\n", name);
        named += first;
    }
    print_message("%d of %zu planted causes come first\n", named, sizeof faults / sizeof *faults);
    assert_true(named >= 17);
}

static void advice_is_ranked_and_bounded(void **state)
{
    (void)state;
    for (int64_t i = 0; i < analysis->nkernels; i++) {
        mba_advice tip[MBA_ADVICE_MAX];
        const int  n = mba_advice_of(analysis, &analysis->kernel[i], tip);
        assert_in_range(n, 0, MBA_ADVICE_MAX);
        for (int k = 0; k < n; k++) {
            assert_true(tip[k].kernel_saved > 0 && tip[k].kernel_saved <= 1);
            assert_true(tip[k].step_saved > 0 && tip[k].step_saved <= 1);
            assert_true(!k || tip[k].step_saved <= tip[k - 1].step_saved);
            assert_true(*tip[k].evidence && tip[k].remedy);
        }
    }
}

/* Without counters, a launch that is large enough and no gap, nothing is known. */
static void nothing_is_said_without_counters(void **state)
{
    (void)state;
    mba_kernel_view k = *kernel("fault_transpose");
    mba_advice      tip[MBA_ADVICE_MAX];
    k.ncounters = 0;
    k.gap_s = 0;
    k.counted = (mba_counted){ .time_s = NAN,
                               .sm_cycles = NAN,
                               .dram_bytes = NAN,
                               .dram_pct = NAN,
                               .l1_pct = NAN,
                               .tensor_pct = NAN,
                               .fma_pct = NAN,
                               .alu_pct = NAN,
                               .xu_pct = NAN,
                               .issue_pct = NAN,
                               .occupancy_pct = NAN,
                               .sectors_per_load = NAN,
                               .sectors_per_store = NAN };
    assert_int_equal(mba_advice_of(analysis, &k, tip), 0);
}

/* What least work is known bounds the estimate: a kernel at its floor has nothing to save. */
static void a_kernel_at_its_floor_gets_no_advice(void **state)
{
    (void)state;
    mba_kernel_view k = *kernel("fault_transpose");
    mba_advice      tip[MBA_ADVICE_MAX];
    k.gap_s = 0;
    k.from_counters = false;
    k.least_s = k.median_s;
    assert_int_equal(mba_advice_of(analysis, &k, tip), 0);
    k.least_s = 0.8 * k.median_s;
    assert_true(mba_advice_of(analysis, &k, tip) > 0);
    assert_true(tip[0].kernel_saved <= 0.2 + 1e-9);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_planted_cause_comes_first),
        cmocka_unit_test(advice_is_ranked_and_bounded),
        cmocka_unit_test(nothing_is_said_without_counters),
        cmocka_unit_test(a_kernel_at_its_floor_gets_no_advice),
    };
    return cmocka_run_group_tests(tests, open_store, close_store);
}
