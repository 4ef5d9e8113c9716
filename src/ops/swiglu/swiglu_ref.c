// SPDX-License-Identifier: Apache-2.0
/* swiglu_ref.c -- the reference of swiglu: fp64, dense arrays, plain loops. */
#include <math.h>

#include "ops/swiglu/swiglu_slots.h"

static double sigmoid(double t) { return 1 / (1 + exp(-t)); }

void swiglu_ref(const mba_ref_call *c)
{
    for (int64_t i = 0; i < mba_elems(c->node->in[VALUE]); i++)
        c->out[Y][i] = c->in[VALUE][i] * c->in[GATE][i] * sigmoid(c->in[GATE][i]);
}

void swiglu_bwd_ref(const mba_ref_call *c)
{
    for (int64_t i = 0; i < mba_elems(c->node->in[VALUE]); i++) {
        const double t = c->in[GATE][i], s = sigmoid(t);
        c->out[DVALUE][i] = c->in[DY][i] * t * s;
        c->out[DGATE][i] = c->in[DY][i] * c->in[VALUE][i] * s * (1 + t * (1 - s));
    }
}
