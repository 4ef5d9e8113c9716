// SPDX-License-Identifier: Apache-2.0
/* soft_cross_entropy.c -- loss = k sum_r (T lse - t . z) with T = sum t, and dz = k dloss (T softmax(z) - t): the
 * declaration. Labels mean t = (1-s) [v = y] + s/V, which is never stored. */
#include "ops/soft_cross_entropy/soft_cross_entropy.h"

#include "ops/add/add.h"
#include "ops/cast/cast.h"
#include "ops/cross_entropy/cross_entropy_plan.h"
#include "ops/soft_cross_entropy/soft_cross_entropy_slots.h"

static mba_status soft_ce_shape(const mba_node *n, mba_type *out)
{
    const mba_tensor *z = n->in[Z], *t = n->in[TARGET];
    const double      s = ((const soft_ce_attr *)n->attr)->smoothing;
    MBA_TRY(mba__need_rows("soft_cross_entropy", z));
    MBA_NEED(!mba_wants(t), "soft_cross_entropy: the targets %s want a gradient\nwhy: they are taken as constants",
             t->name);
    MBA_NEED(s >= 0 && s < 1, "label_cross_entropy: a smoothing of %g\nfix: 0 <= smoothing < 1", s);
    if (t->type.dtype == MBA_I32) {
        MBA_NEED(mba_rows(z) == mba_elems(t), "label_cross_entropy: %lld rows of logits, %lld labels",
                 (long long)mba_rows(z), (long long)mba_elems(t));
        MBA_NEED(t->bound > 0 && t->bound <= mba_cols(z),
                 "label_cross_entropy: labels up to %lld, %lld logits\n"
                 "fix: make labels with mba_targets",
                 (long long)t->bound - 1, (long long)mba_cols(z));
    } else {
        MBA_TRY(mba__need_rows("soft_cross_entropy", t));
        MBA_NEED(mba_cols(z) == mba_cols(t) && mba_rows(z) == mba_rows(t),
                 "soft_cross_entropy: logits of %lld x %lld, targets of %lld x %lld", (long long)mba_rows(z),
                 (long long)mba_cols(z), (long long)mba_rows(t), (long long)mba_cols(t));
    }
    out[LOSS] = MBA_TYPE(MBA_F32, 1);
    out[LSE] = MBA_TYPE(MBA_F32, mba_rows(z));
    return MBA_OK;
}

static mba_status soft_ce_bwd_shape(const mba_node *n, mba_type *out)
{
    out[DZ] = n->in[ZB]->type;
    return MBA_OK;
}

mba_tensor *mba_soft_cross_entropy(mba_graph *g, mba_tensor *logits, mba_tensor *targets)
{
    return MBA_APPEND(g, soft_cross_entropy, &(soft_ce_attr){ 0 }, logits, targets)->out[LOSS];
}

mba_tensor *mba_label_cross_entropy(mba_graph *g, mba_tensor *logits, mba_tensor *label, double smoothing)
{
    return MBA_APPEND(g, soft_cross_entropy, &(soft_ce_attr){ smoothing }, logits, label)->out[LOSS];
}

static void soft_ce_grad(mba_graph *g, const mba_node *n, mba_tensor *const *d)
{
    mba_node *b = MBA_APPEND(g, soft_cross_entropy_bwd, n->attr, d[LOSS], n->in[Z], n->in[TARGET], n->out[LSE]);
    mba_grad_add(g, n->in[Z], b->out[DZ]);
}

static mba_cost soft_ce_cost(const mba_node *n) // both: an exponential, a difference, two sums or products
{
    mba_cost     c = mba_cost_io(n);
    const double e = (double)mba_elems(n->op == &mba_op_soft_cross_entropy ? n->in[Z] : n->in[ZB]);
    c.vector_flops = 5 * e;
    c.special_ops = e;
    return c;
}

static mba_status soft_ce_plan(mba_plan *p, const mba_node *n, const mba_machine *m)
{
    MBA_TRY(mba__plan_f32(p, n, m));
    mba_plan_scratch(p, "losses of rows", sizeof(double) * (size_t)mba_rows(n->in[Z]));
    return MBA_OK;
}

static mba_status soft_ce_rows_plan(mba_plan *p, const mba_node *n, const mba_machine *m)
{
    const int64_t R = mba_rows(n->in[Z]), C = mba_cols(n->in[Z]);
    MBA_TRY(ce_plan_fits(m, C));
    MBA_REFUSE_IF(n->in[TARGET]->type.dtype == MBA_BF16, "soft targets in bf16\nwhy: a batch has them in fp32");
    mba_plan_scratch(p, "losses of rows", sizeof(float) * (size_t)R);
    mba_plan_stream(p, n, "soft_cross_entropy_fwd_rows", ce_grid(R, C), CE_BLOCK, 32);
    ce_plan_total(p, "cross_entropy_fwd_total", R);
    return MBA_OK;
}

