// SPDX-License-Identifier: Apache-2.0
/* grad_norm_ref.c -- the reference of grad_norm: fp64, dense arrays, plain loops. */
#include <math.h>

#include "ops/grad_norm/grad_norm_slots.h"

void grad_norm_ref(const mba_ref_call *c)
{
    const grad_norm_attr *a = c->node->attr;
    double                s = 0;
    for (int k = 0; k < MBA_GROUPS; k++)
        for (int64_t i = 0; c->in[k] && i < mba_elems(c->node->in[k]); i++)
            if (grad_norm_owns(a, k, i)) s += c->in[k][i] * c->in[k][i];
    const double mine = s;
    for (int k = 1; k < a->place.ranks; k++) { // every rank meets every other
        double    theirs;
        const int peer = (int)a->place.rank ^ k;
        mba_assert(c->world->exchange(c->world, &mine, peer, &theirs, peer, sizeof mine) == MBA_OK);
        s += theirs;
    }
    c->out[NORM][0] = sqrt(s);
    c->out[NORM][1] = grad_norm_skips(c->step, (float)sqrt(s), c->in[LOSS] ? (float)c->in[LOSS][0] : 0);
}
