// SPDX-License-Identifier: Apache-2.0
/* walk_test.c -- the page and the database, number by number: every table of every figure of committed H200 stores
 * against SQL over the rows of the store. Nothing of the analysis is used on the side of the database.
 *
 * A table of a figure has a row per kernel, per class, per run ..; a claim below names a figure, a column and the SQL
 * that gives its value, with :kernel or :a, :b, :c bound to what the row says. Every row of the page is asked; a value
 * that SQL does not have must be a dash on the page, and the other way round. */
#include <jansson.h>

#include "report/report.h"
#include "tests/test.h"
#include "tests/walk_claims.h"
#include "tests/walk_page.h"
#include "tests/walk_rows.h"

static const char *const stores[] = { "h200_mamba2.db", "h200_mamba1.db",     "h200_hybrid.db",
                                      "h200_vision.db", "h200_graphmamba.db", "h200_chunked.db",
                                      "h200_peer.db",   "h200_persistent.db", NULL };
enum { STORES = sizeof stores / sizeof *stores - 1 };

/* ---- the page ---- */

static char *page_of(const char *const *path, int n)
{
    mba_stores r;
    mba_buf    b = { 0 };
    assert_ok(mba_stores_open(&r, path, n));
    r.study = true;
    assert_ok(mba_report_page(&b, &r));
    assert_ok(mba_stores_close(&r));
    return b.s; // the test frees it
}

/* ---- one against the other ---- */

static subject subject_of(sqlite3 *db, const claim *c, const sheet *t, page_row *row)
{
    const int a = column_named(t, c->a), b = c->b ? column_named(t, c->b) : -1, kind = column_named(t, "class");
    if (a < 0 || (c->b && b < 0)) fail_msg("%s has no column %s or %s", c->figure, c->a, c->b ? c->b : "-");
    for (int i = 0; i < row->n; i++) unescape(row->cell[i]);
    const bool kernel = !strcmp(c->a, "kernel") && !strstr(row->cell[a], "mean");
    return (subject){ .kernel = kernel ? kernel_labelled(db, row->cell[a]) : -1,
                      .a = row->cell[a],
                      .b = b < 0 ? "" : row->cell[b],
                      .c = kind < 0 ? "" : row->cell[kind] };
}

/* How many rows were asked. */
static int check_claim(sqlite3 *db, const char *store, const char *page, const claim *c)
{
    sheet    t;
    page_row row;
    int      rows = 0;
    if (!find_table(&t, page, c->figure)) return 0;
    const int column = column_named(&t, c->column), work = column_named(&t, "work");
    const int bytes = column_named(&t, "bytes_are");
    if (column < 0) fail_msg("%s has no column %s", c->figure, c->column);
    for (const char *at = t.rows; (at = next_row(at, &row)) != NULL && row.n > column;) {
        const subject who = subject_of(db, c, &t, &row);
        if (work >= 0 && !strcmp(row.cell[work], "least")) continue; // of the graph, not of counters
        if (bytes >= 0 && strcmp(row.cell[bytes], "counted")) continue;
        const double want = ask(db, c->sql, who), got = row.value[column];
        if (want == -1) continue; // a row the claim does not speak of
        if (isnan(want) != isnan(got) || fabs(got - want) > 1e-6 * fabs(want) + 1e-12)
            fail_msg("%s, %s of '%s' '%s': %.9g on the page, %.9g in the database", store, c->column, row.cell[0],
                     row.n > 1 ? row.cell[1] : "", got, want);
        rows++;
    }
    return rows;
}

static char    *pages[STORES]; /* of one store each */
static sqlite3 *rows_of[STORES];

static int begin(void **state)
{
    (void)state;
    for (int i = 0; i < STORES; i++) {
        char        path[128];
        const char *one[] = { path };
        snprintf(path, sizeof path, "tests/data/stores/%s", stores[i]);
        pages[i] = page_of(one, 1);
        rows_of[i] = open_rows(path);
    }
    return 0;
}

static int end(void **state)
{
    (void)state;
    for (int i = 0; i < STORES; i++) free(pages[i]), sqlite3_close(rows_of[i]);
    return 0;
}

