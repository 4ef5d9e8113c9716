// SPDX-License-Identifier: Apache-2.0
/* cross_entropy_cpu.c -- cross_entropy on the CPU: rows in parallel; the losses of rows are added in order, in
 * double. */
#include <string.h>

#include "ops/cross_entropy/cross_entropy_rows.h"
#include "ops/cross_entropy/cross_entropy_slots.h"

mba_status MBA_CPU_FN(cross_entropy_fwd)(const mba_call *c)
{
    const mba_tensor *z = c->node->in[Z], *t = c->node->in[TARGET];
    const int64_t     R = mba_rows(z), V = mba_cols(z);
    const int32_t    *target = c->in[TARGET];
    const float      *logits = c->in[Z];
    float            *lse = c->out[LSE];
    double            loss = 0;
    MBA_PARALLEL_FOR(r, R)
    {
        ce_sum s = CE_SUM_NONE;
        ce_sum_add(&s, logits + ce_at(z, r * V), V);
        lse[r] = ce_lse(s);
    }
    for (int64_t r = 0; r < R; r++) {
        const int32_t y = target[ce_at(t, r)];
        if (y >= 0) loss += (double)lse[r] - (double)logits[ce_at(z, r * V) + y];
    }
    *(float *)c->out[LOSS] = (float)(loss * ce_scale(c->step, t, target));
    return MBA_OK;
}

mba_status MBA_CPU_FN(cross_entropy_bwd)(const mba_call *c)
{
    const mba_tensor *z = c->node->in[ZB], *t = c->node->in[TARGETB], *d = c->node->out[DZ];
    const int64_t     V = mba_cols(z);
    const int32_t    *target = c->in[TARGETB];
    const float      *logits = c->in[ZB], *lse = c->in[LSEB];
    float            *grad = c->out[DZ];
    const float       k = (float)(*(const float *)c->in[DLOSS] * ce_scale(c->step, t, target));
    const bool        adds = mba_adds(c->node, DZ);
    MBA_PARALLEL_FOR(r, mba_rows(z))
    {
        const int32_t y = target[ce_at(t, r)];
        float        *dz = grad + ce_at(d, r * V);
        if (y >= 0) {
            ce_gradient(dz, logits + ce_at(z, r * V), V, lse[r], k, adds);
            dz[y] -= k;
        } else if (!adds) {
            memset(dz, 0, sizeof(float) * (size_t)V);
        }
    }
    return MBA_OK;
}
