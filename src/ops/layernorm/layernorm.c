// SPDX-License-Identifier: Apache-2.0
/* layernorm.c -- y = (x - mean) rstd w + b, per row: the declaration. */
#include "ops/layernorm/layernorm.h"

#include "ops/add/add.h"
#include "ops/cast/cast.h"
#include "ops/layernorm/layernorm_slots.h"

static mba_status layernorm_shape(const mba_node *n, mba_type *out)
{
    const mba_tensor *x = n->in[X];
    MBA_TRY(mba__need_rows("layernorm", x));
    for (int k = W; k <= B; k++)
        MBA_NEED(mba_dense(n->in[k]) && mba_elems(n->in[k]) == mba_cols(x), "layernorm: rows of %lld, %s of %lld",
                 (long long)mba_cols(x), k == W ? "a weight" : "a shift", (long long)mba_elems(n->in[k]));
    out[Y] = x->type;
    out[MEAN] = out[RSTD] = MBA_TYPE(MBA_F32, mba_rows(x));
    return MBA_OK;
}

static mba_status layernorm_bwd_shape(const mba_node *n, mba_type *out)
{
    out[DX] = n->in[XB]->type;
    out[DW] = out[DB] = MBA_TYPE(MBA_F32, mba_cols(n->in[XB]));
    return MBA_OK;
}

mba_tensor *mba_layernorm(mba_graph *g, mba_tensor *x, mba_tensor *w, mba_tensor *b, float eps)
{
    return MBA_APPEND(g, layernorm, &(layernorm_attr){ eps }, x, w, b)->out[Y];
}

static void layernorm_grad(mba_graph *g, const mba_node *n, mba_tensor *const *d)
{
    const mba_node *b = MBA_APPEND(g, layernorm_bwd, NULL, d[Y], n->in[X], n->in[W], n->out[MEAN], n->out[RSTD]);
    mba_grad_add(g, n->in[X], b->out[DX]);
    mba_grad_add(g, n->in[W], b->out[DW]);
    mba_grad_add(g, n->in[B], b->out[DB]);
}

static mba_cost layernorm_cost(const mba_node *n)
{
    mba_cost c = mba_cost_io(n);
    c.vector_flops = 7.0 * (double)mba_elems(n->in[X]);
    c.special_ops = (double)mba_rows(n->in[X]);
    return c;
}

static mba_cost layernorm_bwd_cost(const mba_node *n)
{
    mba_cost c = mba_cost_io(n);
    c.vector_flops = 13.0 * (double)mba_elems(n->in[XB]);
    return c;
}

static double layernorm_terms(const mba_node *n, int out)
{
    (void)out;
    return (double)mba_cols(n->in[X]);
}

static double layernorm_bwd_terms(const mba_node *n, int out)
{
    return (double)(out == DX ? mba_cols(n->in[XB]) : mba_rows(n->in[XB]));
}

static mba_status layernorm_bwd_plan(mba_plan *p, const mba_node *n, const mba_machine *m)
{
    MBA_TRY(mba__plan_f32(p, n, m));
    const size_t bytes = sizeof(float) * (size_t)(mba__parts(mba_rows(n->in[XB])) * mba_cols(n->in[XB]));
    mba_plan_scratch(p, "dw parts", bytes);
    mba_plan_scratch(p, "db parts", bytes);
    return MBA_OK;
}

/* CUDA, any rows: eight warps per block, one row each; a row is read from memory once. */
static mba_launch *rows_launch(mba_plan *p, const mba_node *n, const char *kernel)
{
    const int64_t grid = mba_ceil(mba_rows(n->in[0]), 8);
    mba_launch   *l = mba_plan_launch(p, kernel, MBA_VECTOR, grid, 256);
    l->regs = 40; // estimate
    for (int k = 0; k < 2; k++)
        if (n->in[k] && mba_rows(n->in[k]) == mba_rows(n->in[0]))
            mba_phase_move(l, MBA_LOAD, MBA_ARG_IN(k), mba_tensor_bytes(n->in[k]) / (double)grid);
    mba_phase_work(l, MBA_FMA, n->op->cost(n).vector_flops / 2 / (double)grid, NULL);
    mba_phase_out(l, n, 0, mba_tensor_bytes(n->out[0]) / (double)grid);
    return l;
}

