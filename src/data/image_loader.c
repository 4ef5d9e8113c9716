// SPDX-License-Identifier: Apache-2.0
/* image_loader.c -- see image_loader.h.
 *
 * One mutex protects the ring and the claims; the work itself happens without it. A task is one image: it is made
 * (read, decoded, augmented, 8 bits, into a slot of the ring) or finished (mixed with its partner, normalised, erased,
 * into the caller's arrays). Threads claim slots in the order of their positions, and finishing has priority. The
 * result of a task does not depend on the thread. */
#include "data/image_loader.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/permute.h"

enum { TRIES = 16, STORY = 1024, RING_MAX = 64, WORKERS_MAX = 1024 };

typedef struct slot {
    mba_position at;
    int64_t      claimed, done, count; /* images claimed by threads; ready; in this batch */
    uint8_t     *rgb;                  /* (B, size, size, 3) */
    int32_t     *label;
    int64_t     *number;
    int64_t      skipped;
    mba_status   st;           /* of the first image that failed */
    char         story[STORY]; /* its message; or that of the last replaced image */
} slot;

/* The batch that is being finished into the caller's arrays. */
typedef struct finish {
    const slot            *from; /* NULL: none */
    const mba_image_batch *to;
    mba_mix                mix;
    int64_t                claimed, done;
} finish;

struct mba_image_loader {
    mba_image_loader_options o;
    int64_t                  batches, bytes; /* bytes: of one 8-bit image */
    slot                    *ring;
    int                      slots, first, used;
    mba_position             next;   /* of the slot that is opened next */
    int64_t                  in_run; /* batches since the last jump */
    finish                   finish;
    int                      busy;       /* images being made now */
    bool                     stop, hold; /* hold: the ring is being emptied */
    pthread_mutex_t          lock;
    pthread_cond_t           work, ready; /* for workers; for the caller */
    pthread_t               *thread;
    int                      threads;
    mba_image_maker         *maker; /* one per thread, the last is the caller's */
    int64_t                  skipped;
    char                     story[STORY];
};

/* ---- which image ---- */

static int64_t rows_of(const mba_image_loader *l) { return l->o.B * l->o.ranks; }

static int64_t number_of(const mba_image_loader *l, mba_position at, int64_t b)
{
    const int64_t i = at.index * rows_of(l) + l->o.rank * l->o.B + b;
    return l->o.shuffle ? mba_permuted(i, l->o.set->count, l->o.seed ^ mba_stream("images"), (uint64_t)at.epoch) : i;
}

static int64_t count_of(const mba_image_loader *l, mba_position at)
{
    const int64_t left = l->o.set->count - at.index * rows_of(l) - l->o.rank * l->o.B;
    return left < 0 ? 0 : left < l->o.B ? left : l->o.B;
}

static void advance(const mba_image_loader *l, mba_position *at)
{
    if (++at->index == l->batches) *at = (mba_position){ .epoch = at->epoch + 1 };
}

/* Moves on to the batch that will be asked for next. */
static void predict(mba_image_loader *l)
{
    advance(l, &l->next);
    if (!l->o.jump || ++l->in_run < l->o.run) return;
    l->in_run = 0;
    for (int64_t k = 0; k < l->o.jump; k++) advance(l, &l->next);
}

/* ---- making an image ---- */

/* True if the failure concerns one image, which another can replace. */
static bool about_one(mba_status st) { return st == MBA_E_FORMAT || st == MBA_E_UNSUPPORTED || st == MBA_E_IO; }

static mba_status make(const mba_image_loader *l, mba_image_maker *m, const slot *s, int64_t b, int64_t *skipped)
{
    const mba_image_set *set = l->o.set;
    mba_status           st = MBA_OK;
    for (int64_t k = 0; k < TRIES && k < set->count; k++) {
        st = mba_image_make(m, s->rgb + b * l->bytes, s->label + b, set, (s->number[b] + k) % set->count, &l->o.recipe,
                            l->o.seed, s->at.epoch);
        if (st == MBA_OK || !about_one(st)) return st;
        ++*skipped;
    }
    return mba_where(st, "image %" PRId64 " of the set; those after it cannot be used either", s->number[b]);
}

