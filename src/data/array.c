// SPDX-License-Identifier: Apache-2.0
/* array.c -- see array.h: conversions between the types of files and fp32 or fp64, and text for messages. */
#include "data/array.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "files are little-endian, and so must be the host");

static const struct {
    const char *name;
    size_t      bytes;
} wires[MBA_WIRES] = {
#define X(name, bytes) { #name, bytes },
    MBA_WIRE_LIST(X)
#undef X
};

size_t      mba_file_dtype_bytes(mba_file_dtype t) { return wires[t].bytes; }
const char *mba_file_dtype_name(mba_file_dtype t) { return wires[t].name; }

bool mba_file_dtype_parse(mba_file_dtype *out, const char *name)
{
    for (int t = 0; t < MBA_WIRES; t++)
        if (!strcmp(name, wires[t].name)) {
            *out = (mba_file_dtype)t;
            return true;
        }
    return false;
}

bool mba_array_measure(mba_array *a)
{
    int64_t bytes = (int64_t)wires[a->dtype].bytes;
    bool    empty = false;
    for (int i = 0; i < a->rank; i++) {
        if (a->shape[i] == 0) empty = true;
        else if (__builtin_mul_overflow(bytes, a->shape[i], &bytes)) return false;
    }
    a->bytes = empty ? 0 : bytes;
    a->elems = a->bytes / (int64_t)wires[a->dtype].bytes;
    return true;
}

/* ---- numbers ---- */

/* Converts half precision by moving bits. Subnormals become normal fp32 numbers by one exact subtraction, which, unlike
 * the usual multiplication, has no fp32 subnormal as an intermediate result and works with flush-to-zero. It has no
 * branches, so that loops are vectorised. */
static float from_f16(uint16_t h)
{
    const uint32_t exponent = h & 0x7c00;
    uint32_t       u = ((uint32_t)(h & 0x7fff) << 13) + (112u << 23);
    float          f;
    u += exponent == 0x7c00 ? 112u << 23 : 0; // infinity, NaN
    u += exponent == 0 ? 1u << 23 : 0;
    memcpy(&f, &u, sizeof f);
    f -= exponent == 0 ? 0x1p-14f : 0;
    memcpy(&u, &f, sizeof u);
    u |= (uint32_t)(h & 0x8000) << 16;
    memcpy(&f, &u, sizeof f);
    return f;
}

static float from_bf16(uint16_t h)
{
    const uint32_t u = (uint32_t)h << 16;
    float          f;
    memcpy(&f, &u, sizeof f);
    return f;
}

static mba_status where(mba_status st, const mba_array *a)
{
    return a->name ? mba_where(st, "'%s', tensor \"%s\"", a->file, mba_quote(a->name).text)
                   : mba_where(st, "'%s'", a->file);
}

static mba_status check_count(const mba_array *a, int64_t count)
{
    if (count == a->elems) return MBA_OK;
    return where(mba_fail(MBA_E_SHAPE,
                          "%" PRId64 " values are needed, the file has %" PRId64 "\nwhy: its shape is %s\n"
                          "fix: take the file that belongs to this model",
                          count, a->elems, mba_shape_words(a->rank, a->shape).text),
                 a);
}

static mba_status not_numbers(const mba_array *a)
{
    return where(mba_fail(MBA_E_UNSUPPORTED,
                          "numbers of type %s cannot be read\nwhy: only F32, F16, BF16, F64 and "
                          "integers are\nfix: convert the file to one of these",
                          mba_file_dtype_name(a->dtype)),
                 a);
}

static mba_status too_big(const mba_array *a, int64_t i, const char *type)
{
    return where(mba_fail(MBA_E_FORMAT,
                          "value %" PRId64 " does not fit %s\nwhy: it is stored as %s and is too large\n"
                          "fix: check where the file comes from",
                          i, type, mba_file_dtype_name(a->dtype)),
                 a);
}

/* A case of a switch over a->dtype: converts every value, `type v`, by `expression`. */
#define EACH(wire, type, expression) \
    case MBA_WIRE_##wire: \
        for (int64_t i = 0; i < count; i++) { \
            type v; \
            memcpy(&v, (const char *)a->data + i * (int64_t)sizeof v, sizeof v); \
            out[i] = (expression); \
        } \
        return MBA_OK;

