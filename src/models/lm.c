// SPDX-License-Identifier: Apache-2.0
/* lm.c -- the skeleton of every language model (lm.h): embedding, residual stream, norms, head. The files of the
 * families have the mixers. */
#include "models/lm.h"

#include <math.h>
#include <string.h>

#include "ops/add_rmsnorm/add_rmsnorm.h"
#include "ops/cast/cast.h"
#include "ops/cross_entropy/cross_entropy.h"
#include "ops/embed/embed.h"
#include "ops/linear_cross_entropy/linear_cross_entropy.h"
#include "ops/matmul/matmul.h"

#define PARAM(name, init, group, ...) mba_param(g, (name), MBA_TYPE(MBA_F32, __VA_ARGS__), (init), (group))

mba_tensor *mba_lm_linear_(mba_graph *g, const mba_lm *c, const mba_lm_site *s, mba_lm_linear_args a)
{
    const int64_t K = mba_cols(a.x), rows = a.sliced && c->compute == MBA_BF16 ? mba_ceil(a.rows, 8) * 8 : a.rows;
    const double  range = 1 / sqrt((double)(a.last ? K * s->branches : K));
    const char   *weight = mba_arena_printf(g->arena, "%s.weight", a.name);
    const char   *bias = mba_arena_printf(g->arena, "%s.bias", a.name);
    mba_tensor   *w = mba_param_padded(g, weight, MBA_TYPE(c->compute, a.rows, K), MBA_INIT_UNIFORM(range), MBA_DECAY,
                                       rows);
    if (!a.bias) return mba_linear(g, a.x, w);
    return mba_linear_bias(g, a.x, w,
                           mba_param_padded(g, bias, MBA_TYPE(c->compute, a.rows), MBA_INIT_CONST(0), MBA_NO_DECAY,
                                            rows));
}

mba_lm_state mba_lm_state_in(mba_graph *g, const mba_lm *c, const char *name, mba_type type)
{
    bool any = true; // a convolution of one tap has no past inputs
    for (int i = 0; i < type.rank; i++) any &= type.dim[i] > 0;
    if (any && c->sequence.ranks > 1) return (mba_lm_state){ .in = mba_receive(g, type, c->sequence) };
    return (mba_lm_state){ .in = c->carry && any ? mba_input(g, name, type) : NULL };
}

void mba_lm_state_out(mba_graph *g, const mba_lm *c, const mba_lm_state *state)
{
    if (!state->in || !state->out) return;
    if (c->sequence.ranks > 1) mba_send(g, state->out, c->sequence);
    else mba_result(g, mba_arena_printf(g->arena, "%s.out", state->in->name), state->out);
}

/* res += m; u = norm(res); then the mixer of sub-layer k. In a flat skeleton sub-layer k is layers.k; in a paired one,
 * two sub-layers make a block. */
static mba_tensor *sub_layer(mba_graph *g, const mba_lm *c, mba_lm_site *s, int k, mba_tensor **res, mba_tensor *m)
{
    const bool second = c->paired && k % 2;
    mba_enter(g, "layers.%d", c->paired ? k / 2 : k);
    mba_tensor *w = PARAM(second ? "norm2.weight" : "norm.weight", MBA_INIT_CONST(1), MBA_NO_DECAY, c->width);
    s->u = mba_add_rmsnorm(g, res, m, w, c->compute, (float)c->eps);
    mba_enter(g, second ? "mlp" : "mixer");
    m = mba_lm_mixer_of(c->pattern[k])->build(g, c, s);
    mba_leave(g);
    mba_leave(g);
    return m;
}

static void head(mba_graph *g, const mba_lm *c, mba_lm_graph *o, mba_tensor *h, mba_tensor *w)
{
    if (c->head != MBA_HEAD_LOGITS)
        o->targets = mba_targets(g, "targets", MBA_TYPE(MBA_I32, c->batch, c->length), c->vocab);
    if (c->head == MBA_HEAD_LOSS) {
        o->loss = mba_linear_cross_entropy(g, h, w, o->targets);
    } else {
        mba_tensor *logits = mba_linear(g, h, w);
        o->logits = mba_cast(g, logits, MBA_F32); // readers expect fp32
        if (c->head == MBA_HEAD_BOTH) o->loss = mba_cross_entropy(g, logits, o->targets);
    }
    if (o->logits) mba_result(g, "logits", o->logits);
    if (o->loss) mba_result(g, "loss", o->loss);
}

mba_lm_graph mba_lm_build(mba_graph *g, const mba_lm *whole)
{
    mba_lm part = *whole;
    if (part.sequence.ranks > 1) part.length /= part.sequence.ranks;
    const mba_lm  *c = &part;
    const mba_type tokens = MBA_TYPE(MBA_I32, c->batch, c->length);
    mba_lm_graph   o = { .tokens = mba_index(g, "tokens", tokens, c->vocab) };
    mba_lm_site    s = { .branches = (int)strlen(c->pattern) };
    if (c->documents) s.ids = o.ids = mba_index(g, "ids", tokens, c->length);

    mba_enter(g, "backbone");
    // The residual stream is fp32 from the start; only a tied head needs the table in another type.
    mba_tensor *E = mba_param(g, "embeddings.weight", MBA_TYPE(c->untied ? MBA_F32 : c->compute, c->vocab, c->width),
                              MBA_INIT_NORMAL(0.02), MBA_NO_DECAY);
    mba_tensor *res = mba_embed_padded(g, o.tokens, mba_master(g, E), MBA_F32, c->padding - 1), *m = NULL;
    for (int k = 0; c->pattern[k]; k++) m = sub_layer(g, c, &s, k, &res, m);
    mba_tensor *w = PARAM("norm_f.weight", MBA_INIT_CONST(1), MBA_NO_DECAY, c->width);
    mba_tensor *h = mba_add_rmsnorm(g, &res, m, w, c->compute, (float)c->eps);
    mba_leave(g);

    if (c->untied)
        E = mba_param(g, "lm_head.weight", MBA_TYPE(c->compute, c->vocab, c->width),
                      MBA_INIT_UNIFORM(1 / sqrt((double)c->width)), MBA_DECAY);
    head(g, c, &o, h, E);
    return o;
}
