// SPDX-License-Identifier: Apache-2.0
/* answers_test.c -- what a reader who has only the page needs: one word for one thing, numbers that agree with each
 * other, and answers that say what they hold for. */
#include <math.h>
#include <stdlib.h>

#include <sqlite3.h>

#include "report/figure.h"
#include "tests/page.h"
#include "tests/report_stores.h"

static const char *const suite[] = { "tests/data/stores/suite/mamba2.db",
                                     "tests/data/stores/suite/mamba1.db",
                                     "tests/data/stores/suite/mamba2-chunked.db",
                                     "tests/data/stores/suite/mamba2-chunked-short.db",
                                     "tests/data/stores/suite/mamba2-persistent.db",
                                     "tests/data/stores/suite/mamba_ssm-mamba2.db" };
enum { SUITE = sizeof suite / sizeof *suite };

static int times_in(const char *page, const char *text)
{
    int n = 0;
    for (const char *at = page; (at = strstr(at, text)) != NULL; at += strlen(text)) n++;
    return n;
}

/* A unit limits, a floor is set: "bound" is the study's word and stands in its compounds only. */
static void one_word_says_what_limits(void **state)
{
    (void)state;
    char *page = page_of(suite, SUITE);
    assert_int_equal(times_in(page, " bound by"), 0);
    assert_int_equal(times_in(page, "highest floor"), 0);
    assert_int_equal(times_in(page, "largest floor"), 0);
    assert_int_equal(times_in(page, "<b>Limited by</b>:"), 1);
    assert_int_equal(times_in(page, "<b>Floor</b>:"), 1);
    free(page);
}

/* The text between the first `from` behind `at` and `to`, copied. */
static void between(char *out, size_t room, const char *at, const char *from, const char *to)
{
    const char *begin = strstr(at, from);
    if (!begin) fail_msg("the page does not have: %s", from);
    begin += strlen(from);
    const char *end = strstr(begin, to);
    assert_non_null(end);
    snprintf(out, room, "%.*s", (int)(end - begin), begin);
}

/* What the matrix marks in the column of a run is what the table of claims of that run says. F1 to F3 are statements
 * about several models: their table has a number and no verdict, as `show claims` has. */
static void the_matrix_and_the_claims_of_a_run_agree(void **state)
{
    static const int columns[SUITE] = { MBA_COLUMN_FUSED, MBA_COLUMN_MAMBA1, MBA_COLUMN_BASELINE,
                                        MBA_COLUMN_NONE,  MBA_COLUMN_NONE,   MBA_COLUMN_MAMBA_SSM };
    mba_stores       r;
    (void)state;
    char *page = page_of(suite, SUITE);
    assert_ok(mba_stores_open(&r, suite, SUITE));
    for (int i = 0; i < SUITE; i++) {
        char        from[160], cell[64], own[64];
        const char *at, *matrix = strstr(page, "<table class=\"matrix\">");
        if (columns[i] == MBA_COLUMN_NONE) continue;
        snprintf(from, sizeof from, "aria-label=\"claims of %s\"", mba_run_label(&r, i));
        at = strstr(page, from);
        if (!at) fail_msg("no claims of %s", mba_run_label(&r, i));
        for (int k = 1; k <= MBA_CLAIMS; k++) {
            snprintf(from, sizeof from, "aria-label=\"F%d, %s: ", k,
                     mba_matrix_column_title((mba_matrix_column)columns[i]));
            between(cell, sizeof cell, matrix, from, ",");
            snprintf(from, sizeof from, "<td>F%d</td>", k);
            at = strstr(at, from);
            assert_non_null(at);
            between(own, sizeof own, at, "<span class=\"chip ", "\">");
            const char *want = k <= 3 && strcmp(cell, "open") ? "number" : cell;
            if (strcmp(own, want)) fail_msg("F%d of %s: %s in the matrix, %s in its table", k, suite[i], cell, own);
        }
    }
    assert_ok(mba_stores_close(&r));
    free(page);
}

