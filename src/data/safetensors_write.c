// SPDX-License-Identifier: Apache-2.0
/* safetensors_write.c -- the writer of safetensors.h: collects entries, then streams header and data; or puts data into
 * a file that is there. */
#include "data/safetensors.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "core/file.h"
#include "data/json.h"

enum { HEADER_MAX = 100000000, BUFFER_BYTES = 1 << 20 };

typedef struct entry {
    mba_array             array; // name is ours
    mba_safetensors_fill *fill;
    void                 *user;
} entry;

struct mba_safetensors_writer {
    mba_writer *file;
    char       *path;
    json_t     *metadata;
    entry      *entries;
    size_t      count, room;
};

static mba_status no_memory(const char *path) { return mba_fail(MBA_E_NOMEM, "no memory to write '%s'", path); }

mba_status mba_safetensors_create(mba_safetensors_writer **out, const char *path)
{
    mba_safetensors_writer *w = calloc(1, sizeof *w);
    if (!w) return no_memory(path);
    w->path = strdup(path);
    mba__json_begin();
    w->metadata = json_object();
    mba_status st = w->path && w->metadata ? MBA_OK : no_memory(path);
    if (st == MBA_OK) st = mba_safetensors_note(w, "format", "pt");
    if (st == MBA_OK) st = mba_writer_create(&w->file, path); // early, so that a wrong path fails at once
    if (st == MBA_OK) *out = w;
    else mba_safetensors_destroy(w);
    return st;
}

void mba_safetensors_destroy(mba_safetensors_writer *w)
{
    if (!w) return;
    for (size_t i = 0; i < w->count; i++) free((char *)w->entries[i].array.name);
    mba_writer_destroy(w->file);
    json_decref(w->metadata);
    free(w->entries);
    free(w->path);
    free(w);
}

/* A string that JSON can hold is valid UTF-8. */
static bool is_utf8(const char *text)
{
    json_t *s = json_string(text);
    json_decref(s);
    return s || mba__json_starved();
}

mba_status mba_safetensors_note(mba_safetensors_writer *w, const char *key, const char *text)
{
    if (!text) {
        json_object_del(w->metadata, key);
        return MBA_OK;
    }
    mba__json_begin();
    if (!is_utf8(key) || !is_utf8(text))
        return mba_fail(MBA_E_ARG,
                        "the note \"%s\" cannot be written to '%s'\nwhy: it is not valid UTF-8\n"
                        "fix: leave it out or spell it in UTF-8",
                        mba_quote(key).text, w->path);
    json_object_set_new(w->metadata, key, json_string(text));
    return mba__json_starved() ? no_memory(w->path) : MBA_OK;
}

/* ---- collecting entries ---- */

static mba_status check_name(const mba_safetensors_writer *w, const char *name)
{
    mba__json_begin();
    const bool good = *name && strcmp(name, "__metadata__") && is_utf8(name);
    if (mba__json_starved()) return no_memory(w->path);
    if (good) return MBA_OK;
    return mba_fail(MBA_E_ARG,
                    "a tensor of '%s' cannot be called \"%s\"\nwhy: a name is UTF-8 text, not empty, and "
                    "not \"__metadata__\"\nfix: choose another name",
                    w->path, mba_quote(name).text);
}

static mba_status make_room(mba_safetensors_writer *w)
{
    if (w->count < w->room) return MBA_OK;
    const size_t room = 2 * w->room + 64;
    entry       *wider = realloc(w->entries, room * sizeof *wider);
    if (!wider) return no_memory(w->path);
    w->entries = wider;
    w->room = room;
    return MBA_OK;
}

mba_status mba_safetensors_add(mba_safetensors_writer *w, const mba_safetensors_entry *e)
{
    mba_array a = { .file = w->path, .name = e->name, .dtype = e->dtype, .rank = e->rank, .data = e->data };
    mba_assert(e->rank >= 0 && e->rank <= MBA_ARRAY_RANK_MAX);
    for (int i = 0; i < e->rank; i++) mba_assert(e->shape[i] >= 0);
    memcpy(a.shape, e->shape, sizeof a.shape);
    mba_assert(mba_array_measure(&a));
    mba_assert(a.data || e->fill || e->later || a.bytes == 0);
    MBA_TRY(check_name(w, e->name));
    MBA_TRY(make_room(w));
    a.name = strdup(e->name);
    if (!a.name) return no_memory(w->path);
    w->entries[w->count++] = (entry){ a, e->fill, e->user };
    return MBA_OK;
}

/* ---- writing ---- */

/* The order of the reference: types that are later in its list come earlier in the file. Wide types come first, so
 * everything is aligned; equal types are ordered by name. */
static int compare_entries(const void *x, const void *y)
{
    const mba_array *a = &((const entry *)x)->array, *b = &((const entry *)y)->array;
    return a->dtype != b->dtype ? (a->dtype < b->dtype) - (a->dtype > b->dtype) : strcmp(a->name, b->name);
}

static json_t *describe(const mba_array *a, int64_t begin)
{
    json_t *shape = json_array();
    for (int i = 0; i < a->rank; i++) json_array_append_new(shape, json_integer(a->shape[i]));
    if (json_array_size(shape) != (size_t)a->rank) { // a failed append, or no list at all
        json_decref(shape);
        return NULL;
    }
    return json_pack("{s:s, s:o, s:[I, I]}", "dtype", mba_file_dtype_name(a->dtype), "shape", shape, "data_offsets",
                     (json_int_t)begin, (json_int_t)(begin + a->bytes));
}

