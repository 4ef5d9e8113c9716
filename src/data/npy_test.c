// SPDX-License-Identifier: Apache-2.0
/* npy_test.c -- npy.h reads NumPy's files, writes the same bytes as NumPy, and refuses the rest with a reason. */
#include "tests/test.h"
#include "tests/scratch.h"
#include "core/file.h"
#include "data/npy.h"

#define DATA "tests/data/formats/"

static void check_values(const char *path, mba_file_dtype t, int rank, double scale)
{
    mba_npy *f;
    float    x[6];
    double   d[6];
    assert_ok(mba_npy_open(&f, path));
    const mba_array *a = mba_npy_array(f);
    assert_int_equal(a->dtype, t);
    assert_int_equal(a->rank, rank);
    if (rank == 2) assert_true(a->shape[0] == 2 && a->shape[1] == 3);
    assert_ok(mba_array_read_f32(a, x, 6));
    assert_ok(mba_array_read_f64(a, d, 6));
    for (int i = 0; i < 6; i++) assert_true(d[i] == (i / 4.0 - 1) * scale && x[i] == d[i]);
    assert_fails(mba_array_read_f32(a, x, 5), MBA_E_SHAPE, path);
    mba_npy_close(f);
}

static void files_of_numpy_are_read(void **state)
{
    (void)state;
    check_values(DATA "f32.npy", MBA_WIRE_F32, 2, 1); // version 1
    check_values(DATA "f64.npy", MBA_WIRE_F64, 2, 1); // version 2
    check_values(DATA "i32.npy", MBA_WIRE_I32, 2, 4); // version 3
    check_values(DATA "i64.npy", MBA_WIRE_I64, 1, 4);
    mba_npy *f;
    float    x[2];
    assert_ok(mba_npy_open(&f, DATA "scalar.npy"));
    assert_int_equal(mba_npy_array(f)->rank, 0);
    assert_ok(mba_array_read_f32(mba_npy_array(f), x, 1));
    assert_true(x[0] == 0.5f);
    mba_npy_close(f);
    assert_ok(mba_npy_open(&f, DATA "empty.npy"));
    assert_true(mba_npy_array(f)->elems == 0 && mba_npy_array(f)->shape[1] == 7);
    mba_npy_close(f);
    assert_ok(mba_npy_open(&f, DATA "rank8.npy"));
    assert_true(mba_npy_array(f)->rank == 8 && mba_npy_array(f)->shape[3] == 2);
    mba_npy_close(f);
}

static void what_we_cannot_read_has_its_reason(void **state)
{
    (void)state;
    mba_npy *f = NULL;
    assert_fails(mba_npy_open(&f, DATA "fortran.npy"), MBA_E_UNSUPPORTED, "Fortran (column) order");
    assert_fails(mba_npy_open(&f, DATA "big.npy"), MBA_E_UNSUPPORTED, "big-endian");
    assert_fails(mba_npy_open(&f, DATA "object.npy"), MBA_E_UNSUPPORTED, "Python objects");
    assert_fails(mba_npy_open(&f, DATA "fields.npy"), MBA_E_UNSUPPORTED, "structured");
    assert_fails(mba_npy_open(&f, DATA "bool.npy"), MBA_E_UNSUPPORTED, "its type is '|b1'");
    assert_fails(mba_npy_open(&f, DATA "rank9.npy"), MBA_E_UNSUPPORTED, "more than 8 dimensions");
    assert_fails(mba_npy_open(&f, DATA "example.safetensors"), MBA_E_FORMAT, "does not begin as such a file");
    assert_fails(mba_npy_open(&f, DATA "none.npy"), MBA_E_IO, "No such file");
    assert_null(f);
}

/* A version 1 file from the text of a header and some zero bytes. */
static mba_status open_made(mba_npy **f, const char *header, size_t data)
{
    static char  bytes[1024];
    const size_t n = strlen(header);
    memset(bytes, 0, sizeof bytes);
    memcpy(bytes, "\x93NUMPY\1\0", 8);
    bytes[8] = (char)n;
    memcpy(bytes + 10, header, n);
    return mba_npy_open_bytes(f, "made", bytes, 10 + n + data);
}

