// SPDX-License-Identifier: Apache-2.0
/* relu2_cpu.c -- relu2 on the CPU: rows in parallel; the compiler vectorises the inner loop. */
#include "ops/relu2/relu2_slots.h"

mba_status MBA_CPU_FN(relu2_fwd)(const mba_call *c)
{
    const mba_node *n = c->node;
    const int64_t   C = mba_cols(n->in[X]), ldx = mba_ld(n->in[X]), ldy = mba_ld(n->out[Y]);
    MBA_PARALLEL_FOR(r, mba_rows(n->in[X]))
    {
        const float *x = (const float *)c->in[X] + r * ldx;
        float       *y = (float *)c->out[Y] + r * ldy;
        MBA_SIMD_LOOP
        for (int64_t i = 0; i < C; i++) {
            const float p = x[i] > 0 ? x[i] : 0;
            y[i] = p * p;
        }
    }
    return MBA_OK;
}

mba_status MBA_CPU_FN(relu2_bwd)(const mba_call *c)
{
    const mba_node *n = c->node;
    const int64_t C = mba_cols(n->in[XB]), ldx = mba_ld(n->in[XB]), lddy = mba_ld(n->in[DY]), lddx = mba_ld(n->out[DX]);
    const bool    adds = mba_adds(n, DX);
    MBA_PARALLEL_FOR(r, mba_rows(n->in[XB]))
    {
        const float *x = (const float *)c->in[XB] + r * ldx;
        const float *dy = (const float *)c->in[DY] + r * lddy;
        float       *dx = (float *)c->out[DX] + r * lddx;
        if (adds) {
            MBA_SIMD_LOOP
            for (int64_t i = 0; i < C; i++) dx[i] += 2 * (x[i] > 0 ? x[i] : 0) * dy[i];
        } else {
            MBA_SIMD_LOOP
            for (int64_t i = 0; i < C; i++) dx[i] = 2 * (x[i] > 0 ? x[i] : 0) * dy[i];
        }
    }
    return MBA_OK;
}
