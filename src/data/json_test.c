// SPDX-License-Identifier: Apache-2.0
/* json_test.c -- json.h with valid, unusual and hostile JSON. */
#include <stdbool.h>
#include "tests/test.h"
#include "tests/scratch.h"
#include "core/file.h"
#include "data/json.h"

static mba_status parse(json_t **out, const char *text)
{
    return mba_json_parse(out, "f.json", text, strlen(text), NULL);
}

static json_t *parsed(const char *text)
{
    json_t *root = NULL;
    assert_ok(parse(&root, text));
    return root;
}

static void assert_refused(const char *text, const char *words)
{
    json_t *root = NULL;
    assert_fails(parse(&root, text), MBA_E_FORMAT, words);
    assert_null(root);
    assert_non_null(strstr(mba_message(), "'f.json'"));
    assert_non_null(strstr(mba_message(), "\nwhy: "));
    assert_non_null(strstr(mba_message(), "\nfix: "));
}

static void getters_give_values_and_defaults(void **state)
{
    (void)state;
    json_t     *o = parsed("{\"i\": 7, \"r\": 2.5, \"t\": \"x\", \"b\": false, \"n\": null}");
    int64_t     i;
    double      r;
    bool        b;
    const char *t;
    assert_ok(mba_json_int(o, "i", 1, 0, 10, &i));
    assert_int_equal(i, 7);
    assert_ok(mba_json_int(o, "n", 1, 0, 10, &i)); // null is absent
    assert_int_equal(i, 1);
    assert_ok(mba_json_int(o, "none", -1, 0, 10, &i)); // a default may lie outside
    assert_int_equal(i, -1);
    assert_ok(mba_json_int(NULL, "none", 3, 0, 10, &i));
    assert_int_equal(i, 3);
    assert_ok(mba_json_real(o, "r", 1, 0, 10, &r));
    assert_true(r == 2.5);
    assert_ok(mba_json_real(o, "i", 1, 0, 10, &r)); // a whole number is a number
    assert_true(r == 7);
    assert_ok(mba_json_real(o, "n", 0.5, 0, 10, &r));
    assert_true(r == 0.5);
    assert_ok(mba_json_bool(o, "b", true, &b));
    assert_false(b);
    assert_ok(mba_json_bool(o, "n", true, &b));
    assert_true(b);
    assert_ok(mba_json_text(o, "t", "d", &t));
    assert_string_equal(t, "x");
    assert_ok(mba_json_text(o, "n", NULL, &t));
    assert_null(t);
    assert_ok(mba_json_require(o, "t"));
    json_decref(o);
}

static void getters_refuse_wrong_types_and_ranges(void **state)
{
    (void)state;
    json_t     *o = parsed("{\"i\": 7, \"r\": 2.5, \"t\": \"x\", \"b\": false, \"n\": null, \"l\": [], \"nan\": NaN, "
                               "\"f\": {\"__float__\": \"x\"}}");
    int64_t     i;
    double      r;
    bool        b;
    const char *t;
    assert_fails(mba_json_int(o, "i", 0, 8, 9, &i), MBA_E_FORMAT, "\"i\" is 7\nwhy: it should be in 8 .. 9");
    assert_fails(mba_json_int(o, "i", 0, 0, 6, &i), MBA_E_FORMAT, "0 .. 6");
    assert_fails(mba_json_int(o, "r", 0, 0, 9, &i), MBA_E_FORMAT,
                 "\"r\" is a number\nwhy: it should be a whole number");
    assert_fails(mba_json_int(o, "t", 0, 0, 9, &i), MBA_E_FORMAT, "\"t\" is text");
    assert_fails(mba_json_real(o, "r", 0, 3, 9, &r), MBA_E_FORMAT, "\"r\" is 2.5\nwhy: it should be in 3 .. 9");
    assert_fails(mba_json_real(o, "b", 0, 3, 9, &r), MBA_E_FORMAT, "\"b\" is false\nwhy: it should be a number");
    assert_fails(mba_json_real(o, "nan", 0, -INFINITY, INFINITY, &r), MBA_E_FORMAT, "\"nan\" is nan");
    assert_fails(mba_json_real(o, "f", 0, 0, 1, &r), MBA_E_FORMAT, "\"f\" is an object");
    assert_fails(mba_json_bool(o, "i", true, &b), MBA_E_FORMAT, "true or false");
    assert_fails(mba_json_text(o, "l", "", &t), MBA_E_FORMAT, "\"l\" is a list\nwhy: it should be text");
    assert_fails(mba_json_require(o, "n"), MBA_E_FORMAT, "\"n\" is missing");
    assert_fails(mba_json_require(o, "none"), MBA_E_FORMAT, "\"none\" is missing");
    assert_fails(mba_json_int(json_object_get(o, "l"), "k", 0, 0, 1, &i), MBA_E_FORMAT, "expected in a list");
    json_decref(o);
}

