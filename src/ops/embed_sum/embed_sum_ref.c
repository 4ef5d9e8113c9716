// SPDX-License-Identifier: Apache-2.0
/* embed_sum_ref.c -- the reference of embed_sum: fp64, dense arrays, plain loops. */
#include "ops/embed_sum/embed_sum_slots.h"

void embed_sum_ref(const mba_ref_call *c)
{
    const int64_t R = mba__valid_entries(c->node->in[INDEX], c->step), F = mba_cols(c->node->in[INDEX]),
                  M = mba_cols(c->node->out[Y]);
    for (int64_t i = 0; i < R * F; i++)
        for (int64_t m = 0; m < M; m++) c->out[Y][i / F * M + m] += c->in[TABLE][(int64_t)c->in[INDEX][i] * M + m];
}

void embed_sum_bwd_ref(const mba_ref_call *c)
{
    const int64_t R = mba__valid_entries(c->node->in[INDEXB], c->step), F = mba_cols(c->node->in[INDEXB]),
                  M = mba_cols(c->node->in[DY]);
    for (int64_t i = 0; i < R * F; i++)
        for (int64_t m = 0; m < M; m++) c->out[DTABLE][(int64_t)c->in[INDEXB][i] * M + m] += c->in[DY][i / F * M + m];
}
