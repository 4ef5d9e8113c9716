// SPDX-License-Identifier: Apache-2.0
/* tokenizer.c -- see tokenizer.h. A text passes through stages, each of which splits it further:
 *
 *     chunks of about 64 KB -> UTF-8 repaired -> added tokens (raw) -> NFC -> added tokens (normalized) -> words -> BPE
 */
#include "data/tokenizer_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/file.h"

enum { CHUNK_BYTES = 1 << 16, PORTION_IDS = 1 << 15, BYTE_TOKENS = 257, FILE_BYTES_MAX = 128 << 20 };

mba_status mba_ids_reserve(mba_ids *ids, int64_t more)
{
    if (more <= ids->capacity - ids->n) return MBA_OK;
    const int64_t capacity = ids->n + more + ids->capacity / 2 + 64;
    int32_t      *id = realloc(ids->id, (size_t)capacity * sizeof *id);
    if (!id) return mba_fail(MBA_E_NOMEM, "no memory for %lld tokens", (long long)capacity);
    ids->id = id;
    ids->capacity = capacity;
    return MBA_OK;
}

/* ---- create, destroy ---- */

mba_status mba__tokenizer_bytes(mba_tokenizer **out)
{
    mba_tokenizer *t = calloc(1, sizeof *t);
    if (!t) return mba_fail(MBA_E_NOMEM, "no memory for a tokenizer");
    snprintf(t->name, sizeof t->name, "bytes");
    t->vocab = BYTE_TOKENS;
    t->end_of_text = BYTE_TOKENS - 1;
    t->token = malloc(BYTE_TOKENS * sizeof *t->token);
    t->pattern = &mba__pattern_gpt2;
    mba_status st = t->token ? mba__bytes_json(&t->json) : mba_fail(MBA_E_NOMEM, "no memory for a tokenizer");
    for (int i = 0; st == MBA_OK && i < BYTE_TOKENS; i++) {
        t->token[i] = (mba_token){ .start = (uint32_t)i, .bytes = i < 256 };
        st = mba_text_add(&t->text, &(char){ (char)i }, 1);
    }
    if (st == MBA_OK) *out = t;
    else mba_tokenizer_destroy(t);
    return st;
}

mba_status mba_tokenizer_create(mba_tokenizer **out, const char *name)
{
    if (!strcmp(name, "bytes")) return mba__tokenizer_bytes(out);
    char  *json;
    size_t bytes;
    MBA_TRY(mba_file_read(&json, &bytes, name, FILE_BYTES_MAX));
    const mba_status st = mba_tokenizer_create_json(out, json, bytes);
    free(json);
    return st == MBA_OK ? st : mba_where(st, "reading the tokenizer '%s'", name);
}

void mba_tokenizer_destroy(mba_tokenizer *t)
{
    if (!t) return;
    mba__bpe_destroy(t->bpe);
    mba__literals_free(&t->raw);
    mba__literals_free(&t->normalized);
    free(t->token);
    free(t->text.data);
    free(t->json.data);
    free(t->repaired.data);
    free(t->composed.data);
    free(t->spaced.data);
    free(t);
}

/* ---- encode ---- */

/* Collects tokens and passes them on, part by part. */
typedef struct sink {
    mba_ids     ids;
    mba_ids_fn *take;
    void       *user;
    bool        inside;   /* text precedes, and no added token right before */
    int32_t     ordinary; /* an added token that counts as ordinary text; -1: none */
} sink;

static mba_status flush(sink *s)
{
    const mba_status st = s->ids.n ? s->take(s->user, s->ids.id, s->ids.n) : MBA_OK;
    s->ids.n = 0;
    return st;
}

static mba_status emit(sink *s, int32_t id)
{
    if (s->ids.n >= PORTION_IDS) MBA_TRY(flush(s));
    MBA_TRY(mba_ids_reserve(&s->ids, 1));
    s->ids.id[s->ids.n++] = id;
    return MBA_OK;
}

static mba_status encode_words(mba_tokenizer *t, sink *s, const char *text, size_t n)
{
    for (const char *at = text, *end = text + n; at < end;) {
        const char *next = t->pattern->word_end(at, end);
        if (s->ids.n >= PORTION_IDS) MBA_TRY(flush(s));
        MBA_TRY(mba__bpe_word(t->bpe, &s->ids, at, (size_t)(next - at)));
        at = next;
    }
    return MBA_OK;
}

/* Encodes the text between two added tokens, or a part of it. */
static mba_status encode_between(mba_tokenizer *t, sink *s, const char *text, size_t n)
{
    const bool begins = !s->inside;
    if (!n) return MBA_OK;
    s->inside = true;
    if (!begins || !t->prefix_space || text[0] == ' ') return encode_words(t, s, text, n);
    t->spaced.n = 0;
    MBA_TRY(mba_text_add(&t->spaced, " ", 1));
    MBA_TRY(mba_text_add(&t->spaced, text, n));
    return encode_words(t, s, t->spaced.data, t->spaced.n);
}

