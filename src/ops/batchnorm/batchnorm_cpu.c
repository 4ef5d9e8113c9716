// SPDX-License-Identifier: Apache-2.0
/* batchnorm_cpu.c -- batchnorm on the CPU: parts of 64 rows in parallel, then sums over the parts in order, in double.
 *
 * A part is summed strip by strip: four vectors of channels over all its rows, with the sums in registers. The part
 * stays in the cache, so a second pass sums the squares around the part's own mean. Parts are merged exactly:
 * M2 = sum of M2_p + n_p (mean_p - mean)^2. y may share memory with x, and dx with dy. */
#include <math.h>

#include "device/cpu/simd.h"
#include "ops/batchnorm/batchnorm_slots.h"

enum { STRIP = 4, BLOCK = 64 }; /* vectors per strip; channels per work item of the merge */

/* Mean and sum of squares of rows from .. end, for a strip of `vectors` vectors at channel i, or for n channels. */
MBA_SIMD void strip_stats(float *mean, float *squares, mba__rows x, int64_t from, int64_t end, int vectors, int64_t i,
                          int64_t n)
{
    const float share = 1 / (float)(end - from);
    vf          m[STRIP] = { { 0 } }, s[STRIP] = { { 0 } };
    for (int64_t r = from; r < end; r++) {
        const float *v = mba__row(x, r) + i;
        for (int u = 0; u < vectors; u++) m[u] += vf_load_n(v + u * MBA_LANES, n);
    }
    for (int u = 0; u < vectors; u++) m[u] *= share;
    for (int64_t r = from; r < end; r++) {
        const float *v = mba__row(x, r) + i;
        for (int u = 0; u < vectors; u++) {
            const vf d = vf_load_n(v + u * MBA_LANES, n) - m[u];
            s[u] += d * d;
        }
    }
    for (int u = 0; u < vectors; u++) vf_store_n(mean + i + u * MBA_LANES, m[u], n);
    for (int u = 0; u < vectors; u++) vf_store_n(squares + i + u * MBA_LANES, s[u], n);
}

static void part_stats(float *mean, float *squares, mba__rows x, int64_t p, int64_t M)
{
    const int64_t C = x.cols, from = p * MBA__PART_ROWS, end = mba__part_end(p, M);
    int64_t       i = 0;
    for (; i + STRIP * MBA_LANES <= C; i += STRIP * MBA_LANES)
        strip_stats(mean, squares, x, from, end, STRIP, i, MBA_LANES);
    for (; i + MBA_LANES <= C; i += MBA_LANES) strip_stats(mean, squares, x, from, end, 1, i, MBA_LANES);
    if (i < C) strip_stats(mean, squares, x, from, end, 1, i, C - i);
}

typedef struct merge {
    const float *mean, *squares;
    float       *out_mean, *out_var, *run_mean, *run_var;
    double       k;
} merge;

/* Merges the statistics of all parts of M rows, for channels from .. end. */
static void merge_stats(merge s, int64_t from, int64_t end, int64_t M, int64_t C)
{
    double        mean[BLOCK] = { 0 }, m2[BLOCK] = { 0 };
    const int64_t parts = mba__parts(M), n = end - from;
    if (!M) { // nothing to normalise: the running statistics do not change
        memset(s.out_mean + from, 0, sizeof(float) * (size_t)n);
        memset(s.out_var + from, 0, sizeof(float) * (size_t)n);
        return;
    }
    for (int64_t p = 0; p < parts; p++) {
        const double rows = (double)(mba__part_end(p, M) - p * MBA__PART_ROWS);
        for (int64_t i = 0; i < n; i++) mean[i] += rows * (double)s.mean[p * C + from + i];
    }
    for (int64_t i = 0; i < n; i++) mean[i] /= (double)M;
    for (int64_t p = 0; p < parts; p++) {
        const double rows = (double)(mba__part_end(p, M) - p * MBA__PART_ROWS);
        for (int64_t i = 0; i < n; i++) {
            const double d = (double)s.mean[p * C + from + i] - mean[i];
            m2[i] += (double)s.squares[p * C + from + i] + rows * d * d;
        }
    }
    for (int64_t i = 0; i < n; i++) {
        const int64_t j = from + i;
        s.out_mean[j] = (float)mean[i];
        s.out_var[j] = (float)(m2[i] / (double)M);
        if (!isfinite(s.out_mean[j]) || !isfinite(s.out_var[j])) continue;
        s.run_mean[j] = (float)((1 - s.k) * (double)s.run_mean[j] + s.k * mean[i]);
        s.run_var[j] = (float)((1 - s.k) * (double)s.run_var[j] + s.k * m2[i] / (double)(M > 1 ? M - 1 : 1));
    }
}

