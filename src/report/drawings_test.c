// SPDX-License-Identifier: Apache-2.0
/* drawings_test.c -- every figure and table of the report by itself: of stores that have its data, as SVG, as CSV, as
 * the golden files have it, and as the commands write it. */
#include <sys/wait.h>

#include "core/file.h"
#include "report/curves.h"
#include "report/figure.h"
#include "tests/page.h"
#include "tests/report_stores.h"

/* ---- of made-up stores ---- */

static void every_figure_shows_data_where_stores_have_it(void **state)
{
    (void)state;
    const char *file[] = { store_of("scan.db", "mamba1", "selective_scan", "scan_fwd", 128, true),
                           store_of("ssd.db", "mamba2", "ssd", "chunk_scan_fwd", 128, true),
                           store_of("long.db", "mamba2", "ssd", "chunk_scan_fwd", 512, true),
                           store_of("variant.db", "mamba2", "ssd", "ssd_fused", 128, true),
                           store_of("persistent.db", "mamba2", "ssd", "ssd_persistent", 128, true),
                           store_of("peer.db", "mamba2", NULL, "_chunk_scan_fwd_kernel", 128, false) };
    const char *path[6];
    for (int i = 0; i < 6; i++) path[i] = scratch(file[i]);
    mba_stores r;
    assert_ok(mba_stores_open(&r, path, 6));
    r.study = true;
    r.whatif = made_up_whatif();
    for (int i = 0; mba_figures[i]; i++) {
        const mba_figure *f = mba_figures[i];
        mba_grid          g;
        if (!f->has(&r, f->across ? -1 : 1)) fail_msg("%s has no data", f->name);
        mba_grid_begin(&g, f->columns);
        assert_ok(f->numbers(&g, &r, f->across ? -1 : 1));
        if (g.n == 0 || g.n % (size_t)g.ncolumns) fail_msg("%s has %zu cells in %d columns", f->name, g.n, g.ncolumns);
        mba_grid_end(&g);
    }
    assert_ok(mba_stores_close(&r));
    char *page = page_of(path, 5); // a peer has no plan of memory to show
    for (int i = 0; mba_figures[i]; i++) {
        char article[64];
        snprintf(article, sizeof article, "<article id=\"%s\"", mba_figures[i]->name);
        const char *at = strstr(page, article), *end = at ? strstr(at, "</article>") : NULL;
        assert_non_null(end);
        const char *frame = strstr(at, "no data yet");
        if (!strcmp(mba_figures[i]->name, "peers")) continue;
        if (frame && frame < end) fail_msg("%s says that it has no data", mba_figures[i]->name);
        if (mba_figures[i]->draw && !(strstr(at, "<svg") < end && strstr(at, "data-t=") < end))
            fail_msg("%s has no "
                     "marks",
                     mba_figures[i]->name);
    }
    check_page(page);
    free(page);
}

