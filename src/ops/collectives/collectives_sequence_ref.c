// SPDX-License-Identifier: Apache-2.0
/* collectives_sequence_ref.c -- the references of send, receive and gather_prefix: fp64. */
#include <string.h>

#include "ops/collectives/collectives_slots.h"

static const sequence_attr *attr_of(const mba_ref_call *c) { return c->node->attr; }

static void give(const mba_ref_call *c, const double *x, int64_t n, int64_t shift)
{
    if (sequence_peer(attr_of(c), shift) >= 0)
        mba_assert(c->world->post(c->world, x, c->world->rank + (int)shift, sizeof(double) * (size_t)n) == MBA_OK);
}

static void take(const mba_ref_call *c, double *x, int64_t n, int64_t shift)
{
    if (sequence_peer(attr_of(c), shift) >= 0)
        mba_assert(c->world->exchange(c->world, NULL, -1, x, c->world->rank + (int)shift, sizeof(double) * (size_t)n)
                   == MBA_OK);
}

void send_ref(const mba_ref_call *c) { give(c, c->in[X], mba_elems(c->node->in[X]), attr_of(c)->shift); }

void receive_ref(const mba_ref_call *c) { take(c, c->out[Y], mba_elems(c->node->out[Y]), -attr_of(c)->shift); }

void gather_prefix_ref(const mba_ref_call *c)
{
    const mba_place p = attr_of(c)->place;
    const int64_t   n = mba_elems(c->node->in[X]), B = c->node->in[X]->type.dim[0], each = n / B;
    for (int64_t k = p.rank + 1; k < p.ranks; k++) give(c, c->in[X], n, k - p.rank);
    for (int64_t j = 0; j <= p.rank; j++) {
        if (j == p.rank) memcpy(c->space, c->in[X], sizeof(double) * (size_t)n);
        else take(c, c->space, n, j - p.rank);
        for (int64_t i = 0; i < n; i++) c->out[Y][(i / each * (p.rank + 1) + j) * each + i % each] = c->space[i];
    }
}

void gather_prefix_bwd_ref(const mba_ref_call *c)
{
    const mba_place p = attr_of(c)->place;
    const int64_t   n = mba_elems(c->node->out[Y]), B = c->node->out[Y]->type.dim[0], each = n / B;
    for (int64_t j = 0; j <= p.rank; j++) {
        for (int64_t i = 0; i < n; i++) c->space[i] = c->in[X][(i / each * (p.rank + 1) + j) * each + i % each];
        if (j < p.rank) give(c, c->space, n, j - p.rank);
    }
    memcpy(c->out[Y], c->space, sizeof(double) * (size_t)n);
    for (int64_t k = p.rank + 1; k < p.ranks; k++) {
        take(c, c->space, n, k - p.rank);
        for (int64_t i = 0; i < n; i++) c->out[Y][i] += c->space[i];
    }
}
