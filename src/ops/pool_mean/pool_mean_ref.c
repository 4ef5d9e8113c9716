// SPDX-License-Identifier: Apache-2.0
/* pool_mean_ref.c -- the reference of pool_mean: fp64, dense arrays, plain loops. */
#include "ops/pool_mean/pool_mean_slots.h"

void pool_mean_ref(const mba_ref_call *c)
{
    const mba_tensor *x = c->node->in[X];
    const int64_t     C = mba_cols(x), positions = mba_rows(x) / x->type.dim[0];
    for (int64_t i = 0; i < mba_elems(x); i++)
        c->out[Y][i / C / positions * C + i % C] += c->in[X][i] / (double)positions;
}

void pool_mean_bwd_ref(const mba_ref_call *c)
{
    const mba_tensor *dx = c->node->out[DX];
    const int64_t     C = mba_cols(dx), positions = mba_rows(dx) / dx->type.dim[0];
    for (int64_t i = 0; i < mba_elems(dx); i++)
        c->out[DX][i] = c->in[DY][i / C / positions * C + i % C] / (double)positions;
}
