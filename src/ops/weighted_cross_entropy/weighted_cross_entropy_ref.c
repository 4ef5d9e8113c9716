// SPDX-License-Identifier: Apache-2.0
/* weighted_cross_entropy_ref.c -- the reference of weighted_cross_entropy: fp64, dense arrays, plain loops. */
#include <math.h>

#include "ops/weighted_cross_entropy/weighted_cross_entropy_slots.h"

static void class_weights(double *weight, const double *target, int64_t R, int64_t V)
{
    double n = 0, sum = 0;
    for (int64_t r = 0; r < R; r++)
        if (target[r] >= 0) {
            weight[(int64_t)target[r]]++;
            n++;
        }
    for (int64_t v = 0; v < V; v++) sum += weight[v] * (n - weight[v]);
    for (int64_t v = 0; v < V; v++) weight[v] = weight[v] > 0 && sum > 0 ? (n - weight[v]) / sum : 0;
}

void weighted_cross_entropy_ref(const mba_ref_call *c)
{
    const int64_t R = mba__valid_entries(c->node->in[Z], c->step), V = mba_cols(c->node->in[Z]);
    class_weights(c->out[WEIGHT], c->in[TARGET], R, V);
    for (int64_t r = 0; r < R; r++) {
        const double *z = c->in[Z] + r * V, t = c->in[TARGET][r];
        double        m = z[0], s = 0;
        for (int64_t v = 1; v < V; v++) m = fmax(m, z[v]);
        for (int64_t v = 0; v < V; v++) s += exp(z[v] - m);
        c->out[LSE][r] = m + log(s);
        if (t >= 0) c->out[LOSS][0] += c->out[WEIGHT][(int64_t)t] * (c->out[LSE][r] - z[(int64_t)t]);
    }
}

void weighted_cross_entropy_bwd_ref(const mba_ref_call *c)
{
    const int64_t R = mba__valid_entries(c->node->in[ZB], c->step), V = mba_cols(c->node->in[ZB]);
    for (int64_t i = 0; i < R * V; i++) {
        const double t = c->in[TARGETB][i / V];
        if (t >= 0)
            c->out[DZ][i] = c->in[DLOSS][0] * c->in[WEIGHTB][(int64_t)t]
                            * (exp(c->in[ZB][i] - c->in[LSEB][i / V]) - ((int64_t)t == i % V));
    }
}
