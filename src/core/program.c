/* program.c -- chooses variants, lays out memory, binds and runs. */
#include "core/program.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "core/normals.h"
#include "core/rng.h"

/* ---- variants ---- */

/* "ssd=fused,conv1d=smem": the name forced for this operator, or NULL. */
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

/* Windows that no plan could tell apart: it may ask whether rows begin at multiples of 16 bytes, and where the parameters
 * of a group begin. */
static bool same_window(const mba_tensor *s, const mba_tensor *t)
{
    const int64_t piece = 16 / (int64_t)mba_dtype_bytes(s->type.dtype);
    return mba_type_equal(&s->type, &t->type) && s->run == t->run && s->pitch == t->pitch && s->offset % piece == t->offset % piece
        && s->st->start == t->st->start;
}

/* Two nodes of which the same is true: compared as bytes, so attributes have no padding. */
static bool alike(const mba_node *a, const mba_node *b)
{
    if (a->op != b->op || a->adds != b->adds) return false;
    if (a->op->attr_bytes && memcmp(a->attr, b->attr, a->op->attr_bytes)) return false;
    for (int k = 0; k < MBA_IN_MAX + MBA_OUT_MAX; k++) {
        const mba_tensor *s = k < MBA_IN_MAX ? a->in[k] : a->out[k - MBA_IN_MAX];
        const mba_tensor *t = k < MBA_IN_MAX ? b->in[k] : b->out[k - MBA_IN_MAX];
        if (!s != !t) return false;
        if (s && !same_window(s, t)) return false;
    }
    return true;
}

/* The plan of the node that n serves, which may tell n's plan what that node leaves for it. */
static const mba_plan *served(const mba_program *p, const mba_node *n) { return n->of ? p->plan[n->of->id] : NULL; }

static bool serve_alike(const mba_program *p, const mba_node *a, const mba_node *b)
{
    const mba_plan *s = served(p, a), *t = served(p, b);
    return !s == !t && (!s || !strcmp(s->variant, t->variant));
}

static mba_status choose(mba_program *p, int32_t i)
{
    const mba_node    *n    = p->graph->nodes[i];
    const mba_variant *v    = p->options.cuda ? n->op->cuda : n->op->cpu;
    size_t             len  = 0;
    const char        *want = forced(p->options.variants, n->op->name, &len);
    mba_status         st   = mba_fail(MBA_E_UNSUPPORTED, "%s has no variant %.*s for %s\n"
                                       "fix: mambascope list ops names them", n->op->name, (int)len,
                                       want ? want : "", p->options.cuda ? "CUDA" : "the CPU");
    for (int32_t j = 0; j < i; j++)
        if (alike(n, p->graph->nodes[j]) && serve_alike(p, n, p->graph->nodes[j])) {
            p->plan[i]   = p->plan[j];
            p->launch[i] = p->launch[j];
            return MBA_OK;
        }
    mba_plan *plan = mba_arena_new(p->arena, mba_plan, 1);
    for (; v && v->name; v++) {
        if (want && (strlen(v->name) != len || strncmp(v->name, want, len))) continue;
        st = mba_plan_variant(plan, served(p, n), p->arena, n, v, p->options.machine);
        if (st == MBA_OK) {
            p->plan[i]   = plan;
            p->launch[i] = v->launch[p->options.cuda ? 0 : mba_cpu_isa()];
            return MBA_OK;
        }
    }
    return mba_where(st, "node %d, %s", i, n->scope);
}

/* ---- memory ---- */

typedef struct block { size_t bytes, offset; int32_t first, last, id, heir; bool merged, lent; } block;

static size_t aligned(size_t bytes) { return (bytes + MBA_ALIGN_BYTES - 1) / MBA_ALIGN_BYTES * MBA_ALIGN_BYTES; }
static bool   shared(const mba_storage *st) { return st->role >= MBA_ACT; }

