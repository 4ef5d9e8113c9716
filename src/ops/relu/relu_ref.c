// SPDX-License-Identifier: Apache-2.0
/* relu_ref.c -- the reference of relu: fp64, dense arrays, plain loops. */
#include "ops/relu/relu_slots.h"

void relu_ref(const mba_ref_call *c)
{
    for (int64_t i = 0; i < mba_elems(c->node->in[X]); i++) c->out[Y][i] = c->in[X][i] > 0 ? c->in[X][i] : 0;
}

void relu_bwd_ref(const mba_ref_call *c)
{
    for (int64_t i = 0; i < mba_elems(c->node->in[YB]); i++) c->out[DX][i] = c->in[YB][i] > 0 ? c->in[DY][i] : 0;
}
