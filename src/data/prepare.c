// SPDX-License-Identifier: Apache-2.0
/* prepare.c -- see prepare.h: reads inputs, splits documents, encodes them, and writes shards into a temporary
 * directory that is renamed at the end. */
#include "data/prepare.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/file.h"
#include "core/lock.h"
#include "data/array.h"
#include "data/json.h"
#include "data/listing.h"
#include "data/reader.h"
#include "data/recognise.h"
#include "data/token_file.h"
#include "data/tokenizer_files.h"

enum {
    SHARD_TOKENS = 1 << 25,
    SYNTHETIC_BYTES = 1 << 20,
    PROGRESS_BYTES = 1 << 20,
    PART_BYTES = 1 << 20,
    HEAD_BYTES = 1 << 16
};

typedef struct work {
    const mba_prepare_options *o;
    mba_tokenizer             *t;
    char                      *folder; /* temporary directory of the shards until all are written */
    mba_lock                  *lock;
    mba_ids                    shard;
    int64_t                    shard_tokens;
    mba_token_notes            notes; /* of the shard being filled */
    mba_prepared               made;
    int64_t                    done, all; /* bytes of input: finished files, all files */
    int64_t                    told;      /* when progress was last reported */
    const char                *end;       /* the end-of-text token as text, which is counted in documents */
    size_t                     end_bytes;
} work;

/* ---- shards ---- */

static mba_status write_shard(work *w)
{
    char *path = NULL;
    if (asprintf(&path, "%s/tokens_%05" PRId64 ".bin", w->folder, w->made.shards) < 0)
        return mba_fail(MBA_E_NOMEM, "no memory to write a shard");
    const mba_status st = mba_token_file_write(path, w->shard.id, w->shard.n, w->notes.vocab, &w->notes);
    free(path);
    w->shard.n = 0;
    w->notes.documents = w->notes.bytes = 0;
    w->made.shards++;
    return st;
}

static mba_status write_source(work *w)
{
    char *path = NULL;
    if (asprintf(&path, "%s/source.json", w->folder) < 0)
        return mba_fail(MBA_E_NOMEM, "no memory to write source.json");
    const mba_status st = mba_json_save(w->o->source, path);
    free(path);
    return st;
}

static mba_status tell(work *w, int64_t here)
{
    const int64_t done = w->done + here;
    if (!w->o->progress || done - w->told < PROGRESS_BYTES) return MBA_OK;
    w->told = done;
    return w->o->progress(w->o->user, done, w->all, w->made.tokens);
}

static mba_status take(void *user, const int32_t *id, int64_t n)
{
    work *w = user;
    for (int64_t i = 0; i < n; i++) {
        size_t bytes = 0;
        if (w->shard.n == w->shard_tokens) MBA_TRY(write_shard(w));
        if (w->shard.n == w->shard.capacity) MBA_TRY(mba_ids_reserve(&w->shard, 1));
        w->shard.id[w->shard.n++] = id[i];
        if (id[i] == w->notes.end_of_text) continue;
        (void)mba_tokenizer_token(w->t, id[i], &bytes);
        w->notes.bytes += (int64_t)bytes;
        w->made.bytes += (int64_t)bytes;
    }
    w->made.tokens += n;
    return MBA_OK;
}

/* ---- documents ---- */

/* Writes the end-of-text token, which precedes every document and occurs nowhere else. */
static mba_status begin_document(work *w)
{
    const int32_t first = (int32_t)w->notes.end_of_text;
    MBA_TRY(take(w, &first, 1));
    w->notes.documents++;
    w->made.documents++;
    return MBA_OK;
}

static void count_ends(work *w, const char *text, size_t n)
{
    const char *at = text, *stop = text + n;
    while (w->end_bytes && (at = memmem(at, (size_t)(stop - at), w->end, w->end_bytes)) != NULL) {
        w->made.ends_in_text++;
        at += w->end_bytes;
    }
}

/* A document that arrives in parts; see mba_tokenizer_part. */
typedef struct open_document {
    mba_document state;
    bool         begun;
} open_document;

static mba_status add_part(work *w, open_document *d, const char *text, size_t n, bool last, size_t *used)
{
    *used = 0;
    if (!n) return MBA_OK;
    d->state.ordinary_end = true;
    if (!d->begun) MBA_TRY(begin_document(w));
    d->begun = true;
    MBA_TRY(mba_tokenizer_part(w->t, &d->state, text, n, last, used, take, w));
    count_ends(w, text, *used);
    return MBA_OK;
}