static mba_status fill_header(json_t *header, const mba_safetensors_writer *w)
{
    int64_t at = 0;
    if (json_object_size(w->metadata) && json_object_set(header, "__metadata__", w->metadata))
        return no_memory(w->path);
    for (size_t i = 0; i < w->count; i++) {
        const mba_array *a = &w->entries[i].array;
        if (json_object_get(header, a->name))
            return mba_fail(MBA_E_ARG,
                            "'%s' would have two tensors called \"%s\"\nwhy: names must differ\n"
                            "fix: add it once",
                            w->path, mba_quote(a->name).text);
        if (json_object_set_new(header, a->name, describe(a, at))) return no_memory(w->path);
        mba_assert(!__builtin_add_overflow(at, a->bytes, &at));
    }
    return MBA_OK;
}

static mba_status put_header(const mba_safetensors_writer *w)
{
    mba__json_begin();
    json_t    *header = json_object();
    mba_status st = fill_header(header, w);
    char      *text = st == MBA_OK ? json_dumps(header, JSON_COMPACT | JSON_PRESERVE_ORDER) : NULL;
    if (mba__json_starved()) st = no_memory(w->path);
    json_decref(header);
    const size_t   n = text ? strlen(text) : 0;
    const uint64_t total = (n + 7) / 8 * 8; // padded, so that the data is aligned
    if (st == MBA_OK && total > HEADER_MAX)
        st = mba_fail(MBA_E_ARG,
                      "the header of '%s' would have %zu bytes\nwhy: the format allows %d\n"
                      "fix: write fewer tensors to one file, or shorter notes",
                      w->path, n, HEADER_MAX);
    if (st == MBA_OK) st = mba_writer_put(w->file, &total, sizeof total);
    if (st == MBA_OK) st = mba_writer_put(w->file, text, n);
    if (st == MBA_OK) st = mba_writer_put(w->file, "        ", total - n);
    free(text);
    return st;
}

static mba_status put_filled(mba_writer *file, const entry *e, void *buffer)
{
    const int64_t size = (int64_t)mba_file_dtype_bytes(e->array.dtype), most = BUFFER_BYTES / size;
    for (int64_t i = 0; i < e->array.elems; i += most) {
        const int64_t k = e->array.elems - i < most ? e->array.elems - i : most;
        MBA_TRY(e->fill(e->user, buffer, i, k));
        MBA_TRY(mba_writer_put(file, buffer, (size_t)(k * size)));
    }
    return MBA_OK;
}

mba_status mba_safetensors_commit(mba_safetensors_writer *w)
{
    char *buffer = malloc(BUFFER_BYTES);
    if (!buffer) return no_memory(w->path);
    if (w->count) qsort(w->entries, w->count, sizeof *w->entries, compare_entries);
    mba_status st = put_header(w);
    for (size_t i = 0; i < w->count && st == MBA_OK; i++) {
        const entry *e = &w->entries[i];
        st = e->array.data ? mba_writer_put(w->file, e->array.data, (size_t)e->array.bytes)
             : e->fill     ? put_filled(w->file, e, buffer)
                           : mba_writer_skip(w->file, (size_t)e->array.bytes);
        if (st != MBA_OK) st = mba_where(st, "tensor \"%s\"", mba_quote(e->array.name).text);
    }
    if (st == MBA_OK) st = mba_writer_commit(w->file);
    free(buffer);
    return st;
}

/* ---- inside a file ---- */

struct mba_safetensors_inside {
    mba_safetensors *file;
    char            *path;
    int              fd;
    size_t           begin; /* where the data begins */
};

mba_status mba_safetensors_enter(mba_safetensors_inside **out, const char *path)
{
    mba_safetensors_inside *f = calloc(1, sizeof *f);
    mba_map                 map = { 0 };
    if (!f) return no_memory(path);
    f->fd = -1;
    f->path = strdup(path);
    mba_status st = f->path ? mba_safetensors_open(&f->file, path) : no_memory(path);
    if (st == MBA_OK) st = mba_file_map(&map, path);
    if (st == MBA_OK) { // of 8 bytes at least, since it could be opened
        uint64_t header;
        memcpy(&header, map.data, sizeof header);
        f->begin = sizeof header + (size_t)header;
        st = mba_file_open_inside(&f->fd, path);
    }
    mba_file_unmap(&map);
    if (st == MBA_OK) *out = f;
    else mba_safetensors_leave(f);
    return st;
}

mba_status mba_safetensors_put(mba_safetensors_inside *f, const char *name, const void *data, int64_t first,
                               int64_t count)
{
    const mba_array *a = mba_safetensors_find(f->file, name), *begin = mba_safetensors_at(f->file, 0);
    mba_assert(a && first >= 0 && count >= 0 && first + count <= a->elems);
    const size_t size = mba_file_dtype_bytes(a->dtype),
                 at = f->begin + (size_t)((const char *)a->data - (const char *)begin->data) + (size_t)first * size;
    return mba_file_put_at(f->fd, f->path, data, (size_t)count * size, at);
}

mba_status mba_safetensors_end(mba_safetensors_inside *f) { return mba_file_sync(f->fd, f->path); }

void mba_safetensors_leave(mba_safetensors_inside *f)
{
    if (!f) return;
    if (f->fd >= 0) close(f->fd);
    mba_safetensors_close(f->file);
    free(f->path);
    free(f);
}
