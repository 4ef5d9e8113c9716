// SPDX-License-Identifier: Apache-2.0
/* gated_rmsnorm.c -- v = w q rstd, q = y silu(z), rstd per row and group of channels: the declaration. */
#include "ops/gated_rmsnorm/gated_rmsnorm.h"

#include "ops/add/add.h"
#include "ops/cast/cast.h"
#include "ops/gated_rmsnorm/gated_rmsnorm_slots.h"
#include "ops/matmul/matmul.h"

static mba_status gated_rmsnorm_shape(const mba_node *n, mba_type *out)
{
    const mba_tensor *y = n->in[Y], *z = n->in[Z], *w = n->in[W];
    const int64_t     C = mba_cols(y), groups = ((const gated_rmsnorm_attr *)n->attr)->groups;
    MBA_TRY(mba__need_rows("gated_rmsnorm", y));
    MBA_TRY(mba__need_rows("gated_rmsnorm", z));
    MBA_NEED(mba_elems(y) == mba_elems(z) && C == mba_cols(z), "gated_rmsnorm: %s and its gate %s differ in shape",
             y->name, z->name);
    MBA_NEED(mba_dense(w) && mba_elems(w) == C, "gated_rmsnorm: rows of %lld, a weight of %lld", (long long)C,
             (long long)mba_elems(w));
    MBA_NEED(groups > 0 && C % groups == 0, "gated_rmsnorm: %lld channels in %lld groups\nwhy: groups have equal size",
             (long long)C, (long long)groups);
    out[V] = y->type;
    out[RSTD] = MBA_TYPE(MBA_F32, mba_rows(y), groups);
    return MBA_OK;
}

static mba_status gated_rmsnorm_bwd_shape(const mba_node *n, mba_type *out)
{
    out[DY] = n->in[Y]->type;
    out[DZ] = n->in[Z]->type;
    out[DW] = MBA_TYPE(MBA_F32, mba_elems(n->in[W]));
    if (((const gated_rmsnorm_bwd_attr *)n->attr)->again) out[V_AGAIN] = n->in[Y]->type;
    return MBA_OK;
}

mba_tensor *mba_gated_rmsnorm(mba_graph *g, mba_tensor *y, mba_tensor *z, mba_tensor *w, int64_t groups, float eps)
{
    const gated_rmsnorm_attr a = { groups, (double)eps };
    return MBA_APPEND(g, gated_rmsnorm, &a, y, z, w)->out[V];
}

/* If memory is short, the backward node recomputes v for the operators that read it; otherwise this would be one more
 * row to write. */
static void gated_rmsnorm_grad(mba_graph *g, const mba_node *n, mba_tensor *const *d)
{
    const gated_rmsnorm_bwd_attr a = {
        *(const gated_rmsnorm_attr *)n->attr,
        mba_grad_can_defer(g, n->out[V]) && mba_should_recompute(g, MBA_RECOMPUTED_ROWS, mba_tensor_bytes(n->out[V]))
    };
    const mba_node *b = MBA_APPEND(g, gated_rmsnorm_bwd, &a, n->in[Y], n->in[Z], n->in[W], d[V], n->out[RSTD]);
    mba_grad_add(g, n->in[Y], b->out[DY]);
    mba_grad_add(g, n->in[Z], b->out[DZ]);
    mba_grad_add(g, n->in[W], b->out[DW]);
    if (a.again) mba_grad_defer(g, n->out[V], b->out[V_AGAIN]);
}

static mba_cost gated_rmsnorm_cost(const mba_node *n)
{
    mba_cost c = mba_cost_io(n);
    c.vector_flops = (n->in[DV] ? 18.0 : 6.0) * (double)mba_elems(n->in[Y]);
    c.special_ops = 2.0 * (double)mba_elems(n->in[Y]);
    return c;
}

