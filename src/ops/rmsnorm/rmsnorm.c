// SPDX-License-Identifier: Apache-2.0
/* rmsnorm.c -- y = x * w * rstd, rstd[r] = 1 / sqrt(mean_c x[r,c]^2 + eps): the declaration. */
#include "ops/rmsnorm/rmsnorm.h"

#include "ops/add/add.h"
#include "ops/cast/cast.h"
#include "ops/rmsnorm/rmsnorm_slots.h"

static mba_status rmsnorm_shape(const mba_node *n, mba_type *out)
{
    const mba_tensor *x = n->in[X], *w = n->in[W];
    MBA_TRY(mba__need_rows("rmsnorm", x));
    MBA_NEED(mba_dense(w) && mba_elems(w) == mba_cols(x), "rmsnorm: rows of %lld, a weight of %lld",
             (long long)mba_cols(x), (long long)mba_elems(w));
    out[Y] = x->type;
    out[RSTD] = MBA_TYPE(MBA_F32, mba_rows(x));
    return MBA_OK;
}

static mba_status rmsnorm_bwd_shape(const mba_node *n, mba_type *out)
{
    out[DX] = n->in[XB]->type;
    out[DW] = MBA_TYPE(MBA_F32, mba_cols(n->in[XB]));
    return MBA_OK;
}

mba_tensor *mba_rmsnorm(mba_graph *g, mba_tensor *x, mba_tensor *w, float eps)
{
    return MBA_APPEND(g, rmsnorm, &(rmsnorm_attr){ eps }, x, w)->out[Y];
}

static void rmsnorm_grad(mba_graph *g, const mba_node *n, mba_tensor *const *d)
{
    const mba_node *b = MBA_APPEND(g, rmsnorm_bwd, NULL, d[Y], n->in[X], n->in[W], n->out[RSTD]);
    mba_grad_add(g, n->in[X], b->out[DX]);
    mba_grad_add(g, n->in[W], b->out[DW]);
}

static mba_cost rmsnorm_cost(const mba_node *n)
{
    mba_cost c = mba_cost_io(n);
    c.vector_flops = 4.0 * (double)mba_elems(n->in[X]);
    c.special_ops = (double)mba_rows(n->in[X]);
    return c;
}

static mba_cost rmsnorm_bwd_cost(const mba_node *n)
{
    mba_cost c = mba_cost_io(n);
    c.vector_flops = 9.0 * (double)mba_elems(n->in[XB]);
    return c;
}

static double rmsnorm_terms(const mba_node *n, int out)
{
    (void)out;
    return (double)mba_cols(n->in[X]);
}

static double rmsnorm_bwd_terms(const mba_node *n, int out)
{
    return (double)(out == DW ? mba_rows(n->in[XB]) : mba_cols(n->in[XB]));
}

static mba_status rmsnorm_bwd_plan(mba_plan *p, const mba_node *n, const mba_machine *m)
{
    MBA_TRY(mba__plan_f32(p, n, m));
    mba_plan_scratch(p, "dw parts", sizeof(float) * (size_t)(mba__parts(mba_rows(n->in[XB])) * mba_cols(n->in[XB])));
    return MBA_OK;
}

/* CUDA: thread groups if every row consists of whole vectors, else one block per row. Registers by vectors per thread,
 * from ptxas for sm_90. */
static const int fwd_regs[] = { 0, 32, 48, 64, 80 }, bwd_regs[] = { 0, 63, 96, 96, 111 };

static mba_status rmsnorm_group_plan(mba_plan *p, const mba_node *n, const mba_machine *m)
{
    const mba__thread_group t = rmsnorm_fwd_threads(n->in[X]);
    MBA_REFUSE_IF(m->cc < 80, "a device of compute capability %d", m->cc);
    MBA_REFUSE_IF(!t.vectors || !mba__uniform_pitch(n->in[X], t.width) || !mba__uniform_pitch(n->out[Y], t.width),
                  "rows that are not whole vectors at one pitch");
    mba__plan_norm_fwd(p, "norm_fwd_group", n, mba_rows(n->in[X]), t, fwd_regs[t.vectors]);
    return MBA_OK;
}

