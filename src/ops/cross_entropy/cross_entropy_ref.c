// SPDX-License-Identifier: Apache-2.0
/* cross_entropy_ref.c -- the reference of cross_entropy: fp64, dense arrays, plain loops. */
#include <math.h>

#include "ops/cross_entropy/cross_entropy_slots.h"

static double scale_of(const mba_step *step, const double *target, int64_t rows)
{
    int64_t valid = 0;
    for (int64_t r = 0; r < rows; r++) valid += target[r] >= 0;
    return !valid ? 0 : step->loss_scale > 0 ? step->loss_scale : 1.0 / (double)valid;
}

void cross_entropy_ref(const mba_ref_call *c)
{
    const int64_t R = mba_rows(c->node->in[Z]), V = mba_cols(c->node->in[Z]);
    const double  k = scale_of(c->step, c->in[TARGET], R);
    for (int64_t r = 0; r < R; r++) {
        const double *z = c->in[Z] + r * V, t = c->in[TARGET][r];
        double        m = z[0], s = 0;
        for (int64_t v = 1; v < V; v++) m = fmax(m, z[v]);
        for (int64_t v = 0; v < V; v++) s += exp(z[v] - m);
        c->out[LSE][r] = m + log(s);
        if (t >= 0) c->out[LOSS][0] += k * (c->out[LSE][r] - z[(int64_t)t]);
    }
}

void cross_entropy_bwd_ref(const mba_ref_call *c)
{
    const int64_t R = mba_rows(c->node->in[ZB]), V = mba_cols(c->node->in[ZB]);
    const double  k = c->in[DLOSS][0] * scale_of(c->step, c->in[TARGETB], R);
    for (int64_t i = 0; i < R * V; i++) {
        const double t = c->in[TARGETB][i / V];
        c->out[DZ][i] = t < 0 ? 0 : k * (exp(c->in[ZB][i] - c->in[LSEB][i / V]) - ((int64_t)t == i % V));
    }
}
