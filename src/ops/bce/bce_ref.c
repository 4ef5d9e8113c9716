// SPDX-License-Identifier: Apache-2.0
/* bce_ref.c -- the reference of bce: fp64, dense arrays, plain loops. */
#include <math.h>

#include "ops/bce/bce_slots.h"

void bce_ref(const mba_ref_call *c)
{
    const int64_t R = bce_real(c->node->in[Z], c->step);
    double        n[2] = { 0 };
    for (int64_t i = 0; i < R; i++)
        if (!isnan(c->in[TARGET][i])) n[c->in[TARGET][i] > 0.5]++;
    const double all = n[0] + n[1];
    const bool   weighted = ((const bce_attr *)c->node->attr)->weighted;
    for (int k = 0; k < 2; k++) c->out[SCALE][k] = all == 0 ? 0 : weighted ? (all - n[k]) / all / all : 1 / all;
    for (int64_t i = 0; i < R; i++) {
        const double z = c->in[Z][i], t = c->in[TARGET][i];
        if (!isnan(t)) c->out[LOSS][0] += c->out[SCALE][t > 0.5] * (fmax(z, 0) - z * t + log1p(exp(-fabs(z))));
    }
}

void bce_bwd_ref(const mba_ref_call *c)
{
    for (int64_t i = 0; i < bce_real(c->node->in[ZB], c->step); i++) {
        const double t = c->in[TARGETB][i];
        if (!isnan(t)) c->out[DZ][i] = c->in[DLOSS][0] * c->in[SCALEB][t > 0.5] * (1 / (1 + exp(-c->in[ZB][i])) - t);
    }
}
