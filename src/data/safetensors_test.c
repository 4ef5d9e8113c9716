// SPDX-License-Identifier: Apache-2.0
/* safetensors_test.c -- files of other programs are read, every violated rule is named, and our files equal those of
 * the reference writer. */
#include <stdbool.h>
#include "tests/test.h"
#include "tests/scratch.h"
#include "core/file.h"
#include "data/safetensors.h"

#define DATA "tests/data/formats/"

/* A file from the text of a header and `data` bytes 0, 1, 2, .. */
static mba_status open_made(mba_safetensors **f, const char *header, size_t data)
{
    static char    bytes[4096];
    const uint64_t n = strlen(header);
    assert_true(8 + n + data <= sizeof bytes);
    memcpy(bytes, &n, 8);
    memcpy(bytes + 8, header, n);
    for (size_t i = 0; i < data; i++) bytes[8 + n + i] = (char)i;
    return mba_safetensors_open_bytes(f, "made", bytes, 8 + n + data);
}

static void assert_opens(const char *header, size_t data)
{
    mba_safetensors *f;
    assert_ok(open_made(&f, header, data));
    mba_safetensors_close(f);
}

static void assert_refused(mba_status code, const char *header, size_t data, const char *words)
{
    mba_safetensors *f = NULL;
    assert_fails(open_made(&f, header, data), code, words);
    assert_null(f);
    assert_non_null(strstr(mba_message(), "'made'"));
    assert_non_null(strstr(mba_message(), "\nwhy: "));
    assert_non_null(strstr(mba_message(), "\nfix: "));
}

/* ---- reading ---- */

static void check_values(const mba_safetensors *f, const char *name, mba_file_dtype t, int rank, int64_t n,
                         bool quarters)
{
    const mba_array *a = mba_safetensors_find(f, name);
    float            x[8];
    double           d[8];
    assert_non_null(a);
    assert_string_equal(a->name, name);
    assert_int_equal(a->dtype, t);
    assert_int_equal(a->rank, rank);
    assert_ok(mba_array_read_f32(a, x, n));
    assert_ok(mba_array_read_f64(a, d, n));
    for (int i = 0; i < n; i++) assert_true(d[i] == (quarters ? i / 4.0 - 1 : i - 1) && x[i] == d[i]);
}

static void a_file_of_the_reference_is_read(void **state)
{
    (void)state;
    mba_safetensors *f;
    assert_ok(mba_safetensors_open(&f, DATA "types.safetensors"));
    assert_int_equal(mba_safetensors_count(f), 11);
    check_values(f, "f32", MBA_WIRE_F32, 2, 6, true);
    check_values(f, "f16", MBA_WIRE_F16, 2, 6, true);
    check_values(f, "bf16", MBA_WIRE_BF16, 1, 6, true);
    check_values(f, "f64", MBA_WIRE_F64, 2, 6, true);
    check_values(f, "i64", MBA_WIRE_I64, 1, 4, false);
    check_values(f, "i32", MBA_WIRE_I32, 2, 4, false);
    check_values(f, "i8", MBA_WIRE_I8, 1, 4, false);
    const mba_array *a = mba_safetensors_find(f, "f16");
    assert_true(a->shape[0] == 3 && a->shape[1] == 2 && a->bytes == 12);
    assert_int_equal(mba_safetensors_find(f, "scalar")->rank, 0);
    a = mba_safetensors_find(f, "empty");
    assert_true(a->elems == 0 && a->rank == 2 && a->shape[1] == 5);
    assert_ok(mba_array_read_f32(a, NULL, 0));
    assert_non_null(mba_safetensors_find(f, "na\"me \\ \xc3\xa9\xe4\xb8\x96\xf0\x9f\x90\x8d"));
    assert_null(mba_safetensors_find(f, "f3"));
    assert_null(mba_safetensors_find(f, "__metadata__"));
    assert_string_equal(mba_safetensors_meta(f, "format"), "pt");
    assert_null(mba_safetensors_meta(f, "none"));
    for (int64_t i = 1; i < 11; i++) // in the order of the data
        assert_true((const char *)mba_safetensors_at(f, i - 1)->data + mba_safetensors_at(f, i - 1)->bytes
                    == (const char *)mba_safetensors_at(f, i)->data);
    mba_safetensors_close(f);
    mba_safetensors_close(NULL);
}

