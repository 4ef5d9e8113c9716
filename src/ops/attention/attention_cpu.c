// SPDX-License-Identifier: Apache-2.0
/* attention_cpu.c -- attention forward on the CPU: blocks of queries in parallel, blocks of keys in order, online
 * softmax.
 *
 * Vectors run along queries: scores are S^T (keys, queries) and outputs O^T (values, queries), so maxima, sums and
 * rescaling never cross the lanes of a vector. Scores are in units of log 2; the packed queries contain the factor. */
#include <float.h>
#include <math.h>

#include "ops/attention/attention_tiles.h"

typedef struct forward {
    attention_dims     d;
    attention_fwd_work size;
    const mba_call    *call;
    mba_heads          q, k, v, o;
    int64_t            P, keys;             /* padded width of a head, padded keys */
    float             *packed_k, *packed_v; /* (B, Hk, keys/STRIP, P, STRIP); (B, Hk, keys, P) */
    float              scale;               /* times log2 e */
    bool               causal;
} forward;

/* One block of queries of one head, and the buffers of its worker. */
typedef struct block {
    int64_t        b, h, from, count; /* queries from .. from + count */
    const float   *kp, *vp;           /* packed keys and values of its head */
    float         *q, *o, *s, *m, *l; /* panels of q and o; scores of one panel; max and sum */
    int32_t       *ids;               /* of the queries, padded */
    const int32_t *ids_k;
    int32_t        id_min, id_max;
} block;

/* ---- packing ---- */

static void pack_keys(const forward *f, int64_t b, int64_t hk, int64_t from)
{
    const int64_t P = f->d.P, count = f->d.Lk - from < STRIP ? f->d.Lk - from : STRIP;
    const float  *k = (const float *)f->call->in[K] + b * f->k.batch + from * f->k.row + hk * f->k.head;
    const float  *v = (const float *)f->call->in[V] + b * f->v.batch + from * f->v.row + hk * f->v.head;
    float        *kp = f->packed_k + ((b * f->d.Hk + hk) * f->keys + from) * f->P;
    float        *vp = f->packed_v + ((b * f->d.Hk + hk) * f->keys + from) * f->P;
    if (count < STRIP || P < f->P) memset(vp, 0, sizeof(float) * (size_t)(STRIP * f->P));
    pack_columns(kp, STRIP, k, f->k.row, count, P, 1);
    for (int64_t i = 0; i < count; i++) memcpy(vp + i * f->P, v + i * f->v.row, sizeof(float) * (size_t)P);
}

static void pack_queries(const forward *f, const block *w)
{
    const float *q = (const float *)f->call->in[Q] + w->b * f->q.batch + w->from * f->q.row + w->h * f->q.head;
    for (int64_t t = 0; t < w->count; t += PANEL)
        pack_columns(w->q + t * f->P, PANEL, q + t * f->q.row, f->q.row, w->count - t, f->d.P, f->scale);
}

/* ---- one panel of queries against one block of keys ---- */

/* Masks keys that a query does not see with -infinity, whose exponential is exactly 0. `last` is the last key of this
 * block that the first query of the panel sees; each later query sees `more` further keys. Without ids there is one
 * document. */
static void mask_panel(float *s, int64_t rows, int64_t last, int more, const int32_t *ids, const int32_t *ids_k)
{
    vi step;
    if (last > rows) last = rows;
    for (int i = 0; i < LANES; i++) step[i] = more * i;
    for (int64_t r = 0; r < rows; r++)
        for (int j = 0; j < VECTORS; j++) {
            vi sees = vi_set((int32_t)(last + more * j * LANES - r)) + step >= 0;
            if (ids) sees &= vi_load(ids + j * LANES) == vi_set(ids_k[r]);
            vf_store(s + r * PANEL + j * LANES, vf_select(sees, vf_load(s + r * PANEL + j * LANES), vf_set(-INFINITY)));
        }
}

/* Turns scores into probabilities under the new maximum and updates the sums. Returns true if the maximum rose; then
 * `alpha` is the factor by which earlier outputs shrink. */
