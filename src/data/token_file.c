// SPDX-License-Identifier: Apache-2.0
/* token_file.c -- see token_file.h: recognises headers, reads notes and tokens, writes shards. */
#include "data/token_file.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/file.h"
#include "data/json.h"
#include "data/recognise.h"

enum {
    HEADER_WORDS = 256,
    HEADER_BYTES = 4 * HEADER_WORDS,
    HEADER_KNOWN = 12, /* magic, version, count; then zeros */
    MAGIC_16 = 20240520,
    VERSION_16 = 1,
    MAGIC_32 = 20240801,
    VERSION_32 = 7,
    MAGIC_CHOICE = 20240522,
    NOTES_BYTES_MAX = 1 << 20
};

struct mba_token_file {
    char                *path;
    mba_map              map;           /* zeroed if the caller owns the bytes */
    const unsigned char *begin, *first; /* of the file, of its tokens */
    size_t               bytes;
    int64_t              count;
    int                  width; /* bytes per token */
    bool                 has_notes;
    mba_token_notes      notes;
};

static uint32_t read_16(const unsigned char *p) { return p[0] | (uint32_t)p[1] << 8; }
static uint32_t read_32(const unsigned char *p) { return read_16(p) | read_16(p + 2) << 16; }

/* ---- recognising the format ---- */

typedef struct header {
    uint32_t magic, version, count;
    bool     zeros; /* the remaining words are zero */
} header;

/* Reads the header; of a file that ends inside it, as much as there is. */
static header read_header(const unsigned char *p, size_t bytes)
{
    header h = { .magic = read_32(p), .version = read_32(p + 4), .count = read_32(p + 8), .zeros = true };
    for (size_t i = HEADER_KNOWN; i < HEADER_BYTES && i < bytes; i++) h.zeros &= p[i] == 0;
    return h;
}

static mba_status set_bare(mba_token_file *f)
{
    f->first = f->begin;
    f->width = 2;
    f->count = (int64_t)(f->bytes / 2);
    if (mba_looks_like_text(f->begin, f->bytes))
        return mba_fail(MBA_E_FORMAT,
                        "'%s' looks like text, not like tokens\nwhy: it has no llm.c header, and its bytes are "
                        "characters\nfix: mambascope data prepare --out DIR %s, then --data DIR",
                        f->path, f->path);
    if (f->bytes && f->bytes % 2 == 0) return MBA_OK;
    return mba_fail(MBA_E_FORMAT,
                    "'%s' is not a token file: it has %zu bytes\nwhy: it has no llm.c header, and plain uint16 "
                    "tokens take an even number of bytes, not zero\nfix: write it with `mambascope data prepare`",
                    f->path, f->bytes);
}

static mba_status set_shard(mba_token_file *f, const header *h, int width, uint32_t version)
{
    const uint64_t bytes = f->bytes, want = HEADER_BYTES + (uint64_t)h->count * (uint64_t)width;
    const bool     fits = h->version == version && h->count <= INT32_MAX && bytes == want;
    if (!fits && !h->zeros) return set_bare(f);
    if (h->version != version)
        return mba_fail(MBA_E_UNSUPPORTED,
                        "the token file '%s' is of version %" PRIu32 "\nwhy: supported is %" PRIu32 " for its magic "
                        "number %" PRIu32 "\nfix: prepare the data again",
                        f->path, h->version, version, h->magic);
    if (h->count > INT32_MAX)
        return mba_fail(MBA_E_FORMAT,
                        "the token file '%s' cannot have %" PRIu32 " tokens\nwhy: its header allows 2147483647\n"
                        "fix: prepare the data again, in more and smaller files",
                        f->path, h->count);
    if (!fits)
        return mba_fail(MBA_E_FORMAT,
                        "the token file '%s' has %" PRIu64 " bytes and should have %" PRIu64 "\nwhy: its header says "
                        "%" PRIu32 " tokens of %d bytes\nfix: copy or prepare it again; it may have been truncated",
                        f->path, bytes, want, h->count, width);
    if (!h->count)
        return mba_fail(MBA_E_FORMAT,
                        "the token file '%s' has no tokens\nwhy: its header says so\nfix: prepare the data again",
                        f->path);
    f->first = f->begin + HEADER_BYTES;
    f->width = width;
    f->count = h->count;
    return MBA_OK;
}

