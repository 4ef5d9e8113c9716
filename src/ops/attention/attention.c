// SPDX-License-Identifier: Apache-2.0
/* attention.c -- softmax attention with grouped heads, forward and backward: the declaration.
 *
 *   o_t = sum_s p_ts v_s,  p_ts = exp(scale <q_t, k_s> - LSE_t),  LSE_t = log sum_s exp(scale <q_t, k_s>)
 *   q, o (B, L, H, P)   k, v (B, Lk, Hk, P)   ids (B, L) i32   LSE (B, H, L) fp32, saved */
#include "ops/attention/attention.h"

#include <math.h>

#include "core/device.h"
#include "ops/add/add.h"
#include "ops/attention/attention_slots.h"
#include "ops/cast/cast.h"
#include "ops/heads.h"

attention_dims attention_dims_of(const mba_node *n)
{
    const int64_t *q = n->in[Q]->type.dim, *k = n->in[K]->type.dim;
    attention_dims d = { .B = q[0], .L = q[1], .Lk = k[1], .H = q[2], .Hk = k[2], .P = q[3], .group = q[2] / k[2] };
    const bool     causal = ((const attention_attr *)n->attr)->causal;
    d.past = causal ? d.Lk - d.L : 0;
    d.pairs = (double)(d.B * d.H) * (double)d.L * (causal ? (double)(d.L + 1) / 2 + (double)d.past : (double)d.Lk);
    return d;
}

static mba_status heads_fit(const mba_tensor *t)
{
    mba_heads h;
    MBA_NEED(t->type.rank == 4, "attention: %s has %d axes\nwhy: it wants heads (B, L, H, P)", t->name,
             (int)t->type.rank);
    MBA_NEED(mba_heads_of(&h, t), "attention: the heads of the strided view %s do not lie at even strides", t->name);
    MBA_NEED(t->type.dtype == MBA_F32 || t->type.dtype == MBA_BF16, "attention: %s holds no real numbers", t->name);
    return MBA_OK;
}

static mba_status inputs_fit(const mba_node *n)
{
    const attention_attr *a = n->attr;
    const mba_tensor     *q = n->in[Q], *k = n->in[K], *v = n->in[V], *ids = n->in[IDS];
    MBA_TRY(heads_fit(q));
    MBA_TRY(heads_fit(k));
    MBA_TRY(heads_fit(v));
    const int64_t *dq = q->type.dim, *dk = k->type.dim;
    MBA_NEED(mba_type_equal(&k->type, &v->type), "attention: keys and values differ in type");
    MBA_NEED(q->type.dtype == k->type.dtype && dq[0] == dk[0] && dq[3] == dk[3],
             "attention: queries and keys differ in type, batch or head width");
    MBA_NEED(dq[2] % dk[2] == 0, "attention: %lld query heads do not share %lld key heads evenly", (long long)dq[2],
             (long long)dk[2]);
    MBA_NEED(isfinite(a->scale), "attention: a scale of %g", a->scale);
    MBA_NEED(!ids || dq[1] == dk[1],
             "attention: %lld queries, %lld keys\n"
             "why: document ids speak of one sequence",
             (long long)dq[1], (long long)dk[1]);
    MBA_NEED(!a->causal || dq[1] <= dk[1],
             "attention: %lld queries, %lld keys\n"
             "why: with a causal mask the queries are the last rows of one sequence",
             (long long)dq[1], (long long)dk[1]);
    MBA_NEED(!ids
                 || (ids->type.dtype == MBA_I32 && ids->type.rank == 2 && ids->type.dim[0] == dq[0]
                     && ids->type.dim[1] == dq[1]),
             "attention: the ids are not i32 (B, L)");
    MBA_NEED(!ids || mba_dense(ids) || ids->run == mba_cols(ids), "attention: the ids are no view of rows");
    return MBA_OK;
}

static mba_status attention_shape(const mba_node *n, mba_type *out)
{
    MBA_TRY(inputs_fit(n));
    const int64_t *q = n->in[Q]->type.dim;
    out[O] = n->in[Q]->type;
    out[LSE] = MBA_TYPE(MBA_F32, q[0], q[2], q[1]);
    return MBA_OK;
}

