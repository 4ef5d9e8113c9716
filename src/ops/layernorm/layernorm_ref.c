// SPDX-License-Identifier: Apache-2.0
/* layernorm_ref.c -- the reference of layernorm: fp64, dense arrays, plain loops. */
#include <math.h>

#include "ops/layernorm/layernorm_slots.h"

void layernorm_ref(const mba_ref_call *c)
{
    const int64_t R = mba_rows(c->node->in[X]), C = mba_cols(c->node->in[X]);
    for (int64_t r = 0; r < R; r++) {
        const double *x = c->in[X] + r * C;
        double        mean = 0, var = 0;
        for (int64_t i = 0; i < C; i++) mean += x[i] / (double)C;
        for (int64_t i = 0; i < C; i++) var += (x[i] - mean) * (x[i] - mean) / (double)C;
        const double k = 1 / sqrt(var + ((const layernorm_attr *)c->node->attr)->eps);
        for (int64_t i = 0; i < C; i++) c->out[Y][r * C + i] = (x[i] - mean) * k * c->in[W][i] + c->in[B][i];
        c->out[MEAN][r] = mean;
        c->out[RSTD][r] = k;
    }
}

void layernorm_bwd_ref(const mba_ref_call *c)
{
    const int64_t R = mba_rows(c->node->in[XB]), C = mba_cols(c->node->in[XB]);
    for (int64_t r = 0; r < R; r++) {
        const double *x = c->in[XB] + r * C, *dy = c->in[DY] + r * C, *w = c->in[WB];
        const double  mean = c->in[MEANB][r], k = c->in[RSTDB][r];
        double        m1 = 0, m2 = 0;
        for (int64_t i = 0; i < C; i++) m1 += w[i] * dy[i] / (double)C;
        for (int64_t i = 0; i < C; i++) m2 += w[i] * dy[i] * (x[i] - mean) * k / (double)C;
        for (int64_t i = 0; i < C; i++) {
            const double h = (x[i] - mean) * k;
            c->out[DX][r * C + i] = k * (w[i] * dy[i] - m1 - h * m2);
            c->out[DW][i] += dy[i] * h;
            c->out[DB][i] += dy[i];
        }
    }
}