static void assert_refused(const char *header, size_t data, const char *words)
{
    mba_npy *f = NULL;
    assert_fails(open_made(&f, header, data), MBA_E_FORMAT, words);
    assert_null(f);
    assert_non_null(strstr(mba_message(), "'made'"));
}

static void assert_opens(const char *header, size_t data)
{
    mba_npy *f;
    assert_ok(open_made(&f, header, data));
    mba_npy_close(f);
}

#define HEAD "{'descr': '<f4', 'fortran_order': False, 'shape': "

static void headers_may_vary_as_python_does(void **state)
{
    (void)state;
    assert_opens(HEAD "(2,)}", 8);
    assert_opens(HEAD "(2,), }   \n", 8);
    assert_opens(HEAD "(1,2,)}\n", 8);
    assert_opens("{\"shape\":(),\"descr\":\"<i8\",\"fortran_order\":False}", 8);
    assert_opens(HEAD "( 0 , 3 )}", 0);
}

static void every_broken_rule_is_named(void **state)
{
    (void)state;
    assert_refused("", 0, "not a dictionary");
    assert_refused("[1]", 0, "not a dictionary");
    assert_refused("{descr: 1}", 0, "a key without quotes");
    assert_refused("{'desc': '<f4'}", 0, "a key other than");
    assert_refused("{'descr': 4}", 0, "'descr' should be a text");
    assert_refused("{'descr': '<f4", 0, "'descr' should be a text");
    assert_refused("{'descr': '<\\x66f4'}", 0, "'descr' should be a text");
    assert_refused("{'descr': '<f4' 'shape': ()}", 0, "unexpected between two keys");
    assert_refused("{'descr': '<f4', 'descr': '<f4'}", 0, "a key twice");
    assert_refused("{'descr': '<f4', 'shape': ()}", 4, "lacks one of");
    assert_refused("{'fortran_order': 0}", 0, "should be True or False");
    assert_refused(HEAD "3}", 12, "should be a tuple");
    assert_refused(HEAD "(3)}", 12, "should be a tuple");
    assert_refused(HEAD "(-3,)}", 12, "should be a tuple");
    assert_refused(HEAD "(3,,)}", 12, "should be a tuple");
    assert_refused(HEAD "(3 4)}", 12, "should be a tuple");
    assert_refused(HEAD "(99999999999999999999,)}", 12, "should be a tuple");
    assert_refused(HEAD "(3,", 12, "should be a tuple");
    assert_refused(HEAD "(4294967296, 4294967296)}", 12, "does not fit 63 bits");
    assert_refused(HEAD "(3,)} x", 12, "goes on after the dictionary");
    assert_refused(HEAD "(3,)}", 11, "has 11 bytes of data\nwhy: F32 of shape (3) takes 12");
    assert_refused(HEAD "(3,)}", 13, "has 13 bytes of data");
    mba_npy *f = NULL;
    assert_fails(mba_npy_open_bytes(&f, "x", "\x93NUMPY\4\0\2\0{}", 12), MBA_E_UNSUPPORTED, "its version is not");
    assert_fails(mba_npy_open_bytes(&f, "x", "\x93NUMPY\1\1\2\0{}", 12), MBA_E_UNSUPPORTED, "its version is not");
    assert_fails(mba_npy_open_bytes(&f, "x", "\x93NUMPY\1\0\3\0{}", 12), MBA_E_FORMAT, "truncated inside its header");
    assert_fails(mba_npy_open_bytes(&f, "x", "\x93NUMPY\2\0\3\0", 10), MBA_E_FORMAT, "truncated inside its header");
    assert_fails(mba_npy_open_bytes(&f, "x", "\x93NUMPY\2\0\xff\xff\xff\xff", 12), MBA_E_FORMAT, "larger than any");
}