/* Adds text in which --split-on may end documents. The caller passes the unused rest again, with more after it. */
static mba_status add_text(work *w, open_document *d, const char *text, size_t n, bool last, size_t *used)
{
    const char  *border = w->o->split_on;
    const size_t long_ = border ? strlen(border) : 0;
    size_t       at = 0, part;
    for (const char *found; long_ && (found = memmem(text + at, n - at, border, long_)) != NULL;) {
        MBA_TRY(add_part(w, d, text + at, (size_t)(found - text) - at, true, &part));
        at = (size_t)(found - text) + long_;
        *d = (open_document){ 0 };
    }
    const size_t whole = last ? n : n - at > long_ ? n - long_ : at; // a separator may begin after it
    MBA_TRY(add_part(w, d, text + at, whole - at, last, &part));
    *used = at + part;
    return MBA_OK;
}

static mba_status add_document(work *w, const char *text, size_t bytes)
{
    size_t used;
    return add_text(w, &(open_document){ 0 }, text, bytes, true, &used);
}

static mba_status add_line(work *w, const char *line, size_t bytes, int64_t number)
{
    const char  *field = w->o->field ? w->o->field : "text";
    json_error_t e;
    size_t       blank = 0;
    while (blank < bytes && strchr(" \t\r", line[blank]) && line[blank]) blank++;
    if (blank == bytes) return MBA_OK;
    mba__json_begin();
    json_t       *row = json_loadb(line, bytes, JSON_ALLOW_NUL, &e);
    const bool    starved = mba__json_starved();
    const json_t *text = json_object_get(row, field);
    mba_status    st = MBA_OK;
    if (starved) st = mba_fail(MBA_E_NOMEM, "no memory for line %" PRId64 " of %zu bytes", number, bytes);
    else if (!row)
        st = mba_fail(MBA_E_FORMAT,
                      "line %" PRId64
                      " is not a JSON object\nwhy: %s, at byte %d of the line\nfix: correct or remove the line; "
                      "JSON lines have one object per line",
                      number, mba_quote(e.text).text, e.position);
    else if (!json_is_object(row))
        st = mba_fail(MBA_E_FORMAT, "line %" PRId64 " is %s, not an object\nfix: write one object per line", number,
                      mba_json_kind(row));
    else if (!json_is_string(text))
        st = mba_fail(MBA_E_FORMAT,
                      "line %" PRId64
                      " has no text under \"%s\"\nwhy: there is %s\nfix: give the right key with --field",
                      number, mba_quote(field).text, text ? mba_json_kind(text) : "no such key");
    else st = add_document(w, json_string_value(text), json_string_length(text));
    json_decref(row);
    return st;
}

static mba_status add_lines(work *w, mba_reader *in)
{
    const char *line;
    size_t      n;
    for (int64_t number = 1;; number++) {
        MBA_TRY(mba_reader_line(in, &line, &n));
        if (!line) return MBA_OK;
        const size_t mark = number == 1 && n >= 3 && !memcmp(line, "\xEF\xBB\xBF", 3) ? 3 : 0;
        MBA_TRY(add_line(w, line + mark, n - mark, number));
        MBA_TRY(tell(w, mba_reader_taken(in)));
    }
}

/* Adds a plain text in parts, since it may be one document of many gigabytes. */
static mba_status add_plain(work *w, mba_reader *in)
{
    open_document d = { 0 };
    for (bool last = false; !last;) {
        const char *text;
        size_t      n, used = 0;
        MBA_TRY(mba_reader_view(in, &text, &n, &last));
        for (size_t at = 0; at < n; at += used) {
            const size_t some = n - at < PART_BYTES ? n - at : PART_BYTES;
            const bool   end = last && some == n - at;
            MBA_TRY(add_text(w, &d, text + at, some, end, &used));
            if (!used && !end && some < n - at) MBA_TRY(add_text(w, &d, text + at, n - at, last, &used));
            mba_reader_use(in, used);
            MBA_TRY(tell(w, mba_reader_taken(in)));
            if (!used) break;
        }
    }
    return MBA_OK;
}

/* ---- inputs ---- */

/* True for JSON lines: by the name, or by a first line that has the field. */
static bool has_lines(const work *w, const char *path, const char *head, size_t n)
{
    static const char *const name[] = { ".jsonl", ".jsonlines", ".ndjson", ".json" }, *const packed[] = { "", ".gz",
                                                                                                          ".zst" };
    char end[32];
    for (size_t i = 0; i < sizeof name / sizeof *name; i++)
        for (size_t k = 0; k < sizeof packed / sizeof *packed; k++) {
            snprintf(end, sizeof end, "%s%s", name[i], packed[k]);
            if (mba_ends_with(path, end)) return true;
        }
    if (mba_recognise(head, n) != MBA_DATA_JSON_LINES) return false;
    const char *stop = memchr(head, '\n', n);
    json_t     *row = json_loadb(head, stop ? (size_t)(stop - head) : n, JSON_ALLOW_NUL, NULL);
    const bool  has = json_is_string(json_object_get(row, w->o->field ? w->o->field : "text"));
    json_decref(row);
    return has;
}

