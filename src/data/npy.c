// SPDX-License-Identifier: Apache-2.0
/* npy.c -- see npy.h.
 *
 * The file: "\x93NUMPY", two bytes of version, the header's length (2 bytes in version 1, else 4), the header,
 * the data. The header is a Python dictionary such as
 *     {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }
 * of which we accept exactly these three keys and the literals they can have. */
#include "data/npy.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "core/file.h"

enum { HEADER_MAX = 65536, GROWTH_DIGITS = 21 };

struct mba_npy {
    char     *file;
    mba_map   map;
    mba_array array;
};

static const struct {
    mba_file_dtype wire;
    const char    *descr;
} types[] = {
    { MBA_WIRE_F32, "<f4" },
    { MBA_WIRE_F64, "<f8" },
    { MBA_WIRE_I32, "<i4" },
    { MBA_WIRE_I64, "<i8" },
};
enum { TYPES = sizeof types / sizeof *types };

/* ---- the dictionary ---- */

typedef struct text {
    const char *at, *end, *file;
} text;

static mba_status wrong(const char *file, const char *why)
{
    return mba_fail(MBA_E_FORMAT, "'%s' is not a valid .npy file\nwhy: %s\nfix: save it again with numpy.save", file,
                    why);
}

static mba_status unsupported(const char *file, const char *why, const char *fix)
{
    return mba_fail(MBA_E_UNSUPPORTED, "the array in '%s' cannot be read\nwhy: %s\nfix: %s", file, why, fix);
}

static void skip_spaces(text *t)
{
    while (t->at < t->end && (*t->at == ' ' || *t->at == '\n' || *t->at == '\t' || *t->at == '\r')) t->at++;
}

/* Consumes one character, after spaces, if it comes next. */
static bool take(text *t, char c)
{
    skip_spaces(t);
    if (t->at == t->end || *t->at != c) return false;
    t->at++;
    return true;
}

static bool take_word(text *t, const char *word)
{
    const size_t n = strlen(word);
    skip_spaces(t);
    if ((size_t)(t->end - t->at) < n || memcmp(t->at, word, n)) return false;
    t->at += n;
    return true;
}

/* Consumes a quoted string without escapes; *out points into the header. */
static bool take_quoted(text *t, const char **out, size_t *n)
{
    skip_spaces(t);
    if (t->at == t->end || (*t->at != '\'' && *t->at != '"')) return false;
    const char *stop = memchr(t->at + 1, *t->at, (size_t)(t->end - t->at - 1));
    if (!stop || memchr(t->at, '\\', (size_t)(stop - t->at))) return false;
    *out = t->at + 1;
    *n = (size_t)(stop - *out);
    t->at = stop + 1;
    return true;
}

static bool take_integer(text *t, int64_t *out)
{
    skip_spaces(t);
    const char *first = t->at;
    *out = 0;
    for (; t->at < t->end && *t->at >= '0' && *t->at <= '9'; t->at++)
        if (__builtin_mul_overflow(*out, 10, out) || __builtin_add_overflow(*out, *t->at - '0', out)) return false;
    return t->at > first;
}

static mba_status read_descr(mba_array *a, text *t)
{
    const char *d;
    size_t      n;
    skip_spaces(t);
    if (t->at < t->end && *t->at == '[')
        return unsupported(t->file, "it is a structured array", "save its fields as arrays of their own");
    if (!take_quoted(t, &d, &n)) return wrong(t->file, "'descr' should be a text such as '<f4'");
    for (int i = 0; i < TYPES; i++)
        if (n == 3 && !memcmp(d, types[i].descr, 3)) {
            a->dtype = types[i].wire;
            return MBA_OK;
        }
    if (n && d[0] == '>')
        return unsupported(t->file, "its numbers are big-endian", "save it with a.astype(a.dtype.newbyteorder('<'))");
    if (n >= 2 && d[1] == 'O')
        return unsupported(t->file, "it holds Python objects, not numbers", "save it as numbers");
    return mba_fail(MBA_E_UNSUPPORTED,
                    "the array in '%s' cannot be read\nwhy: its type is '%s'; int32, int64, float32 "
                    "and float64 are supported\nfix: save it with a.astype('int32') or 'float32'",
                    t->file, mba_quote_bytes(d, n).text);
}

