// SPDX-License-Identifier: Apache-2.0
/* swiglu.c -- y = value * silu(gate): the declaration. Both inputs may be columns of one matrix. */
#include "ops/swiglu/swiglu.h"

#include "ops/add/add.h"
#include "ops/cast/cast.h"
#include "ops/vec_access.h"
#include "ops/swiglu/swiglu_slots.h"

static mba_status swiglu_shape(const mba_node *n, mba_type *out)
{
    MBA_TRY(mba__need_rows("swiglu", n->in[VALUE]));
    MBA_TRY(mba__need_rows("swiglu", n->in[GATE]));
    MBA_NEED(mba_type_equal(&n->in[VALUE]->type, &n->in[GATE]->type), "swiglu: %s and its gate %s differ in type",
             n->in[VALUE]->name, n->in[GATE]->name);
    out[Y] = n->in[VALUE]->type;
    return MBA_OK;
}

static mba_status swiglu_bwd_shape(const mba_node *n, mba_type *out)
{
    out[DVALUE] = n->in[VALUE]->type;
    out[DGATE] = n->in[GATE]->type;
    return MBA_OK;
}

mba_tensor *mba_swiglu(mba_graph *g, mba_tensor *value, mba_tensor *gate)
{
    return MBA_APPEND(g, swiglu, NULL, value, gate)->out[Y];
}

static void swiglu_grad(mba_graph *g, const mba_node *n, mba_tensor *const *d)
{
    const mba_node *b = MBA_APPEND(g, swiglu_bwd, NULL, n->in[VALUE], n->in[GATE], d[Y]);
    mba_grad_add(g, n->in[VALUE], b->out[DVALUE]);
    mba_grad_add(g, n->in[GATE], b->out[DGATE]);
}

static mba_cost swiglu_cost(const mba_node *n)
{
    mba_cost c = mba_cost_io(n);
    c.vector_flops = (n->in[DY] ? 8.0 : 3.0) * (double)mba_elems(n->in[VALUE]);
    c.special_ops = 2.0 * (double)mba_elems(n->in[VALUE]);
    return c;
}

/* dims: R, C, how: 0 alone, 1 halves of one matrix, each also used elsewhere, with concatenated outputs, 2 its own
 * gate. */
static void swiglu_build(mba_graph *g, const mba_case *c)
{
    const int64_t R = c->dim[0], C = c->dim[1], how = c->dim[2];
    mba_tensor   *x = mba_case_act(g, "x", MBA_TYPE(MBA_F32, R, how == 1 ? 2 * C : C), MBA_INIT_NORMAL(1));
    if (how == 2) mba_swiglu(g, x, x);
    if (how == 0) mba_swiglu(g, x, mba_case_act(g, "gate", MBA_TYPE(MBA_F32, R, C), MBA_INIT_NORMAL(2)));
    if (how != 1) return;
    mba_tensor *h = mba_add(g, x, x), *value = mba_slice(g, h, 1, 0, C), *gate = mba_slice(g, h, 1, C, C);
    mba_tensor *j = mba_concat(g, mba_swiglu(g, value, gate), mba_swiglu(g, gate, value));
    mba_add(g, j, j);
}

const mba_op mba_op_swiglu = {
    .name = "swiglu",
    .doc = "y = value * silu(gate)",
    .kind = MBA_ELEMENTWISE,
    .in = { [VALUE] = MBA_SLOT("value"), [GATE] = MBA_SLOT("gate") },
    .out = { [Y] = MBA_SLOT("y", .cheap = true, .reuse = MBA_FROM(VALUE)) },
    .shape = swiglu_shape,
    .grad = swiglu_grad,
    .cost = swiglu_cost,
    .ref = swiglu_ref,
    .cpu = (const mba_variant[]){ { "rows", mba__plan_f32, MBA_CPU(swiglu_fwd) }, { 0 } },
    .cuda = (const mba_variant[]){ { "rows", mba__map_plan, MBA_CUDA(swiglu_cuda) }, { 0 } },
    .build = swiglu_build,
    .cases = (const mba_case[]){ { { 7, 33 }, "no vector width divides it" },
                                 { { 5, 11, 1 }, "columns of one matrix in and out, added to" },
                                 { { 5, 24, 1 }, "the same in whole vectors of 16 bytes" },
                                 { { 3, 6, 2 }, "a tensor gates itself" },
                                 { { 0 }, NULL } },
    .sizes = (const mba_case[]){ { { 4096, 2048 }, "hybrid-b-130m, 4096 tokens" },
                                 { { 16384, 2304 }, "hybrid-b-370m, 16384 tokens" },
                                 { { 0 }, NULL } },
};

const mba_op mba_op_swiglu_bwd = {
    .name = "swiglu_bwd",
    .doc = "gradients of swiglu",
    .kind = MBA_ELEMENTWISE,
    .no_grad = "a gradient",
    .in = { [VALUE] = MBA_SLOT("value"), [GATE] = MBA_SLOT("gate"), [DY] = MBA_SLOT("dy") },
    .out = { [DVALUE] = MBA_SLOT("dvalue", .adds = true, .reuse = MBA_FROM(DY)),
             [DGATE] = MBA_SLOT("dgate", .adds = true, .reuse = MBA_FROM(GATE)) },
    .shape = swiglu_bwd_shape,
    .cost = swiglu_cost,
    .ref = swiglu_bwd_ref,
    .cpu = (const mba_variant[]){ { "rows", mba__plan_f32, MBA_CPU(swiglu_bwd) }, { 0 } },
    .cuda = (const mba_variant[]){ { "rows", mba__map_plan, MBA_CUDA(swiglu_bwd_cuda) }, { 0 } },
};