mba_status MBA_CPU_FN(batchnorm_stats)(const mba_call *c)
{
    const mba_node *n = c->node;
    const mba__rows x = mba__rows_of(n->in[SX], c->in[SX]);
    const int64_t   C = x.cols, M = mba__valid_rows(n->in[SX], c->step);
    float          *mean = mba__scratch(c, 0), *squares = mba__scratch(c, 1);
    const merge     s = { mean,
                          squares,
                          c->out[SMEAN],
                          c->out[SVAR],
                          c->out[RMEANO],
                          c->out[RVARO],
                          ((const batchnorm_stats_attr *)n->attr)->momentum };
    MBA_PARALLEL_FOR(p, mba__parts(M)) part_stats(mean + p * C, squares + p * C, x, p, M);
    MBA_PARALLEL_FOR(b, mba_ceil(C, BLOCK)) merge_stats(s, b * BLOCK, (b + 1) * BLOCK < C ? (b + 1) * BLOCK : C, M, C);
    return MBA_OK;
}

/* The factor of each channel: w / sqrt(var + eps). */
static void factors(float *scale, const float *w, const float *var, double eps, int64_t C)
{
    for (int64_t i = 0; i < C; i++) scale[i] = w[i] / __builtin_sqrtf(var[i] + (float)eps);
}

mba_status MBA_CPU_FN(batchnorm_fwd)(const mba_call *c)
{
    const mba_node       *n = c->node;
    const batchnorm_attr *a = n->attr;
    const mba__rows       vx = mba__rows_of(n->in[X], c->in[X]), vy = mba__rows_of(n->out[Y], c->out[Y]);
    const int64_t         R = mba_rows(n->in[X]), C = vx.cols, M = mba__valid_rows(n->in[X], c->step);
    const float          *mean = c->in[MEAN], *b = c->in[B], least = a->relu ? 0 : -__builtin_inff();
    float                *scale = mba__scratch(c, 0);
    factors(scale, c->in[W], c->in[VAR], a->eps, C);
    MBA_PARALLEL_FOR(p, mba__parts(R))
    for (int64_t r = p * MBA__PART_ROWS; r < mba__part_end(p, R); r++) {
        const float *x = mba__row(vx, r);
        float       *y = mba__row(vy, r);
        if (r >= M) {
            memset(y, 0, sizeof(float) * (size_t)C);
            continue;
        }
        MBA_SIMD_LOOP
        for (int64_t i = 0; i < C; i++) {
            const float v = (x[i] - mean[i]) * scale[i] + b[i];
            y[i] = v < least ? least : v;
        }
    }
    return MBA_OK;
}

typedef struct grads {
    mba__rows    dy, x, dx;
    const float *mean, *scale, *b, *c1, *c2;
    bool         relu, adds;
} grads;

/* dy where the ReLU passes it: the same comparison of the same numbers as in the forward pass. A select, without
 * branches. */
MBA_SIMD vf through(vf dy, vf d, vf scale, vf b, bool relu)
{
    return relu ? vf_select(d * scale + b > 0.0f, dy, vf_set(0)) : dy;
}

/* Sums of dy and of dy (x - mean) over a part. dw is not yet multiplied by rstd. */
MBA_SIMD void strip_sums(const grads *g, float *dw, float *db, int64_t from, int64_t end, bool relu, int vectors,
                         int64_t i, int64_t n)
{
    vf sw[STRIP] = { { 0 } }, sb[STRIP] = { { 0 } }, mean[STRIP], scale[STRIP], b[STRIP];
    for (int u = 0; u < vectors; u++) {
        mean[u] = vf_load_n(g->mean + i + u * MBA_LANES, n);
        scale[u] = vf_load_n(g->scale + i + u * MBA_LANES, n);
        b[u] = vf_load_n(g->b + i + u * MBA_LANES, n);
    }
    for (int64_t r = from; r < end; r++) {
        const float *x = mba__row(g->x, r) + i, *dy = mba__row(g->dy, r) + i;
        for (int u = 0; u < vectors; u++) {
            const vf d = vf_load_n(x + u * MBA_LANES, n) - mean[u];
            const vf t = through(vf_load_n(dy + u * MBA_LANES, n), d, scale[u], b[u], relu);
            sw[u] += t * d;
            sb[u] += t;
        }
    }
    for (int u = 0; u < vectors; u++) vf_store_n(dw + i + u * MBA_LANES, sw[u], n);
    for (int u = 0; u < vectors; u++) vf_store_n(db + i + u * MBA_LANES, sb[u], n);
}

MBA_SIMD void sum_part(const grads *g, float *dw, float *db, int64_t p, int64_t M, bool relu)
{
    const int64_t C = g->x.cols, from = p * MBA__PART_ROWS, end = mba__part_end(p, M);
    int64_t       i = 0;
    for (; i + STRIP * MBA_LANES <= C; i += STRIP * MBA_LANES)
        strip_sums(g, dw, db, from, end, relu, STRIP, i, MBA_LANES);
    for (; i < C; i += MBA_LANES) strip_sums(g, dw, db, from, end, relu, 1, i, C - i);
}

