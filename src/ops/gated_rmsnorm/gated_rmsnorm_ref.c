// SPDX-License-Identifier: Apache-2.0
/* gated_rmsnorm_ref.c -- the reference of gated_rmsnorm: fp64, dense arrays, plain loops. */
#include <math.h>

#include "ops/gated_rmsnorm/gated_rmsnorm_slots.h"

static double sigmoid(double t) { return 1 / (1 + exp(-t)); }

void gated_rmsnorm_ref(const mba_ref_call *c)
{
    const gated_rmsnorm_attr *a = c->node->attr;
    const int64_t             R = mba_rows(c->node->in[Y]), C = mba_cols(c->node->in[Y]), P = C / a->groups;
    for (int64_t k = 0; k < R * a->groups; k++) { // channels of one row and group are contiguous
        double ss = 0;
        for (int64_t i = k * P; i < (k + 1) * P; i++) {
            const double q = c->out[V][i] = c->in[Y][i] * c->in[Z][i] * sigmoid(c->in[Z][i]);
            ss += q * q;
        }
        c->out[RSTD][k] = 1 / sqrt(ss / (double)P + a->eps);
        for (int64_t i = k * P; i < (k + 1) * P; i++) c->out[V][i] *= c->out[RSTD][k] * c->in[W][i % C];
    }
}

void gated_rmsnorm_bwd_ref(const mba_ref_call *c)
{
    const int64_t R = mba_rows(c->node->in[Y]), C = mba_cols(c->node->in[Y]);
    const int64_t G = ((const gated_rmsnorm_attr *)c->node->attr)->groups, P = C / G;
    for (int64_t k = 0; k < R * G; k++) {
        const double rstd = c->in[RSTDB][k];
        double       mean = 0;
        for (int64_t i = k * P; i < (k + 1) * P; i++)
            mean += c->in[Y][i] * c->in[Z][i] * sigmoid(c->in[Z][i]) * rstd * c->in[W][i % C] * c->in[DV][i];
        mean /= (double)P;
        for (int64_t i = k * P; i < (k + 1) * P; i++) {
            const double y = c->in[Y][i], z = c->in[Z][i], s = sigmoid(z), qhat = y * z * s * rstd;
            const double dq = rstd * (c->in[W][i % C] * c->in[DV][i] - qhat * mean);
            c->out[DW][i % C] += c->in[DV][i] * qhat;
            if (c->out[V_AGAIN]) c->out[V_AGAIN][i] = qhat * c->in[W][i % C];
            c->out[DY][i] = dq * z * s;
            c->out[DZ][i] = dq * y * s * (1 + z * (1 - s));
        }
    }
}
