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
    assert_int_equal(c[0].verdict, MBA_REFUTED);    // SSM 7 of 12, GEMM 4 of 12
    assert_int_equal(c[1].verdict, MBA_REFUTED);    // 58 %
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

/* One kernel of an operator, 1 s a step of one token. */
static void begin_one(const char *name, const char *op, double flops, double seconds, double units, double l2_hit,
                      double ctas_active, double bytes)
{
    assert_ok(mba_store_create(&store, scratch(name)));
    put_machine(store);
    put_node(store, 0, op, "ssm", "forward", (mba_work_counts){ flops, 0, 0, 10 });
    put_kernel(store, 0, "chunk_scan_fwd", "ssm");
    put_event(store, 0, 0, 0, 0, seconds);
    put_counter(store, 0, "lts__t_sector_hit_rate.pct", l2_hit);
    put_counter(store, 0, "sm__ctas_active.sum", ctas_active);
    put_counter(store, 0, "sm__ctas_launched.sum", 10);
    put_counter(store, 0, "sm__cycles_elapsed.avg.per_second", 1000);
    put_counter(store, 0, "dram__bytes_read.sum", bytes);
    put_counter(store, 0, "dram__bytes_write.sum", 0);
    assert_ok(mba_store_close(store));
    assert_ok(mba_store_open(&store, scratch(name)));
    assert_ok(mba_analysis_create(&view, store));
    view->units = units;
}

typedef struct one {
    const char *op;
    double      flops, seconds, units, l2_hit, ctas_active, bytes;
} one;

static mba_verdict judged_beside(int claim, one x, one y)
{
    mba_claim c[MBA_CLAIMS];
    begin_one("x.db", x.op, x.flops, x.seconds, x.units, x.l2_hit, x.ctas_active, x.bytes);
    mba_store    *first = store;
    mba_analysis *a = view;
    begin_one("y.db", y.op, y.flops, y.seconds, y.units, y.l2_hit, y.ctas_active, y.bytes);
    a->beside = &view;
    a->nbeside = 1;
    mba_claims_judge(a, c);
    end();
    store = first, view = a;
    end();
    return c[claim - 1].verdict;
}

static void some_claims_need_two_stores(void **state)
{
    const one base = { "ssd", 100, 1, 64, 80, 1000, 500 };
    one       other = base;
    (void)state;
    assert_int_equal(judged_beside(5, base, other), MBA_OPEN);    // blocks live as long
    other.ctas_active = 1510;                                     // half as long again
    assert_int_equal(judged_beside(5, base, other), MBA_REFUTED); // and move no more bytes a second
    other.bytes = 510;
    assert_int_equal(judged_beside(5, base, other), MBA_DEPENDS);
    other.bytes = 530;
    assert_int_equal(judged_beside(5, base, other), MBA_REPRODUCED);
    assert_int_equal(judged_beside(5, other, base), MBA_REPRODUCED); // whichever is first
    other.bytes = 470;
    assert_int_equal(judged_beside(5, base, other), MBA_REFUTED);
    other = base, other.units = 128, other.l2_hit = 75;
    assert_int_equal(judged_beside(9, base, other), MBA_REPRODUCED);
    other.l2_hit = 76;
    assert_int_equal(judged_beside(9, base, other), MBA_DEPENDS);
    other.l2_hit = 80;
    assert_int_equal(judged_beside(9, base, other), MBA_REFUTED);
    other = (one){ "selective_scan", 50, 2, 64, 80, 1000, 500 };
    assert_int_equal(judged_beside(10, base, other), MBA_REPRODUCED);
    other.seconds = 0.5;
    assert_int_equal(judged_beside(10, base, other), MBA_DEPENDS);
    other.flops = 200;
    assert_int_equal(judged_beside(10, base, other), MBA_REFUTED);
}

/* A byte takes as long as a vector FLOP: the floor is memory up to 10 of them. Few vector FLOPs a byte are enough, and
 * so are few of all. */
static void low_intensity_is_that_of_vectors_or_of_all(void **state)
{
    static const struct {
        double      tensor, vector;
        mba_verdict verdict;
    } table[] = {
        { 9, 9, MBA_REPRODUCED }, { 100, 9, MBA_REPRODUCED }, { 100, 34, MBA_DEPENDS },
        { 100, 35, MBA_REFUTED }, { 0, 34, MBA_DEPENDS },     { 0, 40, MBA_REFUTED },
    };
    (void)state;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        mba_claim c[MBA_CLAIMS];
        assert_ok(mba_store_create(&store, scratch("intensity.db")));
        put_machine(store);
        put_node(store, 0, "ssd", "ssm", "forward", (mba_work_counts){ table[i].tensor, table[i].vector, 0, 10 });
        put_kernel(store, 0, "chunk_scan_fwd", "ssm");
        put_event(store, 0, 0, 0, 0, 1);
        assert_ok(mba_store_close(store));
        assert_ok(mba_store_open(&store, scratch("intensity.db")));
        assert_ok(mba_analysis_create(&view, store));
        mba_claims_judge(view, c);
        assert_int_equal(c[2].verdict, table[i].verdict);
        end();
        unlink(scratch("intensity.db"));
    }
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
        cmocka_unit_test(some_claims_need_two_stores),
        cmocka_unit_test(low_intensity_is_that_of_vectors_or_of_all),
        cmocka_unit_test(an_empty_store_claims_nothing),
        cmocka_unit_test(the_gate_sees_what_became_slower),
    };
    return cmocka_run_group_tests(tests, prepare, clean);
}
