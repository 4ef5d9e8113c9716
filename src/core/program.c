// SPDX-License-Identifier: Apache-2.0
/* program.c -- see program.h: chooses a variant for every node, allocates memory, runs. memory_plan.c decides where
 * everything lies; a device (device.h) executes a run. */
#include "core/program.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/aliases.h"

/* ---- variants ---- */

/* The variant that a list such as "ssd=fused,conv1d=smem" names for this operator, with its length; NULL: none. */
static const char *forced(const char *list, const char *op, size_t *len)
{
    const size_t n = strlen(op);
    for (const char *s = list; s && *s; s = strchr(s, ',') ? strchr(s, ',') + 1 : NULL)
        if (!strncmp(s, op, n) && s[n] == '=') {
            *len = strcspn(s + n + 1, ",");
            return s + n + 1;
        }
    return NULL;
}

/* True for views that no plan distinguishes. A plan may ask whether rows begin at multiples of 16 bytes, and where the
 * parameters of a group begin. */
static bool same_view(const mba_tensor *s, const mba_tensor *t)
{
    const int64_t vector = 16 / (int64_t)mba_dtype_bytes(s->type.dtype);
    return mba_type_equal(&s->type, &t->type) && s->run == t->run && s->pitch == t->pitch
           && s->offset % vector == t->offset % vector && s->st->start == t->st->start;
}

/* True for nodes that have the same plan. Attributes are compared as bytes, so they have no padding. */
static bool alike(const mba_node *a, const mba_node *b)
{
    if (a->op != b->op || a->adds != b->adds || a->tf32 != b->tf32) return false;
    if (a->op->attr_bytes && memcmp(a->attr, b->attr, a->op->attr_bytes)) return false;
    for (int k = 0; k < MBA_IN_MAX + MBA_OUT_MAX; k++) {
        const mba_tensor *s = k < MBA_IN_MAX ? a->in[k] : a->out[k - MBA_IN_MAX];
        const mba_tensor *t = k < MBA_IN_MAX ? b->in[k] : b->out[k - MBA_IN_MAX];
        if (!s != !t) return false;
        if (s && !same_view(s, t)) return false;
    }
    return true;
}

/* The plan of the forward node that n serves: it says what that node saves for n. NULL: n serves none. */
static const mba_plan *served(const mba_program *p, const mba_node *n)
{
    mba_assert(!n->serves_node || n->serves_node->id < n->id); // the forward node's plan is chosen first
    return n->serves_node ? p->plan[n->serves_node->id] : NULL;
}

static bool serve_alike(const mba_program *p, const mba_node *a, const mba_node *b)
{
    const mba_plan *s = served(p, a), *t = served(p, b);
    return !s == !t && (!s || !strcmp(s->variant, t->variant));
}

/* Chooses the plan of node i: that of an equal earlier node, else of the first variant that has one. */
static mba_status choose(mba_program *p, int32_t i)
{
    const mba_node    *n = p->graph->nodes[i];
    const mba_variant *v = p->options.cuda ? n->op->cuda : n->op->cpu;
    size_t             len = 0;
    char               name[64];
    const char        *want = forced(p->options.variants, n->op->name, &len);
    mba_status         st = MBA_OK;
    if (want) {
        snprintf(name, sizeof name, "%.*s", (int)len, want);
        want = mba_alias_variant(n->op->name, name);
    }
    for (int32_t j = 0; j < i; j++)
        if (alike(n, p->graph->nodes[j]) && serve_alike(p, n, p->graph->nodes[j])) {
            p->plan[i] = p->plan[j];
            p->launch[i] = p->launch[j];
            return MBA_OK;
        }
    mba_plan *plan = mba_arena_new(p->arena, mba_plan, 1);
    for (; v && v->name; v++) {
        if (want && strcmp(v->name, want)) continue;
        st = mba_plan_variant(plan, served(p, n), p->arena, n, v, p->options.machine);
        if (st == MBA_OK) {
            p->plan[i] = plan;
            p->launch[i] = v->launch[p->options.cuda ? 0 : mba_cpu_isa()];
            return MBA_OK;
        }
    }
    if (st == MBA_OK) // no variant was asked for a plan
        st = mba_fail(MBA_E_UNSUPPORTED, "%s has no variant%s%s for %s\nfix: see `mambascope list ops`", n->op->name,
                      want ? " " : "", want ? want : "", p->options.cuda ? "CUDA" : "the CPU");
    return mba_where(st, "node %d, %s", i, n->scope);
}