/* All rows of all tables with the page of one store; a figure that compares stores is walked below. */
static void every_table_of_every_figure_is_the_database(void **state)
{
    int asked[CLAIMS] = { 0 }, all = 0;
    (void)state;
    for (int i = 0; i < STORES; i++)
        for (int c = 0; c < CLAIMS; c++) asked[c] += check_claim(rows_of[i], stores[i], pages[i], &claims[c]);
    for (int c = 0; c < CLAIMS; c++) {
        bool compares = false;
        for (const char *const *name =
                 (const char *const[]){ "stores", "fig12", "persistent", "fusion", "energy", NULL };
             *name; name++)
            compares |= !strcmp(claims[c].figure, *name);
        if (!asked[c] && !compares) fail_msg("no page has a number of %s, %s", claims[c].figure, claims[c].column);
        all += asked[c];
    }
    print_message("%d numbers of %d columns\n", all, CLAIMS);
    assert_true(all > 5000);
}

static void same(const char *what, const char *where, double got, double want)
{
    if (isnan(want) != isnan(got) || fabs(got - want) > 1e-6 * fabs(want) + 1e-12)
        fail_msg("%s of %s: %.9g on the page, %.9g in the database", what, where, got, want);
}

#define STALLED "'smsp__average_warps_issue_stalled_*_per_issue_active.ratio'"

/* The large numbers of the cards above everything else; where a card has none ("–"), neither has the database. */
static void findings_are_the_database(void **state)
{
    static const struct {
        const char *card, *sql;
    } card[] = {
        { "<b>F1</b>", "select 100 * sum(ns) / (select ns from busy) from k where " PRODUCT },
        { "<b>F2</b>", "select 100 * sum(ns) / (select ns from busy) from k where kind = 'ssm'" },
        { "<b>F3</b>", "select " PART("by_memory") " from floors where floor is not null" },
        { "<b>F4</b>", "select 1e11 * sum(n * dram / c_ns) / sum(n) / (select sheet from ceil) from k where kind ="
                       " 'ssm'" },
        { "<h3>Why?</h3>",
          "select 100 * max(part) from (select metric, sum(ns * value / warps) / (select sum(ns) from k"
          " where kind = 'ssm' and id in (select kernel from c where metric glob " STALLED ")) as part from k join"
          " (select kernel, metric, value, sum(value) over (partition by kernel) as warps from c where metric "
          "glob " STALLED
          " and metric not glob '*selected*') w on w.kernel = k.id where kind = 'ssm' group by metric)" },
    };
    int seen = 0;
    (void)state;
    for (int i = 0; i < STORES; i++)
        for (size_t c = 0; c < sizeof card / sizeof *card; c++) {
            const char  *at = strstr(pages[i], card[c].card), *big = at ? strstr(at, "class=\"big\"") : NULL;
            const char  *value = big ? strstr(big, "data-v=\"") : NULL;
            const double want = ask(rows_of[i], card[c].sql, (subject){ 0 });
            if (!value || value - big > 40 || isnan(want)) continue;
            same(card[c].card, stores[i], strtod(value + 8, NULL), want);
            seen++;
        }
    print_message("%d large numbers of cards\n", seen);
    assert_true(seen > 25);
}

/* ---- several stores on one page ---- */

static char label[STORES][384];

static char *page_of_all(void)
{
    static char paths[STORES][128];
    const char *path[STORES];
    mba_stores  r;
    mba_buf     b = { 0 };
    for (int i = 0; i < STORES; i++) {
        snprintf(paths[i], sizeof paths[i], "tests/data/stores/%s", stores[i]);
        path[i] = paths[i];
    }
    assert_ok(mba_stores_open(&r, path, STORES));
    for (int i = 0; i < STORES; i++) snprintf(label[i], sizeof label[i], "%s", r.run[i].label);
    assert_ok(mba_report_page(&b, &r));
    assert_ok(mba_stores_close(&r));
    return b.s;
}

