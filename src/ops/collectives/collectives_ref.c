// SPDX-License-Identifier: Apache-2.0
/* collectives_ref.c -- the references: fp64, every rank sends all of its values to every other. */
#include <string.h>

#include "ops/collectives/collectives_slots.h"

/* c->space becomes the x of rank k. */
static void values_of(const mba_ref_call *c, int k)
{
    const size_t bytes = sizeof(double) * (size_t)mba_elems(c->node->in[X]);
    if (!c->world || k == c->world->rank) memcpy(c->space, c->in[X], bytes);
    else mba_assert(c->world->exchange(c->world, c->in[X], k, c->space, k, bytes) == MBA_OK);
}

static mba_place place_of(const mba_ref_call *c)
{
    const mba_place p = ((const collective_attr *)c->node->attr)->place;
    mba_assert(p.ranks == (c->world ? c->world->ranks : 1));
    return p;
}

/* Rank by rank, each with each: in round k, rank r meets r ^ k. */
void allreduce_ref(const mba_ref_call *c)
{
    const mba_place p = place_of(c);
    for (int k = 0; k < p.ranks; k++) {
        values_of(c, (int)p.rank ^ k);
        for (int64_t i = 0; i < mba_elems(c->node->in[X]); i++) c->out[Y][i] += c->space[i];
    }
}

void reduce_scatter_ref(const mba_ref_call *c)
{
    const mba_place p = place_of(c);
    const int64_t   n = mba_elems(c->node->in[X]), from = mba_piece_offset(p, n), to = from + n / p.ranks;
    allreduce_ref(c);
    for (int64_t i = 0; i < n; i++)
        if (i < from || i >= to) c->out[Y][i] = 0;
}

void all_gather_ref(const mba_ref_call *c)
{
    const mba_place p = place_of(c);
    const int64_t   n = mba_elems(c->node->in[X]);
    for (int k = 0; k < p.ranks; k++) {
        const mba_place theirs = { p.rank ^ k, p.ranks };
        const int64_t   at = mba_piece_offset(theirs, n);
        values_of(c, (int)theirs.rank);
        memcpy(c->out[Y] + at, c->space + at, sizeof(double) * (size_t)(n / p.ranks));
    }
}

void send_recv_ref(const mba_ref_call *c)
{
    const mba_place p = place_of(c);
    const int64_t   shift = ((const collective_attr *)c->node->attr)->shift, to = p.rank + shift, from = p.rank - shift;
    if (!c->world) return;
    mba_assert(c->world->exchange(c->world, c->in[X], to >= 0 && to < p.ranks ? (int)to : -1, c->out[Y],
                                  from >= 0 && from < p.ranks ? (int)from : -1,
                                  sizeof(double) * (size_t)mba_elems(c->node->in[X]))
               == MBA_OK);
}
