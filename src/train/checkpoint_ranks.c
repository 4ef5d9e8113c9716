// SPDX-License-Identifier: Apache-2.0
/* checkpoint_ranks.c -- see checkpoint_ranks.h. */
#include "train/checkpoint_ranks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/file.h"
#include "train/shards.h"

enum { PATH_ROOM = 4096, BLOCK = 1 << 21 };        // BLOCK: elements that one rank puts at a time
static const char mark[] = "written-by-all-ranks"; // a file that shows whether the ranks share the folder

bool mba__checkpoint_is_shared(const mba_session *s, const mba_tensor *t)
{
    return s->world && s->world->ranks > 1 && mba_is_param(t);
}

/* ---- agreements ---- */

typedef struct word {
    int64_t status, number;
    char    story[1000], folder[PATH_ROOM];
} word;

/* Fails on all ranks with the message of the first that failed. *first: the word of rank 0, if it is wanted;
 * *everywhere: whether all have a number. */
static mba_status agree(mba_world *w, word *mine, mba_status st, word *first, bool *everywhere)
{
    word *all = calloc((size_t)w->ranks, sizeof *all);
    mine->status = (int64_t)st;
    if (st != MBA_OK) snprintf(mine->story, sizeof mine->story, "%s", mba_message());
    st = all ? w->gather_all(w, all, mine, sizeof *mine) : mba_fail(MBA_E_NOMEM, "no memory for messages of all ranks");
    if (everywhere) *everywhere = true;
    for (int k = 0; k < w->ranks && st == MBA_OK; k++) {
        all[k].story[sizeof all[k].story - 1] = all[k].folder[PATH_ROOM - 1] = 0;
        if (all[k].status) st = mba_fail((mba_status)all[k].status, "rank %d: %s", k, all[k].story);
        if (everywhere) *everywhere &= all[k].number != 0;
    }
    if (st == MBA_OK && first) *first = all[0];
    free(all);
    return st;
}

static mba_status path_of(char out[PATH_ROOM], const char *folder, const char *name)
{
    return snprintf(out, PATH_ROOM, "%s/%s", folder, name) < PATH_ROOM
               ? MBA_OK
               : mba_fail(MBA_E_ARG, "the path '%s/%s' is too long\nfix: choose a shorter --out", folder, name);
}

static mba_status leave_mark(const char *folder, int64_t number)
{
    char        path[PATH_ROOM];
    mba_writer *w = NULL;
    MBA_TRY(path_of(path, folder, mark));
    mba_status st = mba_writer_create(&w, path);
    if (st == MBA_OK) st = mba_writer_put(w, &number, sizeof number);
    if (st == MBA_OK) st = mba_writer_commit(w);
    mba_writer_destroy(w);
    return st;
}

/* Whether this rank sees the mark of rank 0, and not one that a folder of its own has. */
static bool sees_mark(const char *folder, int64_t number)
{
    char   path[PATH_ROOM], *text = NULL;
    size_t bytes = 0;
    bool   seen = path_of(path, folder, mark) == MBA_OK && !access(path, F_OK)
                && mba_file_read(&text, &bytes, path, sizeof number) == MBA_OK && bytes == sizeof number
                && !memcmp(text, &number, sizeof number);
    free(text);
    return seen;
}

/* Tells all ranks the folder of rank 0. *shared: all see it. */
static mba_status meet(mba_world *w, char folder[PATH_ROOM], const char *from, mba_status st, bool *shared)
{
    struct timespec now;
    word            mine = { 0 }, first = { 0 };
    char            path[PATH_ROOM];
    if (w->rank == 0 && st == MBA_OK) {
        clock_gettime(CLOCK_REALTIME, &now);
        mine.number = now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
        snprintf(mine.folder, sizeof mine.folder, "%s", from);
        st = leave_mark(from, mine.number);
    }
    MBA_TRY(agree(w, &mine, st, &first, NULL));
    snprintf(folder, PATH_ROOM, "%s", first.folder);
    mine = (word){ .number = sees_mark(folder, first.number) };
    MBA_TRY(agree(w, &mine, MBA_OK, NULL, shared));
    if (w->rank == 0 && path_of(path, folder, mark) == MBA_OK) unlink(path); // it is no file of the checkpoint
    return MBA_OK;
}

/* ---- what a rank puts ---- */

typedef struct part {
    const mba_session      *s;
    mba_place               place; /* of this rank; rank 0 of one: it puts everything */
    mba_safetensors_inside *file;
    int64_t                 blocks; /* so far, of all ranks */
    int                     which;  /* m or v */
} part;

/* What all ranks hold is divided into blocks, which the ranks take in turn. */
static mba_status put_blocks(part *x, const char *name, const float *data, int64_t elems)
{
    for (int64_t i = 0; i < elems; i += BLOCK, x->blocks++) {
        const int64_t n = elems - i < BLOCK ? elems - i : BLOCK;
        if (x->blocks % x->place.ranks == x->place.rank) MBA_TRY(mba_safetensors_put(x->file, name, data + i, i, n));
    }
    return MBA_OK;
}

