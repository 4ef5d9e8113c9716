// SPDX-License-Identifier: Apache-2.0
/* gated_gcn.c -- GatedGCN message passing: gated messages along edges, and their gradient. The declaration. */
#include "ops/gated_gcn/gated_gcn.h"

#include "core/rng.h"
#include "ops/add/add.h"
#include "ops/cast/cast.h"
#include "ops/gated_gcn/gated_gcn_slots.h"

/* Checks an index vector of a graph: dense, of this length and bound. */
static mba_status need_index(const mba_tensor *t, int64_t elems, int64_t bound)
{
    MBA_NEED(t->type.dtype == MBA_I32 && t->bound > 0 && !t->may_ignore && mba_dense(t),
             "gated_gcn: %s is not a dense index\nfix: make it with mba_index", t->name);
    MBA_NEED(mba_elems(t) == elems && t->bound <= bound,
             "gated_gcn: %s has %lld values below %lld, wanted %lld below %lld", t->name, (long long)mba_elems(t),
             (long long)t->bound, (long long)elems, (long long)bound);
    return MBA_OK;
}

static mba_status gated_gcn_shape(const mba_node *n, mba_type *out)
{
    const int64_t N = mba_rows(n->in[A]), edges = mba_rows(n->in[C]);
    for (int k = A; k <= C; k++) {
        MBA_TRY(mba__need_rows("gated_gcn", n->in[k]));
        MBA_NEED(n->in[k]->type.dtype == n->in[A]->type.dtype, "gated_gcn: %s and %s differ in type", n->in[k]->name,
                 n->in[A]->name);
        MBA_NEED(mba_dense(n->in[k]) || n->in[k]->run == mba_cols(n->in[k]),
                 "gated_gcn: the rows of %s do not lie at one distance\nwhy: it is a reshaped view\n"
                 "fix: take a slice of columns, or copy it first",
                 n->in[k]->name);
        MBA_NEED(n->in[k]->type.rank == 2 && mba_cols(n->in[k]) == mba_cols(n->in[A])
                     && (k == C || mba_rows(n->in[k]) == N),
                 "gated_gcn: %s has the wrong shape\nwhy: a, b, d, e are (N, H) and c is (E, H)", n->in[k]->name);
    }
    MBA_TRY(need_index(n->in[SRC], edges, N));
    MBA_TRY(need_index(n->in[OUT_EDGE], edges, edges));
    MBA_TRY(need_index(n->in[IN_PTR], N + 1, edges + 1));
    MBA_TRY(need_index(n->in[OUT_PTR], N + 1, edges + 1));
    out[XT] = out[AGG] = out[RDEN] = n->in[A]->type;
    out[AGG].dtype = out[RDEN].dtype = MBA_F32; // few rows, and 1 / den is large where gates are closed
    out[EH] = n->in[C]->type;
    return MBA_OK;
}

static mba_status gated_gcn_bwd_shape(const mba_node *n, mba_type *out)
{
    out[DA] = out[DB] = out[DD] = out[DE] = n->in[BB]->type;
    out[DC] = n->in[EHB]->type;
    return MBA_OK;
}

mba_gated_gcn_out mba_gated_gcn_of(mba_graph *g, const mba_gated_gcn_args *a)
{
    const mba_node *n = MBA_APPEND(g, gated_gcn, NULL, a->a, a->b, a->d, a->e, a->c, a->src, a->in_ptr, a->out_ptr,
                                   a->out_edge);
    return (mba_gated_gcn_out){ n->out[XT], n->out[EH] };
}

static void gated_gcn_grad(mba_graph *g, const mba_node *n, mba_tensor *const *d)
{
    mba_tensor *dxt = d[XT];
    if (!dxt) dxt = MBA_APPEND(g, fill, &((mba_fill_attr){ 0, n->out[XT]->type }), NULL)->out[0];
    const mba_node *b = MBA_APPEND(g, gated_gcn_bwd, NULL, dxt, d[EH], n->in[B], n->out[EH], n->out[AGG], n->out[RDEN],
                                   n->in[SRC], n->in[IN_PTR], n->in[OUT_PTR], n->in[OUT_EDGE]);
    mba_grad_add(g, n->in[C], b->out[DC]);
    mba_grad_add(g, n->in[A], b->out[DA]); // in the order in which they are written: two of them may be one tensor
    mba_grad_add(g, n->in[D], b->out[DD]);
    mba_grad_add(g, n->in[B], b->out[DB]);
    mba_grad_add(g, n->in[E], b->out[DE]);
}