/* Stores beside the ones with sections are told apart by their files; other sizes stand in Fig. 11, not in Fig. 1. */
static void runs_beside_have_names_and_places_of_their_own(void **state)
{
    const char *path[] = { full_store("mamba2.db", "mamba2", "ssd", "chunk_scan_fwd", 128),
                           full_store("mamba2-512.db", "mamba2", "ssd", "chunk_scan_fwd", 512),
                           full_store("other.db", "mamba2", "ssd", "ssd_fused", 128) };
    mba_stores  r;
    mba_buf     fig1 = { 0 }, fig11 = { 0 };
    (void)state;
    assert_ok(mba_stores_open(&r, path, 2)); // one column of the matrix: none has its title
    assert_string_equal(mba_run_label(&r, 0), "mamba2 (mamba2)");
    assert_string_equal(mba_run_label(&r, 1), "mamba2-512");
    mba_stores_show(&r, 1);
    assert_string_equal(mba_run_label(&r, 0), "mamba2");
    assert_string_equal(mba_run_label(&r, 1), "mamba2-512");
    assert_ok(mba_stores_close(&r));
    assert_ok(mba_stores_open(&r, path, 3));
    mba_stores_show(&r, 1);
    assert_string_equal(mba_run_label(&r, 0), "mamba2"); // the larger one stands for its column
    assert_string_equal(mba_run_label(&r, 1), "Mamba-2 (multi-kernel)");
    assert_string_equal(mba_run_label(&r, 2), "Mamba-2 (fused)");
    assert_ok(mba_report_svg(&fig1, &r, "fig1", NULL));
    assert_ok(mba_report_svg(&fig11, &r, "fig11", NULL));
    assert_non_null(strstr(fig1.s, "Mamba-2 (fused)"));
    assert_null(strstr(fig1.s, "Mamba-2 (multi-kernel)"));
    int marks = 0;
    for (const char *at = fig11.s; (at = strstr(at, "<circle")) != NULL; at++) marks++;
    assert_int_equal(marks, 2); // 128 and 512 units a step
    mba_buf_free(&fig1);
    mba_buf_free(&fig11);
    assert_ok(mba_stores_close(&r));
}

/* Of a part its own unchanged time over its own changed one: 36 / 32 ms of the step, 8 / 6 of its SSM operators. */
static void doubled_numbers_are_of_their_part(void **state)
{
    const char *path[] = { full_store("s1.db", "mamba1", "selective_scan", "scan_fwd", 128) };
    mba_stores  r;
    mba_buf     csv = { 0 };
    (void)state;
    assert_ok(mba_stores_open(&r, path, 1));
    r.whatif = made_up_whatif();
    assert_ok(mba_report_csv(&csv, &r, "sensitivity"));
    assert_non_null(strstr(csv.s, "mamba1,DRAM bandwidth,2,6,1.33333333,32,1.125"));
    mba_buf_free(&csv);
    assert_ok(mba_stores_close(&r));
}

/* ---- alone ---- */

static void a_figure_alone_is_one_svg_without_variables(void **state)
{
    (void)state;
    const char *path[] = { REAL_STORE };
    mba_stores  r;
    assert_ok(mba_stores_open(&r, path, 1));
    for (int i = 0; mba_figures[i]; i++) {
        const mba_figure *f = mba_figures[i];
        mba_buf           svg = { 0 }, csv = { 0 };
        const bool        has = f->has(&r, f->across ? -1 : 0);
        const mba_status  drawn = mba_report_svg(&svg, &r, f->name, NULL), told = mba_report_csv(&csv, &r, f->name);
        assert_int_equal(drawn, has && f->draw ? MBA_OK : MBA_E_ARG);
        assert_int_equal(told, has ? MBA_OK : MBA_E_ARG);
        if (drawn == MBA_OK) {
            check_tags(svg.s);
            assert_true(!strncmp(svg.s, "<svg", 4) && !strstr(svg.s, "var(") && !strstr(svg.s, "data-t"));
        }
        mba_buf_free(&svg);
        mba_buf_free(&csv);
    }
    static const char *const former[] = { "skyline",       "bandwidth_time", "floors",
                                          "roofline_time", "doubled",        "sensitivity" };
    for (int i = 0; i < 6; i += 2) assert_string_equal(mba_report_figure_now(former[i]), former[i + 1]);
    assert_string_equal(mba_report_figure_now("fig1"), "fig1");
    mba_buf b = { 0 };
    assert_fails(mba_report_svg(&b, &r, "fig99", NULL), MBA_E_ARG, "no figure");
    assert_fails(mba_report_svg(&b, &r, "fig1", "upside down"), MBA_E_ARG, "'by phase'");
    assert_ok(mba_stores_close(&r));
}

/* ---- golden ---- */