static void infinity_and_nan_are_read_bare_and_wrapped(void **state)
{
    (void)state;
    json_t *o = parsed("{\"a\": [0.0, Infinity,-Infinity ,NaN], \"w\": {\"__float__\": \"-Infinity\"}, \"Infinity\": "
                       "\"NaN, \\\"NaN\"}");
    json_t *a = json_object_get(o, "a");
    double  r[4];
    for (size_t i = 0; i < 4; i++) assert_true(mba_json_number(json_array_get(a, i), &r[i]));
    assert_true(r[0] == 0 && r[1] == INFINITY && r[2] == -INFINITY && isnan(r[3]));
    assert_string_equal(json_string_value(json_object_get(json_array_get(a, 1), "__float__")), "Infinity");
    assert_ok(mba_json_real(o, "w", 0, -INFINITY, INFINITY, r));
    assert_true(r[0] == -INFINITY);
    const char *t;
    assert_ok(mba_json_text(o, "Infinity", "", &t)); // strings stay as they are
    assert_string_equal(t, "NaN, \"NaN");
    json_decref(o);
    assert_refused("NaN", "should be an object");
    assert_refused("{\"a\": Infinityx}", "line 1, column 7");
    assert_refused("{\"a\": +Infinity}", "line 1, column");
    assert_refused("{\"a\": 1-Infinity}", "line 1, column");
    assert_refused("{NaN: 1}", "line 1, column");
}

static void integers_beyond_64_bits_become_reals(void **state)
{
    (void)state;
    json_t *o = parsed("{\"model_max_length\": 1000000000000000019884624838656, \"a\": 9223372036854775807, "
                       "\"b\": 9223372036854775808, \"c\": -9223372036854775808, \"d\": -9223372036854775809}");
    int64_t i;
    double  r;
    assert_ok(mba_json_real(o, "model_max_length", 0, 0, 1e31, &r));
    assert_true(r == 1e30);
    assert_fails(mba_json_int(o, "model_max_length", 0, 0, INT64_MAX, &i), MBA_E_FORMAT, "it should be a whole number");
    assert_ok(mba_json_int(o, "a", 0, 0, INT64_MAX, &i));
    assert_true(i == INT64_MAX);
    assert_ok(mba_json_int(o, "c", 0, INT64_MIN, 0, &i));
    assert_true(i == INT64_MIN);
    assert_true(json_is_real(json_object_get(o, "b")) && json_is_real(json_object_get(o, "d")));
    json_decref(o);
    char text[1024] = "{\"a\": 1"; // and 900 digits more than any double has
    memset(text + strlen(text), '0', 900);
    strcat(text, "}");
    assert_refused(text, "overflow");
}

static void errors_tell_the_place_in_the_original(void **state)
{
    (void)state;
    // Each token before the error is longer for Jansson than it is in the file.
    assert_refused("{\"a\": NaN, \"b\": Infinity,\n  \"c\": -Infinity, \"d\": 10000000000000000000, ?}",
                   "line 2, column 46");
    assert_refused("{\n\n  \"a\": 1,\n  \"b\" 2}", "line 4, column 7");
    assert_refused("{\"\xc3\xa9\xc3\xa9\": ?}", "line 1, column 8"); // characters, not bytes
    assert_refused("{\"a\": 1", "line 1, column 8");
    assert_refused("{\"a\": \"abc", "line 1, column 11");
}

