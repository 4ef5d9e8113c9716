// SPDX-License-Identifier: Apache-2.0
/* accumulate_cpu.c -- accumulate on the CPU: rows in parallel; both operands may be strided views. */
#include "ops/accumulate/accumulate_slots.h"

mba_status MBA_CPU_FN(accumulate_fwd)(const mba_call *c)
{
    const mba_node *n = c->node;
    const int64_t   C = mba_cols(n->in[X]), ldx = mba_ld(n->in[X]), ldy = mba_ld(n->out[Y]);
    const bool      adds = mba_adds(n, Y);
    MBA_PARALLEL_FOR(r, mba_rows(n->in[X]))
    {
        const float *x = (const float *)c->in[X] + r * ldx;
        float       *y = (float *)c->out[Y] + r * ldy;
        if (adds)
            for (int64_t i = 0; i < C; i++) y[i] += x[i];
        else
            for (int64_t i = 0; i < C; i++) y[i] = x[i];
    }
    return MBA_OK;
}