/* Called and returns with the lock held. */
static void make_claimed(mba_image_loader *l, mba_image_maker *m, slot *s, int64_t b)
{
    int64_t skipped = 0;
    s->number[b] = number_of(l, s->at, b);
    l->busy++;
    pthread_mutex_unlock(&l->lock);
    mba_status st = make(l, m, s, b, &skipped);
    pthread_mutex_lock(&l->lock);
    l->busy--;
    s->done++;
    s->skipped += skipped;
    if (st != MBA_OK && s->st == MBA_OK) s->st = st;
    if (st != MBA_OK || (skipped && s->st == MBA_OK)) snprintf(s->story, sizeof s->story, "%.1000s", mba_message());
    if (s->done == s->count || !l->busy) pthread_cond_signal(&l->ready);
}

/* ---- finishing an image ---- */

static void finish_image(const mba_image_loader *l, mba_image_maker *m, const finish *f, int64_t b)
{
    const slot             *s = f->from;
    const mba_image_recipe *r = &l->o.recipe;
    const mba_image_batch  *to = f->to;
    const int64_t           K = l->o.set->classes, pixels = (int64_t)r->size * r->size, other = s->count - 1 - b;
    float                  *x = to->x + b * pixels * 3;
    const uint8_t          *rgb = s->rgb + b * l->bytes;
    const bool              there = b < s->count;
    if (to->labels) to->labels[b] = there ? s->label[b] : -1;
    if (to->numbers) to->numbers[b] = there ? s->number[b] : -1;
    if (!there) {
        memset(x, 0, (size_t)pixels * 3 * sizeof *x);
        if (to->targets) memset(to->targets + b * K, 0, (size_t)K * sizeof *to->targets);
        return;
    }
    if (f->mix.kind != MBA_MIX_NONE) {
        mba_mix_images(m->made.rgb, rgb, s->rgb + other * l->bytes, &f->mix, r->size, r->size);
        rgb = m->made.rgb;
    }
    mba_normalise(x, rgb, pixels, &r->colours);
    mba_draw d = mba_draw_start(l->o.seed, "erase", s->at.epoch, s->number[b]);
    if (r->erase > 0 && mba_draw_chance(&d, r->erase)) mba_erase(x, r->size, r->size, &d);
    if (to->targets) mba_mix_targets(to->targets + b * K, s->label[b], s->label[other], f->mix.lam, K, r->smoothing);
}

/* Called and returns with the lock held. */
static void finish_claimed(mba_image_loader *l, mba_image_maker *m, int64_t b)
{
    pthread_mutex_unlock(&l->lock);
    finish_image(l, m, &l->finish, b);
    pthread_mutex_lock(&l->lock);
    if (++l->finish.done == l->o.B) pthread_cond_signal(&l->ready);
}

/* ---- workers ---- */

static slot *slot_at(mba_image_loader *l, int i) { return l->ring + (l->first + i) % l->slots; }

static void open_slot(mba_image_loader *l)
{
    slot *s = slot_at(l, l->used++);
    s->at = l->next;
    s->claimed = s->done = s->skipped = 0;
    s->count = count_of(l, s->at);
    s->st = MBA_OK;
    predict(l);
}

/* The first slot with an unclaimed image; opens a new slot if there is room. NULL: nothing to do. */
static slot *find_work(mba_image_loader *l)
{
    for (int i = 0; !l->hold && i < l->used; i++)
        if (slot_at(l, i)->claimed < slot_at(l, i)->count) return slot_at(l, i);
    if (l->hold || l->used == l->slots || !l->used) return NULL; // an empty ring waits for a position
    open_slot(l);
    slot *s = slot_at(l, l->used - 1);
    return s->count ? s : NULL;
}

typedef struct start {
    mba_image_loader *l;
    mba_image_maker  *m;
} start;

static void *work(void *argument)
{
    const start       a = *(start *)argument;
    mba_image_loader *l = a.l;
    free(argument);
    pthread_mutex_lock(&l->lock);
    while (!l->stop) {
        slot *s;
        if (l->finish.from && l->finish.claimed < l->o.B) finish_claimed(l, a.m, l->finish.claimed++);
        else if ((s = find_work(l))) make_claimed(l, a.m, s, s->claimed++);
        else pthread_cond_wait(&l->work, &l->lock);
    }
    pthread_mutex_unlock(&l->lock);
    return NULL;
}

/* ---- the caller ---- */

static mba_image_maker *own_maker(mba_image_loader *l) { return l->maker + l->o.workers; }

/* Waits until nobody works in the ring, empties it, and starts at `at`. */
static void restart(mba_image_loader *l, mba_position at)
{
    l->hold = true;
    while (l->busy) pthread_cond_wait(&l->ready, &l->lock);
    l->hold = false;
    l->used = 0;
    l->first = 0;
    l->next = at;
    l->in_run = 0;
    open_slot(l);
    pthread_cond_broadcast(&l->work);
}

