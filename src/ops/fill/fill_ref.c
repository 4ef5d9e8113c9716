// SPDX-License-Identifier: Apache-2.0
/* fill_ref.c -- the reference of fill: fp64, dense arrays, plain loops. */
#include "ops/fill/fill_slots.h"

void fill_ref(const mba_ref_call *c)
{
    const double v = ((const mba_fill_attr *)c->node->attr)->value;
    for (int64_t i = 0; i < mba_elems(c->node->out[Y]); i++) c->out[Y][i] = v;
}