static mba_status rmsnorm_loop_plan(mba_plan *p, const mba_node *n, const mba_machine *m)
{
    MBA_REFUSE_IF(m->cc < 80, "a device of compute capability %d", m->cc);
    mba__plan_norm_loop(p, "norm_fwd_loop", n, mba_rows(n->in[X]));
    return MBA_OK;
}

static mba_status rmsnorm_bwd_group_plan(mba_plan *p, const mba_node *n, const mba_machine *m)
{
    const mba_tensor       *x = n->in[XB];
    const mba__thread_group t = rmsnorm_bwd_threads(x);
    const mba__norm_bwd     b = { .kernel = "norm_bwd_group",
                                  .rows = mba_rows(x),
                                  .cols = mba_cols(x),
                                  .groups = 1,
                                  .sums = 1,
                                  .thread_group = t,
                                  .staged_bytes = 2 * (int)mba_dtype_bytes(x->type.dtype),
                                  .regs = bwd_regs[t.vectors],
                                  .stages = RMSNORM_STAGES,
                                  .block = MBA__GROUP_THREADS_MAX };
    MBA_REFUSE_IF(m->cc < 80, "a device of compute capability %d", m->cc);
    MBA_REFUSE_IF(!t.vectors || !mba__uniform_pitch(x, t.width) || !mba__uniform_pitch(n->in[DY], t.width)
                      || !mba__uniform_pitch(n->out[DX], t.width),
                  "rows that are not whole vectors at one pitch");
    return mba__plan_norm_bwd(p, n, m, &b);
}

static mba_status rmsnorm_bwd_loop_plan(mba_plan *p, const mba_node *n, const mba_machine *m)
{
    MBA_REFUSE_IF(m->cc < 80, "a device of compute capability %d", m->cc);
    mba__plan_norm_bwd_loop(p, "norm_bwd_loop", n, m, mba_rows(n->in[XB]), mba_cols(n->in[XB]), 1);
    return MBA_OK;
}

/* dims: R, C, how: 0 alone, 1 Jamba's three norms side by side, 2 heads of a view, 3 a view used twice. */
static void rmsnorm_build(mba_graph *g, const mba_case *c)
{
    const int64_t R = c->dim[0], C = c->dim[1], how = c->dim[2], wide = how ? 3 * C + (C % 8 ? 2 : 0) : C;
    mba_tensor   *x = mba_case_act(g, "x", MBA_TYPE(MBA_F32, R, wide), MBA_INIT_NORMAL(1));
    mba_tensor   *w = mba_param(g, "w", MBA_TYPE(MBA_F32, C), MBA_INIT_NORMAL(1), MBA_NO_DECAY);
    if (!how) {
        mba_rmsnorm(g, x, w, 1e-5f);
        return;
    }
    mba_tensor *s = mba_add(g, x, x);
    if (how == 1) { // dt_low | B | C, of unequal widths
        mba_tensor *v = mba_param(g, "v", MBA_TYPE(MBA_F32, C + 2), MBA_INIT_NORMAL(1), MBA_NO_DECAY);
        mba_rmsnorm(g, mba_slice(g, s, 1, 0, C + 2), v, 1e-6f);
        mba_tensor *j = mba_concat(g, mba_rmsnorm(g, mba_slice(g, s, 1, C + 2, C), w, 1e-6f),
                                   mba_rmsnorm(g, mba_slice(g, s, 1, 2 * C + 2, C), w, 1e-6f));
        mba_add(g, j, j);
    } else if (how == 2) {
        mba_rmsnorm(g, mba_reshape(g, mba_slice(g, s, 1, C % 8 ? 1 : 0, 2 * C), MBA_TYPE(MBA_F32, R, 2, C)), w, 1e-5f);
    } else {
        mba_tensor *part = mba_slice(g, s, 1, 3, C);
        mba_rmsnorm(g, part, w, 1e-5f);
        mba_rmsnorm(g, part, w, 1e-2f);
    }
}

