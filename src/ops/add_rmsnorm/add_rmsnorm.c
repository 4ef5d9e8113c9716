// SPDX-License-Identifier: Apache-2.0
/* add_rmsnorm.c -- sum = res + m; y = sum * rstd * w, a residual add and a root-mean-square norm: the declaration.
 *
 *   rstd[r] = 1 / sqrt(mean_c sum[r,c]^2 + eps), fp32, saved. Without m, sum is res itself. */
#include "ops/add_rmsnorm/add_rmsnorm.h"

#include "ops/add/add.h"
#include "ops/add_rmsnorm/add_rmsnorm_slots.h"
#include "ops/cast/cast.h"

static mba_status add_rmsnorm_shape(const mba_node *n, mba_type *out)
{
    const mba_tensor *res = n->in[RES], *m = n->in[M], *w = n->in[W];
    MBA_TRY(mba__need_rows("add_rmsnorm", res));
    MBA_NEED(mba_dense(w) && mba_elems(w) == mba_cols(res), "add_rmsnorm: rows of %lld, a weight of %lld",
             (long long)mba_cols(res), (long long)mba_elems(w));
    if (m) {
        MBA_TRY(mba__need_rows("add_rmsnorm", m));
        MBA_NEED(mba_elems(m) == mba_elems(res) && mba_cols(m) == mba_cols(res),
                 "add_rmsnorm: the stream has rows of %lld, the branch of %lld, or another number of them",
                 (long long)mba_cols(res), (long long)mba_cols(m));
        out[SUM] = res->type;
    }
    out[Y] = res->type;
    out[Y].dtype = ((const add_rmsnorm_attr *)n->attr)->out;
    out[RSTD] = MBA_TYPE(MBA_F32, mba_rows(res));
    return MBA_OK;
}

static mba_status add_rmsnorm_bwd_shape(const mba_node *n, mba_type *out)
{
    const add_rmsnorm_attr *a = n->attr;
    out[DRES] = out[DM] = n->in[STREAM]->type;
    out[DM].dtype = a->out;
    out[DW] = MBA_TYPE(MBA_F32, mba_cols(n->in[STREAM]));
    return MBA_OK;
}

mba_tensor *mba_add_rmsnorm(mba_graph *g, mba_tensor **res, mba_tensor *m, mba_tensor *w, mba_dtype out, float eps)
{
    const add_rmsnorm_attr a = { .eps = eps, .out = out };
    const mba_node        *n = MBA_APPEND(g, add_rmsnorm, &a, *res, m, w);
    if (m) *res = n->out[SUM];
    return n->out[Y];
}

static void add_rmsnorm_grad(mba_graph *g, const mba_node *n, mba_tensor *const *d)
{
    mba_tensor            *res = n->in[RES], *m = n->in[M];
    const add_rmsnorm_attr a = { .out = mba_wants(m) ? m->type.dtype : MBA_NONE };
    if (!d[Y]) { // only the sum is used: the operator is an add
        mba_grad_pass(g, res, d[SUM]);
        mba_grad_pass(g, m, d[SUM]);
        return;
    }
    mba_tensor     *stream = m ? n->out[SUM] : res;
    const mba_node *b = MBA_APPEND(g, add_rmsnorm_bwd, &a, d[Y], d[SUM], stream, n->in[W], n->out[RSTD]);
    mba_grad_add(g, res, b->out[DRES]);
    if (b->out[DM]) mba_grad_add(g, m, b->out[DM]);
    mba_grad_add(g, n->in[W], b->out[DW]);
}

static mba_cost add_rmsnorm_cost(const mba_node *n)
{
    mba_cost c = mba_cost_io(n);
    c.vector_flops = 5.0 * (double)mba_elems(n->in[RES]);
    c.special_ops = (double)mba_rows(n->in[RES]);
    return c;
}

static mba_cost add_rmsnorm_bwd_cost(const mba_node *n)
{
    mba_cost c = mba_cost_io(n);
    c.vector_flops = 10.0 * (double)mba_elems(n->in[STREAM]);
    return c;
}

static double add_rmsnorm_terms(const mba_node *n, int out) { return out == SUM ? 1 : (double)mba_cols(n->in[RES]); }

static double add_rmsnorm_bwd_terms(const mba_node *n, int out)
{
    return (double)(out == DW ? mba_rows(n->in[STREAM]) : mba_cols(n->in[STREAM]));
}

static mba_status add_rmsnorm_bwd_plan(mba_plan *p, const mba_node *n, const mba_machine *m)
{
    const int64_t C = mba_cols(n->in[STREAM]);
    MBA_TRY(mba__plan_f32(p, n, m));
    mba_plan_scratch(p, "dw parts", sizeof(float) * (size_t)(mba__parts(mba_rows(n->in[STREAM])) * C));
    return MBA_OK;
}

