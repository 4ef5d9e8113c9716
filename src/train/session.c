// SPDX-License-Identifier: Apache-2.0
/* session.c -- see session.h: plans a model within a memory limit, and gives access to what it has learned and
 * carries. */
#include "train/session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "device/cuda/nccl.h"
#include "ops/ema/ema.h"
#include "ops/lamb/lamb.h"
#include "train/hf.h"
#include "train/shards.h"

static int64_t machine_bytes(const mba_device *d)
{
    return d && d->machine->memory_bytes ? d->machine->memory_bytes
                                         : (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
}

/* Cuts parameters where published models have separate tensors, for LAMB, which scales whole tensors: q, k and v, value
 * and gate of an MLP are rows of one matrix here. Moments and files do not depend on it. */
static void cut_published(mba_session *s)
{
    const mba_hf_format format = mba_hf_format_for(&s->model);
    for (int32_t i = 0; i < s->graph->ntensors; i++) {
        mba_hf_slice slice[MBA_HF_SLICES_MAX];
        if (!mba_is_param(s->graph->tensors[i])) continue;
        const int n = mba_hf_slices(slice, format, &s->model, s->graph->tensors[i]);
        for (int k = 0; k < n; k++)
            if (slice[k].row > 0) mba_param_cut(s->graph, s->graph->tensors[i], slice[k].row);
    }
}

/* True if the optimizer is that of one of several ranks. */
static bool divides(const mba_session *s)
{
    const char *zero = getenv("MBA_ZERO");
    return s->place.ranks > 1 || (zero && !strcmp(zero, "1"));
}

/* LAMB judges whole tensors, so every rank updates all of them with the sum of all gradients. AdamW is divided among
 * ranks. */
static void append_update(const mba_session *s, mba_graph *g, const mba_session_options *o)
{
    const mba_adamw_options *a = &o->adamw;
    if (o->optimizer == MBA_LAMB) {
        for (int k = 0; k < MBA_GROUPS && divides(s); k++)
            if (mba_flat_grads(g, (mba_group)k)) mba_allreduce(g, mba_flat_grads(g, (mba_group)k), s->place);
        mba_lamb_all(g, &(mba_lamb_options){ a->beta1, a->beta2, a->eps, a->decay, a->clip,
                                             mba_lamb_defaults().own_clip });
    } else if (divides(s)) {
        mba_adamw_shards(g, a, s->place, &s->buckets);
    } else {
        mba_adamw_all(g, a);
    }
    if (o->ema > 0) mba_ema_all(g, o->ema);
}

/* Corrects the counts of saved and recomputed states: only now the variants are known, and some do not save theirs. */
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

/* Builds the graph. recompute_bytes[k]: how many bytes of kind k the backward pass recomputes. */
static mba_status build_graph(mba_session *s, const mba_session_options *o, mba_recompute how,
                              const int64_t *recompute_bytes)
{
    const bool recompute = how == MBA_RECOMPUTE_ON;
    mba_session_end(s);
    s->model = o->model;
    s->recomputes = recompute;
    s->averages = o->update && o->ema > 0;
    s->device = o->device ? o->device : &mba_device_cpu;
    s->place = o->place.ranks > 0 ? o->place : (mba_place){ 0, 1 };
    s->world = o->world;
    mba_model_compute(&s->model, o->compute == MBA_NONE ? MBA_F32 : o->compute);
    mba_model_mode(&s->model, o->train || o->update, o->update);
    MBA_TRY(mba_model_complete(&s->model));
    MBA_TRY(mba_graph_create(&s->graph));
    s->graph->recompute = recompute;
    s->graph->tf32 = o->tf32;
    mba_assert(!o->tf32 || o->compute != MBA_BF16);
    memcpy(s->graph->recompute_bytes_max, recompute_bytes, sizeof s->graph->recompute_bytes_max);
    s->graph->accumulate = o->accumulate;
    s->io = mba_model_build(s->graph, &s->model);
    MBA_TRY(mba_graph_status(s->graph));
    if (o->update && divides(s) && o->optimizer == MBA_ADAMW)
        mba_shards_pad(&s->buckets, s->graph, s->place.ranks, o->bucket_bytes > 0 ? o->bucket_bytes : 128 << 20);
    if (o->backward) MBA_TRY(mba_backward(s->graph, s->io.loss));
    if (o->update && o->optimizer == MBA_LAMB) cut_published(s);
    if (o->update) append_update(s, s->graph, o);
    s->recomputes |= s->graph->recomputed_bytes[MBA_RECOMPUTED_CHEAP] > 0;
    return mba_graph_status(s->graph);
}

mba_status mba_session_outline(mba_session *s, const mba_session_options *o)
{
    static const int64_t none[MBA_RECOMPUTE_KINDS];
    return build_graph(s, o, o->recompute, none);
}

/* Plans once. recompute_bytes: see build_graph. */
static mba_status plan_once(mba_session *s, const mba_session_options *o, mba_recompute how,
                            const int64_t *recompute_bytes)
{
    MBA_TRY(build_graph(s, o, how, recompute_bytes));
    MBA_TRY(mba_program_create(&s->program, s->graph,
                               &(mba_program_options){ .cuda = s->device->machine->cc > 0,
                                                       .machine = s->device->machine,
                                                       .variants = o->variants,
                                                       .world = o->world,
                                                       .ahead = o->update }));
    count_left(s);
    return MBA_OK;
}

/* Without a stated limit, a plan may use this fraction of the limit to save what the backward pass could recompute:
 * states of ssd (a seventh of the plan, 1 to 3 % of a step) and outputs of gated norms (a tenth). The rest of the
 * memory may be in use by others. */
static const double KEEP_BELOW = 0.75;

/* Recomputes more, kind after kind, until the plan needs at most `most` bytes, or `limit` bytes for the last and most
 * expensive kind. Of the kind that suffices it recomputes as little as possible, found by bisection: a plan takes
 * milliseconds, and seven halvings find the amount to a hundredth. */
static mba_status recompute_more(mba_session *s, const mba_session_options *o, double most, double limit)
{
    int64_t bytes[MBA_RECOMPUTE_KINDS] = { 0 };
    for (int kind = 0; kind < MBA_RECOMPUTE_KINDS; kind++) {
        int64_t few = 0, enough = s->graph->kept[kind];
        if (kind == MBA_RECOMPUTED_CHEAP) most = limit;
        if ((double)mba_program_bytes(s->program) <= most) return MBA_OK;
        bytes[kind] = enough;
        if (enough) MBA_TRY(plan_once(s, o, MBA_RECOMPUTE_AUTO, bytes));
        if ((double)mba_program_bytes(s->program) > most) continue;
        for (int i = 0; i < 7; i++) {
            bytes[kind] = few + (enough - few) / 2;
            MBA_TRY(plan_once(s, o, MBA_RECOMPUTE_AUTO, bytes));
            *((double)mba_program_bytes(s->program) > most ? &few : &enough) = bytes[kind];
        }
        bytes[kind] = enough;
        return plan_once(s, o, MBA_RECOMPUTE_AUTO, bytes);
    }
    return MBA_OK;
}

mba_status mba_session_plan(mba_session *s, const mba_session_options *o)
{
    const double         limit = o->memory_bytes > 0 ? (double)o->memory_bytes : 0.9 * (double)machine_bytes(o->device);
    const double         most = o->memory_bytes > 0 ? limit : KEEP_BELOW * limit; // with what could be recomputed
    const bool           may = o->recompute == MBA_RECOMPUTE_AUTO && o->backward;
    static const int64_t none[MBA_RECOMPUTE_KINDS], speed[MBA_RECOMPUTE_KINDS] = { INT64_MAX, INT64_MAX, 0 };
    MBA_TRY(plan_once(s, o, o->recompute, o->recompute == MBA_RECOMPUTE_STATES ? speed : none));
    if (may && (double)mba_program_bytes(s->program) > most) MBA_TRY(recompute_more(s, o, most, limit));
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

/* GPUs exchange by NCCL, which is opened once, by the first session with collectives. */
static mba_status open_links(const mba_session *s)
{
    bool any = false;
    for (int32_t i = 0; i < s->graph->nnodes; i++) any |= s->graph->nodes[i]->op->kind == MBA_COLLECTIVE;
    return any && s->device->alloc_host && !mba_nccl_is_open() ? mba_nccl_open(s->world, s->device) : MBA_OK;
}

mba_status mba_session_take(mba_session *s)
{
    MBA_TRY(open_links(s));
    return mba_program_bind(s->program, s->device);
}

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

float *mba_session_moment(const mba_session *s, const mba_tensor *param, int which)
{
    char name[32]; // storages of ops/adamw
    snprintf(name, sizeof name, "%c.%s", mba_moment_letter(which),
             param->st == s->graph->params[MBA_DECAY] ? "decay" : "no_decay");
    const mba_tensor *t = mba_graph_find(s->graph, name);
    mba_assert(t);
    return mba_program_host_counterpart(s->program, t->st, param);
}

float *mba_session_learned_at(const mba_session *s, const mba_tensor *t, bool averaged)
{
    char name[256];
    if (!averaged) return mba_program_host(s->program, t);
    if (mba_is_param(t)) { // averages of parameters have the offsets of the parameters
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

/* The result NAME.out that becomes the input NAME of the next segment; NULL if the input is not a carried state. */
static const mba_tensor *carried_from(const mba_session *s, const mba_tensor *t)
{
    char name[256];
    if (t->st->role != MBA_INPUT || t->base) return NULL;
    snprintf(name, sizeof name, "%s.out", t->name);
    return mba_graph_find(s->graph, name);
}

bool mba_session_carries(const mba_session *s, const mba_tensor *t) { return carried_from(s, t) != NULL; }

void mba_session_carry(mba_session *s)
{
    for (int32_t i = 0; i < s->graph->ntensors; i++) {
        const mba_tensor *t = s->graph->tensors[i], *from = carried_from(s, t);
        if (!from) continue;
        mba_assert(mba_elems(from) == mba_elems(t));
        memcpy(mba_program_host(s->program, t), mba_program_host(s->program, from), (size_t)mba_tensor_bytes(t));
    }
}

/* Returns how many leading values of a row depend on tokens earlier than the last `before`. The past inputs of a
 * convolution (B, W-1, C) are ordered by token; any other state depends on all tokens. */
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
