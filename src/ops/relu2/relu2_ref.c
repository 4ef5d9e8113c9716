// SPDX-License-Identifier: Apache-2.0
/* relu2_ref.c -- the reference of relu2: fp64, dense arrays, plain loops. */
#include <math.h>

#include "ops/relu2/relu2_slots.h"

void relu2_ref(const mba_ref_call *c)
{
    for (int64_t i = 0; i < mba_elems(c->node->in[X]); i++) c->out[Y][i] = pow(fmax(0, c->in[X][i]), 2);
}

void relu2_bwd_ref(const mba_ref_call *c)
{
    for (int64_t i = 0; i < mba_elems(c->node->in[XB]); i++) c->out[DX][i] = 2 * fmax(0, c->in[XB][i]) * c->in[DY][i];
}
