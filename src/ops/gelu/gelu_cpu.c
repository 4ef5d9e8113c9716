// SPDX-License-Identifier: Apache-2.0
/* gelu_cpu.c -- gelu on the CPU: spans in parallel, four vectors per iteration to hide the latency of the exponential.
 * (1 + tanh(u)) / 2 is computed as the sigmoid of 2u, which keeps its digits where tanh is near -1. */
#include "device/cpu/simd.h"
#include "ops/gelu/gelu_slots.h"

enum { UNROLL = 4 };

MBA_SIMD vf inner(vf x) { return x * ((float)(2 * GELU_ROOT * GELU_CUBE) * x * x + (float)(2 * GELU_ROOT)); } // 2u

MBA_SIMD vf value(vf x, bool tanh_form)
{
    vf density;
    return x * (tanh_form ? vf_sigmoid(inner(x)) : vf_normal_cdf(x, &density));
}

MBA_SIMD vf slope(vf x, bool tanh_form)
{
    vf p;
    if (!tanh_form) {
        const vf cdf = vf_normal_cdf(x, &p);
        return cdf + x * p;
    }
    x = vf_min(vf_set(20), vf_max(vf_set(-20), x)); // beyond, the result is 0 or 1; without this x^3 could overflow
    const vf e = vf_exp(vf_min(vf_set(80), -inner(x))), s = 1.0f / (1.0f + e);
    const vf du = (float)(6 * GELU_ROOT * GELU_CUBE) * x * x + (float)(2 * GELU_ROOT);
    return s + s * s * e * (x * du); // 1 - s is s e
}

MBA_SIMD void forward(float *y, const float *x, int64_t n, bool tanh_form)
{
    int64_t i = 0;
    for (; i + UNROLL * MBA_LANES <= n; i += UNROLL * MBA_LANES) {
        vf v[UNROLL];
        for (int u = 0; u < UNROLL; u++) v[u] = value(vf_load(x + i + u * MBA_LANES), tanh_form);
        for (int u = 0; u < UNROLL; u++) vf_store(y + i + u * MBA_LANES, v[u]);
    }
    for (; i < n; i += MBA_LANES) vf_store_n(y + i, value(vf_load_n(x + i, n - i), tanh_form), n - i);
}

MBA_SIMD void backward(float *dx, const float *dy, const float *x, int64_t n, bool tanh_form, bool adds)
{
    int64_t i = 0;
    for (; i + UNROLL * MBA_LANES <= n; i += UNROLL * MBA_LANES) {
        vf d[UNROLL];
        for (int u = 0; u < UNROLL; u++) d[u] = slope(vf_load(x + i + u * MBA_LANES), tanh_form);
        for (int u = 0; u < UNROLL; u++) d[u] *= vf_load(dy + i + u * MBA_LANES);
        for (int u = 0; u < UNROLL && adds; u++) d[u] += vf_load(dx + i + u * MBA_LANES);
        for (int u = 0; u < UNROLL; u++) vf_store(dx + i + u * MBA_LANES, d[u]);
    }
    for (; i < n; i += MBA_LANES) {
        const vf d = slope(vf_load_n(x + i, n - i), tanh_form) * vf_load_n(dy + i, n - i);
        vf_store_n(dx + i, adds ? d + vf_load_n(dx + i, n - i) : d, n - i);
    }
}

mba_status MBA_CPU_FN(gelu_fwd)(const mba_call *c)
{
    const mba_node  *n = c->node;
    const mba__spans w = mba__spans_of(n);
    const bool       tanh_form = ((const gelu_attr *)n->attr)->tanh_form;
    MBA_PARALLEL_FOR(p, w.n)
    {
        const float *x = mba__span_at(n->in[X], c->in[X], w, p);
        float       *y = mba__span_at(n->out[Y], c->out[Y], w, p);
        if (tanh_form) forward(y, x, mba__span_elems(w, p), true);
        else forward(y, x, mba__span_elems(w, p), false);
    }
    return MBA_OK;
}

mba_status MBA_CPU_FN(gelu_bwd)(const mba_call *c)
{
    const mba_node  *n = c->node;
    const mba__spans w = mba__spans_of(n);
    const bool       tanh_form = ((const gelu_attr *)n->attr)->tanh_form, adds = mba_adds(n, DX);
    MBA_PARALLEL_FOR(p, w.n)
    {
        const float *dy = mba__span_at(n->in[DY], c->in[DY], w, p), *x = mba__span_at(n->in[XB], c->in[XB], w, p);
        float       *dx = mba__span_at(n->out[DX], c->out[DX], w, p);
        if (tanh_form) backward(dx, dy, x, mba__span_elems(w, p), true, adds);
        else backward(dx, dy, x, mba__span_elems(w, p), false, adds);
    }
    return MBA_OK;
}
