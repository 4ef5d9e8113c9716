// SPDX-License-Identifier: Apache-2.0
/* loader.c -- see loader.h: opens the files of a set, divides them into parts, and fills batches. */
#include "data/loader.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "data/listing.h"
#include "data/permute.h"

/* A range of one file that belongs to the chosen part, and its share of an epoch. */
typedef struct stretch {
    const mba_token_file *file;
    int64_t               from, count;
    int64_t               units_before, units; /* in order: batches; shuffled: sequences of L tokens */
} stretch;

struct mba_loader {
    mba_loader_options     o;
    mba_token_file       **file;
    stretch               *part;
    int                    files, parts;
    int64_t                tokens, units, batches;
    int64_t                end_of_text;
    const mba_token_notes *notes;
};

/* ---- which files ---- */

static bool is_bin(const char *name) { return mba_ends_with(name, ".bin"); }

static mba_status find_files(mba_listing *l, const char *data)
{
    const bool folder = mba_is_folder(data), file = !folder && access(data, F_OK) == 0;
    MBA_TRY(folder ? mba_listing_paths(l, data, is_bin) : file ? mba_listing_add(l, data) : mba_listing_glob(l, data));
    if (l->n) return MBA_OK;
    return mba_fail(MBA_E_IO,
                    "there are no token files at '%s'\nwhy: %s\nfix: give a file, a folder with .bin files or a "
                    "glob; `mambascope data prepare` writes them",
                    data,
                    folder ? "the folder has no .bin files"
                           : "there is no such file, and no file matches it as a glob");
}

/* ---- opening ---- */

static mba_status check_options(const mba_loader_options *o)
{
    const int64_t ranks = o->ranks ? o->ranks : 1;
    if (o->B < 1 || o->L < 1 || o->B > INT32_MAX || o->L > INT32_MAX || o->B * o->L > INT64_MAX / 8 / ranks)
        return mba_fail(MBA_E_ARG,
                        "batches of %" PRId64 " x %" PRId64 " tokens are impossible\n"
                        "fix: use at least one of each, and fewer than 2^31",
                        o->B, o->L);
    if (o->vocab < 1 || o->vocab > INT32_MAX)
        return mba_fail(MBA_E_ARG, "a vocabulary of %" PRId64 " is impossible\nfix: 1 to 2147483647", o->vocab);
    if (o->rank < 0 || ranks < 1 || o->rank >= ranks)
        return mba_fail(MBA_E_ARG, "there is no rank %d of %d", o->rank, o->ranks);
    if (o->split != MBA_PART_ALL && !(o->validation > 0 && o->validation < 1))
        return mba_fail(MBA_E_ARG,
                        "the validation part is %g of the data\nwhy: it must lie between 0 and 1\nfix: "
                        "--valid-fraction 0.1",
                        o->validation);
    return MBA_OK;
}

static mba_status check_notes(mba_loader *l, const mba_token_file *f)
{
    const mba_token_notes *n = mba_token_file_notes(f);
    if (!n) return MBA_OK;
    if (!l->notes) l->notes = n;
    if (n->vocab > l->o.vocab)
        return mba_fail(MBA_E_ARG,
                        "the data has %" PRId64 " kinds of tokens, the model has %" PRId64
                        "\nwhy: '%s' was encoded with the tokenizer %s\nfix: choose a model vocabulary that "
                        "fits, or prepare the data again",
                        n->vocab, l->o.vocab, mba_token_file_path(f), n->tokenizer);
    if (strcmp(n->tokenizer, l->notes->tokenizer) || n->end_of_text != l->notes->end_of_text)
        return mba_fail(MBA_E_ARG,
                        "the token files were encoded with different tokenizers\nwhy: %s, and %s for '%s'\n"
                        "fix: prepare them together",
                        l->notes->tokenizer, n->tokenizer, mba_token_file_path(f));
    return MBA_OK;
}

