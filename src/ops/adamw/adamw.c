// SPDX-License-Identifier: Apache-2.0
/* adamw.c -- Adam with decoupled weight decay over a flat parameter group: the declaration.
 *
 *   g *= min(1, clip / (norm + 1e-6));   m = b1 m + (1-b1) g;   v = b2 v + (1-b2) g^2;   t = step + 1
 *   p -= lr ( (m / (1-b1^t)) / (sqrt(v / (1-b2^t)) + eps) + decay p )
 *
 * On CUDA the same pass writes the bf16 compute copy, if there is one. The CPU computes in fp32 and has none. */
#include "ops/adamw/adamw.h"

#include <math.h>

#include "ops/adamw/adamw_slots.h"
#include "ops/grad_norm/grad_norm.h"

adamw_factors adamw_factors_of(const adamw_attr *a, const mba_step *s, double norm, bool skip)
{
    const double t = (double)s->index + 1, clip = a->o.clip > 0 ? a->o.clip / (norm + 1e-6) : 1;
    return (adamw_factors){ .skip = skip,
                            .clip = clip < 1 ? clip : 1,
                            .lr = s->lr,
                            .unbias1 = 1 / (1 - pow(a->o.beta1, t)),
                            .unbias2 = 1 / (1 - pow(a->o.beta2, t)) };
}

static mba_status adamw_shape(const mba_node *n, mba_type *out)
{
    const mba_adamw_options *o = &((const adamw_attr *)n->attr)->o;
    MBA_NEED(o->decay >= 0 && o->clip >= 0,
             "adamw: a decay of %g, a clip of %g\nwhy: neither can be negative\n"
             "fix: 0 or more",
             o->decay, o->clip);
    return mba_moments_shape(n, out, (mba_moments_options){ o->beta1, o->beta2, o->eps });
}

void mba_adamw_all(mba_graph *g, const mba_adamw_options *o)
{
    mba_tensor *norm = mba_grad_norm(g);
    for (int k = 0; k < MBA_GROUPS; k++) {
        mba_tensor *in[MBA_IN_MAX] = { NULL };
        adamw_attr  a = { .o = *o, .zero = g->accumulate };
        if (k == MBA_NO_DECAY) a.o.decay = 0;
        if (mba_moments_of(in, g, (mba_group)k, norm)) mba_append(g, &mba_op_adamw, &a, in);
    }
}

/* One bucket of a group: updates the own piece of the parameters, then gathers the pieces of all ranks. */
static void update_bucket(mba_graph *g, const adamw_attr *a, mba_tensor *const whole[MBA_IN_MAX], mba_place p,
                          int64_t i, int64_t bucket)
{
    const int64_t piece = bucket / p.ranks, at = i * bucket + mba_piece_offset(p, bucket);
    mba_tensor   *in[MBA_IN_MAX] = { NULL };
    in[P] = mba_slice(g, whole[P], 0, at, piece);
    in[G] = mba_slice(g, whole[G], 0, at, piece);
    in[M] = mba_slice(g, whole[M], 0, i * piece, piece);
    in[V] = mba_slice(g, whole[V], 0, i * piece, piece);
    in[NORM] = whole[NORM];
    if (whole[COPY]) in[COPY] = mba_slice(g, whole[COPY], 0, at, piece);
    mba_append(g, &mba_op_adamw, a, in);
    for (int k = 0; k < 2; k++) {
        mba_tensor *gathered = whole[k ? COPY : P];
        if (gathered) mba_node_beside(g, mba_all_gather(g, mba_slice(g, gathered, 0, i * bucket, bucket), p));
    }
}

/* Adds one bucket of gradients over ranks as soon as the backward pass has completed it. */
static void sum_bucket(mba_graph *g, mba_tensor *grad, int64_t at, int64_t bucket, mba_place p)
{
    mba_tensor *sum = mba_reduce_scatter(g, mba_slice(g, grad, 0, at, bucket), p);
    mba_node_beside(g, sum);
    mba_node_advance(g, sum);
}

