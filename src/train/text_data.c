// SPDX-License-Identifier: Apache-2.0
/* text_data.c -- see text_data.h: lists files, recognises text, finds or prepares its tokens, chooses the tokenizer. */
#include "train/text_data.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/file.h"
#include "data/array.h"
#include "data/json.h"
#include "data/listing.h"
#include "data/recognise.h"
#include "train/checkpoint.h"

enum { BYTES_VOCAB_MAX = 512, PATH_ROOM = 4096 }; // the vocabulary of a byte model is padded to at most 512

mba_status mba_checkpoint_tokenizer(mba_tokenizer **out, const char *given, const char *checkpoint)
{
    char          path[PATH_ROOM + 32];
    mba_model     m;
    mba_hf_format format;
    if (given) return mba_tokenizer_create(out, given);
    snprintf(path, sizeof path, "%s/tokenizer.json", checkpoint);
    if (!access(path, R_OK)) return mba_tokenizer_create(out, path);
    MBA_TRY(mba_checkpoint_config(&m, &format, checkpoint));
    if (m.task != MBA_TASK_TEXT || m.lm.vocab <= BYTES_VOCAB_MAX) return mba_tokenizer_create(out, "bytes");
    return mba_fail(MBA_E_ARG,
                    "there is no tokenizer\nwhy: '%s' has no tokenizer.json, and its vocabulary of "
                    "%lld is not that of bytes\nfix: add --tokenizer PATH",
                    checkpoint, (long long)m.lm.vocab);
}

/* ---- which files ---- */

static bool is_bin(const char *name) { return mba_ends_with(name, ".bin"); }

static bool is_text_name(const char *name)
{
    static const char *const end[] = { ".txt", ".text", ".md", ".jsonl", ".jsonlines", ".ndjson", ".json" };
    static const char *const packed[] = { "", ".gz", ".zst" };
    char                     both[32];
    for (size_t i = 0; i < sizeof end / sizeof *end; i++)
        for (size_t k = 0; k < sizeof packed / sizeof *packed; k++) {
            snprintf(both, sizeof both, "%s%s", end[i], packed[k]);
            if (mba_ends_with(name, both)) return true;
        }
    return false;
}

/* Lists the files of --data. In a folder: its token files if it has any, else its texts. */
static mba_status list_files(mba_listing *l, const char *data)
{
    mba_listing bins = { 0 };
    if (access(data, F_OK)) return mba_listing_glob(l, data);
    if (!mba_is_folder(data)) return mba_listing_add(l, data);
    mba_status st = mba_listing_read(&bins, data, is_bin);
    if (st == MBA_OK && !bins.n) st = mba_listing_paths(l, data, is_text_name);
    mba_listing_free(&bins);
    return st;
}

/* Decides whether a file is text. A name ending in .bin is left to the reader of token files, which refuses text. */
static mba_status is_raw(bool *raw, const char *path)
{
    mba_data_kind kind;
    *raw = false;
    if (is_bin(path) || mba_is_folder(path)) return MBA_OK;
    MBA_TRY(mba_recognise_file(&kind, path));
    *raw = mba_data_is_text(kind);
    if (*raw || kind == MBA_DATA_TOKENS || kind == MBA_DATA_UNKNOWN) return MBA_OK;
    return mba_fail(MBA_E_FORMAT,
                    "'%s' holds neither text nor tokens\nwhy: it is %s\nfix: give text, JSON "
                    "lines or token files; mambascope data inspect shows what a file is",
                    path,
                    kind == MBA_DATA_NPY           ? "one array (.npy)"
                    : kind == MBA_DATA_SAFETENSORS ? "named tensors (.safetensors)"
                    : kind == MBA_DATA_TOKENIZER   ? "a tokenizer.json, which goes to --tokenizer"
                                                   : "JSON, but not JSON lines");
}