static const char example[] = "\x48\0\0\0\0\0\0\0"
                              "{\"attn0\":{\"dtype\":\"F32\",\"shape\":[1,1,2,3],\"data_offsets\":[0,24]}}       "
                              "\0\0\0\0"
                              "\0\0\x80\x3f"
                              "\0\0\0\x40"
                              "\0\0\x40\x40"
                              "\0\0\x80\x40"
                              "\0\0\xa0\x40";

static void the_example_of_the_format_is_read(void **state)
{
    (void)state;
    mba_safetensors *f;
    float            x[6];
    assert_int_equal(sizeof example - 1, 104);
    assert_ok(mba_safetensors_open_bytes(&f, "example", example, sizeof example - 1));
    const mba_array *a = mba_safetensors_find(f, "attn0");
    assert_int_equal(a->rank, 4);
    assert_ok(mba_array_read_f32(a, x, 6));
    for (int i = 0; i < 6; i++) assert_true(x[i] == i);
    mba_safetensors_close(f);
}

static void every_truncation_is_refused(void **state)
{
    (void)state;
    const char *paths[] = { DATA "types.safetensors", DATA "example.safetensors" };
    for (int p = 0; p < 2; p++) {
        mba_map          map;
        mba_safetensors *f = NULL;
        assert_ok(mba_file_map(&map, paths[p]));
        for (size_t n = 0; n < map.bytes; n++) {
            char *cut = malloc(n ? n : 1); // of its exact size, for the sanitizer
            memcpy(cut, map.data, n);
            assert_fails(mba_safetensors_open_bytes(&f, "cut", cut, n), MBA_E_FORMAT,
                         n < 8 ? "shorter than" : "\nwhy: ");
            free(cut);
        }
        assert_ok(mba_safetensors_open_bytes(&f, "whole", map.data, map.bytes));
        mba_safetensors_close(f);
        mba_file_unmap(&map);
    }
}

/* Any single byte changed: the file is refused or consistent, never a crash (the sanitizers watch). */
static void every_flipped_byte_is_survived(void **state)
{
    (void)state;
    char bytes[sizeof example - 1];
    for (size_t i = 0; i < sizeof bytes; i++)
        for (int v = 0; v < 256; v++) {
            mba_safetensors *f = NULL;
            float            x[6];
            memcpy(bytes, example, sizeof bytes);
            bytes[i] = (char)v;
            if (mba_safetensors_open_bytes(&f, "flipped", bytes, sizeof bytes) != MBA_OK) continue;
            assert_int_equal(mba_safetensors_count(f), 1);
            assert_int_equal(mba_safetensors_at(f, 0)->bytes, 24);
            if (mba_safetensors_at(f, 0)->elems == 6) assert_ok(mba_array_read_f32(mba_safetensors_at(f, 0), x, 6));
            mba_safetensors_close(f);
        }
}

/* A header with one tensor "a"; the description of a tensor. */
#define A(entry)                     "{\"a\":" entry "}"
#define ENTRY(dtype, shape, offsets) "{\"dtype\":" dtype ",\"shape\":" shape ",\"data_offsets\":" offsets "}"

static void headers_may_have_any_order_and_spaces(void **state)
{
    (void)state;
    assert_opens("{}", 0);
    assert_opens("{}      ", 0);
    assert_opens("{\"__metadata__\":{}}", 0);
    assert_opens("{\"b\":{\"data_offsets\":[2,4],\"shape\":[2],\"dtype\":\"U8\"}, "
                 "\"a\":{\"dtype\":\"F16\",\"shape\":[],\"data_offsets\":[0,2]}}",
                 4);
    // Empty tensors anywhere, several in one place.
    assert_opens("{\"a\":" ENTRY("\"U8\"", "[0]", "[1,1]") ",\"b\":" ENTRY("\"U8\"", "[1]", "[1,2]") ",\"c\":" ENTRY(
                     "\"U8\"", "[1]", "[0,1]") ",\"d\":" ENTRY("\"F64\"", "[3,0]",
                                                               "[2,2]") ",\"e\":" ENTRY("\"F32\"", "[0]", "[1,1]") "}",
                 2);
    assert_opens("{\"a\":{\"dtype\":\"U8\",\"shape\":[1,1,1,1,1,1,1,1],\"data_offsets\":[0,1]}}", 1);
}

