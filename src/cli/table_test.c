// SPDX-License-Identifier: Apache-2.0
/* table_test.c -- tables of names from outside: any bytes, any length, in all three forms. */
#include "cli/table.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/starve.h"
#include "tests/test.h"

static const mba_column columns[] = {
    { "name", "name", NULL }, { "ms", "step, ms", "%.1f" }, { "of", "of", NULL }, { 0 }
};

/* A table of two rows, the first with this name; the text is the caller's to free. */
static char *printed(const char *name, size_t most, mba_table_form form)
{
    mba_table *t;
    char      *text = NULL;
    size_t     n = 0;
    FILE      *f = open_memstream(&text, &n);
    assert_ok(mba_table_create(&t, columns));
    mba_table_cut(t, name, most);
    mba_table_number(t, 12.5);
    mba_table_text(t, "%s", name);
    mba_table_text(t, "plain");
    mba_table_number(t, NAN);
    mba_table_text(t, "end");
    assert_ok(mba_table_print(t, f, form));
    fclose(f);
    mba_table_destroy(t);
    return text;
}

static void json_has_every_key_of_any_bytes(void **state)
{
    static const char *const names[][2] = { { "a\xff\xfe z", "a\xef\xbf\xbd\xef\xbf\xbd z" },
                                            { "\xc3", "\xef\xbf\xbd" },
                                            { "\xc3\xa4\n\x1b[2J", "\xc3\xa4\n\x1b[2J" },
                                            { "", "" } };
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char   *text = printed(names[i][0], SIZE_MAX, MBA_TABLE_JSON);
        json_t *all = json_loads(text, 0, NULL);
        assert_int_equal(json_array_size(all), 2);
        assert_string_equal(json_string_value(json_object_get(json_array_get(all, 0), "name")), names[i][1]);
        assert_string_equal(json_string_value(json_object_get(json_array_get(all, 0), "of")), names[i][1]);
        json_decref(all);
        free(text);
    }
}

/* Whatever a name contains, text has a heading and two rows, and no byte that controls a terminal. */
static void text_has_a_line_per_row(void **state)
{
    char *text = printed("tab\there\r\nline\x1b[2J\x7f\xc2\x9b", SIZE_MAX, MBA_TABLE_TEXT);
    int   lines = 0;
    (void)state;
    for (const char *s = text; *s; s++) {
        lines += *s == '\n';
        assert_true(*s == '\n' || ((unsigned char)*s >= 0x20 && *s != 0x7f && (unsigned char)*s != 0x9b));
    }
    assert_int_equal(lines, 3);
    free(text);
}

static int column_of(const char *line, const char *word)
{
    int n = 0;
    for (const char *at = strstr(line, word); line < at; line++) n += ((unsigned char)*line & 0xc0) != 0x80;
    return n;
}

/* Columns are aligned by characters, not by bytes; a cut name ends with a whole character. */
static void columns_are_counted_in_letters(void **state)
{
    char *text = printed("\xc3\xa4\xc3\xb6\xc3\xbc", 5, MBA_TABLE_TEXT);
    char *second = strchr(text, '\n') + 1, *third = strchr(second, '\n') + 1;
    (void)state;
    assert_memory_equal(second, "\xc3\xa4\xc3\xb6 ", 5);
    assert_int_equal(column_of(second, "12.5") + 3, column_of(third, "-"));
    free(text);
}

static void csv_quotes_what_ends_a_line(void **state)
{
    char *text = printed("a\rb", SIZE_MAX, MBA_TABLE_CSV);
    (void)state;
    assert_non_null(strstr(text, "\"a\rb\",12.5,\"a\rb\"\nplain,,end\n"));
    free(text);
}

/* A cell that a spreadsheet would take for a formula gets an apostrophe; numbers and names do not change. */
static void csv_has_no_formulas(void **state)
{
    static const char *const cells[][2] = { { "=cmd|' /C calc'!A0", "'=cmd|' /C calc'!A0" },
                                            { "@SUM(A1)", "'@SUM(A1)" },
                                            { "+1+1", "'+1+1" },
                                            { "-1+1", "'-1+1" },
                                            { "=a,b", "\"'=a,b\"" },
                                            { "\t=1", "'\t=1" },
                                            { "-1.5e3", "-1.5e3" },
                                            { "+2", "+2" },
                                            { "-", "-" },
                                            { "a=b", "a=b" },
                                            { "x@y", "x@y" },
                                            { "-inf", "-inf" } };
    (void)state;
    for (size_t i = 0; i < sizeof cells / sizeof *cells; i++) {
        char  line[128];
        char *csv = printed(cells[i][0], SIZE_MAX, MBA_TABLE_CSV),
             *text = printed(cells[i][0], SIZE_MAX, MBA_TABLE_JSON);
        snprintf(line, sizeof line, "\n%s,12.5,%s\n", cells[i][1], cells[i][1]);
        assert_non_null(strstr(csv, line));
        json_t *all = json_loads(text, 0, NULL); // exact
        assert_string_equal(json_string_value(json_object_get(json_array_get(all, 0), "name")), cells[i][0]);
        json_decref(all);
        free(csv);
        free(text);
    }
}

