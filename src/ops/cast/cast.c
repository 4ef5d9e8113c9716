// SPDX-License-Identifier: Apache-2.0
/* cast.c -- y = x in another type; the gradient is the cast back. The declaration. */
#include "ops/cast/cast.h"

#include "ops/cast/cast_slots.h"

static mba_status cast_shape(const mba_node *n, mba_type *out)
{
    MBA_NEED(n->in[X]->type.dtype != MBA_I32, "cast: %s holds integers", n->in[X]->name);
    out[Y] = n->in[X]->type;
    out[Y].dtype = ((const cast_attr *)n->attr)->to;
    return MBA_OK;
}

static mba_tensor *cast(mba_graph *g, mba_tensor *x, mba_dtype to)
{
    return MBA_APPEND(g, cast, &(cast_attr){ to }, x)->out[Y];
}

mba_tensor *mba_cast(mba_graph *g, mba_tensor *x, mba_dtype dtype)
{
    return x->type.dtype == dtype ? x : cast(g, x, dtype);
}

mba_tensor *mba_case_act(mba_graph *g, const char *name, mba_type type, mba_init init)
{
    type.dtype = MBA_F32;
    return mba_cast(g, mba_param(g, name, type, init, MBA_DECAY), g->compute);
}

static void cast_grad(mba_graph *g, const mba_node *n, mba_tensor *const *d)
{
    mba_grad_add(g, n->in[X], cast(g, d[Y], n->in[X]->type.dtype));
}

static void cast_build(mba_graph *g, const mba_case *c)
{
    mba_tensor *x = mba_param(g, "x", MBA_TYPE(MBA_F32, c->dim[0], c->dim[1]), MBA_INIT_NORMAL(1), MBA_DECAY);
    cast(g, c->dim[2] ? mba_slice(g, x, 1, 1, c->dim[1] - 2) : x, g->compute);
}

const mba_op mba_op_cast = {
    .name = "cast",
    .doc = "y = x in another type",
    .kind = MBA_MEMORY,
    .in = { [X] = MBA_SLOT("x") },
    .out = { [Y] = MBA_SLOT("y", .adds = true, .cheap = true) },
    .attr_bytes = sizeof(cast_attr),
    .shape = cast_shape,
    .grad = cast_grad,
    .cost = mba_cost_io,
    .ref = cast_ref,
    .cpu = (const mba_variant[]){ { "elements", NULL, MBA_CPU(cast_fwd) }, { 0 } },
    .cuda = (const mba_variant[]){ { "stream", mba_plan_streaming, MBA_CUDA(cast_cuda) }, { 0 } },
    .build = cast_build,
    .cases = (const mba_case[]){ { { 3, 37 }, "dense" }, { { 5, 12, 1 }, "a view" }, { { 0 }, NULL } },
};