static void every_broken_rule_of_an_entry_is_named(void **state)
{
    (void)state;
    const mba_status bad = MBA_E_FORMAT;
    assert_refused(bad, A("7"), 0, "tensor \"a\" of 'made' is not described");
    assert_refused(bad, A("{}"), 0, "has no dtype");
    assert_refused(bad, A(ENTRY("3", "[]", "[0,4]")), 4, "has no dtype");
    assert_refused(MBA_E_UNSUPPORTED, A(ENTRY("\"F33\"", "[]", "[0,4]")), 4, "the unknown dtype \"F33\"");
    assert_refused(bad, A(ENTRY("\"F32\"", "4", "[0,4]")), 4, "has no shape");
    assert_refused(bad, A(ENTRY("\"F32\"", "[-1]", "[0,4]")), 4, "has a wrong shape");
    assert_refused(bad, A(ENTRY("\"F32\"", "[1.0]", "[0,4]")), 4, "has a wrong shape");
    assert_refused(bad, A(ENTRY("\"F32\"", "[99999999999999999999]", "[0,4]")), 4, "has a wrong shape");
    assert_refused(bad, A(ENTRY("\"F32\"", "[NaN]", "[0,4]")), 4, "has a wrong shape");
    assert_refused(MBA_E_UNSUPPORTED, A(ENTRY("\"U8\"", "[1,1,1,1,1,1,1,1,1]", "[0,1]")), 1, "has 9 dimensions");
    assert_refused(bad, A(ENTRY("\"F32\"", "[4294967296,4294967296]", "[0,4]")), 4, "is impossibly large");
    assert_refused(bad, A(ENTRY("\"F32\"", "[4611686018427387905]", "[0,4]")), 4, "is impossibly large");
    assert_refused(bad, A(ENTRY("\"F32\"", "[0,4294967296,4294967296]", "[0,0]")), 0, "is impossibly large");
    assert_refused(bad, A(ENTRY("\"F32\"", "[]", "4")), 4, "has no place");
    assert_refused(bad, A(ENTRY("\"F32\"", "[]", "[0]")), 4, "has no place");
    assert_refused(bad, A(ENTRY("\"F32\"", "[]", "[0,4,8]")), 4, "has no place");
    assert_refused(bad, A(ENTRY("\"F32\"", "[]", "[0,\"4\"]")), 4, "has no place");
    assert_refused(bad, A(ENTRY("\"F32\"", "[]", "[-4,0]")), 4, "has a wrong place");
    assert_refused(bad, A(ENTRY("\"F32\"", "[]", "[4,0]")), 4, "has a wrong place");
    assert_refused(bad, A(ENTRY("\"F32\"", "[]", "[0,4]")), 3, "reaches past the end of the file");
    assert_refused(bad, A(ENTRY("\"F32\"", "[]", "[9223372036854775800,9223372036854775804]")), 4,
                   "reaches past the end");
    assert_refused(bad, A(ENTRY("\"F32\"", "[2]", "[0,4]")), 4, "has 4 bytes of data\nwhy: F32 of shape (2) takes 8");
    assert_refused(bad, A("{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1],\"stride\":[1]}"), 1,
                   "an unknown property");
}

