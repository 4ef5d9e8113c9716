// SPDX-License-Identifier: Apache-2.0
/* layernorm_cpu.c -- layernorm on the CPU: parts of rows in parallel. A row is fetched from memory once, because later
 * passes find it in L1. y may share the memory of x, and dx that of dy: every vector is read before it is
 * overwritten. */
#include "device/cpu/simd.h"
#include "ops/layernorm/layernorm_slots.h"

enum { UNROLL = 4 }; /* vectors per iteration, with independent sums */

MBA_SIMD float sum4(const vf a[UNROLL]) { return vf_sum((a[0] + a[1]) + (a[2] + a[3])); }

MBA_SIMD float row_sum(const float *x, int64_t C)
{
    vf      a[UNROLL] = { { 0 } };
    int64_t i = 0;
    for (; i + UNROLL * MBA_LANES <= C; i += UNROLL * MBA_LANES)
        for (int u = 0; u < UNROLL; u++) a[u] += vf_load(x + i + u * MBA_LANES);
    for (; i < C; i += MBA_LANES) a[0] += vf_load_n(x + i, C - i);
    return sum4(a);
}

MBA_SIMD float row_squares(const float *x, float mean, int64_t C) // sum of (x - mean)^2
{
    vf      a[UNROLL] = { { 0 } };
    int64_t i = 0;
    for (; i + UNROLL * MBA_LANES <= C; i += UNROLL * MBA_LANES)
        for (int u = 0; u < UNROLL; u++) {
            const vf d = vf_load(x + i + u * MBA_LANES) - mean;
            a[u] += d * d;
        }
    for (; i + MBA_LANES <= C; i += MBA_LANES) {
        const vf d = vf_load(x + i) - mean;
        a[0] += d * d;
    }
    float s = sum4(a);
    for (; i < C; i++) s += (x[i] - mean) * (x[i] - mean);
    return s;
}

mba_status MBA_CPU_FN(layernorm_fwd)(const mba_call *c)
{
    const mba_node *n = c->node;
    const int64_t   R = mba_rows(n->in[X]), C = mba_cols(n->in[X]);
    const mba__rows vx = mba__rows_of(n->in[X], c->in[X]), vy = mba__rows_of(n->out[Y], c->out[Y]);
    const float    *w = c->in[W], *b = c->in[B], eps = ((const layernorm_attr *)n->attr)->eps;
    float          *means = c->out[MEAN], *rstd = c->out[RSTD];
    MBA_PARALLEL_FOR(p, mba__parts(R))
    for (int64_t r = p * MBA__PART_ROWS; r < mba__part_end(p, R); r++) {
        const float *x = mba__row(vx, r);
        float       *y = mba__row(vy, r);
        const float  mean = means[r] = row_sum(x, C) / (float)C;
        const float  k = rstd[r] = 1 / __builtin_sqrtf(row_squares(x, mean, C) / (float)C + eps);
        int64_t      i = 0;
        for (; i + MBA_LANES <= C; i += MBA_LANES)
            vf_store(y + i, (vf_load(x + i) - mean) * k * vf_load(w + i) + vf_load(b + i));
        for (; i < C; i++) y[i] = (x[i] - mean) * k * w[i] + b[i];
    }
    return MBA_OK;
}

typedef struct grads {
    const float *dy, *x, *w;
    float       *dx, *dw, *db;
    float        mean, rstd;
    bool         adds;
} grads;

/* sum[0] += w dy, sum[1] += w dy (x - mean); lanes beyond the row have w = 0. */
MBA_SIMD void back_sums(float sum[2], grads g, int64_t C)
{
    vf      a[UNROLL] = { { 0 } }, b[UNROLL] = { { 0 } };
    int64_t i = 0;
    for (; i + UNROLL * MBA_LANES <= C; i += UNROLL * MBA_LANES)
        for (int u = 0; u < UNROLL; u++) {
            const int64_t j = i + u * MBA_LANES;
            const vf      t = vf_load(g.w + j) * vf_load(g.dy + j);
            a[u] += t;
            b[u] += t * (vf_load(g.x + j) - g.mean);
        }
    for (; i < C; i += MBA_LANES) {
        const vf t = vf_load_n(g.w + i, C - i) * vf_load_n(g.dy + i, C - i);
        a[0] += t;
        b[0] += t * (vf_load_n(g.x + i, C - i) - g.mean);
    }
    sum[0] = sum4(a);
    sum[1] = sum4(b);
}

