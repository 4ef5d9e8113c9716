// SPDX-License-Identifier: Apache-2.0
/* rownorm.c -- y = x / max(||x||, 1e-12), and dx = (dy - y (dy . y)) / norm: the declaration. */
#include "ops/rownorm/rownorm.h"

#include "ops/add/add.h"
#include "ops/cast/cast.h"
#include "ops/rownorm/rownorm_slots.h"

static mba_status rownorm_shape(const mba_node *n, mba_type *out)
{
    MBA_TRY(mba__need_rows("rownorm", n->in[X]));
    out[Y] = n->in[X]->type;
    out[LENGTH] = MBA_TYPE(MBA_F32, mba_rows(n->in[X]));
    return MBA_OK;
}

static mba_status rownorm_bwd_shape(const mba_node *n, mba_type *out)
{
    out[DX] = n->in[YB]->type;
    return MBA_OK;
}

mba_tensor *mba_rownorm(mba_graph *g, mba_tensor *x) { return MBA_APPEND(g, rownorm, NULL, x)->out[Y]; }

static void rownorm_grad(mba_graph *g, const mba_node *n, mba_tensor *const *d)
{
    mba_grad_add(g, n->in[X], MBA_APPEND(g, rownorm_bwd, NULL, d[Y], n->out[Y], n->out[LENGTH])->out[DX]);
}

static mba_cost rownorm_cost(const mba_node *n)
{
    mba_cost c = mba_cost_io(n);
    c.vector_flops = (n->op == &mba_op_rownorm ? 3.0 : 5.0) * (double)mba_elems(n->in[0]);
    return c;
}

static mba_status rownorm_rows_plan(mba_plan *p, const mba_node *n, const mba_machine *m)
{
    const int64_t R = mba_rows(n->in[0]), C = mba_cols(n->in[0]);
    const bool    fwd = n->op == &mba_op_rownorm;
    MBA_REFUSE_IF(m->cc < 80, "a device of compute capability %d", m->cc);
    MBA_REFUSE_IF(C >= 1 << 30, "rows of %lld values\nwhy: a thread counts columns in 32 bits", (long long)C);
    mba_plan_stream(p, n, fwd ? "rownorm_fwd_rows" : "rownorm_bwd_rows", mba_ceil(R, 256 / rownorm_group_threads(C)),
                    256, fwd ? 32 : 36);
    return MBA_OK;
}

static double rownorm_terms(const mba_node *n, int out)
{
    (void)out;
    return (double)mba_cols(n->in[0]);
}

static void rownorm_build(mba_graph *g, const mba_case *c)
{
    const int64_t R = c->dim[0], C = c->dim[1];
    mba_tensor   *x = mba_case_act(g, "x", MBA_TYPE(MBA_F32, R, C + 2 * c->dim[2]), MBA_INIT_NORMAL(1));
    if (!c->dim[2]) {
        mba_rownorm(g, x);
        return;
    }
    mba_tensor *all = mba_add(g, x, x);
    mba_tensor *j = mba_concat(g, mba_rownorm(g, mba_slice(g, all, 1, 0, C)),
                               mba_rownorm(g, mba_slice(g, all, 1, 2, C)));
    mba_add(g, j, j);
}

const mba_op mba_op_rownorm = {
    .name = "rownorm",
    .doc = "y = x / max(||x||, 1e-12) per row",
    .kind = MBA_NORM,
    .in = { [X] = MBA_SLOT("x") },
    .out = { [Y] = MBA_SLOT("y", .reuse = MBA_FROM(X)), [LENGTH] = MBA_SLOT("length", .saved = true) },
    .shape = rownorm_shape,
    .grad = rownorm_grad,
    .cost = rownorm_cost,
    .ref = rownorm_ref,
    .terms = rownorm_terms,
    .cpu = (const mba_variant[]){ { "rows", mba__plan_f32, MBA_CPU(rownorm_fwd) }, { 0 } },
    .cuda = (const mba_variant[]){ { "rows", rownorm_rows_plan, MBA_CUDA(rownorm_cuda) }, { 0 } },
    .build = rownorm_build,
    .cases = (const mba_case[]){ { { 5, 7 }, "no vector width divides it" },
                                 { { 2, 75 }, "whole vectors, then a tail" },
                                 { { 9, 96 }, "vectors of 16 bytes, more rows than a block has warps" },
                                 { { 2, 1040 }, "rows for a whole block" },
                                 { { 4, 6, 1 }, "views that overlap: the second gradient adds" },
                                 { { 0 }, NULL } },
    .sizes = (const mba_case[]){ { { 15341, 96 }, "PascalVOC-SP, 32 graphs" }, { { 0 }, NULL } },
};

const mba_op mba_op_rownorm_bwd = {
    .name = "rownorm_bwd",
    .doc = "dx = (dy - y (dy . y)) / length",
    .kind = MBA_NORM,
    .no_grad = "a gradient",
    .in = { [DY] = MBA_SLOT("dy"), [YB] = MBA_SLOT("y"), [LENGTHB] = MBA_SLOT("length") },
    .out = { [DX] = MBA_SLOT("dx", .adds = true, .reuse = MBA_FROM(DY)) },
    .shape = rownorm_bwd_shape,
    .cost = rownorm_cost,
    .ref = rownorm_bwd_ref,
    .terms = rownorm_terms,
    .cpu = (const mba_variant[]){ { "rows", mba__plan_f32, MBA_CPU(rownorm_bwd) }, { 0 } },
    .cuda = (const mba_variant[]){ { "rows", rownorm_rows_plan, MBA_CUDA(rownorm_bwd_cuda) }, { 0 } },
};
