/* norm_rows.h -- one row of a root-mean-square norm, for the kernels of add_rmsnorm and rmsnorm.
 *
 * A row is read from memory once: the second pass over it finds it in L1. Outputs may lie in the memory of
 * inputs (sum in x, y in x or m, dx in ds or dy, dm in dy), so every vector is read before its place is written. */
#ifndef MBA_OPS_NORM_ROWS_H
#define MBA_OPS_NORM_ROWS_H

#include "device/cpu/simd.h"
#include "ops/rows.h"

/* s = x + m is kept in sum; without m it is x itself. */
MBA_SIMD vf mba__norm_take(const float *x, const float *m, float *sum, int64_t i, int64_t n)
{
    vf s = vf_load_n(x + i, n);
    if (m) {
        s += vf_load_n(m + i, n);
        vf_store_n(sum + i, s, n);
    }
    return s;
}

/* y = w s rstd, with rstd = 1 / sqrt(mean(s^2) + eps), which is returned. */
MBA_SIMD float mba__norm_row(float *y, float *sum, const float *x, const float *m, const float *w, int64_t C, float eps)
{
    const int64_t L = MBA_LANES;
    vf            a = { 0 }, b = { 0 };
    int64_t       i = 0;
    for (; i + 2 * L <= C; i += 2 * L) {
        const vf s = mba__norm_take(x, m, sum, i, L), t = mba__norm_take(x, m, sum, i + L, L);
        a += s * s;
        b += t * t;
    }
    for (; i < C; i += L) {
        const vf s = mba__norm_take(x, m, sum, i, C - i);
        a += s * s;
    }
    const float  rstd = 1 / __builtin_sqrtf(vf_sum(a + b) / (float)C + eps);
    const float *s    = m ? sum : x;
    for (i = 0; i + L <= C; i += L) vf_store(y + i, vf_load(s + i) * rstd * vf_load(w + i));
    for (; i < C; i++) y[i] = s[i] * rstd * w[i];
    return rstd;
}

typedef struct mba__norm_grads {
    const float *dy, *ds, *x, *w;                 /* ds: what flows into the sum from above, or NULL */
    float       *dx, *dm, *dw;                    /* dm: the same as dx, or NULL; dw is always added to */
    bool         dx_adds, dm_adds;
} mba__norm_grads;

MBA_SIMD void mba__norm_bwd_vector(const mba__norm_grads *g, float rstd, float mean, int64_t i, int64_t n)
{
    const vf dy = vf_load_n(g->dy + i, n), h = vf_load_n(g->x + i, n) * rstd;
    vf       dx = (vf_load_n(g->w + i, n) * dy - h * mean) * rstd;
    if (g->ds) dx += vf_load_n(g->ds + i, n);
    vf_store_n(g->dw + i, vf_load_n(g->dw + i, n) + dy * h, n);
    vf_store_n(g->dx + i, g->dx_adds ? vf_load_n(g->dx + i, n) + dx : dx, n);
    if (g->dm) vf_store_n(g->dm + i, g->dm_adds ? vf_load_n(g->dm + i, n) + dx : dx, n);   // may be dx: read last
}

/* With h = x rstd and c = mean(h w dy): dx = ds + rstd (w dy - h c), dw += dy h. */
MBA_SIMD void mba__norm_bwd_row(mba__norm_grads g, float rstd, int64_t C)
{
    const int64_t L = MBA_LANES;
    vf            a = { 0 }, b = { 0 };
    int64_t       i = 0;
    for (; i + 2 * L <= C; i += 2 * L) {
        a += vf_load(g.x + i) * vf_load(g.w + i) * vf_load(g.dy + i);
        b += vf_load(g.x + i + L) * vf_load(g.w + i + L) * vf_load(g.dy + i + L);
    }
    for (; i < C; i += L) a += vf_load_n(g.x + i, C - i) * vf_load_n(g.w + i, C - i) * vf_load_n(g.dy + i, C - i);
    const float mean = vf_sum(a + b) * rstd / (float)C;
    for (i = 0; i + L <= C; i += L) mba__norm_bwd_vector(&g, rstd, mean, i, L);
    if (i < C) mba__norm_bwd_vector(&g, rstd, mean, i, C - i);
}

#endif