static mba_status open_files(mba_loader *l, const mba_listing *list)
{
    l->file = calloc((size_t)list->n, sizeof *l->file);
    l->part = calloc((size_t)list->n, sizeof *l->part);
    if (!l->file || !l->part) return mba_fail(MBA_E_NOMEM, "no memory for %" PRId64 " token files", list->n);
    for (int64_t i = 0; i < list->n; i++) {
        MBA_TRY(mba_token_file_open(&l->file[i], list->name[i]));
        l->files++;
        MBA_TRY(check_notes(l, l->file[i]));
    }
    l->end_of_text = l->o.end_of_text ? *l->o.end_of_text : l->notes ? l->notes->end_of_text : -1;
    if ((l->o.documents || l->o.targets_within_documents) && (l->end_of_text < 0 || l->end_of_text >= l->o.vocab))
        return mba_fail(MBA_E_ARG,
                        "document ends are unknown\nwhy: %s\nfix: give --end-of-text the number of that token",
                        l->o.end_of_text ? "the end-of-text token is not in the vocabulary"
                                         : "the data has no notes that name its end-of-text token");
    return MBA_OK;
}

/* Chooses the part: of all files in sequence, tokens [0, border) are for training, the rest for validation. */
static void choose_part(mba_loader *l)
{
    int64_t all = 0, before = 0;
    for (int i = 0; i < l->files; i++) all += mba_token_file_count(l->file[i]);
    const int64_t border = all - (int64_t)((double)all * l->o.validation);
    const int64_t begin = l->o.split == MBA_PART_VALIDATION ? border : 0;
    const int64_t end = l->o.split == MBA_PART_TRAIN ? border : all;
    for (int i = 0; i < l->files; i++) {
        const int64_t count = mba_token_file_count(l->file[i]);
        const int64_t from = begin > before ? begin - before : 0, to = end - before < count ? end - before : count;
        if (from < to) l->part[l->parts++] = (stretch){ .file = l->file[i], .from = from, .count = to - from };
        before += count;
    }
}

static mba_status measure(mba_loader *l)
{
    const int64_t rows = l->o.B * l->o.ranks, unit = l->o.shuffle ? l->o.L : l->o.L * rows;
    int64_t       longest = 0;
    for (int i = 0; i < l->parts; i++) {
        stretch *s = l->part + i;
        s->units_before = l->units;
        s->units = (s->count - 1) / unit;
        l->units += s->units;
        l->tokens += s->count;
        longest = s->count > longest ? s->count : longest;
    }
    l->batches = l->o.shuffle ? l->units / rows : l->units;
    if (l->batches) return MBA_OK;
    static const char *const part[] = { "data", "training part of the data", "validation part of the data" };
    return mba_fail(MBA_E_ARG,
                    "the %s is too short for one batch\nwhy: it has %" PRId64
                    " tokens in %d file(s), the longest stretch "
                    "%" PRId64 "; a batch of %" PRId64 " x %" PRId64 " on %d rank(s) takes %" PRId64 "%s\n"
                    "fix: take a smaller batch or length, or more data",
                    part[l->o.split], l->tokens, l->parts, longest, l->o.B, l->o.L, l->o.ranks, rows * l->o.L + 1,
                    l->o.shuffle ? "" : " in one stretch");
}

mba_status mba_loader_create(mba_loader **out, const mba_loader_options *options)
{
    MBA_TRY(check_options(options));
    mba_loader *l = calloc(1, sizeof *l);
    if (!l) return mba_fail(MBA_E_NOMEM, "no memory for a loader");
    l->o = *options;
    if (!l->o.ranks) l->o.ranks = 1;
    if (l->o.split == MBA_PART_ALL) l->o.validation = 0;
    mba_listing list = { 0 };
    mba_status  st = find_files(&list, options->data);
    if (st == MBA_OK) st = open_files(l, &list);
    if (st == MBA_OK) choose_part(l);
    if (st == MBA_OK) st = measure(l);
    mba_listing_free(&list);
    l->o.data = NULL; /* the caller owns both */
    l->o.end_of_text = NULL;
    if (st == MBA_OK) *out = l;
    else mba_loader_destroy(l);
    return st;
}

void mba_loader_destroy(mba_loader *l)
{
    if (!l) return;
    for (int i = 0; i < l->files; i++) mba_token_file_close(l->file[i]);
    free(l->file);
    free(l->part);
    free(l);
}