static int run_labelled(const char *text)
{
    for (int i = 0; i < STORES; i++)
        if (!strcmp(label[i], text)) return i;
    fail_msg("no store is called '%s'", text);
    return 0;
}

/* Fig. 10: a column of Mamba-1, one of Mamba-2. */
static int check_pair(const char *page, sqlite3 *scan, sqlite3 *matrix)
{
    static const char *const sql[] = { "select 1e6 * " PLAIN " / (" SHEET("run.units") ")",
                                       "select sum(ns) / 1e3 / (" SHEET("run.units") ") from k where kind = 'ssm'",
                                       "select 100 * sum(ns) / (select ns from busy) from k where kind = 'ssm'",
                                       "select sum(n * (least_t + least_v)) / 1e6 / (" SHEET(
                                           "run.units") ") from k where kind = 'ssm'",
                                       SSM_FLOOR,
                                       "select sum(n * dram) / sum(n * c_ns) from k where kind = 'ssm'" };
    sheet                    t;
    page_row                 row;
    int                      n = 0;
    assert_true(find_table(&t, page, "fig10"));
    for (const char *at = t.rows; (at = next_row(at, &row)) != NULL && row.n == 4; n++) {
        assert_true(n < 6);
        same(row.cell[0], "Mamba-1", row.value[2], ask(scan, sql[n], (subject){ 0 }));
        same(row.cell[0], "Mamba-2", row.value[3], ask(matrix, sql[n], (subject){ 0 }));
    }
    return n;
}

/* The questions that stores answer: the sentence of the page has the ratios of what the two databases have. */
static void check_answers(const char *page, sqlite3 *chunked, sqlite3 *persistent, sqlite3 *fused)
{
    static const char life[] = "select sum(ns * block_s) / sum(ns) from k where kind = 'ssm'",
                      rate[] = "select sum(n * dram) / sum(n * c_ns) from k where kind = 'ssm'",
                      bytes[] = "select sum(n * dram) from k where kind = 'ssm'",
                      counted[] = "select sum(n * c_ns) from k where kind = 'ssm'",
                      time[] = "select sum(ns) from k where kind = 'ssm'", step[] = "select " PLAIN,
                      phase[] = "select sum(e.duration_ns) / 1.0 / (select n from steps) from e join k on e.kernel ="
                                " k.id where k.kind = 'ssm' and e.phase = :a";
    const subject any = { 0 }, forward = { .a = "forward" }, backward = { .a = "backward" };
    char          want[256];
    snprintf(
        want, sizeof want,
        "live %s × as long, and SSM kernels move %.2f × the bytes in %.2f × the time, at %.2f × the bandwidth (all "
        "by counters; in the step %.2f × the time)",
        mba_two_digits(ask(persistent, life, any) / ask(chunked, life, any)).s,
        ask(persistent, bytes, any) / ask(chunked, bytes, any),
        ask(persistent, counted, any) / ask(chunked, counted, any),
        ask(persistent, rate, any) / ask(chunked, rate, any), ask(persistent, time, any) / ask(chunked, time, any));
    if (!strstr(page, want)) fail_msg("the page does not say: %s", want);
    snprintf(want, sizeof want, "fused: %s × as fast forward, %s × backward, the step %s ×",
             mba_two_digits(ask(chunked, phase, forward) / ask(fused, phase, forward)).s,
             mba_two_digits(ask(chunked, phase, backward) / ask(fused, phase, backward)).s,
             mba_two_digits(ask(chunked, step, any) / ask(fused, step, any)).s);
    if (!strstr(page, want)) fail_msg("the page does not say: %s", want);
}

