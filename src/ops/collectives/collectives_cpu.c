// SPDX-License-Identifier: Apache-2.0
/* collectives_cpu.c -- the collectives on the CPU. Sums: recursive halving, nearest rank first; both ends add the same
 * two numbers, so it does not matter whose come first. */
#include <string.h>

#include "ops/collectives/collectives_slots.h"

enum { BLOCK = 16384 };

static mba_place place_of(const mba_call *c)
{
    const mba_place p = ((const collective_attr *)c->node->attr)->place;
    mba_assert(p.ranks == (c->world ? c->world->ranks : 1));
    mba_assert(p.rank == (c->world ? c->world->rank : 0));
    return p;
}

static void add(float *x, const float *y, int64_t n)
{
    MBA_PARALLEL_FOR(b, mba_ceil(n, BLOCK))
    {
        const int64_t from = b * BLOCK, to = from + BLOCK < n ? from + BLOCK : n;
        MBA_SIMD_LOOP
        for (int64_t i = from; i < to; i++) x[i] += y[i];
    }
}

/* Leaves the sum in the own piece; what the others hold is left in between. */
static mba_status halve(const mba_call *c, float *x, int64_t n, int64_t *at)
{
    mba_world *w = c->world;
    float     *received = (float *)(void *)(c->work + c->plan->scratch[0].offset);
    *at = 0;
    for (int bit = 1; bit < w->ranks; bit *= 2) {
        const int64_t half = n / 2, mine = *at + (w->rank & bit ? half : 0), theirs = *at + (w->rank & bit ? 0 : half);
        MBA_TRY(w->exchange(w, x + theirs, w->rank ^ bit, received, w->rank ^ bit, sizeof(float) * (size_t)half));
        add(x + mine, received, half);
        *at = mine;
        n = half;
    }
    return MBA_OK;
}

mba_status MBA_CPU_FN(reduce_scatter)(const mba_call *c)
{
    const mba_place p = place_of(c);
    const int64_t   n = mba_elems(c->node->in[X]), piece = n / p.ranks;
    float          *x = c->out[Y];
    int64_t         at;
    if (p.ranks == 1) return MBA_OK;
    MBA_TRY(halve(c, x, n, &at));
    mba_assert(at == mba_piece_offset(p, n));
    memset(x, 0, sizeof(float) * (size_t)at); // the next step adds to them
    memset(x + at + piece, 0, sizeof(float) * (size_t)(n - at - piece));
    return MBA_OK;
}

mba_status MBA_CPU_FN(all_gather)(const mba_call *c)
{
    return place_of(c).ranks == 1 ? MBA_OK
                                  : mba_pieces_gather(c->world, c->out[Y], (size_t)mba_tensor_bytes(c->node->in[X]));
}

mba_status MBA_CPU_FN(allreduce)(const mba_call *c)
{
    const mba_place p = place_of(c);
    const int64_t   n = mba_elems(c->node->in[X]);
    float          *x = c->out[Y];
    int64_t         at;
    if (p.ranks == 1) return MBA_OK;
    if (!allreduce_whole(n, p.ranks)) {
        MBA_TRY(halve(c, x, n, &at));
        return mba_pieces_gather(c->world, x, sizeof(float) * (size_t)n);
    }
    float *received = (float *)(void *)(c->work + c->plan->scratch[0].offset);
    for (int bit = 1; bit < p.ranks; bit *= 2) {
        const int peer = (int)p.rank ^ bit;
        MBA_TRY(c->world->exchange(c->world, x, peer, received, peer, sizeof(float) * (size_t)n));
        add(x, received, n);
    }
    return MBA_OK;
}

mba_status MBA_CPU_FN(send_recv)(const mba_call *c)
{
    const mba_place p = place_of(c);
    const int64_t   shift = ((const collective_attr *)c->node->attr)->shift, to = p.rank + shift, from = p.rank - shift;
    const size_t    bytes = (size_t)mba_tensor_bytes(c->node->in[X]);
    const bool      gives = to >= 0 && to < p.ranks, takes = from >= 0 && from < p.ranks;
    if (!takes) memset(c->out[Y], 0, bytes);
    return gives || takes
               ? c->world->exchange(c->world, c->in[X], gives ? (int)to : -1, c->out[Y], takes ? (int)from : -1, bytes)
               : MBA_OK;
}
