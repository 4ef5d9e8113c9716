// SPDX-License-Identifier: Apache-2.0
/* dropout.c -- y = 0 with probability p, else x / (1-p): the declaration. The operator is its own gradient: the
 * backward node has the random stream of the forward node, so it draws the same numbers. */
#include "ops/dropout/dropout.h"

#include "ops/add/add.h"
#include "ops/cast/cast.h"
#include "ops/dropout/dropout_slots.h"
#include "ops/vec_access.h"

static mba_status dropout_shape(const mba_node *n, mba_type *out)
{
    const float p = ((const dropout_attr *)n->attr)->p;
    MBA_NEED(p >= 0 && p < 1, "dropout: a probability of %g\nfix: 0 <= p < 1", (double)p);
    MBA_NEED(n->in[X]->type.dtype != MBA_I32, "dropout: %s holds indices", n->in[X]->name);
    out[Y] = n->in[X]->type;
    return MBA_OK;
}

mba_tensor *mba_dropout(mba_graph *g, mba_tensor *x, float p)
{
    return p == 0 ? x : MBA_APPEND(g, dropout, &(dropout_attr){ p }, x)->out[Y];
}

static void dropout_grad(mba_graph *g, const mba_node *n, mba_tensor *const *d)
{
    mba_grad_add(g, n->in[X], MBA_APPEND(g, dropout, n->attr, d[Y])->out[Y]);
}

static mba_cost dropout_cost(const mba_node *n)
{
    mba_cost c = mba_cost_io(n);
    c.vector_flops = (double)mba_elems(n->in[X]);
    return c;
}

/* dims: R, C, whether x is a view that is used twice. */
static void dropout_build(mba_graph *g, const mba_case *c)
{
    const int64_t R = c->dim[0], C = c->dim[1];
    mba_tensor   *x = mba_case_act(g, "x", MBA_TYPE(MBA_F32, R, C + 2), MBA_INIT_NORMAL(1));
    if (!c->dim[2]) {
        mba_dropout(g, x, 0.3f);
        return;
    }
    mba_tensor *part = mba_slice(g, mba_add(g, x, x), 1, 1, C);
    mba_tensor *j = mba_concat(g, mba_dropout(g, part, 0.3f), mba_dropout(g, part, 0.5f));
    mba_add(g, j, j);
}

const mba_op mba_op_dropout = {
    .name = "dropout",
    .doc = "zeroes at random, keeps the mean",
    .kind = MBA_ELEMENTWISE,
    .random = true,
    .in = { [X] = MBA_SLOT("x") },
    .out = { [Y] = MBA_SLOT("y", .reuse = MBA_FROM(X), .cheap = true, .adds = true) },
    .attr_bytes = sizeof(dropout_attr),
    .shape = dropout_shape,
    .grad = dropout_grad,
    .cost = dropout_cost,
    .ref = dropout_ref,
    .cpu = (const mba_variant[]){ { "blocks", mba__plan_f32, MBA_CPU(dropout_fwd) }, { 0 } },
    .cuda = (const mba_variant[]){ { "rows", mba__map_plan, MBA_CUDA(dropout_cuda) }, { 0 } },
    .build = dropout_build,
    .cases = (const mba_case[]){ { { 6, 10 }, "a third is gone" },
                                 { { 37, 61 }, "more than one block of numbers" },
                                 { { 9, 22 }, "whole vectors of 16 bytes" },
                                 { { 5, 7, 1 }, "columns in and out, with two masks" },
                                 { { 0 }, NULL } },
};