static void every_broken_rule_of_a_file_is_named(void **state)
{
    (void)state;
    const mba_status bad = MBA_E_FORMAT;
    mba_safetensors *f = NULL;
    assert_refused(bad, "", 0, "does not begin with '{'");
    assert_refused(bad, " {}", 0, "does not begin with '{'");
    assert_refused(bad, "{\"a\":}", 0, "line 1, column 6");
    assert_refused(bad, "{}}", 0, "end of file expected");
    assert_refused(bad, "{\"a\":[[[[]]]]}", 0, "nested too deeply");
    assert_refused(bad, "{\"\xff\":1}", 0, "unable to decode");
    assert_refused(bad, "{\"a\":" ENTRY("\"U8\"", "[1]", "[0,1]") ",\"a\":" ENTRY("\"U8\"", "[1]", "[1,2]") "}", 2,
                   "duplicate object key");
    assert_refused(bad, "{\"__metadata__\":[]}", 0, "\"__metadata__\" is not an object");
    assert_refused(bad, "{\"__metadata__\":{\"a\":1}}", 0, "not text");
    assert_refused(bad, "{}", 1, "bytes after the last tensor");
    assert_refused(bad, A(ENTRY("\"U8\"", "[2]", "[0,2]")), 3, "bytes after the last tensor");
    assert_refused(bad, A(ENTRY("\"U8\"", "[2]", "[1,3]")), 3, "is preceded by a hole");
    assert_refused(bad, "{\"a\":" ENTRY("\"U8\"", "[2]", "[0,2]") ",\"b\":" ENTRY("\"U8\"", "[2]", "[1,3]") "}", 3,
                   "overlaps another");
    assert_refused(bad, "{\"a\":" ENTRY("\"U8\"", "[2]", "[0,2]") ",\"b\":" ENTRY("\"U8\"", "[2]", "[0,2]") "}", 2,
                   "overlaps another");
    assert_refused(bad, "{\"a\":" ENTRY("\"U8\"", "[2]", "[0,2]") ",\"b\":" ENTRY("\"U8\"", "[0]", "[1,1]") "}", 2,
                   "overlaps another");
    assert_fails(mba_safetensors_open_bytes(&f, "x", "\x02\0\0\0\0\0\0", 7), bad, "shorter than the 8 bytes");
    assert_fails(mba_safetensors_open_bytes(&f, "x", "\x01\xe1\xf5\x05\0\0\0\0{}", 10), bad,
                 "above the 100 MB allowed");
    assert_fails(mba_safetensors_open_bytes(&f, "x", "\xff\xff\xff\xff\xff\xff\xff\xff{}", 10), bad,
                 "above the 100 MB allowed");
    assert_fails(mba_safetensors_open_bytes(&f, "x", "\x03\0\0\0\0\0\0\0{}", 10), bad, "reaches past the end");
    assert_fails(mba_safetensors_open(&f, "tests/data/none.safetensors"), MBA_E_IO, "No such file");
    assert_null(f);
}

static void hostile_names_stay_on_one_line(void **state)
{
    (void)state;
    assert_refused(MBA_E_FORMAT, "{\"x\\nfix: run rm\\u001b[2J\":1}", 0, "tensor \"x\\x0afix: run rm\\x1b[2J\"");
    char header[3000] = "{\"";
    memset(header + 2, 'n', 2900);
    strcpy(header + 2902, "\":1}");
    assert_refused(MBA_E_FORMAT, header, 0, "nnn...\" of 'made' is not described");
}

/* ---- writing ---- */

static void assert_same_bytes(const char *path, const void *bytes, size_t n)
{
    mba_map map;
    assert_ok(mba_file_map(&map, path));
    assert_int_equal(map.bytes, n);
    assert_memory_equal(map.data, bytes, n);
    mba_file_unmap(&map);
}

static void the_example_of_the_format_is_written(void **state)
{
    (void)state;
    const float             x[] = { 0, 1, 2, 3, 4, 5 };
    mba_safetensors_writer *w;
    assert_ok(mba_safetensors_create(&w, scratch("e.safetensors")));
    assert_ok(mba_safetensors_note(w, "format", NULL)); // the example has no metadata
    assert_ok(mba_safetensors_add(
        w, &(mba_safetensors_entry){
               .name = "attn0", .dtype = MBA_WIRE_F32, .rank = 4, .shape = { 1, 1, 2, 3 }, .data = x }));
    assert_ok(mba_safetensors_commit(w));
    mba_safetensors_destroy(w);
    assert_same_bytes(scratch("e.safetensors"), example, sizeof example - 1);
    unlink(scratch("e.safetensors"));
}