mba_tensor *mba__attention(mba_graph *g, mba_attention_args a)
{
    const double         width = a.q ? (double)mba_cols(a.q) : 1;
    const attention_attr t = { .scale = a.scale == 0 ? 1 / sqrt(width) : a.scale, .causal = a.causal };
    return MBA_APPEND(g, attention, &t, a.q, a.k, a.v, a.ids)->out[O];
}

/* ---- backward ---- */

/* True if two views may share an element. Columns of one pitch are compared exactly, all other views by their
 * bounds. */
static bool overlap(const mba_tensor *a, const mba_tensor *b)
{
    const int64_t end_a = a->offset + (mba_elems(a) / a->run - 1) * a->pitch + a->run;
    const int64_t end_b = b->offset + (mba_elems(b) / b->run - 1) * b->pitch + b->run;
    const int64_t ca = a->offset % a->pitch, cb = b->offset % b->pitch;
    if (a->st != b->st || end_a <= b->offset || end_b <= a->offset) return false;
    return a->pitch != b->pitch || !(ca + a->run <= cb || cb + b->run <= ca);
}

/* dq, dk and dv are written in one pass, so two of them that share memory could not be added to each other. */
static mba_status attention_bwd_shape(const mba_node *n, mba_type *out)
{
    MBA_TRY(inputs_fit(n));
    for (int i = Q; i <= V; i++)
        for (int j = i + 1; j <= V; j++)
            MBA_NEED(!overlap(n->in[i], n->in[j]),
                     "attention: %s and %s share memory, so their gradients would meet\n"
                     "fix: give q, k and v columns of their own",
                     n->op->in[i].name, n->op->in[j].name);
    MBA_TRY(heads_fit(n->in[OUT]));
    MBA_TRY(heads_fit(n->in[DOUT]));
    MBA_NEED(n->in[OUT]->type.dtype == n->in[Q]->type.dtype && n->in[DOUT]->type.dtype == n->in[Q]->type.dtype,
             "attention: the output or its gradient has another type than the queries");
    for (int k = Q; k <= V; k++) out[DQ + k - Q] = n->in[k]->type;
    return MBA_OK;
}

static void attention_grad(mba_graph *g, const mba_node *n, mba_tensor *const *d)
{
    mba_tensor *const *i = n->in;
    const mba_node *b = MBA_APPEND(g, attention_bwd, n->attr, i[Q], i[K], i[V], i[IDS], n->out[O], n->out[LSE], d[O]);
    for (int k = Q; k <= V; k++) mba_grad_add(g, i[k], b->out[DQ + k - Q]);
}

/* ---- cost: the pairs that `causal` allows; ids may mask more, which shapes do not show ---- */

static mba_cost attention_cost(const mba_node *n)
{
    const attention_dims d = attention_dims_of(n);
    mba_cost             c = mba_cost_io(n);
    c.tensor_flops = 4 * (double)d.P * d.pairs;
    c.special_ops = d.pairs;
    return c;
}

static mba_cost attention_bwd_cost(const mba_node *n)
{
    const attention_dims d = attention_dims_of(n);
    mba_cost             c = mba_cost_io(n);
    c.tensor_flops = 10 * (double)d.P * d.pairs;
    c.special_ops = d.pairs;
    return c;
}

/* Scores are sums over P, outputs over Lk, dk and dv over the queries of a group. */
static double attention_terms(const mba_node *n, int out)
{
    const attention_dims d = attention_dims_of(n);
    (void)out;
    return (double)(d.P + d.Lk);
}

static double attention_bwd_terms(const mba_node *n, int out)
{
    const attention_dims d = attention_dims_of(n);
    return (double)(d.P + (out == DQ ? d.Lk : d.L * d.group));
}

/* ---- plans for the CPU ---- */

