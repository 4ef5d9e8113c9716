// SPDX-License-Identifier: Apache-2.0
/* bce.c -- binary cross entropy of logits, and its gradient sigmoid(y) - t: the declaration. */
#include "ops/bce/bce.h"

#include <math.h>

#include "ops/add/add.h"
#include "ops/bce/bce_slots.h"
#include "ops/cast/cast.h"

static mba_status bce_shape(const mba_node *n, mba_type *out)
{
    const mba_tensor *z = n->in[Z], *t = n->in[TARGET];
    MBA_NEED(z->type.dtype != MBA_I32 && t->type.dtype == MBA_F32 && mba_elems(z) == mba_elems(t),
             "bce: logits %s and targets %s differ in shape, or are not real numbers", z->name, t->name);
    MBA_NEED(!t->needs_grad, "bce: the targets %s want a gradient", t->name);
    out[LOSS] = MBA_TYPE(MBA_F32, 1);
    out[SCALE] = MBA_TYPE(MBA_F32, 2);
    return MBA_OK;
}

static mba_status bce_bwd_shape(const mba_node *n, mba_type *out)
{
    out[DZ] = n->in[ZB]->type;
    return MBA_OK;
}

mba_tensor *mba_bce(mba_graph *g, mba_tensor *logits, mba_tensor *target, bool weighted)
{
    return MBA_APPEND(g, bce, &(bce_attr){ weighted }, logits, target)->out[LOSS];
}

static void bce_grad(mba_graph *g, const mba_node *n, mba_tensor *const *d)
{
    mba_grad_add(g, n->in[Z], MBA_APPEND(g, bce_bwd, NULL, d[LOSS], n->in[Z], n->in[TARGET], n->out[SCALE])->out[DZ]);
}

static mba_cost bce_cost(const mba_node *n)
{
    mba_cost     c = mba_cost_io(n);
    const double e = (double)mba_elems(n->op == &mba_op_bce ? n->in[Z] : n->in[ZB]);
    c.vector_flops = 4 * e;
    c.special_ops = 2 * e;
    return c;
}

static mba_status bce_block_plan(mba_plan *p, const mba_node *n, const mba_machine *m)
{
    MBA_REFUSE_IF(m->cc < 80, "a device of compute capability %d", m->cc);
    mba_plan_stream(p, n, "bce_fwd_block", 1, 512, 40);
    return MBA_OK;
}

static mba_status bce_bwd_elements_plan(mba_plan *p, const mba_node *n, const mba_machine *m)
{
    MBA_REFUSE_IF(m->cc < 80, "a device of compute capability %d", m->cc);
    mba_plan_stream(p, n, "bce_bwd_elements", mba_ceil(mba_elems(n->in[ZB]), 256), 256, 28);
    return MBA_OK;
}

/* dims: R, T, weighted, views. Targets cycle through 1, 0, 0, 0.25 (0 where weighted) and missing. */
static void bce_build(mba_graph *g, const mba_case *c)
{
    const int64_t R = c->dim[0], T = c->dim[1];
    mba_tensor   *z = mba_case_act(g, "z", MBA_TYPE(MBA_F32, R, T + c->dim[3]), MBA_INIT_NORMAL(2));
    mba_tensor   *t = mba_input(g, "t", MBA_TYPE(MBA_F32, R, T));
    double       *y = mba_arena_new(g->arena, double, R *T);
    for (int64_t i = 0; i < R * T; i++) y[i] = (double[]){ 1, 0, 0, c->dim[2] ? 0 : 0.25, (double)NAN }[i % 5];
    mba_example(g, t, y);
    if (!c->dim[3]) {
        mba_bce(g, z, t, c->dim[2]);
        return;
    }
    mba_tensor *a = mba_bce(g, mba_slice(g, z, 1, 0, T), t, false);
    mba_add(g, a, mba_bce(g, mba_slice(g, z, 1, c->dim[3], T), t, true));
}

const mba_op mba_op_bce = {
    .name = "bce",
    .doc = "binary cross entropy of logits, mean of those with a target",
    .kind = MBA_EMBED_LOSS,
    .in = { [Z] = MBA_SLOT("z"), [TARGET] = MBA_SLOT("target") },
    .out = { [LOSS] = MBA_SLOT("loss"), [SCALE] = MBA_SLOT("scale", .saved = true) },
    .attr_bytes = sizeof(bce_attr),
    .shape = bce_shape,
    .grad = bce_grad,
    .cost = bce_cost,
    .ref = bce_ref,
    .cpu = (const mba_variant[]){ { "order", mba__plan_f32, MBA_CPU(bce_fwd) }, { 0 } },
    .cuda = (const mba_variant[]){ { "block", bce_block_plan, MBA_CUDA(bce_cuda) }, { 0 } },
    .build = bce_build,
    .cases = (const mba_case[]){ { { 6, 7 }, "missing and soft targets" },
                                 { { 19, 1, 1 }, "weighted, one logit" },
                                 { { 5, 4, 1, 2 }, "views that overlap: the second gradient adds" },
                                 { { 0 }, NULL } },
    .sizes = (const mba_case[]){ { { 3805, 1, 1 }, "PATTERN, 32 graphs" }, { { 0 }, NULL } },
};

const mba_op mba_op_bce_bwd = {
    .name = "bce_bwd",
    .doc = "sigmoid(z) - t, scaled",
    .kind = MBA_EMBED_LOSS,
    .no_grad = "a gradient",
    .in = { [DLOSS] = MBA_SLOT("dloss"),
            [ZB] = MBA_SLOT("z"),
            [TARGETB] = MBA_SLOT("target"),
            [SCALEB] = MBA_SLOT("scale") },
    .out = { [DZ] = MBA_SLOT("dz", .adds = true) },
    .shape = bce_bwd_shape,
    .cost = bce_cost,
    .ref = bce_bwd_ref,
    .cpu = (const mba_variant[]){ { "order", mba__plan_f32, MBA_CPU(bce_bwd) }, { 0 } },
    .cuda = (const mba_variant[]){ { "elements", bce_bwd_elements_plan, MBA_CUDA(bce_bwd_cuda) }, { 0 } },
};
