/* adamw_cpu.c -- one pass over parameters, gradients and moments, in blocks. */
#include <math.h>
#include <string.h>

#include "device/cpu/simd.h"
#include "ops/adamw/adamw_slots.h"

enum { BLOCK = 16384 };                           // values per work item: 64 KB of each operand

/* The same update with the divisions by 1 - beta^t taken out of the loop. */
typedef struct factors { float clip, b1, c1, b2, c2, rate, root, eps, shrink; } factors;

static factors in_float(const adamw_attr *a, const adamw_factors *f)
{
    return (factors){ .clip = (float)f->clip, .b1 = (float)a->o.beta1, .c1 = (float)(1 - a->o.beta1),
                      .b2 = (float)a->o.beta2, .c2 = (float)(1 - a->o.beta2), .rate = (float)(f->lr * f->unbias1),
                      .root = (float)sqrt(f->unbias2), .eps = (float)a->o.eps, .shrink = (float)(f->lr * a->o.decay) };
}

static void update(float *p, const float *grad, float *m, float *v, int64_t n, factors f)
{
    for (int64_t i = 0; i < n; i += MBA_LANES) {
        const int64_t left = n - i;
        const vf g  = vf_load_n(grad + i, left) * f.clip, at = vf_load_n(p + i, left);
        const vf m1 = f.b1 * vf_load_n(m + i, left) + f.c1 * g;
        const vf v1 = f.b2 * vf_load_n(v + i, left) + f.c2 * g * g;
        vf_store_n(m + i, m1, left);
        vf_store_n(v + i, v1, left);
        vf_store_n(p + i, at - (f.rate * m1 / (vf_sqrt(v1) * f.root + f.eps) + f.shrink * at), left);
    }
}

mba_status MBA_CPU_FN(adamw_fwd)(const mba_call *c)
{
    const adamw_attr   *a = c->node->attr;
    const adamw_factors f = adamw_factors_of(a, c->step, *(const float *)c->in[NORM]);
    const factors       k = in_float(a, &f);
    const int64_t       elems = mba_elems(c->node->in[P]);
    float              *p = c->out[PO], *g = c->out[GO], *m = c->out[MO], *v = c->out[VO];
    MBA_PARALLEL_FOR(b, mba_ceil(elems, BLOCK)) {
        const int64_t i = b * BLOCK, n = i + BLOCK < elems ? BLOCK : elems - i;
        if (!f.skip) update(p + i, g + i, m + i, v + i, n, k);
        if (a->zero) memset(g + i, 0, sizeof(float) * (size_t)n);
    }
    return MBA_OK;
}
