// SPDX-License-Identifier: Apache-2.0
/* box.c -- see box.h: a mailbox for every pair of ranks. The sender lends its buffer until the receiver has copied
 * it, or posts a copy, which the receiver frees. */
#include "cluster/box.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct mail {
    const void *data; /* NULL: nothing is on its way */
    size_t      bytes;
    void       *copy; /* of a post */
} mail;

typedef struct box {
    int             ranks;
    pthread_mutex_t lock;
    pthread_cond_t  news;
    mail           *mail;   /* (from, to) */
    mba_status      failed; /* of the first rank that failed: the others end */
    char            story[1024];
    mba_status (*live)(mba_world *w, void *ctx);
    void *ctx;
} box;

typedef struct resident {
    mba_world base;
    box      *b;
    pthread_t thread;
    char      nothing; /* what an empty message lends */
} resident;

static mba_status others_failed(void) { return mba_fail(MBA_E_DEVICE, "another rank of the box has failed"); }

/* Waits until the last message has been taken: it may be a post. */
static void await_room(box *b, const mail *out)
{
    while (out && out->data && !b->failed) pthread_cond_wait(&b->news, &b->lock);
}

static mba_status exchange(mba_world *w, const void *send, int to, void *recv, int from, size_t bytes)
{
    resident *r = (resident *)w;
    box      *b = r->b;
    mail     *out = to >= 0 ? &b->mail[w->rank * b->ranks + to] : NULL;
    mail     *in = from >= 0 ? &b->mail[from * b->ranks + w->rank] : NULL;
    pthread_mutex_lock(&b->lock);
    await_room(b, out);
    if (out && !b->failed) {
        *out = (mail){ bytes ? send : &r->nothing, bytes, NULL };
        pthread_cond_broadcast(&b->news);
    }
    while (in && !in->data && !b->failed) pthread_cond_wait(&b->news, &b->lock);
    if (in && in->data) {
        mba_assert(in->bytes == bytes);
        if (bytes) memcpy(recv, in->data, bytes);
        free(in->copy);
        *in = (mail){ 0 };
        pthread_cond_broadcast(&b->news);
    }
    await_room(b, out);
    const bool failed = b->failed != MBA_OK;
    pthread_mutex_unlock(&b->lock);
    return failed ? others_failed() : MBA_OK;
}

static mba_status post(mba_world *w, const void *send, int to, size_t bytes)
{
    box  *b = ((resident *)w)->b;
    mail *out = &b->mail[w->rank * b->ranks + to];
    void *copy = malloc(bytes);
    if (!copy) return mba_fail(MBA_E_NOMEM, "no memory for a message");
    memcpy(copy, send, bytes);
    pthread_mutex_lock(&b->lock);
    await_room(b, out);
    const bool failed = b->failed != MBA_OK;
    if (!failed) *out = (mail){ copy, bytes, copy };
    else free(copy);
    pthread_cond_broadcast(&b->news);
    pthread_mutex_unlock(&b->lock);
    return failed ? others_failed() : MBA_OK;
}

/* Around the ring: in round k, every rank sends its piece k ranks on. */
static mba_status gather_all(mba_world *w, void *all, const void *mine, size_t bytes)
{
    if (bytes) memcpy((char *)all + (size_t)w->rank * bytes, mine, bytes);
    for (int k = 1; k < w->ranks; k++) {
        const int to = (w->rank + k) % w->ranks, from = (w->rank + w->ranks - k) % w->ranks;
        MBA_TRY(exchange(w, mine, to, bytes ? (char *)all + (size_t)from * bytes : NULL, from, bytes));
    }
    return MBA_OK;
}

static void *run(void *arg)
{
    resident        *r = arg;
    box             *b = r->b;
    const mba_status st = b->live(&r->base, b->ctx);
    pthread_mutex_lock(&b->lock);
    if (st != MBA_OK && b->failed == MBA_OK) {
        b->failed = st;
        snprintf(b->story, sizeof b->story, "rank %d: %s", r->base.rank, mba_message());
    }
    pthread_cond_broadcast(&b->news);
    pthread_mutex_unlock(&b->lock);
    return NULL;
}

mba_status mba_box_run(int ranks, mba_status (*live)(mba_world *w, void *ctx), void *ctx)
{
    mba_assert(ranks > 0);
    box       b = { .ranks = ranks, .live = live, .ctx = ctx };
    resident *r = calloc((size_t)ranks, sizeof *r);
    b.mail = calloc((size_t)ranks * (size_t)ranks, sizeof *b.mail);
    int started = 0;
    pthread_mutex_init(&b.lock, NULL);
    pthread_cond_init(&b.news, NULL);
    for (; r && b.mail && started < ranks; started++) {
        r[started].base = (mba_world){
            .rank = started, .ranks = ranks, .exchange = exchange, .post = post, .gather_all = gather_all
        };
        r[started].b = &b;
        if (pthread_create(&r[started].thread, NULL, run, &r[started])) break;
    }
    if (started < ranks) {
        pthread_mutex_lock(&b.lock);
        b.failed = MBA_E_NOMEM;
        snprintf(b.story, sizeof b.story, "no memory for a box of %d ranks", ranks);
        pthread_cond_broadcast(&b.news);
        pthread_mutex_unlock(&b.lock);
    }
    for (int k = 0; k < started; k++) pthread_join(r[k].thread, NULL);
    for (int k = 0; k < ranks * ranks && b.mail; k++) free(b.mail[k].copy);
    pthread_cond_destroy(&b.news);
    pthread_mutex_destroy(&b.lock);
    free(b.mail);
    free(r);
    return b.failed ? mba_fail(b.failed, "%s", b.story) : MBA_OK;
}