/* ---- creating a program, addresses, copies ---- */

mba_status mba_program_create(mba_program **out, const mba_graph *g, const mba_program_options *o)
{
    mba_arena *a;
    MBA_TRY(mba_graph_status(g));
    MBA_TRY(mba_arena_create(&a, (size_t)64 << 20));
    mba_program *p = mba_arena_new(a, mba_program, 1);
    *p = (mba_program){ .graph = g, .options = *o, .arena = a };
    p->plan = mba_arena_new(a, const mba_plan *, g->nnodes);
    p->launch = mba_arena_new(a, mba_launch_fn *, g->nnodes);
    mba_status st = MBA_OK;
    for (int32_t i = 0; i < g->nnodes && st == MBA_OK; i++) st = choose(p, i);
    if (st == MBA_OK) {
        mba__memory_plan(p);
        *out = p;
    } else {
        mba_program_destroy(p);
    }
    return st;
}

void *mba_program_at(const mba_program *p, const mba_tensor *t)
{
    if (!t || p->layout.first[t->st->id] < 0) return NULL;
    mba_assert(t->offset >= 0 && t->offset < t->st->elems);
    return (char *)p->memory[p->layout.arena[t->st->id]] + p->layout.offset[t->st->id]
           + (size_t)t->offset * mba_dtype_bytes(t->type.dtype);
}

void *mba_program_counterpart(const mba_program *p, const mba_storage *st, const mba_tensor *param)
{
    return (char *)p->memory[p->layout.arena[st->id]] + p->layout.offset[st->id]
           + (size_t)param->offset * mba_dtype_bytes(st->dtype);
}

/* Notes a failure for the next run, wait, pull or push to return: mba_program_host has no status to return. */
static void note_failure(mba_program *p, mba_status st)
{
    if (st == MBA_OK || p->failed != MBA_OK) return;
    p->failed = st;
    snprintf(p->failure, sizeof p->failure, "%s", mba_message());
}

static mba_status noted_failure(const mba_program *p)
{
    return p->failed == MBA_OK ? MBA_OK : mba_fail(p->failed, "%s", p->failure);
}

void *mba_program_host(mba_program *p, const mba_tensor *t)
{
    if (!p->device->alloc_host) return mba_program_at(p, t);
    mba_assert(p->mirror[t->st->role]);
    if (!(p->apart && t->st->role == MBA_INPUT)) note_failure(p, p->device->wait());
    if (t->st->role == MBA_INPUT && p->device->recall) note_failure(p, p->device->recall(p));
    return (char *)p->mirror[t->st->role] + p->layout.offset[t->st->id]
           + (size_t)t->offset * mba_dtype_bytes(t->type.dtype);
}

bool mba_program_swap_inputs(mba_program *p)
{
    if (!p->other_inputs) return false;
    if (!p->turned) memcpy(p->other_inputs, p->mirror[MBA_INPUT], p->layout.arena_bytes[MBA_INPUT]);
    p->turned = true; // inputs that are written only once are in both
    void *filled = p->mirror[MBA_INPUT];
    p->mirror[MBA_INPUT] = p->other_inputs;
    p->other_inputs = filled;
    p->apart = !p->apart;
    return true;
}

mba_status mba_program_upload_inputs(mba_program *p) { return p->ahead ? p->device->send(p) : MBA_OK; }

void *mba_program_host_counterpart(const mba_program *p, const mba_storage *st, const mba_tensor *param)
{
    if (!p->device->alloc_host) return mba_program_counterpart(p, st, param);
    mba_assert(p->mirror[st->role]);
    return (char *)p->mirror[st->role] + p->layout.offset[st->id] + (size_t)param->offset * mba_dtype_bytes(st->dtype);
}

