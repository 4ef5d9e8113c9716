// SPDX-License-Identifier: Apache-2.0
/* cast_ref.c -- the reference of cast: a copy, because references compute everything in fp64. */
#include "ops/cast/cast_slots.h"

void cast_ref(const mba_ref_call *c)
{
    for (int64_t i = 0; i < mba_elems(c->node->in[X]); i++) c->out[Y][i] = c->in[X][i];
}
