// SPDX-License-Identifier: Apache-2.0
/* add.c -- y = a + b, where branches join: the declaration. The backward pass has no nodes: the gradient of y is the
 * gradient of both inputs. */
#include "ops/add/add.h"

#include "ops/add/add_slots.h"
#include "ops/cast/cast.h"
#include "ops/relu2/relu2.h"

static mba_status add_shape(const mba_node *n, mba_type *out)
{
    MBA_NEED(mba_type_equal(&n->in[A]->type, &n->in[B]->type), "add: %s and %s differ in type", n->in[A]->name,
             n->in[B]->name);
    out[Y] = n->in[A]->type;
    return MBA_OK;
}

mba_tensor *mba_add(mba_graph *g, mba_tensor *a, mba_tensor *b) { return MBA_APPEND(g, add, NULL, a, b)->out[Y]; }

static void add_grad(mba_graph *g, const mba_node *n, mba_tensor *const *d)
{
    mba_grad_pass(g, n->in[A], d[Y]);
    mba_grad_pass(g, n->in[B], d[Y]);
}

static mba_cost add_cost(const mba_node *n)
{
    mba_cost c = mba_cost_io(n);
    c.vector_flops = (double)mba_elems(n->in[A]);
    return c;
}

static void add_build(mba_graph *g, const mba_case *c)
{
    mba_tensor *x = mba_case_act(g, "x", MBA_TYPE(MBA_F32, c->dim[0], c->dim[1]), MBA_INIT_NORMAL(1));
    mba_tensor *a = mba_relu2(g, x);
    if (c->dim[2] == 1) {
        mba_add(g, a, a);
        return;
    }
    if (c->dim[2] == 3) {
        mba_add(g, a, mba_relu2(g, mba_relu2(g, a)));
        return;
    }
    if (c->dim[2] == 4) { // the gradient of a, which is b's too, is added to before b's is read
        mba_tensor *b = mba_relu2(g, x);
        mba_relu2(g, a);
        mba_add(g, a, b);
        return;
    }
    a = mba_add(g, a, mba_relu2(g, a)); // two residual blocks
    a = mba_add(g, mba_relu2(g, a), a);
    if (c->dim[2] == 2) mba_add(g, a, mba_relu2(g, mba_slice(g, mba_add(g, a, a), 0, 0, c->dim[0])));
}

const mba_op mba_op_add = {
    .name = "add",
    .doc = "y = a + b",
    .kind = MBA_ELEMENTWISE,
    .in = { [A] = MBA_SLOT("a"), [B] = MBA_SLOT("b") },
    .out = { [Y] = MBA_SLOT("y", .reuse = MBA_FROM(A), .cheap = true) },
    .shape = add_shape,
    .grad = add_grad,
    .cost = add_cost,
    .ref = add_ref,
    .cpu = (const mba_variant[]){ { "rows", NULL, MBA_CPU(add_fwd) }, { 0 } },
    .cuda = (const mba_variant[]){ { "stream", mba_plan_streaming, MBA_CUDA(add_cuda) }, { 0 } },
    .build = add_build,
    .cases = (const mba_case[]){ { { 3, 5, 0 }, "two residual blocks" },
                                 { { 3, 5, 1 }, "a tensor and itself" },
                                 { { 3, 5, 2 }, "the stream used three times" },
                                 { { 3, 5, 3 }, "a longer branch: added in place" },
                                 { { 3, 5, 4 }, "a shared gradient that must be left" },
                                 { { 0 }, NULL } },
};