/* Peers: the classes of our Mamba-2 beside those of the program that is not ours. */
static int check_peers(const char *page, sqlite3 *ours, sqlite3 *theirs)
{
    static const char *const kinds[][2] = { { "GEMM", "gemm" },
                                            { "SSM", "ssm" },
                                            { "convolution", "conv" },
                                            { "normalisation", "norm" },
                                            { "element-wise", "element-wise" },
                                            { "reduction", "reduction" },
                                            { "message passing", "message passing" },
                                            { "optimizer", "optimizer" } };
    // the head's products are with GEMM on both sides
    static const char ms[] = "select sum(ns) / 1e6 from k where case when :a = 'gemm' then " PRODUCT
                             " else kind = :a end",
                      launches[] = "select ifnull(sum(n), 0) from k where case when :a = 'gemm' then " PRODUCT
                                   " else kind = :a end";
    sheet    t;
    page_row row;
    int      n = 0;
    assert_true(find_table(&t, page, "peers"));
    for (const char *at = t.rows; (at = next_row(at, &row)) != NULL && row.n == 7;)
        for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
            if (strcmp(row.cell[0], kinds[i][0])) continue;
            const subject who = { .a = kinds[i][1] };
            same("ours_ms", row.cell[0], row.value[2], ask(ours, ms, who));
            same("peer_ms", row.cell[0], row.value[3], ask(theirs, ms, who));
            same("ours_launches", row.cell[0], row.value[5], ask(ours, launches, who));
            same("peer_launches", row.cell[0], row.value[6], ask(theirs, launches, who));
            n++;
        }
    return n;
}

static void figures_that_compare_stores_are_the_databases(void **state)
{
    char *page = page_of_all();
    int   rows = 0;
    (void)state;
    for (int c = 0; c < CLAIMS; c++) {
        sheet    t;
        page_row row;
        if (strcmp(claims[c].a, "run") || !find_table(&t, page, claims[c].figure)) continue;
        const int column = column_named(&t, claims[c].column);
        for (const char *at = t.rows; (at = next_row(at, &row)) != NULL && row.n > column; rows++) {
            unescape(row.cell[0]);
            const double want = ask(rows_of[run_labelled(row.cell[0])], claims[c].sql, (subject){ 0 });
            same(claims[c].column, row.cell[0], row.value[column], want);
        }
    }
    assert_true(rows > 100);
    assert_int_equal(check_pair(page, rows_of[1], rows_of[0]), 6);
    assert_true(check_peers(page, rows_of[0], rows_of[6]) >= 7);
    check_answers(page, rows_of[5], rows_of[7], rows_of[0]);
    free(page);
}

/* ---- records of kernels, which make the cards of the explorer and the JSON that is saved ---- */

static void records_of_kernels_are_the_database(void **state)
{
    int asked = 0;
    (void)state;
    for (int i = 0; i < STORES; i++) {
        sqlite3    *db = rows_of[i];
        const char *json = strstr(pages[i], "id=\"data\">") + 10;
        json_t     *data = json_loadb(json, (size_t)(strstr(json, "</script>") - json), 0, NULL);
        json_t     *kernels = json_object_get(data, "kernels"), *row, *key;
        json_t     *keys = json_object_get(kernels, "keys"), *rows = json_object_get(kernels, "rows");
        size_t      r, k, name = 0;
        json_array_foreach(keys, k, key) if (!strcmp(json_string_value(key), "name")) name = k;
        json_array_foreach(rows, r, row)
        {
            const char   *called = json_string_value(json_array_get(row, name));
            const int64_t kernel = kernel_labelled(db, called);
            json_array_foreach(keys, k, key) for (size_t f = 0; f < sizeof fields / sizeof *fields; f++)
            {
                if (strcmp(json_string_value(key), fields[f].key)) continue;
                const json_t *v = json_array_get(row, k);
                same(fields[f].key, called, json_is_null(v) ? NAN : json_number_value(v),
                     ask(db, fields[f].sql, (subject){ .kernel = kernel }));
                asked++;
            }
        }
        json_decref(data);
    }
    print_message("%d numbers of records\n", asked);
    assert_true(asked > 5000);
}

/* ---- tooltips: a label, words, a number as people read it ---- */