static double gated_rmsnorm_terms(const mba_node *n, int out)
{
    (void)out;
    return (double)(mba_cols(n->in[Y]) / ((const gated_rmsnorm_attr *)n->attr)->groups);
}

static double gated_rmsnorm_bwd_terms(const mba_node *n, int out)
{
    return out == DW ? (double)mba_rows(n->in[Y]) : gated_rmsnorm_terms(n, out);
}

/* Scratch of the CPU per part of rows: its partial sum of dw, and silu and slope of the gate for the current group. */
static mba_status gated_rmsnorm_bwd_plan(mba_plan *p, const mba_node *n, const mba_machine *m)
{
    const int64_t parts = mba__parts(mba_rows(n->in[Y])), C = mba_cols(n->in[Y]);
    const int64_t P = C / ((const gated_rmsnorm_attr *)n->attr)->groups;
    MBA_TRY(mba__plan_f32(p, n, m));
    mba_plan_scratch(p, "dw parts", sizeof(float) * (size_t)(parts * C));
    mba_plan_scratch(p, "silu and slope", sizeof(float) * (size_t)(parts * 2 * P));
    return MBA_OK;
}

/* CUDA: thread groups if every group of channels consists of whole vectors, else one block per group of a row.
 * Registers by vectors per thread, from ptxas for sm_90. */
static const int fwd_regs[] = { 0, 38, 59, 80, 93 }, bwd_regs[] = { 0, 64, 116, 113, 121 };

static mba_status gated_rmsnorm_loop_plan(mba_plan *p, const mba_node *n, const mba_machine *m)
{
    MBA_REFUSE_IF(m->cc < 80, "a device of compute capability %d", m->cc);
    MBA_REFUSE_IF(n->in[Y]->type.dtype != n->in[Z]->type.dtype, "a gate of another type\nfix: mba_cast it");
    mba__plan_norm_loop(p, "gated_fwd_loop", n, mba_rows(n->in[Y]) * ((const gated_rmsnorm_attr *)n->attr)->groups);
    return MBA_OK;
}

static mba_status gated_rmsnorm_group_plan(mba_plan *p, const mba_node *n, const mba_machine *m)
{
    const mba__thread_group t = gated_rmsnorm_fwd_threads(n);
    MBA_REFUSE_IF(m->cc < 80, "a device of compute capability %d", m->cc);
    MBA_REFUSE_IF(n->in[Y]->type.dtype != n->in[Z]->type.dtype, "a gate of another type\nfix: mba_cast it");
    const int64_t units = mba_rows(n->in[Y]) * ((const gated_rmsnorm_attr *)n->attr)->groups;
    MBA_REFUSE_IF(!t.vectors || !mba__uniform_pitch(n->in[Y], t.width) || !mba__uniform_pitch(n->in[Z], t.width)
                      || !mba__uniform_pitch(n->out[V], t.width) || units >= 1 << 30,
                  "rows that are not whole vectors at one pitch");
    mba__plan_norm_fwd(p, "gated_rmsnorm_fwd_group", n, units, t, fwd_regs[t.vectors]);
    return MBA_OK;
}

static mba_status gated_rmsnorm_bwd_loop_plan(mba_plan *p, const mba_node *n, const mba_machine *m)
{
    const int64_t G = ((const gated_rmsnorm_attr *)n->attr)->groups;
    MBA_REFUSE_IF(m->cc < 80, "a device of compute capability %d", m->cc);
    mba__plan_norm_bwd_loop(p, "gated_bwd_loop", n, m, mba_rows(n->in[Y]), mba_cols(n->in[Y]) / G, G);
    return MBA_OK;
}

