// SPDX-License-Identifier: Apache-2.0
/* embed_sum_cpu.c -- embed_sum on the CPU. Forward: rows in parallel. Backward: eight parts of the rows, each with a
 * table of its own (tables are small); the tables are then added in order, so the number of threads does not change
 * bits. */
#include "ops/embed_sum/embed_sum_slots.h"

static void add_row(float *sum, const float *x, int64_t n)
{
    MBA_SIMD_LOOP
    for (int64_t i = 0; i < n; i++) sum[i] += x[i];
}

mba_status MBA_CPU_FN(embed_sum_fwd)(const mba_call *c)
{
    const mba_node *n = c->node;
    const mba__rows table = mba__rows_of(n->in[TABLE], c->in[TABLE]), y = mba__rows_of(n->out[Y], c->out[Y]);
    const int64_t   R = mba__valid_entries(n->in[INDEX], c->step), F = mba_cols(n->in[INDEX]);
    const int32_t  *index = c->in[INDEX];
    MBA_PARALLEL_FOR(r, R)
    {
        memcpy(mba__row(y, r), mba__row(table, index[r * F]), sizeof(float) * (size_t)y.cols);
        for (int64_t f = 1; f < F; f++) add_row(mba__row(y, r), mba__row(table, index[r * F + f]), y.cols);
    }
    mba__zero_rows(y, R, mba_rows(n->out[Y]));
    return MBA_OK;
}

mba_status MBA_CPU_FN(embed_sum_bwd)(const mba_call *c)
{
    const mba_node *n = c->node;
    const mba__rows dy = mba__rows_of(n->in[DY], c->in[DY]), dt = mba__rows_of(n->out[DTABLE], c->out[DTABLE]);
    const int64_t   R = mba__valid_entries(n->in[INDEXB], c->step), F = mba_cols(n->in[INDEXB]),
                  V = mba_rows(n->out[DTABLE]);
    const int64_t  M = dy.cols;
    const int32_t *index = c->in[INDEXB];
    float         *part = mba__scratch(c, 0);
    const bool     adds = mba_adds(n, DTABLE);
    MBA_PARALLEL_FOR(p, EMBED_SUM_PARTS)
    {
        memset(part + p * V * M, 0, sizeof(float) * (size_t)(V * M));
        for (int64_t r = p * R / EMBED_SUM_PARTS; r < (p + 1) * R / EMBED_SUM_PARTS; r++)
            for (int64_t f = 0; f < F; f++) add_row(part + (p * V + index[r * F + f]) * M, mba__row(dy, r), M);
    }
    MBA_PARALLEL_FOR(v, V)
    {
        for (int64_t p = 1; p < EMBED_SUM_PARTS; p++) add_row(part + v * M, part + (p * V + v) * M, M);
        float *to = mba__row(dt, v);
        for (int64_t m = 0; m < M; m++) to[m] = part[v * M + m] + (adds ? to[m] : 0);
    }
    return MBA_OK;
}