static void a_whole_name_stays_whole(void **state)
{
    char *name = malloc(9001), *text;
    (void)state;
    memset(name, 'x', 9000);
    name[9000] = 0;
    text = printed(name, SIZE_MAX, MBA_TABLE_CSV);
    assert_non_null(strstr(text, name));
    free(text);
    free(name);
}

/* Prints rows at once, or each one when it is complete. */
static char *rows_printed(mba_table_form form, bool flow, int rows)
{
    char      *text = NULL;
    size_t     n;
    FILE      *f = open_memstream(&text, &n);
    mba_table *t;
    assert_int_equal(mba_table_create(&t,
                                      (const mba_column[]){ { "what", "what", NULL }, { "ms", "ms", "%.2f" }, { 0 } }),
                     MBA_OK);
    mba_table_widen(t, 0, 6);
    mba_table_widen(t, 1, 5);
    for (int i = 0; i < rows; i++) {
        mba_table_text(t, "row %d", i);
        mba_table_number(t, 1.25 * i);
        if (!flow) continue;
        const long before = ftell(f);
        assert_ok(mba_table_flow(t, f, form, false));
        assert_true(ftell(f) > before); // it is printed before the next one begins
    }
    if (flow) assert_ok(mba_table_flow(t, f, form, true));
    else assert_ok(mba_table_print(t, f, form));
    mba_table_destroy(t);
    fclose(f);
    return text;
}

static void rows_that_flow_say_the_same(void **state)
{
    static const mba_table_form forms[] = { MBA_TABLE_TEXT, MBA_TABLE_CSV, MBA_TABLE_JSON };
    (void)state;
    for (int rows = 0; rows < 4; rows += 3)
        for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
            char *a = rows_printed(forms[i], false, rows), *b = rows_printed(forms[i], true, rows);
            if (forms[i] == MBA_TABLE_JSON) {
                json_t *x = json_loads(a, 0, NULL), *y = json_loads(b, 0, NULL);
                assert_true(json_is_array(x) && (int)json_array_size(x) == rows && json_equal(x, y));
                json_decref(x);
                json_decref(y);
            } else {
                assert_string_equal(a, b);
            }
            free(a);
            free(b);
        }
}

#if MBA_STARVE
static FILE          *sink; /* opened before anything fails */
static mba_table_form form_starved;
static char           said[2][4096]; /* with all its memory; at the last run */

static mba_status fill_and_print(void)
{
    mba_table *t;
    rewind(sink);
    MBA_TRY(mba_table_create(&t, columns));
    for (int i = 0; i < 40; i++) { // more cells than a table begins with
        mba_table_text(t, "row %d \xff", i);
        mba_table_number(t, i / 2.0);
        mba_table_cut(t, "a name", 4);
    }
    const mba_status st = mba_table_print(t, sink, form_starved);
    mba_table_destroy(t);
    return st;
}

static void read_back(char out[4096])
{
    const long n = ftell(sink);
    assert_true(n > 0);
    rewind(sink);
    out[fread(out, 1, (size_t)n < 4095 ? (size_t)n : 4095, sink)] = 0;
}

static void check_said(void)
{
    read_back(said[1]);
    assert_string_equal(said[0], said[1]);
}

static void without_memory_a_table_is_an_error(void **state)
{
    static const mba_table_form forms[] = { MBA_TABLE_TEXT, MBA_TABLE_CSV, MBA_TABLE_JSON };
    (void)state;
    assert_non_null(sink = tmpfile());
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        form_starved = forms[i];
        assert_ok(fill_and_print());
        read_back(said[0]);
        starve(fill_and_print, check_said, NULL);
    }
    fclose(sink);
}
#else
static void without_memory_a_table_is_an_error(void **state)
{
    (void)state;
    skip();
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_memory_a_table_is_an_error),
        cmocka_unit_test(json_has_every_key_of_any_bytes),
        cmocka_unit_test(text_has_a_line_per_row),
        cmocka_unit_test(columns_are_counted_in_letters),
        cmocka_unit_test(csv_quotes_what_ends_a_line),
        cmocka_unit_test(csv_has_no_formulas),
        cmocka_unit_test(a_whole_name_stays_whole),
        cmocka_unit_test(rows_that_flow_say_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
