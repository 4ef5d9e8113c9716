// SPDX-License-Identifier: Apache-2.0
/* report_test.c -- the page of made-up stores and of a real one: complete, well-formed, honest, and equal to the
 * store. Its figures by themselves: drawings_test.c. */
#include <errno.h>
#include <jansson.h>
#include <limits.h>
#include <sqlite3.h>
#include <unistd.h>

#include "core/file.h"
#include "report/figure.h"
#include "tests/page.h"
#include "tests/report_stores.h"
#include "tests/starve.h"

enum { SCRIPT_LINES_MAX = 600 };

/* ---- complete ---- */

static void the_page_of_a_real_store_is_well_formed_and_small(void **state)
{
    (void)state;
    const char *path[] = { REAL_STORE };
    char       *page = page_of(path, 1);
    int         lines = 0;
    check_page(page);
    assert_true(strlen(page) < PAGE_BYTES_MAX);
    for (const char *c = mba_report_js; *c; c++) lines += *c == '\n';
    assert_true(lines < SCRIPT_LINES_MAX);
    free(page);
}

static void the_same_stores_give_the_same_bytes(void **state)
{
    (void)state;
    const char *path[] = { REAL_STORE, full_store("same.db", "mamba2", "ssd", "chunk_scan_fwd", 128) };
    char       *a = page_of(path, 2), *b = page_of(path, 2);
    assert_string_equal(a, b);
    free(a);
    free(b);
}

/* ---- equal to the store ---- */

static double event_ms(mba_store *s, int64_t kernel_from, int64_t kernel_to)
{
    mba_row_event *e;
    int64_t        n;
    double         ns = 0;
    assert_ok(mba_load_event(s, &e, &n));
    for (int64_t i = 0; i < n; i++)
        if (e[i].kernel >= kernel_from && e[i].kernel < kernel_to) ns += (double)e[i].duration_ns;
    return ns / 1e6;
}

/* Column `number` of the rows of a table whose column `text` is `word`, summed. */
static double sum_where(const char *table, int text, const char *word, int number)
{
    double   sum = 0;
    page_row row;
    for (const char *at = table; (at = next_row(at, &row)) != NULL;)
        if (row.n > number && (!word || !strcmp(row.cell[text], word)))
            sum += isnan(row.value[number]) ? 0 : row.value[number];
    return sum;
}

/* The breakdown on the page against the rows of the database, added up without the analysis. */
static void the_breakdown_is_the_sum_of_the_events(void **state)
{
    (void)state;
    const char     *path[] = { REAL_STORE };
    char           *page = page_of(path, 1), *table = table_named(page, "fig1, all runs");
    mba_store      *s;
    mba_row_kernel *k;
    int64_t         n;
    assert_non_null(table);
    assert_ok(mba_store_open(&s, REAL_STORE));
    assert_ok(mba_load_kernel(s, &k, &n));
    assert_true(n > 50);
    for (const char *const *kind = (const char *const[]){ "gemm", "ssm", "norm", "message passing", NULL }; *kind;
         kind++) {
        double ms = 0;
        for (int64_t i = 0; i < n; i++)
            if (k[i].kind && !strcmp(k[i].kind, *kind)) ms += event_ms(s, k[i].id, k[i].id + 1);
        assert_true(ms > 0);
        assert_near(sum_where(table, 1, *kind, 3), ms, 1e-6 * ms); // the store has one step
    }
    assert_near(sum_where(table, 1, NULL, 4), 100, 0.1);
    assert_ok(mba_store_close(s));
    free(page);
}

/* The sentences of the first screen carry the numbers of the analysis, and every run has its strip. */
static void the_first_screen_says_what_the_store_says(void **state)
{
    const char   *path[] = { REAL_STORE };
    char         *page = page_of(path, 1), want[256];
    mba_store    *s;
    mba_analysis *a;
    (void)state;
    assert_ok(mba_store_open(&s, REAL_STORE));
    assert_ok(mba_analysis_create(&a, s));
    snprintf(want, sizeof want, "GEMM takes <b>%s\u00a0%%</b> of the kernel time, SSM operators <b>%s\u00a0%%</b>",
             mba_num(100 * mba_products_s(a) / a->busy_s).s, mba_num(100 * mba_kind_s(a, MBA_SSM) / a->busy_s).s);
    assert_non_null(strstr(page, want));
    snprintf(want, sizeof want, "run at <b>%s\u00a0%%</b> of their floor",
             mba_num(mba_bounds_of(a, MBA_ALL_KERNELS).percent_of_floor).s);
    assert_non_null(strstr(page, want));
    const char *picture = strstr(page, "id=\"overview\""), *end = picture ? strstr(picture, "</svg>") : NULL;
    snprintf(want, sizeof want, ">%s ms</text>", mba_num(1e3 * a->plain_s).s);
    assert_true(end && strstr(picture, want) < end);
    mba_analysis_destroy(a);
    assert_ok(mba_store_close(s));
    free(page);
}

