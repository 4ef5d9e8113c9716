// SPDX-License-Identifier: Apache-2.0
/* l1_ref.c -- the reference of l1: fp64, dense arrays, plain loops. */
#include <math.h>

#include "ops/l1/l1_slots.h"

void l1_ref(const mba_ref_call *c)
{
    double sum = 0, n = 0;
    for (int64_t i = 0; i < l1_real(c->node->in[Y], c->step); i++)
        if (!isnan(c->in[TARGET][i])) {
            sum += fabs(c->in[Y][i] - c->in[TARGET][i]);
            n++;
        }
    c->out[SCALE][0] = n > 0 ? 1 / n : 0;
    c->out[LOSS][0] = sum * c->out[SCALE][0];
}

void l1_bwd_ref(const mba_ref_call *c)
{
    for (int64_t i = 0; i < l1_real(c->node->in[YB], c->step); i++) {
        const double e = c->in[YB][i] - c->in[TARGETB][i]; // NaN: neither comparison is true
        c->out[DY][i] = c->in[DLOSS][0] * c->in[SCALEB][0] * ((e > 0) - (e < 0));
    }
}
