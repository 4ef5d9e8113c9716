// SPDX-License-Identifier: Apache-2.0
/* rownorm_ref.c -- the reference of rownorm: fp64, dense arrays, plain loops. */
#include <math.h>

#include "ops/rownorm/rownorm_slots.h"

void rownorm_ref(const mba_ref_call *c)
{
    const int64_t C = mba_cols(c->node->in[X]);
    for (int64_t r = 0; r < mba_rows(c->node->in[X]); r++) {
        double ss = 0;
        for (int64_t i = r * C; i < (r + 1) * C; i++) ss += c->in[X][i] * c->in[X][i];
        c->out[LENGTH][r] = fmax(sqrt(ss), ROWNORM_FLOOR);
        for (int64_t i = r * C; i < (r + 1) * C; i++) c->out[Y][i] = c->in[X][i] / c->out[LENGTH][r];
    }
}

void rownorm_bwd_ref(const mba_ref_call *c)
{
    const int64_t C = mba_cols(c->node->in[DY]);
    for (int64_t r = 0; r < mba_rows(c->node->in[DY]); r++) {
        const double length = c->in[LENGTHB][r];
        double       dot = 0;
        for (int64_t i = r * C; i < (r + 1) * C && length > ROWNORM_FLOOR; i++) dot += c->in[DY][i] * c->in[YB][i];
        for (int64_t i = r * C; i < (r + 1) * C; i++) c->out[DX][i] = (c->in[DY][i] - c->in[YB][i] * dot) / length;
    }
}