static mba_status read_order(text *t)
{
    if (take_word(t, "False")) return MBA_OK;
    if (take_word(t, "True"))
        return unsupported(t->file, "it is in Fortran (column) order", "save it with numpy.ascontiguousarray(a)");
    return wrong(t->file, "'fortran_order' should be True or False");
}

static mba_status read_shape(mba_array *a, text *t)
{
    static const char *const form = "'shape' should be a tuple such as (3, 4)";
    int64_t                  d;
    if (!take(t, '(')) return wrong(t->file, form);
    while (!take(t, ')')) {
        if (!take_integer(t, &d)) return wrong(t->file, form);
        if (a->rank == MBA_ARRAY_RANK_MAX)
            return unsupported(t->file, "it has more than 8 dimensions", "reshape it before saving");
        a->shape[a->rank++] = d;
        if (take(t, ',')) continue;
        if (a->rank == 1 || !take(t, ')')) return wrong(t->file, form); // (3) is a number, (3,) a tuple
        break;
    }
    return MBA_OK;
}

static mba_status read_dictionary(mba_array *a, text *t)
{
    static const char *const keys[] = { "descr", "fortran_order", "shape" };
    const char              *key;
    size_t                   n;
    unsigned                 seen = 0;
    if (!take(t, '{')) return wrong(t->file, "its header is not a dictionary");
    while (!take(t, '}')) {
        int k = 0;
        if (!take_quoted(t, &key, &n) || !take(t, ':')) return wrong(t->file, "its header has a key without quotes");
        while (k < 3 && !(n == strlen(keys[k]) && !memcmp(key, keys[k], n))) k++;
        if (k == 3) return wrong(t->file, "its header has a key other than descr, fortran_order and shape");
        if (seen & 1u << k) return wrong(t->file, "its header has a key twice");
        seen |= 1u << k;
        MBA_TRY(k == 0 ? read_descr(a, t) : k == 1 ? read_order(t) : read_shape(a, t));
        if (take(t, ',')) continue;
        if (!take(t, '}')) return wrong(t->file, "its header has something unexpected between two keys");
        break;
    }
    skip_spaces(t);
    if (t->at < t->end) return wrong(t->file, "its header goes on after the dictionary");
    return seen == 7 ? MBA_OK : wrong(t->file, "its header lacks one of descr, fortran_order and shape");
}

/* ---- the file ---- */

static mba_status read_file(mba_npy *f, const char *bytes, size_t n)
{
    mba_array *a = &f->array;
    if (n < 10 || memcmp(bytes, "\x93NUMPY", 6)) return wrong(f->file, "it does not begin as such a file does");
    const int version = bytes[6];
    if (version < 1 || version > 3 || bytes[7])
        return unsupported(f->file, "its version is not 1.0, 2.0 or 3.0", "save it with numpy.save");
    const size_t width = version == 1 ? 2 : 4;
    uint32_t     header = 0;
    if (n < 8 + width) return wrong(f->file, "it is truncated inside its header");
    memcpy(&header, bytes + 8, width);
    if (header > HEADER_MAX) return wrong(f->file, "its header is larger than any for a plain array");
    if (header > n - 8 - width) return wrong(f->file, "it is truncated inside its header");
    const char *first = bytes + 8 + width;
    MBA_TRY(read_dictionary(a, &(text){ first, first + header, f->file }));
    if (!mba_array_measure(a)) return wrong(f->file, "its shape does not fit 63 bits");
    const int64_t there = (int64_t)(n - 8 - width - header);
    if (there != a->bytes)
        return mba_fail(MBA_E_FORMAT,
                        "'%s' has %" PRId64 " bytes of data\nwhy: %s of shape %s takes %" PRId64 "\n"
                        "fix: the file may be truncated; save or fetch it again",
                        f->file, there, mba_file_dtype_name(a->dtype), mba_shape_words(a->rank, a->shape).text,
                        a->bytes);
    a->data = first + header;
    return MBA_OK;
}

