// SPDX-License-Identifier: Apache-2.0
/* embed_ref.c -- the reference of embed: fp64, dense arrays, plain loops. */
#include "ops/embed/embed_slots.h"

void embed_ref(const mba_ref_call *c)
{
    const int64_t M = mba_cols(c->node->out[Y]);
    for (int64_t i = 0; i < mba_elems(c->node->out[Y]); i++)
        c->out[Y][i] = c->in[TABLE][(int64_t)c->in[TOKEN][i / M] * M + i % M];
}

void embed_bwd_ref(const mba_ref_call *c)
{
    const int64_t M = mba_cols(c->node->in[DY]), padding = ((const embed_bwd_attr *)c->node->attr)->padding;
    for (int64_t i = 0; i < mba_elems(c->node->in[DY]); i++) {
        const int64_t v = (int64_t)c->in[TOKENB][i / M];
        if (v != padding) c->out[DTABLE][v * M + i % M] += c->in[DY][i];
    }
}
