// SPDX-License-Identifier: Apache-2.0
/* text_feed.c -- the feed of language models (feed.h): token files as batches of sequences, with targets, document
 * numbers and carried states. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/tokenizer_files.h"
#include "train/feed.h"
#include "train/synthetic_text.h"

enum { MADE_BYTES = 4 << 20 };

typedef struct text_feed {
    mba_feed             base;
    mba_synthetic_corpus made;
    mba_loader          *loader;
    bool                 documents;   /* batches have document numbers */
    int64_t              rows, elems; /* of a micro-batch */
    mba_place            part;        /* of every sequence that is bound and counted: see lm.h; all of it is staged */
    int32_t             *staged[3];   /* tokens, targets, document numbers of all micro-batches: the loss scale counts
                                            all targets of a step before the first micro-batch runs */
    int32_t             *before;      /* (micro-batches, B) if states are carried: see loader.h; else NULL */
} text_feed;

static void text_close(mba_feed *base)
{
    text_feed *f = (text_feed *)base;
    for (int k = 0; k < 3; k++) free(f->staged[k]);
    free(f->before);
    mba_loader_destroy(f->loader);
    mba_synthetic_corpus_remove(&f->made);
    free(f);
}

static mba_status open_loader(text_feed *f, const mba_lm *c, const mba_feed_options *o)
{
    const mba_part part = o->validation <= 0 ? MBA_PART_ALL : o->held_out ? MBA_PART_VALIDATION : MBA_PART_TRAIN;
    const int32_t  border = (int32_t)(o->end_of_text - 1);
    if (!o->data) MBA_TRY(mba_synthetic_corpus_create(&f->made, o->seed, MADE_BYTES));
    return mba_loader_create(&f->loader,
                             &(mba_loader_options){ .data = o->data ? o->data : f->made.path,
                                                    .B = c->batch,
                                                    .L = c->length,
                                                    .vocab = c->vocab,
                                                    .split = part,
                                                    .validation = o->validation,
                                                    .shuffle = !o->in_order && !c->carry && !o->held_out,
                                                    .streams = c->carry && !o->held_out,
                                                    .seed = o->seed,
                                                    .documents = c->documents,
                                                    .end_of_text = o->end_of_text ? &border : NULL,
                                                    .targets_within_documents = o->targets_within_documents });
}

static mba_status take_memory(text_feed *f, int64_t micros, bool carries)
{
    bool there = true;
    for (int k = 0; k < 3; k++) there &= (f->staged[k] = calloc((size_t)(f->elems * micros), sizeof(int32_t))) != NULL;
    if (carries) there &= (f->before = calloc((size_t)(f->rows * micros), sizeof(int32_t))) != NULL;
    return there ? MBA_OK : mba_fail(MBA_E_NOMEM, "no memory for the batches of a step");
}

static mba_status text_open(mba_feed **out, const mba_model *m, const mba_feed_options *o)
{
    if (o->held_out && o->validation <= 0) return MBA_OK;
    text_feed *f = calloc(1, sizeof *f);
    if (!f) return mba_fail(MBA_E_NOMEM, "no memory for a feed");
    f->documents = m->lm.documents;
    f->rows = m->lm.batch;
    f->elems = m->lm.batch * m->lm.length;
    f->part = m->lm.sequence.ranks > 1 ? m->lm.sequence : (mba_place){ 0, 1 };
    mba_status st = open_loader(f, &m->lm, o);
    if (st == MBA_OK) st = take_memory(f, o->micros > 0 ? o->micros : 1, m->lm.carry && !o->held_out);
    if (st == MBA_OK) f->base.size = mba_loader_tokens(f->loader);
    if (st == MBA_OK) *out = &f->base;
    else text_close(&f->base);
    return st;
}

/* This rank's part of sequence `row` of all staged ones; *n: its tokens. */
static const int32_t *part_of(const text_feed *f, int what, int64_t row, int64_t *n)
{
    const int64_t length = f->elems / f->rows;
    *n = length / f->part.ranks;
    return f->staged[what] + row * length + f->part.rank * *n;
}

static int64_t count_targets(const text_feed *f, int64_t first, int64_t rows)
{
    int64_t valid = 0, n;
    for (int64_t b = first; b < first + rows; b++) {
        const int32_t *targets = part_of(f, 1, b, &n);
        for (int64_t i = 0; i < n; i++) valid += targets[i] >= 0;
    }
    return valid;
}

