// SPDX-License-Identifier: Apache-2.0
/* rownorm_cpu.c -- rownorm on the CPU: rows in parallel; y may share the memory of x, and dx that of dy. */
#include "device/cpu/simd.h"
#include "ops/rownorm/rownorm_slots.h"

MBA_SIMD float dot(const float *a, const float *b, int64_t n)
{
    const int64_t L = MBA_LANES;
    vf            s[4] = { { 0 } };
    int64_t       i = 0;
    for (; i + 4 * L <= n; i += 4 * L)
        for (int u = 0; u < 4; u++) s[u] += vf_load(a + i + u * L) * vf_load(b + i + u * L);
    for (; i < n; i += L) s[0] += vf_load_n(a + i, n - i) * vf_load_n(b + i, n - i);
    return vf_sum((s[0] + s[1]) + (s[2] + s[3]));
}

mba_status MBA_CPU_FN(rownorm_fwd)(const mba_call *c)
{
    const mba__rows x = mba__rows_of(c->node->in[X], c->in[X]), y = mba__rows_of(c->node->out[Y], c->out[Y]);
    float          *length = c->out[LENGTH];
    MBA_PARALLEL_FOR(r, mba_rows(c->node->in[X]))
    {
        const float *from = mba__row(x, r);
        float       *to = mba__row(y, r), l = __builtin_sqrtf(dot(from, from, x.cols));
        if (l < (float)ROWNORM_FLOOR) l = (float)ROWNORM_FLOOR; // NaN is not replaced
        length[r] = l;
        MBA_SIMD_LOOP
        for (int64_t i = 0; i < x.cols; i++) to[i] = from[i] / l;
    }
    return MBA_OK;
}

mba_status MBA_CPU_FN(rownorm_bwd)(const mba_call *c)
{
    const mba_node *n = c->node;
    const mba__rows dy = mba__rows_of(n->in[DY], c->in[DY]), y = mba__rows_of(n->in[YB], c->in[YB]);
    const mba__rows dx = mba__rows_of(n->out[DX], c->out[DX]);
    const float    *length = c->in[LENGTHB];
    const bool      adds = mba_adds(n, DX);
    MBA_PARALLEL_FOR(r, mba_rows(n->in[DY]))
    {
        const float *g = mba__row(dy, r), *v = mba__row(y, r);
        const float  k = 1 / length[r], d = length[r] <= (float)ROWNORM_FLOOR ? 0 : dot(g, v, y.cols);
        float       *to = mba__row(dx, r);
        if (adds) {
            MBA_SIMD_LOOP
            for (int64_t i = 0; i < y.cols; i++) to[i] += (g[i] - v[i] * d) * k;
        } else {
            MBA_SIMD_LOOP
            for (int64_t i = 0; i < y.cols; i++) to[i] = (g[i] - v[i] * d) * k;
        }
    }
    return MBA_OK;
}
