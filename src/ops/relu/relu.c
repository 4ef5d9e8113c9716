// SPDX-License-Identifier: Apache-2.0
/* relu.c -- y = max(0, x), and dx = dy where y > 0: the declaration. The backward pass reads y, which the next operator
 * saves anyway, so that y may overwrite x. */
#include "ops/relu/relu.h"

#include "ops/add/add.h"
#include "ops/cast/cast.h"
#include "ops/relu/relu_slots.h"

static mba_status relu_shape(const mba_node *n, mba_type *out)
{
    MBA_TRY(mba__need_rows("relu", n->in[0]));
    out[Y] = n->in[0]->type;
    return MBA_OK;
}

mba_tensor *mba_relu(mba_graph *g, mba_tensor *x) { return MBA_APPEND(g, relu, NULL, x)->out[Y]; }

static void relu_grad(mba_graph *g, const mba_node *n, mba_tensor *const *d)
{
    mba_grad_add(g, n->in[X], MBA_APPEND(g, relu_bwd, NULL, d[Y], n->out[Y])->out[DX]);
}

static mba_cost relu_cost(const mba_node *n)
{
    mba_cost c = mba_cost_io(n);
    c.vector_flops = (double)mba_elems(n->in[0]);
    return c;
}

/* dims: R, C; how 1: columns of a view, used twice. */
static void relu_build(mba_graph *g, const mba_case *c)
{
    mba_tensor *x = mba_case_act(g, "x", MBA_TYPE(MBA_F32, c->dim[0], c->dim[1]), MBA_INIT_NORMAL(1));
    if (!c->dim[2]) {
        mba_relu(g, mba_add(g, x, x));
        return;
    }
    mba_tensor *part = mba_slice(g, mba_add(g, x, x), 1, 1, c->dim[1] - 2);
    mba_tensor *j = mba_concat(g, mba_relu(g, part), mba_relu(g, part));
    mba_add(g, j, j);
}

const mba_op mba_op_relu = {
    .name = "relu",
    .doc = "y = max(0, x)",
    .kind = MBA_ELEMENTWISE,
    .in = { [X] = MBA_SLOT("x") },
    .out = { [Y] = MBA_SLOT("y", .reuse = MBA_FROM(X)) },
    .shape = relu_shape,
    .grad = relu_grad,
    .cost = relu_cost,
    .ref = relu_ref,
    .cpu = (const mba_variant[]){ { "spans", mba__plan_f32, MBA_CPU(relu_fwd) }, { 0 } },
    .cuda = (const mba_variant[]){ { "stream", mba_plan_streaming, MBA_CUDA(relu_cuda) }, { 0 } },
    .build = relu_build,
    .cases = (const mba_case[]){ { { 7, 33 }, "no vector width divides it" },
                                 { { 5, 9, 1 }, "columns in and out, used twice" },
                                 { { 0 }, NULL } },
    .sizes = (const mba_case[]){ { { 50176, 64 }, "a stem: 4 images of 112 x 112" },
                                 { { 1605632, 64 }, "a stem, 128 images" },
                                 { { 0 }, NULL } },
};

const mba_op mba_op_relu_bwd = {
    .name = "relu_bwd",
    .doc = "dx = dy where y > 0, else 0",
    .kind = MBA_ELEMENTWISE,
    .no_grad = "a gradient",
    .in = { [DY] = MBA_SLOT("dy"), [YB] = MBA_SLOT("y") },
    .out = { [DX] = MBA_SLOT("dx", .adds = true, .reuse = MBA_FROM(DY)) },
    .shape = relu_shape,
    .cost = relu_cost,
    .ref = relu_bwd_ref,
    .cpu = (const mba_variant[]){ { "spans", mba__plan_f32, MBA_CPU(relu_bwd) }, { 0 } },
    .cuda = (const mba_variant[]){ { "stream", mba_plan_streaming, MBA_CUDA(relu_bwd_cuda) }, { 0 } },
};