static mba_status text_stage(mba_feed *base, mba_step *step)
{
    text_feed *f = (text_feed *)base;
    for (int64_t slot = 0; slot < base->slots; slot++) {
        const int64_t m = slot - base->first, at = m * f->elems;
        if (m < 0 || m >= base->micros) { // of another rank
            mba_loader_skip(f->loader, &base->at);
            continue;
        }
        mba_batch b = { f->staged[0] + at, f->staged[1] + at, f->documents ? f->staged[2] + at : NULL,
                        f->before ? f->before + m * f->rows : NULL };
        MBA_TRY(mba_loader_next(f->loader, &b, &base->at));
    }
    base->valid = count_targets(f, 0, f->rows * base->micros);
    step->loss_scale = base->valid ? 1 / (float)base->valid : 0;
    base->units = f->elems / f->part.ranks * base->micros;
    return MBA_OK;
}

static mba_status text_bind(mba_feed *base, mba_session *s, int64_t micro, mba_step *step)
{
    static const char *const name[] = { "tokens", "targets", "ids" };
    text_feed               *f = (text_feed *)base;
    (void)step;
    if (f->before) mba_session_reset_state(s, f->before + micro * f->rows);
    for (int k = 0; k < (f->documents ? 3 : 2); k++)
        for (int64_t b = 0; b < f->rows; b++) {
            int64_t        n;
            const int32_t *part = part_of(f, k, micro * f->rows + b, &n);
            memcpy((int32_t *)mba_session_at(s, name[k]) + b * n, part, sizeof *part * (size_t)n);
        }
    base->targets = count_targets(f, micro * f->rows, f->rows);
    return MBA_OK;
}

/* Reads the tokenizer beside the token files, if it is the one that their notes name. */
static mba_status tokenizer_beside(mba_tokenizer_files *out, const char *path, const mba_token_notes *notes)
{
    char           folder[4096];
    mba_tokenizer *t = NULL;
    const char    *slash = strrchr(path, '/');
    snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - path) : 1, slash ? path : ".");
    MBA_TRY(mba_tokenizer_files_read(out, *folder ? folder : "/"));
    if (!out->n || !notes) return MBA_OK;
    const mba_status st = mba_tokenizer_create_json(&t, out->text[0].data, out->text[0].n);
    if (st != MBA_OK || strcmp(mba_tokenizer_name(t), notes->tokenizer)) mba_tokenizer_files_free(out);
    mba_tokenizer_destroy(t);
    return MBA_OK; // an unreadable one does not belong to them
}

static mba_status check_given(const mba_tokenizer *t, const mba_token_notes *notes, const char *path)
{
    if (!notes || !strcmp(mba_tokenizer_name(t), notes->tokenizer)) return MBA_OK;
    return mba_fail(MBA_E_ARG,
                    "the data was encoded with another tokenizer\nwhy: the notes of '%s' name %s, --tokenizer is %s\n"
                    "fix: leave --tokenizer out, or prepare the data again",
                    path, notes->tokenizer, mba_tokenizer_name(t));
}

mba_status mba_feed_tokenizer(mba_tokenizer_files *out, const mba_feed *base, const char *given)
{
    const text_feed       *f = (const text_feed *)base;
    const char            *path = mba_loader_path(f->loader);
    const mba_token_notes *notes = mba_loader_notes(f->loader);
    mba_tokenizer         *t = NULL;
    *out = (mba_tokenizer_files){ 0 };
    mba_assert(base->type == &mba_text_feed);
    if (!given) {
        MBA_TRY(tokenizer_beside(out, path, notes));
        if (out->n || !notes || strcmp(notes->tokenizer, "bytes")) return MBA_OK;
    }
    mba_status st = mba_tokenizer_create(&t, given ? given : "bytes");
    if (st == MBA_OK) st = check_given(t, notes, path);
    if (st == MBA_OK) st = mba_tokenizer_files_of(out, t);
    mba_tokenizer_destroy(t);
    return st;
}

static void text_describe(const mba_feed *base, char *text, size_t room)
{
    const text_feed       *f = (const text_feed *)base;
    const mba_token_notes *notes = mba_loader_notes(f->loader);
    snprintf(text, room, "%lld tokens in %d file%s%s", (long long)base->size, mba_loader_files(f->loader),
             mba_loader_files(f->loader) == 1 ? "" : "s", notes && notes->synthetic ? " (SYNTHETIC text)" : "");
}

const mba_feed_type mba_text_feed = {
    .open = text_open,
    .stage = text_stage,
    .bind = text_bind,
    .describe = text_describe,
    .close = text_close,
};
