// SPDX-License-Identifier: Apache-2.0
/* segment_pool.c -- mean or maximum over the rows of each graph, and its gradient: the declaration. */
#include "ops/segment_pool/segment_pool.h"

#include "ops/add/add.h"
#include "ops/cast/cast.h"
#include "ops/segment_pool/segment_pool_slots.h"

static mba_status segment_pool_shape(const mba_node *n, mba_type *out)
{
    const mba_tensor *x = n->in[X], *p = n->in[PTR];
    MBA_TRY(mba__need_rows("segment_pool", x));
    MBA_NEED(x->type.rank == 2, "segment_pool: %s is no matrix", x->name);
    MBA_NEED(p->type.dtype == MBA_I32 && p->bound > 0 && !p->may_ignore && mba_dense(p) && mba_elems(p) > 1,
             "segment_pool: %s are no row pointers\nfix: make them with mba_index, one more than graphs", p->name);
    MBA_NEED(p->bound <= mba_rows(x) + 1, "segment_pool: %s goes up to %lld, %s has %lld rows", p->name,
             (long long)p->bound - 1, x->name, (long long)mba_rows(x));
    out[Y] = x->type;
    out[Y].dim[0] = mba_elems(p) - 1;
    out[Y].count = x->type.count == MBA_ALL ? MBA_ALL : MBA_GRAPHS;
    if (((const segment_pool_attr *)n->attr)->kind != MBA_POOL_MAX) return MBA_OK;
    out[ARG] = out[Y];
    out[ARG].dtype = MBA_I32;
    return MBA_OK;
}

static mba_status segment_pool_bwd_shape(const mba_node *n, mba_type *out)
{
    out[DX] = ((const segment_pool_bwd_attr *)n->attr)->x;
    return MBA_OK;
}

mba_tensor *mba_segment_pool(mba_graph *g, mba_tensor *x, mba_tensor *ptr, mba_pool kind)
{
    return MBA_APPEND(g, segment_pool, &(segment_pool_attr){ kind }, x, ptr)->out[Y];
}

static void segment_pool_grad(mba_graph *g, const mba_node *n, mba_tensor *const *d)
{
    const segment_pool_bwd_attr a = { ((const segment_pool_attr *)n->attr)->kind, n->in[X]->type };
    mba_grad_add(g, n->in[X], MBA_APPEND(g, segment_pool_bwd, &a, d[Y], n->in[PTR], n->out[ARG])->out[DX]);
}

static mba_cost segment_pool_cost(const mba_node *n)
{
    mba_cost c = mba_cost_io(n);
    c.vector_flops = (double)mba_elems(n->op == &mba_op_segment_pool ? n->in[X] : n->out[DX]);
    return c;
}

static double segment_pool_terms(const mba_node *n, int out)
{
    (void)out;
    return (double)mba_rows(n->in[X]); // one graph may have all rows
}

/* CUDA: one block per graph and block of channels. */
static mba_status segment_pool_cuda_plan(mba_plan *p, const mba_node *n, const mba_machine *m)
{
    const int64_t C = mba_cols(n->in[X]), G = mba_rows(n->out[Y]);
    const int     at_once = segment_pool_at_once(n->in[X], n->out[Y]), lanes = segment_pool_lanes(C, at_once);
    MBA_REFUSE_IF(m->cc < 80, "a device of compute capability %d", m->cc);
    mba_launch *l = mba_plan_stream(p, n, "segment_pool_fwd", G * mba_ceil(C, lanes * at_once), SEGMENT_POOL_BLOCK, 46);
    mba_phase_work(l, MBA_BARRIER, 10, NULL);
    return MBA_OK;
}

/* CUDA: as many blocks as fill the device share the rows of a graph. One additional graph stands for the rows after the
 * last. */
static mba_status segment_pool_bwd_cuda_plan(mba_plan *p, const mba_node *n, const mba_machine *m)
{
    enum { BLOCKS_SM = 4 };
    MBA_REFUSE_IF(m->cc < 80, "a device of compute capability %d", m->cc);
    const int64_t graphs = mba_rows(n->in[DY]) + 1, shares = mba_ceil(BLOCKS_SM * (int64_t)m->sm, graphs);
    mba_plan_stream(p, n, "segment_pool_bwd_rows", graphs * shares, SEGMENT_POOL_BWD_BLOCK, 48);
    return MBA_OK;
}

