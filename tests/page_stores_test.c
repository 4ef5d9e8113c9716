// SPDX-License-Identifier: Apache-2.0
/* page_stores_test.c -- a page of many stores, number by number against their rows: step times, rates, shares of
 * classes, time and launches of kernels, bandwidths, joules, and the records of kernels, by the SQL of walk_claims.h.
 *
 *     page_stores_test                             a page of the suite's committed stores; wrong numbers are found
 *     page_stores_test PAGE.html MAIN STORE ..     a page that lies somewhere, of these stores in this order, of which
 *                                                  the first MAIN have sections of their own
 *
 * Nothing of the analysis is used on the side of the database; the stores are opened to learn what the page calls
 * them. */
#include <jansson.h>

#include "core/file.h"
#include "report/report.h"
#include "tests/test.h"
#include "tests/walk_claims.h"
#include "tests/walk_page.h"
#include "tests/walk_rows.h"

enum { MAIN = 5, SHOWN_FAULTS = 12 };
static const char *const suite[] = { "tests/data/stores/suite/mamba2.db",
                                     "tests/data/stores/suite/mamba1.db",
                                     "tests/data/stores/suite/hybrid.db",
                                     "tests/data/stores/suite/mambavision.db",
                                     "tests/data/stores/suite/graphmamba.db",
                                     "tests/data/stores/suite/mamba2-chunked.db",
                                     "tests/data/stores/suite/mamba2-persistent.db",
                                     "tests/data/stores/suite/mamba2-bc_fused.db",
                                     "tests/data/stores/suite/mamba_ssm-mamba2.db" };

/* What a page is compared with. */
typedef struct rows {
    int      n, shown;
    char     label[MBA_RUNS_MAX][384];
    sqlite3 *db[MBA_RUNS_MAX];
    int      asked, faults;
    bool     quiet; /* faults are wanted */
} rows;

static void open_all(rows *all, char **page, const char *const *path, int n, int shown)
{
    mba_stores r;
    mba_buf    b = { 0 };
    assert_ok(mba_stores_open(&r, path, n));
    mba_stores_show(&r, shown);
    r.study = true;
    *all = (rows){ .n = n, .shown = r.shown };
    for (int i = 0; i < n; i++) {
        snprintf(all->label[i], sizeof all->label[i], "%s", r.run[i].label);
        all->db[i] = open_rows(path[i]);
    }
    if (page) assert_ok(mba_report_page(&b, &r));
    if (page) *page = b.s; // the caller frees it
    assert_ok(mba_stores_close(&r));
}

static void close_all(rows *all)
{
    for (int i = 0; i < all->n; i++) sqlite3_close(all->db[i]);
}

/* -1: none of the stores. */
static int store_labelled(const rows *all, const char *label)
{
    for (int i = 0; i < all->n; i++)
        if (!strcmp(all->label[i], label)) return i;
    return -1;
}

/* Pages print nine digits. */
static void compare(rows *all, const char *where, const char *what, const char *of, double got, double want)
{
    all->asked++;
    if (isnan(want) == isnan(got) && !(fabs(got - want) > 1e-6 * fabs(want) + 1e-12)) return;
    if (all->faults++ < SHOWN_FAULTS && !all->quiet)
        print_message("%s, %s of '%s': %.9g on the page, %.9g in the store\n", where, what, of, got, want);
}

/* ---- tables ---- */

static void check_row(rows *all, const sheet *t, const claim *c, int store, page_row *row)
{
    const int column = column_named(t, c->column), a = column_named(t, c->a), b = c->b ? column_named(t, c->b) : -1;
    const int work = column_named(t, "work"), bytes = column_named(t, "bytes_are"), kind = column_named(t, "class");
    if (column < 0 || a < 0 || row->n <= column || (work >= 0 && !strcmp(row->cell[work], "least"))) return;
    if (bytes >= 0 && strcmp(row->cell[bytes], "counted")) return;
    const bool    kernel = !strcmp(c->a, "kernel") && !strstr(row->cell[a], "mean");
    sqlite3      *db = all->db[store];
    const subject who = { .kernel = kernel ? kernel_labelled(db, row->cell[a]) : -1,
                          .a = row->cell[a],
                          .b = b < 0 ? "" : row->cell[b],
                          .c = kind < 0 ? "" : row->cell[kind] };
    const double  want = ask(db, c->sql, who);
    if (want == -1) return; // a row the claim does not speak of
    char where[512];
    snprintf(where, sizeof where, "%.300s, %s", all->label[store], c->figure);
    compare(all, where, c->column, row->cell[a], row->value[column], want);
}