static mba_status add_file(work *w, const char *path)
{
    mba_reader *in = NULL;
    const char *head = NULL;
    size_t      n = 0;
    struct stat s;
    MBA_TRY(mba_reader_open(&in, path, MBA_READER_MOST));
    const int64_t before = w->done, bytes = stat(path, &s) ? 0 : (int64_t)s.st_size;
    mba_status    st = mba_reader_head(in, HEAD_BYTES, &head, &n);
    if (st == MBA_OK) st = mba_refuse_foreign(path, head, n);
    if (st == MBA_OK) st = has_lines(w, path, head, n) ? add_lines(w, in) : add_plain(w, in);
    w->done = before + bytes;
    mba_reader_close(in);
    return st == MBA_OK ? st : mba_where(st, "'%s'", path);
}

static mba_status add_files(work *w)
{
    struct stat s;
    for (int i = 0; i < w->o->inputs; i++)
        if (stat(w->o->input[i], &s) == 0) w->all += s.st_size;
    for (int i = 0; i < w->o->inputs; i++) MBA_TRY(add_file(w, w->o->input[i]));
    return MBA_OK;
}

static mba_status add_synthetic(work *w)
{
    mba_text   text = { 0 };
    mba_status st = MBA_OK;
    w->all = w->o->synthetic_bytes ? w->o->synthetic_bytes : SYNTHETIC_BYTES;
    for (int64_t number = 0; st == MBA_OK && w->done < w->all; number++) {
        text.n = 0;
        st = mba_synthetic_text(&text, w->o->seed, number);
        if (st == MBA_OK) st = add_document(w, text.data, text.n);
        w->done += (int64_t)text.n;
        if (st == MBA_OK) st = tell(w, 0);
    }
    free(text.data);
    return st;
}

/* ---- the output: a directory that appears complete ---- */

static mba_status check_out(const char *out)
{
    DIR *d = opendir(out);
    if (!d && errno == ENOENT) return MBA_OK;
    bool empty = d != NULL;
    errno = d ? 0 : errno;
    for (const struct dirent *e; d && (e = readdir(d)) != NULL;)
        empty &= !strcmp(e->d_name, ".") || !strcmp(e->d_name, "..");
    const int failed = errno == ENOTDIR ? 0 : errno;
    if (d) closedir(d);
    if (failed)
        return mba_fail(MBA_E_IO, "cannot read the directory '%s'\nwhy: %s\nfix: choose another name", out,
                        strerror(failed));
    return empty ? MBA_OK
                 : mba_fail(MBA_E_ARG, "the output '%s' exists already\nfix: remove it, or choose another name", out);
}

/* Takes the lock, so that one process at a time creates a directory of this name, then checks again that it is absent
 * or empty: another process may have created it before the lock. */
static mba_status lock_out(work *w, const char *out)
{
    const char  *slash = strrchr(out, '/');
    const size_t parent = slash ? (size_t)(slash - out) : 0;
    MBA_TRY(check_out(out));
    if (parent) {
        char            *above = strndup(out, parent);
        const mba_status st = above ? mba_mkdirs(above) : mba_fail(MBA_E_NOMEM, "no memory to make '%s'", out);
        free(above);
        MBA_TRY(st);
    }
    MBA_TRY(mba_lock_beside(&w->lock, out));
    return check_out(out);
}

/* Removes temporary directories that killed processes left; the lock guarantees that nobody is filling one now. What
 * cannot be listed stays and only takes space: mkdtemp chooses another name. */
static void sweep(const char *out)
{
    static const char partial[] = ".partial-";
    enum { RANDOM_BYTES = 6 };
    const char  *slash = strrchr(out, '/'), *base = slash ? slash + 1 : out;
    const size_t n = strlen(base), k = sizeof partial - 1;
    char        *above = slash ? strndup(out, (size_t)(base - out)) : strdup("."), *path = NULL;
    DIR         *d = above ? opendir(above) : NULL;
    for (const struct dirent *e; d && (e = readdir(d)) != NULL;) {
        if (strlen(e->d_name) != n + k + RANDOM_BYTES || strncmp(e->d_name, base, n)
            || strncmp(e->d_name + n, partial, k))
            continue;
        if (asprintf(&path, "%s/%s", above, e->d_name) < 0) break;
        mba_folder_remove(path);
        free(path);
    }
    if (d) closedir(d);
    free(above);
}