/* Reads the reference's file and writes it again: names, types, order, padding and data must come out the same. */
static void our_file_is_the_reference_s_byte_for_byte(void **state)
{
    (void)state;
    mba_safetensors        *f;
    mba_safetensors_writer *w;
    mba_map                 map;
    assert_ok(mba_safetensors_open(&f, DATA "types.safetensors"));
    assert_ok(mba_safetensors_create(&w, scratch("t.safetensors")));
    for (int64_t i = mba_safetensors_count(f); i-- > 0;) { // in another order than it comes out
        const mba_array      *a = mba_safetensors_at(f, i);
        mba_safetensors_entry e = { .name = a->name, .dtype = a->dtype, .rank = a->rank, .data = a->data };
        memcpy(e.shape, a->shape, sizeof e.shape);
        assert_ok(mba_safetensors_add(w, &e));
    }
    assert_ok(mba_safetensors_commit(w));
    mba_safetensors_destroy(w);
    assert_ok(mba_file_map(&map, DATA "types.safetensors"));
    assert_same_bytes(scratch("t.safetensors"), map.data, map.bytes);
    mba_file_unmap(&map);
    mba_safetensors_close(f);
    unlink(scratch("t.safetensors"));
}

/* Element i is i; counts the calls and sees that they come in order. */
static mba_status count_up(void *user, void *to, int64_t first, int64_t count)
{
    int64_t *next = user;
    int32_t *x = to;
    if (first != *next) return mba_fail(MBA_E_ARG, "out of order");
    for (int64_t i = 0; i < count; i++) x[i] = (int32_t)(first + i);
    *next = first + count;
    return MBA_OK;
}

static mba_status fail_late(void *user, void *to, int64_t first, int64_t count)
{
    (void)user;
    memset(to, 0, (size_t)count * 4);
    return first ? mba_fail(MBA_E_DEVICE, "the device is gone") : MBA_OK;
}

/* The same file, of which every tensor is put later, in two parts, the last one first. */
static void what_is_put_later_gives_the_same_file(void **state)
{
    (void)state;
    mba_safetensors        *f;
    mba_safetensors_writer *w;
    mba_safetensors_inside *inside;
    mba_map                 map;
    assert_ok(mba_safetensors_open(&f, DATA "types.safetensors"));
    assert_ok(mba_safetensors_create(&w, scratch("t.safetensors")));
    for (int64_t i = 0; i < mba_safetensors_count(f); i++) {
        const mba_array      *a = mba_safetensors_at(f, i);
        mba_safetensors_entry e = { .name = a->name, .dtype = a->dtype, .rank = a->rank, .later = true };
        memcpy(e.shape, a->shape, sizeof e.shape);
        assert_ok(mba_safetensors_add(w, &e));
    }
    assert_ok(mba_safetensors_commit(w));
    mba_safetensors_destroy(w);
    assert_ok(mba_safetensors_enter(&inside, scratch("t.safetensors")));
    for (int64_t i = mba_safetensors_count(f); i-- > 0;) {
        const mba_array *a = mba_safetensors_at(f, i);
        const int64_t    half = a->elems / 2;
        const char      *rest = (const char *)a->data + half * (int64_t)mba_file_dtype_bytes(a->dtype);
        assert_ok(mba_safetensors_put(inside, a->name, rest, half, a->elems - half));
        assert_ok(mba_safetensors_put(inside, a->name, a->data, 0, half));
    }
    assert_ok(mba_safetensors_end(inside));
    mba_safetensors_leave(inside);
    assert_ok(mba_file_map(&map, DATA "types.safetensors"));
    assert_same_bytes(scratch("t.safetensors"), map.data, map.bytes);
    mba_file_unmap(&map);
    mba_safetensors_close(f);
    unlink(scratch("t.safetensors"));
}