/* dx = scale dy - c1 - (x - mean) c2 */
MBA_SIMD void apply_vector(const grads *g, float *dx, const float *x, const float *dy, bool relu, bool adds, int64_t i,
                           int64_t n)
{
    const vf d = vf_load_n(x + i, n) - vf_load_n(g->mean + i, n), scale = vf_load_n(g->scale + i, n);
    const vf t = through(vf_load_n(dy + i, n), d, scale, vf_load_n(g->b + i, n), relu);
    const vf v = scale * t - (vf_load_n(g->c1 + i, n) + d * vf_load_n(g->c2 + i, n));
    vf_store_n(dx + i, adds ? vf_load_n(dx + i, n) + v : v, n);
}

MBA_SIMD void apply_row(const grads *g, int64_t r, bool relu, bool adds)
{
    const float  *x = mba__row(g->x, r), *dy = mba__row(g->dy, r);
    float        *dx = mba__row(g->dx, r);
    const grads   now = *g; // a local copy: dx cannot alias it
    const int64_t C = now.x.cols;
    int64_t       i = 0;
    for (; i + MBA_LANES <= C; i += MBA_LANES) apply_vector(&now, dx, x, dy, relu, adds, i, MBA_LANES);
    if (i < C) apply_vector(&now, dx, x, dy, relu, adds, i, C - i);
}

static void apply(const grads *g, int64_t r)
{
    if (g->relu) apply_row(g, r, true, g->adds);
    else if (g->adds) apply_row(g, r, false, true);
    else apply_row(g, r, false, false);
}

static double sum_of(const float *part, int64_t parts, int64_t C)
{
    double s = 0;
    for (int64_t p = 0; p < parts; p++) s += (double)part[p * C];
    return s;
}

/* Adds up the parts: completes dw and db, and stores in c1 and c2 what dx needs for mean and variance. */
static void finish_sums(const mba_call *c, const float *scale, float *c1, float *c2, int64_t M)
{
    const batchnorm_attr *a = c->node->attr;
    const int64_t         C = mba_cols(c->node->in[XB]), parts = mba__parts(M);
    const float          *var = c->in[VARB], *dw = mba__scratch(c, 0), *db = mba__scratch(c, 1);
    float                *gw = c->out[DW], *gb = c->out[DB];
    const double          share = M ? (double)a->train / (double)M : 0;
    MBA_PARALLEL_FOR(i, C)
    {
        const double rstd = 1 / __builtin_sqrt((double)var[i] + a->eps);
        const double sw = sum_of(dw + i, parts, C) * rstd, sb = sum_of(db + i, parts, C);
        gw[i] = (float)sw + (mba_adds(c->node, DW) ? gw[i] : 0);
        gb[i] = (float)sb + (mba_adds(c->node, DB) ? gb[i] : 0);
        c1[i] = (float)((double)scale[i] * sb * share);
        c2[i] = (float)((double)scale[i] * rstd * sw * share);
    }
}

mba_status MBA_CPU_FN(batchnorm_bwd)(const mba_call *c)
{
    const mba_node       *n = c->node;
    const batchnorm_attr *a = n->attr;
    const int64_t         R = mba_rows(n->in[XB]), C = mba_cols(n->in[XB]), M = mba__valid_rows(n->in[XB], c->step);
    float                *dw = mba__scratch(c, 0), *db = mba__scratch(c, 1), *scale = mba__scratch(c, 2);
    const grads           g = { .dy = mba__rows_of(n->in[DY], c->in[DY]),
                                .x = mba__rows_of(n->in[XB], c->in[XB]),
                                .dx = mba__rows_of(n->out[DX], c->out[DX]),
                                .mean = c->in[MEANB],
                                .b = c->in[BB],
                                .scale = scale,
                                .c1 = scale + C,
                                .c2 = scale + 2 * C,
                                .relu = a->relu,
                                .adds = mba_adds(n, DX) };
    factors(scale, c->in[WB], c->in[VARB], a->eps, C);
    MBA_PARALLEL_FOR(p, mba__parts(M))
    {
        if (a->relu) sum_part(&g, dw + p * C, db + p * C, p, M, true);
        else sum_part(&g, dw + p * C, db + p * C, p, M, false);
    }
    finish_sums(c, scale, scale + C, scale + 2 * C, M);
    MBA_PARALLEL_FOR(p, mba__parts(R))
    for (int64_t r = p * MBA__PART_ROWS; r < mba__part_end(p, R); r++) {
        if (r < M) apply(&g, r);
        else if (!g.adds) memset(mba__row(g.dx, r), 0, sizeof(float) * (size_t)C);
    }
    return MBA_OK;
}