/* Waits for the first slot of the ring, and makes images meanwhile. */
static slot *await(mba_image_loader *l)
{
    slot *s = slot_at(l, 0);
    while (s->done < s->count)
        if (s->claimed < s->count) make_claimed(l, own_maker(l), s, s->claimed++);
        else pthread_cond_wait(&l->ready, &l->lock);
    return s;
}

static void finish_all(mba_image_loader *l, const slot *s, const mba_image_batch *out)
{
    const mba_image_recipe *r = &l->o.recipe;
    mba_draw                d = mba_draw_start(l->o.seed, "mix", s->at.epoch, s->at.index * l->o.ranks + l->o.rank);
    l->finish = (finish){ .from = s, .to = out, .mix = mba_mix_draw(&d, r->mixup, r->cutmix, r->size, r->size) };
    pthread_cond_broadcast(&l->work);
    while (l->finish.done < l->o.B)
        if (l->finish.claimed < l->o.B) finish_claimed(l, own_maker(l), l->finish.claimed++);
        else pthread_cond_wait(&l->ready, &l->lock);
    l->finish.from = NULL;
}

static void close_slot(mba_image_loader *l)
{
    l->first = (l->first + 1) % l->slots;
    l->used--;
    if (!l->used) open_slot(l);
    pthread_cond_broadcast(&l->work);
}

static mba_status deliver(mba_image_loader *l, mba_image_batch *out)
{
    slot *s = await(l);
    if (s->st != MBA_OK) {
        const mba_status st = mba_fail(s->st, "%s", s->story);
        restart(l, s->at); // the next call tries again
        return st;
    }
    out->count = s->count;
    finish_all(l, s, out);
    if (s->skipped) {
        l->skipped += s->skipped;
        memcpy(l->story, s->story, sizeof l->story);
    }
    close_slot(l);
    return MBA_OK;
}

mba_status mba_image_loader_next(mba_image_loader *l, mba_image_batch *out, mba_position *at)
{
    mba_assert(out->x);
    if (at->epoch < 0 || at->index < 0 || at->index >= l->batches)
        return mba_fail(MBA_E_ARG,
                        "there is no batch %" PRId64 " in epoch %" PRId64 "\nwhy: an epoch has %" PRId64
                        " batches\nfix: resume with the data and batch size of the checkpoint",
                        at->index, at->epoch, l->batches);
    pthread_mutex_lock(&l->lock);
    const slot *s = l->used ? slot_at(l, 0) : NULL;
    if (!s || s->at.epoch != at->epoch || s->at.index != at->index) restart(l, *at);
    mba_status st = deliver(l, out);
    pthread_mutex_unlock(&l->lock);
    if (st == MBA_OK) advance(l, at);
    return st;
}

int64_t mba_image_loader_batches(const mba_image_loader *l) { return l->batches; }

int64_t mba_image_loader_skipped(const mba_image_loader *l, const char **story)
{
    if (story) *story = l->story;
    return l->skipped;
}

/* ---- opening and closing ---- */

static mba_status check(const mba_image_loader_options *o)
{
    const mba_image_recipe *r = &o->recipe;
    if (o->B < 1 || o->B > INT32_MAX || r->size < 1 || r->size > 8192)
        return mba_fail(MBA_E_ARG,
                        "batches of %" PRId64 " images of %d pixels a side are impossible\n"
                        "fix: at least one image, of 1 to 8192 pixels a side",
                        o->B, r->size);
    if (o->rank < 0 || o->ranks < 0 || o->rank >= (o->ranks ? o->ranks : 1))
        return mba_fail(MBA_E_ARG, "there is no rank %d of %d", o->rank, o->ranks);
    if (o->workers < 0 || o->workers > WORKERS_MAX || o->prefetch < 0 || o->prefetch > RING_MAX)
        return mba_fail(MBA_E_ARG, "%d workers and %d batches ahead are impossible\nfix: at most %d and %d", o->workers,
                        o->prefetch, WORKERS_MAX, RING_MAX);
    if (o->partial && (r->mixup > 0 || r->cutmix > 0))
        return mba_fail(MBA_E_ARG,
                        "a last batch with fewer images cannot be mixed\nwhy: partial batches are for evaluation\n"
                        "fix: leave out mixup and cutmix, or partial batches");
    if ((r->crop == MBA_CROP_CENTRE || r->crop == MBA_CROP_SQUASH) && !(r->fraction > 0.01 && r->fraction <= 4))
        return mba_fail(MBA_E_ARG, "a crop fraction of %g is impossible", r->fraction);
    if (r->crop == MBA_CROP_PADDED && (r->pad < 0 || r->pad > 8192))
        return mba_fail(MBA_E_ARG, "a border of %d pixels is impossible", r->pad);
    return MBA_OK;
}