/* Counts bytes as if every gathered row were in a cache after its first use. */
static mba_cost gated_gcn_cost(const mba_node *n)
{
    mba_cost     c = mba_cost_io(n);
    const double NH = (double)mba_elems(n->in[A]), EdH = (double)mba_elems(n->in[C]);
    c.vector_flops = 7 * EdH + 3 * NH;
    c.special_ops = 2 * EdH + NH;
    return c;
}

static mba_cost gated_gcn_bwd_cost(const mba_node *n)
{
    mba_cost     c = mba_cost_io(n);
    const double NH = (double)mba_elems(n->in[BB]), EdH = (double)mba_elems(n->in[EHB]);
    c.vector_flops = 10 * EdH + 2 * NH;
    c.special_ops = 2 * EdH;
    return c;
}

/* One node may have all the edges. */
static double gated_gcn_terms(const mba_node *n, int out)
{
    (void)out;
    return (double)mba_rows(n->in[C]);
}

static double gated_gcn_bwd_terms(const mba_node *n, int out)
{
    return out == DC || out == DA ? 1 : (double)mba_rows(n->in[EHB]);
}

/* Scratch of the backward pass: what an edge leaves for its source, s gn, and t if dc adds and so cannot hold it. */
static mba_status gated_gcn_bwd_plan(mba_plan *p, const mba_node *n, const mba_machine *m)
{
    const size_t bytes = sizeof(float) * (size_t)mba_elems(n->in[EHB]);
    MBA_TRY(mba__plan_f32(p, n, m));
    mba_plan_scratch(p, "s gn", bytes);
    if (mba_adds(n, DC)) mba_plan_scratch(p, "t", bytes);
    return MBA_OK;
}

/* ---- plans for CUDA ---- */

/* Columns per thread: 16 bytes, or 8 bytes of bf16, if every row of the node is aligned; else one. */
static int values_at_once(const mba_node *n, int64_t cols, int64_t element_bytes)
{
    int v = (int)(16 / element_bytes);
    for (int k = 0; k < MBA_IN_MAX + MBA_OUT_MAX; k++) {
        const mba_tensor *t = k < MBA_IN_MAX ? n->in[k] : n->out[k - MBA_IN_MAX];
        if (!t || t->type.dtype == MBA_I32) continue;
        while (v > 1 && (cols % v || t->offset % v || (!mba_dense(t) && t->pitch % v))) v = v == 8 ? 4 : 1;
    }
    return v;
}

/* A thread group takes up to EACH edges of a node of mean degree. Nodes with more than LONG edges per group are
 * processed by all groups of the block. */
gated_gcn_node_loop gated_gcn_node_loop_of(const mba_node *n)
{
    enum { EACH = 8, LONG = 32, SPLIT_MAX = 16 };
    const bool          back = n->op == &mba_op_gated_gcn_bwd;
    const mba_tensor   *x = n->in[back ? BB : A], *e = n->in[back ? EHB : C];
    const int64_t       cols = mba_cols(x), N = mba_rows(x), degree = mba_ceil(mba_rows(e), N);
    gated_gcn_node_loop w = { .values = values_at_once(n, cols, (int64_t)mba_dtype_bytes(x->type.dtype)), .split = 1 };
    const int64_t       owners = cols / w.values;
    w.lanes = (int)(owners < GATED_GCN_THREADS ? owners : GATED_GCN_THREADS);
    w.across = mba_ceil(owners, w.lanes);
    w.groups = GATED_GCN_THREADS / w.lanes;
    while (w.split * EACH < degree && w.split < SPLIT_MAX && 2 * w.split <= w.groups) w.split *= 2;
    w.nodes = w.groups / w.split;
    w.hub = w.split * LONG;
    w.blocks = mba_ceil(N, w.nodes);
    return w;
}

static mba_launch *plan_node_loop(mba_plan *p, const mba_node *n, const char *kernel, int regs_wide)
{
    const gated_gcn_node_loop w = gated_gcn_node_loop_of(n);
    mba_launch               *l = mba_plan_launch(p, kernel, MBA_VECTOR, w.blocks, GATED_GCN_THREADS);
    l->grid[1] = w.across;
    l->regs = w.values == 8 ? regs_wide : w.values == 4 ? 80 : 56; // by ptxas
    return l;
}

