// SPDX-License-Identifier: Apache-2.0
/* attention_bwd_cpu.c -- attention backward on the CPU: five products per tile of queries x keys; probabilities are
 * recomputed from LSE.
 *
 * Vectors run along keys: P, dS (queries, keys) and dk^T, dv^T (values, keys). A work item is a key head of one
 * sequence with all its query heads, or with one of them (attention_parts). It owns their dq, and a partial sum of dk
 * and dv; the partial sums are added at the end, in the order of heads. Items share nothing. */
#include <math.h>

#include "ops/attention/attention_tiles.h"

typedef struct backward {
    attention_dims     d;
    attention_bwd_work size;
    const mba_call    *call;
    mba_heads          in[DOUT + 1], out[DV + 1];
    int64_t            P, keys, parts;    /* padded width and keys; items per key head */
    float             *part_dk, *part_dv; /* (B, Hk, parts) heads of panels */
    double             scale;
    bool               causal;
} backward;

/* Buffers of a worker for its current item; sizes in attention_bwd_work. */
typedef struct item {
    int64_t  b, hk, h; /* h: the current query head */
    float   *kt, *vt, *kn, *qs, *qn, *gs, *gn, *dq, *lse, *delta, *p, *ds, *dk, *dv;
    int32_t *ids; /* of the sequence, padded; NULL: one document */
} item;

/* One tile: queries from t, keys from s. */
typedef struct tile {
    int64_t t, queries, s, keys;
    bool    one_document;
} tile;

static const float *head_of(const backward *w, int slot, int64_t b, int64_t h)
{
    return (const float *)w->call->in[slot] + b * w->in[slot].batch + h * w->in[slot].head;
}

/* ---- packing ---- */

static void pack_panels(float *out, const float *x, int64_t row, const backward *w)
{
    for (int64_t s = 0; s < w->d.Lk; s += PANEL)
        pack_columns(out + s * w->P, PANEL, x + s * row, row, w->d.Lk - s, w->d.P, 1);
}

static void pack_strips(float *out, const float *x, int64_t row, float scale, const backward *w)
{
    for (int64_t t = 0; t < w->d.L; t += STRIP)
        pack_columns(out + t * w->P, STRIP, x + t * row, row, w->d.L - t, w->d.P, scale);
}

static void pack_rows(float *out, int64_t floats, const float *x, int64_t row, int64_t rows, float scale,
                      const backward *w)
{
    memset(out, 0, sizeof(float) * (size_t)floats);
    for (int64_t t = 0; t < rows; t++)
        for (int64_t e = 0; e < w->d.P; e++) out[t * w->P + e] = scale * x[t * row + e];
}

static void pack_key_head(const backward *w, item *i)
{
    const float *k = head_of(w, K, i->b, i->hk), *v = head_of(w, V, i->b, i->hk);
    pack_panels(i->kt, k, w->in[K].row, w);
    pack_panels(i->vt, v, w->in[V].row, w);
    pack_rows(i->kn, w->size.kn, k, w->in[K].row, w->d.Lk, (float)w->scale, w);
    if (!i->ids) return;
    const int32_t *ids = (const int32_t *)w->call->in[IDS] + i->b * mba_ld(w->call->node->in[IDS]);
    for (int64_t s = 0; s < w->keys; s++) i->ids[s] = s < w->d.Lk ? ids[s] : 0;
}

/* delta_t = <do_t, o_t>, which equals sum_s p_ts <do_t, v_s>. Rows beyond the end have LSE infinity, so their p is
 * 0. */
static void pack_query_head(const backward *w, item *i)
{
    const int64_t L = w->d.L;
    const float  *q = head_of(w, Q, i->b, i->h), *g = head_of(w, DOUT, i->b, i->h), *o = head_of(w, OUT, i->b, i->h);
    const float  *lse = (const float *)w->call->in[LSES] + (i->b * w->d.H + i->h) * L;
    pack_strips(i->qs, q, w->in[Q].row, (float)(w->scale * M_LOG2E), w);
    pack_strips(i->gs, g, w->in[DOUT].row, 1, w);
    pack_rows(i->qn, w->size.qn, q, w->in[Q].row, L, (float)w->scale, w);
    pack_rows(i->gn, w->size.gn, g, w->in[DOUT].row, L, 1, w);
    memset(i->dq, 0, sizeof(float) * (size_t)w->size.dq);
    for (int64_t t = 0; t < attention_round(L, STRIP); t++) {
        float sum = 0;
        for (int64_t e = 0; t < L && e < w->d.P; e++) sum += g[t * w->in[DOUT].row + e] * o[t * w->in[OUT].row + e];
        i->delta[t] = sum;
        i->lse[t] = t < L ? (float)M_LOG2E * lse[t] : INFINITY;
    }
}

/* ---- one tile ---- */

