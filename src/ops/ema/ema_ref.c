// SPDX-License-Identifier: Apache-2.0
/* ema_ref.c -- the reference of ema: fp64, dense arrays, plain loops. */
#include "ops/ema/ema_slots.h"

void ema_ref(const mba_ref_call *c)
{
    const double d = ((const ema_attr *)c->node->attr)->decay;
    for (int64_t i = 0; i < mba_elems(c->node->in[P]); i++) c->out[EO][i] = d * c->in[E][i] + (1 - d) * c->in[P][i];
}
