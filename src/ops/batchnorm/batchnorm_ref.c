// SPDX-License-Identifier: Apache-2.0
/* batchnorm_ref.c -- the reference of batchnorm: fp64, dense arrays, plain loops. Outputs start at zero, so rows beyond
 * the count stay zero. */
#include <math.h>

#include "ops/batchnorm/batchnorm_slots.h"

void batchnorm_stats_ref(const mba_ref_call *c)
{
    const int64_t C = mba_cols(c->node->in[SX]), M = mba__valid_rows(c->node->in[SX], c->step);
    const double  k = ((const batchnorm_stats_attr *)c->node->attr)->momentum, n = (double)M;
    for (int64_t i = 0; i < C; i++) {
        double mean = 0, var = 0;
        for (int64_t r = 0; r < M; r++) mean += c->in[SX][r * C + i] / n;
        for (int64_t r = 0; r < M; r++) var += pow(c->in[SX][r * C + i] - mean, 2) / n;
        c->out[SMEAN][i] = mean;
        c->out[SVAR][i] = var;
        const bool moves = M && isfinite(mean) && isfinite(var);
        c->out[RMEANO][i] = moves ? (1 - k) * c->in[RMEAN][i] + k * mean : c->in[RMEAN][i];
        c->out[RVARO][i] = moves ? (1 - k) * c->in[RVAR][i] + k * var * (M > 1 ? n / (n - 1) : 1) : c->in[RVAR][i];
    }
}

void batchnorm_ref(const mba_ref_call *c)
{
    const batchnorm_attr *a = c->node->attr;
    const int64_t         C = mba_cols(c->node->in[X]), M = mba__valid_rows(c->node->in[X], c->step);
    for (int64_t i = 0; i < M * C; i++) {
        const double h = (c->in[X][i] - c->in[MEAN][i % C]) / sqrt(c->in[VAR][i % C] + a->eps);
        const double y = h * c->in[W][i % C] + c->in[B][i % C];
        c->out[Y][i] = a->relu && y < 0 ? 0 : y;
    }
}

void batchnorm_bwd_ref(const mba_ref_call *c)
{
    const batchnorm_attr *a = c->node->attr;
    const int64_t         C = mba_cols(c->node->in[XB]), M = mba__valid_rows(c->node->in[XB], c->step);
    for (int64_t i = 0; i < C; i++) {
        const double rstd = 1 / sqrt(c->in[VARB][i] + a->eps), mean = c->in[MEANB][i];
        const double w = c->in[WB][i], b = c->in[BB][i];
        for (int64_t r = 0; r < M; r++) {
            const double h = (c->in[XB][r * C + i] - mean) * rstd;
            const double g = a->relu && h * w + b <= 0 ? 0 : c->in[DY][r * C + i];
            c->out[DW][i] += g * h;
            c->out[DB][i] += g;
            c->out[DX][r * C + i] = g;
        }
        for (int64_t r = 0; r < M; r++) {
            const double h = (c->in[XB][r * C + i] - mean) * rstd, g = c->out[DX][r * C + i];
            const double drift = a->train ? (c->out[DB][i] + h * c->out[DW][i]) / (double)M : 0;
            c->out[DX][r * C + i] = w * rstd * (g - drift);
        }
    }
}