attention_fwd_work attention_fwd_work_of(const attention_dims *d)
{
    const int64_t      P = attention_round(d->P, ATT_HEAD);
    attention_fwd_work w = { .q = ATT_QUERIES * P,
                             .o = ATT_QUERIES * P,
                             .s = ATT_KEYS * ATT_PANEL,
                             .m = ATT_QUERIES,
                             .l = ATT_QUERIES,
                             .ids = ATT_QUERIES };
    w.all = attention_round(w.q + w.o + w.s + w.m + w.l + w.ids, MBA_ALIGN_ELEMS);
    return w;
}

/* One worker per thread, but never more than there are items. */
static size_t workers_bytes(int64_t floats, int64_t items)
{
    const int64_t threads = mba_cpu_threads();
    return sizeof(float) * (size_t)(floats * (threads < items ? threads : items));
}

static mba_status attention_cpu_plan(mba_plan *p, const mba_node *n, const mba_machine *m)
{
    const attention_dims d = attention_dims_of(n);
    const int64_t        head = attention_round(d.Lk, ATT_STRIP) * attention_round(d.P, ATT_HEAD);
    const int64_t        items = d.B * d.H * mba_ceil(d.L, ATT_QUERIES);
    (void)m;
    MBA_REFUSE_IF(n->in[Q]->type.dtype != MBA_F32, "heads that are not fp32");
    mba_plan_scratch(p, "packed keys", sizeof(float) * (size_t)(d.B * d.Hk * head));
    mba_plan_scratch(p, "packed values", sizeof(float) * (size_t)(d.B * d.Hk * head));
    mba_plan_scratch(p, "workers", workers_bytes(attention_fwd_work_of(&d).all, items));
    return MBA_OK;
}

attention_bwd_work attention_bwd_work_of(const attention_dims *d)
{
    const int64_t P = attention_round(d->P, ATT_HEAD), L = attention_round(d->L, ATT_STRIP),
                  keys = attention_round(d->Lk, ATT_PANEL), tile = ATT_BWD_QUERIES * ATT_BWD_KEYS;
    attention_bwd_work w = { .kt = keys * P,
                             .vt = keys * P,
                             .kn = keys * P,
                             .qs = L * P,
                             .qn = L * P,
                             .gs = L * P,
                             .gn = L * P,
                             .dq = L * P,
                             .lse = L,
                             .delta = L,
                             .p = tile,
                             .ds = tile,
                             .ids = keys };
    w.all = attention_round(3 * keys * P + 5 * L * P + 2 * L + 2 * tile + keys, MBA_ALIGN_ELEMS);
    return w;
}

/* With few key heads (a batch of one) cores would be idle. Then each query head is a work item. */
int64_t attention_parts(const attention_dims *d) { return d->B * d->Hk < 32 ? d->group : 1; }

static mba_status attention_bwd_cpu_plan(mba_plan *p, const mba_node *n, const mba_machine *m)
{
    const attention_dims d = attention_dims_of(n);
    const int64_t        part = attention_round(d.Lk, ATT_PANEL) * attention_round(d.P, ATT_HEAD);
    const int64_t        items = d.B * d.Hk * attention_parts(&d);
    const size_t         all = sizeof(float) * (size_t)(items * part);
    (void)m;
    MBA_REFUSE_IF(n->in[Q]->type.dtype != MBA_F32, "heads that are not fp32");
    mba_plan_scratch(p, "parts of dk", all);
    mba_plan_scratch(p, "parts of dv", all);
    mba_plan_scratch(p, "workers", workers_bytes(attention_bwd_work_of(&d).all, items));
    return MBA_OK;
}

/* ---- cases: B, L, H, Hk, P, flags, Lk ---- */

static mba_tensor *heads(mba_graph *g, const char *name, int64_t B, int64_t L, int64_t H, int64_t P)
{
    return mba_case_act(g, name, MBA_TYPE(MBA_F32, B, L, H, P), MBA_INIT_NORMAL(1));
}

