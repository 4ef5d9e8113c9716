// SPDX-License-Identifier: Apache-2.0
/* lamb.c -- LAMB over a flat parameter group: the declaration.
 *
 *   g *= min(1, clip / (norm + 1e-6)), then to a norm of own_clip;   m = b1 m + (1-b1) g;   v = b2 v + (1-b2) g^2
 *   u = (m / (1-b1^t)) / (sqrt(v / (1-b2^t)) + eps) + decay p;   p -= lr u |p| / |u|, per tensor;   t = step + 1
 *
 * mba_param and mba_param_cut record in the storage where the tensors of a group begin (mba_storage.start). Each part
 * of a tensor that mba_param_cut divides counts as a tensor here. */
#include "ops/lamb/lamb.h"

#include <math.h>

#include "ops/grad_norm/grad_norm.h"
#include "ops/lamb/lamb_slots.h"

lamb_factors lamb_factors_of(const lamb_attr *a, const mba_step *s, double norm, bool skip)
{
    const double t = (double)s->index + 1, outer = a->o.clip > 0 ? fmin(1, a->o.clip / (norm + 1e-6)) : 1;
    const double own = a->o.own_clip > 0 ? 1 / fmax(1, norm * outer / a->o.own_clip) : 1;
    return (lamb_factors){ .skip = skip,
                           .clip = outer * own,
                           .lr = s->lr,
                           .unbias1 = 1 / (1 - pow(a->o.beta1, t)),
                           .unbias2 = 1 / (1 - pow(a->o.beta2, t)) };
}

int64_t lamb_blocks(const mba_tensor *p)
{
    int64_t n = 0;
    for (int64_t k = 0; k < lamb_tensors(p); k++) n += mba_ceil(lamb_start(p, k + 1) - lamb_start(p, k), LAMB_BLOCK);
    return n;
}

static mba_status lamb_shape(const mba_node *n, mba_type *out)
{
    const mba_lamb_options *o = &((const lamb_attr *)n->attr)->o;
    MBA_NEED(o->decay >= 0 && o->clip >= 0 && o->own_clip >= 0,
             "lamb: a decay of %g, clips of %g and %g\n"
             "why: none can be negative\nfix: 0 or more",
             o->decay, o->clip, o->own_clip);
    MBA_NEED(n->in[P]->st->role == MBA_PARAM && n->in[P]->st->elems == mba_elems(n->in[P]),
             "lamb: %s is not a whole group of parameters", n->in[P]->name);
    return mba_moments_shape(n, out, (mba_moments_options){ o->beta1, o->beta2, o->eps });
}

void mba_lamb_all(mba_graph *g, const mba_lamb_options *o)
{
    mba_tensor *norm = mba_grad_norm(g);
    for (int k = 0; k < MBA_GROUPS; k++) {
        mba_tensor *in[MBA_IN_MAX] = { NULL };
        lamb_attr   a = { .o = *o, .zero = g->accumulate };
        if (k == MBA_NO_DECAY) a.o.decay = 0;
        if (mba_moments_of(in, g, (mba_group)k, norm)) mba_append(g, &mba_op_lamb, &a, in);
    }
}

/* With decay, a second pass reads parameters and moments again once the norms are known. */
static mba_cost lamb_cost(const mba_node *n)
{
    const lamb_attr *a = n->attr;
    const double     e = (double)mba_elems(n->in[P]), copy = n->in[COPY] ? mba_tensor_bytes(n->in[COPY]) : 0;
    const bool       twice = a->o.decay > 0;
    return (mba_cost){ .read_bytes = (twice ? 28 : 16) * e + 4,
                       .write_bytes = (a->zero ? 16 : 12) * e + copy,
                       .vector_flops = (twice ? 24 : 13) * e,
                       .special_ops = (twice ? 4 : 2) * e };
}

static mba_status lamb_cpu_plan(mba_plan *p, const mba_node *n, const mba_machine *m)
{
    (void)m;
    MBA_REFUSE_IF(n->in[COPY], "a compute copy of the parameters\nwhy: the CPU computes in fp32");
    mba_plan_scratch(p, "blocks", sizeof(lamb_block) * (size_t)lamb_blocks(n->in[P]));
    mba_plan_scratch(p, "stretch", sizeof(float) * (size_t)lamb_tensors(n->in[P]));
    return MBA_OK;
}