static bool softmax_panel(float *s, int64_t rows, float *m, float *l, vf *alpha)
{
    vf top[VECTORS], sum[VECTORS], old[VECTORS];
    vi rose = vi_set(0);
    for (int j = 0; j < VECTORS; j++) top[j] = old[j] = vf_load(m + j * LANES);
    for (int64_t r = 0; r < rows; r++)
        UNROLLED for (int j = 0; j < VECTORS; j++) top[j] = vf_max(top[j], vf_load(s + r * PANEL + j * LANES));
    for (int j = 0; j < VECTORS; j++) {
        rose |= top[j] != old[j];
        alpha[j] = vf_exp2_neg(old[j] - top[j]);
        sum[j] = vf_load(l + j * LANES) * alpha[j];
        vf_store(m + j * LANES, top[j]);
    }
    for (int64_t r = 0; r < rows; r++) UNROLLED for (int j = 0; j < VECTORS; j++)
        {
            const vf p = vf_exp2_neg(vf_load(s + r * PANEL + j * LANES) - top[j]);
            vf_store(s + r * PANEL + j * LANES, p);
            sum[j] += p;
        }
    for (int j = 0; j < VECTORS; j++) vf_store(l + j * LANES, sum[j]);
    int any = 0;
    for (int i = 0; i < LANES; i++) any |= rose[i];
    return any;
}

/* Processes panel `at` of the block against keys from .. from + rows. */
static void attend_panel(const forward *f, const block *w, int64_t at, int64_t from, int64_t rows, bool one_document)
{
    const float  *q = w->q + at * f->P, *k = w->kp + from * f->P, *v = w->vp + from * f->P;
    float        *o = w->o + at * f->P;
    const int64_t first = w->from + at + f->d.past, last = f->causal ? first : f->d.Lk - 1; // the first query sees it
    vf            alpha[VECTORS];
    if (f->causal && from + rows > first + PANEL) rows = attention_round(first + PANEL - from, STRIP);
    for (int64_t r = 0; r < rows; r += STRIP) outer_tile(w->s + r * PANEL, k + r * f->P, STRIP, q, f->d.P, false);
    if (!one_document) mask_panel(w->s, rows, last - from, f->causal, w->ids + at, w->ids_k + from);
    else if (from + rows - 1 > last) mask_panel(w->s, rows, last - from, f->causal, NULL, NULL);
    if (softmax_panel(w->s, rows, w->m + at, w->l + at, alpha))
        for (int64_t e = 0; e < f->d.P; e++)
            UNROLLED for (int j = 0; j < VECTORS; j++)
                vf_store(o + e * PANEL + j * LANES, vf_load(o + e * PANEL + j * LANES) * alpha[j]);
    for (int64_t e = 0; e < f->d.P; e += STRIP) outer_tile(o + e * PANEL, v + e, f->P, w->s, rows, true);
}

/* ---- one block of queries ---- */

static void attend_keys(const forward *f, const block *w)
{
    const int64_t end = f->causal ? w->from + w->count + f->d.past : f->d.Lk;
    for (int64_t from = 0; from < end; from += ATT_KEYS) {
        const int64_t count = end - from < ATT_KEYS ? end - from : ATT_KEYS;
        bool          one_document = true;
        if (w->ids_k) {
            int32_t low, high;
            id_range(&low, &high, w->ids_k + from, count);
            if (low > w->id_max || high < w->id_min) continue;
            one_document = low == high && w->id_min == w->id_max;
        }
        for (int64_t at = 0; at < w->count; at += PANEL) {
            if (f->causal && from >= w->from + at + PANEL + f->d.past) continue;
            attend_panel(f, w, at, from, attention_round(count, STRIP), one_document);
        }
    }
}

