// SPDX-License-Identifier: Apache-2.0
/* shards.c -- see shards.h. */
#include "train/shards.h"

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

bool mba_shards_exist(const mba_session *s)
{
    return s->place.ranks > 1 && s->buckets.bucket[MBA_DECAY] + s->buckets.bucket[MBA_NO_DECAY];
}

mba_pieces mba_shards_pieces(const mba_session *s, int which, int group)
{
    static const char *const name[2][MBA_GROUPS] = { { "m.decay", "m.no_decay" }, { "v.decay", "v.no_decay" } };
    const mba_tensor        *t = mba_graph_find(s->graph, name[which][group]);
    mba_pieces               p = { 0 };
    if (!t) return p;
    p.at = mba_program_host(s->program, t);
    p.elems = s->buckets.bucket[group] / s->place.ranks;
    p.n = mba_elems(t) / p.elems;
    return p;
}

mba_status mba_shards_runs(const mba_session *s, mba_place p, int group, int64_t bucket, float *piece,
                           mba_shards_use *use, void *user)
{
    const int64_t elems = s->buckets.bucket[group] / p.ranks,
                  begin = bucket * s->buckets.bucket[group] + mba_piece_offset(p, s->buckets.bucket[group]);
    for (int32_t i = 0; i < s->graph->ntensors; i++) {
        const mba_tensor *t = s->graph->tensors[i];
        if (!mba_is_param(t) || t->st != s->graph->params[group]) continue;
        const int64_t first = t->offset > begin ? t->offset : begin, last = t->offset + mba_elems(t),
                      end = last < begin + elems ? last : begin + elems;
        if (first >= end) continue; // the padding of the last bucket belongs to no parameter
        const mba_shards_run r = { t, first - t->offset, end - first, piece + (first - begin) };
        MBA_TRY(use(user, &r));
    }
    return MBA_OK;
}
