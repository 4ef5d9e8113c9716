// SPDX-License-Identifier: Apache-2.0
/* array_test.c -- array.h reads numbers of every type, refuses impossible sizes, and makes text safe to print. */
#include <stdbool.h>
#include "tests/test.h"
#include "data/array.h"

static mba_array array_of(mba_file_dtype t, const void *data, int64_t n)
{
    mba_array a = { .file = "f", .name = "x", .dtype = t, .rank = 1, .shape = { n }, .data = data };
    assert_true(mba_array_measure(&a));
    return a;
}

/* Every half-precision number against its definition: (-1)^s 2^(e-15) (1 + m/1024), subnormals at e = 0. */
static void every_half_is_read_exactly(void **state)
{
    (void)state;
    static uint16_t bits[65536];
    static float    got[65536];
    static double   wide[65536];
    for (int i = 0; i < 65536; i++) bits[i] = (uint16_t)i;
    mba_array a = array_of(MBA_WIRE_F16, bits, 65536);
    assert_ok(mba_array_read_f32(&a, got, 65536));
    assert_ok(mba_array_read_f64(&a, wide, 65536));
    for (int i = 0; i < 65536; i++) {
        const int    e = i >> 10 & 31, m = i & 1023;
        const double v = e == 31 ? INFINITY : e ? ldexp(1024 + m, e - 25) : ldexp(m, -24);
        if (e == 31 && m) {
            assert_true(isnan(got[i]) && isnan(wide[i]));
            continue;
        }
        assert_true(got[i] == (i >> 15 ? -v : v) && wide[i] == got[i]);
        assert_int_equal(signbit(got[i]) != 0, i >> 15);
    }
}

static void every_bfloat_is_the_top_of_a_float(void **state)
{
    (void)state;
    static uint16_t bits[65536];
    static float    got[65536];
    for (int i = 0; i < 65536; i++) bits[i] = (uint16_t)i;
    mba_array a = array_of(MBA_WIRE_BF16, bits, 65536);
    assert_ok(mba_array_read_f32(&a, got, 65536));
    for (int i = 0; i < 65536; i++) {
        uint32_t u;
        memcpy(&u, &got[i], 4);
        if (!isnan(got[i])) assert_int_equal(u, (uint32_t)i << 16);
        else assert_true((i & 0x7f80) == 0x7f80 && (i & 0x7f));
    }
}