/* Masks rows t .. t + rows against one panel of keys from s: masked scores become -infinity, their exponential 0. */
static void mask_rows(const backward *w, const item *i, float *p, int64_t t, int64_t rows, int64_t s, bool one_document)
{
    vi lane;
    for (int k = 0; k < LANES; k++) lane[k] = k;
    for (int64_t r = 0; r < rows; r++) {
        const int64_t last = (w->causal ? t + r + w->d.past : w->d.Lk - 1) - s; // the last visible key of the panel
        for (int j = 0; j < VECTORS; j++) {
            float *x = p + r * PANEL + j * LANES;
            vi     sees = lane + j * LANES <= vi_set((int32_t)(last < PANEL ? last : PANEL));
            if (!one_document) sees &= vi_load(i->ids + s + j * LANES) == vi_set(t + r < w->d.L ? i->ids[t + r] : 0);
            vf_store(x, vf_select(sees, vf_load(x), vf_set(-INFINITY)));
        }
    }
}

/* Turns scores into p, and <do, v> into dS = p (<do, v> - delta). */
static void differentiate(float *p, float *ds, const float *lse, const float *delta, int64_t rows)
{
    for (int64_t r = 0; r < rows; r++) UNROLLED for (int j = 0; j < VECTORS; j++)
        {
            float   *x = p + r * PANEL + j * LANES, *y = ds + r * PANEL + j * LANES;
            const vf probability = vf_exp2_neg(vf_load(x) - lse[r]);
            vf_store(x, probability);
            vf_store(y, probability * (vf_load(y) - delta[r]));
        }
}

/* The first row of the tile whose strip reaches the diagonal: a multiple of STRIP. */
static int64_t first_row(const backward *w, const tile *b, int64_t s)
{
    const int64_t t = b->t + w->d.past;
    return w->causal && s > t ? (s - t) / STRIP * STRIP : 0;
}

/* Computes p and dS, and adds their contributions to the panel's dk and dv. */
static void panel_products(const backward *w, const item *i, const tile *b, int64_t panel)
{
    const int64_t s = b->s + panel, from = first_row(w, b, s), rows = b->queries - from, t = b->t + from, P = w->P;
    float        *p = i->p + panel * ATT_BWD_QUERIES + from * PANEL, *ds = i->ds + (p - i->p);
    if (rows <= 0) return;
    for (int64_t r = 0; r < rows; r += STRIP) {
        outer_tile(p + r * PANEL, i->qs + (t + r) * P, STRIP, i->kt + s * P, w->d.P, false);
        outer_tile(ds + r * PANEL, i->gs + (t + r) * P, STRIP, i->vt + s * P, w->d.P, false);
    }
    if (s + PANEL - 1 > (w->causal ? t + w->d.past : w->d.Lk - 1) || !b->one_document)
        mask_rows(w, i, p, t, rows, s, b->one_document);
    differentiate(p, ds, i->lse + t, i->delta + t, rows);
    for (int64_t e = 0; e < w->d.P; e += STRIP) {
        outer_tile(i->dv + s * P + e * PANEL, i->gn + t * P + e, P, p, rows, true);
        outer_tile(i->dk + s * P + e * PANEL, i->qn + t * P + e, P, ds, rows, true);
    }
}

static void tile_products(const backward *w, const item *i, const tile *b)
{
    for (int64_t panel = 0; panel < b->keys; panel += PANEL) panel_products(w, i, b, panel);
    for (int64_t r = 0; r < b->queries; r += STRIP) {
        int64_t panels = mba_ceil(b->keys, PANEL);
        while (panels && first_row(w, b, b->s + (panels - 1) * PANEL) > r) panels--;
        for (int64_t e = 0; e < w->d.P && panels; e += 2 * LANES)
            inner_tile(i->dq + (b->t + r) * w->P + e, w->P, i->ds + r * PANEL, ATT_BWD_QUERIES * PANEL, panels,
                       i->kn + b->s * w->P + e, w->P);
    }
}

/* ---- one head, one item ---- */

static bool apart(const item *i, tile *b, int64_t L)
{
    int32_t q_low, q_high, k_low, k_high;
    b->one_document = true;
    if (!i->ids) return false;
    id_range(&q_low, &q_high, i->ids + b->t, L - b->t < b->queries ? L - b->t : b->queries);
    id_range(&k_low, &k_high, i->ids + b->s, L - b->s < b->keys ? L - b->s : b->keys);
    b->one_document = q_low == q_high && k_low == k_high;
    return k_low > q_high || k_high < q_low;
}

static void query_head(const backward *w, const item *i)
{
    const int64_t L = w->d.L, Lk = w->d.Lk;
    for (int64_t s = 0; s < Lk; s += ATT_BWD_KEYS) {
        const int64_t first = w->causal && s > w->d.past ? s - w->d.past : 0; // the first query that sees key s
        for (int64_t t = first / ATT_BWD_QUERIES * ATT_BWD_QUERIES; t < L; t += ATT_BWD_QUERIES) {
            tile b = { .t = t,
                       .queries = attention_round(L - t < ATT_BWD_QUERIES ? L - t : ATT_BWD_QUERIES, STRIP),
                       .s = s,
                       .keys = Lk - s < ATT_BWD_KEYS ? Lk - s : ATT_BWD_KEYS };
            if (!apart(i, &b, L)) tile_products(w, i, &b);
        }
    }
}