static mba_status find_raw(mba_listing *l, const char *data)
{
    int64_t texts = 0;
    MBA_TRY(list_files(l, data));
    for (int64_t i = 0; i < l->n; i++) {
        bool raw;
        MBA_TRY(is_raw(&raw, l->name[i]));
        texts += raw;
    }
    if (texts && texts < l->n)
        return mba_fail(MBA_E_ARG,
                        "'%s' names text and token files together\nwhy: %" PRId64 " of %" PRId64
                        " files are text\nfix: one or the other",
                        data, texts, l->n);
    if (!texts) mba_listing_free(l);
    return MBA_OK;
}

/* ---- which text tokens were prepared from ---- */

/* A hash over eight bytes at a time. It distinguishes texts, but is not cryptographic. */
static mba_status hash_file(uint64_t *out, int64_t *bytes, const char *path)
{
    mba_map m;
    MBA_TRY(mba_file_map(&m, path));
    const char *p = m.data;
    uint64_t    h = m.bytes, part;
    for (size_t i = 0; i < m.bytes; i += 8) {
        const size_t n = m.bytes - i < 8 ? m.bytes - i : 8;
        part = 0;
        for (size_t k = 0; k < n; k++) part |= (uint64_t)(unsigned char)p[i + k] << 8 * k;
        h = (h ^ part) * 0x9E3779B97F4A7C15u;
        h ^= h >> 29;
    }
    *out = h;
    *bytes = (int64_t)m.bytes;
    mba_file_unmap(&m);
    return MBA_OK;
}

static mba_status describe(json_t **out, const mba_listing *l, const mba_tokenizer *t, const mba_text_data_options *o)
{
    mba__json_begin();
    json_t    *files = json_array();
    mba_status st = MBA_OK;
    for (int64_t i = 0; i < l->n && st == MBA_OK; i++) {
        uint64_t h = 0;
        int64_t  bytes = 0;
        char     hex[32];
        st = hash_file(&h, &bytes, l->name[i]);
        snprintf(hex, sizeof hex, "%016" PRIx64, h);
        json_array_append_new(files, json_pack("{s:s, s:I, s:s}", "name", mba_quote(l->name[i]).text, "bytes",
                                               (json_int_t)bytes, "hash", hex));
    }
    *out = json_pack("{s:s, s:s, s:o}", "tokenizer", mba_tokenizer_name(t), "field", o->field ? o->field : "text",
                     "files", files);
    return st == MBA_OK ? mba_json_whole(*out, "what describes the text") : st;
}

/* True if two descriptions name the same files, tokenizer and field. */
static bool same_names(const json_t *a, const json_t *b)
{
    const json_t *x = json_object_get(a, "files"), *y = json_object_get(b, "files");
    bool          same = json_array_size(x) == json_array_size(y);
    for (size_t i = 0; same && i < json_array_size(x); i++)
        same = json_equal(json_object_get(json_array_get(x, i), "name"), json_object_get(json_array_get(y, i), "name"));
    return same && json_equal(json_object_get(a, "tokenizer"), json_object_get(b, "tokenizer"))
           && json_equal(json_object_get(a, "field"), json_object_get(b, "field"));
}

/* *same is true if the folder was prepared from exactly this text. If it holds other text, the caller takes another
 * folder. The same file with other bytes is an error: a resumed run would silently continue with other data. */
static mba_status prepared_before(bool *same, const char *folder, const json_t *source)
{
    char    path[PATH_ROOM + 16];
    json_t *then = NULL;
    snprintf(path, sizeof path, "%s/source.json", folder);
    MBA_TRY(mba_json_load(&then, path, NULL));
    const bool changed = same_names(then, source);
    *same = json_equal(then, source);
    json_decref(then);
    if (*same || !changed) return MBA_OK;
    return mba_fail(MBA_E_ARG,
                    "the text has changed since it was prepared in '%s'\nwhy: a run continues with "
                    "the data of its start\nfix: restore the text, or choose another --out",
                    folder);
}

