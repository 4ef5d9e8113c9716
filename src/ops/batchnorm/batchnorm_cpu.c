/* batchnorm_cpu.c -- parts of 64 rows in parallel; sums over the parts in order, in double.
 *
 * A part stays in the cache, so its squares are taken around its own mean in a second pass over it; the parts are then
 * merged exactly: M2 = sum of M2_p + n_p (mean_p - mean)^2. Sums go over four rows at a time, which are four streams in
 * memory and one addition into the running sums. y may lie in the memory of x and dx in that of dy. */
#include "ops/batchnorm/batchnorm_slots.h"

enum { ROWS = 4, BLOCK = 64 };                    /* rows at a time; channels of a work item of the merge */

static void add_rows(float *sum, const float *const x[ROWS], int64_t C)
{
    MBA_SIMD_LOOP
    for (int64_t i = 0; i < C; i++) sum[i] += (x[0][i] + x[1][i]) + (x[2][i] + x[3][i]);
}

static void add_row(float *sum, const float *x, int64_t C)
{
    MBA_SIMD_LOOP
    for (int64_t i = 0; i < C; i++) sum[i] += x[i];
}

static void add_squares(float *sum, const float *x, const float *mean, int64_t C)
{
    MBA_SIMD_LOOP
    for (int64_t i = 0; i < C; i++) sum[i] += (x[i] - mean[i]) * (x[i] - mean[i]);
}

static void add_squares4(float *sum, const float *const x[ROWS], const float *mean, int64_t C)
{
    MBA_SIMD_LOOP
    for (int64_t i = 0; i < C; i++) {
        const float a = x[0][i] - mean[i], b = x[1][i] - mean[i], c = x[2][i] - mean[i], d = x[3][i] - mean[i];
        sum[i] += (a * a + b * b) + (c * c + d * d);
    }
}

static void part_stats(float *mean, float *squares, mba__rows x, int64_t from, int64_t end)
{
    const int64_t C = x.cols;
    const float   share = 1 / (float)(end - from);
    memset(mean, 0, sizeof(float) * (size_t)C);
    memset(squares, 0, sizeof(float) * (size_t)C);
    int64_t r = from;
    for (; r + ROWS <= end; r += ROWS)
        add_rows(mean, (const float *const[]){ mba__row(x, r), mba__row(x, r + 1), mba__row(x, r + 2), mba__row(x, r + 3) }, C);
    for (; r < end; r++) add_row(mean, mba__row(x, r), C);
    MBA_SIMD_LOOP
    for (int64_t i = 0; i < C; i++) mean[i] *= share;
    for (r = from; r + ROWS <= end; r += ROWS)
        add_squares4(squares, (const float *const[]){ mba__row(x, r), mba__row(x, r + 1), mba__row(x, r + 2),
                                                      mba__row(x, r + 3) }, mean, C);
    for (; r < end; r++) add_squares(squares, mba__row(x, r), mean, C);
}

typedef struct merge { const float *mean, *squares; float *out_mean, *out_var, *run_mean, *run_var; double k; } merge;

/* Channels from .. end of all parts of M rows. */
static void merge_stats(merge s, int64_t from, int64_t end, int64_t M, int64_t C)
{
    double        mean[BLOCK] = { 0 }, m2[BLOCK] = { 0 };
    const int64_t parts = mba__parts(M), n = end - from;
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
        s.out_var[j]  = (float)(m2[i] / (double)M);
        s.run_mean[j] = (float)((1 - s.k) * (double)s.run_mean[j] + s.k * mean[i]);
        s.run_var[j]  = (float)((1 - s.k) * (double)s.run_var[j] + s.k * m2[i] / (double)(M > 1 ? M - 1 : 1));
    }
}

mba_status MBA_CPU_FN(batchnorm_stats)(const mba_call *c)
{
    const mba_node *n = c->node;
    const mba__rows x = mba__rows_of(n->in[SX], c->in[SX]);
    const int64_t   C = x.cols, M = mba__real_rows(n->in[SX], c->step);
    float          *mean = mba__scratch(c, 0), *squares = mba__scratch(c, 1);
    const merge     s = { mean, squares, c->out[SMEAN], c->out[SVAR], c->out[RMEANO], c->out[RVARO],
                          ((const batchnorm_stats_attr *)n->attr)->momentum };
    MBA_PARALLEL_FOR(p, mba__parts(M)) part_stats(mean + p * C, squares + p * C, x, p * MBA__PART_ROWS, mba__part_end(p, M));
    MBA_PARALLEL_FOR(b, mba_ceil(C, BLOCK)) merge_stats(s, b * BLOCK, (b + 1) * BLOCK < C ? (b + 1) * BLOCK : C, M, C);
    return MBA_OK;
}

/* What a channel is multiplied by: w / sqrt(var + eps). */
static void factors(float *scale, const float *w, const float *var, double eps, int64_t C)
{
    for (int64_t i = 0; i < C; i++) scale[i] = w[i] / __builtin_sqrtf(var[i] + (float)eps);
}