/* Plans what one block moves of `rows` rows. Rows that edges gather are counted once: nodes of a graph lie side by
 * side, and L1 has what neighbours share (counted on the H200: 1 to 1.5 times). */
static void plan_node_bytes(mba_launch *l, mba_work work, int arg, double rows, const mba_tensor *t)
{
    mba_phase_move(l, work, arg,
                   rows * (double)mba_cols(t) * (double)mba_dtype_bytes(t->type.dtype)
                       / (double)(l->grid[0] * l->grid[1]));
}

static void plan_node_out(mba_launch *l, const mba_node *n, int k)
{
    if (n->out[k]) mba_phase_out(l, n, k, mba_tensor_bytes(n->out[k]) / (double)(l->grid[0] * l->grid[1]));
}

static void plan_node_ops(mba_launch *l, const mba_node *n)
{
    const mba_cost c = n->op->cost(n);
    const double   grid = (double)(l->grid[0] * l->grid[1]);
    mba_phase_work(l, MBA_FMA, c.vector_flops / 2 / grid, NULL);
    mba_phase_work(l, MBA_SFU, c.special_ops / grid, NULL);
}

static mba_status gated_gcn_cuda_plan(mba_plan *p, const mba_node *n, const mba_machine *m)
{
    MBA_REFUSE_IF(m->cc < 80, "a device of compute capability %d", m->cc);
    const double nodes = (double)mba_rows(n->in[A]), edges = (double)mba_rows(n->in[C]);
    mba_launch  *l = plan_node_loop(p, n, "gated_gcn_nodes", 80);
    plan_node_bytes(l, MBA_LOAD, MBA_ARG_IN(D), nodes, n->in[D]);
    plan_node_bytes(l, MBA_LOAD, MBA_ARG_IN(E), nodes, n->in[E]);
    plan_node_bytes(l, MBA_LOAD, MBA_ARG_IN(B), nodes, n->in[B]);
    plan_node_bytes(l, MBA_LOAD, MBA_ARG_IN(C), edges, n->in[C]);
    plan_node_ops(l, n);
    plan_node_bytes(l, MBA_STORE, MBA_ARG_OUT(EH), edges, n->out[EH]);
    plan_node_bytes(l, MBA_LOAD, MBA_ARG_IN(A), nodes, n->in[A]);
    for (int k = XT; k <= RDEN; k++)
        if (k != EH) plan_node_bytes(l, MBA_STORE, MBA_ARG_OUT(k), nodes, n->out[k]);
    return MBA_OK;
}

/* Edges leave s gn for their sources (and t, if dc adds), in the type of the activations. */
static mba_status gated_gcn_bwd_cuda_plan(mba_plan *p, const mba_node *n, const mba_machine *m)
{
    MBA_REFUSE_IF(m->cc < 80, "a device of compute capability %d", m->cc);
    const mba_tensor *b = n->in[BB], *eh = n->in[EHB];
    const double      nodes = (double)mba_rows(b), edges = (double)mba_rows(eh);
    const int         sgn = mba_plan_scratch(p, "s gn", (size_t)mba_tensor_bytes(eh));
    const int         t = mba_adds(n, DC) ? MBA_ARG_SCRATCH(mba_plan_scratch(p, "t", (size_t)mba_tensor_bytes(eh)))
                                          : MBA_ARG_OUT(DC);
    mba_launch       *l = plan_node_loop(p, n, "gated_gcn_targets", 100);
    for (int k = DXT; k <= RDENB; k++)
        if (k != DEH && k != BB && k != EHB) plan_node_bytes(l, MBA_LOAD, MBA_ARG_IN(k), nodes, n->in[k]);
    plan_node_bytes(l, MBA_LOAD, MBA_ARG_IN(BB), nodes, b);
    plan_node_bytes(l, MBA_LOAD, MBA_ARG_IN(EHB), edges, eh);
    if (n->in[DEH]) plan_node_bytes(l, MBA_LOAD, MBA_ARG_IN(DEH), edges, eh);
    plan_node_ops(l, n);
    plan_node_bytes(l, MBA_STORE, MBA_ARG_SCRATCH(sgn), edges, eh);
    plan_node_bytes(l, MBA_STORE, t, edges, eh);
    if (mba_adds(n, DC)) plan_node_out(l, n, DC);
    plan_node_out(l, n, DA);
    plan_node_out(l, n, DD);
    l = plan_node_loop(p, n, "gated_gcn_sources", 80);
    plan_node_bytes(l, MBA_LOAD, MBA_ARG_SCRATCH(sgn), edges, eh);
    plan_node_bytes(l, MBA_LOAD, t, edges, eh);
    plan_node_out(l, n, DB);
    plan_node_out(l, n, DE);
    return MBA_OK;
}

