// SPDX-License-Identifier: Apache-2.0
/* l1_cpu.c -- l1 on the CPU: one thread, in order, in double, because a batch has only a thousand entries. */
#include <math.h>

#include "ops/l1/l1_slots.h"

mba_status MBA_CPU_FN(l1_fwd)(const mba_call *c)
{
    const mba_tensor *y = c->node->in[Y], *t = c->node->in[TARGET];
    const float      *value = c->in[Y], *target = c->in[TARGET];
    double            sum = 0, n = 0;
    for (int64_t i = 0; i < l1_real(y, c->step); i++) {
        const float want = target[l1_at(t, i)];
        if (want != want) continue; // NaN: a missing target
        sum += fabs((double)value[l1_at(y, i)] - (double)want);
        n++;
    }
    const double scale = n > 0 ? 1 / n : 0;
    *(float *)c->out[SCALE] = (float)scale;
    *(float *)c->out[LOSS] = (float)(sum * scale);
    return MBA_OK;
}

mba_status MBA_CPU_FN(l1_bwd)(const mba_call *c)
{
    const mba_node *n = c->node;
    const float    *value = c->in[YB], *target = c->in[TARGETB];
    const float     k = *(const float *)c->in[DLOSS] * *(const float *)c->in[SCALEB];
    const int64_t   R = l1_real(n->in[YB], c->step);
    const bool      adds = mba_adds(n, DY);
    for (int64_t i = 0; i < mba_elems(n->in[YB]); i++) {
        const float a = i < R ? value[l1_at(n->in[YB], i)] : 0, b = i < R ? target[l1_at(n->in[TARGETB], i)] : 0;
        const float d = a > b ? k : a < b ? -k : 0;
        float      *to = (float *)c->out[DY] + l1_at(n->out[DY], i);
        *to = d + (adds ? *to : 0);
    }
    return MBA_OK;
}