static void lifetimes(const mba_graph *g, mba_layout *lay)
{
    for (int32_t s = 0; s < g->nstorages; s++) lay->first[s] = lay->last[s] = -1;
    for (int32_t i = 0; i < g->nnodes; i++)
        for (int k = 0; k < MBA_IN_MAX + MBA_OUT_MAX; k++) {
            const mba_tensor *t = k < MBA_IN_MAX ? g->nodes[i]->in[k] : g->nodes[i]->out[k - MBA_IN_MAX];
            if (!t) continue;
            if (lay->first[t->st->id] < 0) lay->first[t->st->id] = i;
            lay->last[t->st->id] = i;
        }
    for (int32_t s = 0; s < g->nstorages; s++) {  // whoever uses a compute copy keeps its master
        const mba_storage *st = g->storages[s];
        if (st->master && lay->first[s] >= 0 && lay->first[st->master->id] < 0) lay->first[st->master->id] = lay->last[st->master->id] = lay->first[s];
    }
}

/* An output takes the memory of an input that dies at its maker, where the operator allows it. */
static void merge_in_place(const mba_graph *g, block *b, int32_t *root)
{
    for (int32_t i = 0; i < g->nnodes; i++)
        for (int k = 0; k < MBA_OUT_MAX; k++) {
            const mba_node   *n = g->nodes[i];
            const mba_tensor *y = n->out[k];
            if (!y || !n->op->out[k].reuse) continue;
            const int         j = n->op->out[k].reuse - 1;
            const mba_tensor *x = n->in[j];
            if (!x || !shared(x->st) || !shared(y->st) || x->st == y->st) continue;
            block *from = &b[root[x->st->id]], *to = &b[y->st->id];
            bool   alone = true;
            for (int m = 0; m < MBA_IN_MAX; m++) alone &= m == j || !n->in[m] || n->in[m]->st != x->st;
            const bool whole = mba_elems(x) == x->st->elems && mba_elems(y) == y->st->elems;
            const bool same  = x->st->dtype == y->st->dtype;   // else element i does not lie in element i
            const bool meet  = from->last == i && to->first == i && from->heir != i + 1 && !to->merged;
            if (alone && whole && same && meet && from->bytes == to->bytes) {
                from->last = to->last;
                from->heir = i + 1;                        // one output per input and node
                to->merged = true;
                root[y->st->id] = root[x->st->id];
            }
        }
}

static int by_size(const void *x, const void *y)
{
    const block *a = *(block *const *)x, *b = *(block *const *)y;
    return a->bytes != b->bytes ? (a->bytes < b->bytes ? 1 : -1) : a->id - b->id;
}

static int by_offset(const void *x, const void *y)
{
    const block *a = *(block *const *)x, *b = *(block *const *)y;
    return a->offset != b->offset ? (a->offset > b->offset ? 1 : -1) : a->id - b->id;
}

/* The lowest place where x lies beside all blocks that live with it. */
static size_t lowest(const block *x, block *const *others, int32_t n, block **near)
{
    int32_t m  = 0;
    size_t  at = 0;
    for (int32_t j = 0; j < n; j++)
        if (others[j]->first <= x->last && x->first <= others[j]->last) near[m++] = others[j];
    qsort(near, (size_t)m, sizeof *near, by_offset);
    for (int32_t j = 0; j < m && near[j]->offset < at + x->bytes; j++)
        if (near[j]->offset + near[j]->bytes > at) at = aligned(near[j]->offset + near[j]->bytes);
    return at;
}

/* Largest first, each at the lowest place that is free for its whole life. */
static size_t place(block **todo, int32_t n, block **near)
{
    size_t top = 0;
    qsort(todo, (size_t)n, sizeof *todo, by_size);
    for (int32_t i = 0; i < n; i++) {
        todo[i]->offset = lowest(todo[i], todo, i, near);
        if (todo[i]->offset + todo[i]->bytes > top) top = todo[i]->offset + todo[i]->bytes;
    }
    return top;
}

static size_t live_at(block *const *todo, int32_t n, int32_t node)
{
    size_t live = 0;
    for (int32_t k = 0; k < n; k++) if (todo[k]->first <= node && node <= todo[k]->last) live += todo[k]->bytes;
    return live;
}

/* ---- gradients of parameters lend their memory until they are made ---- */