/* Finds the folder with this text among FOLDER, FOLDER-2 .., or the first free name. */
static mba_status find_folder(char path[PATH_ROOM], bool *before, const char *folder, const json_t *source)
{
    enum { FOLDERS_MAX = 1000 };
    *before = false;
    for (int k = 1; k < FOLDERS_MAX; k++) {
        const int n = k == 1 ? snprintf(path, PATH_ROOM, "%s", folder) : snprintf(path, PATH_ROOM, "%s-%d", folder, k);
        if (n >= PATH_ROOM)
            return mba_fail(MBA_E_ARG, "the path '%.200s..' is too long\nfix: choose a shorter --out", folder);
        if (access(path, F_OK)) return MBA_OK;
        MBA_TRY(prepared_before(before, path, source));
        if (*before) return MBA_OK;
    }
    return mba_fail(MBA_E_ARG, "'%s' and the following names are all taken\nfix: choose another --out", folder);
}

/* ---- preparing ---- */

static mba_status temporary(mba_text_data *d)
{
    MBA_TRY(mba_temporary_create(&d->root, "the tokens of the text", "prepare them with mambascope data prepare"));
    snprintf(d->path, sizeof d->path, "%s/tokens", d->root.path);
    return MBA_OK;
}

static mba_status check_vocab(const mba_tokenizer *t, int64_t vocab)
{
    if (mba_tokenizer_vocab(t) <= vocab) return MBA_OK;
    return mba_fail(MBA_E_ARG,
                    "the tokenizer has %" PRId64 " tokens, the model %" PRId64 "\nwhy: the text is prepared with "
                    "the tokenizer %s\nfix: --set vocab=%" PRId64 ", or another --tokenizer",
                    mba_tokenizer_vocab(t), vocab, mba_tokenizer_name(t), mba_tokenizer_vocab(t));
}

static void tell_story(mba_text_data *d, const mba_listing *l, const mba_tokenizer *t, const mba_prepared *made,
                       const mba_text_data_options *o)
{
    char         more[64] = "", ends[192] = "", vocab[128] = "";
    char        *to = d->story;
    const size_t room = sizeof d->story;
    int          n;
    if (l->n > 1) snprintf(more, sizeof more, " and %" PRId64 " more", l->n - 1);
    if (made && made->ends_in_text)
        snprintf(ends, sizeof ends,
                 "; it has %s %" PRId64 " time%s as text: data prepare --split-on ends documents there", made->end,
                 made->ends_in_text, made->ends_in_text == 1 ? "" : "s");
    if (mba_tokenizer_vocab(t) <= BYTES_VOCAB_MAX && o->vocab > BYTES_VOCAB_MAX)
        snprintf(vocab, sizeof vocab,
                 "; bytes use %" PRId64 " of the model's %" PRId64 " tokens: --set vocab=%" PRId64
                 " or --tokenizer FILE",
                 mba_tokenizer_vocab(t), o->vocab, mba_tokenizer_vocab(t));
    if (made)
        n = snprintf(to, room,
                     "text %s%s prepared: %" PRId64 " document%s, %" PRId64 " tokens (tokenizer %s) in %.200s%s%s%s",
                     mba_quote(l->name[0]).text, more, made->documents, made->documents == 1 ? "" : "s", made->tokens,
                     mba_tokenizer_name(t), d->path, d->root.path[0] ? " (removed at the end)" : "", ends, vocab);
    else
        n = snprintf(to, room, "text %s%s as it was prepared (tokenizer %s) in %.200s%s", mba_quote(l->name[0]).text,
                     more, mba_tokenizer_name(t), d->path, vocab);
    if (n >= (int)room) memcpy(d->story + room - 4, "...", 4); // marks a sentence that was cut
}