/* A row of the rules has the verdict over all stores and how it is made, in the words of the code that makes it. */
static void the_rules_say_how_stores_make_a_verdict(void **state)
{
    mba_stores    r;
    mba_matrix   *m;
    mba_analysis *store[SUITE];
    (void)state;
    char *page = page_of(suite, SUITE);
    assert_ok(mba_stores_open(&r, suite, SUITE));
    for (int i = 0; i < SUITE; i++) store[i] = r.run[i].a;
    assert_ok(mba_matrix_create(&m, store, SUITE));
    for (int k = 0; k < MBA_CLAIMS; k++) {
        char row[64], want[512];
        snprintf(row, sizeof row, "<tr id=\"rule-F%d\">", k + 1);
        const char *at = strstr(page, row), *verdict = mba_verdict_name(m->suite[k]);
        assert_non_null(at);
        snprintf(want, sizeof want, "<td data-h=\"over all stores\"><span class=\"chip %s\">%s</span>: %s</td></tr>",
                 verdict, verdict, m->rule[k]);
        const char *said = strstr(at, want);
        if (!said || said > strstr(at, "</tr>")) fail_msg("F%d: no '%s'", k + 1, want);
    }
    mba_matrix_destroy(m);
    assert_ok(mba_stores_close(&r));
    free(page);
}

/* A run has one name: the title of its column of the matrix, in tables, captions, switches and records. The preset
 * stands beside it in the caption. */
static void a_run_has_one_name(void **state)
{
    mba_stores r;
    int        captions = 0;
    char       name[200];
    (void)state;
    char *page = page_of(suite, SUITE);
    assert_ok(mba_stores_open(&r, suite, SUITE));
    assert_string_equal(mba_run_label(&r, 0), mba_matrix_column_title(MBA_COLUMN_FUSED));
    assert_string_equal(mba_run_label(&r, 2), mba_matrix_column_title(MBA_COLUMN_BASELINE));
    assert_string_equal(mba_run_label(&r, 5), mba_matrix_column_title(MBA_COLUMN_MAMBA_SSM));
    for (const char *at = page; (at = strstr(at, "\"><caption>")) != NULL; at++) {
        bool known = false;
        between(name, sizeof name, at, "<caption>", "</caption>");
        if (!strchr(name, ',')) continue; // the matrix has its own
        memmove(name, strstr(name, ", ") + 2, strlen(strstr(name, ", ") + 2) + 1);
        for (int i = 0; i < SUITE; i++) {
            char        want[200];
            const char *label = mba_run_label(&r, i), *preset = r.run[i].a->workload;
            if (strcmp(label, preset)) snprintf(want, sizeof want, "%s, %s", label, preset);
            else snprintf(want, sizeof want, "%s", label);
            known |= !strcmp(name, want);
        }
        if (!known && strcmp(name, "all runs")) fail_msg("a caption names '%s'", name);
        captions++;
    }
    assert_true(captions > 40);
    assert_null(strstr(page, "<td>mamba2-headline</td><td>ssd")); // runs of tables
    assert_non_null(strstr(page, "\"runs\":[\"Mamba-2 (fused)\","));
    assert_ok(mba_stores_close(&r));
    free(page);
}

/* Bytes over time is bandwidth: the three factors of Q1 have one source. */
static void persistent_blocks_have_one_source_of_time(void **state)
{
    double bytes, time, rate;
    (void)state;
    char       *page = page_of(suite, SUITE);
    const char *at = strstr(page, "SSM kernels move ");
    assert_non_null(at);
    assert_int_equal(sscanf(at, "SSM kernels move %lf × the bytes in %lf × the time, at %lf ×", &bytes, &time, &rate),
                     3);
    assert_true(fabs(bytes / time - rate) < 0.011); // each is rounded to a hundredth
    assert_non_null(strstr(at, "by counters"));
    free(page);
}

static void change(const char *path, const char *sql)
{
    sqlite3 *db;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
}

/* Made-up times by counters, and lives: the three ways to take tiles stand side by side, and the best of them
 * answers. */
