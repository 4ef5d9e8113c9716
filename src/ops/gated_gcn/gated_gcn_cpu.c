// SPDX-License-Identifier: Apache-2.0
/* gated_gcn_cpu.c -- gated_gcn on the CPU: blocks of nodes in parallel. A node owns its row and the rows of the edges
 * into it, so the forward pass and the first half of the backward pass never write a row twice. The second half loops
 * over the edges out of a node and gathers what the first half left for them. Sums run over the edges of one node in
 * order, so there are no atomics, and the number of threads does not change bits. eh may share the memory of c, and dc
 * that of deh: every vector is read before it is overwritten. */
#include "device/cpu/simd.h"
#include "ops/gated_gcn/gated_gcn_slots.h"

enum { BLOCK = 32, UNROLL = 4 }; /* nodes per work item; independent sigmoids per iteration, to hide latency */

/* Calls F(vectors, i, n) over a row of H: four vectors at a time, then one, then a partial one. */
#define OVER_ROW(H, F) \
    do { \
        int64_t i_ = 0; \
        for (; i_ + UNROLL * MBA_LANES <= (H); i_ += UNROLL * MBA_LANES) F(UNROLL, i_, MBA_LANES); \
        for (; i_ < (H); i_ += MBA_LANES) F(1, i_, (H)-i_); \
    } while (0)

/* ---- forward ---- */

typedef struct edge {
    const float *d, *e, *c, *b;
    float       *eh, *num, *den;
} edge;

MBA_SIMD void gate(edge x, int vectors, int64_t i, int64_t n)
{
    vf t[UNROLL], s[UNROLL];
    for (int u = 0; u < vectors; u++) {
        const int64_t j = i + u * MBA_LANES;
        t[u] = vf_load_n(x.d + j, n) + vf_load_n(x.e + j, n) + vf_load_n(x.c + j, n);
    }
    for (int u = 0; u < vectors; u++) s[u] = vf_sigmoid(t[u]);
    for (int u = 0; u < vectors; u++) {
        const int64_t j = i + u * MBA_LANES;
        vf_store_n(x.eh + j, t[u], n);
        vf_store_n(x.num + j, vf_load_n(x.num + j, n) + s[u] * vf_load_n(x.b + j, n), n);
        vf_store_n(x.den + j, vf_load_n(x.den + j, n) + s[u], n);
    }
}

/* The sums are accumulated in place: num in agg, den in rden. */
MBA_SIMD void divide(float *xt, float *agg, float *rden, const float *a, int64_t i, int64_t n)
{
    const vf r = vf_rcp(vf_load_n(rden + i, n) + (float)GATED_GCN_TINY), v = vf_load_n(agg + i, n) * r;
    vf_store_n(rden + i, r, n);
    vf_store_n(agg + i, v, n);
    vf_store_n(xt + i, vf_load_n(a + i, n) + v, n);
}

typedef struct forward {
    mba__rows      a, b, d, e, c, xt, eh, agg, rden;
    const int32_t *src, *in_ptr;
} forward;

static void node_fwd(const forward *f, int64_t i)
{
    const int64_t H = f->a.cols;
    float        *num = mba__row(f->agg, i), *den = mba__row(f->rden, i);
    memset(num, 0, sizeof(float) * (size_t)H);
    memset(den, 0, sizeof(float) * (size_t)H);
    for (int64_t k = f->in_ptr[i]; k < f->in_ptr[i + 1]; k++) {
        const int64_t j = f->src[k];
        const edge    x = {
               mba__row(f->d, i), mba__row(f->e, j), mba__row(f->c, k), mba__row(f->b, j), mba__row(f->eh, k), num, den
        };
#define GATE(vectors, i, n) gate(x, vectors, i, n)
        OVER_ROW(H, GATE);
    }
    for (int64_t h = 0; h < H; h += MBA_LANES) divide(mba__row(f->xt, i), num, den, mba__row(f->a, i), h, H - h);
}

