// SPDX-License-Identifier: Apache-2.0
/* session.c -- see session.h. */
#include "train/session.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "ops/ema/ema.h"
#include "ops/lamb/lamb.h"
#include "train/hf.h"

static int64_t machine_bytes(const mba_device *d)
{
    return d && d->machine->memory_bytes ? d->machine->memory_bytes
                                         : (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
}

/* LAMB judges tensors as they are published: q, k and v, value and gate of an MLP and the like are matrices of their
 * own there, and rows of one here. Moments and files do not depend on it. */
static void cut_published(mba_session *s)
{
    const mba_hf_format format = mba_hf_format_for(&s->model);
    for (int32_t i = 0; i < s->graph->ntensors; i++) {
        mba_hf_slice piece[MBA_PIECES_MAX];
        if (!mba_is_param(s->graph->tensors[i])) continue;
        const int n = mba_hf_pieces(piece, format, &s->model, s->graph->tensors[i]);
        for (int k = 0; k < n; k++)
            if (piece[k].row > 0) mba_param_cut(s->graph, s->graph->tensors[i], piece[k].row);
    }
}

static void append_update(mba_graph *g, const mba_session_options *o)
{
    const mba_adamw_options *a = &o->adamw;
    if (o->optimizer == MBA_LAMB)
        mba_lamb_all(g, &(mba_lamb_options){ a->beta1, a->beta2, a->eps, a->decay, a->clip,
                                             mba_lamb_defaults().own_clip });
    else mba_adamw_all(g, a);
    if (o->ema > 0) mba_ema_all(g, o->ema);
}

/* Which variant runs is known only now: states that it does not leave for its gradient were not kept. */
static void count_left(mba_session *s)
{
    for (int32_t i = 0; i < s->graph->nnodes; i++)
        for (int k = 0; k < MBA_OUT_MAX; k++) {
            const mba_tensor *t = s->graph->nodes[i]->out[k];
            if (!t || !(s->program->plan[i]->leaves >> k & 1)) continue;
            s->graph->kept[MBA_RECOMPUTED_STATES] -= (int64_t)mba_tensor_bytes(t);
            s->graph->recomputed_bytes[MBA_RECOMPUTED_STATES] += (int64_t)mba_tensor_bytes(t);
        }
}

/* One plan; of what gradients can make again, so many bytes of each kind are. */
static mba_status plan_once(mba_session *s, const mba_session_options *o, mba_recompute how, const int64_t *remake)
{
    const bool recompute = how == MBA_RECOMPUTE_ON;
    mba_session_end(s);
    s->model = o->model;
    s->recomputes = recompute;
    s->averages = o->update && o->ema > 0;
    s->device = o->device ? o->device : &mba_device_cpu;
    mba_model_compute(&s->model, o->compute == MBA_NONE ? MBA_F32 : o->compute);
    mba_model_mode(&s->model, o->train || o->update, o->update);
    MBA_TRY(mba_model_complete(&s->model));
    MBA_TRY(mba_graph_create(&s->graph));
    s->graph->recompute = recompute;
    memcpy(s->graph->recompute_bytes_max, remake, sizeof s->graph->recompute_bytes_max);
    s->graph->accumulate = o->accumulate;
    s->io = mba_model_build(s->graph, &s->model);
    MBA_TRY(mba_graph_status(s->graph));
    if (o->backward) MBA_TRY(mba_backward(s->graph, s->io.loss));
    if (o->update && o->optimizer == MBA_LAMB) cut_published(s);
    if (o->update) append_update(s->graph, o);
    s->recomputes |= s->graph->recomputed_bytes[MBA_RECOMPUTED_CHEAP] > 0;
    MBA_TRY(mba_program_create(&s->program, s->graph,
                               &(mba_program_options){ .cuda = s->device->machine->cc > 0,
                                                       .machine = s->device->machine,
                                                       .variants = o->variants,
                                                       .ahead = o->update }));
    count_left(s);
    return MBA_OK;
}

/* Where nobody stated a limit, up to this part of the machine's a plan may keep what gradients could make again: the
 * states of ssd, a seventh of what it needs, which save 1 to 3 % of a step, and the results of gated norms, a tenth.
 * Beyond it somebody uses the memory for something else. */
static const double KEEP_BELOW = 0.75;

/* Gives up what can be made again, kind after kind, until the plan is no more than `most` bytes, or `limit` with what
 * costs more; of the last kind as little as will do. A plan takes milliseconds, and seven halvings end within a
 * hundredth of the kind. */
static mba_status give_up(mba_session *s, const mba_session_options *o, double most, double limit)
{
    int64_t remake[MBA_RECOMPUTE_KINDS] = { 0 };
    for (int kind = 0; kind < MBA_RECOMPUTE_KINDS; kind++) {
        int64_t few = 0, enough = s->graph->kept[kind];
        if (kind == MBA_RECOMPUTED_CHEAP) most = limit;
        if ((double)mba_program_bytes(s->program) <= most) return MBA_OK;
        remake[kind] = enough;
        if (enough) MBA_TRY(plan_once(s, o, MBA_RECOMPUTE_AUTO, remake));
        if ((double)mba_program_bytes(s->program) > most) continue;
        for (int i = 0; i < 7; i++) {
            remake[kind] = few + (enough - few) / 2;
            MBA_TRY(plan_once(s, o, MBA_RECOMPUTE_AUTO, remake));
            *((double)mba_program_bytes(s->program) > most ? &few : &enough) = remake[kind];
        }
        remake[kind] = enough;
        return plan_once(s, o, MBA_RECOMPUTE_AUTO, remake);
    }
    return MBA_OK;
}

mba_status mba_session_plan(mba_session *s, const mba_session_options *o)
{
    const double         limit = o->memory_bytes > 0 ? (double)o->memory_bytes : 0.9 * (double)machine_bytes(o->device);
    const double         most = o->memory_bytes > 0 ? limit : KEEP_BELOW * limit; // with what could be made again
    const bool           may = o->recompute == MBA_RECOMPUTE_AUTO && o->backward;
    static const int64_t none[MBA_RECOMPUTE_KINDS], speed[MBA_RECOMPUTE_KINDS] = { INT64_MAX, INT64_MAX, 0 };
    MBA_TRY(plan_once(s, o, o->recompute, o->recompute == MBA_RECOMPUTE_STATES ? speed : none));
    if (may && (double)mba_program_bytes(s->program) > most) MBA_TRY(give_up(s, o, most, limit));
    if (may && (double)mba_program_bytes(s->program) > limit) MBA_TRY(plan_once(s, o, MBA_RECOMPUTE_ON, none));
    const double planned = (double)mba_program_bytes(s->program);
    if (planned > limit)
        return mba_fail(MBA_E_NOMEM,
                        "this step needs %s, but only %s are allowed\nwhy: %s%s\nfix: choose a "
                        "smaller batch%s%s",
                        mba_size_of(planned).text, mba_size_of(limit).text, mba_model_batch_words(&s->model).text,
                        s->recomputes ? ", with recomputation on" : "",
                        s->recomputes || !o->backward ? "" : ", --recompute on",
                        o->memory_bytes > 0 ? ", or a larger --memory" : ", or a smaller model");
    return MBA_OK;
}

mba_status mba_session_take(mba_session *s) { return mba_program_bind(s->program, s->device); }

mba_status mba_session_bind(mba_session *s, uint64_t seed)
{
    MBA_TRY(mba_session_take(s));
    MBA_TRY(mba_program_init(s->program, seed));
    MBA_TRY(mba_model_start(s->program, &s->model, seed));
    return s->averages ? mba_ema_start(s->program) : MBA_OK;
}

void mba_session_end(mba_session *s)
{
    mba_program_destroy(s->program);
    mba_graph_destroy(s->graph);
    *s = (mba_session){ 0 };
}

void *mba_session_find(const mba_session *s, const char *name)
{
    const mba_tensor *t = mba_graph_find(s->graph, name);
    return t ? mba_program_host(s->program, t) : NULL;
}

void *mba_session_at(const mba_session *s, const char *name)
{
    void *at = mba_session_find(s, name);
    mba_assert(at);
    return at;
}

bool mba_learned(const mba_tensor *t) { return mba_is_param(t) || (mba_is_state(t) && strncmp(t->name, "ema.", 4)); }

float *mba_session_learned_at(const mba_session *s, const mba_tensor *t, bool averaged)
{
    char name[256];
    if (!averaged) return mba_program_host(s->program, t);
    if (mba_is_param(t)) { // averages of parameters lie parallel to them
        const char       *group = t->st == s->graph->params[MBA_DECAY] ? "ema.decay" : "ema.no_decay";
        const mba_tensor *flat = mba_graph_find(s->graph, group);
        mba_assert(flat);
        return mba_program_host_counterpart(s->program, flat->st, t);
    }
    snprintf(name, sizeof name, "ema.%s", t->name);
    return mba_session_at(s, name);
}

mba_status mba_session_copy(mba_session *to, const mba_session *from, bool averaged)
{
    MBA_TRY(mba_program_pull(from->program));
    for (int32_t i = 0; i < to->graph->ntensors; i++) {
        const mba_tensor *t = to->graph->tensors[i];
        if (!mba_learned(t)) continue;
        const mba_tensor *f = mba_graph_find(from->graph, t->name);
        mba_assert(f && mba_elems(f) == mba_elems(t));
        MBA_TRY(mba_program_set(to->program, t, mba_session_learned_at(from, f, averaged)));
    }
    return MBA_OK;
}

/* What an input of the next segment is made of: the result that carries its name; NULL where it is no state. */
static const mba_tensor *carried_from(const mba_session *s, const mba_tensor *t)
{
    char name[256];
    if (t->st->role != MBA_INPUT || t->of) return NULL;
    snprintf(name, sizeof name, "%s.out", t->name);
    return mba_graph_find(s->graph, name);
}

bool mba_session_carries(const mba_session *s, const mba_tensor *t) { return carried_from(s, t) != NULL; }

void mba_session_carry(mba_session *s)
{
    for (int32_t i = 0; i < s->graph->ntensors; i++) {
        const mba_tensor *t = s->graph->tensors[i], *from = carried_from(s, t);
        if (from)
            memcpy(mba_program_host(s->program, t), mba_program_host(s->program, from), (size_t)mba_tensor_bytes(t));
    }
}

/* How many values of a row, from its first on, know of more than the last `before` tokens. The past of a convolution
 * (B, W-1, C) has inputs of one token after the other; any other state knows all of them. */
static int64_t forgotten(const mba_tensor *t, int32_t before)
{
    const int64_t values = mba_elems(t) / t->type.dim[0], tokens = t->type.dim[1];
    const size_t  n = strlen(t->name), k = strlen("past");
    if (n < k || strcmp(t->name + n - k, "past")) return before ? 0 : values;
    return tokens > before ? (tokens - before) * (values / tokens) : 0;
}

void mba_session_reset_state(mba_session *s, const int32_t *before)
{
    for (int32_t i = 0; i < s->graph->ntensors; i++) {
        const mba_tensor *t = s->graph->tensors[i];
        if (!mba_session_carries(s, t)) continue;
        for (int64_t b = 0, B = t->type.dim[0]; b < B; b++) {
            const int64_t n = forgotten(t, before ? before[b] : 0);
            memset((float *)mba_program_host(s->program, t) + b * (mba_elems(t) / B), 0, sizeof(float) * (size_t)n);
        }
    }
}

int64_t mba_session_parameters(const mba_session *s)
{
    int64_t n = 0;
    for (int32_t i = 0; i < s->graph->ntensors; i++)
        if (mba_is_param(s->graph->tensors[i])) n += mba_elems(s->graph->tensors[i]);
    return n;
}
