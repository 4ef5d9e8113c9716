// SPDX-License-Identifier: Apache-2.0
/* l1.c -- mean absolute error, and its gradient, a sign: the declaration. */
#include "ops/l1/l1.h"

#include <math.h>

#include "ops/add/add.h"
#include "ops/cast/cast.h"
#include "ops/l1/l1_slots.h"

static mba_status l1_shape(const mba_node *n, mba_type *out)
{
    const mba_tensor *y = n->in[Y], *t = n->in[TARGET];
    MBA_NEED(y->type.dtype != MBA_I32 && t->type.dtype == MBA_F32 && mba_elems(y) == mba_elems(t),
             "l1: values %s and targets %s differ in shape, or are not real numbers", y->name, t->name);
    MBA_NEED(!t->needs_grad, "l1: the targets %s want a gradient", t->name);
    out[LOSS] = out[SCALE] = MBA_TYPE(MBA_F32, 1);
    return MBA_OK;
}

static mba_status l1_bwd_shape(const mba_node *n, mba_type *out)
{
    out[DY] = n->in[YB]->type;
    return MBA_OK;
}

mba_tensor *mba_l1(mba_graph *g, mba_tensor *y, mba_tensor *target)
{
    return MBA_APPEND(g, l1, NULL, y, target)->out[LOSS];
}

static void l1_grad(mba_graph *g, const mba_node *n, mba_tensor *const *d)
{
    mba_grad_add(g, n->in[Y], MBA_APPEND(g, l1_bwd, NULL, d[LOSS], n->in[Y], n->in[TARGET], n->out[SCALE])->out[DY]);
}

static mba_cost l1_cost(const mba_node *n)
{
    mba_cost c = mba_cost_io(n);
    c.vector_flops = 3 * (double)mba_elems(n->op == &mba_op_l1 ? n->in[Y] : n->in[YB]);
    return c;
}

static mba_status l1_block_plan(mba_plan *p, const mba_node *n, const mba_machine *m)
{
    MBA_REFUSE_IF(m->cc < 80, "a device of compute capability %d", m->cc);
    mba_plan_stream(p, n, "l1_fwd_block", 1, 1024, 32);
    return MBA_OK;
}

static mba_status l1_bwd_elements_plan(mba_plan *p, const mba_node *n, const mba_machine *m)
{
    MBA_REFUSE_IF(m->cc < 80, "a device of compute capability %d", m->cc);
    mba_plan_stream(p, n, "l1_bwd_elements", mba_ceil(mba_elems(n->in[YB]), 256), 256, 26);
    return MBA_OK;
}

/* dims: R, T, views. Every fifth target is missing; no other target equals the initial y. */
static void l1_build(mba_graph *g, const mba_case *c)
{
    const int64_t R = c->dim[0], T = c->dim[1];
    mba_tensor   *z = mba_case_act(g, "z", MBA_TYPE(MBA_F32, R, T + c->dim[2]), MBA_INIT_NORMAL(1));
    mba_tensor   *t = mba_input(g, "t", MBA_TYPE(MBA_F32, R, T));
    double       *y = mba_arena_new(g->arena, double, R *T);
    for (int64_t i = 0; i < R * T; i++) y[i] = i % 5 == 4 ? (double)NAN : (float)(0.7 * sin((double)i + 0.5));
    mba_example(g, t, y);
    if (!c->dim[2]) {
        mba_l1(g, z, t);
        return;
    }
    mba_tensor *a = mba_l1(g, mba_slice(g, z, 1, 0, T), t);
    mba_add(g, a, mba_l1(g, mba_slice(g, z, 1, c->dim[2], T), t));
}

const mba_op mba_op_l1 = {
    .name = "l1",
    .doc = "mean absolute error of those with a target",
    .kind = MBA_EMBED_LOSS,
    .in = { [Y] = MBA_SLOT("y"), [TARGET] = MBA_SLOT("target") },
    .out = { [LOSS] = MBA_SLOT("loss"), [SCALE] = MBA_SLOT("scale", .saved = true) },
    .shape = l1_shape,
    .grad = l1_grad,
    .cost = l1_cost,
    .ref = l1_ref,
    .cpu = (const mba_variant[]){ { "order", mba__plan_f32, MBA_CPU(l1_fwd) }, { 0 } },
    .cuda = (const mba_variant[]){ { "block", l1_block_plan, MBA_CUDA(l1_cuda) }, { 0 } },
    .build = l1_build,
    .cases = (const mba_case[]){ { { 6, 7 }, "missing targets" },
                                 { { 5, 4, 2 }, "views that overlap: the second gradient adds" },
                                 { { 0 }, NULL } },
    .sizes = (const mba_case[]){ { { 128, 11 }, "Peptides-struct, 128 graphs" }, { { 0 }, NULL } },
};

const mba_op mba_op_l1_bwd = {
    .name = "l1_bwd",
    .doc = "sign(y - t), scaled",
    .kind = MBA_EMBED_LOSS,
    .no_grad = "a gradient",
    .in = { [DLOSS] = MBA_SLOT("dloss"),
            [YB] = MBA_SLOT("y"),
            [TARGETB] = MBA_SLOT("target"),
            [SCALEB] = MBA_SLOT("scale") },
    .out = { [DY] = MBA_SLOT("dy", .adds = true) },
    .shape = l1_bwd_shape,
    .cost = l1_cost,
    .ref = l1_bwd_ref,
    .cpu = (const mba_variant[]){ { "order", mba__plan_f32, MBA_CPU(l1_bwd) }, { 0 } },
    .cuda = (const mba_variant[]){ { "elements", l1_bwd_elements_plan, MBA_CUDA(l1_bwd_cuda) }, { 0 } },
};