static void every_truncation_is_refused(void **state)
{
    (void)state;
    const char *paths[] = { DATA "f32.npy", DATA "f64.npy", DATA "i32.npy", DATA "scalar.npy", DATA "empty.npy" };
    for (int p = 0; p < 5; p++) {
        mba_map  map;
        mba_npy *f = NULL;
        assert_ok(mba_file_map(&map, paths[p]));
        for (size_t n = 0; n < map.bytes; n++) {
            char *cut = malloc(n ? n : 1); // of its exact size, for the sanitizer
            memcpy(cut, map.data, n);
            assert_int_equal(mba_npy_open_bytes(&f, "cut", cut, n), MBA_E_FORMAT);
            free(cut);
        }
        mba_file_unmap(&map);
    }
}

static void assert_same_files(const char *a, const char *b)
{
    mba_map x, y;
    assert_ok(mba_file_map(&x, a));
    assert_ok(mba_file_map(&y, b));
    assert_int_equal(x.bytes, y.bytes);
    assert_memory_equal(x.data, y.data, x.bytes);
    mba_file_unmap(&x);
    mba_file_unmap(&y);
}

static void our_files_are_numpy_s_byte_for_byte(void **state)
{
    (void)state;
    const float   quarters[] = { -1, -0.75f, -0.5f, -0.25f, 0, 0.25f };
    const int64_t whole[] = { -4, -3, -2, -1, 0, 1 };
    const int32_t pair[] = { 0, 1 };
    const float   half = 0.5f;
    assert_ok(mba_npy_write(scratch("a.npy"), MBA_WIRE_F32, 2, (int64_t[]){ 2, 3 }, quarters));
    assert_same_files(scratch("a.npy"), DATA "f32.npy");
    assert_ok(mba_npy_write(scratch("a.npy"), MBA_WIRE_I64, 1, (int64_t[]){ 6 }, whole));
    assert_same_files(scratch("a.npy"), DATA "i64.npy");
    assert_ok(mba_npy_write(scratch("a.npy"), MBA_WIRE_I32, 8, (int64_t[]){ 1, 1, 1, 2, 1, 1, 1, 1 }, pair));
    assert_same_files(scratch("a.npy"), DATA "rank8.npy");
    assert_ok(mba_npy_write(scratch("a.npy"), MBA_WIRE_F32, 0, NULL, &half));
    assert_same_files(scratch("a.npy"), DATA "scalar.npy");
    assert_ok(mba_npy_write(scratch("a.npy"), MBA_WIRE_F32, 2, (int64_t[]){ 0, 7 }, NULL));
    assert_same_files(scratch("a.npy"), DATA "empty.npy");
    assert_fails(mba_npy_write(scratch("no/a.npy"), MBA_WIRE_F32, 0, NULL, &half), MBA_E_IO,
                 "the directory must exist");
    assert_int_equal(scratch_entries(""), 1);
}

static void the_longest_shape_is_written_and_read(void **state)
{
    (void)state;
    const int64_t shape[8] = { 0, 1000000000000, 1, 1, 1, 1, 1, 1000000 };
    mba_npy      *f;
    assert_ok(mba_npy_write(scratch("a.npy"), MBA_WIRE_F32, 8, shape, NULL));
    assert_ok(mba_npy_open(&f, scratch("a.npy")));
    assert_memory_equal(mba_npy_array(f)->shape, shape, sizeof shape);
    mba_npy_close(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_of_numpy_are_read),
        cmocka_unit_test(what_we_cannot_read_has_its_reason),
        cmocka_unit_test(headers_may_vary_as_python_does),
        cmocka_unit_test(every_broken_rule_is_named),
        cmocka_unit_test(every_truncation_is_refused),
        cmocka_unit_test(our_files_are_numpy_s_byte_for_byte),
        cmocka_unit_test(the_longest_shape_is_written_and_read),
    };
    scratch_make();
    const int failures = cmocka_run_group_tests(tests, NULL, NULL);
    scratch_remove();
    return failures;
}
