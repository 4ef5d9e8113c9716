// SPDX-License-Identifier: Apache-2.0
/* lamb_cpu.c -- lamb on the CPU: blocks of one tensor each, in parallel. The first pass computes the moments and the
 * squared norms of parameters and update. The second pass updates the parameters with the norms of whole tensors; it
 * recomputes the update from the moments. */
#include <math.h>

#include "device/cpu/simd.h"
#include "ops/lamb/lamb_slots.h"

enum { UNROLL = 4 };

/* Factors of the update; the divisions by 1 - beta^t are done once, outside the loops. */
typedef struct factors {
    float clip, b1, c1, b2, c2, unbias, root, eps, decay, lr;
} factors;

static factors in_float(const lamb_attr *a, const lamb_factors *f)
{
    return (factors){ .clip = (float)f->clip,
                      .b1 = (float)a->o.beta1,
                      .c1 = (float)(1 - a->o.beta1),
                      .b2 = (float)a->o.beta2,
                      .c2 = (float)(1 - a->o.beta2),
                      .unbias = (float)f->unbias1,
                      .root = (float)sqrt(f->unbias2),
                      .eps = (float)a->o.eps,
                      .decay = (float)a->o.decay,
                      .lr = (float)f->lr };
}

MBA_SIMD vf direction(vf p, vf m, vf v, const factors *f)
{
    return f->unbias * m / (vf_sqrt(v) * f->root + f->eps) + f->decay * p;
}

/* Updates `vectors` vectors, or n values of one. All loads come before the stores, as in ops/adamw. */
MBA_SIMD void moments(vf pp[], vf uu[], const float *p, const float *grad, float *m, float *v, const factors *f,
                      int vectors, int64_t n)
{
    vf m1[UNROLL], v1[UNROLL];
    for (int j = 0; j < vectors; j++) {
        const vf g = vf_load_n(grad + j * MBA_LANES, n) * f->clip;
        m1[j] = f->b1 * vf_load_n(m + j * MBA_LANES, n) + f->c1 * g;
        v1[j] = f->b2 * vf_load_n(v + j * MBA_LANES, n) + f->c2 * g * g;
    }
    for (int j = 0; j < vectors; j++) {
        const vf x = vf_load_n(p + j * MBA_LANES, n), u = direction(x, m1[j], v1[j], f);
        pp[j] += x * x;
        uu[j] += u * u;
    }
    for (int j = 0; j < vectors; j++) vf_store_n(m + j * MBA_LANES, m1[j], n);
    for (int j = 0; j < vectors; j++) vf_store_n(v + j * MBA_LANES, v1[j], n);
}

static void moments_block(lamb_block *b, const float *p, const float *g, float *m, float *v, const factors *f)
{
    vf      pp[UNROLL] = { { 0 } }, uu[UNROLL] = { { 0 } };
    int64_t i = b->from, end = b->from + b->count;
    for (; i + UNROLL * MBA_LANES <= end; i += UNROLL * MBA_LANES)
        moments(pp, uu, p + i, g + i, m + i, v + i, f, UNROLL, MBA_LANES);
    for (; i < end; i += MBA_LANES) moments(pp, uu, p + i, g + i, m + i, v + i, f, 1, end - i);
    b->pp = (double)vf_sum((pp[0] + pp[1]) + (pp[2] + pp[3]));
    b->uu = (double)vf_sum((uu[0] + uu[1]) + (uu[2] + uu[3]));
}

static void move_block(const lamb_block *b, float *p, const float *m, const float *v, float rate, const factors *f)
{
    for (int64_t i = b->from, end = b->from + b->count; i < end; i += MBA_LANES) {
        const vf x = vf_load_n(p + i, end - i);
        vf_store_n(p + i, x - rate * direction(x, vf_load_n(m + i, end - i), vf_load_n(v + i, end - i), f), end - i);
    }
}

static int64_t cut(lamb_block *b, const mba_tensor *p)
{
    int64_t n = 0;
    for (int64_t k = 0; k < lamb_tensors(p); k++)
        for (int64_t from = lamb_start(p, k), end = lamb_start(p, k + 1); from < end; from += LAMB_BLOCK) {
            const int64_t count = from + LAMB_BLOCK < end ? LAMB_BLOCK : end - from;
            b[n++] = (lamb_block){ .from = from, .count = count, .tensor = k };
        }
    return n;
}

/* Computes |p| / |u| of each tensor, adding its blocks in order; 1 if either is 0, or if no update is scaled. */
static void stretches(float *by, const lamb_block *b, int64_t blocks, int64_t tensors, bool any)
{
    for (int64_t k = 0, i = 0; k < tensors; k++) {
        double pp = 0, uu = 0;
        for (; i < blocks && b[i].tensor == k; i++) {
            pp += b[i].pp;
            uu += b[i].uu;
        }
        by[k] = any && pp > 0 && uu > 0 ? (float)sqrt(pp / uu) : 1;
    }
}

mba_status MBA_CPU_FN(lamb_fwd)(const mba_call *c)
{
    const lamb_attr   *a = c->node->attr;
    const float       *norm = c->in[NORM];
    const lamb_factors f = lamb_factors_of(a, c->step, norm[0], norm[1] != 0);
    const factors      k = in_float(a, &f);
    lamb_block        *b = mba__scratch(c, 0);
    float             *by = mba__scratch(c, 1), *p = c->out[PO], *g = c->out[GO], *m = c->out[MO], *v = c->out[VO];
    const int64_t      blocks = cut(b, c->node->in[P]);
    MBA_PARALLEL_FOR(i, blocks)
    {
        if (!f.skip) moments_block(&b[i], p, g, m, v, &k);
        if (a->zero) memset(g + b[i].from, 0, sizeof(float) * (size_t)b[i].count);
    }
    if (f.skip) return MBA_OK;
    stretches(by, b, blocks, lamb_tensors(c->node->in[P]), a->o.decay > 0);
    MBA_PARALLEL_FOR(i, blocks) move_block(&b[i], p, m, v, k.lr * by[b[i].tensor], &k);
    return MBA_OK;
}