/* ---- cases: a random graph ---- */

/* Edges are ordered by target: equal shares, or (hub) three quarters of all edges end in node 1. */
static int64_t target_of(int64_t k, int64_t edges, int64_t N, bool hub)
{
    const int64_t most = hub ? edges * 3 / 4 : 0;
    if (k < most) return 1;
    return hub ? 1 + (k - most) * (N - 1) / (edges - most) : k * N / edges;
}

/* Edge k starts at a random node, or at a random one of `near` neighbours; with `hub` most edges start at the last
 * node. */
static void example_graph(mba_graph *g, const mba_gated_gcn_args *a, int64_t edges, int64_t near, bool hub)
{
    const int64_t N = mba_rows(a->a), all = mba_elems(a->src);
    double       *src = mba_arena_new(g->arena, double, all), *out_edge = mba_arena_new(g->arena, double, all);
    double       *in = mba_arena_new(g->arena, double, N + 2), *out = mba_arena_new(g->arena, double, N + 2);
    for (int64_t k = 0; k < edges; k++) {
        uint32_t      u[4];
        const int64_t i = target_of(k, edges, N, hub);
        mba_philox(u, 17, 0, (uint64_t)k);
        src[k] = (double)(near ? (i + u[0] % near) % N : hub && u[1] % 4 ? N - 1 : u[0] % N);
        in[i + 1]++;
        out[(int64_t)src[k] + 2]++;
    }
    for (int64_t i = 0; i < N; i++) in[i + 1] += in[i];
    for (int64_t i = 0; i <= N; i++) out[i + 1] += out[i];
    for (int64_t k = 0; k < edges; k++) out_edge[(int64_t)out[(int64_t)src[k] + 1]++] = (double)k;
    mba_example(g, a->src, src);
    mba_example(g, a->out_edge, out_edge);
    mba_example(g, a->in_ptr, in);
    mba_example(g, a->out_ptr, out);
}

/* dims: N, E, H, valid edges (-1: none), near, whether c is used again (then its gradient adds), hubs. */
static void gated_gcn_build(mba_graph *g, const mba_case *k)
{
    const int64_t N = k->dim[0], edges = k->dim[1], H = k->dim[2];
    const int64_t real = k->dim[3] < 0 ? 0 : k->dim[3] ? k->dim[3] : edges;
    mba_tensor   *n4 = mba_case_act(g, "n4", MBA_TYPE(MBA_F32, N, 4 * H), MBA_INIT_NORMAL(1));
    mba_tensor   *c = mba_case_act(g, "c", MBA_TYPE(MBA_F32, edges, H), MBA_INIT_NORMAL(1));
    n4 = mba_add(g, n4, n4);
    const mba_gated_gcn_args a = { .a = mba_slice(g, n4, 1, 0, H),
                                   .b = mba_slice(g, n4, 1, H, H),
                                   .d = mba_slice(g, n4, 1, 2 * H, H),
                                   .e = mba_slice(g, n4, 1, 3 * H, H),
                                   .c = c,
                                   .src = mba_index(g, "src", MBA_TYPE(MBA_I32, edges), N),
                                   .in_ptr = mba_index(g, "in_ptr", MBA_TYPE(MBA_I32, N + 1), edges + 1),
                                   .out_ptr = mba_index(g, "out_ptr", MBA_TYPE(MBA_I32, N + 1), edges + 1),
                                   .out_edge = mba_index(g, "out_edge", MBA_TYPE(MBA_I32, edges), edges) };
    example_graph(g, &a, real, k->dim[4], k->dim[6]);
    const mba_gated_gcn_out o = mba_gated_gcn_of(g, &a);
    if (k->dim[5]) { // a second layer uses the edges of the first, and c again
        mba_gated_gcn_args b = a;
        b.a = o.x;
        b.c = mba_add(g, o.eh, c);
        mba_gated_gcn_of(g, &b);
        mba_add(g, o.eh, b.c);
    }
}