static mba_status layernorm_loop_plan(mba_plan *p, const mba_node *n, const mba_machine *m)
{
    MBA_REFUSE_IF(m->cc < 80, "a device of compute capability %d", m->cc);
    rows_launch(p, n, "layernorm_fwd_loop");
    return MBA_OK;
}

static mba_status layernorm_bwd_loop_plan(mba_plan *p, const mba_node *n, const mba_machine *m)
{
    MBA_REFUSE_IF(m->cc < 80, "a device of compute capability %d", m->cc);
    mba__plan_column_sums(p, n, "layernorm_sums", n->in[XB], 2, 1, 1u << DY | 1u << XB);
    rows_launch(p, n, "layernorm_dx_loop");
    return MBA_OK;
}

/* CUDA, rows of whole vectors: thread groups (layernorm_cuda.cu). Registers by vectors per thread, from ptxas for
 * sm_90. */
static const int fwd_regs[LAYERNORM_VECTORS + 1] = { 0, 40, 48, 56, 72, 80 };
static const int bwd_regs[LAYERNORM_VECTORS + 1] = { 0, 88, 112, 128, 128, 128 };

static mba_status layernorm_group_plan(mba_plan *p, const mba_node *n, const mba_machine *m)
{
    const mba__thread_group t = layernorm_fwd_group(n->in[X]);
    MBA_REFUSE_IF(m->cc < 80, "a device of compute capability %d", m->cc);
    MBA_REFUSE_IF(!t.vectors || !mba__uniform_pitch(n->in[X], t.width) || !mba__uniform_pitch(n->out[Y], t.width),
                  "rows that are not whole vectors at one pitch");
    mba__plan_norm_fwd(p, "layernorm_fwd_group", n, mba_rows(n->in[X]), t, fwd_regs[t.vectors]);
    return MBA_OK;
}

static mba_status layernorm_bwd_group_plan(mba_plan *p, const mba_node *n, const mba_machine *m)
{
    const mba_tensor       *x = n->in[XB];
    const mba__thread_group t = layernorm_bwd_group(x);
    const mba__norm_bwd     b = { .kernel = "layernorm_bwd_group",
                                  .rows = mba_rows(x),
                                  .cols = mba_cols(x),
                                  .groups = 1,
                                  .sums = 2,
                                  .thread_group = t,
                                  .staged_bytes = (mba_adds(n, DX) ? 3 : 2) * (int)mba_dtype_bytes(x->type.dtype),
                                  .regs = bwd_regs[t.vectors],
                                  .stages = LAYERNORM_STAGES,
                                  .block = LAYERNORM_THREADS };
    MBA_REFUSE_IF(m->cc < 80, "a device of compute capability %d", m->cc);
    MBA_REFUSE_IF(!t.vectors || !mba__uniform_pitch(x, t.width) || !mba__uniform_pitch(n->in[DY], t.width)
                      || !mba__uniform_pitch(n->out[DX], t.width),
                  "rows that are not whole vectors at one pitch");
    return mba__plan_norm_bwd(p, n, m, &b);
}

/* dims: R, C, how: 0 alone, 1 a view used twice, 2 after a sum with no other use, 3 a view of whole vectors used
 * twice. */
static void layernorm_build(mba_graph *g, const mba_case *c)
{
    const int64_t R = c->dim[0], C = c->dim[1], how = c->dim[2], wide = how == 1 ? C + 3 : how == 3 ? C + 16 : C;
    mba_tensor   *x = mba_case_act(g, "x", MBA_TYPE(MBA_F32, R, wide), MBA_INIT_NORMAL(1));
    mba_tensor   *w = mba_param(g, "w", MBA_TYPE(MBA_F32, C), MBA_INIT_NORMAL(1), MBA_NO_DECAY);
    mba_tensor   *b = mba_param(g, "b", MBA_TYPE(MBA_F32, C), MBA_INIT_NORMAL(1), MBA_NO_DECAY);
    if (!how) {
        mba_layernorm(g, x, w, b, 1e-5f);
        return;
    }
    mba_tensor *s = mba_add(g, x, x);
    if (how == 2) {
        mba_layernorm(g, s, w, b, 1e-5f);
        return;
    }
    mba_tensor *part = mba_slice(g, s, 1, how == 3 ? 8 : 2, C);
    mba_tensor *j = mba_concat(g, mba_layernorm(g, part, w, b, 1e-5f), mba_layernorm(g, part, w, b, 1e-2f));
    mba_add(g, j, j);
}