/* A window of a gradient that is written without a look at what was there. */
static bool stores_gradient(const mba_node *n, int k)
{
    const mba_tensor *t = n->out[k];
    return t && t->st->role == MBA_GRAD && n->pass == MBA_BACKWARD && !mba_adds(n, k) && mba_dense(t);
}

/* What of the gradients is taken, and from which node on: stored windows from their makers on, all the rest from the start
 * (padding, which is zero, and what is only ever added to). Returns how many, of at most 2 nstored + 1. */
static int32_t taken_gradients(const mba_program *p, block *taken, block **order)
{
    const mba_graph *g = p->graph;
    int32_t          n = 0, nstored;
    size_t           at = 0;
    for (int32_t i = 0; i < g->nnodes; i++)
        for (int k = 0; k < MBA_OUT_MAX; k++) {
            const mba_tensor *t = g->nodes[i]->out[k];
            if (!stores_gradient(g->nodes[i], k)) continue;
            taken[n] = (block){ .bytes = (size_t)mba_tensor_bytes(t), .first = i, .last = g->nnodes, .id = n,
                                .offset = p->layout.offset[t->st->id] + (size_t)t->offset * mba_dtype_bytes(t->st->dtype) };
            order[n] = &taken[n];
            n++;
        }
    nstored = n;
    qsort(order, (size_t)nstored, sizeof *order, by_offset);
    for (int32_t i = 0; i <= nstored; i++) {               // what lies before window i
        const size_t to = i < nstored ? order[i]->offset : p->layout.arena_bytes[MBA_GRAD];
        taken[n] = (block){ .bytes = to - at, .offset = at, .first = -1, .last = g->nnodes, .id = n };
        order[n] = &taken[n];
        n += to > at;
        at = i < nstored ? order[i]->offset + order[i]->bytes : to;
    }
    return n;
}

static int by_end(const void *x, const void *y)
{
    const block *a = *(block *const *)x, *b = *(block *const *)y;
    return a->last != b->last ? b->last - a->last : by_size(x, y);
}

/* At the end of the forward pass all activations are there and no gradient is. Those that live longest come first: they fit
 * only under gradients that are made last, the others under more of them. Returns how many blocks are left to place. */
static int32_t lend_gradients(const mba_program *p, block **todo, int32_t n)
{
    const mba_graph *g = p->graph;
    int32_t          peak = 0, left = 0, nstored = 0;
    for (int32_t i = 0; i < g->nnodes; i++)
        for (int k = 0; k < MBA_OUT_MAX; k++) nstored += stores_gradient(g->nodes[i], k);
    if (!nstored) return n;
    block  *taken = mba_arena_new(p->arena, block, 2 * nstored + 1);
    block **order = mba_arena_new(p->arena, block *, 2 * nstored + 1 + n), **near = mba_arena_new(p->arena, block *, 2 * nstored + 1 + n);
    int32_t ntaken = taken_gradients(p, taken, order);
    for (int32_t i = 1; i < g->nnodes; i++) if (live_at(todo, n, i) > live_at(todo, n, peak)) peak = i;
    qsort(todo, (size_t)n, sizeof *todo, by_end);
    for (int32_t i = 0; i < n; i++) {
        block *x = todo[i];
        if (x->id < g->nstorages && x->first <= peak && peak <= x->last) {         // scratch stays in the step arena
            x->offset = lowest(x, order, ntaken, near);
            x->lent   = x->offset + x->bytes <= p->layout.arena_bytes[MBA_GRAD];
        }
        if (x->lent) order[ntaken++] = x;
        else         todo[left++] = x;
    }
    return left;
}

