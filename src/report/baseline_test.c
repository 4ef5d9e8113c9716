// SPDX-License-Identifier: Apache-2.0
/* baseline_test.c -- an earlier store behind a page: which kernels it has, and what the page says of them. */
#include <math.h>
#include <string.h>

#include "report/figure.h"
#include "tests/test.h"

static const char *const store[] = { "tests/data/stores/suite/mamba2.db" };
static const char        before[] = "tests/data/stores/suite/mamba2-chunked.db";

static const mba_kernel_view *kernel_named(const mba_analysis *a, const char *name)
{
    for (int64_t i = 0; i < a->nkernels; i++)
        if (a->kernel[i].row->name && !strcmp(a->kernel[i].row->name, name)) return &a->kernel[i];
    return NULL;
}

static void kernels_of_one_shape_are_compared(void **state)
{
    (void)state;
    mba_stores r;
    assert_ok(mba_stores_open(&r, store, 1));
    assert_false(mba_has_before(&r, 0));
    const mba_kernel_view *conv = kernel_named(r.run[0].a, "conv1d_fwd_tiles");
    assert_non_null(conv);
    assert_null(mba_kernel_before(&r, 0, conv));
    assert_ok(mba_stores_baseline(&r, before));
    assert_true(mba_has_before(&r, 0));
    const mba_kernel_view *was = mba_kernel_before(&r, 0, conv);
    assert_non_null(was);
    assert_string_equal(was->row->shape, conv->row->shape);
    assert_true(was != conv && was->median_s > 0);
    const mba_kernel_view *scan = kernel_named(r.run[0].a, "ssd_scan"); // chunked has none
    assert_non_null(scan);
    assert_null(mba_kernel_before(&r, 0, scan));
    assert_ok(mba_stores_close(&r));
}

static void the_page_has_both_times(void **state)
{
    (void)state;
    mba_stores r;
    mba_buf    plain = { 0 }, page = { 0 };
    char       words[64];
    assert_ok(mba_stores_open(&r, store, 1));
    assert_ok(mba_report_page(&plain, &r));
    assert_null(strstr(plain.s, "\"was_util\""));
    assert_null(strstr(plain.s, "× before"));
    assert_ok(mba_stores_baseline(&r, before));
    assert_ok(mba_report_page(&page, &r));
    assert_non_null(strstr(page.s, "\"was_util\""));
    assert_non_null(strstr(page.s, "<button>× before</button>"));
    assert_non_null(strstr(page.s, "mamba2-chunked.db</b>"));
    assert_non_null(strstr(page.s, "· baseline"));
    const mba_kernel_view *was = mba_kernel_before(&r, 0, kernel_named(r.run[0].a, "conv1d_fwd_tiles"));
    snprintf(words, sizeof words, "<td data-v=\"%s\">", mba_exact(1e6 * was->median_s).s);
    assert_non_null(strstr(page.s, words));
    mba_buf_free(&plain);
    mba_buf_free(&page);
    assert_ok(mba_stores_close(&r));
}

static void another_workload_is_refused(void **state)
{
    (void)state;
    mba_stores r;
    assert_ok(mba_stores_open(&r, store, 1));
    assert_fails(mba_stores_baseline(&r, "tests/data/stores/suite/mamba1.db"), MBA_E_ARG, "another workload");
    assert_ok(mba_stores_close(&r));
}

static void a_store_that_is_not_there_is_an_error(void **state)
{
    (void)state;
    mba_stores r;
    assert_ok(mba_stores_open(&r, store, 1));
    assert_true(mba_stores_baseline(&r, "tests/data/stores/nowhere.db") != MBA_OK);
    assert_ok(mba_stores_close(&r));
}

MBA_TEST_MAIN(cmocka_unit_test(kernels_of_one_shape_are_compared), cmocka_unit_test(the_page_has_both_times),
              cmocka_unit_test(another_workload_is_refused), cmocka_unit_test(a_store_that_is_not_there_is_an_error))
