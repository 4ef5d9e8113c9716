// SPDX-License-Identifier: Apache-2.0
/* tokenizer_files.c -- see tokenizer_files.h: reads, writes and compares the files of a tokenizer. */
#include "data/tokenizer_files.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/file.h"
#include "data/listing.h"

enum { FILE_BYTES_MAX = 128 << 20, PATH_ROOM = 4096 };

/* tokenizer.json, and the files beside it that AutoTokenizer may read. */
static const char *const names[] = {
    "tokenizer.json",    "tokenizer_config.json", "special_tokens_map.json",
    "added_tokens.json", "chat_template.jinja",   "vocab.json",
    "merges.txt",        "tokenizer.model",
};

static mba_status path_in(char path[PATH_ROOM], const char *folder, const char *name)
{
    return snprintf(path, PATH_ROOM, "%s/%s", folder, name) < PATH_ROOM
               ? MBA_OK
               : mba_fail(MBA_E_ARG, "the path '%s/%s' is too long\nfix: choose a shorter path", folder, name);
}

static mba_status add(mba_tokenizer_files *f, const char *name, const char *text, size_t n)
{
    mba_assert(f->n < MBA_TOKENIZER_FILES_MAX);
    f->name[f->n] = name;
    return mba_text_add(&f->text[f->n++], text, n);
}

static mba_status read_all(mba_tokenizer_files *out, const char *folder)
{
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char   path[PATH_ROOM], *text;
        size_t n;
        MBA_TRY(path_in(path, folder, names[i]));
        if (!mba_is_file(path)) {
            if (!i) break; // without a tokenizer.json the others are ignored
            continue;
        }
        MBA_TRY(mba_file_read(&text, &n, path, FILE_BYTES_MAX));
        const mba_status st = add(out, names[i], text, n);
        free(text);
        MBA_TRY(st);
    }
    return MBA_OK;
}

mba_status mba_tokenizer_files_read(mba_tokenizer_files *out, const char *folder)
{
    *out = (mba_tokenizer_files){ 0 };
    const mba_status st = read_all(out, folder);
    if (st != MBA_OK) mba_tokenizer_files_free(out);
    return st;
}

mba_status mba_tokenizer_files_of(mba_tokenizer_files *out, const mba_tokenizer *t)
{
    char       *config = NULL;
    size_t      n;
    const char *json = mba_tokenizer_json(t, &n);
    *out = (mba_tokenizer_files){ 0 };
    mba_status st = add(out, names[0], json, n);
    if (st == MBA_OK) st = mba_tokenizer_config(t, &config);
    if (st == MBA_OK) st = add(out, names[1], config, strlen(config));
    if (st == MBA_OK) st = mba_text_add(&out->text[1], "\n", 1);
    free(config);
    if (st != MBA_OK) mba_tokenizer_files_free(out);
    return st;
}

mba_status mba_tokenizer_files_write(const mba_tokenizer_files *f, const char *folder)
{
    for (int i = 0; i < f->n; i++) {
        char        path[PATH_ROOM];
        mba_writer *w = NULL;
        MBA_TRY(path_in(path, folder, f->name[i]));
        mba_status st = mba_writer_create(&w, path);
        if (st == MBA_OK) st = mba_writer_put(w, f->text[i].data, f->text[i].n);
        if (st == MBA_OK) st = mba_writer_commit(w);
        mba_writer_destroy(w);
        MBA_TRY(st);
    }
    return MBA_OK;
}

mba_status mba_tokenizer_files_make(const char *folder, const mba_tokenizer *t)
{
    mba_tokenizer_files f;
    MBA_TRY(mba_tokenizer_files_of(&f, t));
    const mba_status st = mba_tokenizer_files_write(&f, folder);
    mba_tokenizer_files_free(&f);
    return st;
}

bool mba_tokenizer_files_same(const mba_tokenizer_files *a, const mba_tokenizer_files *b)
{
    return a->n && b->n && a->text[0].n == b->text[0].n && !memcmp(a->text[0].data, b->text[0].data, a->text[0].n);
}

void mba_tokenizer_files_free(mba_tokenizer_files *f)
{
    for (int i = 0; i < f->n; i++) free(f->text[i].data);
    *f = (mba_tokenizer_files){ 0 };
}
