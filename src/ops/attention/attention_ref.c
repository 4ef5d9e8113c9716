// SPDX-License-Identifier: Apache-2.0
/* attention_ref.c -- the reference of attention: fp64, whole rows of scores, no tiles. */
#include <math.h>

#include "ops/attention/attention_slots.h"

static bool sees(const mba_ref_call *c, const attention_dims *d, int64_t b, int64_t t, int64_t s)
{
    const attention_attr *a = c->node->attr;
    const double         *ids = c->in[IDS];
    return !(a->causal && s > t + d->past) && !(ids && ids[b * d->L + t] != ids[b * d->L + s]);
}

static double dot(const double *x, const double *y, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += x[i] * y[i];
    return sum;
}

static const double *key_row(const double *x, const attention_dims *d, int64_t b, int64_t s, int64_t h)
{
    return x + ((b * d->Lk + s) * d->Hk + h / d->group) * d->P;
}

/* Scaled scores of one query; masked ones are -infinity. */
static void scores(double *row, const mba_ref_call *c, const attention_dims *d, int64_t b, int64_t t, int64_t h)
{
    const attention_attr *a = c->node->attr;
    const double         *q = c->in[Q] + ((b * d->L + t) * d->H + h) * d->P;
    for (int64_t s = 0; s < d->Lk; s++)
        row[s] = sees(c, d, b, t, s) ? a->scale * dot(q, key_row(c->in[K], d, b, s, h), d->P) : -INFINITY;
}

int64_t attention_ref_space(const mba_node *n) { return attention_dims_of(n).Lk; }

void attention_ref(const mba_ref_call *c)
{
    const attention_dims d = attention_dims_of(c->node);
    double              *row = c->space;
    for (int64_t i = 0; i < d.B * d.L * d.H; i++) {
        const int64_t h = i % d.H, t = i / d.H % d.L, b = i / d.H / d.L;
        double       *o = c->out[O] + i * d.P, top = -INFINITY, sum = 0;
        scores(row, c, &d, b, t, h);
        for (int64_t s = 0; s < d.Lk; s++) top = fmax(top, row[s]);
        for (int64_t s = 0; s < d.Lk; s++) sum += exp(row[s] - top);
        for (int64_t s = 0; s < d.Lk; s++) {
            const double p = exp(row[s] - top) / sum, *v = key_row(c->in[V], &d, b, s, h);
            for (int64_t e = 0; e < d.P; e++) o[e] += p * v[e];
        }
        c->out[LSE][(b * d.H + h) * d.L + t] = top + log(sum);
    }
}

void attention_bwd_ref(const mba_ref_call *c)
{
    const attention_attr *a = c->node->attr;
    const attention_dims  d = attention_dims_of(c->node);
    double               *row = c->space;
    for (int64_t i = 0; i < d.B * d.L * d.H; i++) {
        const int64_t h = i % d.H, t = i / d.H % d.L, b = i / d.H / d.L;
        const double *q = c->in[Q] + i * d.P, *dout = c->in[DOUT] + i * d.P;
        const double  delta = dot(dout, c->in[OUT] + i * d.P, d.P);
        scores(row, c, &d, b, t, h);
        for (int64_t s = 0; s < d.Lk; s++) {
            const double *k = key_row(c->in[K], &d, b, s, h), p = exp(row[s] - c->in[LSES][(b * d.H + h) * d.L + t]);
            const double  dS = a->scale * p * (dot(dout, key_row(c->in[V], &d, b, s, h), d.P) - delta);
            const int64_t at = k - c->in[K];
            for (int64_t e = 0; e < d.P; e++) {
                c->out[DQ][i * d.P + e] += dS * k[e];
                c->out[DK][at + e] += dS * q[e];
                c->out[DV][at + e] += p * dout[e];
            }
        }
    }
}