/* dx = rstd (w dy - m1 - h m2) = w dy rstd - c1 - (x - mean) c2, dw += dy h, db += dy. */
MBA_SIMD void back_apply(grads g, float c1, float c2, int vectors, int64_t i, int64_t n)
{
    vf dx[UNROLL], dw[UNROLL], db[UNROLL];
    for (int u = 0; u < vectors; u++) {
        const int64_t j = i + u * MBA_LANES;
        const vf      dy = vf_load_n(g.dy + j, n), d = vf_load_n(g.x + j, n) - g.mean, t = dy * g.rstd;
        dx[u] = vf_load_n(g.w + j, n) * t - (d * c2 + c1);
        dw[u] = vf_load_n(g.dw + j, n) + d * t;
        db[u] = vf_load_n(g.db + j, n) + dy;
    }
    for (int u = 0; u < vectors; u++) vf_store_n(g.dw + i + u * MBA_LANES, dw[u], n);
    for (int u = 0; u < vectors; u++) vf_store_n(g.db + i + u * MBA_LANES, db[u], n);
    for (int u = 0; u < vectors && g.adds; u++) dx[u] += vf_load_n(g.dx + i + u * MBA_LANES, n);
    for (int u = 0; u < vectors; u++) vf_store_n(g.dx + i + u * MBA_LANES, dx[u], n);
}

static void back_row(grads g, int64_t C)
{
    float   sum[2];
    int64_t i = 0;
    back_sums(sum, g, C);
    const float c1 = sum[0] / (float)C * g.rstd, c2 = sum[1] / (float)C * g.rstd * g.rstd * g.rstd;
    for (; i + UNROLL * MBA_LANES <= C; i += UNROLL * MBA_LANES) back_apply(g, c1, c2, UNROLL, i, MBA_LANES);
    for (; i < C; i += MBA_LANES) back_apply(g, c1, c2, 1, i, C - i);
}

mba_status MBA_CPU_FN(layernorm_bwd)(const mba_call *c)
{
    const mba_node *n = c->node;
    const int64_t   R = mba_rows(n->in[XB]), C = mba_cols(n->in[XB]);
    const mba__rows dy = mba__rows_of(n->in[DY], c->in[DY]), x = mba__rows_of(n->in[XB], c->in[XB]);
    const mba__rows dx = mba__rows_of(n->out[DX], c->out[DX]);
    const float    *mean = c->in[MEANB], *rstd = c->in[RSTDB];
    float          *dw = mba__scratch(c, 0), *db = mba__scratch(c, 1);
    const bool      adds = mba_adds(n, DX);
    MBA_PARALLEL_FOR(p, mba__parts(R))
    {
        memset(dw + p * C, 0, sizeof(float) * (size_t)C);
        memset(db + p * C, 0, sizeof(float) * (size_t)C);
        for (int64_t r = p * MBA__PART_ROWS; r < mba__part_end(p, R); r++)
            back_row((grads){ .dy = mba__row(dy, r),
                              .x = mba__row(x, r),
                              .w = c->in[WB],
                              .dx = mba__row(dx, r),
                              .dw = dw + p * C,
                              .db = db + p * C,
                              .mean = mean[r],
                              .rstd = rstd[r],
                              .adds = adds },
                     C);
    }
    mba__sum_parts(c->out[DW], dw, mba__parts(R), C, mba_adds(n, DW));
    mba__sum_parts(c->out[DB], db, mba__parts(R), C, mba_adds(n, DB));
    return MBA_OK;
}