static mba_status measure(mba_image_loader *l)
{
    const int64_t rows = rows_of(l), n = l->o.set->count;
    l->bytes = (int64_t)l->o.recipe.size * l->o.recipe.size * 3;
    l->batches = l->o.partial ? (n + rows - 1) / rows : n / rows;
    if (l->batches) return MBA_OK;
    return mba_fail(MBA_E_ARG,
                    "the set is too small for one batch\nwhy: it has %" PRId64 " images, a batch of %" PRId64
                    " on %d rank(s) takes %" PRId64 "\nfix: take a smaller batch",
                    n, l->o.B, l->o.ranks, rows);
}

static mba_status take_memory(mba_image_loader *l)
{
    bool ok = true;
    l->slots = l->o.workers ? (l->o.prefetch ? l->o.prefetch : 3) : 1;
    l->ring = calloc((size_t)l->slots, sizeof *l->ring);
    l->thread = calloc((size_t)l->o.workers + 1, sizeof *l->thread);
    l->maker = calloc((size_t)l->o.workers + 1, sizeof *l->maker);
    if (!l->ring || !l->thread || !l->maker) return mba_fail(MBA_E_NOMEM, "no memory for a loader of images");
    for (int i = 0; i < l->slots; i++) {
        slot *s = l->ring + i;
        s->rgb = malloc((size_t)(l->o.B * l->bytes));
        s->label = malloc((size_t)l->o.B * sizeof *s->label);
        s->number = malloc((size_t)l->o.B * sizeof *s->number);
        ok = ok && s->rgb && s->label && s->number;
    }
    for (int i = 0; ok && i <= l->o.workers; i++)
        MBA_TRY(mba_image_reshape(&l->maker[i].made, l->o.recipe.size, l->o.recipe.size));
    if (ok) return MBA_OK;
    return mba_fail(MBA_E_NOMEM, "no memory for %d batches of %" PRId64 " images ahead", l->slots, l->o.B);
}

/* Starts the workers with all signals blocked: the main thread handles them. */
static mba_status start_workers(mba_image_loader *l)
{
    sigset_t all, before;
    int      error = 0;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (!error && l->threads < l->o.workers) {
        start *a = malloc(sizeof *a);
        if (a) *a = (start){ l, l->maker + l->threads };
        error = a ? pthread_create(&l->thread[l->threads], NULL, work, a) : ENOMEM;
        if (error) free(a);
        else l->threads++;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!error) return MBA_OK;
    return mba_fail(MBA_E_NOMEM, "cannot start %d threads to load images\nwhy: %s\nfix: ask for fewer workers",
                    l->o.workers, strerror(error));
}

mba_status mba_image_loader_create(mba_image_loader **out, const mba_image_loader_options *o)
{
    MBA_TRY(check(o));
    mba_image_loader *l = calloc(1, sizeof *l);
    if (!l) return mba_fail(MBA_E_NOMEM, "no memory for a loader of images");
    l->o = *o;
    if (!l->o.ranks) l->o.ranks = 1;
    pthread_mutex_init(&l->lock, NULL);
    pthread_cond_init(&l->work, NULL);
    pthread_cond_init(&l->ready, NULL);
    mba_status st = measure(l);
    if (st == MBA_OK) st = take_memory(l);
    if (st == MBA_OK) st = start_workers(l);
    if (st == MBA_OK) *out = l;
    else mba_image_loader_destroy(l);
    return st;
}

void mba_image_loader_destroy(mba_image_loader *l)
{
    if (!l) return;
    pthread_mutex_lock(&l->lock);
    l->stop = true;
    pthread_cond_broadcast(&l->work);
    pthread_mutex_unlock(&l->lock);
    for (int i = 0; i < l->threads; i++) pthread_join(l->thread[i], NULL);
    for (int i = 0; l->ring && i < l->slots; i++) {
        free(l->ring[i].rgb);
        free(l->ring[i].label);
        free(l->ring[i].number);
    }
    for (int i = 0; l->maker && i <= l->o.workers; i++) mba_image_maker_free(&l->maker[i]);
    pthread_mutex_destroy(&l->lock);
    pthread_cond_destroy(&l->work);
    pthread_cond_destroy(&l->ready);
    free(l->ring);
    free(l->thread);
    free(l->maker);
    free(l);
}