static mba_status soft_ce_bwd_rows_plan(mba_plan *p, const mba_node *n, const mba_machine *m)
{
    const int64_t R = mba_rows(n->in[ZB]), C = mba_cols(n->in[ZB]);
    MBA_TRY(ce_plan_fits(m, C));
    MBA_REFUSE_IF(n->in[TARGETB]->type.dtype == MBA_BF16, "soft targets in bf16\nwhy: a batch has them in fp32");
    mba_plan_scratch(p, "scale", sizeof(float));
    ce_plan_total(p, "cross_entropy_bwd_scale", R);
    mba_plan_stream(p, n, "soft_cross_entropy_bwd_rows", ce_grid(R, C), CE_BLOCK, 40);
    return MBA_OK;
}

static double soft_ce_terms(const mba_node *n, int out)
{
    (void)out;
    return (double)mba_cols(n->in[Z]);
}

/* dims: R, V, smoothing in percent (-1: soft targets), how: 1 two heads over overlapping columns. */
static void soft_ce_build(mba_graph *g, const mba_case *c)
{
    const int64_t R = c->dim[0], V = c->dim[1], extra = c->dim[3];
    mba_tensor   *z = mba_case_act(g, "z", MBA_TYPE(MBA_F32, R, V + extra), MBA_INIT_NORMAL(2));
    const double  s = (double)c->dim[2] / 100;
    mba_tensor   *t = s < 0 || extra ? mba_input(g, "t", MBA_TYPE(MBA_F32, R, V + extra)) : NULL;
    mba_tensor   *y = s < 0 ? NULL : mba_targets(g, "y", MBA_TYPE(MBA_I32, R), V);
    if (!extra) {
        if (s < 0) mba_soft_cross_entropy(g, z, t);
        else mba_label_cross_entropy(g, z, y, s);
        return;
    }
    mba_tensor *a = mba_soft_cross_entropy(g, mba_slice(g, z, 1, 0, V), mba_slice(g, t, 1, extra, V));
    mba_add(g, a, mba_label_cross_entropy(g, mba_slice(g, z, 1, extra, V), y, 0.1));
}

const mba_op mba_op_soft_cross_entropy = {
    .name = "soft_cross_entropy",
    .doc = "mean of -sum t log softmax(z)",
    .kind = MBA_EMBED_LOSS,
    .in = { [Z] = MBA_SLOT("z"), [TARGET] = MBA_SLOT("target") },
    .out = { [LOSS] = MBA_SLOT("loss"), [LSE] = MBA_SLOT("lse", .saved = true) },
    .attr_bytes = sizeof(soft_ce_attr),
    .shape = soft_ce_shape,
    .grad = soft_ce_grad,
    .cost = soft_ce_cost,
    .ref = soft_cross_entropy_ref,
    .cpu = (const mba_variant[]){ { "rows", soft_ce_plan, MBA_CPU(soft_cross_entropy_fwd) }, { 0 } },
    .cuda = (const mba_variant[]){ { "rows", soft_ce_rows_plan, MBA_CUDA(soft_cross_entropy_cuda) }, { 0 } },
    .build = soft_ce_build,
    .terms = soft_ce_terms,
    .cases = (const mba_case[]){ { { 5, 11, -1 }, "soft targets" },
                                 { { 3, 67, -1 }, "whole vectors, then a tail" },
                                 { { 5, 11, 10 }, "labels, smoothed" },
                                 { { 4, 7, 0 }, "labels as they are" },
                                 { { 2, 1064, -1 }, "rows for a whole block, in vectors" },
                                 { { 2, 1064, 10 }, "labels for a whole block" },
                                 { { 4, 16, 0, 8 }, "views that overlap, in vectors: the second gradient adds" },
                                 { { 4, 9, 0, 2 }, "views that overlap: the second gradient adds" },
                                 { { 0 }, NULL } },
    .sizes = (const mba_case[]){ { { 128, 1000, -1 }, "ImageNet, 128 images" }, { { 0 }, NULL } },
};

const mba_op mba_op_soft_cross_entropy_bwd = {
    .name = "soft_cross_entropy_bwd",
    .doc = "softmax minus targets",
    .kind = MBA_EMBED_LOSS,
    .no_grad = "a gradient",
    .in = { [DLOSS] = MBA_SLOT("dloss"),
            [ZB] = MBA_SLOT("z"),
            [TARGETB] = MBA_SLOT("target"),
            [LSEB] = MBA_SLOT("lse") },
    .out = { [DZ] = MBA_SLOT("dz", .adds = true, .reuse = MBA_FROM(ZB)) },
    .attr_bytes = sizeof(soft_ce_attr),
    .shape = soft_ce_bwd_shape,
    .cost = soft_ce_cost,
    .ref = soft_cross_entropy_bwd_ref,
    .cpu = (const mba_variant[]){ { "rows", mba__plan_f32, MBA_CPU(soft_cross_entropy_bwd) }, { 0 } },
    .cuda = (const mba_variant[]){ { "rows", soft_ce_bwd_rows_plan, MBA_CUDA(soft_cross_entropy_bwd_cuda) }, { 0 } },
};
