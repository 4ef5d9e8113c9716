// SPDX-License-Identifier: Apache-2.0
/* norm_rows.h -- CPU loops of root-mean-square norms, for add_rmsnorm and rmsnorm.
 *
 * A norm needs two passes over each row: one to sum, one to scale. The second pass over row r runs together with the
 * first pass over row r + 1. So a row is fetched from memory once, and reads and writes overlap all the time. Outputs
 * may share memory with inputs (sum with x, y with x or m, dx with ds or dy, dm with dy), so each vector is read before
 * it is overwritten. */
#ifndef MBA_OPS_NORM_ROWS_H
#define MBA_OPS_NORM_ROWS_H

#include "device/cpu/simd.h"
#include "ops/rows.h"

enum { MBA__UNROLL = 4 }; /* vectors per iteration, with independent sums */

MBA_SIMD float mba__sum4(const vf a[MBA__UNROLL]) { return vf_sum((a[0] + a[1]) + (a[2] + a[3])); }

/* One row, forward. s = x + m is stored in sum; without m, s is x itself. */
typedef struct mba__norm {
    const float *x, *m;
    float       *sum, *y;
} mba__norm;

MBA_SIMD void mba__norm_squares(vf a[], mba__norm k, int vectors, int64_t i, int64_t n)
{
    const int64_t L = MBA_LANES;
    vf            s[MBA__UNROLL];
    for (int u = 0; u < vectors; u++) s[u] = vf_load_n(k.x + i + u * L, n);
    for (int u = 0; u < vectors && k.m; u++) s[u] += vf_load_n(k.m + i + u * L, n);
    for (int u = 0; u < vectors && k.m; u++) vf_store_n(k.sum + i + u * L, s[u], n);
    for (int u = 0; u < vectors; u++) a[u] += s[u] * s[u];
}

MBA_SIMD void mba__norm_scale(mba__norm k, const float *w, float rstd, int vectors, int64_t i, int64_t n)
{
    const int64_t L = MBA_LANES;
    const float  *s = k.m ? k.sum : k.x;
    vf            y[MBA__UNROLL];
    for (int u = 0; u < vectors; u++) y[u] = vf_load_n(s + i + u * L, n) * rstd * vf_load_n(w + i + u * L, n);
    for (int u = 0; u < vectors; u++) vf_store_n(k.y + i + u * L, y[u], n);
}

/* Scales row `now` by w and its rstd, and returns the sum of squares of row `next`. The flags leave out either of the
 * two. */
MBA_SIMD float mba__norm_rows(bool scale, mba__norm now, const float *w, float rstd, bool sum, mba__norm next,
                              int64_t C)
{
    const int64_t L = MBA_LANES, step = MBA__UNROLL * L;
    vf            a[MBA__UNROLL] = { { 0 } };
    int64_t       i = 0;
    for (; i + step <= C; i += step) {
        if (scale) mba__norm_scale(now, w, rstd, MBA__UNROLL, i, L);
        if (sum) mba__norm_squares(a, next, MBA__UNROLL, i, L);
    }
    for (; i < C; i += L) {
        if (scale) mba__norm_scale(now, w, rstd, 1, i, C - i);
        if (sum) mba__norm_squares(a, next, 1, i, C - i);
    }
    return mba__sum4(a);
}

/* Arguments of a range of rows: y = w s rstd, with rstd = 1 / sqrt(mean(s^2) + eps). */
typedef struct mba__norm_args {
    mba__rows    x, m, sum, y;
    const float *w;
    float       *rstd, eps;
} mba__norm_args;

MBA_SIMD mba__norm mba__norm_at(const mba__norm_args *a, bool branch, int64_t r)
{
    return (mba__norm){ .x = mba__row(a->x, r),
                        .y = mba__row(a->y, r),
                        .m = branch ? mba__row(a->m, r) : NULL,
                        .sum = branch ? mba__row(a->sum, r) : NULL };
}

MBA_SIMD void mba__norm_part(const mba__norm_args *a, bool branch, int64_t from, int64_t end)
{
    const int64_t C = a->x.cols;
    mba__norm     now = mba__norm_at(a, branch, from), next;
    float         ss = mba__norm_rows(false, now, NULL, 0, true, now, C);
    for (int64_t r = from; r < end; r++, now = next) {
        const float k = a->rstd[r] = 1 / __builtin_sqrtf(ss / (float)C + a->eps);
        next = r + 1 < end ? mba__norm_at(a, branch, r + 1) : now;
        if (r + 1 < end) ss = mba__norm_rows(true, now, a->w, k, true, next, C);
        else mba__norm_rows(true, now, a->w, k, false, now, C);
    }
}

/* One row, backward. ds is the gradient that arrives at the sum directly, or NULL. dm receives the same values as dx,
 * or is NULL. dw is added to. */
