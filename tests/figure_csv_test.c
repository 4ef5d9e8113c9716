// SPDX-License-Identifier: Apache-2.0
/* figure_csv_test.c -- `report --figure NAME --csv` and `export --figures` as a spreadsheet meets them: one table, one
 * heading, as many fields in every line, whatever the number of stores. */
#include "tests/formulas.h"
#include "tests/program.h"

#define STORES "tests/data/stores/h200_mamba1.db tests/data/stores/h200_mamba2.db"

/* Fields of the line that begins at `s`, which goes on behind it; commas and line ends inside quotes do not count. */
static int fields_of(const char **s)
{
    int  n = 1;
    bool quoted = false;
    for (; **s && (quoted || **s != '\n'); (*s)++) {
        if (**s == '"') quoted = !quoted;
        n += !quoted && **s == ',';
    }
    assert_false(quoted);
    if (**s) (*s)++;
    return n;
}

static void every_line_has_the_fields_of_its_heading(void **state)
{
    static const char *const figures[] = { "fig1", "fig2", "fig4", "fig6", "fig10", "table2", "intensity", "timeline" };
    (void)state;
    for (size_t i = 0; i < sizeof figures / sizeof *figures; i++) {
        assert_int_equal(run("report " STORES " --figure %s --csv", figures[i]), 0);
        const char *at = output;
        int         lines = 1;
        for (const int n = fields_of(&at); *at; lines++)
            if (fields_of(&at) != n) fail_msg("%s, line %d:\n%.400s", figures[i], lines + 1, output);
        assert_true(lines > 1);
    }
}

static void runs_stand_in_a_column(void **state)
{
    (void)state;
    says(run("report " STORES " --figure fig6 --csv | cut -d, -f1 | LC_ALL=C sort -u"), 0,
         "Mamba-1\nMamba-2 (fused)\nrun\n");
}

/* Guarded cells of a file that was exported. */
static int guarded_in(const char *name)
{
    char  *csv;
    size_t n;
    assert_ok(mba_file_read(&csv, &n, scratch(name), 1 << 26));
    const int guarded = cells_guarded(csv);
    free(csv);
    return guarded;
}

static void names_of_kernels_are_no_formulas(void **state)
{
    (void)state;
    formula_store(scratch("f.db"), "tests/data/stores/h200_mamba1.db");
    assert_int_equal(run("export '%s/f.db' --csv '%s/tables'", scratch_dir, scratch_dir), 0);
    assert_true(guarded_in("tables/kernel.csv") >= 57);
    assert_int_equal(run("export '%s/f.db' --no-simulation --figures '%s/figures'", scratch_dir, scratch_dir), 0);
    static const char *const figures[] = { "figures/fig2.csv", "figures/fig4.csv", "figures/bandwidth_time.csv",
                                           "figures/table2.csv" };
    for (size_t i = 0; i < sizeof figures / sizeof *figures; i++) assert_true(guarded_in(figures[i]) >= 4);
}

static int begin(void **state)
{
    (void)state;
    scratch_make();
    return 0;
}
static int end(void **state)
{
    (void)state;
    scratch_remove();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(every_line_has_the_fields_of_its_heading),
                                        cmocka_unit_test(runs_stand_in_a_column),
                                        cmocka_unit_test(names_of_kernels_are_no_formulas) };
    return cmocka_run_group_tests(tests, begin, end);
}
