// SPDX-License-Identifier: Apache-2.0
/* verdict_matrix_test.c -- claims over a set of stores: which store is which column, and what the set says. */
#include "study/verdict_matrix.h"

#include <string.h>

#include "tests/made_kernels.h"

enum { SET_MAX = 5 };

/* Opens up to SET_MAX made-up runs, and the matrix of them; the caller closes with `drop`. */
static made_store opened[SET_MAX];
static int        nopened;

static mba_matrix *matrix_of(const made_run *run, int n)
{
    mba_analysis *a[SET_MAX];
    mba_matrix   *m;
    nopened = n;
    for (int i = 0; i < n; i++) {
        char     file[16];
        made_run r = run[i];
        snprintf(file, sizeof file, "%d.db", i);
        r.file = file;
        opened[i] = made_open(&r);
        a[i] = opened[i].a;
    }
    assert_ok(mba_matrix_create(&m, a, n));
    return m;
}

static void drop(mba_matrix *m)
{
    mba_matrix_destroy(m);
    for (int i = 0; i < nopened; i++) made_close(opened[i]);
}

static mba_verdict suite_of(int claim, const made_run *run, int n)
{
    mba_matrix       *m = matrix_of(run, n);
    const mba_verdict v = m->suite[claim - 1];
    assert_true(v == MBA_OPEN || v == MBA_NOT_APPLICABLE || *m->sentence[claim - 1]);
    drop(m);
    return v;
}

/* The words of a rule have the thresholds with which the code judges. */
static void every_claim_says_how_the_columns_decide(void **state)
{
    static const made_run run[] = { { .foreign = "python3", .k = { MADE_SSD(.s = 1) } } };
    static const char    *want[MBA_CLAIMS] = { "60 +- 10 %", "20 +- 5 %", "refuted by one column" };
    (void)state;
    mba_matrix *m = matrix_of(run, 1);
    for (int i = 0; i < MBA_CLAIMS; i++) assert_non_null(strstr(m->rule[i], i < 3 ? want[i] : "mamba_ssm"));
    drop(m);
}

/* ---- columns ---- */

#define FUSED(...) \
    { \
        .name = "ssd_scan", .op = "ssd", .kind = "ssm", __VA_ARGS__ \
    }

static void contents_name_the_column(void **state)
{
    (void)state;
    const struct {
        made_run          run;
        mba_matrix_column column;
    } table[] = {
        { { .foreign = "python3", .k = { MADE_SSD(.s = 1) } }, MBA_COLUMN_MAMBA_SSM },
        { { .foreign = "python3", .k = { MADE_SCAN(.s = 1) } }, MBA_COLUMN_NONE },
        { { .variant = "chunked", .k = { MADE_SSD(.s = 1) } }, MBA_COLUMN_BASELINE },
        { { .variant = "persistent", .k = { MADE_SSD(.s = 1) } }, MBA_COLUMN_NONE },
        { { .variant = "fused", .k = { FUSED(.s = 1) } }, MBA_COLUMN_FUSED },
        { { .k = { MADE_SCAN(.s = 1) } }, MBA_COLUMN_MAMBA1 },
        { { .k = { FUSED(.s = 1), MADE_ATTENTION(.s = 1) } }, MBA_COLUMN_HYBRID },
        { { .unit = "images", .k = { MADE_SCAN(.s = 1), MADE_ATTENTION(.s = 1) } }, MBA_COLUMN_VISION },
        { { .unit = "graphs", .k = { MADE_SCAN(.s = 1) } }, MBA_COLUMN_GRAPHS },
        { { .k = { MADE_GEMM(.s = 1) } }, MBA_COLUMN_NONE },
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        const made_store m = made_open(&table[i].run);
        assert_int_equal(mba_matrix_column_of(m.a), table[i].column);
        made_close(m);
    }
}

static void the_largest_step_stands_for_a_column(void **state)
{
    (void)state;
    const made_run set[] = { { .units = 64, .k = { FUSED(.s = 1) } }, { .units = 1024, .k = { FUSED(.s = 2) } } };
    mba_matrix    *m = matrix_of(set, 2);
    assert_ptr_equal(m->store[MBA_COLUMN_FUSED], opened[1].a);
    assert_null(m->store[MBA_COLUMN_BASELINE]);
    assert_null(m->cell[0][MBA_COLUMN_BASELINE].id);
    drop(m);
}