/* Every number that is printed reads as its exact value does; the table of kernels and the records agree with the
 * events. */
static void every_number_is_what_it_says(void **state)
{
    (void)state;
    const char *path[] = { REAL_STORE };
    char       *page = page_of(path, 1);
    int         seen = 0;
    *strstr(page, "<script") = 0; // what it writes is made of records
    for (const char *at = page; (at = strstr(at, "data-v=\"")) != NULL;) {
        const double v = strtod(at += 8, NULL);
        const char  *text = strchr(at, '>') + 1;
        if (!strncmp(at, "-1\"", 3) || *at == '"') continue; // explorer: nothing, sorts last
        while (*text == '<') text = strchr(text, '>') + 1;
        const mba_word want = mba_num(v);
        if (strncmp(text, want.s, strlen(want.s)))
            fail_msg("%.9g is printed as '%.12s', should be '%s'", v, text, want.s);
        seen++;
    }
    assert_true(seen > 1000);
    seen = 0;
    for (const char *at = page; (at = strstr(at, "data-x=\"")) != NULL; seen++) { // two digits, on the first screen
        const double v = strtod(at += 8, NULL), printed = strtod(strchr(at, '>') + 1, NULL);
        if (v >= 7 && fabs(printed - v) > 0.501) fail_msg("%.9g is printed as %g", v, printed);
    }
    assert_true(seen >= 3);
    free(page);
}

/* Where a key stands in the rows of the records. */
static size_t key_number(const json_t *data, const char *key)
{
    const json_t *keys = json_object_get(json_object_get(data, "kernels"), "keys");
    for (size_t i = 0; i < json_array_size(keys); i++)
        if (!strcmp(json_string_value(json_array_get(keys, i)), key)) return i;
    fail_msg("records have no '%s'", key);
    return 0;
}

static void records_of_kernels_are_the_stores(void **state)
{
    (void)state;
    const char   *path[] = { REAL_STORE };
    char         *page = page_of(path, 1), *json = strstr(page, "id=\"data\">");
    mba_store    *s;
    mba_analysis *a;
    assert_non_null(json);
    *strstr(json, "</script>") = 0;
    json_t *data = json_loads(json + 10, 0, NULL), *kernels = json_object_get(json_object_get(data, "kernels"), "rows");
    assert_non_null(data);
    const size_t ms_at = key_number(data, "ms");
    assert_ok(mba_store_open(&s, REAL_STORE));
    assert_ok(mba_analysis_create(&a, s));
    assert_true(json_array_size(kernels) == (size_t)a->nkernels);
    double ms = 0;
    for (size_t i = 0; i < json_array_size(kernels); i++)
        ms += json_number_value(json_array_get(json_array_get(kernels, i), ms_at));
    assert_near(ms, event_ms(s, 0, INT64_MAX), 1e-6 * ms);
    mba_row_event *e;
    int64_t        nevents;
    assert_ok(mba_load_event(s, &e, &nevents));
    for (int64_t i = 0; i < a->nkernels; i++) { // each by itself, added up without the analysis
        double want = 0;
        bool   there = false;
        for (int64_t k = 0; k < nevents; k++)
            if (e[k].kernel == a->kernel[i].row->id) want += 1e-6 * (double)e[k].duration_ns;
        for (size_t k = 0; k < json_array_size(kernels) && !there; k++) {
            const double got = json_number_value(json_array_get(json_array_get(kernels, k), ms_at));
            there = fabs(got - want) < 1e-6 * want + 1e-9;
        }
        if (!there) fail_msg("no kernel of the page takes %.9g ms, as %s does", want, a->kernel[i].row->name);
    }
    const json_t *events = json_object_get(json_array_get(json_object_get(data, "events"), 0), "events");
    double        ns = 0;
    int64_t       n;
    assert_ok(mba_store_count(s, MBA_ROWS_event, &n));
    assert_true(json_array_size(events) == 5 * (size_t)n);
    for (size_t i = 1; i < json_array_size(events); i += 5) ns += json_number_value(json_array_get(events, i));
    assert_near(ns / 1e6, 1e3 * a->busy_s, 1e-6 * ns / 1e6);
    mba_analysis_destroy(a);
    assert_ok(mba_store_close(s));
    json_decref(data);
    free(page);
}