int64_t                mba_loader_batches(const mba_loader *l) { return l->batches; }
int64_t                mba_loader_tokens(const mba_loader *l) { return l->tokens; }
int                    mba_loader_files(const mba_loader *l) { return l->files; }
const char            *mba_loader_path(const mba_loader *l) { return mba_token_file_path(l->file[0]); }
const mba_token_notes *mba_loader_notes(const mba_loader *l) { return l->notes; }

/* ---- reading ---- */

static const stretch *find_unit(const mba_loader *l, int64_t unit)
{
    int low = 0, high = l->parts; /* finds the last range whose units begin at or before this one */
    while (high - low > 1) {
        const int middle = (low + high) / 2;
        if (l->part[middle].units_before <= unit) low = middle;
        else high = middle;
    }
    return l->part + low;
}

/* The first token of row `b` of a batch. */
static int64_t row_start(const mba_loader *l, const mba_position *at, int64_t b, const stretch **s)
{
    const int64_t L = l->o.L, row = l->o.rank * l->o.B + b, rows = l->o.ranks * l->o.B;
    if (l->o.shuffle) {
        const int64_t window = mba_permuted(at->index * rows + row, l->units, l->o.seed ^ mba_stream("loader"),
                                            (uint64_t)at->epoch);
        *s = find_unit(l, window);
        return (*s)->from + (window - (*s)->units_before) * L;
    }
    *s = find_unit(l, at->index);
    if (l->o.streams) return (*s)->from + (row * (*s)->units + at->index - (*s)->units_before) * L;
    return (*s)->from + (at->index - (*s)->units_before) * rows * L + row * L;
}

/* Computes mba_batch.before of a row that begins at `from`; its stream begins `seen` tokens earlier. */
static mba_status tokens_before(int32_t *out, const mba_loader *l, const stretch *s, int64_t from, int64_t seen)
{
    int32_t       x[MBA_BEFORE_MAX + 1];
    const int64_t n = seen < MBA_BEFORE_MAX ? seen : MBA_BEFORE_MAX;
    *out = (int32_t)n;
    if (!l->o.documents) return MBA_OK;
    MBA_TRY(mba_token_file_read(s->file, x, from - n, n + 1, l->o.vocab));
    for (int64_t k = 0; k < n; k++)
        if (x[n - k] == l->end_of_text) { // the document begins here
            *out = (int32_t)k;
            break;
        }
    return MBA_OK;
}

static void number_documents(int32_t *documents, const int32_t *tokens, int64_t L, int32_t end_of_text)
{
    int32_t number = 0;
    for (int64_t i = 0; i < L; i++) {
        number += i && tokens[i] == end_of_text;
        documents[i] = number;
    }
}

void mba_loader_skip(const mba_loader *l, mba_position *at)
{
    if (++at->index >= l->batches) *at = (mba_position){ .epoch = at->epoch + 1 };
}

mba_status mba_loader_next(const mba_loader *l, mba_batch *out, mba_position *at)
{
    const int64_t L = l->o.L;
    if (at->epoch < 0 || at->index < 0 || at->index >= l->batches)
        return mba_fail(MBA_E_ARG,
                        "there is no batch %" PRId64 " in epoch %" PRId64 "\nwhy: an epoch has %" PRId64 " batches\n"
                        "fix: resume with the data and batch size of the checkpoint",
                        at->index, at->epoch, l->batches);
    for (int64_t b = 0; b < l->o.B; b++) {
        const stretch *s;
        const int64_t  from = row_start(l, at, b, &s);
        int32_t       *x = out->tokens + b * L, *y = out->targets + b * L;
        MBA_TRY(mba_token_file_read(s->file, x, from, L, l->o.vocab));
        memcpy(y, x + 1, (size_t)(L - 1) * sizeof *y);
        MBA_TRY(mba_token_file_read(s->file, y + L - 1, from + L, 1, l->o.vocab));
        if (out->documents) {
            mba_assert(l->o.documents);
            number_documents(out->documents + b * L, x, L, (int32_t)l->end_of_text);
        }
        if (out->before) MBA_TRY(tokens_before(&out->before[b], l, s, from, (at->index - s->units_before) * L));
        for (int64_t i = 0; l->o.targets_within_documents && i < L; i++)
            if (y[i] == l->end_of_text) y[i] = -1;
    }
    mba_loader_skip(l, at);
    return MBA_OK;
}
