// SPDX-License-Identifier: Apache-2.0
/* gelu_ref.c -- the reference of gelu: fp64, dense arrays, plain loops. */
#include <math.h>

#include "ops/gelu/gelu_slots.h"

void gelu_ref(const mba_ref_call *c)
{
    const bool t = ((const gelu_attr *)c->node->attr)->tanh_form;
    for (int64_t i = 0; i < mba_elems(c->node->in[X]); i++) {
        const double x = c->in[X][i];
        c->out[Y][i] = 0.5 * x * (t ? 1 + tanh(GELU_ROOT * (x + GELU_CUBE * x * x * x)) : erfc(-x / sqrt(2)));
    }
}

void gelu_bwd_ref(const mba_ref_call *c)
{
    const bool tanh_form = ((const gelu_attr *)c->node->attr)->tanh_form;
    for (int64_t i = 0; i < mba_elems(c->node->in[XB]); i++) {
        const double x = c->in[XB][i], t = tanh(GELU_ROOT * (x + GELU_CUBE * x * x * x));
        const double by_tanh = 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * GELU_ROOT * (1 + 3 * GELU_CUBE * x * x);
        const double exact = 0.5 * erfc(-x / sqrt(2)) + x * exp(-0.5 * x * x) * GELU_ROOT / 2;
        c->out[DX][i] = c->in[DY][i] * (tanh_form ? by_tanh : exact);
    }
}