static mba_status gated_rmsnorm_bwd_group_plan(mba_plan *p, const mba_node *n, const mba_machine *m)
{
    const int64_t           G = ((const gated_rmsnorm_attr *)n->attr)->groups;
    const mba__thread_group t = gated_rmsnorm_bwd_threads(n);
    const mba__norm_bwd     b = { .kernel = "gated_rmsnorm_bwd_group",
                                  .rows = mba_rows(n->in[Y]),
                                  .cols = mba_cols(n->in[Y]) / G,
                                  .groups = G,
                                  .sums = 1,
                                  .thread_group = t,
                                  .staged_bytes = 3 * (int)mba_dtype_bytes(n->in[Y]->type.dtype),
                                  .regs = bwd_regs[t.vectors],
                                  .kept_bytes = t.vectors == 1 ? (int)sizeof(float) : 0,
                                  .stages = GATED_RMSNORM_STAGES,
                                  .block = MBA__GROUP_THREADS_MAX };
    MBA_REFUSE_IF(m->cc < 80, "a device of compute capability %d", m->cc);
    const mba_tensor *const rows[] = {
        n->in[Y], n->in[Z], n->in[DV], n->out[DY], n->out[DZ], n->out[V_AGAIN]
    }; // not rstd: one number per group
    MBA_REFUSE_IF(b.rows * G >= 1 << 30, "%lld rows of %lld groups", (long long)b.rows, (long long)G);
    for (int k = 0; k < 6; k++)
        MBA_REFUSE_IF(!b.thread_group.vectors || (rows[k] && !mba__uniform_pitch(rows[k], b.thread_group.width)),
                      "rows that are not whole vectors at one pitch");
    return mba__plan_norm_bwd(p, n, m, &b);
}

/* dims: R, C, groups, how: 0 alone, 1 y and z are columns of one matrix that is also used elsewhere (3: without gaps),
 * 2 y is its own gate, 4 a product uses v, and the gradient of its weight needs the recomputed v.
 * The gate makes some groups nearly zero; an eps of 0.1 keeps their curvature within reach of finite differences. */
static void gated_rmsnorm_build(mba_graph *g, const mba_case *c)
{
    const int64_t R = c->dim[0], C = c->dim[1], how = c->dim[3], gap = how == 1 ? 1 : 0,
                  wide = how % 2 ? 2 * C + 3 * gap : C;
    g->recompute_bytes_max[MBA_RECOMPUTED_ROWS] = how == 4 ? INT64_MAX : 0;
    mba_tensor *y = mba_case_act(g, "y", MBA_TYPE(MBA_F32, R, wide), MBA_INIT_NORMAL(1)), *z = y;
    mba_tensor *w = mba_param(g, "w", MBA_TYPE(MBA_F32, C), MBA_INIT_NORMAL(1), MBA_NO_DECAY);
    if (how % 4 == 0) z = mba_case_act(g, "z", MBA_TYPE(MBA_F32, R, C), MBA_INIT_NORMAL(1));
    if (how % 2) {
        mba_tensor *all = mba_add(g, y, y);
        z = mba_slice(g, all, 1, gap, C);
        y = mba_slice(g, all, 1, C + 2 * gap, C);
        mba_add(g, y, z);
    }
    mba_tensor *v = mba_gated_rmsnorm(g, y, z, w, c->dim[2], 0.1f);
    if (how == 4) mba_linear(g, v, mba_param(g, "u", MBA_TYPE(g->compute, 8, C), MBA_INIT_NORMAL(1), MBA_DECAY));
    if (how % 2 == 0) return;
    mba_tensor *j = mba_concat(g, v, mba_gated_rmsnorm(g, z, y, w, 1, 0.1f));
    mba_add(g, j, j);
}

