// SPDX-License-Identifier: Apache-2.0
/* gelu.c -- y = x Phi(x), exact or by the tanh approximation: the declaration. */
#include "ops/gelu/gelu.h"

#include "ops/add/add.h"
#include "ops/cast/cast.h"
#include "ops/gelu/gelu_slots.h"

static mba_status gelu_shape(const mba_node *n, mba_type *out)
{
    MBA_TRY(mba__need_rows("gelu", n->in[0]));
    out[Y] = n->in[0]->type;
    return MBA_OK;
}

mba_tensor *mba_gelu(mba_graph *g, mba_tensor *x, bool tanh_form)
{
    return MBA_APPEND(g, gelu, &(gelu_attr){ tanh_form }, x)->out[Y];
}

static void gelu_grad(mba_graph *g, const mba_node *n, mba_tensor *const *d)
{
    mba_grad_add(g, n->in[X], MBA_APPEND(g, gelu_bwd, n->attr, d[Y], n->in[X])->out[DX]);
}

static mba_cost gelu_cost(const mba_node *n) // an exponential and a division per element
{
    mba_cost     c = mba_cost_io(n);
    const double e = (double)mba_elems(n->in[0]);
    const bool   forward = n->op == &mba_op_gelu, tanh_form = ((const gelu_attr *)n->attr)->tanh_form;
    c.vector_flops = (forward ? 6 : tanh_form ? 16 : 9) * e;
    c.special_ops = 2 * e;
    return c;
}

/* dims: R, C, tanh form; how 1: columns of a view, used twice. */
static void gelu_build(mba_graph *g, const mba_case *c)
{
    const bool  t = c->dim[2];
    mba_tensor *x = mba_case_act(g, "x", MBA_TYPE(MBA_F32, c->dim[0], c->dim[1]), MBA_INIT_NORMAL(2));
    if (!c->dim[3]) {
        mba_gelu(g, x, t);
        return;
    }
    mba_tensor *part = mba_slice(g, mba_add(g, x, x), 1, 1, c->dim[1] - 2);
    mba_tensor *j = mba_concat(g, mba_gelu(g, part, t), mba_gelu(g, part, !t));
    mba_add(g, j, j);
}

const mba_op mba_op_gelu = {
    .name = "gelu",
    .doc = "y = x Phi(x)",
    .kind = MBA_ELEMENTWISE,
    .in = { [X] = MBA_SLOT("x") },
    .out = { [Y] = MBA_SLOT("y", .reuse = MBA_FROM(X), .cheap = true) },
    .attr_bytes = sizeof(gelu_attr),
    .shape = gelu_shape,
    .grad = gelu_grad,
    .cost = gelu_cost,
    .ref = gelu_ref,
    .cpu = (const mba_variant[]){ { "spans", mba__plan_f32, MBA_CPU(gelu_fwd) }, { 0 } },
    .cuda = (const mba_variant[]){ { "stream", mba_plan_streaming, MBA_CUDA(gelu_cuda) }, { 0 } },
    .build = gelu_build,
    .cases = (const mba_case[]){ { { 7, 33, 0 }, "exact; no vector width divides it" },
                                 { { 7, 33, 1 }, "tanh form" },
                                 { { 5, 264, 0 }, "exact; whole vectors" },
                                 { { 5, 264, 1 }, "tanh form; whole vectors" },
                                 { { 5, 9, 0, 1 }, "both forms of the same columns, joined" },
                                 { { 0 }, NULL } },
    .sizes = (const mba_case[]){ { { 3136, 1280, 0 }, "an MLP: 16 images, 196 tokens of 320" },
                                 { { 12544, 80, 1 }, "a conv block: 4 images of 56 x 56" },
                                 { { 25088, 1280, 0 }, "an MLP, 128 images" },
                                 { { 401408, 80, 1 }, "a conv block, 128 images" },
                                 { { 0 }, NULL } },
};

const mba_op mba_op_gelu_bwd = {
    .name = "gelu_bwd",
    .doc = "dx = dy (Phi(x) + x phi(x))",
    .kind = MBA_ELEMENTWISE,
    .no_grad = "a gradient",
    .in = { [DY] = MBA_SLOT("dy"), [XB] = MBA_SLOT("x") },
    .out = { [DX] = MBA_SLOT("dx", .adds = true, .reuse = MBA_FROM(DY)) },
    .attr_bytes = sizeof(gelu_attr),
    .shape = gelu_shape,
    .cost = gelu_cost,
    .ref = gelu_bwd_ref,
    .cpu = (const mba_variant[]){ { "spans", mba__plan_f32, MBA_CPU(gelu_bwd) }, { 0 } },
    .cuda = (const mba_variant[]){ { "stream", mba_plan_streaming, MBA_CUDA(gelu_bwd_cuda) }, { 0 } },
};