/* Words must be equal, numbers near: another processor may round a coordinate to the next tenth. */
static void same_drawing(const char *name, const char *got, const char *want)
{
    while (*got || *want) {
        char        *a, *b;
        const double x = strtod(got, &a), y = strtod(want, &b);
        const bool   numbers = (isdigit((unsigned char)*got) || *got == '-') && a != got && b != want;
        if (numbers && fabs(x - y) <= 0.1001 + 1e-3 * fabs(y)) {
            got = a;
            want = b;
        } else if (numbers || *got != *want) {
            fail_msg("%s is not the golden one: '%.40s', should be '%.40s'", name, got, want);
        } else {
            got++;
            want++;
        }
    }
}

/* Every figure and table that committed stores of an H200 have data for: our Mamba-2 first, then what it is compared
 * with. `MBA_GOLDEN=write build/tests/drawings_test` writes them again; look at the difference before it is
 * committed. */
static const char *const golden_stores[] = {
    "tests/data/stores/h200_mamba2.db",     "tests/data/stores/h200_mamba1.db",
    "tests/data/stores/h200_chunked.db",    "tests/data/stores/h200_chunked_small.db",
    "tests/data/stores/h200_persistent.db", "tests/data/stores/h200_peer.db"
};

static void check_golden(const char *name, const char *ending, mba_buf *made)
{
    char        file[128], *want;
    size_t      n;
    const char *how = getenv("MBA_GOLDEN");
    snprintf(file, sizeof file, "tests/data/figures/%s.%s", name, ending);
    if (how && !strcmp(how, "write")) {
        mba_writer *w = NULL;
        assert_ok(mba_writer_create(&w, file));
        assert_ok(mba_writer_put(w, made->s, made->n));
        assert_ok(mba_writer_commit(w));
        mba_writer_destroy(w);
    }
    assert_ok(mba_file_read(&want, &n, file, 1 << 20));
    same_drawing(file, made->s, want);
    free(want);
    mba_buf_free(made);
}

static void figures_of_the_committed_stores_are_golden(void **state)
{
    mba_stores r;
    int        drawings = 0, tables = 0;
    (void)state;
    assert_ok(mba_stores_open(&r, golden_stores, sizeof golden_stores / sizeof *golden_stores));
    mba_stores_show(&r, 1);
    r.study = true;
    for (int i = 0; mba_figures[i]; i++) {
        const mba_figure *f = mba_figures[i];
        mba_buf           made = { 0 };
        if (!f->has(&r, f->across ? -1 : 0)) continue; // needs operands, or the simulator
        if (f->draw) assert_ok(mba_report_svg(&made, &r, f->name, NULL));
        else assert_ok(mba_report_csv(&made, &r, f->name));
        check_golden(f->name, f->draw ? "svg" : "csv", &made);
        drawings += f->draw != NULL, tables += !f->draw;
    }
    assert_int_equal(drawings, 21);
    assert_int_equal(tables, 5);
    assert_ok(mba_stores_close(&r));
}

/* ---- the commands ---- */

/* The sanitizer's search for leaks takes seconds of a process; this one, which calls the same functions, has it too. */
#define NO_LEAKS "ASAN_OPTIONS=$ASAN_OPTIONS:detect_leaks=0 "

static void the_command_writes_the_page_and_tells_what_is_wrong(void **state)
{
    const char *program = getenv("MBA_PROGRAM");
    char        command[2048], *page;
    size_t      bytes;
    (void)state;
    if (!program) skip(); // ctest names it
    const struct {
        const char *before, *after;
        int         exit;
    } call[] = { { "--out ", "/page.html", 0 },
                 { "--figure fig2 --svg > ", "/fig2.svg", 0 },
                 { "--figure fig4 --csv > ", "/fig4.csv", 0 },
                 { "--out ", "/nowhere/page.html", 1 },
                 { "--figure fig5 > ", "/fig5.svg", 2 },
                 { "--figure fig1 --view 'by phase' > ", "/phase.svg", 0 },
                 { "--figure fig1 --view 'upside down' > ", "/view.svg", 2 },
                 { "--view percent > ", "/none.svg", 2 } };
    for (size_t i = 0; i < sizeof call / sizeof *call; i++) {
        snprintf(command, sizeof command, "%s'%s' report %s %s %s%s%s 2>/dev/null", i ? NO_LEAKS : "", program,
                 i || getenv("MBA_TEST_SANITIZED") ? "--no-simulation" : "--study", REAL_STORE, call[i].before,
                 scratch_dir, call[i].after);
        const int status = system(command);
        if (WEXITSTATUS(status) != call[i].exit)
            fail_msg("exit %d, wanted %d: %s", WEXITSTATUS(status), call[i].exit, command);
    }
    assert_ok(mba_file_read(&page, &bytes, scratch("page.html"), PAGE_BYTES_MAX));
    check_tags(page);
    free(page);
    assert_int_equal(scratch_entries("nowhere"), -1);
}

