/* swiglu_cpu.c -- rows in parallel. y may lie in the memory of value, dvalue in that of dy and dgate in that of gate:
 * every vector is read before its place is written. */
#include "device/cpu/simd.h"
#include "ops/swiglu/swiglu_slots.h"

MBA_SIMD void forward(float *y, const float *value, const float *gate, int64_t n)
{
    vf_store_n(y, vf_load_n(value, n) * vf_silu(vf_load_n(gate, n)), n);
}

mba_status MBA_CPU_FN(swiglu_fwd)(const mba_call *c)
{
    const mba_node *n     = c->node;
    const int64_t   C     = mba_cols(n->in[VALUE]);
    const mba__rows value = mba__rows_of(n->in[VALUE], c->in[VALUE]), gate = mba__rows_of(n->in[GATE], c->in[GATE]);
    const mba__rows y     = mba__rows_of(n->out[Y], c->out[Y]);
    MBA_PARALLEL_FOR(r, mba_rows(n->in[VALUE])) {
        const float *v = mba__row(value, r), *t = mba__row(gate, r);
        float       *o = mba__row(y, r);
        int64_t      i = 0;
        for (; i + MBA_LANES <= C; i += MBA_LANES) forward(o + i, v + i, t + i, MBA_LANES);
        if (i < C) forward(o + i, v + i, t + i, C - i);
    }
    return MBA_OK;
}

typedef struct grads {
    const float *value, *gate, *dy;
    float       *dvalue, *dgate;
    bool         dvalue_adds, dgate_adds;
} grads;

MBA_SIMD void backward(const grads *g, int64_t i, int64_t n)
{
    const vf dy = vf_load_n(g->dy + i, n);
    vf       slope;
    const vf dv = dy * vf_silu_and_slope(vf_load_n(g->gate + i, n), &slope);
    const vf dt = dy * vf_load_n(g->value + i, n) * slope;
    vf_store_n(g->dvalue + i, g->dvalue_adds ? vf_load_n(g->dvalue + i, n) + dv : dv, n);
    vf_store_n(g->dgate + i, g->dgate_adds ? vf_load_n(g->dgate + i, n) + dt : dt, n);     // may be dvalue: read last
}

mba_status MBA_CPU_FN(swiglu_bwd)(const mba_call *c)
{
    const mba_node *n      = c->node;
    const int64_t   C      = mba_cols(n->in[VALUE]);
    const mba__rows value  = mba__rows_of(n->in[VALUE], c->in[VALUE]), gate = mba__rows_of(n->in[GATE], c->in[GATE]);
    const mba__rows dy     = mba__rows_of(n->in[DY], c->in[DY]);
    const mba__rows dvalue = mba__rows_of(n->out[DVALUE], c->out[DVALUE]), dgate = mba__rows_of(n->out[DGATE], c->out[DGATE]);
    const bool      dvalue_adds = mba_adds(n, DVALUE), dgate_adds = mba_adds(n, DGATE);
    MBA_PARALLEL_FOR(r, mba_rows(n->in[VALUE])) {
        const grads g = { .value = mba__row(value, r), .gate = mba__row(gate, r), .dy = mba__row(dy, r),
                          .dvalue = mba__row(dvalue, r), .dgate = mba__row(dgate, r),
                          .dvalue_adds = dvalue_adds, .dgate_adds = dgate_adds };
        int64_t i = 0;
        for (; i + MBA_LANES <= C; i += MBA_LANES) backward(&g, i, MBA_LANES);
        if (i < C) backward(&g, i, C - i);
    }
    return MBA_OK;
}