static mba_status put_weights(part *x, mba_hf_format format)
{
    for (int32_t i = 0; i < x->s->graph->ntensors; i++) {
        const mba_tensor *t = x->s->graph->tensors[i];
        mba_hf_slice      slice[MBA_HF_SLICES_MAX];
        if (!mba_is_param(t)) continue;
        const int     n = mba_hf_slices(slice, format, &x->s->model, t);
        const int64_t row = mba_elems(t) / t->type.dim[0];
        const float  *from = mba_program_host(x->s->program, t);
        for (int k = 0; k < n; k++)
            MBA_TRY(put_blocks(x, slice[k].name, from + slice[k].row * row, slice[k].rows * row));
    }
    return MBA_OK;
}

/* Averages, and moments that every rank has whole. */
static mba_status put_kept(part *x)
{
    char name[MBA_HF_NAME_MAX];
    for (int32_t i = 0; i < x->s->graph->ntensors; i++) {
        const mba_tensor *t = x->s->graph->tensors[i];
        if (!mba_is_param(t)) continue;
        for (int k = 0; k < 2 && !mba_shards_exist(x->s); k++) {
            snprintf(name, sizeof name, "%c.%s", mba_moment_letter(k), t->name);
            MBA_TRY(put_blocks(x, name, mba_session_moment(x->s, t, k), mba_elems(t)));
        }
        if (!x->s->averages) continue;
        snprintf(name, sizeof name, "ema.%s", t->name);
        MBA_TRY(put_blocks(x, name, mba_session_learned_at(x->s, t, true), mba_elems(t)));
    }
    return MBA_OK;
}

static mba_status put_run(void *user, const mba_shards_run *r)
{
    const part *x = user;
    char        name[MBA_HF_NAME_MAX];
    snprintf(name, sizeof name, "%c.%s", mba_moment_letter(x->which), r->param->name);
    return mba_safetensors_put(x->file, name, r->at, r->first, r->count);
}

/* Rank 0 receives a piece of each other rank and puts it. A failure does not end the exchange, for which they wait. */
static mba_status pass_piece(part *x, int group, int64_t bucket, float *mine, float *theirs, size_t bytes)
{
    mba_world *w = x->s->world;
    if (w->rank) return w->exchange(w, mine, 0, NULL, -1, bytes);
    mba_status put = MBA_OK;
    for (int k = 1; k < w->ranks; k++) {
        MBA_TRY(w->exchange(w, NULL, -1, theirs, k, bytes));
        if (put == MBA_OK && x->file)
            put = mba_shards_runs(x->s, (mba_place){ k, w->ranks }, group, bucket, theirs, put_run, x);
    }
    return put;
}

/* The moments that this rank holds. With `theirs`, room for a piece, those of all ranks: they pass through rank 0. */
static mba_status put_pieces(part *x, float *theirs)
{
    const mba_session *s = x->s;
    mba_status         st = MBA_OK;
    for (x->which = 0; x->which < 2; x->which++)
        for (int k = 0; k < MBA_GROUPS; k++) {
            const mba_pieces p = mba_shards_pieces(s, x->which, k);
            for (int64_t i = 0; i < p.n; i++) {
                float *mine = p.at + i * p.elems;
                if (st == MBA_OK && x->file) st = mba_shards_runs(s, s->place, k, i, mine, put_run, x);
                if (!theirs) continue;
                const mba_status passed = pass_piece(x, k, i, mine, theirs, sizeof(float) * (size_t)p.elems);
                if (st == MBA_OK) st = passed;
            }
        }
    return st;
}

static float *room_for_piece(const mba_session *s)
{
    int64_t most = 0;
    for (int k = 0; k < MBA_GROUPS; k++) most = most > s->buckets.bucket[k] ? most : s->buckets.bucket[k];
    return malloc(sizeof(float) * (size_t)(most / s->place.ranks + 1));
}

static mba_status enter(part *x, const char *folder, const char *name)
{
    char path[PATH_ROOM];
    x->blocks = 0;
    MBA_TRY(path_of(path, folder, name));
    return mba_safetensors_enter(&x->file, path);
}

static mba_status leave(part *x, mba_status st)
{
    if (st == MBA_OK && x->file) st = mba_safetensors_end(x->file);
    mba_safetensors_leave(x->file);
    x->file = NULL;
    return st;
}

mba_status mba__checkpoint_fill(const mba_session *s, mba_hf_format format, const char *folder, bool moments,
                                mba_status mine, bool *apart)
{
    char       at[PATH_ROOM];
    bool       shared;
    mba_world *w = s->world;
    word       done = { 0 };
    MBA_TRY(meet(w, at, folder, mine, &shared));
    *apart = !shared;
    float     *theirs = shared ? NULL : room_for_piece(s);
    const bool puts = shared || !w->rank;
    if (!shared && !theirs) return mba_fail(MBA_E_NOMEM, "no memory for the moments of a rank"); // the others end, too
    part       x = { .s = s, .place = { .rank = shared ? w->rank : 0, .ranks = shared ? w->ranks : 1 } };
    mba_status st = puts ? enter(&x, at, "model.safetensors") : MBA_OK;
    if (st == MBA_OK && puts) st = put_weights(&x, format);
    st = leave(&x, st);
    if (moments) {
        if (st == MBA_OK && puts) st = enter(&x, at, "optimizer.safetensors");
        if (st == MBA_OK && puts) st = put_kept(&x);
        if (mba_shards_exist(s)) {
            const mba_status put = put_pieces(&x, theirs);
            if (st == MBA_OK) st = put;
        }
        st = leave(&x, st);
    }
    free(theirs);
    return agree(w, &done, st, NULL, NULL);
}