mba_status MBA_CPU_FN(gated_gcn_fwd)(const mba_call *c)
{
    const mba_node *n = c->node;
    const forward   f = { .a = mba__rows_of(n->in[A], c->in[A]),
                          .b = mba__rows_of(n->in[B], c->in[B]),
                          .d = mba__rows_of(n->in[D], c->in[D]),
                          .e = mba__rows_of(n->in[E], c->in[E]),
                          .c = mba__rows_of(n->in[C], c->in[C]),
                          .xt = mba__rows_of(n->out[XT], c->out[XT]),
                          .eh = mba__rows_of(n->out[EH], c->out[EH]),
                          .agg = mba__rows_of(n->out[AGG], c->out[AGG]),
                          .rden = mba__rows_of(n->out[RDEN], c->out[RDEN]),
                          .src = c->in[SRC],
                          .in_ptr = c->in[IN_PTR] };
    const int64_t   N = mba__valid_entries(n->in[A], c->step);
    MBA_PARALLEL_TILES(b, mba_ceil(N, BLOCK))
    for (int64_t i = b * BLOCK; i < N && i < (b + 1) * BLOCK; i++) node_fwd(&f, i);
    mba__zero_rows(f.xt, N, mba_rows(n->in[A]));
    mba__zero_rows(f.agg, N, mba_rows(n->in[A]));
    mba__zero_rows(f.rden, N, mba_rows(n->in[A]));
    mba__zero_rows(f.eh, f.in_ptr[N], mba_rows(n->in[C]));
    return MBA_OK;
}

/* ---- backward ---- */

typedef struct backward {
    mba__rows      dxt, deh, b, eh, agg, rden; /* deh: at NULL if the edges have no gradient */
    mba__rows      da, db, dd, de, dc;
    mba__rows      t, m; /* per edge, for its source: contributions to de and db; t may be dc */
    const int32_t *src, *in_ptr, *out_ptr, *out_edge;
    bool           da_adds, db_adds, dd_adds, de_adds, dc_adds;
} backward;

/* One edge of the backward pass: gn = dxt rden of its target, s is its gate. */
typedef struct edge_grad {
    const float *dxt, *rden, *agg, *b, *eh, *deh;
    float       *t, *m, *dd, *dc;
} edge_grad;

MBA_SIMD void ungate(edge_grad x, int vectors, int64_t i, int64_t n)
{
    vf s[UNROLL];
    for (int u = 0; u < vectors; u++) s[u] = vf_sigmoid(vf_load_n(x.eh + i + u * MBA_LANES, n));
    for (int u = 0; u < vectors; u++) {
        const int64_t j = i + u * MBA_LANES;
        const vf      m = s[u] * (vf_load_n(x.dxt + j, n) * vf_load_n(x.rden + j, n));
        vf            t = m * (1.0f - s[u]) * (vf_load_n(x.b + j, n) - vf_load_n(x.agg + j, n));
        if (x.deh) t += vf_load_n(x.deh + j, n);
        vf_store_n(x.m + j, m, n);
        vf_store_n(x.t + j, t, n);
        if (x.dc) vf_store_n(x.dc + j, vf_load_n(x.dc + j, n) + t, n);
        vf_store_n(x.dd + j, vf_load_n(x.dd + j, n) + t, n);
    }
}

static void target_bwd(const backward *w, int64_t i)
{
    const int64_t H = w->b.cols;
    const float  *dxt = mba__row(w->dxt, i);
    float        *da = mba__row(w->da, i), *dd = mba__row(w->dd, i);
    MBA_SIMD_LOOP
    for (int64_t h = 0; h < H; h++) da[h] = dxt[h] + (w->da_adds ? da[h] : 0);
    if (!w->dd_adds) memset(dd, 0, sizeof(float) * (size_t)H);
    for (int64_t k = w->in_ptr[i]; k < w->in_ptr[i + 1]; k++) {
        const edge_grad x = { dxt,
                              mba__row(w->rden, i),
                              mba__row(w->agg, i),
                              mba__row(w->b, w->src[k]),
                              mba__row(w->eh, k),
                              mba__row(w->deh, k),
                              mba__row(w->t, k),
                              mba__row(w->m, k),
                              dd,
                              w->dc_adds ? mba__row(w->dc, k) : NULL };
#define UNGATE(vectors, i, n) ungate(x, vectors, i, n)
        OVER_ROW(H, UNGATE);
    }
}