static void large_tensors_come_from_a_callback(void **state)
{
    (void)state;
    enum { N = 700001 }; // several buffers and a rest
    int64_t                 next = 0;
    mba_safetensors_writer *w;
    mba_safetensors        *f;
    static float            x[N];
    assert_ok(mba_safetensors_create(&w, scratch("c.safetensors")));
    assert_ok(mba_safetensors_note(w, "step", "12"));
    assert_ok(mba_safetensors_add(
        w, &(mba_safetensors_entry){
               .name = "n", .dtype = MBA_WIRE_I32, .rank = 1, .shape = { N }, .fill = count_up, .user = &next }));
    assert_ok(mba_safetensors_add(w, &(mba_safetensors_entry){ .name = "none", .dtype = MBA_WIRE_I64, .rank = 1 }));
    assert_ok(mba_safetensors_commit(w));
    mba_safetensors_destroy(w);
    assert_int_equal(next, N);
    assert_ok(mba_safetensors_open(&f, scratch("c.safetensors")));
    assert_string_equal(mba_safetensors_meta(f, "step"), "12");
    assert_string_equal(mba_safetensors_meta(f, "format"), "pt");
    assert_ok(mba_array_read_f32(mba_safetensors_find(f, "n"), x, N));
    for (int i = 0; i < N; i++) assert_true(x[i] == i);
    assert_int_equal(mba_safetensors_find(f, "none")->elems, 0);
    mba_safetensors_close(f);
    unlink(scratch("c.safetensors"));
}

static void a_failed_callback_leaves_no_file(void **state)
{
    (void)state;
    mba_safetensors_writer *w;
    assert_ok(mba_safetensors_create(&w, scratch("c.safetensors")));
    assert_ok(mba_safetensors_add(
        w, &(mba_safetensors_entry){
               .name = "n", .dtype = MBA_WIRE_F32, .rank = 1, .shape = { 1 << 20 }, .fill = fail_late }));
    assert_fails(mba_safetensors_commit(w), MBA_E_DEVICE, "the device is gone\nwhere: tensor \"n\"");
    mba_safetensors_destroy(w);
    assert_int_equal(scratch_entries(""), 0);
}

static void wrong_names_are_refused(void **state)
{
    (void)state;
    mba_safetensors_writer *w;
    mba_safetensors_entry   e = { .name = "a", .dtype = MBA_WIRE_F32, .rank = 1 };
    assert_fails(mba_safetensors_create(&w, scratch("no/a")), MBA_E_IO, "the directory must exist");
    assert_ok(mba_safetensors_create(&w, scratch("a")));
    const char *const bad[] = { "", "__metadata__", "\xff" };
    for (int i = 0; i < 3; i++) {
        e.name = bad[i];
        assert_fails(mba_safetensors_add(w, &e), MBA_E_ARG, "cannot be called");
    }
    assert_fails(mba_safetensors_note(w, "k", "\xff"), MBA_E_ARG, "not valid UTF-8");
    e.name = "a";
    assert_ok(mba_safetensors_add(w, &e));
    assert_ok(mba_safetensors_add(w, &e));
    assert_fails(mba_safetensors_commit(w), MBA_E_ARG, "two tensors called \"a\"");
    mba_safetensors_destroy(w);
    assert_int_equal(scratch_entries(""), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_of_the_reference_is_read),
        cmocka_unit_test(the_example_of_the_format_is_read),
        cmocka_unit_test(every_truncation_is_refused),
        cmocka_unit_test(every_flipped_byte_is_survived),
        cmocka_unit_test(headers_may_have_any_order_and_spaces),
        cmocka_unit_test(every_broken_rule_of_an_entry_is_named),
        cmocka_unit_test(every_broken_rule_of_a_file_is_named),
        cmocka_unit_test(hostile_names_stay_on_one_line),
        cmocka_unit_test(the_example_of_the_format_is_written),
        cmocka_unit_test(our_file_is_the_reference_s_byte_for_byte),
        cmocka_unit_test(what_is_put_later_gives_the_same_file),
        cmocka_unit_test(large_tensors_come_from_a_callback),
        cmocka_unit_test(a_failed_callback_leaves_no_file),
        cmocka_unit_test(wrong_names_are_refused),
    };
    scratch_make();
    const int failures = cmocka_run_group_tests(tests, NULL, NULL);
    scratch_remove();
    return failures;
}
