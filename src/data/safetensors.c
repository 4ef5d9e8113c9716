// SPDX-License-Identifier: Apache-2.0
/* safetensors.c -- the reader of safetensors.h; safetensors_write.c is the writer.
 *
 * Everything in the header is untrusted: a size is compared before it is used, in 64 bits and without sums
 * that could overflow. */
#include "data/safetensors.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "core/file.h"
#include "data/json.h"

enum { HEADER_MAX = 100000000 }; // from the format; a real one has a MB or so

static const mba_json_limits header_limits = { .bytes = HEADER_MAX, .values = (size_t)4 << 20, .depth = 3 };

struct mba_safetensors {
    char             *file;
    mba_map           map;    // unused when opened from memory
    json_t           *header; // owns the names
    int64_t           count;
    mba_array        *tensors; // by place
    const mba_array **by_name;
};

/* ---- one entry of the header ---- */

static mba_status wrong_file(const char *file, const char *why)
{
    return mba_fail(MBA_E_FORMAT, "'%s' is not a valid safetensors file\nwhy: %s\nfix: fetch or convert it again", file,
                    why);
}

/* "tensor "x" of 'file' <what>". */
static mba_status wrong(const mba_array *t, const char *what, const char *why)
{
    return mba_fail(MBA_E_FORMAT, "tensor \"%s\" of '%s' %s\nwhy: %s\nfix: fetch or convert the file again",
                    mba_quote(t->name).text, t->file, what, why);
}

static mba_status read_dtype(mba_array *t, const json_t *v)
{
    if (!json_is_string(v)) return wrong(t, "has no dtype", "\"dtype\" should be a text such as \"F32\"");
    if (mba_file_dtype_parse(&t->dtype, json_string_value(v))) return MBA_OK;
    return mba_fail(MBA_E_UNSUPPORTED,
                    "tensor \"%s\" of '%s' has the unknown dtype \"%s\"\n"
                    "why: the types are BOOL, U8 .. U64, I8 .. I64, F8_E5M2, F8_E4M3, F16, BF16, F32 and F64\n"
                    "fix: convert the file to one of these",
                    mba_quote(t->name).text, t->file, mba_quote(json_string_value(v)).text);
}

static mba_status read_shape(mba_array *t, const json_t *v)
{
    if (!json_is_array(v)) return wrong(t, "has no shape", "\"shape\" should be a list of whole numbers");
    if (json_array_size(v) > MBA_ARRAY_RANK_MAX)
        return mba_fail(MBA_E_UNSUPPORTED,
                        "tensor \"%s\" of '%s' has %zu dimensions\nwhy: at most %d are supported\n"
                        "fix: reshape it before saving",
                        mba_quote(t->name).text, t->file, json_array_size(v), MBA_ARRAY_RANK_MAX);
    t->rank = (int)json_array_size(v);
    for (int i = 0; i < t->rank; i++) {
        const json_t *d = json_array_get(v, (size_t)i);
        if (!json_is_integer(d) || json_integer_value(d) < 0)
            return wrong(t, "has a wrong shape", "every dimension should be a whole number, zero or more");
        t->shape[i] = json_integer_value(d);
    }
    if (!mba_array_measure(t)) return wrong(t, "is impossibly large", "the product of its shape does not fit 63 bits");
    return MBA_OK;
}

static mba_status read_place(mba_array *t, const json_t *v, const char *data, int64_t data_bytes)
{
    const json_t *b = json_array_get(v, 0), *e = json_array_get(v, 1);
    if (json_array_size(v) != 2 || !json_is_integer(b) || !json_is_integer(e))
        return wrong(t, "has no place", "\"data_offsets\" should be a list of two whole numbers");
    const int64_t begin = json_integer_value(b), end = json_integer_value(e);
    if (begin < 0 || end < begin) return wrong(t, "has a wrong place", "its data begins below 0 or after its end");
    if (end > data_bytes)
        return mba_fail(MBA_E_FORMAT,
                        "tensor \"%s\" of '%s' reaches past the end of the file\n"
                        "why: its data ends at byte %" PRId64 " of %" PRId64 "; the file may be truncated\n"
                        "fix: fetch or convert the file again",
                        mba_quote(t->name).text, t->file, end, data_bytes);
    if (end - begin != t->bytes)
        return mba_fail(MBA_E_FORMAT,
                        "tensor \"%s\" of '%s' has %" PRId64 " bytes of data\n"
                        "why: %s of shape %s takes %" PRId64 "\nfix: fetch or convert the file again",
                        mba_quote(t->name).text, t->file, end - begin, mba_file_dtype_name(t->dtype),
                        mba_shape_words(t->rank, t->shape).text, t->bytes);
    t->data = data + begin;
    return MBA_OK;
}

static mba_status read_entry(mba_array *t, const json_t *v, const char *data, int64_t data_bytes)
{
    if (!json_is_object(v)) return wrong(t, "is not described", "dtype, shape and data_offsets should stand there");
    MBA_TRY(read_dtype(t, json_object_get(v, "dtype")));
    MBA_TRY(read_shape(t, json_object_get(v, "shape")));
    MBA_TRY(read_place(t, json_object_get(v, "data_offsets"), data, data_bytes));
    if (json_object_size(v) == 3) return MBA_OK;
    return wrong(t, "has an unknown property", "only dtype, shape and data_offsets have a meaning");
}

/* ---- the header as a whole ---- */

