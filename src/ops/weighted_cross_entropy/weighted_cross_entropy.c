// SPDX-License-Identifier: Apache-2.0
/* weighted_cross_entropy.c -- cross entropy with class weights computed from the batch, and its gradient: the
 * declaration. */
#include "ops/weighted_cross_entropy/weighted_cross_entropy.h"

#include "ops/add/add.h"
#include "ops/cast/cast.h"
#include "ops/cross_entropy/cross_entropy_plan.h"
#include "ops/weighted_cross_entropy/weighted_cross_entropy_slots.h"

static mba_status wce_shape(const mba_node *n, mba_type *out)
{
    const mba_tensor *z = n->in[Z], *t = n->in[TARGET];
    MBA_TRY(mba__need_rows("weighted_cross_entropy", z));
    MBA_NEED(z->type.rank == 2, "weighted_cross_entropy: %s is no matrix", z->name);
    MBA_NEED(t->type.dtype == MBA_I32 && t->bound > 0,
             "weighted_cross_entropy: %s are not targets\n"
             "fix: make them with mba_targets",
             t->name);
    MBA_NEED(mba_rows(z) == mba_elems(t), "weighted_cross_entropy: %lld rows of logits, %lld targets",
             (long long)mba_rows(z), (long long)mba_elems(t));
    MBA_NEED(t->bound <= mba_cols(z), "weighted_cross_entropy: targets up to %lld, %lld logits",
             (long long)t->bound - 1, (long long)mba_cols(z));
    out[LOSS] = MBA_TYPE(MBA_F32, 1);
    out[LSE] = MBA_TYPE(MBA_F32, mba_rows(z));
    out[WEIGHT] = MBA_TYPE(MBA_F32, mba_cols(z));
    return MBA_OK;
}

static mba_status wce_bwd_shape(const mba_node *n, mba_type *out)
{
    out[DZ] = n->in[ZB]->type;
    return MBA_OK;
}

mba_tensor *mba_weighted_cross_entropy(mba_graph *g, mba_tensor *logits, mba_tensor *target)
{
    return MBA_APPEND(g, weighted_cross_entropy, NULL, logits, target)->out[LOSS];
}

static void wce_grad(mba_graph *g, const mba_node *n, mba_tensor *const *d)
{
    mba_node *b = MBA_APPEND(g, weighted_cross_entropy_bwd, NULL, d[LOSS], n->in[Z], n->in[TARGET], n->out[LSE],
                             n->out[WEIGHT]);
    mba_grad_add(g, n->in[Z], b->out[DZ]);
}

static mba_cost wce_cost(const mba_node *n)
{
    mba_cost     c = mba_cost_io(n);
    const double e = (double)mba_elems(n->op == &mba_op_weighted_cross_entropy ? n->in[Z] : n->in[ZB]);
    c.vector_flops = 3 * e;
    c.special_ops = e;
    return c;
}

/* CUDA: one block computes the weights; rows and loss follow as in ops/cross_entropy. */
static mba_status wce_rows_plan(mba_plan *p, const mba_node *n, const mba_machine *m)
{
    const int64_t R = mba_rows(n->in[Z]), C = mba_cols(n->in[Z]);
    MBA_TRY(ce_plan_fits(m, C));
    mba_plan_scratch(p, "losses of rows", sizeof(float) * (size_t)R);
    mba_plan_scratch(p, "counts", sizeof(int32_t) * (size_t)C);
    mba_launch *l = mba_plan_launch(p, "weighted_cross_entropy_weights", MBA_VECTOR, 1, CE_TOTAL_BLOCK);
    l->regs = 38;
    mba_phase_move(l, MBA_LOAD, MBA_ARG_IN(TARGET), 4.0 * (double)R);
    mba_phase_move(l, MBA_STORE, MBA_ARG_OUT(WEIGHT), 4.0 * (double)C);
    mba_plan_stream(p, n, "cross_entropy_fwd_rows", ce_grid(R, C), CE_BLOCK, 63);
    ce_plan_total(p, "cross_entropy_fwd_total", R);
    return MBA_OK;
}

