// SPDX-License-Identifier: Apache-2.0
/* residual.c -- y = x + f gamma v, f per sample, gamma per channel: the declaration. The gradient of x is dy itself.
 * The backward node has the random stream of the forward node, so it draws the same numbers. */
#include "ops/residual/residual.h"

#include "ops/add/add.h"
#include "ops/cast/cast.h"
#include "ops/residual/residual_slots.h"

static mba_status residual_shape(const mba_node *n, mba_type *out)
{
    const residual_attr *a = n->attr;
    const mba_tensor    *x = n->in[X], *v = n->in[BRANCH];
    MBA_TRY(mba__need_rows("residual", x));
    MBA_TRY(mba__need_rows("residual", v));
    MBA_NEED(mba_cols(x) == mba_cols(v) && mba_rows(x) == mba_rows(v),
             "residual: a stream of %lld x %lld, a branch of %lld x %lld", (long long)mba_rows(x),
             (long long)mba_cols(x), (long long)mba_rows(v), (long long)mba_cols(v));
    MBA_NEED(!n->in[GAMMA] || (mba_dense(n->in[GAMMA]) && mba_elems(n->in[GAMMA]) == mba_cols(x)),
             "residual: rows of %lld, a gamma of %lld", (long long)mba_cols(x), (long long)mba_elems(n->in[GAMMA]));
    MBA_NEED(!n->in[FACTOR]
                 || (mba_dense(n->in[FACTOR]) && mba_elems(n->in[FACTOR]) * a->rows == mba_rows(x)
                     && n->in[FACTOR]->type.dtype == MBA_F32 && !n->in[FACTOR]->needs_grad),
             "residual: %lld factors for samples of %lld of %lld rows\nwhy: one each, without a gradient",
             (long long)mba_elems(n->in[FACTOR]), (long long)a->rows, (long long)mba_rows(x));
    MBA_NEED(a->drop >= 0 && a->drop < 1, "residual: a probability of %g\nfix: 0 <= drop < 1", a->drop);
    MBA_NEED(a->rows > 0 && mba_rows(x) % a->rows == 0, "residual: %lld rows are not samples of %lld",
             (long long)mba_rows(x), (long long)a->rows);
    out[Y] = x->type;
    return MBA_OK;
}

static mba_status residual_bwd_shape(const mba_node *n, mba_type *out)
{
    out[DV] = n->in[DY]->type;
    if (n->in[GAMMAB]) out[DGAMMA] = MBA_TYPE(MBA_F32, mba_cols(n->in[DY]));
    return MBA_OK;
}

mba_tensor *mba_residual_(mba_graph *g, mba_residual_args a)
{
    const float drop = a.active && !a.factor ? a.drop : 0;
    if (!a.gamma && !a.factor && drop == 0) return mba_add(g, a.x, a.v);
    if (!a.rows) a.rows = mba_rows(a.x) / a.x->type.dim[0];
    return MBA_APPEND(g, residual, &((residual_attr){ (double)drop, a.rows }), a.x, a.v, a.gamma, a.factor)->out[Y];
}

static void residual_grad(mba_graph *g, const mba_node *n, mba_tensor *const *d)
{
    if (mba_wants(n->in[BRANCH]) || mba_wants(n->in[GAMMA])) {
        mba_tensor     *v = n->in[GAMMA] ? n->in[BRANCH] : NULL;
        const mba_node *b = MBA_APPEND(g, residual_bwd, n->attr, d[Y], v, n->in[GAMMA], n->in[FACTOR]);
        mba_grad_add(g, n->in[BRANCH], b->out[DV]);
        if (n->in[GAMMA]) mba_grad_add(g, n->in[GAMMA], b->out[DGAMMA]);
    }
    mba_grad_pass(g, n->in[X], d[Y]); // last: later contributions add into dy, which the node above must read before
}

static mba_cost residual_cost(const mba_node *n)
{
    mba_cost c = mba_cost_io(n);
    c.vector_flops = (n->in[GAMMA] ? 3.0 : 2.0) * (double)mba_elems(n->in[0]);
    return c;
}

static double residual_bwd_terms(const mba_node *n, int out) { return out == DGAMMA ? (double)mba_rows(n->in[DY]) : 1; }

static mba_status residual_bwd_plan(mba_plan *p, const mba_node *n, const mba_machine *m)
{
    MBA_TRY(mba__plan_f32(p, n, m));
    const int64_t sums = mba__parts(mba_rows(n->in[DY])) * mba_cols(n->in[DY]);
    if (n->in[GAMMAB]) mba_plan_scratch(p, "dgamma parts", sizeof(float) * (size_t)sums);
    return MBA_OK;
}

static mba_status residual_bwd_cuda_plan(mba_plan *p, const mba_node *n, const mba_machine *m)
{
    if (!n->in[GAMMAB]) return mba_plan_streaming(p, n, m);
    MBA_REFUSE_IF(m->cc < 80, "a device of compute capability %d", m->cc);
    MBA_REFUSE_IF(n->in[DY]->type.count != MBA_ALL, "a layer scale of rows of which some are absent");
    mba__plan_column_sums(p, n, "residual_sums", n->in[DY], 1, residual_columns(n), 1u << DY | 1u << VB);
    mba_launch  *l = &p->launch[0];
    const double each = mba_tensor_bytes(n->out[DV]) / (double)(l->grid[0] * l->grid[1]);
    if (mba_adds(n, DV)) mba_phase_move(l, MBA_LOAD, MBA_ARG_OUT(DV), each);
    mba_phase_move(l, MBA_STORE, MBA_ARG_OUT(DV), each);
    return MBA_OK;
}

