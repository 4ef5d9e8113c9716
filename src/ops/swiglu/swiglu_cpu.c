// SPDX-License-Identifier: Apache-2.0
/* swiglu_cpu.c -- swiglu on the CPU: rows in parallel. y may share the memory of value, dvalue that of dy, and dgate
 * that of gate: every vector is read before it is overwritten. */
#include "device/cpu/simd.h"
#include "ops/swiglu/swiglu_slots.h"

enum { GROUP = 4 }; /* independent vectors per iteration, written as whole cache lines */

MBA_SIMD void forward(float *y, const float *value, const float *gate, int vectors, int64_t n)
{
    vf a[GROUP];
    for (int u = 0; u < vectors; u++)
        a[u] = vf_load_n(value + u * MBA_LANES, n) * vf_silu(vf_load_n(gate + u * MBA_LANES, n));
    for (int u = 0; u < vectors; u++) vf_store_n(y + u * MBA_LANES, a[u], n);
}

mba_status MBA_CPU_FN(swiglu_fwd)(const mba_call *c)
{
    const mba_node *n = c->node;
    const int64_t   C = mba_cols(n->in[VALUE]);
    const mba__rows value = mba__rows_of(n->in[VALUE], c->in[VALUE]), gate = mba__rows_of(n->in[GATE], c->in[GATE]);
    const mba__rows y = mba__rows_of(n->out[Y], c->out[Y]);
    MBA_PARALLEL_FOR(r, mba_rows(n->in[VALUE]))
    {
        const float *v = mba__row(value, r), *t = mba__row(gate, r);
        float       *o = mba__row(y, r);
        int64_t      i = 0;
        for (; i + GROUP * MBA_LANES <= C; i += GROUP * MBA_LANES) forward(o + i, v + i, t + i, GROUP, MBA_LANES);
        for (; i < C; i += MBA_LANES) forward(o + i, v + i, t + i, 1, C - i);
    }
    return MBA_OK;
}

typedef struct grads {
    const float *value, *gate, *dy;
    float       *dvalue, *dgate;
    bool         dvalue_adds, dgate_adds;
} grads;

MBA_SIMD void backward(const grads *g, int vectors, int64_t i, int64_t n)
{
    const int64_t L = MBA_LANES;
    vf            dv[GROUP], dt[GROUP];
    for (int u = 0; u < vectors; u++) {
        const vf dy = vf_load_n(g->dy + i + u * L, n);
        dv[u] = dy * vf_silu_and_slope(vf_load_n(g->gate + i + u * L, n), &dt[u]);
        dt[u] = dy * vf_load_n(g->value + i + u * L, n) * dt[u];
    }
    for (int u = 0; u < vectors && g->dvalue_adds; u++) dv[u] += vf_load_n(g->dvalue + i + u * L, n);
    for (int u = 0; u < vectors; u++) vf_store_n(g->dvalue + i + u * L, dv[u], n);
    for (int u = 0; u < vectors && g->dgate_adds; u++) dt[u] += vf_load_n(g->dgate + i + u * L, n); // may be dvalue
    for (int u = 0; u < vectors; u++) vf_store_n(g->dgate + i + u * L, dt[u], n);
}

mba_status MBA_CPU_FN(swiglu_bwd)(const mba_call *c)
{
    const mba_node *n = c->node;
    const int64_t   C = mba_cols(n->in[VALUE]);
    const mba__rows value = mba__rows_of(n->in[VALUE], c->in[VALUE]), gate = mba__rows_of(n->in[GATE], c->in[GATE]);
    const mba__rows dy = mba__rows_of(n->in[DY], c->in[DY]);
    const mba__rows dvalue = mba__rows_of(n->out[DVALUE], c->out[DVALUE]);
    const mba__rows dgate = mba__rows_of(n->out[DGATE], c->out[DGATE]);
    const bool      dvalue_adds = mba_adds(n, DVALUE), dgate_adds = mba_adds(n, DGATE);
    MBA_PARALLEL_FOR(r, mba_rows(n->in[VALUE]))
    {
        const grads g = { .value = mba__row(value, r),
                          .gate = mba__row(gate, r),
                          .dy = mba__row(dy, r),
                          .dvalue = mba__row(dvalue, r),
                          .dgate = mba__row(dgate, r),
                          .dvalue_adds = dvalue_adds,
                          .dgate_adds = dgate_adds };
        int64_t     i = 0;
        for (; i + GROUP * MBA_LANES <= C; i += GROUP * MBA_LANES) backward(&g, GROUP, i, MBA_LANES);
        for (; i < C; i += MBA_LANES) backward(&g, 1, i, C - i);
    }
    return MBA_OK;
}
