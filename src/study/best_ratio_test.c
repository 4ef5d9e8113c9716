// SPDX-License-Identifier: Apache-2.0
/* best_ratio_test.c -- other ratios of units: an unchanged machine takes its time, equal area and equal power hold what
 * they say, and the best point is the best of all. */
#include "study/best_ratio.h"

#include <stdlib.h>

#include "study/simulated_step.h"
#include "tests/test.h"

static const mba_workload small = {
    .machine = "h200",
    .model = { .name = "mamba2-130m", .set = "layers=2,vocab=512", .shape = { .batch = 1, .length = 1024 } }
};

/* At a ratio of one all units stay as they are, whatever is held equal. */
static void an_unchanged_ratio_changes_nothing(void **state)
{
    mba_best_ratio *r = calloc(1, sizeof *r);
    mba_sim        *sim;
    (void)state;
    assert_non_null(r);
    assert_ok(mba_sim_create(&sim));
    assert_ok(mba_best_ratio_find(r, sim, &small, 1));
    assert_int_equal(r->n, 6); // ssd, ssd_bwd and the step: with our kernels, and by the study's division
    assert_string_equal(r->row[3].kernels, "the study's division");
    assert_near(r->tensor, 16, 1e-9);
    assert_near(r->vector, 16, 1e-9);
    for (int i = 0; i < r->n; i++)
        for (int e = 0; e < MBA_EQUALS; e++) {
            const mba_ratio_row  *row = &r->row[i];
            const mba_ratio_point p = mba_ratio_best(row, (mba_equal)e);
            assert_near(row->ms[e][3][1], row->base_ms, 1e-6 * row->base_ms);
            for (int t = 0; t < MBA_RATIO_TENSOR; t++)
                for (int s = 0; s < MBA_RATIO_SPECIAL; s++)
                    assert_true(row->ms[e][t][s] > 0 && row->base_ms / row->ms[e][t][s] <= p.gain);
            assert_true(p.gain >= 1 && p.low <= p.high);
            assert_true(p.low <= mba_ratio_tensor[p.tensor] && p.high >= mba_ratio_tensor[p.tensor]);
        }
    mba_sim_destroy(sim);
    free(r);
}

/* More tensor units at equal power cost clock: an operator without products loses. */
static void what_is_added_is_paid_for(void **state)
{
    mba_workload    scan = small;
    mba_best_ratio *r = calloc(1, sizeof *r);
    mba_sim        *sim;
    (void)state;
    assert_non_null(r);
    scan.model.name = "mamba-130m";
    assert_ok(mba_sim_create(&sim));
    assert_ok(mba_best_ratio_find(r, sim, &scan, 1));
    assert_true(r->n == 3 && r->row[0].base_ms > 0);
    for (int i = 0; i < 2; i++) {
        assert_true(r->row[i].ms[MBA_EQUAL_POWER][MBA_RATIO_TENSOR - 1][1] > r->row[i].base_ms);
        assert_true(r->row[i].ms[MBA_EQUAL_POWER][0][1] < r->row[i].base_ms);
        assert_true(r->row[i].ms[MBA_EQUAL_AREA][MBA_RATIO_TENSOR - 1][1] >= r->row[i].base_ms);
    }
    mba_sim_destroy(sim);
    free(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(an_unchanged_ratio_changes_nothing),
                                        cmocka_unit_test(what_is_added_is_paid_for) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