mba_status MBA_CPU_FN(batchnorm_fwd)(const mba_call *c)
{
    const mba_node       *n = c->node;
    const batchnorm_attr *a = n->attr;
    const mba__rows       vx = mba__rows_of(n->in[X], c->in[X]), vy = mba__rows_of(n->out[Y], c->out[Y]);
    const int64_t         R = mba_rows(n->in[X]), C = vx.cols, M = mba__real_rows(n->in[X], c->step);
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

/* What flows through the ReLU: the forward's own comparison, from the same numbers. */
static inline __attribute__((always_inline)) float through(float dy, float y, bool relu) { return relu && !(y > 0) ? 0 : dy; }

static inline __attribute__((always_inline)) void sum_part(const grads *g, float *dw, float *db, int64_t from, int64_t end, bool relu)
{
    const int64_t C = g->x.cols;
    memset(dw, 0, sizeof(float) * (size_t)C);
    memset(db, 0, sizeof(float) * (size_t)C);
    for (int64_t r = from; r < end; r++) {
        const float *x = mba__row(g->x, r), *dy = mba__row(g->dy, r);
        MBA_SIMD_LOOP
        for (int64_t i = 0; i < C; i++) {
            const float e = x[i] - g->mean[i], d = through(dy[i], e * g->scale[i] + g->b[i], relu);
            dw[i] += d * e;
            db[i] += d;
        }
    }
}

static inline __attribute__((always_inline)) void apply_row(const grads *g, int64_t r, bool relu, bool adds)
{
    const float *x = mba__row(g->x, r), *dy = mba__row(g->dy, r);
    float       *dx = mba__row(g->dx, r);
    MBA_SIMD_LOOP
    for (int64_t i = 0; i < g->x.cols; i++) {
        const float e = x[i] - g->mean[i], through_relu = through(dy[i], e * g->scale[i] + g->b[i], relu);
        const float d = g->scale[i] * through_relu - (g->c1[i] + e * g->c2[i]);
        dx[i] = adds ? dx[i] + d : d;
    }
}

static void apply(const grads *g, int64_t r)
{
    if (g->relu)      apply_row(g, r, true, g->adds);
    else if (g->adds) apply_row(g, r, false, true);
    else              apply_row(g, r, false, false);
}

static double sum_of(const float *part, int64_t parts, int64_t C)
{
    double s = 0;
    for (int64_t p = 0; p < parts; p++) s += (double)part[p * C];
    return s;
}

/* Sums over the parts; dw and db are done, and what dx owes to mean and variance is ready in c1 and c2. */
static void finish_sums(const mba_call *c, const float *dw, const float *db, const float *scale, float *c1, float *c2, int64_t M)
{
    const batchnorm_attr *a = c->node->attr;
    const int64_t         C = mba_cols(c->node->in[XB]), parts = mba__parts(M);
    const float          *var = c->in[VARB];
    float                *gw = c->out[DW], *gb = c->out[DB];
    MBA_PARALLEL_FOR(i, C) {
        const double rstd = 1 / __builtin_sqrt((double)var[i] + a->eps);
        const double sw = sum_of(dw + i, parts, C) * rstd, sb = sum_of(db + i, parts, C), share = (double)a->train / (double)M;
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
    const int64_t R = mba_rows(n->in[XB]), C = mba_cols(n->in[XB]), M = mba__real_rows(n->in[XB], c->step);
    float        *dw = mba__scratch(c, 0), *db = mba__scratch(c, 1), *scale = mba__scratch(c, 2);
    const grads   g = { .dy = mba__rows_of(n->in[DY], c->in[DY]), .x = mba__rows_of(n->in[XB], c->in[XB]),
                        .dx = mba__rows_of(n->out[DX], c->out[DX]), .mean = c->in[MEANB], .scale = scale, .b = c->in[BB],
                        .c1 = scale + C, .c2 = scale + 2 * C, .relu = a->relu, .adds = mba_adds(n, DX) };
    factors(scale, c->in[WB], c->in[VARB], a->eps, C);
    MBA_PARALLEL_FOR(p, mba__parts(M)) {
        const int64_t from = p * MBA__PART_ROWS, end = mba__part_end(p, M);
        if (a->relu) sum_part(&g, dw + p * C, db + p * C, from, end, true);
        else         sum_part(&g, dw + p * C, db + p * C, from, end, false);
    }
    finish_sums(c, dw, db, scale, scale + C, scale + 2 * C, M);
    MBA_PARALLEL_FOR(p, mba__parts(R))
        for (int64_t r = p * MBA__PART_ROWS; r < mba__part_end(p, R); r++) {
            if (r < M)        apply(&g, r);
            else if (!g.adds) memset(mba__row(g.dx, r), 0, sizeof(float) * (size_t)C);
        }
    return MBA_OK;
}
