// SPDX-License-Identifier: Apache-2.0
/* adamw_ref.c -- the reference of adamw: fp64, dense arrays, plain loops. */
#include <math.h>

#include "ops/adamw/adamw_slots.h"

void adamw_ref(const mba_ref_call *c)
{
    const adamw_attr   *a = c->node->attr;
    const adamw_factors f = adamw_factors_of(a, c->step, c->in[NORM][0], c->in[NORM][1] != 0);
    for (int64_t i = 0; i < mba_elems(c->node->in[P]); i++) {
        double p = c->in[P][i], m = c->in[M][i], v = c->in[V][i];
        if (!f.skip) {
            const double g = c->in[G][i] * f.clip;
            m = a->o.beta1 * m + (1 - a->o.beta1) * g;
            v = a->o.beta2 * v + (1 - a->o.beta2) * g * g;
            p -= f.lr * (m * f.unbias1 / (sqrt(v * f.unbias2) + a->o.eps) + a->o.decay * p);
        }
        c->out[PO][i] = p;
        c->out[MO][i] = m;
        c->out[VO][i] = v;
        c->out[GO][i] = a->zero ? 0 : c->in[G][i];
        if (c->out[COPYO]) c->out[COPYO][i] = p;
    }
}
