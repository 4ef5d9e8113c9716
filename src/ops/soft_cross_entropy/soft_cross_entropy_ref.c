// SPDX-License-Identifier: Apache-2.0
/* soft_cross_entropy_ref.c -- the reference of soft_cross_entropy: fp64, dense arrays, plain loops. */
#include <math.h>

#include "ops/soft_cross_entropy/soft_cross_entropy_slots.h"

/* The weight of class v in row r. */
static double weight(const mba_node *n, const mba_tensor *t, const double *target, int64_t r, int64_t v, int64_t V)
{
    const double s = ((const soft_ce_attr *)n->attr)->smoothing;
    if (t->type.dtype != MBA_I32) return target[r * V + v];
    return (1 - s) * ((int64_t)target[r] == v) + s / (double)V;
}

static bool counts(const mba_tensor *t, const double *target, int64_t r)
{
    return t->type.dtype != MBA_I32 || target[r] >= 0;
}

static double scale_of(const mba_step *step, const mba_tensor *t, const double *target, int64_t M)
{
    int64_t valid = 0;
    for (int64_t r = 0; r < M; r++) valid += counts(t, target, r);
    return soft_ce_scale(step, valid);
}

void soft_cross_entropy_ref(const mba_ref_call *c)
{
    const mba_tensor *t = c->node->in[TARGET], *logits = c->node->in[Z];
    const int64_t     R = mba_rows(logits), V = mba_cols(logits), M = mba__valid_rows(logits, c->step);
    const double      k = scale_of(c->step, t, c->in[TARGET], M);
    for (int64_t r = 0; r < R; r++) {
        const double *z = c->in[Z] + r * V;
        double        m = z[0], s = 0;
        for (int64_t v = 1; v < V; v++) m = fmax(m, z[v]);
        for (int64_t v = 0; v < V; v++) s += exp(z[v] - m);
        c->out[LSE][r] = m + log(s);
        for (int64_t v = 0; v < V && r < M && counts(t, c->in[TARGET], r); v++)
            c->out[LOSS][0] += k * weight(c->node, t, c->in[TARGET], r, v, V) * (c->out[LSE][r] - z[v]);
    }
}

void soft_cross_entropy_bwd_ref(const mba_ref_call *c)
{
    const mba_tensor *t = c->node->in[TARGETB];
    const int64_t     V = mba_cols(c->node->in[ZB]), M = mba__valid_rows(c->node->in[ZB], c->step);
    const double      k = c->in[DLOSS][0] * scale_of(c->step, t, c->in[TARGETB], M);
    for (int64_t r = 0; r < M; r++) {
        double all = 0;
        for (int64_t v = 0; v < V; v++) all += weight(c->node, t, c->in[TARGETB], r, v, V);
        for (int64_t v = 0; v < V && counts(t, c->in[TARGETB], r); v++)
            c->out[DZ][r * V + v] =
                k * (all * exp(c->in[ZB][r * V + v] - c->in[LSEB][r]) - weight(c->node, t, c->in[TARGETB], r, v, V));
    }
}
