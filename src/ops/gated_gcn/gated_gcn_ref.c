// SPDX-License-Identifier: Apache-2.0
/* gated_gcn_ref.c -- the reference of gated_gcn: fp64, dense arrays, plain loops. */
#include <math.h>

#include "ops/gated_gcn/gated_gcn_slots.h"

static double sigmoid(double t) { return 1 / (1 + exp(-t)); }

void gated_gcn_ref(const mba_ref_call *c)
{
    const int64_t N = mba__valid_entries(c->node->in[A], c->step), H = mba_cols(c->node->in[A]);
    for (int64_t i = 0; i < N; i++)
        for (int64_t h = 0; h < H; h++) {
            double num = 0, den = 0;
            for (int64_t k = (int64_t)c->in[IN_PTR][i]; k < (int64_t)c->in[IN_PTR][i + 1]; k++) {
                const int64_t j = (int64_t)c->in[SRC][k];
                const double  t = c->in[D][i * H + h] + c->in[E][j * H + h] + c->in[C][k * H + h], s = sigmoid(t);
                c->out[EH][k * H + h] = t;
                num += s * c->in[B][j * H + h];
                den += s;
            }
            c->out[RDEN][i * H + h] = 1 / (den + GATED_GCN_TINY);
            c->out[AGG][i * H + h] = num / (den + GATED_GCN_TINY);
            c->out[XT][i * H + h] = c->in[A][i * H + h] + c->out[AGG][i * H + h];
        }
}

void gated_gcn_bwd_ref(const mba_ref_call *c)
{
    const int64_t N = mba__valid_entries(c->node->in[BB], c->step), H = mba_cols(c->node->in[BB]);
    for (int64_t i = 0; i < N; i++)
        for (int64_t h = 0; h < H; h++) {
            const double g = c->in[DXT][i * H + h], gn = g * c->in[RDENB][i * H + h];
            c->out[DA][i * H + h] = g;
            for (int64_t k = (int64_t)c->in[IN_PTRB][i]; k < (int64_t)c->in[IN_PTRB][i + 1]; k++) {
                const int64_t j = (int64_t)c->in[SRCB][k];
                const double  s = sigmoid(c->in[EHB][k * H + h]);
                const double  gs = gn * (c->in[BB][j * H + h] - c->in[AGGB][i * H + h]);
                const double  t = (c->in[DEH] ? c->in[DEH][k * H + h] : 0) + gs * s * (1 - s);
                c->out[DB][j * H + h] += s * gn;
                c->out[DE][j * H + h] += t;
                c->out[DD][i * H + h] += t;
                c->out[DC][k * H + h] = t;
            }
        }
}