/* What a slider chooses is what was simulated there: the last slider runs fastest. */
static void sliders_choose_among_what_was_simulated(void **state)
{
    (void)state;
    const char *path[] = { full_store("s1.db", "mamba1", "selective_scan", "scan_fwd", 128),
                           full_store("s2.db", "mamba2", "ssd", "chunk_scan_fwd", 128),
                           full_store("s3.db", "mamba2", "ssd", "chunk_scan_fwd", 512) };
    char       *page = page_of(path, 3), *json = strstr(page, "id=\"data\">");
    assert_non_null(json);
    *strstr(json, "</script>") = 0;
    json_t *data = json_loads(json + 10, 0, NULL), *w = json_object_get(data, "whatif");
    json_t *models = json_object_get(w, "models");
    assert_int_equal(json_array_size(json_object_get(w, "sliders")), MBA_WI_SLIDERS);
    assert_int_equal(json_array_size(models), 2);
    for (size_t m = 0; m < 2; m++) {
        const json_t *grid = json_object_get(json_array_get(models, m), "grid");
        assert_int_equal(json_array_size(grid), mba_wi_grid_size(made_up_whatif()));
        for (size_t i = 0; i < json_array_size(grid); i++)
            for (int part = 0; part < MBA_WI_PARTS; part++)
                assert_near(json_number_value(
                                json_array_get(json_array_get(grid, i), (size_t)part * (1 + MBA_WI_BOUNDS))),
                            made_up_whatif()->model[m].grid[i].of[part].ms, 0);
    }
    json_decref(data);
    free(page);
}

/* ---- honest ---- */

static void an_empty_store_gives_frames_and_no_verdict(void **state)
{
    (void)state;
    mba_store  *s;
    const char *path[] = { scratch("empty.db") };
    assert_ok(mba_store_create(&s, path[0]));
    assert_ok(mba_store_close(s));
    char *page = page_of(path, 1);
    check_page(page);
    assert_non_null(strstr(page, "no data yet"));
    // the tally names all four verdicts once; beyond it only "open" may stand
    for (const char *const *v = (const char *const[]){ "reproduced", "refuted", "depends", "new", NULL }; *v; v++) {
        char chip[64];
        int  n = 0;
        snprintf(chip, sizeof chip, "<span class=\"chip %s\">", *v);
        for (const char *at = page; (at = strstr(at, chip)) != NULL; at++) n++;
        assert_true(n <= (strcmp(*v, "new") ? 1 : 0));
    }
    free(page);
}

static void hostile_names_are_escaped_and_cut_between_characters(void **state)
{
    (void)state;
    char        name[400] = "<script>alert('x')</script>\"&\xff";
    const char *file = "hostile.db";
    mba_store  *s;
    while (strlen(name) < 330) strcat(name, "ö");
    assert_ok(mba_store_create(&s, scratch(file)));
    put_machine(s, "</title><b>", 128);
    put_node(s, 0, "op\"<i>", "gemm", 1e9, NULL);
    put_kernel(s, 0, name, "op\"<i>", "gemm");
    mba_row_event e = mba_no_event;
    e.what = "kernel", e.step = 0, e.kernel = 0, e.node = 0, e.stream = 0, e.start_ns = 0, e.duration_ns = 1000;
    assert_ok(mba_put_event(s, &e));
    assert_ok(mba_store_close(s));
    const char *path[] = { scratch(file) };
    char       *page = page_of(path, 1);
    check_page(page);
    assert_null(strstr(page, "<script>alert"));
    assert_null(strstr(page, "<i>"));
    free(page);
    assert_string_equal(mba_short("ööö", 2).s, "ö…");
    assert_string_equal(mba_short("abc", 3).s, "abc");
}

static void a_broken_store_among_good_ones_is_named(void **state)
{
    (void)state;
    const char *path[] = { full_store("good.db", "mamba2", "ssd", "chunk_scan_fwd", 128), scratch("broken.db") };
    mba_writer *w = NULL;
    mba_stores  r;
    assert_ok(mba_writer_create(&w, path[1]));
    assert_ok(mba_writer_put(w, "not a store", 11));
    assert_ok(mba_writer_commit(w));
    mba_writer_destroy(w);
    assert_fails(mba_stores_open(&r, path, 2), MBA_E_FORMAT, "broken.db");
    assert_int_equal(r.n, 0);
}

