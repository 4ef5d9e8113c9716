// SPDX-License-Identifier: Apache-2.0
/* add_cpu.c -- add on the CPU: rows in parallel; y may share the memory of a. */
#include "ops/add/add_slots.h"

mba_status MBA_CPU_FN(add_fwd)(const mba_call *c)
{
    const mba_node *n = c->node;
    const int64_t   C = mba_cols(n->in[A]), lda = mba_ld(n->in[A]), ldb = mba_ld(n->in[B]), ldy = mba_ld(n->out[Y]);
    MBA_PARALLEL_FOR(r, mba_rows(n->in[A]))
    {
        const float *a = (const float *)c->in[A] + r * lda;
        const float *b = (const float *)c->in[B] + r * ldb;
        float       *y = (float *)c->out[Y] + r * ldy;
        MBA_SIMD_LOOP
        for (int64_t i = 0; i < C; i++) y[i] = a[i] + b[i];
    }
    return MBA_OK;
}