static mba_status put_bf16(const mba_program *p, void *to, const float *x, int64_t n)
{
    uint16_t *half = malloc(sizeof *half * (size_t)n);
    if (!half) return mba_fail(MBA_E_NOMEM, "no memory for %lld values", (long long)n);
    MBA_PARALLEL_FOR(i, n) half[i] = mba_to_bf16(x[i]);
    const mba_status st = p->device->put(to, half, sizeof *half * (size_t)n);
    free(half);
    return st;
}

/* The roles that the host may read and change between steps. */
static const mba_role lasting[] = { MBA_PARAM, MBA_OPTIM, MBA_STATE, MBA_GRAD };
enum { LASTING = sizeof lasting / sizeof *lasting };

mba_status mba_program_pull(mba_program *p)
{
    MBA_TRY(noted_failure(p));
    for (int k = 0; k < LASTING && p->device->alloc_host; k++) {
        const mba_role r = lasting[k];
        const size_t   bytes = p->layout.arena_bytes[r];
        if (bytes && !p->mirror[r]) MBA_TRY(p->device->alloc_host(&p->mirror[r], bytes));
        if (bytes) MBA_TRY(p->device->get(p->mirror[r], p->memory[r], bytes));
    }
    return MBA_OK;
}

mba_status mba_program_push(mba_program *p)
{
    for (int k = 0; k < LASTING && p->device->alloc_host; k++) {
        const mba_role r = lasting[k];
        if (p->mirror[r] && r != MBA_GRAD)
            MBA_TRY(p->device->put(p->memory[r], p->mirror[r], p->layout.arena_bytes[r]));
    }
    for (int k = 0; k < MBA_GROUPS && p->device->alloc_host; k++) {
        const mba_storage *st = p->graph->copies[k], *master = p->graph->params[k];
        if (!st || p->layout.first[st->id] < 0 || p->layout.first[master->id] < 0) continue;
        const mba_tensor whole = { .st = (mba_storage *)master };
        mba_assert(st->elems == master->elems); // copies have the offsets of their masters
        MBA_TRY(put_bf16(p, mba_program_counterpart(p, st, &whole), mba_program_host_counterpart(p, master, &whole),
                         st->elems));
    }
    return mba_program_wait(p);
}

void *mba__copy_of(const mba_program *p, const mba_tensor *t)
{
    for (int k = 0; k < MBA_GROUPS; k++) {
        const mba_storage *st = p->graph->copies[k];
        if (st && st->master == t->st && p->layout.first[st->id] >= 0) return mba_program_counterpart(p, st, t);
    }
    return NULL;
}

/* An input is set in its host mirror, which the next run copies to the device. */
mba_status mba_program_set(mba_program *p, const mba_tensor *t, const void *host)
{
    mba_assert(mba_dense(t));
    void *copy = t->st->role == MBA_PARAM ? mba__copy_of(p, t) : NULL;
    if (copy) MBA_TRY(put_bf16(p, copy, host, mba_elems(t)));
    if (p->layout.first[t->st->id] < 0) return MBA_OK; // no node uses it: it has no memory
    if (t->st->role == MBA_INPUT && p->mirror[MBA_INPUT]) {
        uint16_t *to = mba_program_host(p, t);
        if (t->type.dtype != MBA_BF16) memcpy(to, host, (size_t)mba_tensor_bytes(t));
        else
            for (int64_t i = 0; i < mba_elems(t); i++) to[i] = mba_to_bf16(((const float *)host)[i]);
        return MBA_OK;
    }
    if (t->type.dtype == MBA_BF16) return put_bf16(p, mba_program_at(p, t), host, mba_elems(t));
    return p->device->put(mba_program_at(p, t), host, (size_t)mba_tensor_bytes(t));
}

mba_status mba_program_get(const mba_program *p, const mba_tensor *t, void *host)
{
    mba_assert(mba_dense(t));
    MBA_TRY(p->device->get(host, mba_program_at(p, t), (size_t)mba_tensor_bytes(t)));
    if (t->type.dtype == MBA_BF16) // widens from the end, so no value is overwritten before it is read
        for (int64_t i = mba_elems(t) - 1; i >= 0; i--) {
            uint16_t h;
            memcpy(&h, (const uint16_t *)host + i, sizeof h);
            ((float *)host)[i] = mba_from_bf16(h);
        }
    return MBA_OK;
}

