// SPDX-License-Identifier: Apache-2.0
/* accumulate_ref.c -- the reference of accumulate: fp64. It only copies; the code that runs references adds. */
#include "ops/accumulate/accumulate_slots.h"

void accumulate_ref(const mba_ref_call *c)
{
    for (int64_t i = 0; i < mba_elems(c->node->out[Y]); i++) c->out[Y][i] = c->in[X][i];
}
