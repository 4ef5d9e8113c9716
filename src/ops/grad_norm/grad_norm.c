// SPDX-License-Identifier: Apache-2.0
/* grad_norm.c -- norm = sqrt(sum g^2) over the flat gradients of all groups, and whether to skip the update: the
 * declaration. */
#include "ops/grad_norm/grad_norm.h"

#include "ops/grad_norm/grad_norm_slots.h"

static mba_status grad_norm_shape(const mba_node *n, mba_type *out)
{
    bool any = false;
    for (int k = 0; k < MBA_GROUPS; k++) {
        any |= n->in[k] != NULL;
        MBA_NEED(!n->in[k] || (n->in[k]->type.dtype == MBA_F32 && mba_dense(n->in[k])),
                 "grad_norm: %s is not flat fp32", n->in[k]->name);
    }
    const grad_norm_attr *a = n->attr;
    for (int k = 0; k < MBA_GROUPS && a->place.ranks > 1; k++)
        MBA_NEED(!n->in[k]
                     || (a->b.bucket[k] > 0 && a->b.bucket[k] % (a->place.ranks * GRAD_NORM_BLOCK) == 0
                         && mba_elems(n->in[k]) % a->b.bucket[k] == 0),
                 "grad_norm: %lld values in buckets of %lld on %lld ranks", (long long)mba_elems(n->in[k]),
                 (long long)a->b.bucket[k], (long long)a->place.ranks);
    MBA_NEED(any, "there are no gradients\nwhy: no parameter of the graph has been reached by mba_backward");
    MBA_NEED(!n->in[LOSS] || (n->in[LOSS]->type.dtype == MBA_F32 && mba_elems(n->in[LOSS]) == 1),
             "grad_norm: %s is not one fp32 value", n->in[LOSS]->name);
    out[NORM] = MBA_TYPE(MBA_F32, 2);
    return MBA_OK;
}

static mba_tensor *append(mba_graph *g, const grad_norm_attr *a)
{
    mba_tensor *grad[MBA_GROUPS];
    for (int k = 0; k < MBA_GROUPS; k++) grad[k] = mba_flat_grads(g, (mba_group)k);
    return mba_result(g, "grad_norm",
                      MBA_APPEND(g, grad_norm, a, grad[MBA_DECAY], grad[MBA_NO_DECAY], g->loss)->out[NORM]);
}

mba_tensor *mba_grad_norm(mba_graph *g) { return append(g, &(grad_norm_attr){ .place = { 0, 1 } }); }

mba_tensor *mba_grad_norm_shards(mba_graph *g, mba_place p, const mba_buckets *b)
{
    return append(g, &(grad_norm_attr){ p, *b });
}

static mba_cost grad_norm_cost(const mba_node *n)
{
    const double R = (double)((const grad_norm_attr *)n->attr)->place.ranks;
    mba_cost     c = mba_cost_io(n);
    double       values = 0;
    for (int k = 0; k < MBA_GROUPS; k++)
        if (n->in[k]) values += (double)mba_elems(n->in[k]);
    c.vector_flops = 2 * values / R;
    c.read_bytes -= sizeof(float) * values * (R - 1) / R;
    c.link_bytes = sizeof(double) * values / GRAD_NORM_BLOCK * (R - 1) / R;
    return c;
}

static mba_status grad_norm_cpu_plan(mba_plan *p, const mba_node *n, const mba_machine *m)
{
    (void)m;
    for (int k = 0; k < MBA_GROUPS; k++) {
        const int64_t blocks = n->in[k] ? mba_ceil(mba_elems(n->in[k]), GRAD_NORM_BLOCK) : 0;
        if (blocks) mba_plan_scratch(p, "partial sums", sizeof(double) * (size_t)blocks);
    }
    return MBA_OK;
}

/* CUDA: one launch per group, with one block per partial sum; then one block adds all of them. The padding of shards
 * has no partial sums if there is one rank: they would move the others in the order of the last sum. Of several ranks,
 * each makes the partial sums of its pieces, with the loss behind them, and NCCL gathers those of all. */
static mba_status grad_norm_cuda_plan(mba_plan *p, const mba_node *n, const mba_machine *m)
{
    const grad_norm_attr *a = n->attr;
    const bool            shards = a->place.ranks > 1;
    int64_t               parts = shards; // the loss
    MBA_REFUSE_IF(m->cc < 80, "a device of compute capability %d", m->cc);
    for (int k = 0; k < MBA_GROUPS; k++) {
        if (!n->in[k]) continue;
        const int64_t elems = mba_elems(n->in[k]), used = a->b.used[k] && !shards ? a->b.used[k] : elems,
                      blocks = mba_ceil(used / a->place.ranks, GRAD_NORM_BLOCK);
        mba_launch *l = mba_plan_launch(p, shards ? "grad_norm_squares_shard" : "grad_norm_squares", MBA_VECTOR, blocks,
                                        256);
        l->regs = 32;
        mba_phase_move(l, MBA_LOAD, MBA_ARG_IN(k), sizeof(float) * (double)used / (double)(a->place.ranks * blocks));
        mba_phase_work(l, MBA_ALU, 2.0 * GRAD_NORM_BLOCK, NULL);
        mba_phase_move(l, MBA_STORE, MBA_ARG_SCRATCH(0), sizeof(double));
        parts += blocks;
    }
    parts *= a->place.ranks;
    mba_plan_scratch(p, "partial sums", sizeof(double) * (size_t)parts);
    mba_launch *l = mba_plan_launch(p, shards ? "grad_norm_total_shards" : "grad_norm_total", MBA_VECTOR, 1, 1024);
    l->regs = 32;
    mba_phase_move(l, MBA_LOAD, MBA_ARG_SCRATCH(0), (double)parts * sizeof(double));
    mba_phase_move(l, MBA_STORE, MBA_ARG_OUT(NORM), 2 * sizeof(float));
    return MBA_OK;
}

const mba_op mba_op_grad_norm = {
    .name = "grad_norm",
    .doc = "the length of the whole gradient",
    .kind = MBA_REDUCTION,
    .no_grad = "the end of a step",
    .in = { [MBA_DECAY] = MBA_SLOT("g_decay", .optional = true),
            [MBA_NO_DECAY] = MBA_SLOT("g_no_decay", .optional = true),
            [LOSS] = MBA_SLOT("loss", .optional = true) },
    .out = { [NORM] = MBA_SLOT("norm") },
    .attr_bytes = sizeof(grad_norm_attr),
    .shape = grad_norm_shape,
    .cost = grad_norm_cost,
    .ref = grad_norm_ref,
    .cpu = (const mba_variant[]){ { "blocks", grad_norm_cpu_plan, MBA_CPU(grad_norm_fwd) }, { 0 } },
    .cuda = (const mba_variant[]){ { "blocks", grad_norm_cuda_plan, MBA_CUDA(grad_norm_cuda) }, { 0 } },
};
