// SPDX-License-Identifier: Apache-2.0
/* bce_cpu.c -- bce on the CPU: one thread, in order, in double, because a batch has only some thousand entries. */
#include <math.h>

#include "ops/bce/bce_slots.h"

mba_status MBA_CPU_FN(bce_fwd)(const mba_call *c)
{
    const mba_tensor *z = c->node->in[Z], *t = c->node->in[TARGET];
    const float      *logit = c->in[Z], *target = c->in[TARGET];
    const int64_t     R = bce_real(z, c->step);
    double            n[2] = { 0 }, sum[2] = { 0 };
    for (int64_t i = 0; i < R; i++) {
        const double x = (double)logit[bce_at(z, i)], y = (double)target[bce_at(t, i)];
        if (y != y) continue; // NaN: a missing target
        n[y > 0.5]++;
        sum[y > 0.5] += (x < 0 ? 0 : x) - x * y + log1p(exp(-fabs(x))); // a NaN logit gives NaN
    }
    const double all = n[0] + n[1], each = all > 0 ? 1 / all : 0;
    float       *scale = c->out[SCALE];
    double       loss = 0;
    for (int k = 0; k < 2; k++) {
        const double s = ((const bce_attr *)c->node->attr)->weighted ? (all - n[k]) * each * each : each;
        scale[k] = (float)s;
        loss += s * sum[k];
    }
    *(float *)c->out[LOSS] = (float)loss;
    return MBA_OK;
}

mba_status MBA_CPU_FN(bce_bwd)(const mba_call *c)
{
    const mba_node *n = c->node;
    const float    *logit = c->in[ZB], *target = c->in[TARGETB], *scale = c->in[SCALEB];
    const double    dloss = (double)*(const float *)c->in[DLOSS];
    const int64_t   R = bce_real(n->in[ZB], c->step);
    float          *dz = c->out[DZ];
    const bool      adds = mba_adds(n, DZ);
    for (int64_t i = 0; i < mba_elems(n->in[ZB]); i++) {
        const double y = i < R ? (double)target[bce_at(n->in[TARGETB], i)] : (double)NAN;
        double       d = 0;
        if (y == y) d = dloss * (double)scale[y > 0.5] * (1 / (1 + exp(-(double)logit[bce_at(n->in[ZB], i)])) - y);
        float *to = dz + bce_at(n->out[DZ], i);
        *to = (float)d + (adds ? *to : 0);
    }
    return MBA_OK;
}
