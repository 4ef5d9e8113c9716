/* relu_cpu.c -- pieces in parallel; the compiler makes the inner loops wide. NaN goes through. */
#include "ops/relu/relu_slots.h"

mba_status MBA_CPU_FN(relu_fwd)(const mba_call *c)
{
    const mba_node   *n = c->node;
    const mba__pieces w = mba__pieces_of(n);
    MBA_PARALLEL_FOR(p, w.n) {
        const float  *x = mba__piece(n->in[X], c->in[X], w, p);
        float        *y = mba__piece(n->out[Y], c->out[Y], w, p);
        const int64_t m = mba__piece_elems(w, p);
        MBA_SIMD_LOOP
        for (int64_t i = 0; i < m; i++) y[i] = x[i] < 0 ? 0 : x[i];
    }
    return MBA_OK;
}

mba_status MBA_CPU_FN(relu_bwd)(const mba_call *c)
{
    const mba_node   *n = c->node;
    const mba__pieces w = mba__pieces_of(n);
    const bool        adds = mba_adds(n, DX);
    MBA_PARALLEL_FOR(p, w.n) {
        const float  *dy = mba__piece(n->in[DY], c->in[DY], w, p), *y = mba__piece(n->in[YB], c->in[YB], w, p);
        float        *dx = mba__piece(n->out[DX], c->out[DX], w, p);
        const int64_t m = mba__piece_elems(w, p);
        if (adds) {
            MBA_SIMD_LOOP
            for (int64_t i = 0; i < m; i++) dx[i] += y[i] > 0 ? dy[i] : 0;
        } else {
            MBA_SIMD_LOOP
            for (int64_t i = 0; i < m; i++) dx[i] = y[i] > 0 ? dy[i] : 0;
        }
    }
    return MBA_OK;
}
