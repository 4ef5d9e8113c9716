// SPDX-License-Identifier: Apache-2.0
/* source_lines_test.c -- lines of source from counts and samples of instructions, and the card of a kernel with
 * them. */
#include "study/source_lines.h"

#include <stdlib.h>
#include <string.h>

#include "report/report.h"
#include "tests/made_kernels.h"

static void put(mba_store *s, int64_t line, const char *metric, double value)
{
    assert_ok(mba_put_instruction(s, &(mba_row_instruction){ .kernel = 0,
                                                             .pc = 16 * line,
                                                             .sass = "FFMA",
                                                             .file = "/somewhere/kernel.cu",
                                                             .line = line,
                                                             .metric = metric,
                                                             .value = value }));
}

/* Line 7 ran 100 times and stalled 30 times, line 9 ran 10 times and stalled 90 times, for two reasons. */
static void put_lines(mba_store *s)
{
    put(s, 7, "smsp__sass_inst_executed", 100);
    put(s, 7, "smsp__pcsamp_warps_issue_stalled_wait", 30);
    put(s, 7, "smsp__pcsamp_warps_issue_stalled_wait_not_issued", 20); // part of the 30
    put(s, 9, "smsp__sass_inst_executed", 10);
    put(s, 9, "smsp__pcsamp_warps_issue_stalled_wait", 18);
    put(s, 9, "smsp__pcsamp_warps_issue_stalled_long_scoreboard", 72);
}

static const made_run with_lines = { .file = "lines.db",
                                     .k = { MADE_SSD(.s = 1, .bytes = 100, .ffma = 10) },
                                     .more = put_lines };

static void lines_come_by_their_samples(void **state)
{
    (void)state;
    const made_store m = made_open(&with_lines);
    mba_source_line *l;
    int64_t          n;
    char             waits[100];
    assert_ok(mba_source_lines(&l, &n, m.a));
    assert_int_equal(n, 2);
    assert_int_equal(l[0].line, 9);
    assert_near(l[0].samples, 90, 1e-9);
    assert_near(l[1].samples, 30, 1e-9);
    assert_near(l[1].executed, 100, 1e-9);
    mba_source_waits(waits, sizeof waits, &l[0], 2);
    assert_string_equal(waits, "long_scoreboard 80 %, wait 20 %");
    free(l);
    made_close(m);
}

static void a_store_without_them_has_none(void **state)
{
    (void)state;
    const made_run   run = { .file = "plain.db", .k = { MADE_SSD(.s = 1) } };
    const made_store m = made_open(&run);
    mba_source_line *l;
    int64_t          n;
    assert_ok(mba_source_lines(&l, &n, m.a));
    assert_true(!l && !n);
    made_close(m);
}

static void the_page_has_the_lines(void **state)
{
    (void)state;
    made_close(made_open(&with_lines));
    const char *const path[] = { scratch("lines.db") };
    mba_stores        r;
    mba_buf           page = { 0 };
    assert_ok(mba_stores_open(&r, path, 1));
    assert_ok(mba_report_page(&page, &r));
    assert_non_null(strstr(page.s, "[\"kernel.cu:9\",75,\"long_scoreboard 80 %, wait 20 %\"],[\"kernel.cu:7\",25,"));
    mba_buf_free(&page);
    assert_ok(mba_stores_close(&r));
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
        cmocka_unit_test(lines_come_by_their_samples),
        cmocka_unit_test(a_store_without_them_has_none),
        cmocka_unit_test(the_page_has_the_lines),
    };
    return cmocka_run_group_tests(tests, prepare, clean);
}