const mba_op mba_op_gated_gcn = {
    .name = "gated_gcn",
    .doc = "x = a + gated mean of b over in-edges; eh = d + e + c",
    .kind = MBA_MESSAGE,
    .in = { [A] = MBA_SLOT("a"),
            [B] = MBA_SLOT("b"),
            [D] = MBA_SLOT("d"),
            [E] = MBA_SLOT("e"),
            [C] = MBA_SLOT("c"),
            [SRC] = MBA_SLOT("src"),
            [IN_PTR] = MBA_SLOT("in_ptr"),
            [OUT_PTR] = MBA_SLOT("out_ptr"),
            [OUT_EDGE] = MBA_SLOT("out_edge") },
    .out = { [XT] = MBA_SLOT("xt"),
             [EH] = MBA_SLOT("eh", .reuse = MBA_FROM(C)),
             [AGG] = MBA_SLOT("agg", .saved = true),
             [RDEN] = MBA_SLOT("rden", .saved = true) },
    .shape = gated_gcn_shape,
    .grad = gated_gcn_grad,
    .cost = gated_gcn_cost,
    .ref = gated_gcn_ref,
    .terms = gated_gcn_terms,
    .cpu = (const mba_variant[]){ { "nodes", mba__plan_f32, MBA_CPU(gated_gcn_fwd) }, { 0 } },
    .cuda = (const mba_variant[]){ { "nodes", gated_gcn_cuda_plan, MBA_CUDA(gated_gcn_cuda) }, { 0 } },
    .build = gated_gcn_build,
    .cases = (const mba_case[]){ { { 5, 8, 3 }, "views of one matrix" },
                                 { { 40, 60, 2 }, "more nodes than one item takes, nodes without edges" },
                                 { { 3, 7, 37 }, "whole vectors, then a tail" },
                                 { { 4, 6, 3, 4 }, "fewer edges than rows" },
                                 { { 3, 2, 2, -1 }, "no edges at all" },
                                 { { 1, 2, 4 }, "one node with loops" },
                                 { { 5, 9, 3, 0, 2, 1 }, "two layers; gradients add" },
                                 { { 6, 11, 16, 0, 0, 1 }, "whole vectors of 16 bytes; gradients add" },
                                 { { 7, 12, 4 }, "vectors of 8 bytes in bf16" },
                                 { { 40, 90, 8, 80, 0, 0, 1 }, "a hub in and a hub out" },
                                 { { 8, 400, 3, 0, 0, 0, 1 }, "many edges for few nodes, and hubs" },
                                 { { 0 }, NULL } },
    .sizes = (const mba_case[]){ { { 15341, 86735, 96, 0, 300 }, "PascalVOC-SP, 32 graphs" },
                                 { { 3805, 195165, 64, 0, 119 }, "PATTERN, 32 graphs" },
                                 { { 0 }, NULL } },
};

const mba_op mba_op_gated_gcn_bwd = {
    .name = "gated_gcn_bwd",
    .doc = "gradients of gated_gcn",
    .kind = MBA_MESSAGE,
    .no_grad = "a gradient",
    .in = { [DXT] = MBA_SLOT("dxt"),
            [DEH] = MBA_SLOT("deh", .optional = true),
            [BB] = MBA_SLOT("b"),
            [EHB] = MBA_SLOT("eh"),
            [AGGB] = MBA_SLOT("agg"),
            [RDENB] = MBA_SLOT("rden"),
            [SRCB] = MBA_SLOT("src"),
            [IN_PTRB] = MBA_SLOT("in_ptr"),
            [OUT_PTRB] = MBA_SLOT("out_ptr"),
            [OUT_EDGEB] = MBA_SLOT("out_edge") },
    .out = { [DA] = MBA_SLOT("da", .adds = true),
             [DB] = MBA_SLOT("db", .adds = true),
             [DD] = MBA_SLOT("dd", .adds = true),
             [DE] = MBA_SLOT("de", .adds = true),
             [DC] = MBA_SLOT("dc", .adds = true, .reuse = MBA_FROM(DEH)) },
    .shape = gated_gcn_bwd_shape,
    .cost = gated_gcn_bwd_cost,
    .ref = gated_gcn_bwd_ref,
    .terms = gated_gcn_bwd_terms,
    .cpu = (const mba_variant[]){ { "nodes", gated_gcn_bwd_plan, MBA_CPU(gated_gcn_bwd) }, { 0 } },
    .cuda = (const mba_variant[]){ { "nodes", gated_gcn_bwd_cuda_plan, MBA_CUDA(gated_gcn_bwd_cuda) }, { 0 } },
};
