// SPDX-License-Identifier: Apache-2.0
/* linear_cross_entropy_ref.c -- the reference of linear_cross_entropy, both directions: fp64, dense arrays, plain
 * loops. Backward computes the loss, too. */
#include <math.h>

#include "ops/linear_cross_entropy/linear_cross_entropy_slots.h"

static double scale_of(const mba_step *step, const double *target, int64_t rows)
{
    int64_t valid = 0;
    for (int64_t r = 0; r < rows; r++) valid += target[r] >= 0;
    return !valid ? 0 : step->loss_scale > 0 ? step->loss_scale : 1.0 / (double)valid;
}

static double dot(const double *a, const double *b, int64_t n)
{
    double s = 0;
    for (int64_t i = 0; i < n; i++) s += a[i] * b[i];
    return s;
}

static double log_sum_exp(const double *xr, const double *w, int64_t V, int64_t M)
{
    double m = -INFINITY, s = 0;
    for (int64_t v = 0; v < V; v++) m = fmax(m, dot(xr, w + v * M, M));
    for (int64_t v = 0; v < V; v++) s += exp(dot(xr, w + v * M, M) - m);
    return m + log(s);
}

void lce_ref(const mba_ref_call *c)
{
    const mba_tensor *x = c->node->in[X], *w = c->node->in[W];
    const int64_t     R = mba_rows(x), M = mba_cols(x), V = mba_rows(w);
    const double      k = scale_of(c->step, c->in[TARGET], R), seed = c->in[DLOSS] ? c->in[DLOSS][0] : 0;
    for (int64_t r = 0; r < R; r++) {
        const double *xr = c->in[X] + r * M, t = c->in[TARGET][r], lse = log_sum_exp(xr, c->in[W], V, M);
        if (t < 0) continue;
        c->out[LOSS][0] += k * (lse - dot(xr, c->in[W] + (int64_t)t * M, M));
        for (int64_t v = 0; v < V && (c->out[DX] || c->out[DW]); v++) {
            const double *wv = c->in[W] + v * M, dz = seed * k * (exp(dot(xr, wv, M) - lse) - ((int64_t)t == v));
            for (int64_t i = 0; c->out[DX] && i < M; i++) c->out[DX][r * M + i] += dz * wv[i];
            for (int64_t i = 0; c->out[DW] && i < M; i++) c->out[DW][v * M + i] += dz * xr[i];
        }
    }
}