static mba_status f64_to_f32(const mba_array *a, float *out)
{
    for (int64_t i = 0; i < a->elems; i++) {
        double v;
        memcpy(&v, (const char *)a->data + i * (int64_t)sizeof v, sizeof v);
        if (isfinite(v) && fabs(v) >= 0x1.ffffffp127) return too_big(a, i, "fp32"); // halfway to 2^128
        out[i] = (float)v;
    }
    return MBA_OK;
}

mba_status mba_array_read_f32(const mba_array *a, float *out, int64_t count)
{
    MBA_TRY(check_count(a, count));
    switch (a->dtype) {
        EACH(BF16, uint16_t, from_bf16(v))
        EACH(F16, uint16_t, from_f16(v))
        EACH(BOOL, uint8_t, v != 0)
        EACH(U8, uint8_t, v)
        EACH(I8, int8_t, v)
        EACH(U16, uint16_t, v)
        EACH(I16, int16_t, v)
        EACH(U32, uint32_t, (float)v)
        EACH(I32, int32_t, (float)v)
        EACH(U64, uint64_t, (float)v)
        EACH(I64, int64_t, (float)v)
    case MBA_WIRE_F64: return f64_to_f32(a, out);
    case MBA_WIRE_F32:
        if (count) memcpy(out, a->data, (size_t)a->bytes);
        return MBA_OK;
    default: return not_numbers(a);
    }
}

mba_status mba_array_read_f32_at(const mba_array *a, float *out, int64_t first, int64_t count)
{
    mba_array     part = *a;
    const int64_t size = (int64_t)mba_file_dtype_bytes(a->dtype);
    mba_assert(first >= 0 && count >= 0 && first <= a->elems - count);
    part.data = (const char *)a->data + first * size;
    part.elems = count;
    part.bytes = count * size;
    return mba_array_read_f32(&part, out, count);
}

/* 64-bit integers up to 2^53 in size are exact as doubles. */
static mba_status i64_to_f64(const mba_array *a, double *out)
{
    const int64_t exact = (int64_t)1 << 53;
    for (int64_t i = 0; i < a->elems; i++) {
        int64_t v;
        memcpy(&v, (const char *)a->data + i * (int64_t)sizeof v, sizeof v);
        const bool wraps = a->dtype == MBA_WIRE_U64 && v < 0;
        if (wraps || v > exact || v < -exact) return too_big(a, i, "fp64 exactly");
        out[i] = (double)v;
    }
    return MBA_OK;
}

mba_status mba_array_read_f64(const mba_array *a, double *out, int64_t count)
{
    MBA_TRY(check_count(a, count));
    switch (a->dtype) {
        EACH(F32, float, v)
        EACH(BF16, uint16_t, from_bf16(v))
        EACH(F16, uint16_t, from_f16(v))
        EACH(BOOL, uint8_t, v != 0)
        EACH(U8, uint8_t, v)
        EACH(I8, int8_t, v)
        EACH(U16, uint16_t, v)
        EACH(I16, int16_t, v)
        EACH(U32, uint32_t, v)
        EACH(I32, int32_t, v)
    case MBA_WIRE_U64:
    case MBA_WIRE_I64: return i64_to_f64(a, out);
    case MBA_WIRE_F64:
        if (count) memcpy(out, a->data, (size_t)a->bytes);
        return MBA_OK;
    default: return not_numbers(a);
    }
}

/* ---- text for messages ---- */

mba_words mba_shape_words(int rank, const int64_t *shape)
{
    mba_words w = { "(" };
    size_t    n = 1;
    for (int i = 0; i < rank && n < sizeof w.text; i++)
        n += (size_t)snprintf(w.text + n, sizeof w.text - n, i ? ", %" PRId64 : "%" PRId64, shape[i]);
    if (n < sizeof w.text) snprintf(w.text + n, sizeof w.text - n, ")");
    return w;
}

mba_words mba_quote(const char *text) { return mba_quote_bytes(text, strlen(text)); }

mba_words mba_quote_bytes(const char *text, size_t n)
{
    mba_words w;
    size_t    at = 0;
    for (size_t i = 0; i < n; i++) {
        const unsigned char c = (unsigned char)text[i];
        if (at + 8 > sizeof w.text) { // room for \xNN, "..." and the NUL
            memcpy(w.text + at, "...", 3);
            at += 3;
            break;
        }
        if (c >= ' ' && c < 127) w.text[at++] = (char)c;
        else at += (size_t)snprintf(w.text + at, 5, "\\x%02x", c);
    }
    w.text[at] = 0;
    return w;
}
