// SPDX-License-Identifier: Apache-2.0
/* bias_ref.c -- the reference of bias: fp64, dense arrays, plain loops. */
#include "ops/bias/bias_slots.h"

void bias_ref(const mba_ref_call *c)
{
    const int64_t C = mba_cols(c->node->in[X]);
    for (int64_t i = 0; i < mba_elems(c->node->in[X]); i++) c->out[Y][i] = c->in[X][i] + c->in[BIAS][i % C];
}

void bias_bwd_ref(const mba_ref_call *c)
{
    const int64_t C = mba_cols(c->node->in[DY]);
    for (int64_t i = 0; i < mba_elems(c->node->in[DY]); i++) c->out[DBIAS][i % C] += c->in[DY][i];
}
