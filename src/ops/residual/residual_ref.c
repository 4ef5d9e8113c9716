// SPDX-License-Identifier: Apache-2.0
/* residual_ref.c -- the reference of residual: fp64, dense arrays, plain loops. A dropped branch is not read, so its
 * NaN has no effect. */
#include "ops/residual/residual_slots.h"

static double factor_of(const mba_ref_call *c, int slot, int64_t sample)
{
    return c->in[slot] ? c->in[slot][sample] : residual_draw(c->node, c->step, sample);
}

void residual_ref(const mba_ref_call *c)
{
    const int64_t C = mba_cols(c->node->in[X]), sample = ((const residual_attr *)c->node->attr)->rows * C;
    for (int64_t i = 0; i < mba_elems(c->node->in[X]); i++) {
        const double f = factor_of(c, FACTOR, i / sample), gamma = c->in[GAMMA] ? c->in[GAMMA][i % C] : 1;
        c->out[Y][i] = c->in[X][i] + (f == 0 ? 0 : f * gamma * c->in[BRANCH][i]);
    }
}

void residual_bwd_ref(const mba_ref_call *c)
{
    const int64_t C = mba_cols(c->node->in[DY]), sample = ((const residual_attr *)c->node->attr)->rows * C;
    for (int64_t i = 0; i < mba_elems(c->node->in[DY]); i++) {
        const double f = factor_of(c, FACTORB, i / sample);
        const double gamma = c->in[GAMMAB] ? c->in[GAMMAB][i % C] : 1;
        if (f == 0) continue;
        c->out[DV][i] = f * gamma * c->in[DY][i];
        if (c->in[GAMMAB]) c->out[DGAMMA][i % C] += f * c->in[DY][i] * c->in[VB][i];
    }
}