static mba_status find_tokens(mba_token_file *f)
{
    if (f->bytes < HEADER_KNOWN) return set_bare(f);
    const header h = read_header(f->begin, f->bytes);
    if (h.magic == MAGIC_16) return set_shard(f, &h, 2, VERSION_16);
    if (h.magic == MAGIC_32) return set_shard(f, &h, 4, VERSION_32);
    if (h.magic == MAGIC_CHOICE && h.version == 1)
        return mba_fail(MBA_E_UNSUPPORTED,
                        "'%s' holds multiple-choice questions, not a text\nwhy: it has the magic number %d of "
                        "llm.c\nfix: give a token file",
                        f->path, MAGIC_CHOICE);
    return set_bare(f);
}

/* ---- notes ---- */

static char *notes_path(const char *path)
{
    const size_t n = strlen(path) + 6;
    char        *p = malloc(n);
    if (p) snprintf(p, n, "%s.json", path);
    return p;
}

static mba_status copy_text(char *to, size_t room, const json_t *root, const char *key)
{
    const char *text = "";
    MBA_TRY(mba_json_text(root, key, "", &text));
    snprintf(to, room, "%s", text);
    return MBA_OK;
}

static mba_status parse_notes(mba_token_notes *n, const json_t *root)
{
    MBA_TRY(copy_text(n->tokenizer, sizeof n->tokenizer, root, "tokenizer"));
    MBA_TRY(copy_text(n->source, sizeof n->source, root, "source"));
    MBA_TRY(mba_json_require(root, "vocab"));
    MBA_TRY(mba_json_int(root, "vocab", 0, 1, INT32_MAX, &n->vocab));
    MBA_TRY(mba_json_int(root, "end_of_text", -1, -1, n->vocab - 1, &n->end_of_text));
    MBA_TRY(mba_json_int(root, "documents", 0, 0, INT64_MAX, &n->documents));
    MBA_TRY(mba_json_int(root, "bytes", 0, 0, INT64_MAX, &n->bytes));
    return mba_json_bool(root, "synthetic", false, &n->synthetic);
}

static mba_status read_notes(mba_token_file *f)
{
    char *path = notes_path(f->path);
    if (!path) return mba_fail(MBA_E_NOMEM, "no memory to open '%s'", f->path);
    mba_status st = MBA_OK;
    if (access(path, F_OK) == 0) {
        json_t *root = NULL;
        st = mba_json_load(&root, path, &(mba_json_limits){ .bytes = NOTES_BYTES_MAX, .values = 1000, .depth = 8 });
        if (st == MBA_OK) st = parse_notes(&f->notes, root);
        if (st != MBA_OK) st = mba_where(st, "the notes '%s'", path);
        json_decref(root);
        f->has_notes = st == MBA_OK;
    }
    free(path);
    return st;
}

static mba_status write_notes(const char *path, const mba_token_notes *n, int64_t tokens)
{
    char *to = notes_path(path);
    mba__json_begin();
    const json_int_t vocab = n->vocab, end = n->end_of_text, all = tokens, documents = n->documents, bytes = n->bytes;
    json_t    *root = json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:s, s:b}", "tokenizer", n->tokenizer, "vocab", vocab,
                                "end_of_text", end, "tokens", all, "documents", documents, "bytes", bytes, "source",
                                n->source, "synthetic", (int)n->synthetic);
    mba_status st = MBA_OK;
    if (!to || mba__json_starved()) st = mba_fail(MBA_E_NOMEM, "no memory for the notes of '%s'", path);
    else if (!root)
        st =
            mba_fail(MBA_E_ARG,
                     "the notes of '%s' cannot be written\nwhy: a file name is not UTF-8\nfix: use file names in UTF-8",
                     path);
    else st = mba_json_save(root, to);
    json_decref(root);
    free(to);
    return st;
}

/* ---- reading ---- */

static mba_status open_mapped(mba_token_file **out, const char *path, const void *bytes, size_t n)
{
    mba_token_file *f = calloc(1, sizeof *f);
    if (f) f->path = strdup(path);
    mba_status st = f && f->path ? MBA_OK : mba_fail(MBA_E_NOMEM, "no memory to open '%s'", path);
    if (st == MBA_OK && !bytes) st = mba_file_map(&f->map, path);
    if (st == MBA_OK) {
        f->begin = bytes ? bytes : f->map.data;
        f->bytes = bytes ? n : f->map.bytes;
        st = find_tokens(f);
    }
    if (st == MBA_OK && !bytes) st = read_notes(f);
    if (st == MBA_OK) *out = f;
    else mba_token_file_close(f);
    return st;
}

