// SPDX-License-Identifier: Apache-2.0
/* add_ref.c -- the reference of add: fp64, dense arrays, plain loops. */
#include "ops/add/add_slots.h"

void add_ref(const mba_ref_call *c)
{
    for (int64_t i = 0; i < mba_elems(c->node->out[Y]); i++) c->out[Y][i] = c->in[A][i] + c->in[B][i];
}