void mba_adamw_shards(mba_graph *g, const mba_adamw_options *o, mba_place p, const mba_buckets *b)
{
    const int64_t *bucket = b->bucket;
    for (int k = 0; k < MBA_GROUPS; k++) {
        mba_tensor *grad = mba_flat_grads(g, (mba_group)k);
        for (int64_t i = 0; grad && i < mba_elems(grad) / bucket[k]; i++)
            sum_bucket(g, grad, i * bucket[k], bucket[k], p);
    }
    mba_tensor *norm = mba_grad_norm_shards(g, p, b);
    for (int k = 0; k < MBA_GROUPS; k++) {
        mba_tensor *in[MBA_IN_MAX] = { NULL };
        adamw_attr  a = { .o = *o, .zero = g->accumulate };
        if (k == MBA_NO_DECAY) a.o.decay = 0;
        if (!mba_moments_shard(in, g, (mba_group)k, norm, p.ranks)) continue;
        for (int64_t i = 0; i < mba_elems(in[P]) / bucket[k]; i++) update_bucket(g, &a, in, p, i, bucket[k]);
    }
}

/* The gradient is written only if it is cleared. */
static mba_cost adamw_cost(const mba_node *n)
{
    const double e = (double)mba_elems(n->in[P]), copy = n->in[COPY] ? mba_tensor_bytes(n->in[COPY]) : 0;
    const bool   zero = ((const adamw_attr *)n->attr)->zero;
    return (mba_cost){ .read_bytes = 16 * e + 4,
                       .write_bytes = (zero ? 16 : 12) * e + copy,
                       .vector_flops = 13 * e,
                       .special_ops = 2 * e };
}

static mba_status adamw_cpu_plan(mba_plan *p, const mba_node *n, const mba_machine *m)
{
    (void)p, (void)m;
    MBA_REFUSE_IF(n->in[COPY], "a compute copy of the parameters\nwhy: the CPU computes in fp32");
    return MBA_OK;
}

/* CUDA: blocks are small, so that SMs with faster access to memory process more of them. Each block takes up to eight
 * trips, so that it rarely computes the powers of the betas, and fewer trips if the group would not fill the SMs. */
static mba_status adamw_flat_plan(mba_plan *p, const mba_node *n, const mba_machine *m)
{
    enum { BLOCKS_SM = 4, TRIPS = 8 };
    const int64_t need = mba_ceil(mba_elems(n->in[P]), ADAMW_BLOCK * ADAMW_VALUES),
                  fill = mba_ceil(need, (int64_t)m->sm * BLOCKS_SM), grid = mba_ceil(need, fill < TRIPS ? fill : TRIPS);
    const mba_cost c = adamw_cost(n);
    MBA_REFUSE_IF(m->cc < 80, "a device of compute capability %d", m->cc);
    mba_launch *l = mba_plan_launch(p, "adamw_flat", MBA_VECTOR, grid, ADAMW_BLOCK);
    l->regs = 52;
    for (int k = P; k <= V; k++) mba_phase_move(l, MBA_LOAD, MBA_ARG_IN(k), mba_tensor_bytes(n->in[k]) / (double)grid);
    mba_phase_work(l, MBA_FMA, c.vector_flops / (double)grid, NULL);
    mba_phase_work(l, MBA_SFU, c.special_ops / (double)grid, NULL);
    for (int k = PO; k <= COPYO; k++)
        if (n->out[k] && (k != GO || ((const adamw_attr *)n->attr)->zero))
            mba_phase_move(l, MBA_STORE, MBA_ARG_OUT(k), mba_tensor_bytes(n->out[k]) / (double)grid);
    return MBA_OK;
}

const mba_op mba_op_adamw = {
    .name = "adamw",
    .doc = "Adam with decoupled decay, over a flat group",
    .kind = MBA_OPTIMIZER,
    .no_grad = "the end of a step",
    .in = MBA_MOMENTS_IN,
    .out = MBA_MOMENTS_OUT,
    .attr_bytes = sizeof(adamw_attr),
    .shape = adamw_shape,
    .cost = adamw_cost,
    .ref = adamw_ref,
    .cpu = (const mba_variant[]){ { "blocks", adamw_cpu_plan, MBA_CPU(adamw_fwd) }, { 0 } },
    .cuda = (const mba_variant[]){ { "flat", adamw_flat_plan, MBA_CUDA(adamw_cuda) }, { 0 } },
};