static mba_tensor *columns(mba_graph *g, mba_tensor *x, int64_t from, int64_t H, int64_t P)
{
    return mba_reshape(g, mba_slice(g, x, 2, from, H * P), MBA_TYPE(MBA_F32, x->type.dim[0], x->type.dim[1], H, P));
}

static void attention_build(mba_graph *g, const mba_case *c)
{
    const int64_t B = c->dim[0], L = c->dim[1], H = c->dim[2], Hk = c->dim[3], P = c->dim[4], flags = c->dim[5],
                  Lk = c->dim[6] ? c->dim[6] : L;
    mba_attention_args a = { .causal = flags & CAUSAL };
    if (flags & WITH_IDS) a.ids = mba_index(g, "ids", MBA_TYPE(MBA_I32, B, L), 3);
    if (flags & PACKED) { // q | k | v, columns of one matrix
        mba_tensor *x = mba_case_act(g, "qkv", MBA_TYPE(MBA_F32, B, L, (H + 2 * Hk) * P), MBA_INIT_NORMAL(0.5));
        x = mba_add(g, x, x);
        a.q = columns(g, x, 0, H, P);
        a.k = columns(g, x, H * P, Hk, P);
        a.v = columns(g, x, (H + Hk) * P, Hk, P);
    } else {
        a.q = heads(g, "q", B, L, H, P);
        a.k = heads(g, "k", B, Lk, Hk, P);
        a.v = heads(g, "v", B, Lk, Hk, P);
    }
    mba_tensor *y = mba__attention(g, a);
    if (!(flags & TWICE)) return;
    a.scale = 0.3; // a second use: gradients add up, and outputs are columns of one matrix
    mba_tensor *both = mba_concat(g, y, mba__attention(g, a));
    mba_add(g, both, both);
}

const mba_op mba_op_attention = {
    .name = "attention",
    .doc = "o = softmax(scale q k^T) v, by heads",
    .kind = MBA_ATTENTION,
    .in = { [Q] = MBA_SLOT("q"), [K] = MBA_SLOT("k"), [V] = MBA_SLOT("v"), [IDS] = MBA_SLOT("ids", .optional = true) },
    .out = { [O] = MBA_SLOT("o"), [LSE] = MBA_SLOT("lse", .saved = true) },
    .attr_bytes = sizeof(attention_attr),
    .shape = attention_shape,
    .grad = attention_grad,
    .cost = attention_cost,
    .ref = attention_ref,
    .ref_space = attention_ref_space,
    .cpu = (const mba_variant[]){ { "flash", attention_cpu_plan, MBA_CPU(attention_fwd) }, { 0 } },
    .cuda = (const mba_variant[]){ { "wgmma", attention_wgmma_plan, MBA_CUDA(attention_wgmma_cuda) },
                                   { "mma", attention_mma_plan, MBA_CUDA(attention_mma_cuda) },
                                   { "plain", attention_plain_plan, MBA_CUDA(attention_plain_cuda) },
                                   { "cudnn", attention_dnn_plan, MBA_CUDA(attention_dnn_cuda) },
                                   { 0 } },
    .build = attention_build,
    .terms = attention_terms,
    .cases = (const mba_case[]){ { { 2, 7, 2, 2, 5, CAUSAL }, "causal; odd length and width" },
                                 { { 2, 1, 3, 1, 4, CAUSAL }, "one row" },
                                 { { 1, 131, 1, 1, 2, CAUSAL }, "causal, over several tiles" },
                                 { { 1, 9, 6, 2, 3, CAUSAL }, "grouped heads" },
                                 { { 2, 11, 2, 1, 3, CAUSAL | WITH_IDS }, "causal inside documents" },
                                 { { 1, 10, 2, 1, 3, WITH_IDS }, "documents without order" },
                                 { { 2, 6, 2, 2, 4, 0 }, "every row sees every key" },
                                 { { 1, 3, 2, 1, 3, 0, 101 }, "more keys than queries" },
                                 { { 1, 101, 2, 1, 3, 0, 3 }, "more queries than keys" },
                                 { { 2, 5, 4, 2, 3, CAUSAL | PACKED }, "columns of one projection" },
                                 { { 2, 5, 4, 2, 3, CAUSAL | PACKED | TWICE | WITH_IDS },
                                   "views in and out, gradients added" },
                                 { { 1, 35, 2, 1, 8, CAUSAL | PACKED | TWICE | WITH_IDS },
                                   "the same with heads of eight values" },
                                 { { 2, 6, 1, 1, 40, 0 }, "heads of a vision model" },
                                 { { 0 }, NULL } },
    .device_cases = (const mba_case[]){ { { 1, 513, 2, 2, 64, CAUSAL },
                                          "nine tiles of keys: rings go round, a row alone in its block" },
                                        { { 1, 300, 4, 2, 64, CAUSAL | PACKED | WITH_IDS },
                                          "64: groups, documents, packed" },
                                        { { 2, 200, 3, 3, 64, PACKED | TWICE }, "64: gradients added" },
                                        { { 1, 260, 2, 1, 128, CAUSAL }, "128: groups" },
                                        { { 1, 131, 4, 2, 32, CAUSAL | PACKED }, "32: groups, packed" },
                                        { { 2, 196, 2, 2, 40, PACKED }, "windows of 14 x 14" },
                                        { { 0 }, NULL } },
    .sizes = (const mba_case[]){ { { 1, 1024, 12, 4, 64, CAUSAL | PACKED }, "hybrid-130m, 1024 tokens" },
                                 { { 1, 4096, 12, 4, 64, CAUSAL | PACKED }, "hybrid-130m, 4096 tokens" },
                                 { { 8, 2048, 16, 16, 64, CAUSAL | PACKED }, "hybrid-peer-370m, 8 x 2048 tokens" },
                                 { { 8, 2048, 16, 4, 128, CAUSAL | PACKED }, "hybrid-1b, 8 x 2048 tokens" },
                                 { { 128, 196, 8, 8, 40, PACKED }, "mambavision-t, 128 windows of 14 x 14" },
                                 { { 128, 49, 16, 16, 40, PACKED }, "mambavision-t, 128 windows of 7 x 7" },
                                 { { 0 }, NULL } },
};