typedef struct mba__norm_grad {
    const float *dy, *ds, *x;
    float       *dx, *dm;
} mba__norm_grad;

typedef struct mba__norm_grad_args {
    mba__rows    dy, ds, x, dx, dm;
    const float *w, *rstd;
    bool         dx_adds, dm_adds;
} mba__norm_grad_args;

/* dx = ds + w dy rstd - x back, dw += x dy rstd. Each stream is written in whole cache lines: three streams that
 * alternate vector by vector reach half of the bandwidth. */
MBA_SIMD void mba__norm_apply(const mba__norm_grad_args *a, mba__norm_grad g, float *dw, const vf w[], float rstd,
                              float back, int vectors, int64_t i, int64_t n)
{
    const int64_t L = MBA_LANES;
    vf            dx[MBA__UNROLL], out[MBA__UNROLL];
    for (int u = 0; u < vectors; u++) {
        const int64_t j = i + u * L;
        const vf      t = vf_load_n(g.dy + j, n) * rstd, x = vf_load_n(g.x + j, n);
        dx[u] = w[u] * t - x * back;
        out[u] = vf_load_n(dw + j, n) + x * t;
    }
    for (int u = 0; u < vectors && g.ds; u++) dx[u] += vf_load_n(g.ds + i + u * L, n);
    for (int u = 0; u < vectors; u++) vf_store_n(dw + i + u * L, out[u], n);
    for (int u = 0; u < vectors; u++) out[u] = a->dx_adds ? vf_load_n(g.dx + i + u * L, n) + dx[u] : dx[u];
    for (int u = 0; u < vectors; u++) vf_store_n(g.dx + i + u * L, out[u], n);
    if (!g.dm) return; // dm may be dx itself, so it is read after dx is written
    for (int u = 0; u < vectors; u++) out[u] = a->dm_adds ? vf_load_n(g.dm + i + u * L, n) + dx[u] : dx[u];
    for (int u = 0; u < vectors; u++) vf_store_n(g.dm + i + u * L, out[u], n);
}

/* Computes the gradients of row `now`, and returns the sum over x w dy of row `next`. The flags leave out either of the
 * two. */
MBA_SIMD float mba__norm_grads(const mba__norm_grad_args *a, bool apply, mba__norm_grad now, float *dw, float rstd,
                               float back, bool sum, mba__norm_grad next)
{
    const int64_t L = MBA_LANES, C = a->x.cols, step = MBA__UNROLL * L;
    vf            s[MBA__UNROLL] = { { 0 } }, w[MBA__UNROLL];
    int64_t       i = 0;
    for (; i + step <= C; i += step) {
        for (int u = 0; u < MBA__UNROLL; u++) w[u] = vf_load(a->w + i + u * L);
        if (apply) mba__norm_apply(a, now, dw, w, rstd, back, MBA__UNROLL, i, L);
        for (int u = 0; u < MBA__UNROLL && sum; u++)
            s[u] += vf_load(next.x + i + u * L) * w[u] * vf_load(next.dy + i + u * L);
    }
    for (; i < C; i += L) {
        w[0] = vf_load_n(a->w + i, C - i);
        if (apply) mba__norm_apply(a, now, dw, w, rstd, back, 1, i, C - i);
        if (sum) s[0] += vf_load_n(next.x + i, C - i) * w[0] * vf_load_n(next.dy + i, C - i);
    }
    return mba__sum4(s);
}

MBA_SIMD mba__norm_grad mba__norm_grad_at(const mba__norm_grad_args *a, int64_t r)
{
    return (mba__norm_grad){ .dy = mba__row(a->dy, r),
                             .ds = mba__row(a->ds, r),
                             .x = mba__row(a->x, r),
                             .dx = mba__row(a->dx, r),
                             .dm = mba__row(a->dm, r) };
}

/* Backward for a range of rows. With h = x rstd and c = mean(h w dy): dx = ds + rstd (w dy - h c), dw += dy h. Factors
 * that are common to a row are multiplied first, which leaves six operations per element. */
MBA_SIMD void mba__norm_grad_part(const mba__norm_grad_args *a, float *dw, int64_t from, int64_t end)
{
    const int64_t  C = a->x.cols;
    mba__norm_grad now = mba__norm_grad_at(a, from), next;
    float          dot = mba__norm_grads(a, false, now, NULL, 0, 0, true, now);
    memset(dw, 0, sizeof(float) * (size_t)C);
    for (int64_t r = from; r < end; r++, now = next) {
        const float k = a->rstd[r], back = dot / (float)C * k * k * k;
        next = r + 1 < end ? mba__norm_grad_at(a, r + 1) : now;
        if (r + 1 < end) dot = mba__norm_grads(a, true, now, dw, k, back, true, next);
        else mba__norm_grads(a, true, now, dw, k, back, false, now);
    }
}

#endif
