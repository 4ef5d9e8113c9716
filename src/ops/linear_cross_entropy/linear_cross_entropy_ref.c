/* linear_cross_entropy_ref.c -- fp64, only the maths. */
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

void lce_ref(const mba_ref_call *c)
{
    const mba_tensor *x = c->node->in[X], *w = c->node->in[W];
    const int64_t     R = mba_rows(x), M = mba_cols(x), V = mba_rows(w);
    const double      k = scale_of(c->step, c->in[TARGET], R);
    for (int64_t r = 0; r < R; r++) {
        const double *xr = c->in[X] + r * M, t = c->in[TARGET][r];
        double m = -INFINITY, s = 0;
        for (int64_t v = 0; v < V; v++) m = fmax(m, dot(xr, c->in[W] + v * M, M));
        for (int64_t v = 0; v < V; v++) s += exp(dot(xr, c->in[W] + v * M, M) - m);
        c->out[LSE][r] = m + log(s);
        if (t >= 0) c->out[LOSS][0] += k * (c->out[LSE][r] - dot(xr, c->in[W] + (int64_t)t * M, M));
    }
}

void lce_bwd_ref(const mba_ref_call *c)
{
    const mba_tensor *x = c->node->in[XB], *w = c->node->in[WB];
    const int64_t     R = mba_rows(x), M = mba_cols(x), V = mba_rows(w);
    const double      k = c->in[DLOSS][0] * scale_of(c->step, c->in[TARGETB], R);
    for (int64_t r = 0; r < R; r++)
        for (int64_t v = 0; v < V; v++) {
            const double *xr = c->in[XB] + r * M, *wv = c->in[WB] + v * M, t = c->in[TARGETB][r];
            const double  dz = t < 0 ? 0 : k * (exp(dot(xr, wv, M) - c->in[LSEB][r]) - ((int64_t)t == v));
            for (int64_t i = 0; c->out[DX] && i < M; i++) c->out[DX][r * M + i] += dz * wv[i];
            for (int64_t i = 0; c->out[DW] && i < M; i++) c->out[DW][v * M + i] += dz * xr[i];
        }
}