const mba_op mba_op_gated_rmsnorm = {
    .name = "gated_rmsnorm",
    .doc = "v = w q rstd(q), q = y silu(z), in groups of channels",
    .kind = MBA_NORM,
    .in = { [Y] = MBA_SLOT("y"), [Z] = MBA_SLOT("z"), [W] = MBA_SLOT("w") },
    .out = { [V] = MBA_SLOT("v", .reuse = MBA_FROM(Y)), // not cheap: the backward node recomputes it at a lower cost
             [RSTD] = MBA_SLOT("rstd", .saved = true) },
    .attr_bytes = sizeof(gated_rmsnorm_attr),
    .shape = gated_rmsnorm_shape,
    .grad = gated_rmsnorm_grad,
    .cost = gated_rmsnorm_cost,
    .ref = gated_rmsnorm_ref,
    .terms = gated_rmsnorm_terms,
    .cpu = (const mba_variant[]){ { "rows", mba__plan_f32, MBA_CPU(gated_rmsnorm_fwd) }, { 0 } },
    .cuda = (const mba_variant[]){ { "group", gated_rmsnorm_group_plan, MBA_CUDA(gated_rmsnorm_cuda) },
                                   { "loop", gated_rmsnorm_loop_plan, MBA_CUDA(gated_rmsnorm_loop_cuda) },
                                   { 0 } },
    .build = gated_rmsnorm_build,
    .cases = (const mba_case[]){ { { 3, 8, 1 }, "one group" },
                                 { { 4, 21, 3 }, "three groups of an odd width" },
                                 { { 130, 6, 2 }, "more rows than one part takes" },
                                 { { 2, 70, 2 }, "groups longer than a vector" },
                                 { { 70, 32, 2 }, "whole vectors: thread groups smaller than a warp" },
                                 { { 3, 528, 2 }, "thread groups of several warps" },
                                 { { 3, 768, 1 }, "several vectors a thread" },
                                 { { 1, 1536, 1 }, "a row that a thread group covers" },
                                 { { 4, 16, 2, 3 }, "columns in whole vectors" },
                                 { { 4, 10, 2, 1 }, "columns of one matrix in and out, added to" },
                                 { { 3, 6, 1, 2 }, "a tensor gates itself" },
                                 { { 5, 16, 2, 4 }, "made again for a product" },
                                 { { 3, 10, 2, 4 }, "made again, odd groups" },
                                 { { 0 }, NULL } },
    .sizes = (const mba_case[]){ { { 4096, 1536, 1 }, "mamba2-130m, 4096 tokens" },
                                 { { 16384, 1536, 1 }, "mamba2-130m, 16384 tokens" },
                                 { { 16384, 4096, 1 }, "mamba2-1.3b, 16384 tokens" },
                                 { { 0 }, NULL } },
};

const mba_op mba_op_gated_rmsnorm_bwd = {
    .name = "gated_rmsnorm_bwd",
    .doc = "gradients of gated_rmsnorm",
    .kind = MBA_NORM,
    .no_grad = "a gradient",
    .in = { [Y] = MBA_SLOT("y"),
            [Z] = MBA_SLOT("z"),
            [W] = MBA_SLOT("w"),
            [DV] = MBA_SLOT("dv"),
            [RSTDB] = MBA_SLOT("rstd") },
    .out = { [DY] = MBA_SLOT("dy", .adds = true, .reuse = MBA_FROM(DV)),
             [DZ] = MBA_SLOT("dz", .adds = true, .reuse = MBA_FROM(Z)),
             [DW] = MBA_SLOT("dw", .adds = true),
             [V_AGAIN] = MBA_SLOT("v") },
    .attr_bytes = sizeof(gated_rmsnorm_bwd_attr),
    .shape = gated_rmsnorm_bwd_shape,
    .cost = gated_rmsnorm_cost,
    .ref = gated_rmsnorm_bwd_ref,
    .terms = gated_rmsnorm_bwd_terms,
    .cpu = (const mba_variant[]){ { "parts", gated_rmsnorm_bwd_plan, MBA_CPU(gated_rmsnorm_bwd) }, { 0 } },
    .cuda = (const mba_variant[]){ { "group", gated_rmsnorm_bwd_group_plan, MBA_CUDA(gated_rmsnorm_bwd_cuda) },
                                   { "loop", gated_rmsnorm_bwd_loop_plan, MBA_CUDA(gated_rmsnorm_bwd_loop_cuda) },
                                   { 0 } },
};