static void write_dq(const backward *w, const item *i)
{
    const bool adds = mba_adds(w->call->node, DQ);
    float     *dq = (float *)w->call->out[DQ] + i->b * w->out[DQ].batch + i->h * w->out[DQ].head;
    for (int64_t t = 0; t < w->d.L; t++)
        for (int64_t e = 0; e < w->d.P; e++) {
            float *x = dq + t * w->out[DQ].row + e;
            *x = i->dq[t * w->P + e] + (adds ? *x : 0);
        }
}

static void run_item(const backward *w, float *worker, int64_t number)
{
    const attention_bwd_work *z = &w->size;
    const int64_t             part = number % w->parts, head = w->keys * w->P, heads = w->d.group / w->parts;
    item                      i = { .b = number / w->parts / w->d.Hk, .hk = number / w->parts % w->d.Hk };
    i.kt = worker;
    i.vt = i.kt + z->kt;
    i.kn = i.vt + z->vt;
    i.qs = i.kn + z->kn;
    i.qn = i.qs + z->qs;
    i.gs = i.qn + z->qn;
    i.gn = i.gs + z->gs;
    i.dq = i.gn + z->gn;
    i.lse = i.dq + z->dq;
    i.delta = i.lse + z->lse;
    i.p = i.delta + z->delta;
    i.ds = i.p + z->p;
    if (w->call->in[IDS]) i.ids = (int32_t *)(i.ds + z->ds);
    i.dk = w->part_dk + number * head;
    i.dv = w->part_dv + number * head;
    memset(i.dk, 0, sizeof(float) * (size_t)head);
    memset(i.dv, 0, sizeof(float) * (size_t)head);
    pack_key_head(w, &i);
    for (int64_t h = 0; h < heads; h++) {
        i.h = i.hk * w->d.group + part * heads + h;
        pack_query_head(w, &i);
        query_head(w, &i);
        write_dq(w, &i);
    }
}

/* dk or dv of the keys of one panel: adds the partial sums and transposes back into rows. */
static void write_panel(const backward *w, int slot, const float *parts, int64_t b, int64_t hk, int64_t s)
{
    const bool       adds = mba_adds(w->call->node, slot);
    const mba_heads *out = &w->out[slot];
    const int64_t    head = w->keys * w->P, count = w->d.Lk - s < PANEL ? w->d.Lk - s : PANEL;
    const float     *x = parts + (b * w->d.Hk + hk) * w->parts * head + s * w->P;
    float           *y = (float *)w->call->out[slot] + b * out->batch + hk * out->head + s * out->row;
    for (int64_t j = 0; j < count; j++)
        for (int64_t e = 0; e < w->d.P; e++) {
            float sum = x[e * PANEL + j];
            for (int64_t p = 1; p < w->parts; p++) sum += x[p * head + e * PANEL + j];
            y[j * out->row + e] = sum + (adds ? y[j * out->row + e] : 0);
        }
}

mba_status MBA_CPU_FN(attention_bwd)(const mba_call *c)
{
    const attention_attr *a = c->node->attr;
    backward              w = { .d = attention_dims_of(c->node), .call = c, .scale = a->scale, .causal = a->causal };
    for (int k = Q; k <= DOUT; k++)
        if (k != IDS && k != LSES) mba_assert(mba_heads_of(&w.in[k], c->node->in[k]));
    for (int k = DQ; k <= DV; k++) mba_assert(mba_heads_of(&w.out[k], c->node->out[k]));
    w.size = attention_bwd_work_of(&w.d);
    w.P = attention_round(w.d.P, ATT_HEAD);
    w.keys = attention_round(w.d.Lk, ATT_PANEL);
    w.parts = attention_parts(&w.d);
    w.part_dk = (float *)(c->work + c->plan->scratch[ATT_PART_DK].offset);
    w.part_dv = (float *)(c->work + c->plan->scratch[ATT_PART_DV].offset);
    const int64_t heads = w.d.B * w.d.Hk, panels = mba_ceil(w.d.Lk, PANEL);
    int64_t       next = 0;
    float        *workers = (float *)(c->work + c->plan->scratch[ATT_BWD_WORKERS].offset);
    MBA_PARALLEL_FOR(i, (int64_t)(c->plan->scratch[ATT_BWD_WORKERS].bytes / sizeof(float)) / w.size.all)
    {
        for (int64_t number; (number = __atomic_fetch_add(&next, 1, __ATOMIC_RELAXED)) < heads * w.parts;)
            run_item(&w, workers + i * w.size.all, number);
    }
    MBA_PARALLEL_FOR(i, heads * panels)
    {
        const int64_t b = i / panels / w.d.Hk, hk = i / panels % w.d.Hk, s = i % panels * PANEL;
        write_panel(&w, DK, w.part_dk, b, hk, s);
        write_panel(&w, DV, w.part_dv, b, hk, s);
    }
    return MBA_OK;
}
