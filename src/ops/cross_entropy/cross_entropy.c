// SPDX-License-Identifier: Apache-2.0
/* cross_entropy.c -- loss = k sum_r (lse[r] - z[r, target[r]]), and dz = k dloss (softmax(z) - 1[target]): the
 * declaration. dz may overwrite the logits, because they are the largest tensor of a language model. */
#include "ops/cross_entropy/cross_entropy.h"

#include "ops/add/add.h"
#include "ops/cast/cast.h"
#include "ops/cross_entropy/cross_entropy_plan.h"
#include "ops/cross_entropy/cross_entropy_slots.h"

static mba_status ce_shape(const mba_node *n, mba_type *out)
{
    const mba_tensor *z = n->in[Z], *t = n->in[TARGET];
    MBA_NEED(z->type.dtype != MBA_I32 && t->type.dtype == MBA_I32 && t->bound > 0,
             "cross_entropy: %s are not logits, or %s not targets\nfix: make targets with mba_targets", z->name,
             t->name);
    MBA_NEED(mba_rows(z) == mba_elems(t), "cross_entropy: %lld rows of logits, %lld targets", (long long)mba_rows(z),
             (long long)mba_elems(t));
    MBA_NEED(t->bound <= mba_cols(z), "cross_entropy: targets up to %lld, %lld logits", (long long)t->bound - 1,
             (long long)mba_cols(z));
    MBA_NEED(z->run % mba_cols(z) == 0, "cross_entropy: the rows of %s are split into runs", z->name);
    out[LOSS] = MBA_TYPE(MBA_F32, 1);
    out[LSE] = MBA_TYPE(MBA_F32, mba_rows(z));
    return MBA_OK;
}

static mba_status ce_bwd_shape(const mba_node *n, mba_type *out)
{
    out[DZ] = n->in[ZB]->type;
    return MBA_OK;
}

mba_tensor *mba_cross_entropy(mba_graph *g, mba_tensor *logits, mba_tensor *target)
{
    return MBA_APPEND(g, cross_entropy, NULL, logits, target)->out[LOSS];
}

static void ce_grad(mba_graph *g, const mba_node *n, mba_tensor *const *d)
{
    mba_node *b = MBA_APPEND(g, cross_entropy_bwd, NULL, d[LOSS], n->in[Z], n->in[TARGET], n->out[LSE]);
    mba_grad_add(g, n->in[Z], b->out[DZ]);
}

static mba_cost ce_cost(const mba_node *n) // both: a subtraction, an exponential, a sum or product
{
    mba_cost     c = mba_cost_io(n);
    const double e = (double)mba_elems(n->op == &mba_op_cross_entropy ? n->in[Z] : n->in[ZB]);
    c.vector_flops = 3 * e;
    c.special_ops = e;
    return c;
}

static mba_status ce_cpu_plan(mba_plan *p, const mba_node *n, const mba_machine *m)
{
    (void)p, (void)m;
    const mba_tensor *z = n->op == &mba_op_cross_entropy ? n->in[Z] : n->in[ZB];
    MBA_REFUSE_IF(z->type.dtype != MBA_F32, "logits in bf16\nwhy: the CPU computes in fp32");
    return MBA_OK;
}

static mba_status ce_rows_plan(mba_plan *p, const mba_node *n, const mba_machine *m)
{
    const int64_t R = mba_rows(n->in[Z]), C = mba_cols(n->in[Z]);
    MBA_TRY(ce_plan_fits(m, C));
    mba_plan_scratch(p, "losses of rows", sizeof(float) * (size_t)R);
    mba_plan_stream(p, n, "cross_entropy_fwd_rows", ce_grid(R, C), CE_BLOCK, 63);
    ce_plan_total(p, "cross_entropy_fwd_total", R);
    return MBA_OK;
}

static mba_status ce_bwd_rows_plan(mba_plan *p, const mba_node *n, const mba_machine *m)
{
    const int64_t R = mba_rows(n->in[ZB]), C = mba_cols(n->in[ZB]);
    MBA_TRY(ce_plan_fits(m, C));
    mba_plan_scratch(p, "scale", sizeof(float));
    ce_plan_total(p, "cross_entropy_bwd_scale", R);
    mba_plan_stream(p, n, "cross_entropy_bwd_rows", ce_grid(R, C), CE_BLOCK, 64);
    return MBA_OK;
}

