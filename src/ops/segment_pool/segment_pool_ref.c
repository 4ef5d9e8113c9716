// SPDX-License-Identifier: Apache-2.0
/* segment_pool_ref.c -- the reference of segment_pool: fp64, dense arrays, plain loops. */
#include "ops/segment_pool/segment_pool_slots.h"

void segment_pool_ref(const mba_ref_call *c)
{
    const int64_t graphs = mba__valid_entries(c->node->out[Y], c->step), C = mba_cols(c->node->in[X]);
    const bool    max = ((const segment_pool_attr *)c->node->attr)->kind == MBA_POOL_MAX;
    for (int64_t i = 0; i < graphs * C; i++) {
        const int64_t from = (int64_t)c->in[PTR][i / C], to = (int64_t)c->in[PTR][i / C + 1];
        int64_t       best = from;
        double        sum = 0;
        for (int64_t r = from; r < to; r++) {
            sum += c->in[X][r * C + i % C];
            if (c->in[X][r * C + i % C] > c->in[X][best * C + i % C]) best = r;
        }
        if (max) c->out[ARG][i] = (double)best;
        if (to > from) c->out[Y][i] = max ? c->in[X][best * C + i % C] : sum / (double)(to - from);
    }
}

void segment_pool_bwd_ref(const mba_ref_call *c)
{
    const int64_t graphs = mba__valid_entries(c->node->in[DY], c->step), C = mba_cols(c->node->in[DY]);
    const bool    max = ((const segment_pool_bwd_attr *)c->node->attr)->kind == MBA_POOL_MAX;
    for (int64_t i = 0; i < graphs * C; i++) {
        const int64_t from = (int64_t)c->in[PTRB][i / C], to = (int64_t)c->in[PTRB][i / C + 1];
        for (int64_t r = from; r < to; r++)
            if (!max) c->out[DX][r * C + i % C] = c->in[DY][i] / (double)(to - from);
            else if (r == (int64_t)c->in[ARGB][i]) c->out[DX][r * C + i % C] = c->in[DY][i];
    }
}
