// SPDX-License-Identifier: Apache-2.0
/* safetensors.h -- reads and writes safetensors files: named tensors, the format of published checkpoints.
 *
 *     mba_safetensors *f;
 *     MBA_TRY(mba_safetensors_open(&f, "model.safetensors"));
 *     const mba_array *w = mba_safetensors_find(f, "backbone.embeddings.weight");
 *     mba_status st = w ? mba_array_read_f32(w, out, V * M) : MBA_OK;
 *     mba_safetensors_close(f);
 *
 *     mba_safetensors_writer *s = NULL;
 *     st = mba_safetensors_create(&s, "model.safetensors");
 *     if (st == MBA_OK) st = mba_safetensors_add(s, &(mba_safetensors_entry){ .name = "D", .dtype = MBA_WIRE_F32,
 *                                                .rank = 1, .shape = { H }, .data = skip });
 *     if (st == MBA_OK) st = mba_safetensors_commit(s);
 *     mba_safetensors_destroy(s);
 *
 * The file: 8 bytes N, N bytes of JSON with dtype, shape and place of every tensor, the data. Opening checks all of it
 * (sizes, types, that the tensors cover the data without gap or overlap), so an open file is sound. The data is mapped
 * and read only on demand. */
#ifndef MBA_SAFETENSORS_H
#define MBA_SAFETENSORS_H

#include "data/array.h"

/* ---- reading ---- */

typedef struct mba_safetensors mba_safetensors;

MBA_MUST mba_status mba_safetensors_open(mba_safetensors **out, const char *path);
void                mba_safetensors_close(mba_safetensors *f); /* NULL is fine */

/* The same from memory, which must outlive the result; `file` is for messages. */
MBA_MUST mba_status mba_safetensors_open_bytes(mba_safetensors **out, const char *file, const void *bytes, size_t n);

/* All tensors in the order of their data. */
int64_t          mba_safetensors_count(const mba_safetensors *f);
const mba_array *mba_safetensors_at(const mba_safetensors *f, int64_t i);

/* Lends the tensor of that name; NULL: there is none. */
const mba_array *mba_safetensors_find(const mba_safetensors *f, const char *name);

/* Lends a string of the file's metadata; NULL: there is none. */
const char *mba_safetensors_meta(const mba_safetensors *f, const char *key);

/* ---- writing ---- */

/* Writes elements first .. first+count-1 of a tensor to `to`; called in order, for about a MiB at a time. */
typedef mba_status mba_safetensors_fill(void *user, void *to, int64_t first, int64_t count);

typedef struct mba_safetensors_entry {
    const char           *name;
    mba_file_dtype        dtype;
    int                   rank;
    int64_t               shape[MBA_ARRAY_RANK_MAX];
    const void           *data; /* dense, in the dtype; must stay valid until commit; or NULL: */
    mba_safetensors_fill *fill; /* produces the data part by part */
    void                 *user;
    bool                  later; /* zeros that take no space, until somebody puts the data there */
} mba_safetensors_entry;

typedef struct mba_safetensors_writer mba_safetensors_writer;

/* commit writes everything, one tensor at a time in the order of the reference writer (wide types first, then by name);
 * the data is never copied as a whole. All or nothing, as in core/file.h. */
MBA_MUST mba_status mba_safetensors_create(mba_safetensors_writer **out, const char *path);
MBA_MUST mba_status mba_safetensors_add(mba_safetensors_writer *w, const mba_safetensors_entry *e);

/* Sets metadata, which starts as {"format": "pt"}, because some loaders require it. A text of NULL removes a key. */
MBA_MUST mba_status mba_safetensors_note(mba_safetensors_writer *w, const char *key, const char *text);
MBA_MUST mba_status mba_safetensors_commit(mba_safetensors_writer *w);
void                mba_safetensors_destroy(mba_safetensors_writer *w); /* NULL is fine */

/* Puts data into a file that is there, perhaps from several processes at once: elements first .. first+count-1 of a
 * tensor, in its dtype. end forces them to disk. */
typedef struct mba_safetensors_inside mba_safetensors_inside;

MBA_MUST mba_status mba_safetensors_enter(mba_safetensors_inside **out, const char *path);
MBA_MUST mba_status mba_safetensors_put(mba_safetensors_inside *f, const char *name, const void *data, int64_t first,
                                        int64_t count);
MBA_MUST mba_status mba_safetensors_end(mba_safetensors_inside *f);
void                mba_safetensors_leave(mba_safetensors_inside *f); /* NULL is fine */

#endif
