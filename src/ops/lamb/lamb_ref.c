// SPDX-License-Identifier: Apache-2.0
/* lamb_ref.c -- the reference of lamb: fp64, dense arrays, plain loops. */
#include <math.h>

#include "ops/lamb/lamb_slots.h"

static double direction(const mba_ref_call *c, const lamb_factors *f, int64_t i)
{
    const mba_lamb_options *o = &((const lamb_attr *)c->node->attr)->o;
    return c->out[MO][i] * f->unbias1 / (sqrt(c->out[VO][i] * f->unbias2) + o->eps) + o->decay * c->in[P][i];
}

/* The trust ratio of a tensor: |p| / |update|. */
static double trust_ratio(const mba_ref_call *c, const lamb_factors *f, int64_t from, int64_t end)
{
    double pp = 0, uu = 0;
    for (int64_t i = from; i < end; i++) {
        pp += pow(c->in[P][i], 2);
        uu += pow(direction(c, f, i), 2);
    }
    return pp > 0 && uu > 0 ? sqrt(pp / uu) : 1;
}

void lamb_ref(const mba_ref_call *c)
{
    const lamb_attr   *a = c->node->attr;
    const mba_tensor  *p = c->node->in[P];
    const lamb_factors f = lamb_factors_of(a, c->step, c->in[NORM][0], c->in[NORM][1] != 0);
    for (int64_t i = 0; i < mba_elems(p); i++) {
        const double g = c->in[G][i] * f.clip;
        c->out[PO][i] = c->in[P][i];
        c->out[MO][i] = f.skip ? c->in[M][i] : a->o.beta1 * c->in[M][i] + (1 - a->o.beta1) * g;
        c->out[VO][i] = f.skip ? c->in[V][i] : a->o.beta2 * c->in[V][i] + (1 - a->o.beta2) * g * g;
        c->out[GO][i] = a->zero ? 0 : c->in[G][i];
    }
    for (int64_t k = 0; k < lamb_tensors(p) && !f.skip; k++) {
        const int64_t from = lamb_start(p, k), end = lamb_start(p, k + 1);
        const double  by = a->o.decay > 0 ? trust_ratio(c, &f, from, end) : 1;
        for (int64_t i = from; i < end; i++) c->out[PO][i] -= f.lr * by * direction(c, &f, i);
    }
    for (int64_t i = 0; c->out[COPYO] && i < mba_elems(p); i++) c->out[COPYO][i] = c->out[PO][i];
}
