/* figure_csv_test.c -- `report --figure NAME --csv` and `export --figures` as a spreadsheet meets them: one table, one
 * heading, as many fields in every line, whatever the number of stores. */
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
    says(run("report " STORES " --figure fig6 --csv | cut -d, -f1 | LC_ALL=C sort -u"), 0, "mamba-370m\nmamba2-headline\nrun\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(every_line_has_the_fields_of_its_heading),
                                        cmocka_unit_test(runs_stand_in_a_column) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
