// SPDX-License-Identifier: Apache-2.0
/* bias_cpu.c -- bias on the CPU: rows in parallel; the backward pass sums parts of 128 rows, then the parts in
 * order. */
#include "ops/bias/bias_slots.h"
#include "ops/rows.h"

mba_status MBA_CPU_FN(bias_fwd)(const mba_call *c)
{
    const mba_node *n = c->node;
    const int64_t   C = mba_cols(n->in[X]), ldx = mba_ld(n->in[X]), ldy = mba_ld(n->out[Y]);
    const int64_t   R = mba__valid_rows(n->in[X], c->step);
    const float    *b = c->in[BIAS];
    mba__zero_rows(mba__rows_of(n->out[Y], c->out[Y]), R, mba_rows(n->in[X]));
    MBA_PARALLEL_FOR(r, R)
    {
        const float *x = (const float *)c->in[X] + r * ldx;
        float       *y = (float *)c->out[Y] + r * ldy;
        MBA_SIMD_LOOP
        for (int64_t i = 0; i < C; i++) y[i] = x[i] + b[i];
    }
    return MBA_OK;
}

mba_status MBA_CPU_FN(bias_bwd)(const mba_call *c)
{
    const mba_node *n = c->node;
    const int64_t   R = mba__valid_rows(n->in[DY], c->step), C = mba_cols(n->in[DY]), ld = mba_ld(n->in[DY]);
    const int64_t   parts = mba_ceil(R, BIAS_PART_ROWS);
    float          *part = (float *)(void *)(c->work + c->plan->scratch[0].offset), *db = c->out[DBIAS];
    MBA_PARALLEL_FOR(p, parts)
    {
        for (int64_t i = 0; i < C; i++) part[p * C + i] = 0;
        for (int64_t r = p * BIAS_PART_ROWS; r < R && r < (p + 1) * BIAS_PART_ROWS; r++) {
            const float *dy = (const float *)c->in[DY] + r * ld;
            for (int64_t i = 0; i < C; i++) part[p * C + i] += dy[i];
        }
    }
    for (int64_t i = 0; i < C; i++) db[i] = mba_adds(n, DBIAS) ? db[i] : 0;
    for (int64_t p = 0; p < parts; p++)
        for (int64_t i = 0; i < C; i++) db[i] += part[p * C + i];
    return MBA_OK;
}
