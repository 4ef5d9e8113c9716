// SPDX-License-Identifier: Apache-2.0
/* bias.c -- y[r,c] = x[r,c] + b[c]: the declaration. dx is dy itself; db[c] = sum_r dy[r,c]. */
#include "ops/bias/bias.h"

#include "ops/bias/bias_slots.h"
#include "ops/cast/cast.h"
#include "ops/vec_access.h"
#include "ops/relu2/relu2.h"

static mba_status bias_shape(const mba_node *n, mba_type *out)
{
    MBA_NEED(mba_elems(n->in[BIAS]) == mba_cols(n->in[X]), "bias: rows of %lld, bias of %lld",
             (long long)mba_cols(n->in[X]), (long long)mba_elems(n->in[BIAS]));
    out[Y] = n->in[X]->type;
    return MBA_OK;
}

static mba_status bias_bwd_shape(const mba_node *n, mba_type *out)
{
    out[DBIAS] = MBA_TYPE(MBA_F32, mba_cols(n->in[DY]));
    return MBA_OK;
}

mba_tensor *mba_bias(mba_graph *g, mba_tensor *x, mba_tensor *b) { return MBA_APPEND(g, bias, NULL, x, b)->out[Y]; }

mba_tensor *mba_bias_grad(mba_graph *g, mba_tensor *dy) { return MBA_APPEND(g, bias_bwd, NULL, dy)->out[DBIAS]; }

static void bias_grad(mba_graph *g, const mba_node *n, mba_tensor *const *d)
{
    if (mba_wants(n->in[BIAS])) mba_grad_add(g, n->in[BIAS], mba_bias_grad(g, d[Y]));
    mba_grad_pass(g, n->in[X], d[Y]);
}

static mba_cost bias_cost(const mba_node *n)
{
    mba_cost c = mba_cost_io(n);
    c.vector_flops = (double)mba_elems(n->in[0]);
    return c;
}

static mba_status bias_bwd_plan(mba_plan *p, const mba_node *n, const mba_machine *m)
{
    (void)m;
    const int64_t parts = mba_ceil(mba_rows(n->in[DY]), BIAS_PART_ROWS);
    mba_plan_scratch(p, "partial sums", sizeof(float) * (size_t)(parts * mba_cols(n->in[DY])));
    return MBA_OK;
}

static mba_status bias_bwd_cuda_plan(mba_plan *p, const mba_node *n, const mba_machine *m)
{
    const mba_tensor *dy = n->in[DY];
    MBA_REFUSE_IF(m->cc < 80, "a device of compute capability %d", m->cc);
    mba__plan_column_sums(p, n, "bias_bwd_sums", dy, 1, mba__columns_at_once(&dy, 1), 1u << DY);
    return MBA_OK;
}

static double bias_bwd_terms(const mba_node *n, int out)
{
    (void)out;
    return (double)mba_rows(n->in[DY]);
}

static void bias_build(mba_graph *g, const mba_case *c)
{
    mba_tensor *x = mba_case_act(g, "x", MBA_TYPE(MBA_F32, c->dim[0], c->dim[1]), MBA_INIT_NORMAL(1));
    mba_tensor *b = mba_param(g, "b", MBA_TYPE(MBA_F32, c->dim[1]), MBA_INIT_NORMAL(1), MBA_NO_DECAY);
    mba_bias(g, c->dim[2] ? mba_relu2(g, x) : x, b);
}

const mba_op mba_op_bias = {
    .name = "bias",
    .doc = "y = x + b, b over the last axis",
    .kind = MBA_ELEMENTWISE,
    .in = { [X] = MBA_SLOT("x"), [BIAS] = MBA_SLOT("b") },
    .out = { [Y] = MBA_SLOT("y", .reuse = MBA_FROM(X)) },
    .shape = bias_shape,
    .grad = bias_grad,
    .cost = bias_cost,
    .ref = bias_ref,
    .cpu = (const mba_variant[]){ { "rows", NULL, MBA_CPU(bias_fwd) }, { 0 } },
    .cuda = (const mba_variant[]){ { "rows", mba__map_plan, MBA_CUDA(bias_cuda) }, { 0 } },
    .build = bias_build,
    .cases = (const mba_case[]){ { { 7, 33 }, "no vector width divides it" },
                                 { { 300, 5 }, "more rows than one part takes" },
                                 { { 150, 40 }, "whole vectors of 16 bytes, several parts" },
                                 { { 17, 264 }, "columns that several blocks share" },
                                 { { 3, 8, 1 }, "behind another operator: the gradient is passed on" },
                                 { { 0 }, NULL } },
    .sizes = (const mba_case[]){ { { 25088, 1280 }, "mambavision-t stage 2, an MLP, batch 128" },
                                 { { 401408, 80 }, "mambavision-t stage 0, batch 128" },
                                 { { 0 }, NULL } },
};

const mba_op mba_op_bias_bwd = {
    .name = "bias_bwd",
    .doc = "sums the rows of dy",
    .kind = MBA_REDUCTION,
    .no_grad = "a gradient",
    .in = { [DY] = MBA_SLOT("dy") },
    .out = { [DBIAS] = MBA_SLOT("db", .adds = true) },
    .shape = bias_bwd_shape,
    .cost = bias_cost,
    .ref = bias_bwd_ref,
    .terms = bias_bwd_terms,
    .cpu = (const mba_variant[]){ { "parts", bias_bwd_plan, MBA_CPU(bias_bwd) }, { 0 } },
    .cuda = (const mba_variant[]){ { "columns", bias_bwd_cuda_plan, MBA_CUDA(bias_bwd_cuda) }, { 0 } },
};