static double ce_terms(const mba_node *n, int out)
{
    (void)out;
    return (double)mba_cols(n->in[Z]); // the loss itself is summed in double
}

static void ce_build(mba_graph *g, const mba_case *c)
{
    const int64_t R = c->dim[0], V = c->dim[1], extra = c->dim[2];
    mba_tensor   *z = mba_case_act(g, "z", MBA_TYPE(MBA_F32, R, V + extra), MBA_INIT_NORMAL(2));
    mba_tensor   *t = mba_targets(g, "target", MBA_TYPE(MBA_I32, R), V);
    if (!extra) {
        mba_cross_entropy(g, z, t);
        return;
    }
    /* Two heads that share columns of the logits and have shifted targets: views, and a gradient that adds. */
    mba_tensor *two = mba_targets(g, "targets", MBA_TYPE(MBA_I32, R, 2), V);
    mba_tensor *a = mba_cross_entropy(g, mba_slice(g, z, 1, 0, V), mba_slice(g, two, 1, 0, 1));
    mba_add(g, a, mba_cross_entropy(g, mba_slice(g, z, 1, extra, V), mba_slice(g, two, 1, 1, 1)));
}

const mba_op mba_op_cross_entropy = {
    .name = "cross_entropy",
    .doc = "mean of -log softmax(z)[target]",
    .kind = MBA_EMBED_LOSS,
    .in = { [Z] = MBA_SLOT("z"), [TARGET] = MBA_SLOT("target") },
    .out = { [LOSS] = MBA_SLOT("loss"), [LSE] = MBA_SLOT("lse", .saved = true) },
    .shape = ce_shape,
    .grad = ce_grad,
    .cost = ce_cost,
    .ref = cross_entropy_ref,
    .cpu = (const mba_variant[]){ { "rows", ce_cpu_plan, MBA_CPU(cross_entropy_fwd) }, { 0 } },
    .cuda = (const mba_variant[]){ { "rows", ce_rows_plan, MBA_CUDA(cross_entropy_cuda) }, { 0 } },
    .build = ce_build,
    .terms = ce_terms,
    .cases = (const mba_case[]){ { { 5, 11 }, "odd vocabulary" },
                                 { { 3, 67 }, "whole vectors, then a tail" },
                                 { { 2, 1064 }, "rows for a whole block, in vectors of 16 bytes" },
                                 { { 2, 1031 }, "rows for a whole block, one by one" },
                                 { { 9, 40 }, "more rows than a block has warps" },
                                 { { 4, 24, 8 }, "views that overlap, in vectors of 16 bytes" },
                                 { { 1, 1 }, "one class: no loss" },
                                 { { 4, 9, 2 }, "views that overlap: the second gradient adds" },
                                 { { 0 }, NULL } },
    .sizes = (const mba_case[]){ { { 1024, 50288 }, "130m, 1024 tokens" },
                                 { { 4096, 50288 }, "130m, 4096 tokens" },
                                 { { 0 }, NULL } },
};

const mba_op mba_op_cross_entropy_bwd = {
    .name = "cross_entropy_bwd",
    .doc = "softmax minus one-hot",
    .kind = MBA_EMBED_LOSS,
    .no_grad = "a gradient",
    .in = { [DLOSS] = MBA_SLOT("dloss"),
            [ZB] = MBA_SLOT("z"),
            [TARGETB] = MBA_SLOT("target"),
            [LSEB] = MBA_SLOT("lse") },
    .out = { [DZ] = MBA_SLOT("dz", .adds = true, .reuse = MBA_FROM(ZB)) },
    .shape = ce_bwd_shape,
    .cost = ce_cost,
    .ref = cross_entropy_bwd_ref,
    .cpu = (const mba_variant[]){ { "rows", ce_cpu_plan, MBA_CPU(cross_entropy_bwd) }, { 0 } },
    .cuda = (const mba_variant[]){ { "rows", ce_bwd_rows_plan, MBA_CUDA(cross_entropy_bwd_cuda) }, { 0 } },
};