static void lay_out(mba_program *p)
{
    const mba_graph *g   = p->graph;
    mba_layout      *lay = &p->layout;
    const int32_t    n   = g->nstorages + g->nnodes;       // one block per storage and per scratch
    const size_t     guard = aligned(p->options.guard_bytes);
    lay->first       = mba_arena_new(p->arena, int32_t, g->nstorages);
    lay->last        = mba_arena_new(p->arena, int32_t, g->nstorages);
    lay->offset      = mba_arena_new(p->arena, size_t, g->nstorages);
    lay->arena       = mba_arena_new(p->arena, uint8_t, g->nstorages);
    lay->work_offset = mba_arena_new(p->arena, size_t, g->nnodes);
    block   *b    = mba_arena_new(p->arena, block, n);
    block  **todo = mba_arena_new(p->arena, block *, n), **near = mba_arena_new(p->arena, block *, n);
    int32_t *root = mba_arena_new(p->arena, int32_t, n), ntodo = 0;
    lifetimes(g, lay);
    for (int32_t s = 0; s < g->nstorages; s++) {
        const mba_storage *st = g->storages[s];
        root[s] = s;
        b[s] = (block){ .bytes = aligned((size_t)st->elems * mba_dtype_bytes(st->dtype)) + 2 * guard,
                        .first = lay->first[s], .last = lay->last[s], .id = s };
        if (lay->first[s] < 0) continue;                   // nobody uses it
        lay->role_bytes[st->role] += b[s].bytes;
        if (shared(st)) continue;
        lay->offset[s] = lay->arena_bytes[st->role] + guard;
        lay->arena_bytes[st->role] += b[s].bytes;
    }
    merge_in_place(g, b, root);
    for (int32_t i = 0, k = g->nstorages; i < g->nnodes; i++, k++)
        b[k] = (block){ .bytes = p->plan[i]->work_bytes ? aligned(p->plan[i]->work_bytes) + 2 * guard : 0, .first = i, .last = i,
                        .id = k };
    for (int32_t k = 0; k < n; k++) {
        const bool scratch = k >= g->nstorages;
        if (scratch) lay->role_bytes[MBA_WORK] += b[k].bytes;
        if (b[k].bytes && b[k].first >= 0 && !b[k].merged && (scratch || shared(g->storages[k]))) todo[ntodo++] = &b[k];
    }
    ntodo = lend_gradients(p, todo, ntodo);
    lay->arena_bytes[MBA_ACT] = place(todo, ntodo, near);
    for (int32_t s = 0; s < g->nstorages; s++) {
        const block *x = &b[root[s]];
        lay->arena[s] = (uint8_t)(!shared(g->storages[s]) ? g->storages[s]->role : x->lent ? MBA_GRAD : MBA_ACT);
        if (shared(g->storages[s])) lay->offset[s] = x->offset + guard;
    }
    for (int32_t i = 0; i < g->nnodes; i++) lay->work_offset[i] = b[g->nstorages + i].offset + guard;
    for (int32_t i = 0; i < g->nnodes; i++) {
        const size_t live = live_at(todo, ntodo, i);
        if (live > lay->live_bytes_max) { lay->live_bytes_max = live; lay->peak = i; }
    }
}

/* ---- life of a program ---- */

mba_status mba_program_create(mba_program **out, const mba_graph *g, const mba_program_options *o)
{
    mba_arena *a;
    MBA_TRY(mba_graph_status(g));
    MBA_TRY(mba_arena_create(&a, (size_t)64 << 20));
    mba_program *p = mba_arena_new(a, mba_program, 1);
    *p = (mba_program){ .graph = g, .options = *o, .arena = a };
    p->plan   = mba_arena_new(a, const mba_plan *, g->nnodes);
    p->launch = mba_arena_new(a, mba_launch_fn *, g->nnodes);
    mba_status st = MBA_OK;
    for (int32_t i = 0; i < g->nnodes && st == MBA_OK; i++) st = choose(p, i);
    if (st == MBA_OK) {
        lay_out(p);
        *out = p;
    } else {
        mba_program_destroy(p);
    }
    return st;
}

void *mba_program_at(const mba_program *p, const mba_tensor *t)
{
    if (!t) return NULL;
    return (char *)p->memory[p->layout.arena[t->st->id]] + p->layout.offset[t->st->id]
         + (size_t)t->offset * mba_dtype_bytes(t->type.dtype);
}

void *mba_program_beside(const mba_program *p, const mba_storage *st, const mba_tensor *param)
{
    return (char *)p->memory[p->layout.arena[st->id]] + p->layout.offset[st->id] + (size_t)param->offset * mba_dtype_bytes(st->dtype);
}

