// SPDX-License-Identifier: Apache-2.0
/* pool_mean_cpu.c -- pool_mean on the CPU: a work item is one image and a block of channels; positions are added in
 * order. */
#include "ops/pool_mean/pool_mean_slots.h"

mba_status MBA_CPU_FN(pool_mean_fwd)(const mba_call *c)
{
    const mba_tensor *t = c->node->in[X];
    const mba__rows   x = mba__rows_of(t, c->in[X]), y = mba__rows_of(c->node->out[Y], c->out[Y]);
    const int64_t     C = x.cols, blocks = mba_ceil(C, POOL_CHANNELS), positions = mba_rows(t) / t->type.dim[0];
    MBA_PARALLEL_FOR(i, t->type.dim[0] * blocks)
    {
        const int64_t b = i / blocks, from = i % blocks * POOL_CHANNELS;
        const int64_t n = C - from < POOL_CHANNELS ? C - from : POOL_CHANNELS;
        float         sum[POOL_CHANNELS] = { 0 }, *mean = mba__row(y, b) + from;
        for (int64_t p = 0; p < positions; p++) {
            const float *row = mba__row(x, b * positions + p) + from;
            for (int64_t k = 0; k < n; k++) sum[k] += row[k];
        }
        for (int64_t k = 0; k < n; k++) mean[k] = sum[k] / (float)positions;
    }
    return MBA_OK;
}

mba_status MBA_CPU_FN(pool_mean_bwd)(const mba_call *c)
{
    const mba_tensor *t = c->node->out[DX];
    const mba__rows   dx = mba__rows_of(t, c->out[DX]), dy = mba__rows_of(c->node->in[DY], c->in[DY]);
    const int64_t     positions = mba_rows(t) / t->type.dim[0];
    const bool        adds = mba_adds(c->node, DX);
    const float       part = 1 / (float)positions;
    MBA_PARALLEL_FOR(r, mba_rows(t))
    {
        const float *from = mba__row(dy, r / positions);
        float       *to = mba__row(dx, r);
        if (adds)
            for (int64_t k = 0; k < dx.cols; k++) to[k] += part * from[k];
        else
            for (int64_t k = 0; k < dx.cols; k++) to[k] = part * from[k];
    }
    return MBA_OK;
}
