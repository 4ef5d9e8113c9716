// SPDX-License-Identifier: Apache-2.0
/* shards.c -- see shards.h. */
#include "train/shards.h"

#include <stdlib.h>
#include <string.h>

#include "ops/grad_norm/grad_norm.h"

void mba_shards_pad(mba_buckets *out, mba_graph *g, int64_t ranks, int64_t bucket_bytes)
{
    const int64_t unit = ranks * MBA_NORM_BLOCK, most = bucket_bytes / (int64_t)sizeof(float);
    for (int k = 0; k < MBA_GROUPS; k++) {
        mba_storage *st = g->params[k];
        out->bucket[k] = out->used[k] = 0;
        if (!st) continue;
        mba_assert(!st->grad); // which will have the size of its parameters
        const int64_t buckets = mba_ceil(st->elems, most > unit ? most : unit);
        out->bucket[k] = mba_ceil(mba_ceil(st->elems, buckets), unit) * unit;
        out->used[k] = st->elems;
        st->elems = buckets * out->bucket[k];
        if (g->copies[k]) g->copies[k]->elems = st->elems;
    }
}

static const char *const name[2][MBA_GROUPS] = { { "m.decay", "m.no_decay" }, { "v.decay", "v.no_decay" } };

/* The moments of this rank; NULL: the group has none. */
static float *shard_of(mba_session *s, int which, int group, int64_t *elems)
{
    const mba_tensor *t = mba_graph_find(s->graph, name[which][group]);
    *elems = t ? mba_elems(t) : 0;
    return t ? mba_program_host(s->program, t) : NULL;
}

/* Copies the pieces of a rank between its moments and the whole. */
static void place_pieces(float *whole, float *shard, int64_t elems, mba_place p, int64_t bucket, bool from_whole)
{
    const int64_t piece = bucket / p.ranks, at = mba_piece_offset(p, bucket);
    for (int64_t i = 0; i < elems / piece; i++) {
        float *w = whole + i * bucket + at, *x = shard + i * piece;
        memcpy(from_whole ? x : w, from_whole ? w : x, sizeof(float) * (size_t)piece);
    }
}

/* Rank 0 receives the moments of the others one rank after the other. */
static mba_status gather(mba_session *s, int which, int group)
{
    int64_t      n;
    float       *mine = shard_of(s, which, group, &n), *theirs;
    mba_world   *w = s->world;
    const size_t bytes = sizeof(float) * (size_t)n;
    if (w->rank) return w->exchange(w, mine, 0, NULL, -1, bytes);
    if (!(theirs = malloc(bytes))) return mba_fail(MBA_E_NOMEM, "no memory to gather the moments of all ranks");
    mba_status st = MBA_OK;
    place_pieces(s->whole[which][group], mine, n, s->place, s->buckets.bucket[group], false);
    for (int k = 1; k < w->ranks && st == MBA_OK; k++) {
        st = w->exchange(w, NULL, -1, theirs, k, bytes);
        if (st == MBA_OK)
            place_pieces(s->whole[which][group], theirs, n, (mba_place){ k, w->ranks }, s->buckets.bucket[group],
                         false);
    }
    free(theirs);
    return st;
}

mba_status mba_shards_whole(mba_session *s, bool gathered)
{
    const bool sharded = s->place.ranks > 1 && s->buckets.bucket[MBA_DECAY] + s->buckets.bucket[MBA_NO_DECAY];
    if (sharded) MBA_TRY(mba_program_pull(s->program));
    for (int which = 0; which < 2 && sharded; which++)
        for (int k = 0; k < MBA_GROUPS; k++) {
            int64_t n;
            if (!shard_of(s, which, k, &n)) continue;
            const bool wanted = !gathered || s->place.rank == 0;
            if (wanted && !(s->whole[which][k] = calloc((size_t)(n * s->place.ranks), sizeof(float))))
                return mba_fail(MBA_E_NOMEM, "no memory for the moments of all ranks");
            if (gathered) MBA_TRY(gather(s, which, k));
        }
    return MBA_OK;
}

mba_status mba_shards_take(mba_session *s)
{
    bool any = false;
    for (int which = 0; which < 2; which++)
        for (int k = 0; k < MBA_GROUPS; k++) {
            int64_t n;
            float  *mine = s->whole[which][k] ? shard_of(s, which, k, &n) : NULL;
            if (mine) place_pieces(s->whole[which][k], mine, n, s->place, s->buckets.bucket[k], true);
            any |= mine != NULL;
        }
    return any ? mba_program_push(s->program) : MBA_OK;
}

void mba_shards_free(mba_session *s)
{
    for (int which = 0; which < 2; which++)
        for (int k = 0; k < MBA_GROUPS; k++) {
            free(s->whole[which][k]);
            s->whole[which][k] = NULL;
        }
}
