// SPDX-License-Identifier: Apache-2.0
/* ema.c -- e = decay e + (1 - decay) p over flat tensors: the declaration. */
#include "ops/ema/ema.h"

#include <string.h>

#include "ops/ema/ema_slots.h"

static mba_status ema_shape(const mba_node *n, mba_type *out)
{
    const double d = ((const ema_attr *)n->attr)->decay;
    MBA_NEED(d >= 0 && d < 1, "ema: a decay of %g\nfix: 0 <= decay < 1", d);
    for (int k = P; k <= E; k++)
        MBA_NEED(n->in[k]->type.dtype == MBA_F32 && mba_dense(n->in[k]) && mba_elems(n->in[k]) == mba_elems(n->in[P]),
                 "ema: %s is not flat fp32 beside %s", n->in[k]->name, n->in[P]->name);
    out[EO] = n->in[E]->type;
    return MBA_OK;
}

static void average(mba_graph *g, mba_tensor *p, const char *name, double decay)
{
    MBA_APPEND(g, ema, &(ema_attr){ decay }, p, mba_state(g, name, MBA_STATE, p->type));
}

static bool ends_in(const char *s, const char *end)
{
    const size_t n = strlen(s), m = strlen(end);
    return n >= m && !strcmp(s + n - m, end);
}

void mba_ema_all(mba_graph *g, double decay)
{
    static const char *const name[] = { "ema.decay", "ema.no_decay" };
    const int32_t            tensors = g->ntensors; // before this function appends more
    for (int k = 0; k < MBA_GROUPS; k++)
        if (g->params[k]) average(g, mba_flat_params(g, (mba_group)k), name[k], decay);
    for (int32_t i = 0; i < tensors; i++) {
        mba_tensor *t = g->tensors[i];
        if (!mba_is_state(t) || !(ends_in(t->name, ".running_mean") || ends_in(t->name, ".running_var"))) continue;
        average(g, t, mba_arena_printf(g->arena, "ema.%s", t->name), decay);
    }
}

mba_status mba_ema_start(mba_program *p)
{
    MBA_TRY(mba_program_pull(p));
    for (int32_t i = 0; i < p->graph->nnodes; i++) {
        const mba_node *n = p->graph->nodes[i];
        if (n->op != &mba_op_ema) continue;
        memcpy(mba_program_host(p, n->in[E]), mba_program_host(p, n->in[P]),
               sizeof(float) * (size_t)mba_elems(n->in[P]));
    }
    return mba_program_push(p);
}

static mba_cost ema_cost(const mba_node *n)
{
    mba_cost c = mba_cost_io(n);
    c.vector_flops = 2.0 * (double)mba_elems(n->in[P]);
    return c;
}

const mba_op mba_op_ema = {
    .name = "ema",
    .doc = "e = decay e + (1 - decay) p",
    .kind = MBA_OPTIMIZER,
    .no_grad = "the end of a step",
    .in = { [P] = MBA_SLOT("p"), [E] = MBA_SLOT("e") },
    .out = { [EO] = MBA_SLOT("e", .update = MBA_FROM(E)) },
    .attr_bytes = sizeof(ema_attr),
    .shape = ema_shape,
    .cost = ema_cost,
    .ref = ema_ref,
    .cpu = (const mba_variant[]){ { "blocks", NULL, MBA_CPU(ema_fwd) }, { 0 } },
    .cuda = (const mba_variant[]){ { "stream", mba_plan_streaming, MBA_CUDA(ema_cuda) }, { 0 } },
};
