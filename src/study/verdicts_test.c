// SPDX-License-Identifier: Apache-2.0
/* verdicts_test.c -- what is said of a store as a whole: verdicts on claims, and what became slower between two of
 * them. */
#include "scope/diff.h"
#include "study/claims.h"
#include "tests/made_store.h"

/* ---- claims ---- */

static void verdicts_stand_on_numbers(void **state)
{
    mba_claim c[MBA_CLAIMS];
    (void)state;
    begin("claims.db", true, 3);
    mba_claims_judge(view, c);
    assert_int_equal(c[0].here, MBA_REFUTED); // SSM 7 of 12, GEMM 4 of 12
    assert_int_equal(c[1].here, MBA_REFUTED); // 58 %
    for (int i = 0; i < 3; i++) assert_int_equal(c[i].verdict, MBA_NUMBER);
    assert_int_equal(c[5].verdict, MBA_REPRODUCED); // all three classes
    assert_int_equal(c[6].verdict, MBA_REPRODUCED);
    assert_int_equal(c[7].verdict, MBA_REPRODUCED); // 2 %
    assert_non_null(strstr(c[0].measured, "GEMM 33.3 %"));
    end();
    begin("open.db", false, 3);
    mba_claims_judge(view, c);
    for (int i = 3; i < MBA_CLAIMS; i++) {
        assert_int_equal(c[i].verdict, MBA_OPEN);
        assert_true(*c[i].needs);
    }
    end();
}

static void an_empty_store_claims_nothing(void **state)
{
    mba_claim c[MBA_CLAIMS];
    (void)state;
    assert_ok(mba_store_create(&store, scratch("nothing.db")));
    assert_ok(mba_store_close(store));
    assert_ok(mba_store_open(&store, scratch("nothing.db")));
    assert_ok(mba_analysis_create(&view, store));
    mba_claims_judge(view, c);
    for (int i = 0; i < MBA_CLAIMS; i++) assert_int_equal(c[i].verdict, MBA_OPEN);
    assert_true(isnan(mba_intensity_of(view, MBA_ALL_KERNELS).least[0])
                && isnan(mba_bandwidth_of(view, MBA_ALL_KERNELS).mean));
    end();
}

/* ---- diff ---- */

static void the_gate_sees_what_became_slower(void **state)
{
    mba_store    *before;
    mba_analysis *a;
    mba_diff_row *row;
    int64_t       n, slower = 0;
    (void)state;
    begin("before.db", false, 3);
    before = store, a = view;
    begin("after.db", false, 5.5); // ssd: 4 -> 6.5 s, its spread is 2 s
    assert_ok(mba_diff(&row, &n, a, view, 0.03));
    for (int64_t i = 0; i < n; i++) {
        slower += row[i].slower;
        if (!row[i].slower) continue;
        assert_int_equal(row[i].what, MBA_DIFF_OPERATOR);
        assert_string_equal(row[i].name, "ssd");
        assert_near(row[i].a_s, 4, 1e-9);
        assert_near(row[i].b_s, 6.5, 1e-9);
    }
    assert_int_equal(slower, 1);
    free(row);
    assert_ok(mba_diff(&row, &n, a, view, 0.7)); // 62.5 % is within 70
    for (int64_t i = 0; i < n; i++) assert_false(row[i].slower);
    free(row);
    assert_ok(mba_diff(&row, &n, view, a, 0.03)); // the other way round it became faster
    for (int64_t i = 0; i < n; i++) assert_false(row[i].slower);
    free(row);
    end();
    store = before, view = a;
    end();
    begin("before.db", false, 3);
    before = store, a = view;
    begin("within.db", false, 4.9); // 1.9 s more, below the spread
    assert_ok(mba_diff(&row, &n, a, view, 0.03));
    for (int64_t i = 0; i < n; i++) assert_false(row[i].slower);
    free(row);
    end();
    store = before, view = a;
    end();
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
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(verdicts_stand_on_numbers),
        cmocka_unit_test(an_empty_store_claims_nothing),
        cmocka_unit_test(the_gate_sees_what_became_slower),
    };
    return cmocka_run_group_tests(tests, prepare, clean);
}