static void each_kind_of_bad_text_has_its_message(void **state)
{
    (void)state;
    assert_refused("", "it is empty");
    assert_refused(" \n ", "it is empty");
    assert_refused("[1]", "it should be an object");
    assert_refused("{} x", "end of file expected");
    assert_refused("{\"a\": 1, \"a\": 2}", "duplicate object key");
    assert_non_null(strstr(mba_message(), "fix: keep one of the two"));
    assert_refused("{\"a\": {\"b\": 1, \"b\": 2}}", "duplicate object key");
    assert_refused("{\"a\": 01}", "near");
    assert_refused("{\"a\": 1e999}", "overflow");
    assert_refused("{\"a\": \"\\u0000\"}", "\\u0000 is not allowed");
    assert_refused("{\"a\": \"\xff\"}", "unable to decode byte 0xff");
    assert_refused("{\"a\": \"\x1b[2J\"}", "control character");
    assert_null(strchr(mba_message(), '\x1b'));
    assert_refused("{\"a\": \"\\ud800\"}", "Unicode");
    json_t *root = NULL;
    assert_fails(mba_json_parse(&root, "f.json", "{}\0{}", 5, NULL), MBA_E_FORMAT, "end of file expected");
}

static void limits_hold(void **state)
{
    (void)state;
    const mba_json_limits tight = { .bytes = 20, .values = 4, .depth = 2 };
    json_t               *root = NULL;
    assert_ok(mba_json_parse(&root, "f", "{\"a\": [1]}", 10, &tight));
    json_decref(root);
    root = NULL;
    assert_fails(mba_json_parse(&root, "f", "{\"a\": [[]]}", 11, &tight), MBA_E_FORMAT, "nested too deeply");
    assert_fails(mba_json_parse(&root, "f", "{\"a\": [1,2,3]}", 14, &tight), MBA_E_FORMAT, "too many values");
    assert_fails(mba_json_parse(&root, "f", "{\"a\":                 1}", 24, &tight), MBA_E_FORMAT,
                 "24 bytes, 20 are allowed");
    // Brackets inside strings do not count.
    assert_ok(mba_json_parse(&root, "f", "{\"[[[,,,,::\": \"\\\"{{\"}", 21, &(mba_json_limits){ 30, 4, 1 }));
    json_decref(root);
    // A megabyte of brackets is refused before anything recurses.
    char *deep = malloc(1 << 20);
    memset(deep, '[', 1 << 20);
    memcpy(deep, "{\"a\":", 5);
    assert_fails(mba_json_parse(&root, "f", deep, 1 << 20, NULL), MBA_E_FORMAT, "nested too deeply");
    free(deep);
}

static void every_truncation_is_refused(void **state)
{
    (void)state;
    const char *text = "{\"a\": [0.0, Infinity, {\"b\\\"\\u00e9\": null}], "
                       "\"big\": 99999999999999999999, \"c\": -12.5e+3, \"d\": true}";
    json_t     *root = NULL;
    for (size_t n = 0; n < strlen(text); n++) {
        char *copy = malloc(n + 1); // of its exact size, for the sanitizer
        memcpy(copy, text, n);
        copy = realloc(copy, n ? n : 1);
        assert_int_equal(mba_json_parse(&root, "f", copy, n, NULL), MBA_E_FORMAT);
        free(copy);
    }
    assert_ok(parse(&root, text));
    json_decref(root);
}

static void files_are_loaded_and_saved(void **state)
{
    (void)state;
    scratch_make();
    json_t *o = parsed("{\"step\": 12, \"limit\": [0.0, Infinity], \"name\": \"\xc3\xa9\"}"), *again = NULL;
    assert_ok(mba_json_save(o, scratch("s.json")));
    assert_ok(mba_json_load(&again, scratch("s.json"), NULL));
    assert_true(json_equal(o, again));
    json_decref(again);
    assert_fails(mba_json_save(o, scratch("no/s.json")), MBA_E_IO, "the directory must exist");
    assert_fails(mba_json_load(&again, scratch("none.json"), NULL), MBA_E_IO, "No such file");
    assert_fails(mba_json_load(&again, scratch("s.json"), &(mba_json_limits){ 10, 10, 10 }), MBA_E_FORMAT,
                 "larger than the 10 bytes");
    json_decref(o);
    scratch_remove();
}

MBA_TEST_MAIN(cmocka_unit_test(getters_give_values_and_defaults),
              cmocka_unit_test(getters_refuse_wrong_types_and_ranges),
              cmocka_unit_test(infinity_and_nan_are_read_bare_and_wrapped),
              cmocka_unit_test(integers_beyond_64_bits_become_reals),
              cmocka_unit_test(errors_tell_the_place_in_the_original),
              cmocka_unit_test(each_kind_of_bad_text_has_its_message), cmocka_unit_test(limits_hold),
              cmocka_unit_test(every_truncation_is_refused), cmocka_unit_test(files_are_loaded_and_saved))