/* One file per figure; those that compare stores come with several. */
static void export_has_the_numbers_of_every_figure(void **state)
{
    static const char *const one[] = {
        "fig1", "fig2", "table2", "fig4", "fig5", "fig6", "fig7", "fig8", "study", NULL
    };
    static const char *const more[] = { "fig10", "fig11", "fig12", "stores", "peers", NULL };
    const char              *program = getenv("MBA_PROGRAM");
    char                     command[2048], *csv;
    size_t                   bytes, n = 0;
    (void)state;
    if (!program) skip();
    const size_t all = sizeof golden_stores / sizeof *golden_stores;
    for (int several = 0; several < 2; several++) {
        n = (size_t)snprintf(command, sizeof command, "%s'%s' export --no-simulation --figures '%s'",
                             several ? "" : NO_LEAKS, program, scratch(several ? "several" : "one"));
        for (size_t i = 0; i < (several ? all : 1); i++)
            n += (size_t)snprintf(command + n, sizeof command - n, " %s", golden_stores[i]);
        snprintf(command + n, sizeof command - n, " 2>/dev/null");
        assert_int_equal(system(command), 0);
        for (const char *const *f = several ? more : one; *f; f++) {
            char name[64];
            snprintf(name, sizeof name, "%s/%s.csv", several ? "several" : "one", *f);
            assert_ok(mba_file_read(&csv, &bytes, scratch(name), 1 << 20));
            assert_true(bytes > 40);
            free(csv);
        }
    }
}

/* ---- curves ---- */

/* A damaged log of a training run may have unit counts that fall; the columns of the drawing stay within their
 * array. */
static void a_curve_whose_x_falls_stays_in_its_columns(void **state)
{
    (void)state;
    enum { POINTS = 4000 };
    static double x[POINTS], y[POINTS];
    mba_canvas    c = { 0 };
    for (int i = 0; i < POINTS; i++) x[i] = i % 2 ? i : 1e6 - i, y[i] = i % 7;
    const mba_curve curve[] = { { "run", "each step", 0, MBA_FAINT, x, y, POINTS },
                                { "run", "smoothed", 0, MBA_STRONG, x, y, POINTS } };
    mba_curves_draw(&c, MBA_WIDE,
                    &(mba_curves){ .label = "loss", .x_label = "tokens", .y_label = "loss", .curve = curve, .n = 2 });
    assert_false(c.out.failed);
    assert_non_null(strstr(c.out.s, "</svg>"));
    mba_canvas_free(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_figure_shows_data_where_stores_have_it),
        cmocka_unit_test(runs_beside_have_names_and_places_of_their_own),
        cmocka_unit_test(doubled_numbers_are_of_their_part),
        cmocka_unit_test(a_figure_alone_is_one_svg_without_variables),
        cmocka_unit_test(figures_of_the_committed_stores_are_golden),
        cmocka_unit_test(the_command_writes_the_page_and_tells_what_is_wrong),
        cmocka_unit_test(export_has_the_numbers_of_every_figure),
        cmocka_unit_test(a_curve_whose_x_falls_stays_in_its_columns),
    };
    scratch_make();
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    scratch_remove();
    return failed;
}