/* CUDA: the residual stream is fp32, so a vector has four values. Thread groups process rows of whole vectors;
 * otherwise a block takes a row. */
static mba_status check_types(const mba_machine *m, const mba_tensor *stream, const mba_tensor *y,
                              const mba_tensor *branch)
{
    MBA_REFUSE_IF(m->cc < 80, "a device of compute capability %d", m->cc);
    MBA_REFUSE_IF(stream->type.dtype != MBA_F32, "a stream in bf16\nwhy: small branches would drown in its rounding");
    MBA_REFUSE_IF(branch && branch->type.dtype != y->type.dtype,
                  "a branch of another type than what is normalised\nfix: mba_cast it");
    return MBA_OK;
}

static mba_status add_rmsnorm_loop_plan(mba_plan *p, const mba_node *n, const mba_machine *m)
{
    MBA_TRY(check_types(m, n->in[RES], n->out[Y], n->in[M]));
    mba__plan_norm_loop(p, "norm_fwd_loop", n, mba_rows(n->in[RES]));
    return MBA_OK;
}

static mba_status add_rmsnorm_group_plan(mba_plan *p, const mba_node *n, const mba_machine *m)
{
    const mba__thread_group t = add_rmsnorm_threads(n->in[RES]);
    MBA_TRY(check_types(m, n->in[RES], n->out[Y], n->in[M]));
    MBA_REFUSE_IF(!t.vectors || !mba__uniform_pitch(n->in[RES], 4) || !mba__uniform_pitch(n->in[M], 4)
                      || !mba__uniform_pitch(n->out[SUM], 4) || !mba__uniform_pitch(n->out[Y], 4),
                  "rows that are not whole vectors at one pitch");
    mba__plan_norm_fwd(p, "norm_fwd_group", n, mba_rows(n->in[RES]), t, 54);
    return MBA_OK;
}

static mba_status add_rmsnorm_bwd_loop_plan(mba_plan *p, const mba_node *n, const mba_machine *m)
{
    const mba_tensor *x = n->in[STREAM];
    MBA_TRY(check_types(m, x, n->in[DY], n->out[DM]));
    mba__plan_norm_bwd_loop(p, "norm_bwd_loop", n, m, mba_rows(x), mba_cols(x), 1);
    return MBA_OK;
}

static mba_status add_rmsnorm_bwd_group_plan(mba_plan *p, const mba_node *n, const mba_machine *m)
{
    const mba_tensor   *x = n->in[STREAM];
    const mba__norm_bwd b = { .kernel = "norm_bwd_group",
                              .rows = mba_rows(x),
                              .cols = mba_cols(x),
                              .groups = 1,
                              .sums = 1,
                              .thread_group = add_rmsnorm_threads(x),
                              .staged_bytes = (n->in[DSUM] ? 8 : 4) + (int)mba_dtype_bytes(n->in[DY]->type.dtype),
                              .regs = 92,
                              .stages = ADD_RMSNORM_STAGES,
                              .block = 256 };
    MBA_TRY(check_types(m, x, n->in[DY], n->out[DM]));
    MBA_REFUSE_IF(!b.thread_group.vectors || !mba__uniform_pitch(x, 4) || !mba__uniform_pitch(n->in[DY], 4)
                      || !mba__uniform_pitch(n->in[DSUM], 4) || !mba__uniform_pitch(n->out[DRES], 4)
                      || !mba__uniform_pitch(n->out[DM], 4),
                  "rows that are not whole vectors at one pitch");
    return mba__plan_norm_bwd(p, n, m, &b);
}

/* dims: R, C, with a branch, as views; dim[4]: what uses the stream after the norm. */
static void add_rmsnorm_build(mba_graph *g, const mba_case *c)
{
    const int64_t  R = c->dim[0], C = c->dim[1], wide = c->dim[3] ? 2 * C + 3 : C;
    const mba_type x = MBA_TYPE(MBA_F32, R, wide);
    mba_tensor    *res = mba_param(g, "res", x, MBA_INIT_NORMAL(1), MBA_DECAY), *m = NULL;
    mba_tensor    *w = mba_param(g, "w", MBA_TYPE(MBA_F32, C), MBA_INIT_NORMAL(1), MBA_NO_DECAY);
    if (c->dim[3]) { // both are columns of one matrix, which is also used elsewhere
        mba_tensor *all = mba_add(g, res, mba_param(g, "m", x, MBA_INIT_NORMAL(1), MBA_DECAY));
        m = mba_cast(g, mba_slice(g, all, 1, 1, C), g->compute);
        res = mba_slice(g, all, 1, C + 2, C);
        mba_add(g, m, mba_cast(g, res, g->compute));
    } else if (c->dim[2]) {
        m = mba_case_act(g, "m", x, MBA_INIT_NORMAL(1));
    }
    mba_tensor *y = mba_add_rmsnorm(g, &res, m, w, g->compute, 1e-5f);
    if (c->dim[4] == 1) mba_add_rmsnorm(g, &res, y, w, g->compute, 1e-5f); // the norm of the next block
    if (c->dim[4] == 2) {                                                  // y is columns of a matrix, too
        mba_tensor *second = mba_add_rmsnorm(g, &res, NULL, w, g->compute, 1e-2f), *j = mba_concat(g, y, second);
        mba_add(g, j, j);
    }
}

