// SPDX-License-Identifier: Apache-2.0
/* relu_cpu.c -- relu on the CPU: spans in parallel. NaN passes through in the forward pass. */
#include "device/cpu/simd.h"
#include "ops/relu/relu_slots.h"

mba_status MBA_CPU_FN(relu_fwd)(const mba_call *c)
{
    const mba_node  *n = c->node;
    const mba__spans w = mba__spans_of(n);
    MBA_PARALLEL_FOR(p, w.n)
    {
        const float  *x = mba__span_at(n->in[X], c->in[X], w, p);
        float        *y = mba__span_at(n->out[Y], c->out[Y], w, p);
        const int64_t m = mba__span_elems(w, p);
        MBA_SIMD_LOOP
        for (int64_t i = 0; i < m; i++) y[i] = x[i] < 0 ? 0 : x[i];
    }
    return MBA_OK;
}

mba_status MBA_CPU_FN(relu_bwd)(const mba_call *c)
{
    const mba_node  *n = c->node;
    const mba__spans w = mba__spans_of(n);
    const bool       adds = mba_adds(n, DX);
    MBA_PARALLEL_FOR(p, w.n)
    {
        const float  *dy = mba__span_at(n->in[DY], c->in[DY], w, p), *y = mba__span_at(n->in[YB], c->in[YB], w, p);
        float        *dx = mba__span_at(n->out[DX], c->out[DX], w, p);
        const int64_t m = mba__span_elems(w, p);
        for (int64_t i = 0; i < m; i += MBA_LANES) { // a select, no branch: signs are not predictable
            const vf d = vf_select(vf_load_n(y + i, m - i) > 0.0f, vf_load_n(dy + i, m - i), vf_set(0));
            vf_store_n(dx + i, adds ? d + vf_load_n(dx + i, m - i) : d, m - i);
        }
    }
    return MBA_OK;
}