static const struct {
    const char *words, *sql;
} tips[] = {
    { " · L1|", K("M('l1tex__t_sector_hit_rate.pct')") },
    { " · L2|", K("100 * M('lts__t_sectors_lookup_hit.sum') / M('lts__t_sectors.sum')") },
    { "|mean lifetime ", K("1e6 * block_s") },
    { "|occupancy ", K("M('sm__warps_active.avg.pct_of_peak_sustained_active')") },
    { "|possible occupancy ", ROW("occupancy_limit") },
    { " · measured|", "select " MEDIAN_NS " / 1e3" },
    { "|memory floor ", F("by_memory / 1e3") },
    { "|tensor floor ", F("by_tensor / 1e3") },
    { "|vector floor ", F("by_vector / 1e3") },
    { "|special-function floor ", F("by_special / 1e3") },
    { " · rule (a), arithmetic|", K("tensor / (fp32 + half)") },
    { " · rule (b), issue slots × 2|", K("tensor / (2 * " SLOTS ")") },
    { " · tensor : special functions|", K("tensor / special") },
    { "|operands ", K("least_b / 1e6") },
    { " · loads|", K("M('l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum')"
                     " / M('l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum')") },
    { " · stores|", K("M('l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum')"
                      " / M('l1tex__t_requests_pipe_lsu_mem_global_op_st.sum')") },
};
enum { TIPS = sizeof tips / sizeof *tips };

/* 1 where the tip is of this kind, and right. A rate of the roofline stands behind " · L1|" too: it is in FLOP/s. */
static int check_tip(sqlite3 *db, const char *store, const char *tip, int kind)
{
    const char *at = strstr(tip, tips[kind].words);
    char        called[256];
    if (!at || strstr(tip, "FLOP/byte") || strstr(tip, "records|")) return 0;
    snprintf(called, sizeof called, "%.*s", (int)(at - tip), tip);
    const subject  who = { .kernel = kernel_labelled(db, called) };
    const mba_word want = mba_num(ask(db, tips[kind].sql, who));
    const char    *said = at + strlen(tips[kind].words);
    if (strncmp(said, want.s, strlen(want.s)) || said[strlen(want.s)] != ' ')
        fail_msg("%s: '%s', the database has %s", store, tip, want.s);
    return 1;
}

static void tooltips_say_what_the_database_has(void **state)
{
    int seen[TIPS] = { 0 }, all = 0;
    (void)state;
    for (int i = 0; i < STORES; i++) {
        const char *json = strstr(pages[i], "id=\"data\">") + 10;
        json_t     *data = json_loadb(json, (size_t)(strstr(json, "</script>") - json), 0, NULL), *tip;
        size_t      t;
        json_array_foreach(json_object_get(data, "tips"), t, tip) for (int k = 0; k < TIPS; k++)
            seen[k] += check_tip(rows_of[i], stores[i], json_string_value(tip), k);
        json_decref(data);
    }
    for (int k = 0; k < TIPS; k++) {
        if (!seen[k]) fail_msg("no tooltip has '%s'", tips[k].words);
        all += seen[k];
    }
    print_message("%d numbers of tooltips\n", all);
}

/* ---- operands: the one store that has them is of the first version ---- */

static void the_memory_plan_is_the_operands(void **state)
{
    static const claim of[] = {
        { "memory", "role", NULL, "mb",
          "select ifnull((select sum(b) / 1e6 from (select max(bytes) as b, min(role) as"
          " role from"
          " s.operand group by storage) where role = :a), -1)" },
        { "memory", "role", NULL, "storages",
          "select ifnull((select count(distinct storage) from s.operand where role"
          " = :a"
          " having count(*) > 0), -1)" },
    };
    const char *path[] = { "tests/data/stores/v1.db" };
    char       *page = page_of(path, 1);
    sqlite3    *db = attach_rows(path[0]);
    (void)state;
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) assert_true(check_claim(db, path[0], page, &of[i]) >= 3);
    sqlite3_close(db);
    free(page);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(every_table_of_every_figure_is_the_database),
                                        cmocka_unit_test(findings_are_the_database),
                                        cmocka_unit_test(figures_that_compare_stores_are_the_databases),
                                        cmocka_unit_test(records_of_kernels_are_the_database),
                                        cmocka_unit_test(tooltips_say_what_the_database_has),
                                        cmocka_unit_test(the_memory_plan_is_the_operands) };
    return cmocka_run_group_tests(tests, begin, end);
}