static mba_status make_folder(work *w, const char *out)
{
    sweep(out);
    if (asprintf(&w->folder, "%s.partial-XXXXXX", out) < 0) {
        w->folder = NULL;
        return mba_fail(MBA_E_NOMEM, "no memory to make '%s'", out);
    }
    if (mkdtemp(w->folder) && chmod(w->folder, 0755) == 0) return MBA_OK;
    const mba_status st = mba_fail(MBA_E_IO, "cannot create the folder '%s'\nwhy: %s\nfix: choose a writable --out",
                                   w->folder, strerror(errno));
    free(w->folder);
    w->folder = NULL;
    return st;
}

static mba_status publish(work *w, const char *out)
{
    if (rename(w->folder, out) == 0) return mba_name_sync(out);
    return mba_fail(MBA_E_IO, "cannot create the folder '%s'\nwhy: %s\nfix: choose another --out", out,
                    strerror(errno));
}

/* ---- prepare ---- */

static void describe_source(char *to, size_t room, const mba_prepare_options *o)
{
    if (!o->inputs) snprintf(to, room, "synthetic, seed %" PRIu64, o->seed);
    else if (o->inputs == 1) snprintf(to, room, "%s", mba_quote(o->input[0]).text);
    else snprintf(to, room, "%s and %d more", mba_quote(o->input[0]).text, o->inputs - 1);
}

static mba_status fill(work *w)
{
    MBA_TRY(w->o->inputs ? add_files(w) : add_synthetic(w));
    if (w->shard.n) MBA_TRY(write_shard(w));
    MBA_TRY(mba_tokenizer_files_make(w->folder, w->t));
    if (w->o->source) MBA_TRY(write_source(w));
    if (!w->made.tokens)
        return mba_fail(MBA_E_ARG,
                        "there is no text in the %d input(s)\nfix: give files that "
                        "are not empty; for JSON lines, give --field the key of the text",
                        w->o->inputs);
    return w->o->progress ? w->o->progress(w->o->user, w->all, w->all, w->made.tokens) : MBA_OK;
}

mba_status mba_prepare(mba_prepared *made, mba_tokenizer *t, const mba_prepare_options *o)
{
    work w = { .o = o, .t = t, .shard_tokens = o->shard_tokens ? o->shard_tokens : SHARD_TOKENS };
    if (w.shard_tokens < 1 || w.shard_tokens > INT32_MAX)
        return mba_fail(MBA_E_ARG,
                        "shards of %" PRId64 " tokens are impossible\nwhy: the format allows 1 to "
                        "2147483647\nfix: choose a number in this range",
                        w.shard_tokens);
    if (mba_tokenizer_end_of_text(t) < 0)
        return mba_fail(MBA_E_UNSUPPORTED,
                        "the tokenizer has no end-of-text token\nwhy: it has none of the usual names, such as "
                        "<|endoftext|>\nfix: add one to its added_tokens");
    w.notes = (mba_token_notes){ .vocab = mba_tokenizer_vocab(t),
                                 .end_of_text = mba_tokenizer_end_of_text(t),
                                 .synthetic = !o->inputs };
    w.end = mba_tokenizer_token(t, mba_tokenizer_end_of_text(t), &w.end_bytes);
    if (!w.end_bytes) {
        w.end = "<|endoftext|>";
        w.end_bytes = strlen(w.end);
    } // the one of `bytes` has no text
    if (o->split_on && !*o->split_on)
        return mba_fail(MBA_E_ARG,
                        "documents cannot be split on an empty text\nfix: for example --split-on '<|endoftext|>'");
    snprintf(w.notes.tokenizer, sizeof w.notes.tokenizer, "%s", mba_tokenizer_name(t));
    describe_source(w.notes.source, sizeof w.notes.source, o);
    char *out = strdup(o->out);
    if (!out) return mba_fail(MBA_E_NOMEM, "no memory to prepare data");
    for (size_t n = strlen(out); n > 1 && out[n - 1] == '/';) out[--n] = 0;
    mba_status st = *out ? lock_out(&w, out)
                         : mba_fail(MBA_E_ARG, "the output has no name\nfix: give --out a new folder");
    if (st == MBA_OK) st = make_folder(&w, out);
    if (st == MBA_OK) st = fill(&w);
    if (st == MBA_OK) st = publish(&w, out);
    if (st != MBA_OK && w.folder) mba_folder_remove(w.folder);
    mba_lock_release(w.lock);
    if (st == MBA_OK) {
        *made = w.made;
        snprintf(made->end, sizeof made->end, "%.*s", (int)w.end_bytes, w.end);
    }
    free(w.folder);
    free(w.shard.id);
    free(out);
    return st;
}