const mba_op mba_op_layernorm = {
    .name = "layernorm",
    .doc = "y = (x - mean) rstd w + b, over the last axis",
    .kind = MBA_NORM,
    .in = { [X] = MBA_SLOT("x"), [W] = MBA_SLOT("w"), [B] = MBA_SLOT("b") },
    .out = { [Y] = MBA_SLOT("y", .cheap = true, .reuse = MBA_FROM(X)),
             [MEAN] = MBA_SLOT("mean", .cheap = true, .saved = true),
             [RSTD] = MBA_SLOT("rstd", .cheap = true, .saved = true) },
    .attr_bytes = sizeof(layernorm_attr),
    .shape = layernorm_shape,
    .grad = layernorm_grad,
    .cost = layernorm_cost,
    .ref = layernorm_ref,
    .terms = layernorm_terms,
    .cpu = (const mba_variant[]){ { "rows", mba__plan_f32, MBA_CPU(layernorm_fwd) }, { 0 } },
    .cuda = (const mba_variant[]){ { "group", layernorm_group_plan, MBA_CUDA(layernorm_cuda) },
                                   { "loop", layernorm_loop_plan, MBA_CUDA(layernorm_loop_cuda) },
                                   { 0 } },
    .build = layernorm_build,
    .cases = (const mba_case[]){ { { 3, 8 }, "one small matrix" },
                                 { { 130, 7 }, "more rows than one part takes" },
                                 { { 2, 133 }, "rows of an odd length" },
                                 { { 70, 32 }, "thread groups smaller than a warp" },
                                 { { 3, 320 }, "five vectors a thread" },
                                 { { 2, 640 }, "whole warps" },
                                 { { 2, 1304 }, "thread groups of several warps" },
                                 { { 5, 16, 3 }, "a view in whole vectors used twice" },
                                 { { 5, 6, 1 }, "columns of a view used twice: dx adds" },
                                 { { 5, 6, 2 }, "the input dies here" },
                                 { { 0 }, NULL } },
    .sizes = (const mba_case[]){ { { 3136, 320 }, "MambaVision-T, 16 images: 196 tokens each" },
                                 { { 784, 640 }, "its last stage: 49 tokens each" },
                                 { { 25088, 320 }, "MambaVision-T, 128 images" },
                                 { { 6272, 640 }, "their last stage" },
                                 { { 0 }, NULL } },
};

const mba_op mba_op_layernorm_bwd = {
    .name = "layernorm_bwd",
    .doc = "gradients of layernorm",
    .kind = MBA_NORM,
    .no_grad = "a gradient",
    .in = { [DY] = MBA_SLOT("dy"),
            [XB] = MBA_SLOT("x"),
            [WB] = MBA_SLOT("w"),
            [MEANB] = MBA_SLOT("mean"),
            [RSTDB] = MBA_SLOT("rstd") },
    .out = { [DX] = MBA_SLOT("dx", .adds = true, .reuse = MBA_FROM(DY)),
             [DW] = MBA_SLOT("dw", .adds = true),
             [DB] = MBA_SLOT("db", .adds = true) },
    .shape = layernorm_bwd_shape,
    .cost = layernorm_bwd_cost,
    .ref = layernorm_bwd_ref,
    .terms = layernorm_bwd_terms,
    .cpu = (const mba_variant[]){ { "parts", layernorm_bwd_plan, MBA_CPU(layernorm_bwd) }, { 0 } },
    .cuda = (const mba_variant[]){ { "group", layernorm_bwd_group_plan, MBA_CUDA(layernorm_bwd_cuda) },
                                   { "loop", layernorm_bwd_loop_plan, MBA_CUDA(layernorm_bwd_loop_cuda) },
                                   { 0 } },
};