const mba_op mba_op_add_rmsnorm = {
    .name = "add_rmsnorm",
    .doc = "sum = res + m; y = sum * rstd * w",
    .kind = MBA_NORM,
    .in = { [RES] = MBA_SLOT("res"), [M] = MBA_SLOT("m", .optional = true), [W] = MBA_SLOT("w") },
    .out = { [SUM] = MBA_SLOT("sum", .reuse = MBA_FROM(RES)),
             [Y] = MBA_SLOT("y", .reuse = MBA_FROM(M)),
             [RSTD] = MBA_SLOT("rstd", .saved = true) },
    .attr_bytes = sizeof(add_rmsnorm_attr),
    .shape = add_rmsnorm_shape,
    .grad = add_rmsnorm_grad,
    .cost = add_rmsnorm_cost,
    .ref = add_rmsnorm_ref,
    .cpu = (const mba_variant[]){ { "rows", mba__plan_f32, MBA_CPU(add_rmsnorm_fwd) }, { 0 } },
    .cuda = (const mba_variant[]){ { "group", add_rmsnorm_group_plan, MBA_CUDA(add_rmsnorm_cuda) },
                                   { "loop", add_rmsnorm_loop_plan, MBA_CUDA(add_rmsnorm_loop_cuda) },
                                   { 0 } },
    .build = add_rmsnorm_build,
    .terms = add_rmsnorm_terms,
    .cases = (const mba_case[]){ { { 3, 8, 1 }, "with a branch" },
                                 { { 5, 7, 0 }, "the first block: no branch" },
                                 { { 130, 6, 1 }, "more rows than one part takes" },
                                 { { 3, 37, 1, 0, 1 }, "two blocks: the stream's gradient comes in from above" },
                                 { { 70, 20, 1, 0, 1 }, "whole vectors: thread groups smaller than a warp" },
                                 { { 3, 264, 1 }, "thread groups of several warps" },
                                 { { 3, 768, 1, 0, 1 }, "several vectors a thread" },
                                 { { 4, 9, 1, 1 }, "stream and branch are columns of one matrix, used twice" },
                                 { { 4, 9, 1, 1, 2 }, "columns in, columns out" },
                                 { { 0 }, NULL } },
    .sizes = (const mba_case[]){ { { 4096, 768, 1 }, "130m, 4096 tokens" },
                                 { { 16384, 768, 1 }, "130m, 16384 tokens" },
                                 { { 16384, 2048, 1 }, "1.3b, 16384 tokens" },
                                 { { 16384, 2560, 1 }, "2.7b, 16384 tokens" },
                                 { { 0 }, NULL } },
};

const mba_op mba_op_add_rmsnorm_bwd = {
    .name = "add_rmsnorm_bwd",
    .doc = "gradient of the stream, the branch and the weight",
    .kind = MBA_NORM,
    .no_grad = "a gradient",
    .in = { [DY] = MBA_SLOT("dy"),
            [DSUM] = MBA_SLOT("dsum", .optional = true),
            [STREAM] = MBA_SLOT("sum"),
            [WB] = MBA_SLOT("w"),
            [RSTDB] = MBA_SLOT("rstd") },
    .out = { [DRES] = MBA_SLOT("dres", .adds = true, .reuse = MBA_FROM(DSUM)),
             [DM] = MBA_SLOT("dm", .adds = true, .reuse = MBA_FROM(DY)),
             [DW] = MBA_SLOT("dw", .adds = true) },
    .attr_bytes = sizeof(add_rmsnorm_attr),
    .shape = add_rmsnorm_bwd_shape,
    .cost = add_rmsnorm_bwd_cost,
    .ref = add_rmsnorm_bwd_ref,
    .terms = add_rmsnorm_bwd_terms,
    .cpu = (const mba_variant[]){ { "parts", add_rmsnorm_bwd_plan, MBA_CPU(add_rmsnorm_bwd) }, { 0 } },
    .cuda = (const mba_variant[]){ { "group", add_rmsnorm_bwd_group_plan, MBA_CUDA(add_rmsnorm_bwd_cuda) },
                                   { "loop", add_rmsnorm_bwd_loop_plan, MBA_CUDA(add_rmsnorm_bwd_loop_cuda) },
                                   { 0 } },
};