/* A larger step under a power limit is of another machine, and a shorter one under none stands for the column. */
static void a_limited_gpu_stands_for_no_other(void **state)
{
    (void)state;
    const made_run set[] = { { .units = 1024, .watts = 400, .k = { FUSED(.s = 2) } },
                             { .units = 64, .k = { FUSED(.s = 1) } },
                             { .units = 1024, .watts = 500, .k = { FUSED(.s = 2) } } };
    mba_matrix    *m = matrix_of(set, 3);
    assert_ptr_equal(m->store[MBA_COLUMN_FUSED], opened[1].a);
    drop(m);
}

/* ---- the set ---- */

static void up_to_is_judged_by_the_largest_of_the_set(void **state)
{
    (void)state;
    const made_run set[] = { { .k = { MADE_GEMM(.s = 60), FUSED(.s = 20) } },
                             { .unit = "images", .k = { MADE_GEMM(.s = 50), MADE_SCAN(.s = 5) } },
                             { .unit = "graphs", .k = { MADE_GEMM(.s = 40), MADE_SCAN(.s = 60) } } };
    // 75 and 91 % GEMM: the largest class, but not "up to 60 %"; SSM 25 and 9 %
    assert_int_equal(suite_of(1, set, 2), MBA_DEPENDS);
    assert_int_equal(suite_of(2, set, 2), MBA_REPRODUCED);
    assert_int_equal(suite_of(2, set, 3), MBA_REFUTED);     // one of 60 %
    assert_int_equal(suite_of(2, set + 1, 1), MBA_REFUTED); // none near 20 %
    assert_int_equal(suite_of(1, set + 2, 1), MBA_REFUTED); // another class is larger
    const made_run sixty[] = { { .k = { MADE_GEMM(.s = 60), FUSED(.s = 40) } },
                               { .unit = "images", .k = { MADE_GEMM(.s = 55), MADE_SCAN(.s = 45) } } };
    assert_int_equal(suite_of(1, sixty, 2), MBA_REPRODUCED);
}

static void one_workload_refutes_all_workloads(void **state)
{
    (void)state;
    const made_run set[] = { { .k = { FUSED(.s = 1, .bytes = 500, .dram = 70) } },
                             { .unit = "images", .k = { MADE_SCAN(.s = 1, .bytes = 500, .dram = 10) } },
                             { .unit = "graphs", .k = { MADE_SCAN(.s = 1, .bytes = 10, .dram = 10, .ffma = 400) } } };
    assert_int_equal(suite_of(3, set, 1), MBA_REPRODUCED);
    assert_int_equal(suite_of(3, set, 2), MBA_DEPENDS); // the second is by its floor alone
    assert_int_equal(suite_of(3, set, 3), MBA_REFUTED);
}

/* Where a claim holds in some columns it depends; where in none, mamba_ssm's kernels decide. */
static void kernels_of_the_study_come_first(void **state)
{
    (void)state;
    const made_run peer = { .foreign = "python3", .k = { MADE_SSD(.s = 1, .dram = 10, .l1 = 10) } },
                   fused_some = { .k = { FUSED(.s = 4, .dram = 70), FUSED(.s = 6, .dram = 10) } },
                   fused_all = { .k = { FUSED(.s = 1, .dram = 70) } };
    assert_int_equal(suite_of(11, (made_run[]){ peer, fused_some }, 2), MBA_REFUTED);
    assert_int_equal(suite_of(11, &fused_some, 1), MBA_DEPENDS);
    assert_int_equal(suite_of(11, (made_run[]){ peer, fused_all }, 2), MBA_DEPENDS);
    assert_int_equal(suite_of(11, &fused_all, 1), MBA_REPRODUCED);
    assert_int_equal(suite_of(7, (made_run[]){ { .k = { MADE_SCAN(.s = 1) } } }, 1), MBA_NOT_APPLICABLE);
    assert_int_equal(suite_of(5, &fused_all, 1), MBA_OPEN);
}

/* ---- the committed stores ---- */