#define ASSERT_READS(wire, type, ...) \
    do { \
        const type   in[] = { __VA_ARGS__ }; \
        const double want[] = { __VA_ARGS__ }; \
        enum { n = sizeof in / sizeof *in }; \
        char   odd[sizeof in + 1]; /* at an odd address */ \
        float  f[n]; \
        double d[n]; \
        memcpy(odd + 1, in, sizeof in); \
        mba_array a = array_of(MBA_WIRE_##wire, odd + 1, n); \
        assert_ok(mba_array_read_f32(&a, f, n)); \
        assert_ok(mba_array_read_f64(&a, d, n)); \
        for (int i = 0; i < n; i++) assert_true(f[i] == (float)want[i] && d[i] == want[i]); \
    } while (0)

static void all_other_types_are_read(void **state)
{
    (void)state;
    ASSERT_READS(F32, float, 1.5f, -0x1p-149f, 0x1.fffffep127f, INFINITY);
    ASSERT_READS(F64, double, 1.5, 1.0 / 3, -1e30, 1e-300, 0x1.fffffefffffffp127);
    ASSERT_READS(I64, int64_t, 0, -1, 1LL << 53, -(1LL << 53), 16777217);
    ASSERT_READS(U64, uint64_t, 0, 1ULL << 53);
    ASSERT_READS(I32, int32_t, INT32_MIN, INT32_MAX, 16777217);
    ASSERT_READS(U32, uint32_t, 0, UINT32_MAX);
    ASSERT_READS(I16, int16_t, -32768, 32767);
    ASSERT_READS(U16, uint16_t, 0, 65535);
    ASSERT_READS(I8, int8_t, -128, 127);
    ASSERT_READS(U8, uint8_t, 0, 255);
    ASSERT_READS(BOOL, uint8_t, 0, 1);
}

static void a_large_integer_is_rounded_once(void **state)
{
    (void)state;
    // 2^60 + 2^36 + 1 is just above the middle of two floats; by way of a double it would be the middle.
    const int64_t v = (1LL << 60) + (1LL << 36) + 1;
    float         f;
    mba_array     a = array_of(MBA_WIRE_I64, &v, 1);
    assert_ok(mba_array_read_f32(&a, &f, 1));
    assert_true(f == 0x1.000002p60f);
}

static void values_that_do_not_fit_are_refused(void **state)
{
    (void)state;
    const double   big[] = { 0, -0x1.ffffffp127 };
    const int64_t  odd = (1LL << 53) + 1;
    const uint64_t top = UINT64_MAX;
    float          f[2];
    double         d;
    mba_array      a = array_of(MBA_WIRE_F64, big, 2);
    assert_fails(mba_array_read_f32(&a, f, 2), MBA_E_FORMAT, "value 1 does not fit fp32");
    assert_non_null(strstr(mba_message(), "where: 'f', tensor \"x\""));
    a = array_of(MBA_WIRE_I64, &odd, 1);
    assert_fails(mba_array_read_f64(&a, &d, 1), MBA_E_FORMAT, "does not fit fp64 exactly");
    a = array_of(MBA_WIRE_U64, &top, 1);
    assert_fails(mba_array_read_f64(&a, &d, 1), MBA_E_FORMAT, "does not fit fp64 exactly");
    a = array_of(MBA_WIRE_F8_E4M3, &top, 1);
    assert_fails(mba_array_read_f32(&a, f, 1), MBA_E_UNSUPPORTED, "type F8_E4M3");
    assert_fails(mba_array_read_f64(&a, &d, 1), MBA_E_UNSUPPORTED, "type F8_E4M3");
}

static void the_number_of_values_must_be_right(void **state)
{
    (void)state;
    const float in[6] = { 0 };
    float       out[7];
    mba_array   a = { .file = "f", .dtype = MBA_WIRE_F32, .rank = 2, .shape = { 2, 3 }, .data = in };
    assert_true(mba_array_measure(&a));
    assert_fails(mba_array_read_f32(&a, out, 7), MBA_E_SHAPE, "its shape is (2, 3)");
    assert_fails(mba_array_read_f32(&a, out, 5), MBA_E_SHAPE, "5 values are needed, the file has 6");
    assert_non_null(strstr(mba_message(), "where: 'f'"));
    assert_ok(mba_array_read_f32(&a, out, 6));
}

static bool measures(mba_file_dtype t, int rank, int64_t a, int64_t b, int64_t c, int64_t elems)
{
    mba_array x = { .dtype = t, .rank = rank, .shape = { a, b, c } };
    return mba_array_measure(&x) && x.elems == elems && x.bytes == elems * (int64_t)mba_file_dtype_bytes(t);
}

static void sizes_are_computed_without_wrapping(void **state)
{
    (void)state;
    assert_true(measures(MBA_WIRE_F32, 0, 0, 0, 0, 1));
    assert_true(measures(MBA_WIRE_F64, 3, 2, 3, 4, 24));
    assert_true(measures(MBA_WIRE_U8, 2, 1LL << 31, 1LL << 31, 0, 1LL << 62));
    assert_true(measures(MBA_WIRE_F32, 3, 5, 0, 7, 0));
    assert_true(measures(MBA_WIRE_U8, 1, INT64_MAX, 0, 0, INT64_MAX));
    mba_array x = { .dtype = MBA_WIRE_F32, .rank = 1, .shape = { 1LL << 61 } };
    assert_false(mba_array_measure(&x));
    x = (mba_array){ .dtype = MBA_WIRE_U8, .rank = 2, .shape = { 1LL << 32, 1LL << 32 } };
    assert_false(mba_array_measure(&x));
    x = (mba_array){ .dtype = MBA_WIRE_U8, .rank = 3, .shape = { 0, 1LL << 62, 1LL << 62 } };
    assert_false(mba_array_measure(&x));
}

static void types_have_names_and_sizes(void **state)
{
    (void)state;
    const char    *names[] = { "BOOL", "U8",  "I8",  "F8_E5M2", "F8_E4M3", "I16", "U16", "F16",
                               "BF16", "I32", "U32", "F32",     "F64",     "I64", "U64" };
    const size_t   bytes[] = { 1, 1, 1, 1, 1, 2, 2, 2, 2, 4, 4, 4, 8, 8, 8 };
    mba_file_dtype t;
    for (int i = 0; i < 15; i++) {
        assert_true(mba_file_dtype_parse(&t, names[i]));
        assert_string_equal(mba_file_dtype_name(t), names[i]);
        assert_int_equal(mba_file_dtype_bytes(t), bytes[i]);
    }
    assert_false(mba_file_dtype_parse(&t, "f32"));
    assert_false(mba_file_dtype_parse(&t, ""));
}

static void text_from_files_is_made_harmless(void **state)
{
    (void)state;
    assert_string_equal(mba_quote("layers.0.A_log").text, "layers.0.A_log");
    assert_string_equal(mba_quote("a\nfix: \x1b[2J\x7f\xc3\xa9").text, "a\\x0afix: \\x1b[2J\\x7f\\xc3\\xa9");
    assert_string_equal(mba_quote("").text, "");
    char text[1000];
    for (size_t n = 0; n < sizeof text; n++) { // of any length and cost per character
        memset(text, n % 2 ? 'a' : '\n', sizeof text);
        const mba_words w = mba_quote_bytes(text, n);
        assert_true(strlen(w.text) < sizeof w.text);
        if (n > sizeof w.text) assert_string_equal(w.text + strlen(w.text) - 3, "...");
    }
    assert_string_equal(mba_shape_words(0, NULL).text, "()");
    int64_t huge[8];
    for (int i = 0; i < 8; i++) huge[i] = INT64_MAX;
    assert_int_equal(strlen(mba_shape_words(8, huge).text), 8 * 19 + 7 * 2 + 2);
    assert_string_equal(mba_shape_words(1, (const int64_t[]){ -1 }).text, "(-1)");
    assert_string_equal(mba_shape_words(3, (const int64_t[]){ 0, 12, 345 }).text, "(0, 12, 345)");
    int64_t many[100];
    for (int i = 0; i < 100; i++) many[i] = i < 62 ? 1 : 12;
    for (int rank = 60; rank <= 100; rank++) { // cut where there is no room
        const mba_words w = mba_shape_words(rank, many);
        const size_t    whole = 3 * (size_t)rank + (size_t)(rank > 62 ? rank - 62 : 0), room = sizeof w.text - 1;
        assert_int_equal(strlen(w.text), whole < room ? whole : room);
        assert_int_equal(w.text[strlen(w.text) - 1] == ')', whole <= room);
    }
}

MBA_TEST_MAIN(cmocka_unit_test(every_half_is_read_exactly), cmocka_unit_test(every_bfloat_is_the_top_of_a_float),
              cmocka_unit_test(all_other_types_are_read), cmocka_unit_test(a_large_integer_is_rounded_once),
              cmocka_unit_test(values_that_do_not_fit_are_refused),
              cmocka_unit_test(the_number_of_values_must_be_right),
              cmocka_unit_test(sizes_are_computed_without_wrapping), cmocka_unit_test(types_have_names_and_sizes),
              cmocka_unit_test(text_from_files_is_made_harmless))
