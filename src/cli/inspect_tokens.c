// SPDX-License-Identifier: Apache-2.0
/* inspect_tokens.c -- reports on token files; see inspect.h. */
#include <stdlib.h>
#include <string.h>

#include "cli/inspect.h"
#include "data/listing.h"
#include "data/recognise.h"
#include "data/token_file.h"

enum { BLOCK = 1 << 14, GPT2_END_OF_TEXT = 50256, BEGINS = 16 };

typedef struct token_count {
    int64_t         files, tokens, ends, run; /* run: tokens of the document so far */
    int32_t         largest, end_of_text;
    mba_value_range document;
} token_count;

static void count_tokens(token_count *c, const int32_t *id, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        if (id[i] > c->largest) c->largest = id[i];
        if (id[i] != c->end_of_text) {
            c->run++;
            continue;
        }
        c->ends++;
        if (c->run) mba__spread_add(&c->document, (double)c->run);
        c->run = 0;
    }
    c->tokens += n;
}

static void tell_notes(json_t *facts, const mba_token_notes *n)
{
    if (!n) return;
    mba__fact_text(facts, "tokenizer", n->tokenizer);
    mba__fact_int(facts, "vocab", n->vocab);
    mba__fact_text(facts, "source", n->source);
    json_object_set_new(facts, "synthetic", json_boolean(n->synthetic));
}

static mba_status tell_first(mba_report *r, token_count *c, const mba_token_file *f, bool header)
{
    int32_t                id[BEGINS];
    char                   about[96];
    const mba_token_notes *notes = mba_token_file_notes(f);
    const int              width = mba_token_file_bytes_per_token(f);
    const int64_t          n = mba_token_file_count(f) < BEGINS ? mba_token_file_count(f) : BEGINS;
    MBA_TRY(mba_token_file_read(f, id, 0, n, INT32_MAX));
    c->end_of_text = notes ? (int32_t)notes->end_of_text : GPT2_END_OF_TEXT;
    snprintf(about, sizeof about, "%s of %d bytes%s", header ? "llm.c tokens" : "bare tokens (nanoGPT; no header)",
             width, notes && notes->synthetic ? ", SYNTHETIC text" : "");
    mba__fact_format(r, "tokens", about);
    mba__fact_int(r->facts, "bytes_per_token", width);
    tell_notes(r->facts, notes);
    json_t *list = json_array();
    for (int64_t i = 0; i < n; i++) json_array_append_new(list, json_integer(id[i]));
    json_object_set_new(r->facts, "begins", list);
    return MBA_OK;
}

/* `m`: the same file as bytes. */
static mba_status add_tokens(mba_report *r, token_count *c, const mba_token_file *f, const mba_map *m)
{
    int32_t       id[BLOCK];
    const int64_t n = mba_token_file_count(f);
    MBA_TRY(mba_refuse_foreign(mba_token_file_path(f), m->data, m->bytes));
    if (!c->files++) MBA_TRY(tell_first(r, c, f, (int64_t)m->bytes != n * mba_token_file_bytes_per_token(f)));
    for (int64_t at = 0; at < n; at += BLOCK) {
        const int64_t some = n - at < BLOCK ? n - at : BLOCK;
        MBA_TRY(mba_token_file_read(f, id, at, some, INT32_MAX));
        count_tokens(c, id, some);
    }
    return MBA_OK;
}

static mba_status add_token_file(mba_report *r, token_count *c, const char *path)
{
    mba_token_file *f = NULL;
    mba_map         m = { 0 };
    MBA_TRY(mba_token_file_open(&f, path));
    mba_status st = mba_file_map(&m, path);
    if (st == MBA_OK) st = add_tokens(r, c, f, &m);
    mba_file_unmap(&m);
    mba_token_file_close(f);
    return st;
}

static void tell_tokens(mba_report *r, token_count *c)
{
    if (c->run) mba__spread_add(&c->document, (double)c->run);
    mba__fact_int(r->facts, "files", c->files);
    mba__fact_int(r->facts, "tokens", c->tokens);
    mba__fact_int(r->facts, "largest_token", c->largest);
    if (!c->ends) return; // without an end-of-text token, documents cannot be counted
    mba__fact_int(r->facts, "end_of_text", c->end_of_text);
    mba__fact_int(r->facts, "documents", c->document.n);
    mba__fact_spread(r->facts, "document_tokens", &c->document, true);
}

mba_status mba__inspect_tokens(mba_report *r, const mba_map *m)
{
    (void)m;
    token_count c = { 0 };
    MBA_TRY(add_token_file(r, &c, r->path));
    tell_tokens(r, &c);
    return MBA_OK;
}

static bool is_bin(const char *name) { return mba_ends_with(name, ".bin"); }

static mba_status inspect_shards(mba_report *r, const mba_listing *l)
{
    token_count c = { 0 };
    mba_status  st = MBA_OK;
    for (int64_t i = 0; st == MBA_OK && i < l->n; i++) {
        char *path;
        if (asprintf(&path, "%s/%s", r->path, l->name[i]) < 0) return mba_fail(MBA_E_NOMEM, "no memory for a path");
        st = add_token_file(r, &c, path);
        free(path);
    }
    if (st == MBA_OK) tell_tokens(r, &c);
    return st;
}

/* A folder of .bin files holds tokens unless a file has one of CIFAR's names. */
bool mba__inspect_token_folder(mba_status *st, mba_report *r)
{
    static const char *const cifar[] = { "data_batch_1.bin", "test_batch.bin", "train.bin", "test.bin" };
    mba_listing              l = { 0 };
    bool                     ours;
    *st = mba_listing_read(&l, r->path, is_bin);
    ours = *st != MBA_OK || l.n;
    for (int64_t i = 0; i < l.n; i++)
        for (size_t k = 0; k < sizeof cifar / sizeof *cifar; k++) ours = ours && strcmp(l.name[i], cifar[k]);
    if (ours && *st == MBA_OK) *st = inspect_shards(r, &l);
    mba_listing_free(&l);
    return ours;
}