/* dims: N, C, G, kind, views. Every third graph is empty; the last one ends one row before the last. */
static void segment_pool_build(mba_graph *g, const mba_case *c)
{
    const int64_t N = c->dim[0], C = c->dim[1], G = c->dim[2];
    mba_tensor   *x = mba_case_act(g, "x", MBA_TYPE(MBA_F32, N, C + 2 * c->dim[4]), MBA_INIT_NORMAL(1));
    mba_tensor   *ptr = mba_index(g, "ptr", MBA_TYPE(MBA_I32, G + 1), N + 1);
    double       *p = mba_arena_new(g->arena, double, G + 1);
    for (int64_t s = 0; s < G; s++) p[s + 1] = s % 3 == 1 ? p[s] : (double)((s + 1) * (N - 1) / G);
    mba_example(g, ptr, p);
    if (!c->dim[4]) {
        mba_segment_pool(g, x, ptr, (mba_pool)c->dim[3]);
        return;
    }
    mba_tensor *part = mba_slice(g, mba_add(g, x, x), 1, 1, C);
    mba_tensor *j = mba_concat(g, mba_segment_pool(g, part, ptr, MBA_POOL_MEAN),
                               mba_segment_pool(g, part, ptr, MBA_POOL_MAX));
    mba_add(g, j, j);
}

const mba_op mba_op_segment_pool = {
    .name = "segment_pool",
    .doc = "mean or maximum over the rows of each graph",
    .kind = MBA_REDUCTION,
    .in = { [X] = MBA_SLOT("x"), [PTR] = MBA_SLOT("ptr") },
    .out = { [Y] = MBA_SLOT("y"), [ARG] = MBA_SLOT("arg", .saved = true) },
    .attr_bytes = sizeof(segment_pool_attr),
    .shape = segment_pool_shape,
    .grad = segment_pool_grad,
    .cost = segment_pool_cost,
    .ref = segment_pool_ref,
    .terms = segment_pool_terms,
    .cpu = (const mba_variant[]){ { "graphs", mba__plan_f32, MBA_CPU(segment_pool_fwd) }, { 0 } },
    .cuda = (const mba_variant[]){ { "graphs", segment_pool_cuda_plan, MBA_CUDA(segment_pool_cuda) }, { 0 } },
    .build = segment_pool_build,
    .cases = (const mba_case[]){ { { 12, 5, 4, MBA_POOL_MEAN }, "means; an empty graph and a row of nobody" },
                                 { { 12, 5, 4, MBA_POOL_MAX }, "maxima" },
                                 { { 5, 3, 1, MBA_POOL_MAX }, "one graph" },
                                 { { 90, 40, 3, MBA_POOL_MEAN },
                                   "means in vectors of 16 bytes, graphs longer than a block has rows" },
                                 { { 90, 40, 3, MBA_POOL_MAX }, "maxima in vectors of 16 bytes" },
                                 { { 9, 4, 5, 0, 1 }, "views in and out; the gradient adds" },
                                 { { 0 }, NULL } },
    .sizes = (const mba_case[]){ { { 19320, 96, 128, MBA_POOL_MEAN }, "Peptides, 128 graphs" },
                                 { { 22565, 64, 16, MBA_POOL_MAX }, "MalNet-Tiny, 16 graphs" },
                                 { { 0 }, NULL } },
};

const mba_op mba_op_segment_pool_bwd = {
    .name = "segment_pool_bwd",
    .doc = "gradient of segment_pool",
    .kind = MBA_REDUCTION,
    .no_grad = "a gradient",
    .in = { [DY] = MBA_SLOT("dy"), [PTRB] = MBA_SLOT("ptr"), [ARGB] = MBA_SLOT("arg", .optional = true) },
    .out = { [DX] = MBA_SLOT("dx", .adds = true) },
    .attr_bytes = sizeof(segment_pool_bwd_attr),
    .shape = segment_pool_bwd_shape,
    .cost = segment_pool_cost,
    .ref = segment_pool_bwd_ref,
    .cpu = (const mba_variant[]){ { "graphs", mba__plan_f32, MBA_CPU(segment_pool_bwd) }, { 0 } },
    .cuda = (const mba_variant[]){ { "graphs", segment_pool_bwd_cuda_plan, MBA_CUDA(segment_pool_bwd_cuda) }, { 0 } },
};