size_t mba_program_ahead_bytes(const mba_program *p)
{
    return p->options.cuda && p->options.ahead ? p->layout.arena_bytes[MBA_INPUT] : 0;
}

size_t mba_program_bytes(const mba_program *p)
{
    size_t all = mba_program_ahead_bytes(p);
    for (int r = 0; r < MBA_ROLES; r++) all += p->layout.arena_bytes[r];
    return all;
}

/* Allocates second buffers for the inputs, on the host and on the device. */
static mba_status take_ahead(mba_program *p)
{
    const mba_device *d = p->device;
    const size_t      bytes = p->layout.arena_bytes[MBA_INPUT];
    if (!p->options.ahead || !bytes || !d->alloc_host) return MBA_OK;
    MBA_TRY(d->alloc_host(&p->other_inputs, bytes));
    return d->send ? d->alloc(&p->ahead, bytes) : MBA_OK;
}

mba_status mba_program_bind(mba_program *p, const mba_device *d)
{
    mba_assert(!p->device); // a program is bound once
    p->device = d;
    for (int r = 0; r < MBA_ROLES; r++)
        if (p->layout.arena_bytes[r]) MBA_TRY(d->alloc(&p->memory[r], p->layout.arena_bytes[r]));
    for (int r = 0; r < MBA_ROLES && d->alloc_host; r++)
        if (p->layout.arena_bytes[r] && (r == MBA_INPUT || r == MBA_RESULT))
            MBA_TRY(d->alloc_host(&p->mirror[r], p->layout.arena_bytes[r]));
    MBA_TRY(take_ahead(p));
    MBA_TRY(d->alloc((void **)&p->step, sizeof *p->step));
    p->call = mba_arena_new(p->arena, mba_call, p->graph->nnodes);
    for (int32_t i = 0; i < p->graph->nnodes; i++) {
        const mba_node *n = p->graph->nodes[i];
        mba_call       *c = &p->call[i];
        mba_assert(n->id == i && p->plan[i]);
        if (!p->launch[i])
            return mba_fail(MBA_E_UNSUPPORTED, "%s cannot run: this build has no code for the device", n->op->name);
        *c = (mba_call){
            .node = n, .plan = p->plan[i], .step = p->step, .stream = d->stream, .world = p->options.world
        };
        for (int k = 0; k < MBA_IN_MAX; k++) c->in[k] = mba_program_at(p, n->in[k]);
        for (int k = 0; k < MBA_OUT_MAX; k++) c->out[k] = mba_program_at(p, n->out[k]);
        if (p->plan[i]->work_bytes) c->work = (char *)p->memory[MBA_ACT] + p->layout.work_offset[i];
    }
    return MBA_OK;
}

mba_status mba_program_run(mba_program *p, unsigned passes, const mba_step *step, const mba_hooks *h)
{
    mba_assert(p->device && passes && !(passes & ~(unsigned)MBA_STEP));
    MBA_TRY(noted_failure(p));
    MBA_TRY(p->device->put(p->step, step, sizeof *step));
    p->apart = false;
    return p->device->run(p, passes, h);
}

mba_status mba_program_repeat(mba_program *p, unsigned passes, const mba_step *step)
{
    MBA_TRY(mba_program_run(p, passes, step, NULL));
    return mba_program_upload_inputs(p);
}

mba_status mba_program_wait(const mba_program *p)
{
    MBA_TRY(noted_failure(p));
    return p->device->wait ? p->device->wait() : MBA_OK;
}

void mba_program_destroy(mba_program *p)
{
    if (!p) return;
    if (p->kept) p->device->forget(p);
    for (int r = 0; r < MBA_ROLES; r++)
        if (p->memory[r]) p->device->dealloc(p->memory[r]);
    for (int r = 0; r < MBA_ROLES; r++)
        if (p->mirror[r]) p->device->dealloc_host(p->mirror[r]);
    if (p->ahead) p->device->dealloc(p->ahead);
    if (p->other_inputs) p->device->dealloc_host(p->other_inputs);
    if (p->step) p->device->dealloc(p->step);
    mba_arena_destroy(p->arena);
}