void *mba_program_host(const mba_program *p, const mba_tensor *t)
{
    if (!p->device->take_host) return mba_program_at(p, t);
    mba_assert(p->mirror[t->st->role]);
    if (!(p->apart && t->st->role == MBA_INPUT) && p->device->wait() != MBA_OK) return NULL;
    return (char *)p->mirror[t->st->role] + p->layout.offset[t->st->id] + (size_t)t->offset * mba_dtype_bytes(t->type.dtype);
}

bool mba_program_turn(mba_program *p)
{
    const size_t bytes = p->layout.arena_bytes[MBA_INPUT];
    if (!p->device->take_host || !bytes) return false;
    if (!p->other_inputs) {
        if (p->device->take_host(&p->other_inputs, bytes) != MBA_OK) return false;
        memcpy(p->other_inputs, p->mirror[MBA_INPUT], bytes);      // what is written once is in both
    }
    void *filled = p->mirror[MBA_INPUT];
    p->mirror[MBA_INPUT] = p->other_inputs;
    p->other_inputs      = filled;
    p->apart             = !p->apart;
    return true;
}

mba_status mba_program_send(mba_program *p) { return p->device->send ? p->device->send(p) : MBA_OK; }

void *mba_program_host_beside(const mba_program *p, const mba_storage *st, const mba_tensor *param)
{
    if (!p->device->take_host) return mba_program_beside(p, st, param);
    mba_assert(p->mirror[st->role]);
    return (char *)p->mirror[st->role] + p->layout.offset[st->id] + (size_t)param->offset * mba_dtype_bytes(st->dtype);
}

static mba_status put_bf16(const mba_program *p, void *to, const float *x, int64_t n)
{
    uint16_t *half = malloc(sizeof *half * (size_t)n);
    if (!half) return mba_fail(MBA_E_NOMEM, "no memory for %lld numbers", (long long)n);
    MBA_PARALLEL_FOR(i, n) half[i] = mba_to_bf16(x[i]);
    const mba_status st = p->device->put(to, half, sizeof *half * (size_t)n);
    free(half);
    return st;
}

/* What the host may look at and change between steps. */
static const mba_role lasting[] = { MBA_PARAM, MBA_OPTIM, MBA_STATE, MBA_GRAD };
enum { LASTING = sizeof lasting / sizeof *lasting };

mba_status mba_program_pull(mba_program *p)
{
    for (int k = 0; k < LASTING && p->device->take_host; k++) {
        const mba_role r = lasting[k];
        const size_t   bytes = p->layout.arena_bytes[r];
        if (bytes && !p->mirror[r]) MBA_TRY(p->device->take_host(&p->mirror[r], bytes));
        if (bytes) MBA_TRY(p->device->get(p->mirror[r], p->memory[r], bytes));
    }
    return MBA_OK;
}

mba_status mba_program_push(mba_program *p)
{
    for (int k = 0; k < LASTING && p->device->take_host; k++) {
        const mba_role r = lasting[k];
        if (p->mirror[r] && r != MBA_GRAD) MBA_TRY(p->device->put(p->memory[r], p->mirror[r], p->layout.arena_bytes[r]));
    }
    for (int k = 0; k < MBA_GROUPS && p->device->take_host; k++) {
        const mba_storage *st = p->graph->copies[k], *master = p->graph->params[k];
        if (!st || p->layout.first[st->id] < 0 || p->layout.first[master->id] < 0) continue;
        const mba_tensor whole = { .st = (mba_storage *)master };
        MBA_TRY(put_bf16(p, mba_program_beside(p, st, &whole), mba_program_host_beside(p, master, &whole), st->elems));
    }
    return p->device->wait ? p->device->wait() : MBA_OK;
}

/* The compute copy of a parameter, or NULL. */
static void *copy_of(const mba_program *p, const mba_tensor *t)
{
    for (int k = 0; k < MBA_GROUPS; k++) {
        const mba_storage *st = p->graph->copies[k];
        if (st && st->master == t->st && p->layout.first[st->id] >= 0) return mba_program_beside(p, st, t);
    }
    return NULL;
}