/* Every number of the H200's stores; tools/claims_sql has the same from the rows themselves. */
static void the_h200_says_what_it_said(void **state)
{
    static const char *const file[] = { "chunked", "chunked_small", "graph",       "hybrid",     "mamba1", "mamba2",
                                        "peer",    "peer_small",    "peer_mamba1", "persistent", "vision" };
    static const char *const verdicts[MBA_CLAIMS] = { "xxrrrdx", "xxrxddx", "ddxdxxd", "rrdddxx", "oxooooo", "rdrdrxd",
                                                      "dddndnn", "rxrrrdx", "ornnnnn", "rornnnn", "xxdxdxx" };
    enum { FILES = sizeof file / sizeof *file };
    mba_store    *s[FILES];
    mba_analysis *a[FILES];
    mba_matrix   *m;
    (void)state;
    for (int i = 0; i < FILES; i++) {
        char path[64];
        snprintf(path, sizeof path, "tests/data/stores/h200_%s.db", file[i]);
        assert_ok(mba_store_open(&s[i], path));
        assert_ok(mba_analysis_create(&a[i], s[i]));
    }
    assert_ok(mba_matrix_create(&m, a, FILES));
    for (int i = 0; i < MBA_CLAIMS; i++)
        for (int c = 0; c < MBA_COLUMNS; c++) {
            assert_non_null(m->store[c]);
            const char letter = "orxdn"[m->cell[i][c].here];
            if (letter != verdicts[i][c])
                fail_msg("F%d, %s: %c instead of %c (%s)", i + 1, mba_matrix_column_name((mba_matrix_column)c), letter,
                         verdicts[i][c], m->cell[i][c].measured);
        }
    static const char suite[MBA_CLAIMS + 1] = "dxxdxdddrrx";
    for (int i = 0; i < MBA_CLAIMS; i++) assert_int_equal("orxdn"[m->suite[i]], suite[i]);
    mba_matrix_destroy(m);
    for (int i = 0; i < FILES; i++) {
        mba_analysis_destroy(a[i]);
        assert_ok(mba_store_close(s[i]));
    }
}

/* What does not apply is told from what was not measured; a bound and the one column that decides are named. */
static void what_is_not_known_is_said(void **state)
{
    static const char *const part[] = { "mamba2",           "mamba1",
                                        "mamba2-chunked",   "mamba2-chunked-short",
                                        "mamba_ssm-mamba2", "mamba_ssm-mamba2-short",
                                        "mamba2-persistent" };
    enum { PARTS = sizeof part / sizeof *part };
    static const struct {
        int               claim;
        mba_matrix_column column;
        const char       *cell;
    } want[] = { { 5, MBA_COLUMN_BASELINE, "1.00" }, { 5, MBA_COLUMN_FUSED, "open" },
                 { 7, MBA_COLUMN_MAMBA1, "–" },      { 9, MBA_COLUMN_BASELINE, "≥78 → 0" },
                 { 9, MBA_COLUMN_FUSED, "–" },       { 9, MBA_COLUMN_MAMBA_SSM, "100 → open" } };
    mba_store    *s[PARTS];
    mba_analysis *a[PARTS];
    mba_matrix   *m;
    (void)state;
    for (int i = 0; i < PARTS; i++) {
        char path[96];
        snprintf(path, sizeof path, "tests/data/stores/suite/%s.db", part[i]);
        assert_ok(mba_store_open(&s[i], path));
        assert_ok(mba_analysis_create(&a[i], s[i]));
    }
    assert_ok(mba_matrix_create(&m, a, PARTS));
    for (size_t i = 0; i < sizeof want / sizeof *want; i++)
        assert_string_equal(m->cell[want[i].claim - 1][want[i].column].cell, want[i].cell);
    assert_non_null(strstr(m->sentence[4], "in Mamba-2 (multi-kernel) alone, blocks that live"));
    assert_non_null(strstr(m->sentence[8], "in Mamba-2 (multi-kernel) alone, of C·Bᵀ the scan finds at least 78 % in "
                                           "L2 at the smallest size, 0 % at the largest"));
    mba_matrix_destroy(m);
    for (int i = 0; i < PARTS; i++) {
        mba_analysis_destroy(a[i]);
        assert_ok(mba_store_close(s[i]));
    }
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
        cmocka_unit_test(every_claim_says_how_the_columns_decide),
        cmocka_unit_test(contents_name_the_column),
        cmocka_unit_test(the_largest_step_stands_for_a_column),
        cmocka_unit_test(a_limited_gpu_stands_for_no_other),
        cmocka_unit_test(up_to_is_judged_by_the_largest_of_the_set),
        cmocka_unit_test(one_workload_refutes_all_workloads),
        cmocka_unit_test(kernels_of_the_study_come_first),
        cmocka_unit_test(the_h200_says_what_it_said),
        cmocka_unit_test(what_is_not_known_is_said),
    };
    return cmocka_run_group_tests(tests, prepare, clean);
}
