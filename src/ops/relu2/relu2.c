// SPDX-License-Identifier: Apache-2.0
/* relu2.c -- y = max(0, x)^2, and dx = 2 max(0, x) dy: the declaration. Rows may have a pitch. */
#include "ops/relu2/relu2.h"

#include "ops/cast/cast.h"
#include "ops/relu2/relu2_slots.h"

static mba_status relu2_shape(const mba_node *n, mba_type *out)
{
    out[Y] = n->in[X]->type;
    return MBA_OK;
}

mba_tensor *mba_relu2(mba_graph *g, mba_tensor *x) { return MBA_APPEND(g, relu2, NULL, x)->out[Y]; }

static void relu2_grad(mba_graph *g, const mba_node *n, mba_tensor *const *d)
{
    mba_grad_add(g, n->in[X], MBA_APPEND(g, relu2_bwd, NULL, d[Y], n->in[X])->out[DX]);
}

static mba_cost relu2_cost(const mba_node *n)
{
    mba_cost c = mba_cost_io(n);
    c.vector_flops = 2.0 * (double)mba_elems(n->in[0]);
    return c;
}

static void relu2_build(mba_graph *g, const mba_case *c)
{
    mba_tensor *x = mba_case_act(g, "x", MBA_TYPE(MBA_F32, c->dim[0], c->dim[1]), MBA_INIT_NORMAL(1));
    if (!c->dim[2]) {
        mba_relu2(g, x);
        return;
    }
    /* Both halves are activated separately and concatenated, and the left one is used twice: tests views. */
    mba_tensor *y = mba_relu2(g, x);
    mba_tensor *l = mba_slice(g, y, 1, 0, c->dim[2]), *r = mba_slice(g, y, 1, c->dim[2], c->dim[1] - c->dim[2]);
    if (c->dim[3]) {
        mba_relu2(g, l);
        return;
    } // the gradient of the rest must be zero
    mba_tensor *j = mba_concat(g, mba_relu2(g, l), mba_relu2(g, r));
    mba_relu2(g, j);
    mba_relu2(g, l);
}

const mba_op mba_op_relu2 = {
    .name = "relu2",
    .doc = "y = max(0, x)^2",
    .kind = MBA_ELEMENTWISE,
    .in = { [X] = MBA_SLOT("x") },
    .out = { [Y] = MBA_SLOT("y", .reuse = MBA_FROM(X), .cheap = true) },
    .shape = relu2_shape,
    .grad = relu2_grad,
    .cost = relu2_cost,
    .ref = relu2_ref,
    .cpu = (const mba_variant[]){ { "rows", NULL, MBA_CPU(relu2_fwd) }, { 0 } },
    .cuda = (const mba_variant[]){ { "stream", mba_plan_streaming, MBA_CUDA(relu2_cuda) }, { 0 } },
    .build = relu2_build,
    .cases = (const mba_case[]){ { { 7, 33 }, "no vector width divides it" },
                                 { { 4, 6, 2 }, "slices, a join, a slice used twice" },
                                 { { 4, 6, 2, 1 }, "a slice alone: the rest of the gradient is filled" },
                                 { { 0 }, NULL } },
    .sizes = (const mba_case[]){ { { 4096, 3072 }, "hybrid-130m, 4096 tokens" },
                                 { { 16384, 3072 }, "hybrid-130m, 16384 tokens" },
                                 { { 0 }, NULL } },
};

const mba_op mba_op_relu2_bwd = {
    .name = "relu2_bwd",
    .doc = "dx = 2 max(0, x) dy",
    .kind = MBA_ELEMENTWISE,
    .no_grad = "a gradient",
    .in = { [DY] = MBA_SLOT("dy"), [XB] = MBA_SLOT("x") },
    .out = { [DX] = MBA_SLOT("dx", .adds = true, .reuse = MBA_FROM(DY)) },
    .shape = relu2_shape,
    .cost = relu2_cost,
    .ref = relu2_bwd_ref,
    .cpu = (const mba_variant[]){ { "rows", NULL, MBA_CPU(relu2_bwd) }, { 0 } },
    .cuda = (const mba_variant[]){ { "stream", mba_plan_streaming, MBA_CUDA(relu2_bwd_cuda) }, { 0 } },
};