static void plan_pass(mba_plan *p, const mba_node *n, const char *kernel, int regs, int from, int to, bool move)
{
    const double blocks = (double)lamb_blocks(n->in[P]);
    mba_launch  *l = mba_plan_launch(p, kernel, MBA_VECTOR, lamb_blocks(n->in[P]), 256);
    l->regs = regs;
    for (int k = P; k <= V; k++)
        if (k != G || !move) mba_phase_move(l, MBA_LOAD, MBA_ARG_IN(k), mba_tensor_bytes(n->in[k]) / blocks);
    mba_phase_work(l, MBA_FMA, 12 * LAMB_BLOCK, NULL);
    mba_phase_work(l, MBA_SFU, 2 * LAMB_BLOCK, NULL);
    for (int k = from; k <= to; k++)
        if (n->out[k]) mba_phase_move(l, MBA_STORE, MBA_ARG_OUT(k), mba_tensor_bytes(n->out[k]) / blocks);
}

/* CUDA: the table of blocks, then moments and partial norms, the trust ratios of tensors, the parameters. */
static mba_status lamb_blocks_plan(mba_plan *p, const mba_node *n, const mba_machine *m)
{
    const int64_t tensors = lamb_tensors(n->in[P]), blocks = lamb_blocks(n->in[P]);
    MBA_REFUSE_IF(m->cc < 80, "a device of compute capability %d", m->cc);
    MBA_REFUSE_IF(tensors > (MBA_LAUNCH_MAX - 4) * LAMB_TABLE,
                  "%lld tensors in a group\nwhy: their table is the argument of "
                  "some launches, which take %d",
                  (long long)tensors, (MBA_LAUNCH_MAX - 4) * LAMB_TABLE);
    mba_plan_scratch(p, "blocks", sizeof(lamb_block) * (size_t)blocks);
    mba_plan_scratch(p, "stretch", sizeof(float) * (size_t)tensors);
    mba_plan_scratch(p, "first blocks", sizeof(int64_t) * (size_t)(tensors + 1));
    mba_plan_scratch(p, "factors", LAMB_FACTORS_BYTES);
    for (int64_t k = 0; k < tensors; k += LAMB_TABLE) {
        const int64_t some = tensors - k < LAMB_TABLE ? tensors - k : LAMB_TABLE;
        mba_launch   *l = mba_plan_launch(p, "lamb_block_table", MBA_VECTOR, some, 128);
        l->regs = 34;
        mba_phase_move(l, MBA_STORE, MBA_ARG_SCRATCH(BLOCKS), 24.0 * (double)blocks / (double)tensors);
    }
    plan_pass(p, n, "lamb_moments", 40, ((const lamb_attr *)n->attr)->zero ? GO : MO, VO, false);
    mba_launch *l = mba_plan_launch(p, "lamb_trust_ratio", MBA_VECTOR, tensors, 32);
    l->regs = 62;
    mba_phase_move(l, MBA_LOAD, MBA_ARG_SCRATCH(BLOCKS), 16.0 * (double)blocks / (double)tensors);
    plan_pass(p, n, "lamb_move", 35, PO, PO, true);
    if (n->out[COPYO])
        mba_phase_move(&p->launch[p->nlaunches - 1], MBA_STORE, MBA_ARG_OUT(COPYO),
                       mba_tensor_bytes(n->out[COPYO]) / (double)blocks);
    return MBA_OK;
}

const mba_op mba_op_lamb = {
    .name = "lamb",
    .doc = "LAMB with decoupled decay, over a flat group",
    .kind = MBA_OPTIMIZER,
    .no_grad = "the end of a step",
    .in = MBA_MOMENTS_IN,
    .out = MBA_MOMENTS_OUT,
    .attr_bytes = sizeof(lamb_attr),
    .shape = lamb_shape,
    .cost = lamb_cost,
    .ref = lamb_ref,
    .cpu = (const mba_variant[]){ { "blocks", lamb_cpu_plan, MBA_CPU(lamb_fwd) }, { 0 } },
    .cuda = (const mba_variant[]){ { "blocks", lamb_blocks_plan, MBA_CUDA(lamb_cuda) }, { 0 } },
};