static mba_status wce_bwd_rows_plan(mba_plan *p, const mba_node *n, const mba_machine *m)
{
    const int64_t R = mba_rows(n->in[ZB]), C = mba_cols(n->in[ZB]);
    MBA_TRY(ce_plan_fits(m, C));
    mba_plan_stream(p, n, "cross_entropy_bwd_rows", ce_grid(R, C), CE_BLOCK, 64);
    return MBA_OK;
}

static double wce_terms(const mba_node *n, int out)
{
    (void)out;
    return (double)mba_cols(n->in[Z]); // the loss itself is summed in double
}

static void wce_build(mba_graph *g, const mba_case *c)
{
    const int64_t R = c->dim[0], V = c->dim[1], extra = c->dim[2];
    mba_tensor   *z = mba_case_act(g, "z", MBA_TYPE(MBA_F32, R, V + extra), MBA_INIT_NORMAL(2));
    mba_tensor   *t = mba_targets(g, "target", MBA_TYPE(MBA_I32, R), V);
    double       *y = mba_arena_new(g->arena, double, R);
    for (int64_t r = 0; r < R; r++) y[r] = r % 5 == 3 ? -1 : (double)(r * r % V); // -1: ignored; some classes are rare
    mba_example(g, t, y);
    if (!extra) {
        mba_weighted_cross_entropy(g, z, t);
        return;
    }
    mba_tensor *a = mba_weighted_cross_entropy(g, mba_slice(g, z, 1, 0, V), t);
    mba_add(g, a, mba_weighted_cross_entropy(g, mba_slice(g, z, 1, extra, V), t));
}

const mba_op mba_op_weighted_cross_entropy = {
    .name = "weighted_cross_entropy",
    .doc = "cross entropy, rare classes weigh more",
    .kind = MBA_EMBED_LOSS,
    .in = { [Z] = MBA_SLOT("z"), [TARGET] = MBA_SLOT("target") },
    .out = { [LOSS] = MBA_SLOT("loss"),
             [LSE] = MBA_SLOT("lse", .saved = true),
             [WEIGHT] = MBA_SLOT("weight", .saved = true) },
    .shape = wce_shape,
    .grad = wce_grad,
    .cost = wce_cost,
    .ref = weighted_cross_entropy_ref,
    .terms = wce_terms,
    .cpu = (const mba_variant[]){ { "rows", mba__plan_f32, MBA_CPU(weighted_cross_entropy_fwd) }, { 0 } },
    .cuda = (const mba_variant[]){ { "rows", wce_rows_plan, MBA_CUDA(weighted_cross_entropy_cuda) }, { 0 } },
    .build = wce_build,
    .cases = (const mba_case[]){ { { 11, 6 }, "classes of different frequency, ignored rows" },
                                 { { 7, 21, 2 }, "views that overlap: the second gradient adds" },
                                 { { 13, 16, 8 }, "views that overlap, in vectors of 16 bytes" },
                                 { { 3, 1 }, "one class: no weight, no loss" },
                                 { { 0 }, NULL } },
    .sizes = (const mba_case[]){ { { 15341, 21 }, "PascalVOC-SP, 32 graphs" }, { { 0 }, NULL } },
};

const mba_op mba_op_weighted_cross_entropy_bwd = {
    .name = "weighted_cross_entropy_bwd",
    .doc = "softmax minus one-hot, weighted",
    .kind = MBA_EMBED_LOSS,
    .no_grad = "a gradient",
    .in = { [DLOSS] = MBA_SLOT("dloss"),
            [ZB] = MBA_SLOT("z"),
            [TARGETB] = MBA_SLOT("target"),
            [LSEB] = MBA_SLOT("lse"),
            [WEIGHTB] = MBA_SLOT("weight") },
    .out = { [DZ] = MBA_SLOT("dz", .adds = true, .reuse = MBA_FROM(ZB)) },
    .shape = wce_bwd_shape,
    .cost = wce_cost,
    .ref = weighted_cross_entropy_bwd_ref,
    .cpu = (const mba_variant[]){ { "rows", mba__plan_f32, MBA_CPU(weighted_cross_entropy_bwd) }, { 0 } },
    .cuda = (const mba_variant[]){ { "rows", wce_bwd_rows_plan, MBA_CUDA(weighted_cross_entropy_bwd_cuda) }, { 0 } },
};