static void the_best_way_to_take_tiles_answers(void **state)
{
    static const struct {
        const char *kernel, *sql;
    } made[] = { { "chunk_scan_fwd", "" },
                 { "ssd_persistent",
                   "update counter set value = 21000 where metric = 'gpu__time_duration.sum' and "
                   "kernel = 1; update counter set value = 8e6 where metric = 'sm__ctas_active.sum'" },
                 { "ssd_persistent_dynamic",
                   "update counter set value = 16000 where metric = 'gpu__time_duration.sum' and kernel = 1" },
                 { "ssd_persistent_prefetch",
                   "update counter set value = 18000 where metric = 'gpu__time_duration.sum' and kernel = 1" } };
    enum { N = sizeof made / sizeof *made };
    const char *path[N];
    mba_stores  r;
    (void)state;
    for (int i = 0; i < N; i++) {
        char file[64];
        snprintf(file, sizeof file, "way%d.db", i);
        path[i] = full_store(file, "mamba2", "ssd", made[i].kernel, 128);
        change(path[i], made[i].sql);
    }
    const mba_figure *f = mba_figures[0];
    for (int i = 0; strcmp(f->name, "persistent"); i++) f = mba_figures[i];
    for (int n = 1; n <= N; n++) {
        mba_buf heading = { 0 }, csv = { 0 };
        assert_ok(mba_stores_open(&r, path, n));
        assert_int_equal(f->has(&r, -1), n > 1);
        if (n > 1) {
            f->heading(&heading, &r, -1);
            static const char *const want[N + 1] = {
                [2] = "No: their blocks live 2.0 × as long, and SSM kernels move 1.00 × the bytes in 1.05 × the time, "
                      "at 0.95 × the bandwidth",
                [3] = "Yes, in 1 of 2 ways to take tiles: blocks live 1.0–2.0 × as long, and SSM kernels move 1.00 × "
                      "the bytes in 0.80–1.05 × the time, at 0.95–1.25 × the bandwidth",
                [4] = "Yes, in 2 of 3 ways to take tiles: blocks live 1.0–2.0 × as long, and SSM kernels move 1.00 × "
                      "the bytes in 0.80–1.05 × the time, at 0.95–1.25 × the bandwidth"
            };
            if (strncmp(heading.s, want[n], strlen(want[n]))) fail_msg("%d ways: %s", n - 1, heading.s);
            assert_int_equal(strstr(heading.s, "; best: persistent_dynamic") != NULL, n > 2);
            assert_ok(mba_report_csv(&csv, &r, "persistent"));
        }
        for (int i = 1; i < N && n > 1; i++) {
            char row[64];
            snprintf(row, sizeof row, "ssd %s,", made[i].kernel + strlen("ssd_"));
            assert_int_equal(strstr(csv.s, row) != NULL, i < n);
        }
        mba_buf_free(&heading);
        mba_buf_free(&csv);
        assert_ok(mba_stores_close(&r));
    }
}

/* The share of GEMM in the overview is that of claim F1. */
static void gemm_has_one_share(void **state)
{
    (void)state;
    const char *one[] = { suite[0] };
    char       *page = page_of(one, 1), want[128];
    mba_stores  r;
    assert_ok(mba_stores_open(&r, one, 1));
    const mba_analysis *a = r.run[0].a;
    const double        share = 100 * mba_products_s(a) / a->busy_s;
    assert_true(share > 100 * mba_kind_s(a, MBA_GEMM) / a->busy_s + 0.1); // it has a head
    snprintf(want, sizeof want, "GEMM takes <b>%s\u00a0%%</b>", mba_num(share).s);
    if (!strstr(page, want)) fail_msg("the page does not say: %s", want);
    snprintf(want, sizeof want, "GEMM %s %%, SSM", mba_num(share).s); // Fig. 1
    if (!strstr(page, want)) fail_msg("the page does not say: %s", want);
    assert_ok(mba_stores_close(&r));
    free(page);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_word_says_what_limits),
        cmocka_unit_test(the_matrix_and_the_claims_of_a_run_agree),
        cmocka_unit_test(the_rules_say_how_stores_make_a_verdict),
        cmocka_unit_test(a_run_has_one_name),
        cmocka_unit_test(persistent_blocks_have_one_source_of_time),
        cmocka_unit_test(the_best_way_to_take_tiles_answers),
        cmocka_unit_test(gemm_has_one_share),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