/* A caption names its run, and then perhaps the workload; -1: no run. */
static int store_captioned(const rows *all, const char *caption)
{
    int best = -1;
    for (int i = 0; i < all->n; i++) {
        const size_t n = strlen(all->label[i]);
        if (!strncmp(caption, all->label[i], n) && (!caption[n] || caption[n] == ',')) best = i;
    }
    return best;
}

/* A table is of the run that its caption names, or its rows name their runs. */
static void check_table(rows *all, const sheet *t, const char *figure, const char *label)
{
    page_row  row;
    const int run = column_named(t, "run"), captioned = store_captioned(all, label);
    for (const char *at = t->rows; (at = next_row(at, &row)) != NULL;) {
        for (int i = 0; i < row.n; i++) unescape(row.cell[i]);
        const int store = run >= 0 && run < row.n ? store_labelled(all, row.cell[run]) : captioned;
        for (int c = 0; c < CLAIMS && store >= 0; c++)
            if (!strcmp(claims[c].figure, figure)) check_row(all, t, &claims[c], store, &row);
    }
}

static void check_tables(rows *all, const char *page)
{
    static const char open[] = "<table data-csv=\"", caption[] = "<caption>";
    for (const char *at = page; (at = strstr(at, open)) != NULL;) {
        sheet t;
        char  words[512], *comma;
        at += sizeof open - 1;
        snprintf(t.columns, sizeof t.columns, "%.*s", (int)strcspn(at, "\""), at);
        at = strstr(at, caption) + sizeof caption - 1;
        snprintf(words, sizeof words, "%.*s", (int)strcspn(at, "<"), at);
        unescape(words);
        t.rows = strstr(at, "<tbody>");
        if ((comma = strstr(words, ", ")) == NULL) continue;
        *comma = 0;
        check_table(all, &t, words, comma + 2);
    }
}

/* ---- records of kernels ---- */

static void check_record(rows *all, json_t *keys, json_t *record)
{
    const char *name = "";
    int         run = 0;
    size_t      k;
    json_t     *key;
    json_array_foreach(keys, k, key)
    {
        if (!strcmp(json_string_value(key), "name")) name = json_string_value(json_array_get(record, k));
        if (!strcmp(json_string_value(key), "run")) run = (int)json_integer_value(json_array_get(record, k));
    }
    const subject who = { .kernel = kernel_labelled(all->db[run], name) };
    json_array_foreach(keys, k, key) for (size_t f = 0; f < sizeof fields / sizeof *fields; f++)
    {
        if (strcmp(json_string_value(key), fields[f].key)) continue;
        const json_t *v = json_array_get(record, k);
        compare(all, all->label[run], fields[f].key, name, json_is_null(v) ? NAN : json_number_value(v),
                ask(all->db[run], fields[f].sql, who));
    }
}

static void check_records(rows *all, const char *page)
{
    const char *json = strstr(page, "id=\"data\">") + 10;
    json_t     *data = json_loadb(json, (size_t)(strstr(json, "</script>") - json), 0, NULL), *record;
    json_t     *kernels = json_object_get(data, "kernels");
    size_t      i;
    assert_non_null(kernels);
    json_array_foreach(json_object_get(kernels, "rows"), i, record)
        check_record(all, json_object_get(kernels, "keys"), record);
    json_decref(data);
}

/* ---- the first screen: what limits each run ---- */

/* The share of a step of the kernels whose busiest unit is :a, if it is at least 60 % busy; of none, "latency". The
 * step is that without profiler, or where it is shorter, what is on the timeline; the rest of it is the host's. */
static const char limited[] =
    "with u as (select ns, M('dram__throughput.avg.pct_of_peak_sustained_elapsed') as d, tensor_pct as t,"
    " max(ifnull(M('l1tex__data_pipe_lsu_wavefronts.avg.pct_of_peak_sustained_elapsed'), 0),"
    " ifnull(M('smsp__issue_active.avg.pct_of_peak_sustained_active'), 0), ifnull(fma_pct, 0), ifnull(alu_pct, 0),"
    " ifnull(xu_pct, 0)) as chip from k where c_ns is not null), l as (select ns, case when max(ifnull(d, 0),"
    " ifnull(t, 0), chip) < 60 then 'latency' when ifnull(d, 0) >= max(ifnull(t, 0), chip) then 'dram' when"
    " ifnull(t, 0) >= chip then 'tensor' else 'chip' end as of from u) select 100 * sum(ns) / max((select sum(ns) from"
    " k), (select ns from busy), ifnull(1e9 * ifnull(" PLAIN ", " STEP("attached") "), 0)) from l where of = :a";