static mba_status prepare(mba_text_data *d, const mba_listing *l, mba_tokenizer *t, const mba_text_data_options *o)
{
    json_t      *source = NULL;
    bool         before = false;
    mba_prepared made;
    MBA_TRY(check_vocab(t, o->vocab));
    mba_status st = o->folder ? describe(&source, l, t, o) : temporary(d);
    if (st == MBA_OK && o->folder) st = find_folder(d->path, &before, o->folder, source);
    if (st == MBA_OK && !before)
        st = mba_prepare(&made, t,
                         &(mba_prepare_options){ .out = d->path,
                                                 .input = (const char *const *)l->name,
                                                 .inputs = (int)l->n,
                                                 .field = o->field,
                                                 .source = source,
                                                 .progress = o->progress,
                                                 .user = o->user });
    if (st == MBA_OK) tell_story(d, l, t, before ? NULL : &made, o);
    json_decref(source);
    return st;
}

mba_status mba_text_data_open(mba_text_data *out, const mba_text_data_options *o)
{
    mba_listing    raw = { 0 };
    mba_tokenizer *t = NULL;
    *out = (mba_text_data){ 0 };
    if (snprintf(out->path, sizeof out->path, "%s", o->data) >= (int)sizeof out->path)
        return mba_fail(MBA_E_ARG, "the path '%.200s..' is too long\nfix: choose a shorter --data", o->data);
    mba_status st = find_raw(&raw, o->data);
    if (st == MBA_OK && raw.n) {
        st = o->checkpoint ? mba_checkpoint_tokenizer(&t, o->tokenizer, o->checkpoint)
                           : mba_tokenizer_create(&t, o->tokenizer ? o->tokenizer : "bytes");
        if (st == MBA_OK) st = prepare(out, &raw, t, o);
    }
    mba_tokenizer_destroy(t);
    mba_listing_free(&raw);
    if (st != MBA_OK) mba_text_data_close(out);
    return st;
}

void mba_text_data_close(mba_text_data *d)
{
    mba_temporary_remove(&d->root);
    *d = (mba_text_data){ 0 };
}

/* ---- the tokenizer of a run ---- */

/* False only if both can be read and some token number has different text in them. */
static bool same_tokens(const mba_tokenizer_files *x, const mba_tokenizer_files *y)
{
    mba_tokenizer *a = NULL, *b = NULL;
    bool           same = true;
    if (mba_tokenizer_files_same(x, y)) return true;
    if (mba_tokenizer_create_json(&a, x->text[0].data, x->text[0].n) == MBA_OK
        && mba_tokenizer_create_json(&b, y->text[0].data, y->text[0].n) == MBA_OK) {
        same = mba_tokenizer_vocab(a) == mba_tokenizer_vocab(b);
        for (int32_t id = 0; same && id < mba_tokenizer_vocab(a); id++) {
            size_t      m = 0, n = 0;
            const char *p = mba_tokenizer_token(a, id, &m), *q = mba_tokenizer_token(b, id, &n);
            same = !p == !q && m == n && (!p || !memcmp(p, q, m));
        }
    }
    mba_tokenizer_destroy(a);
    mba_tokenizer_destroy(b);
    return same;
}

mba_status mba_run_tokenizer(mba_tokenizer_files *out, const mba_feed *text, const char *given, const char *from)
{
    char                path[PATH_ROOM];
    mba_tokenizer_files kept = { 0 };
    MBA_TRY(mba_feed_tokenizer(out, text, given));
    mba_status st = from ? mba_checkpoint_find(path, sizeof path, from) : MBA_OK;
    if (st == MBA_OK && from) st = mba_tokenizer_files_read(&kept, path);
    const bool both = st == MBA_OK && kept.n && out->n, same = both && same_tokens(out, &kept);
    if (both && !same && !given)
        st = mba_fail(MBA_E_ARG,
                      "the data was encoded with another tokenizer than the model\nwhy: '%s/tokenizer.json' "
                      "gives other token ids\nfix: prepare the data with it, or give --tokenizer that of the "
                      "data if this is intended",
                      path);
    const bool keep = st == MBA_OK && kept.n && (same || !out->n);
    mba_tokenizer_files_free(keep || st != MBA_OK ? out : &kept);
    if (st != MBA_OK) mba_tokenizer_files_free(&kept);
    if (keep) *out = kept;
    return st;
}