const mba_op mba_op_rmsnorm = {
    .name = "rmsnorm",
    .doc = "y = x * w * rsqrt(mean(x^2) + eps), over the last axis",
    .kind = MBA_NORM,
    .in = { [X] = MBA_SLOT("x"), [W] = MBA_SLOT("w") },
    .out = { [Y] = MBA_SLOT("y", .cheap = true, .reuse = MBA_FROM(X)),
             [RSTD] = MBA_SLOT("rstd", .cheap = true, .saved = true) },
    .attr_bytes = sizeof(rmsnorm_attr),
    .shape = rmsnorm_shape,
    .grad = rmsnorm_grad,
    .cost = rmsnorm_cost,
    .ref = rmsnorm_ref,
    .terms = rmsnorm_terms,
    .cpu = (const mba_variant[]){ { "rows", mba__plan_f32, MBA_CPU(rmsnorm_fwd) }, { 0 } },
    .cuda = (const mba_variant[]){ { "group", rmsnorm_group_plan, MBA_CUDA(rmsnorm_cuda) },
                                   { "loop", rmsnorm_loop_plan, MBA_CUDA(rmsnorm_loop_cuda) },
                                   { 0 } },
    .build = rmsnorm_build,
    .cases = (const mba_case[]){ { { 3, 8 }, "one small matrix" },
                                 { { 130, 7 }, "more rows than one part takes" },
                                 { { 2, 133 }, "rows of an odd length" },
                                 { { 70, 16 }, "thread groups smaller than a warp" },
                                 { { 3, 264 }, "thread groups of several warps" },
                                 { { 3, 768 }, "several vectors a thread" },
                                 { { 5, 3, 1 }, "Jamba: three norms of columns, two of them joined again" },
                                 { { 5, 4, 2 }, "heads of a view: two rows in a run" },
                                 { { 5, 8, 2 }, "heads in whole vectors" },
                                 { { 5, 6, 3 }, "a view used twice: dx adds" },
                                 { { 0 }, NULL } },
    .sizes = (const mba_case[]){ { { 4096, 768 }, "130m, 4096 tokens" },
                                 { { 16384, 768 }, "130m, 16384 tokens" },
                                 { { 16384, 2560 }, "2.7b, 16384 tokens" },
                                 { { 0 }, NULL } },
};

const mba_op mba_op_rmsnorm_bwd = {
    .name = "rmsnorm_bwd",
    .doc = "gradients of rmsnorm",
    .kind = MBA_NORM,
    .no_grad = "a gradient",
    .in = { [DY] = MBA_SLOT("dy"), [XB] = MBA_SLOT("x"), [WB] = MBA_SLOT("w"), [RSTDB] = MBA_SLOT("rstd") },
    .out = { [DX] = MBA_SLOT("dx", .adds = true, .reuse = MBA_FROM(DY)), [DW] = MBA_SLOT("dw", .adds = true) },
    .shape = rmsnorm_bwd_shape,
    .cost = rmsnorm_bwd_cost,
    .ref = rmsnorm_bwd_ref,
    .terms = rmsnorm_bwd_terms,
    .cpu = (const mba_variant[]){ { "parts", rmsnorm_bwd_plan, MBA_CPU(rmsnorm_bwd) }, { 0 } },
    .cuda = (const mba_variant[]){ { "group", rmsnorm_bwd_group_plan, MBA_CUDA(rmsnorm_bwd_cuda) },
                                   { "loop", rmsnorm_bwd_loop_plan, MBA_CUDA(rmsnorm_bwd_loop_cuda) },
                                   { 0 } },
};
