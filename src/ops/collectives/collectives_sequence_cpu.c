// SPDX-License-Identifier: Apache-2.0
/* collectives_sequence_cpu.c -- send, receive and gather_prefix on the CPU. What a rank sends is posted: it goes on
 * with the next layer while the next rank is still in this one. */
#include <string.h>

#include "ops/collectives/collectives_slots.h"

/* The rank of the world that holds the part `shift` further on; -1: there is none. Parts of a sequence are on
 * neighbouring ranks. */
static int peer_of(const mba_call *c, int64_t shift)
{
    const sequence_attr *a = c->node->attr;
    mba_assert(a->place.rank == (c->world ? c->world->rank % a->place.ranks : 0));
    return sequence_peer(a, shift) < 0 ? -1 : c->world->rank + (int)shift;
}

mba_status MBA_CPU_FN(send_fwd)(const mba_call *c)
{
    const int to = peer_of(c, ((const sequence_attr *)c->node->attr)->shift);
    return to < 0 ? MBA_OK : c->world->post(c->world, c->in[X], to, (size_t)mba_tensor_bytes(c->node->in[X]));
}

mba_status MBA_CPU_FN(receive_fwd)(const mba_call *c)
{
    const int    from = peer_of(c, -((const sequence_attr *)c->node->attr)->shift);
    const size_t bytes = (size_t)mba_tensor_bytes(c->node->out[Y]);
    if (from >= 0) return c->world->exchange(c->world, NULL, -1, c->out[Y], from, bytes);
    memset(c->out[Y], 0, bytes);
    return MBA_OK;
}

/* ---- gather_prefix: rows of part j lie behind each other for every sequence ---- */

typedef struct parts {
    int64_t rank, ranks, B, each; /* each: elements of one sequence in one part */
    float  *own, *other;
    size_t  bytes;
} parts;

static parts parts_of(const mba_call *c, const mba_tensor *part)
{
    const mba_place p = ((const sequence_attr *)c->node->attr)->place;
    const int64_t   B = part->type.dim[0];
    return (parts){ .rank = p.rank,
                    .ranks = p.ranks,
                    .B = B,
                    .each = mba_elems(part) / B,
                    .own = (float *)(void *)(c->work + c->plan->scratch[0].offset),
                    .other = (float *)(void *)(c->work + c->plan->scratch[1].offset),
                    .bytes = (size_t)mba_tensor_bytes(part) };
}

/* Copies a part between a dense array and its rows in the prefix of all parts up to this rank's. */
static void copy_part(const parts *p, float *prefix, float *part, int64_t j, bool to_prefix)
{
    for (int64_t b = 0; b < p->B; b++) {
        float *x = prefix + (b * (p->rank + 1) + j) * p->each, *y = part + b * p->each;
        memcpy(to_prefix ? x : y, to_prefix ? y : x, sizeof(float) * (size_t)p->each);
    }
}

mba_status MBA_CPU_FN(gather_prefix)(const mba_call *c)
{
    const mba_tensor *x = c->node->in[X];
    const parts       p = parts_of(c, x);
    mba_assert(mba_dense(c->node->out[Y]));
    for (int64_t i = 0; i < mba_elems(x) / x->run; i++)
        memcpy(p.own + i * x->run, (const float *)c->in[X] + i * x->pitch, sizeof(float) * (size_t)x->run);
    for (int64_t k = p.rank + 1; k < p.ranks; k++)
        MBA_TRY(c->world->post(c->world, p.own, peer_of(c, k - p.rank), p.bytes));
    copy_part(&p, c->out[Y], p.own, p.rank, true);
    for (int64_t j = 0; j < p.rank; j++) {
        MBA_TRY(c->world->exchange(c->world, NULL, -1, p.other, peer_of(c, j - p.rank), p.bytes));
        copy_part(&p, c->out[Y], p.other, j, true);
    }
    return MBA_OK;
}

/* The sum has one order: the own part, then those of later ranks. */
mba_status MBA_CPU_FN(gather_prefix_bwd)(const mba_call *c)
{
    const mba_tensor *dx = c->node->out[Y];
    const parts       p = parts_of(c, dx);
    const bool        adds = mba_adds(c->node, Y);
    for (int64_t j = 0; j < p.rank; j++) {
        copy_part(&p, c->in[X], p.other, j, false);
        MBA_TRY(c->world->post(c->world, p.other, peer_of(c, j - p.rank), p.bytes));
    }
    copy_part(&p, c->in[X], p.own, p.rank, false);
    for (int64_t k = p.rank + 1; k < p.ranks; k++) {
        MBA_TRY(c->world->exchange(c->world, NULL, -1, p.other, peer_of(c, k - p.rank), p.bytes));
        MBA_SIMD_LOOP
        for (int64_t i = 0; i < p.B * p.each; i++) p.own[i] += p.other[i];
    }
    for (int64_t i = 0; i < mba_elems(dx) / dx->run; i++) {
        float *row = (float *)c->out[Y] + i * dx->pitch;
        for (int64_t k = 0; k < dx->run; k++) row[k] = p.own[i * dx->run + k] + (adds ? row[k] : 0);
    }
    return MBA_OK;
}