/* ---- a failed read or allocation is not "no data" ---- */

static mba_status page_again(mba_buf *out, const char *path)
{
    mba_stores r;
    MBA_TRY(mba_stores_open(&r, &path, 1));
    mba_status       st = mba_report_page(out, &r);
    const mba_status closed = mba_stores_close(&r);
    return st == MBA_OK ? closed : st;
}

static long reads, read_fails; /* reads of SQLite so far; the one that fails, from 1 on */

static ssize_t read_at(int fd, void *to, size_t n, off_t at)
{
    if (++reads == read_fails) {
        errno = EIO;
        return -1;
    }
    return pread(fd, to, n, at);
}

static void a_page_of_failed_reads_is_an_error(void **state)
{
    const char  *path = full_store("reads.db", "mamba2", "ssd", "chunk_scan_fwd", 128);
    mba_buf      whole = { 0 };
    sqlite3_vfs *vfs = sqlite3_vfs_find(NULL);
    (void)state;
    static const char *const calls[] = { "pread", "pread64" };
    for (int i = 0; i < 2; i++) vfs->xSetSystemCall(vfs, calls[i], (sqlite3_syscall_ptr)read_at);
    read_fails = reads = 0;
    assert_ok(page_again(&whole, path));
    const long all = reads;
    assert_true(all > 8);
    for (read_fails = 1; read_fails <= all; read_fails++) {
        mba_buf b = { 0 };
        reads = 0;
        const mba_status st = page_again(&b, path);
        if (st == MBA_OK) assert_string_equal(b.s, whole.s);
        else assert_true(*mba_message());
        mba_buf_free(&b);
    }
    for (int i = 0; i < 2; i++) vfs->xSetSystemCall(vfs, calls[i], NULL);
    mba_buf_free(&whole);
}

static void a_page_without_memory_is_an_error(void **state)
{
    (void)state;
#if MBA_STARVE
    enum { SAMPLES = 97 };
    const char *path = full_store("starved.db", "mamba2", "ssd", "chunk_scan_fwd", 128);
    mba_buf     whole = { 0 };
    assert_ok(page_again(&whole, path));
    mba_buf_free(&whole);
    left = LONG_MAX;
    assert_ok(page_again(&whole, path));
    const long all = LONG_MAX - left;
    left = -1;
    for (long k = 0; k < all; k += all / SAMPLES + 1) {
        mba_buf b = { 0 };
        left = k;
        const mba_status st = page_again(&b, path);
        left = -1;
        if (st == MBA_OK) assert_string_equal(b.s, whole.s);
        else assert_fails(st, MBA_E_NOMEM, "");
        mba_buf_free(&b);
    }
    mba_buf_free(&whole);
#else
    skip();
#endif
}

static void numbers_have_three_digits(void **state)
{
    (void)state;
    const struct {
        double      v;
        const char *text;
    } row[] = { { 0, "0" },
                { 1, "1" },
                { 12.345, "12.3" },
                { 1234567, "1,234,567" },
                { 999.6, "1,000" },
                { 0.012345, "0.0123" },
                { -4.5, "-4.5" },
                { NAN, "–" },
                { 1e15, "1×10¹⁵" },
                { -9.6e-8, "-9.6×10⁻⁸" },
                { 1e-120, "1×10⁻¹²⁰" },
                { 100, "100" } };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) assert_string_equal(mba_num(row[i].v).s, row[i].text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_page_of_a_real_store_is_well_formed_and_small),
        cmocka_unit_test(the_same_stores_give_the_same_bytes),
        cmocka_unit_test(the_breakdown_is_the_sum_of_the_events),
        cmocka_unit_test(the_first_screen_says_what_the_store_says),
        cmocka_unit_test(every_number_is_what_it_says),
        cmocka_unit_test(records_of_kernels_are_the_stores),
        cmocka_unit_test(sliders_choose_among_what_was_simulated),
        cmocka_unit_test(an_empty_store_gives_frames_and_no_verdict),
        cmocka_unit_test(hostile_names_are_escaped_and_cut_between_characters),
        cmocka_unit_test(a_broken_store_among_good_ones_is_named),
        cmocka_unit_test(a_page_of_failed_reads_is_an_error),
        cmocka_unit_test(a_page_without_memory_is_an_error),
        cmocka_unit_test(numbers_have_three_digits),
    };
    scratch_make();
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    scratch_remove();
    return failed;
}
