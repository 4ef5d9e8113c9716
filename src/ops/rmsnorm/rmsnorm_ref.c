// SPDX-License-Identifier: Apache-2.0
/* rmsnorm_ref.c -- the reference of rmsnorm: fp64, dense arrays, plain loops. */
#include <math.h>

#include "ops/rmsnorm/rmsnorm_slots.h"

void rmsnorm_ref(const mba_ref_call *c)
{
    const int64_t R = mba_rows(c->node->in[X]), C = mba_cols(c->node->in[X]);
    for (int64_t r = 0; r < R; r++) {
        double ss = 0;
        for (int64_t i = r * C; i < (r + 1) * C; i++) ss += c->in[X][i] * c->in[X][i];
        const double k = c->out[RSTD][r] = 1 / sqrt(ss / (double)C + ((const rmsnorm_attr *)c->node->attr)->eps);
        for (int64_t i = r * C; i < (r + 1) * C; i++) c->out[Y][i] = c->in[X][i] * k * c->in[W][i % C];
    }
}

void rmsnorm_bwd_ref(const mba_ref_call *c)
{
    const int64_t R = mba_rows(c->node->in[XB]), C = mba_cols(c->node->in[XB]);
    for (int64_t r = 0; r < R; r++) {
        const double k = c->in[RSTDB][r];
        double       mean = 0;
        for (int64_t i = r * C; i < (r + 1) * C; i++)
            mean += c->in[XB][i] * k * c->in[WB][i % C] * c->in[DY][i] / (double)C;
        for (int64_t i = r * C; i < (r + 1) * C; i++) {
            const double h = c->in[XB][i] * k;
            c->out[DW][i % C] += c->in[DY][i] * h;
            c->out[DX][i] = k * (c->in[WB][i % C] * c->in[DY][i] - h * mean);
        }
    }
}