static void add_row(float *sum, const float *x, int64_t n)
{
    MBA_SIMD_LOOP
    for (int64_t i = 0; i < n; i++) sum[i] += x[i];
}

static void source_bwd(const backward *w, int64_t j)
{
    const int64_t H = w->b.cols;
    float        *db = mba__row(w->db, j), *de = mba__row(w->de, j);
    if (!w->db_adds) memset(db, 0, sizeof(float) * (size_t)H);
    if (!w->de_adds) memset(de, 0, sizeof(float) * (size_t)H);
    for (int64_t p = w->out_ptr[j]; p < w->out_ptr[j + 1]; p++) {
        add_row(db, mba__row(w->m, w->out_edge[p]), H);
        add_row(de, mba__row(w->t, w->out_edge[p]), H);
    }
}

static backward backward_of(const mba_call *c)
{
    const mba_node *n = c->node;
    backward        w = { .dxt = mba__rows_of(n->in[DXT], c->in[DXT]),
                          .deh = mba__rows_of(n->in[DEH], c->in[DEH]),
                          .b = mba__rows_of(n->in[BB], c->in[BB]),
                          .eh = mba__rows_of(n->in[EHB], c->in[EHB]),
                          .agg = mba__rows_of(n->in[AGGB], c->in[AGGB]),
                          .rden = mba__rows_of(n->in[RDENB], c->in[RDENB]),
                          .da = mba__rows_of(n->out[DA], c->out[DA]),
                          .db = mba__rows_of(n->out[DB], c->out[DB]),
                          .dd = mba__rows_of(n->out[DD], c->out[DD]),
                          .de = mba__rows_of(n->out[DE], c->out[DE]),
                          .dc = mba__rows_of(n->out[DC], c->out[DC]),
                          .src = c->in[SRCB],
                          .in_ptr = c->in[IN_PTRB],
                          .out_ptr = c->in[OUT_PTRB],
                          .out_edge = c->in[OUT_EDGEB],
                          .da_adds = mba_adds(n, DA),
                          .db_adds = mba_adds(n, DB),
                          .dd_adds = mba_adds(n, DD),
                          .de_adds = mba_adds(n, DE),
                          .dc_adds = mba_adds(n, DC) };
    const int64_t   H = w.b.cols;
    w.m = (mba__rows){ mba__scratch(c, 0), H, H, H };
    w.t = w.dc_adds ? (mba__rows){ mba__scratch(c, 1), H, H, H } : w.dc;
    return w;
}

mba_status MBA_CPU_FN(gated_gcn_bwd)(const mba_call *c)
{
    const mba_node *n = c->node;
    const int64_t   N = mba__valid_entries(n->in[BB], c->step), all = mba_rows(n->in[BB]), edges = mba_rows(n->in[EHB]);
    const backward  w = backward_of(c);
    MBA_PARALLEL_TILES(b, mba_ceil(N, BLOCK))
    for (int64_t i = b * BLOCK; i < N && i < (b + 1) * BLOCK; i++) target_bwd(&w, i);
    MBA_PARALLEL_TILES(b, mba_ceil(N, BLOCK))
    for (int64_t j = b * BLOCK; j < N && j < (b + 1) * BLOCK; j++) source_bwd(&w, j);
    if (!w.da_adds) mba__zero_rows(w.da, N, all);
    if (!w.db_adds) mba__zero_rows(w.db, N, all);
    if (!w.dd_adds) mba__zero_rows(w.dd, N, all);
    if (!w.de_adds) mba__zero_rows(w.de, N, all);
    if (!w.dc_adds) mba__zero_rows(w.dc, w.in_ptr[N], edges);
    return MBA_OK;
}