mba_status mba_token_file_open(mba_token_file **out, const char *path) { return open_mapped(out, path, NULL, 0); }

mba_status mba_token_file_open_bytes(mba_token_file **out, const char *name, const void *bytes, size_t n)
{
    return open_mapped(out, name, bytes ? bytes : "", n);
}

void mba_token_file_close(mba_token_file *f)
{
    if (!f) return;
    mba_file_unmap(&f->map);
    free(f->path);
    free(f);
}

int64_t     mba_token_file_count(const mba_token_file *f) { return f->count; }
int         mba_token_file_bytes_per_token(const mba_token_file *f) { return f->width; }
const char *mba_token_file_path(const mba_token_file *f) { return f->path; }

const mba_token_notes *mba_token_file_notes(const mba_token_file *f) { return f->has_notes ? &f->notes : NULL; }

static mba_status refuse_token(const mba_token_file *f, int64_t at, int64_t vocab)
{
    const unsigned char *p = f->first + at * f->width;
    return mba_fail(MBA_E_FORMAT,
                    "the token %" PRIu32 " is not in a vocabulary of %" PRId64 "\nwhere: '%s', byte %td (token %" PRId64
                    ")\n"
                    "why: the file was encoded with another tokenizer, or it is not a token file\n"
                    "fix: prepare the data with the tokenizer of the model",
                    f->width == 2 ? read_16(p) : read_32(p), vocab, f->path, p - f->begin, at);
}

mba_status mba_token_file_read(const mba_token_file *f, int32_t *to, int64_t from, int64_t n, int64_t vocab)
{
    mba_assert(from >= 0 && n >= 0 && n <= f->count - from && vocab > 0 && vocab <= INT32_MAX);
    const unsigned char *p = f->first + from * f->width;
    uint32_t             largest = 0;
    for (int64_t i = 0; i < n; i++) {
        const uint32_t v = f->width == 2 ? read_16(p + 2 * i) : read_32(p + 4 * i);
        largest = v > largest ? v : largest;
        to[i] = (int32_t)v;
    }
    if (largest < vocab) return MBA_OK;
    int64_t bad = 0;
    while ((uint32_t)to[bad] < vocab) bad++;
    return refuse_token(f, from + bad, vocab);
}

/* ---- writing ---- */

static void write_32(unsigned char *p, uint32_t v)
{
    for (int i = 0; i < 4; i++) p[i] = (unsigned char)(v >> 8 * i);
}

static mba_status put_tokens(mba_writer *w, const int32_t *tokens, int64_t n, int64_t vocab, int width)
{
    unsigned char block[1 << 14];
    for (int64_t i = 0; i < n;) {
        size_t used = 0;
        for (; i < n && used < sizeof block; i++, used += (size_t)width) {
            if (tokens[i] < 0 || tokens[i] >= vocab)
                return mba_fail(MBA_E_ARG, "the token %" PRId32 " at %" PRId64 " is not in a vocabulary of %" PRId64,
                                tokens[i], i, vocab);
            block[used] = (unsigned char)tokens[i];
            block[used + 1] = (unsigned char)(tokens[i] >> 8);
            if (width == 4) write_32(block + used, (uint32_t)tokens[i]);
        }
        MBA_TRY(mba_writer_put(w, block, used));
    }
    return MBA_OK;
}

mba_status mba_token_file_write(const char *path, const int32_t *tokens, int64_t n, int64_t vocab,
                                const mba_token_notes *notes)
{
    if (n < 1 || n > INT32_MAX)
        return mba_fail(MBA_E_ARG,
                        "a shard of %" PRId64 " tokens cannot be written\nwhy: the format allows 1 to "
                        "2147483647\nfix: use more and smaller shards",
                        n);
    const int     width = vocab <= 1 << 16 ? 2 : 4;
    unsigned char head[HEADER_BYTES] = { 0 };
    write_32(head, width == 2 ? MAGIC_16 : MAGIC_32);
    write_32(head + 4, width == 2 ? VERSION_16 : VERSION_32);
    write_32(head + 8, (uint32_t)n);
    mba_writer *w = NULL;
    mba_status  st = mba_writer_create(&w, path);
    if (st == MBA_OK) st = mba_writer_put(w, head, sizeof head);
    if (st == MBA_OK) st = put_tokens(w, tokens, n, vocab, width);
    if (st == MBA_OK) st = mba_writer_commit(w);
    mba_writer_destroy(w);
    return st == MBA_OK && notes ? write_notes(path, notes, n) : st;
}