/* Encodes the text between added tokens; the added tokens themselves become their numbers. */
typedef mba_status encode_fn(mba_tokenizer *t, sink *s, const char *text, size_t n);
static mba_status  encode_around(mba_tokenizer *t, sink *s, const mba_literals *added, encode_fn *encode,
                                 const char *text, size_t n)
{
    size_t      from = 0;
    mba_literal m;
    while (mba__literals_find(added, &m, text, n, from, s->ordinary)) {
        MBA_TRY(encode(t, s, text + from, m.at - from));
        MBA_TRY(emit(s, m.id));
        s->inside = false;
        from = m.at + m.bytes;
    }
    return encode(t, s, text + from, n - from);
}

static mba_status encode_normalized(mba_tokenizer *t, sink *s, const char *text, size_t n)
{
    if (t->nfc && !mba_nfc_already(text, n)) {
        t->composed.n = 0;
        MBA_TRY(mba_nfc(&t->composed, text, n));
        text = t->composed.data;
        n = t->composed.n;
    }
    return encode_around(t, s, &t->normalized, encode_between, text, n);
}

static mba_status encode_chunk(mba_tokenizer *t, sink *s, const char *text, size_t n)
{
    if (!mba_utf8_valid(text, n)) {
        t->repaired.n = 0;
        MBA_TRY(mba_utf8_repair(&t->repaired, text, n));
        text = t->repaired.data;
        n = t->repaired.n;
    }
    return encode_around(t, s, &t->raw, encode_normalized, text, n);
}

/* Finds where a long text may be split: see mba__may_cut. NFC composes nothing across ASCII white space, and
 * (literals.cut) no added token extends over it. */
static size_t chunk_end(const mba_tokenizer *t, const char *text, size_t n)
{
    if (n <= CHUNK_BYTES) return n;
    if (!t->bpe) return CHUNK_BYTES;
    if (t->raw.cut || t->normalized.cut) return n;
    for (size_t i = CHUNK_BYTES; i < n; i++)
        if (mba__may_cut(t->pattern, text, i)) return i;
    return n;
}

static mba_status encode_bytes(sink *s, const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++) MBA_TRY(emit(s, (unsigned char)text[i]));
    return MBA_OK;
}

mba_status mba_tokenizer_part(mba_tokenizer *t, mba_document *d, const char *text, size_t bytes, bool last,
                              size_t *used, mba_ids_fn *take, void *user)
{
    sink s = { .take = take, .user = user, .inside = d->inside, .ordinary = d->ordinary_end ? t->end_of_text : -1 };
    mba_status st = MBA_OK;
    *used = 0;
    while (st == MBA_OK && *used < bytes) {
        const size_t n = chunk_end(t, text + *used, bytes - *used);
        if (!last && *used + n == bytes) break; // the next part may continue its last word
        st = t->bpe ? encode_chunk(t, &s, text + *used, n) : encode_bytes(&s, text + *used, n);
        *used += n;
    }
    if (st == MBA_OK) st = flush(&s);
    free(s.ids.id);
    d->inside = s.inside;
    return st;
}

mba_status mba_tokenizer_stream(mba_tokenizer *t, const char *text, size_t bytes, mba_ids_fn *take, void *user)
{
    size_t used;
    return mba_tokenizer_part(t, &(mba_document){ 0 }, text, bytes, true, &used, take, user);
}

static mba_status append(void *user, const int32_t *id, int64_t n)
{
    mba_ids *out = user;
    MBA_TRY(mba_ids_reserve(out, n));
    memcpy(out->id + out->n, id, (size_t)n * sizeof *id);
    out->n += n;
    return MBA_OK;
}

mba_status mba_tokenizer_encode(mba_tokenizer *t, mba_ids *out, const char *text, size_t bytes)
{
    return mba_tokenizer_stream(t, text, bytes, append, out);
}

/* ---- decode ---- */

const char *mba_tokenizer_token(const mba_tokenizer *t, int32_t id, size_t *bytes)
{
    if (id < 0 || id >= t->vocab || t->token[id].bytes == MBA_NO_TOKEN) return NULL;
    *bytes = t->token[id].bytes;
    return t->text.data + t->token[id].start;
}

mba_status mba_tokenizer_decode(const mba_tokenizer *t, mba_text *out, const int32_t *id, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        size_t      bytes;
        const char *text = mba_tokenizer_token(t, id[i], &bytes);
        if (!text)
            return mba_fail(MBA_E_ARG,
                            "%d is not a token of '%s'\nwhy: its vocabulary has %lld\nfix: decode "
                            "with the tokenizer that encoded the text",
                            id[i], t->name, (long long)t->vocab);
        MBA_TRY(mba_text_add(out, text, bytes));
    }
    return MBA_OK;
}

int64_t     mba_tokenizer_vocab(const mba_tokenizer *t) { return t->vocab; }
int32_t     mba_tokenizer_end_of_text(const mba_tokenizer *t) { return t->end_of_text; }
const char *mba_tokenizer_name(const mba_tokenizer *t) { return t->name; }

const char *mba_tokenizer_json(const mba_tokenizer *t, size_t *bytes)
{
    *bytes = t->json.n;
    return t->json.data;
}
