/* add_cpu.c -- rows in parallel; y may lie in the memory of a. */
#include "ops/add/add_slots.h"
#include "ops/rows.h"

mba_status MBA_CPU_FN(add_fwd)(const mba_call *c)
{
    const mba_node *n = c->node;
    const int64_t   C = mba_cols(n->in[A]), lda = mba_ld(n->in[A]), ldb = mba_ld(n->in[B]), ldy = mba_ld(n->out[Y]);
    const int64_t   R = mba__real_rows(n->in[A], c->step);
    mba__zero_rows(mba__rows_of(n->out[Y], c->out[Y]), R, mba_rows(n->in[A]));
    MBA_PARALLEL_FOR(r, R) {
        const float *a = (const float *)c->in[A] + r * lda;
        const float *b = (const float *)c->in[B] + r * ldb;
        float       *y = (float *)c->out[Y] + r * ldy;
        MBA_SIMD_LOOP
        for (int64_t i = 0; i < C; i++) y[i] = a[i] + b[i];
    }
    return MBA_OK;
}
