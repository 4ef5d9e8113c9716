// SPDX-License-Identifier: Apache-2.0
/* train_ranks.c -- what the ranks of a run agree on in every step (train_run.h): small messages by gather_all. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "train/train_run.h"

typedef struct consent {
    int64_t valid, units, left_out, status, stop;
    char    story[1000];
} consent;

static mba_status no_memory(void) { return mba_fail(MBA_E_NOMEM, "no memory for messages of all ranks"); }

/* Fails with the first message of a rank that failed. */
static mba_status first_failure(const mba__run *r, const consent *all, size_t stride)
{
    for (int k = 0; k < r->world->ranks; k++) {
        consent c;
        memcpy(&c, (const char *)all + (size_t)k * stride, sizeof c);
        c.story[sizeof c.story - 1] = 0;
        if (c.status) return mba_fail((mba_status)c.status, "rank %d: %s", k, c.story);
    }
    return MBA_OK;
}

static consent my_consent(const mba__run *r, mba_status mine)
{
    consent c = { .status = (int64_t)mine, .stop = r->o->stop && *r->o->stop };
    if (mine != MBA_OK) snprintf(c.story, sizeof c.story, "%s", mba_message());
    return c;
}

mba_status mba__run_agree_staged(mba__run *r, mba_step *step, mba_status mine)
{
    mba_world *w = r->world;
    consent    me = my_consent(r, mine), *all = calloc((size_t)w->ranks, sizeof *all);
    int64_t    valid = 0;
    me.valid = r->train->valid;
    me.units = r->train->units;
    me.left_out = r->train->left_out;
    mba_status st = all ? w->gather_all(w, all, &me, sizeof me) : no_memory();
    if (st == MBA_OK) st = first_failure(r, all, sizeof *all);
    r->all_units = r->all_left_out = 0;
    for (int k = 0; k < w->ranks && all; k++) {
        valid += all[k].valid;
        r->all_units += all[k].units;
        r->all_left_out += all[k].left_out;
        r->told_to_stop |= all[k].stop != 0;
    }
    free(all);
    if (r->told_to_stop && r->o->stop) *r->o->stop = 1; // the caller's summary says so on every rank
    step->loss_scale = valid ? 1 / (float)valid : 0;
    return st;
}

/* The losses of this rank's slots stand behind its consent. */
static mba_status gather_losses(mba__run *r, float *all, const float *loss, mba_status mine)
{
    mba_world    *w = r->world;
    const size_t  n = sizeof *loss * (size_t)r->micros, stride = sizeof(consent) + n;
    const consent me = my_consent(r, mine);
    char         *message = malloc(stride), *got = malloc(stride * (size_t)w->ranks);
    mba_status    st = message && got ? MBA_OK : no_memory();
    if (st == MBA_OK) {
        memcpy(message, &me, sizeof me);
        memcpy(message + sizeof me, loss, n);
        st = w->gather_all(w, got, message, stride);
    }
    if (st == MBA_OK) st = first_failure(r, (const consent *)(const void *)got, stride);
    for (int k = 0; k < w->ranks && st == MBA_OK; k++)
        memcpy(all + k * r->micros, got + (size_t)k * stride + sizeof me, n);
    free(message);
    free(got);
    return st;
}

mba_status mba__run_agree_losses(mba__run *r, const float *loss, double *sum, int64_t *good, mba_status mine)
{
    const int64_t n = r->slots * r->parts; // the parts of a sequence have losses of their own
    float        *all = malloc(sizeof *all * (size_t)n);
    mba_status    st = !all ? no_memory() : r->world ? gather_losses(r, all, loss, mine) : mine;
    if (st == MBA_OK && !r->world) memcpy(all, loss, sizeof *loss * (size_t)n);
    *sum = 0;
    for (*good = 0; st == MBA_OK && *good < n; ++*good) {
        *sum += (double)all[*good];
        if (!isfinite(*sum)) break;
    }
    free(all);
    return st;
}

mba_status mba__run_agree_flag(mba__run *r, bool *flag, bool any)
{
    const char mine = *flag;
    if (!r->world) return MBA_OK;
    char            *all = malloc((size_t)r->world->ranks);
    const mba_status st = all ? r->world->gather_all(r->world, all, &mine, 1) : no_memory();
    if (st == MBA_OK) *flag = all[0];
    for (int k = 1; k < r->world->ranks && st == MBA_OK && any; k++) *flag |= all[k] != 0;
    free(all);
    return st;
}

mba_status mba__run_agree_note(mba__run *r)
{
    static const char general[] = "all operator outputs";
    if (!r->world) return MBA_OK;
    char(*all)[sizeof r->note] = malloc(sizeof r->note * (size_t)r->world->ranks);
    if (!all) return no_memory();
    const mba_status st = r->world->gather_all(r->world, all, r->note, sizeof r->note);
    for (int k = r->world->ranks - 1; k >= 0 && st == MBA_OK; k--)
        if (*all[k] && (!*r->note || strncmp(all[k], general, sizeof general - 1)))
            snprintf(r->note, sizeof r->note, "%s", all[k]);
    free(all);
    return st;
}

mba_status mba__run_agree_start(mba__run *r)
{
    char mine[512];
    char(*all)[sizeof mine];
    if (!r->world) return MBA_OK;
    memset(mine, 0, sizeof mine);
    snprintf(mine, sizeof mine, "%lld parameters, %s, %lld micro-batches, seed %llu, step %lld, data: %lld",
             (long long)mba_session_parameters(&r->s), mba_model_batch_words(&r->s.model).text, (long long)r->micros,
             (unsigned long long)r->o->seed, (long long)r->step.index, (long long)r->train->size);
    if (!(all = malloc(sizeof mine * (size_t)r->world->ranks))) return no_memory();
    mba_status st = r->world->gather_all(r->world, all, mine, sizeof mine);
    for (int k = 1; k < r->world->ranks && st == MBA_OK; k++)
        if (strncmp(all[0], all[k], sizeof mine - 1))
            st =
                mba_fail(MBA_E_ARG,
                         "rank %d has another run than rank 0\nwhy: %.400s; rank 0 has %.400s\nfix: start all ranks by "
                         "one command, with the same files",
                         k, all[k], all[0]);
    free(all);
    return st;
}