/* An input is set in its mirror, which travels with the next run. */
mba_status mba_program_set(mba_program *p, const mba_tensor *t, const void *host)
{
    mba_assert(mba_dense(t));
    void *copy = t->st->role == MBA_PARAM ? copy_of(p, t) : NULL;
    if (copy) MBA_TRY(put_bf16(p, copy, host, mba_elems(t)));
    if (p->layout.first[t->st->id] < 0) return MBA_OK;        // nobody reads it: it has no place
    if (t->st->role == MBA_INPUT && p->mirror[MBA_INPUT]) {
        uint16_t *to = mba_program_host(p, t);
        if (t->type.dtype != MBA_BF16) memcpy(to, host, (size_t)mba_tensor_bytes(t));
        else for (int64_t i = 0; i < mba_elems(t); i++) to[i] = mba_to_bf16(((const float *)host)[i]);
        return MBA_OK;
    }
    if (t->type.dtype == MBA_BF16) return put_bf16(p, mba_program_at(p, t), host, mba_elems(t));
    return p->device->put(mba_program_at(p, t), host, (size_t)mba_tensor_bytes(t));
}

mba_status mba_program_get(const mba_program *p, const mba_tensor *t, void *host)
{
    mba_assert(mba_dense(t));
    MBA_TRY(p->device->get(host, mba_program_at(p, t), (size_t)mba_tensor_bytes(t)));
    if (t->type.dtype == MBA_BF16)                // widened from behind: a half never covers one still to be read
        for (int64_t i = mba_elems(t) - 1; i >= 0; i--) {
            uint16_t h;
            memcpy(&h, (const uint16_t *)host + i, sizeof h);
            ((float *)host)[i] = mba_from_bf16(h);
        }
    return MBA_OK;
}

size_t mba_program_bytes(const mba_program *p)
{
    size_t all = 0;
    for (int r = 0; r < MBA_ROLES; r++) all += p->layout.arena_bytes[r];
    return all;
}

mba_status mba_program_bind(mba_program *p, const mba_device *d)
{
    p->device = d;
    for (int r = 0; r < MBA_ROLES; r++)
        if (p->layout.arena_bytes[r]) MBA_TRY(d->take(&p->memory[r], p->layout.arena_bytes[r]));
    for (int r = 0; r < MBA_ROLES && d->take_host; r++)
        if (p->layout.arena_bytes[r] && (r == MBA_INPUT || r == MBA_RESULT))
            MBA_TRY(d->take_host(&p->mirror[r], p->layout.arena_bytes[r]));
    MBA_TRY(d->take((void **)&p->step, sizeof *p->step));
    p->call = mba_arena_new(p->arena, mba_call, p->graph->nnodes);
    for (int32_t i = 0; i < p->graph->nnodes; i++) {
        const mba_node *n = p->graph->nodes[i];
        mba_call       *c = &p->call[i];
        if (!p->launch[i]) return mba_fail(MBA_E_UNSUPPORTED, "%s cannot run in this build", n->op->name);
        *c = (mba_call){ .node = n, .plan = p->plan[i], .step = p->step, .stream = d->stream };
        for (int k = 0; k < MBA_IN_MAX; k++)  c->in[k]  = mba_program_at(p, n->in[k]);
        for (int k = 0; k < MBA_OUT_MAX; k++) c->out[k] = mba_program_at(p, n->out[k]);
        if (p->plan[i]->work_bytes) c->work = (char *)p->memory[MBA_ACT] + p->layout.work_offset[i];
    }
    return MBA_OK;
}

mba_status mba_program_run(mba_program *p, unsigned passes, const mba_step *step, const mba_hooks *h)
{
    MBA_TRY(p->device->put(p->step, step, sizeof *step));
    p->apart = false;
    return p->device->run(p, passes, h);
}

void mba_program_destroy(mba_program *p)
{
    if (!p) return;
    if (p->kept) p->device->forget(p);
    for (int r = 0; r < MBA_ROLES; r++) if (p->memory[r]) p->device->give(p->memory[r]);
    for (int r = 0; r < MBA_ROLES; r++) if (p->mirror[r]) p->device->give_host(p->mirror[r]);
    if (p->other_inputs) p->device->give_host(p->other_inputs);
    if (p->step) p->device->give(p->step);
    mba_arena_destroy(p->arena);
}