static void check_limits(rows *all, const char *page)
{
    static const char bar[] = "<div class=\"lr\"><b>", part[] = "<i class=\"l-", value[] = "data-x=\"";
    for (const char *at = page; (at = strstr(at, bar)) != NULL;) {
        char label[400], unit[32];
        at += sizeof bar - 1;
        snprintf(label, sizeof label, "%.*s", (int)strcspn(at, "<"), at);
        unescape(label);
        const int   store = store_labelled(all, label);
        const char *end = strstr(at, "</div>");
        for (const char *i = at; store >= 0 && (i = strstr(i, part)) != NULL && i < end;) {
            i += sizeof part - 1;
            snprintf(unit, sizeof unit, "%.*s", (int)strcspn(i, "\""), i);
            if (!strcmp(unit, "host") || !strcmp(unit, "unknown")) continue;
            compare(all, label, "percent of the step limited by", unit,
                    strtod(strstr(i, value) + sizeof value - 1, NULL),
                    ask(all->db[store], limited, (subject){ .a = unit }));
        }
    }
}

static void check_page_of(rows *all, const char *page)
{
    all->asked = all->faults = 0;
    check_tables(all, page);
    check_records(all, page);
    check_limits(all, page);
}

/* ---- tests ---- */

static char *page;
static rows  of_suite;

static void a_page_of_the_suite_is_its_stores(void **state)
{
    (void)state;
    check_page_of(&of_suite, page);
    print_message("%d numbers of %d stores\n", of_suite.asked, of_suite.n);
    assert_int_equal(of_suite.faults, 0);
    assert_true(of_suite.asked > 12000);
}

/* Behind `before` and the next `mark` the first digit of a number becomes another one. */
static void damage(const char *before, const char *mark)
{
    char *at = strstr(page, before);
    at = at ? strstr(at + strlen(before), mark) : NULL;
    if (!at) fail_msg("the page has no %s behind %s", mark, before);
    at += strlen(mark);
    at += strcspn(at, "123456789");
    const char was = *at;
    *at = was == '9' ? '1' : (char)(was + 1);
    check_page_of(&of_suite, page);
    if (of_suite.faults != 1) fail_msg("behind %s: %d numbers differ, not one", before, of_suite.faults);
    *at = was;
}

static void a_wrong_number_is_found(void **state)
{
    (void)state;
    of_suite.quiet = true;
    damage("<caption>fig1, ", "<td data-v=\"");              // time of a class
    damage("<caption>stores, ", "<td data-v=\"");            // a step
    damage("<caption>energy, ", "<td data-v=\"");            // joules
    damage("<caption>fig4, Hybrid", "<td data-v=\"");        // bytes of a kernel
    damage("<div class=\"lr\"><b>MambaVision", "data-x=\""); // what limits it
    damage("\"rows\":[[", "],");                             // of a kernel's record
}

static void a_store_of_another_run_is_found(void **state)
{
    (void)state;
    sqlite3 *const own = of_suite.db[0];
    of_suite.db[0] = of_suite.db[5]; // of the same model
    check_tables(&of_suite, strstr(page, "id=\"s-peers\""));
    of_suite.db[0] = own;
    assert_true(of_suite.faults > 3);
}

static int begin(void **state)
{
    (void)state;
    open_all(&of_suite, &page, suite, sizeof suite / sizeof *suite, MAIN);
    return 0;
}

static int end(void **state)
{
    (void)state;
    close_all(&of_suite);
    free(page);
    return 0;
}

/* ---- a page that lies somewhere ---- */

static const char *const *given;
static int                givens;

static void the_page_given_is_its_stores(void **state)
{
    rows   all;
    char  *text;
    size_t bytes;
    (void)state;
    assert_ok(mba_file_read(&text, &bytes, given[0], 64 << 20));
    open_all(&all, NULL, given + 2, givens - 2, atoi(given[1]));
    check_page_of(&all, text);
    print_message("%s: %d numbers of %d stores, %d differ\n", given[0], all.asked, all.n, all.faults);
    close_all(&all);
    free(text);
    assert_true(all.asked > 100);
    assert_int_equal(all.faults, 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(a_page_of_the_suite_is_its_stores),
                                        cmocka_unit_test(a_wrong_number_is_found),
                                        cmocka_unit_test(a_store_of_another_run_is_found) };
    const struct CMUnitTest one[] = { cmocka_unit_test(the_page_given_is_its_stores) };
    given = (const char *const *)argv + 1;
    givens = argc - 1;
    return givens > 2 ? cmocka_run_group_tests(one, NULL, NULL) : cmocka_run_group_tests(tests, begin, end);
}