static mba_status check_metadata(const mba_safetensors *f)
{
    json_t     *meta = json_object_get(f->header, "__metadata__"), *v;
    const char *key;
    if (meta && !json_is_object(meta)) return wrong_file(f->file, "\"__metadata__\" is not an object");
    json_object_foreach(meta, key, v) if (!json_is_string(v)) return wrong_file(
        f->file, "\"__metadata__\" holds something that is not text");
    return MBA_OK;
}

/* Empty tensors come before the one that begins at the same byte. */
static int compare_place(const void *a, const void *b)
{
    const mba_array *x = a, *y = b;
    if (x->data != y->data) return (const char *)x->data < (const char *)y->data ? -1 : 1;
    return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

static int compare_name(const void *a, const void *b)
{
    return strcmp((*(const mba_array *const *)a)->name, (*(const mba_array *const *)b)->name);
}

static mba_status check_tiling(const mba_safetensors *f, const char *data, int64_t data_bytes)
{
    int64_t at = 0;
    for (int64_t i = 0; i < f->count; i++) {
        const mba_array *t = &f->tensors[i];
        const int64_t    begin = (const char *)t->data - data;
        if (begin > at) return wrong(t, "is preceded by a hole", "some bytes of the data belong to no tensor");
        if (begin < at) return wrong(t, "overlaps another tensor", "some bytes of the data belong to two");
        at = begin + t->bytes;
    }
    return at == data_bytes ? MBA_OK : wrong_file(f->file, "there are bytes after the last tensor");
}

static mba_status read_entries(mba_safetensors *f, const char *data, int64_t data_bytes)
{
    const size_t room = json_object_size(f->header);
    const char  *name;
    json_t      *v;
    f->tensors = calloc(room + 1, sizeof *f->tensors);
    f->by_name = calloc(room + 1, sizeof *f->by_name);
    if (!f->tensors || !f->by_name)
        return mba_fail(MBA_E_NOMEM, "no memory for the %zu tensors of '%s'", room, f->file);
    json_object_foreach(f->header, name, v)
    {
        if (!strcmp(name, "__metadata__")) continue;
        mba_array *t = &f->tensors[f->count++];
        t->file = f->file;
        t->name = name;
        MBA_TRY(read_entry(t, v, data, data_bytes));
    }
    qsort(f->tensors, (size_t)f->count, sizeof *f->tensors, compare_place);
    for (int64_t i = 0; i < f->count; i++) f->by_name[i] = &f->tensors[i];
    qsort(f->by_name, (size_t)f->count, sizeof *f->by_name, compare_name);
    return check_tiling(f, data, data_bytes);
}

static mba_status read_file(mba_safetensors *f, const char *bytes, size_t n)
{
    uint64_t header;
    if (n < 8) return wrong_file(f->file, "it is shorter than the 8 bytes every such file begins with");
    memcpy(&header, bytes, 8);
    if (header > HEADER_MAX) return wrong_file(f->file, "it begins with a header length above the 100 MB allowed");
    if (header > n - 8) return wrong_file(f->file, "its header reaches past the end; it may be truncated");
    if (header == 0 || bytes[8] != '{') return wrong_file(f->file, "its header does not begin with '{'");
    MBA_TRY(mba_json_parse(&f->header, f->file, bytes + 8, header, &header_limits));
    MBA_TRY(check_metadata(f));
    return read_entries(f, bytes + 8 + header, (int64_t)(n - 8 - header));
}

/* ---- the file ---- */

static mba_status new_file(mba_safetensors **out, const char *file)
{
    mba_safetensors *f = calloc(1, sizeof *f);
    if (f) f->file = strdup(file);
    if (!f || !f->file) {
        free(f);
        return mba_fail(MBA_E_NOMEM, "no memory to open '%s'", file);
    }
    *out = f;
    return MBA_OK;
}

mba_status mba_safetensors_open_bytes(mba_safetensors **out, const char *file, const void *bytes, size_t n)
{
    mba_safetensors *f = NULL;
    MBA_TRY(new_file(&f, file));
    mba_status st = read_file(f, bytes, n);
    if (st == MBA_OK) *out = f;
    else mba_safetensors_close(f);
    return st;
}

mba_status mba_safetensors_open(mba_safetensors **out, const char *path)
{
    mba_safetensors *f = NULL;
    MBA_TRY(new_file(&f, path));
    mba_status st = mba_file_map(&f->map, path);
    if (st == MBA_OK) st = read_file(f, f->map.data, f->map.bytes);
    if (st == MBA_OK) *out = f;
    else mba_safetensors_close(f);
    return st;
}

void mba_safetensors_close(mba_safetensors *f)
{
    if (!f) return;
    mba_file_unmap(&f->map);
    json_decref(f->header);
    free(f->tensors);
    free(f->by_name);
    free(f->file);
    free(f);
}

int64_t mba_safetensors_count(const mba_safetensors *f) { return f->count; }

const mba_array *mba_safetensors_at(const mba_safetensors *f, int64_t i)
{
    mba_assert(i >= 0 && i < f->count);
    return &f->tensors[i];
}

const mba_array *mba_safetensors_find(const mba_safetensors *f, const char *name)
{
    const mba_array   key = { .name = name }, *at = &key;
    const mba_array **hit = bsearch(&at, f->by_name, (size_t)f->count, sizeof *f->by_name, compare_name);
    return hit ? *hit : NULL;
}

const char *mba_safetensors_meta(const mba_safetensors *f, const char *key)
{
    return json_string_value(json_object_get(json_object_get(f->header, "__metadata__"), key));
}
