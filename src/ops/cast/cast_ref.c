// SPDX-License-Identifier: Apache-2.0
/* cast_ref.c -- fp64 knows no types. */
#include "ops/cast/cast_slots.h"

void cast_ref(const mba_ref_call *c)
{
    for (int64_t i = 0; i < mba_elems(c->node->in[X]); i++) c->out[Y][i] = c->in[X][i];
}