/* dims: samples, rows per sample, C, drop in percent, gamma, how: 1 columns of a view, 2 the branch is the stream;
 * whether factors are given (every third is 0). */
static void residual_build(mba_graph *g, const mba_case *c)
{
    const int64_t     S = c->dim[0], R = c->dim[1], C = c->dim[2], how = c->dim[5], wide = how == 1 ? 2 * C + 1 : C;
    mba_tensor       *x = mba_case_act(g, "x", MBA_TYPE(MBA_F32, S, R, wide), MBA_INIT_NORMAL(1));
    mba_tensor       *v = mba_case_act(g, "v", MBA_TYPE(MBA_F32, S, R, C), MBA_INIT_NORMAL(1)), *s = mba_add(g, x, x);
    mba_residual_args a = { .x = s, .v = v, .drop = (float)c->dim[3] / 100, .active = true };
    if (c->dim[4]) a.gamma = mba_param(g, "gamma", MBA_TYPE(MBA_F32, C), MBA_INIT_NORMAL(1), MBA_NO_DECAY);
    if (c->dim[6]) {
        double *f = mba_arena_new(g->arena, double, S);
        for (int64_t k = 0; k < S; k++) f[k] = k % 3 == 1 ? 0 : 1 + 0.25 * (double)(k % 5);
        mba_example(g, a.factor = mba_input(g, "factor", MBA_TYPE(MBA_F32, S)), f);
    }
    if (how == 0) a.v = mba_add(g, v, v);
    if (how == 1) {
        a.x = mba_slice(g, s, 2, 0, C);
        a.v = mba_slice(g, s, 2, C + 1, C);
    }
    if (how == 2) a.v = s;
    mba_tensor *y = mba_residual_(g, a);
    a.x = y;
    mba_add(g, mba_residual_(g, a), y); // the stream is used twice
}

const mba_op mba_op_residual = {
    .name = "residual",
    .doc = "y = x + f gamma v, f per sample",
    .kind = MBA_ELEMENTWISE,
    .random = true,
    .in = { [X] = MBA_SLOT("x"),
            [BRANCH] = MBA_SLOT("v"),
            [GAMMA] = MBA_SLOT("gamma", .optional = true),
            [FACTOR] = MBA_SLOT("factor", .optional = true) },
    .out = { [Y] = MBA_SLOT("y", .reuse = MBA_FROM(BRANCH)) },
    .attr_bytes = sizeof(residual_attr),
    .shape = residual_shape,
    .grad = residual_grad,
    .cost = residual_cost,
    .ref = residual_ref,
    .cpu = (const mba_variant[]){ { "rows", mba__plan_f32, MBA_CPU(residual_fwd) }, { 0 } },
    .cuda = (const mba_variant[]){ { "rows", mba_plan_streaming, MBA_CUDA(residual_cuda) }, { 0 } },
    .build = residual_build,
    .cases = (const mba_case[]){ { { 4, 3, 5, 50, 0 }, "drop path alone" },
                                 { { 4, 3, 5, 0, 1 }, "layer scale alone" },
                                 { { 9, 15, 7, 30, 1 }, "both, more rows than one part takes" },
                                 { { 5, 2, 4, 40, 1, 1 }, "columns of a view" },
                                 { { 3, 2, 264, 30, 1 }, "whole vectors, both" },
                                 { { 5, 2, 4, 40, 1, 2 }, "a branch that is the stream itself" },
                                 { { 7, 3, 5, 0, 1, 0, 1 }, "factors given" },
                                 { { 7, 3, 5, 50, 0, 1, 1 }, "factors given, no layer scale, columns" },
                                 { { 0 }, NULL } },
    .sizes = (const mba_case[]){ { { 16, 196, 320, 20, 1 }, "16 images, 196 tokens of 320" },
                                 { { 128, 196, 320, 20, 1 }, "128 images" },
                                 { { 0 }, NULL } },
};

const mba_op mba_op_residual_bwd = {
    .name = "residual_bwd",
    .doc = "dv = f gamma dy, dgamma = sum f dy v",
    .kind = MBA_ELEMENTWISE,
    .random = true,
    .no_grad = "a gradient",
    .in = { [DY] = MBA_SLOT("dy"),
            [VB] = MBA_SLOT("v", .optional = true),
            [GAMMAB] = MBA_SLOT("gamma", .optional = true),
            [FACTORB] = MBA_SLOT("factor", .optional = true) },
    .out = { [DV] = MBA_SLOT("dv", .adds = true, .reuse = MBA_FROM(DY)), [DGAMMA] = MBA_SLOT("dgamma", .adds = true) },
    .attr_bytes = sizeof(residual_attr),
    .shape = residual_bwd_shape,
    .cost = residual_cost,
    .ref = residual_bwd_ref,
    .terms = residual_bwd_terms,
    .cpu = (const mba_variant[]){ { "parts", residual_bwd_plan, MBA_CPU(residual_bwd) }, { 0 } },
    .cuda = (const mba_variant[]){ { "rows", residual_bwd_cuda_plan, MBA_CUDA(residual_bwd_cuda) }, { 0 } },
};