const mba_op mba_op_attention_bwd = {
    .name = "attention_bwd",
    .doc = "dq, dk, dv from recomputed probabilities",
    .kind = MBA_ATTENTION,
    .no_grad = "a gradient",
    .in = { [Q] = MBA_SLOT("q"),
            [K] = MBA_SLOT("k"),
            [V] = MBA_SLOT("v"),
            [IDS] = MBA_SLOT("ids", .optional = true),
            [OUT] = MBA_SLOT("o"),
            [LSES] = MBA_SLOT("lse"),
            [DOUT] = MBA_SLOT("do") },
    .out = { [DQ] = MBA_SLOT("dq", .adds = true),
             [DK] = MBA_SLOT("dk", .adds = true),
             [DV] = MBA_SLOT("dv", .adds = true) },
    .attr_bytes = sizeof(attention_attr),
    .shape = attention_bwd_shape,
    .cost = attention_bwd_cost,
    .ref = attention_bwd_ref,
    .ref_space = attention_ref_space,
    .cpu = (const mba_variant[]){ { "flash", attention_bwd_cpu_plan, MBA_CPU(attention_bwd) }, { 0 } },
    .cuda = (const mba_variant[]){ { "one_tile", attention_bwd_one_tile_plan, MBA_CUDA(attention_bwd_one_tile_cuda) },
                                   { "wgmma", attention_bwd_wgmma_plan, MBA_CUDA(attention_bwd_wgmma_cuda) },
                                   { "mma", attention_bwd_mma_plan, MBA_CUDA(attention_bwd_mma_cuda) },
                                   { "plain", attention_bwd_plain_plan, MBA_CUDA(attention_bwd_plain_cuda) },
                                   { "cudnn", attention_bwd_dnn_plan, MBA_CUDA(attention_bwd_dnn_cuda) },
                                   { 0 } },
    .terms = attention_bwd_terms,
};
