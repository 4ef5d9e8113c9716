// SPDX-License-Identifier: Apache-2.0
/* add_rmsnorm_ref.c -- the reference of add_rmsnorm: fp64, dense arrays, plain loops. */
#include <math.h>

#include "ops/add_rmsnorm/add_rmsnorm_slots.h"

void add_rmsnorm_ref(const mba_ref_call *c)
{
    const int64_t R = mba_rows(c->node->in[RES]), C = mba_cols(c->node->in[RES]);
    for (int64_t r = 0; r < R; r++) {
        double ss = 0;
        for (int64_t i = r * C; i < (r + 1) * C; i++) {
            const double s = c->out[Y][i] = c->in[RES][i] + (c->in[M] ? c->in[M][i] : 0);
            if (c->out[SUM]) c->out[SUM][i] = s;
            ss += s * s;
        }
        const double k = c->out[RSTD][r] = 1 / sqrt(ss / (double)C + ((const add_rmsnorm_attr *)c->node->attr)->eps);
        for (int64_t i = r * C; i < (r + 1) * C; i++) c->out[Y][i] *= k * c->in[W][i % C];
    }
}

void add_rmsnorm_bwd_ref(const mba_ref_call *c)
{
    const int64_t R = mba_rows(c->node->in[STREAM]), C = mba_cols(c->node->in[STREAM]);
    for (int64_t r = 0; r < R; r++) {
        const double k = c->in[RSTDB][r];
        double       mean = 0;
        for (int64_t i = r * C; i < (r + 1) * C; i++)
            mean += c->in[STREAM][i] * k * c->in[WB][i % C] * c->in[DY][i] / (double)C;
        for (int64_t i = r * C; i < (r + 1) * C; i++) {
            const double h = c->in[STREAM][i] * k;
            c->out[DW][i % C] += c->in[DY][i] * h;
            c->out[DRES][i] = (c->in[DSUM] ? c->in[DSUM][i] : 0) + k * (c->in[WB][i % C] * c->in[DY][i] - h * mean);
            if (c->out[DM]) c->out[DM][i] = c->out[DRES][i];
        }
    }
}