static void write_block(const forward *f, const block *w)
{
    float *o = (float *)f->call->out[O] + w->b * f->o.batch + w->from * f->o.row + w->h * f->o.head;
    float *lse = (float *)f->call->out[LSE] + (w->b * f->d.H + w->h) * f->d.L + w->from;
    for (int64_t t = 0; t < w->count; t++) {
        lse[t] = (float)M_LN2 * (w->m[t] + log2f(w->l[t]));
        w->l[t] = 1 / w->l[t];
    }
    for (int64_t t = 0; t < w->count; t += PANEL)
        unpack_columns(o + t * f->o.row, f->o.row, w->o + t * f->P, PANEL, w->l + t,
                       w->count - t < PANEL ? w->count - t : PANEL, f->d.P);
}

static void attend_block(const forward *f, float *worker, int64_t item)
{
    const int64_t heads = f->d.B * f->d.H, blocks = mba_ceil(f->d.L, ATT_QUERIES);
    const int64_t from = (blocks - 1 - item / heads) * ATT_QUERIES; // longest rows first
    block         w = { .b = item % heads / f->d.H, .h = item % f->d.H, .from = from };
    w.count = f->d.L - from < ATT_QUERIES ? f->d.L - from : ATT_QUERIES;
    w.q = worker;
    w.o = w.q + f->size.q;
    w.s = w.o + f->size.o;
    w.m = w.s + f->size.s;
    w.l = w.m + f->size.m;
    const int64_t hk = w.b * f->d.Hk + w.h / f->d.group;
    w.kp = f->packed_k + hk * f->keys * f->P;
    w.vp = f->packed_v + hk * f->keys * f->P;
    if (f->call->in[IDS]) {
        w.ids = (int32_t *)(w.l + f->size.l);
        w.ids_k = (const int32_t *)f->call->in[IDS] + w.b * mba_ld(f->call->node->in[IDS]);
        for (int64_t t = 0; t < ATT_QUERIES; t++) w.ids[t] = w.ids_k[from + (t < w.count ? t : w.count - 1)];
        id_range(&w.id_min, &w.id_max, w.ids, ATT_QUERIES);
    }
    pack_queries(f, &w);
    memset(w.o, 0, sizeof(float) * (size_t)(ATT_QUERIES * f->P));
    for (int64_t t = 0; t < ATT_QUERIES; t++) {
        w.m[t] = -FLT_MAX; // finite: -infinity - -infinity is NaN
        w.l[t] = 0;
    }
    attend_keys(f, &w);
    write_block(f, &w);
}

mba_status MBA_CPU_FN(attention_fwd)(const mba_call *c)
{
    const attention_attr *a = c->node->attr;

    forward f = {
        .d = attention_dims_of(c->node), .call = c, .scale = (float)(a->scale * M_LOG2E), .causal = a->causal
    };
    mba_assert(mba_heads_of(&f.q, c->node->in[Q]) && mba_heads_of(&f.k, c->node->in[K]));
    mba_assert(mba_heads_of(&f.v, c->node->in[V]) && mba_heads_of(&f.o, c->node->out[O]));
    f.size = attention_fwd_work_of(&f.d);
    f.P = attention_round(f.d.P, ATT_HEAD);
    f.keys = attention_round(f.d.Lk, ATT_STRIP);
    f.packed_k = (float *)(c->work + c->plan->scratch[ATT_PACKED_K].offset);
    f.packed_v = (float *)(c->work + c->plan->scratch[ATT_PACKED_V].offset);
    const int64_t strips = f.keys / STRIP, heads = f.d.B * f.d.Hk, items = f.d.B * f.d.H * mba_ceil(f.d.L, ATT_QUERIES);
    MBA_PARALLEL_FOR(i, heads * strips) { pack_keys(&f, i / strips / f.d.Hk, i / strips % f.d.Hk, i % strips * STRIP); }
    int64_t next = 0;
    float  *workers = (float *)(c->work + c->plan->scratch[ATT_WORKERS].offset);
    MBA_PARALLEL_FOR(i, (int64_t)(c->plan->scratch[ATT_WORKERS].bytes / sizeof(float)) / f.size.all)
    {
        for (int64_t item; (item = __atomic_fetch_add(&next, 1, __ATOMIC_RELAXED)) < items;)
            attend_block(&f, workers + i * f.size.all, item);
    }
    return MBA_OK;
}
