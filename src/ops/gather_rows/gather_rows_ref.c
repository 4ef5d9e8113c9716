// SPDX-License-Identifier: Apache-2.0
/* gather_rows_ref.c -- the reference of gather_rows: fp64, dense arrays, plain loops. */
#include "ops/gather_rows/gather_rows_slots.h"

void gather_rows_ref(const mba_ref_call *c)
{
    const int64_t real = mba__valid_entries(c->node->in[X], c->step), C = mba_cols(c->node->in[X]);
    for (int64_t i = 0; i < mba_elems(c->node->in[X]); i++) {
        const int64_t r = i / C, from = r < real ? (int64_t)c->in[INDEX][r] : r;
        c->out[Y][i] = c->in[X][from * C + i % C];
    }
}