/* ---- how parameters start ---- */

double mba_init_value(const mba_tensor *t, uint64_t seed, int64_t i)
{
    uint32_t u[4];
    mba_philox(u, seed ^ mba_stream(t->name), 0, (uint64_t)i);
    const double a = t->init.a, b = t->init.b, x = mba_unit(u[0]);
    switch (t->init.dist) {
    case MBA_UNIFORM:     return (float)(a * (2 * x - 1));
    case MBA_NORMAL:      return mba_normal(a, seed ^ mba_stream(t->name), i);
    case MBA_LOG_INDEX:   return (float)log(1 + (double)(i % mba_cols(t)));
    case MBA_LOG_UNIFORM: return (float)log(a + (b - a) * x);
    case MBA_STEP_BIAS: {
        const double step = fmax(a * pow(b / a, x), 1e-4);
        return (float)(step + log(-expm1(-step)));         // softplus gives the step back
    }
    default:              return a;
    }
}

enum { INIT_PIECE = 1 << 23 };                     // numbers on their way to the device

static bool has_first_values(const mba_program *p, const mba_tensor *t)
{
    const bool state = mba_is_state(t) && t->type.dtype == MBA_F32 && p->layout.first[t->st->id] >= 0;
    return mba_is_param(t) || state;
}

static void first_values(float *x, const mba_tensor *t, uint64_t seed, int64_t from, int64_t n)
{
    if (t->init.dist == MBA_NORMAL) mba_normals(x, from, n, t->init.a, seed ^ mba_stream(t->name));
    else MBA_PARALLEL_FOR(k, n) x[k] = (float)mba_init_value(t, seed, from + k);
}

/* In pieces, through memory that the device copies from quickly: to the parameter and to its compute copy. */
static mba_status send_first_values(mba_program *p, const mba_tensor *t, uint64_t seed, float *x, uint16_t *half)
{
    char      *copy = t->st->role == MBA_PARAM ? copy_of(p, t) : NULL;
    char      *to = p->layout.first[t->st->id] >= 0 ? mba_program_at(p, t) : NULL;
    const bool narrow = t->type.dtype == MBA_BF16;
    mba_assert(mba_dense(t));
    for (int64_t at = 0; at < mba_elems(t); at += INIT_PIECE) {
        const int64_t n = mba_elems(t) - at < INIT_PIECE ? mba_elems(t) - at : INIT_PIECE;
        first_values(x, t, seed, at, n);
        if (copy || narrow) MBA_PARALLEL_FOR(k, n) half[k] = mba_to_bf16(x[k]);
        if (copy) MBA_TRY(p->device->put(copy + 2 * at, half, 2 * (size_t)n));
        if (to && narrow)  MBA_TRY(p->device->put(to + 2 * at, half, 2 * (size_t)n));
        if (to && !narrow) MBA_TRY(p->device->put(to + 4 * at, x, 4 * (size_t)n));
        if (p->device->wait) MBA_TRY(p->device->wait());                       // the next goes into the same memory
    }
    return MBA_OK;
}

mba_status mba_program_init(mba_program *p, uint64_t seed)
{
    void      *piece = NULL;
    mba_status st = MBA_OK;
    int64_t    most = 1;
    for (int32_t i = 0; i < p->graph->ntensors; i++)
        if (has_first_values(p, p->graph->tensors[i]) && mba_elems(p->graph->tensors[i]) > most)
            most = mba_elems(p->graph->tensors[i]);
    if (most > INIT_PIECE) most = INIT_PIECE;
    if (p->device->take_host) MBA_TRY(p->device->take_host(&piece, 6 * (size_t)most));
    for (int32_t i = 0; i < p->graph->ntensors && st == MBA_OK; i++) {
        const mba_tensor *t = p->graph->tensors[i];
        if (!has_first_values(p, t)) continue;
        if (piece) st = send_first_values(p, t, seed, piece, (uint16_t *)((float *)piece + most));
        else       first_values(mba_program_at(p, t), t, seed, 0, mba_elems(t));
    }
    if (piece) p->device->give_host(piece);
    return st;
}