static mba_status new_npy(mba_npy **out, const char *file)
{
    mba_npy *f = calloc(1, sizeof *f);
    if (f) f->file = strdup(file);
    if (!f || !f->file) {
        free(f);
        return mba_fail(MBA_E_NOMEM, "no memory to open '%s'", file);
    }
    f->array.file = f->file;
    *out = f;
    return MBA_OK;
}

mba_status mba_npy_open_bytes(mba_npy **out, const char *file, const void *bytes, size_t n)
{
    mba_npy *f = NULL;
    MBA_TRY(new_npy(&f, file));
    mba_status st = read_file(f, bytes, n);
    if (st == MBA_OK) *out = f;
    else mba_npy_close(f);
    return st;
}

mba_status mba_npy_open(mba_npy **out, const char *path)
{
    mba_npy *f = NULL;
    MBA_TRY(new_npy(&f, path));
    mba_status st = mba_file_map(&f->map, path);
    if (st == MBA_OK) st = read_file(f, f->map.data, f->map.bytes);
    if (st == MBA_OK) *out = f;
    else mba_npy_close(f);
    return st;
}

void mba_npy_close(mba_npy *f)
{
    if (!f) return;
    mba_file_unmap(&f->map);
    free(f->file);
    free(f);
}

const mba_array *mba_npy_array(const mba_npy *f) { return &f->array; }

/* ---- writing ---- */

/* NumPy leaves room for the first dimension to grow, pads to 64 bytes and ends the header in a newline. */
static size_t make_header(char *to, size_t room, const char *descr, int rank, const int64_t *shape)
{
    char   tuple[MBA_ARRAY_RANK_MAX * 24] = "";
    size_t n = 0;
    for (int i = 0; i < rank; i++)
        n += (size_t)snprintf(tuple + n, sizeof tuple - n, "%s%" PRId64 "%s", i ? ", " : "", shape[i],
                              rank == 1 ? "," : "");
    n = 10
        + (size_t)snprintf(to + 10, room - 10, "{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", descr,
                           tuple);
    const int    digits = rank ? snprintf(NULL, 0, "%" PRId64, shape[0]) : GROWTH_DIGITS;
    const size_t total = (n + (size_t)(GROWTH_DIGITS - digits) + 1 + 63) / 64 * 64;
    mba_assert(total <= room);
    memset(to + n, ' ', total - n);
    to[total - 1] = '\n';
    memcpy(to, "\x93NUMPY\1\0", 8);
    to[8] = (char)((total - 10) & 255);
    to[9] = (char)((total - 10) >> 8);
    return total;
}

mba_status mba_npy_write(const char *path, mba_file_dtype dtype, int rank, const int64_t *shape, const void *data)
{
    char        header[512];
    mba_writer *w = NULL;
    const char *descr = NULL;
    mba_array   a = { .dtype = dtype, .rank = rank };
    for (int i = 0; i < TYPES; i++)
        if (types[i].wire == dtype) descr = types[i].descr;
    mba_assert(descr && rank >= 0 && rank <= MBA_ARRAY_RANK_MAX);
    for (int i = 0; i < rank; i++) mba_assert(shape[i] >= 0);
    if (rank) memcpy(a.shape, shape, (size_t)rank * sizeof *shape);
    mba_assert(mba_array_measure(&a));
    mba_status st = mba_writer_create(&w, path);
    if (st == MBA_OK) st = mba_writer_put(w, header, make_header(header, sizeof header, descr, rank, shape));
    if (st == MBA_OK) st = mba_writer_put(w, data, (size_t)a.bytes);
    if (st == MBA_OK) st = mba_writer_commit(w);
    mba_writer_destroy(w);
    return st;
}
