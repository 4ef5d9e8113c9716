// SPDX-License-Identifier: Apache-2.0
/* memory_plan.c -- decides where every storage and every scratch of a program lies. Blocks that live at different times
 * share memory. program.c calls mba__memory_plan once the launch plans, and with them the scratch sizes, are known.
 *
 *   1. lifetimes          the first and the last node that uses each storage
 *   2. merge_in_place     an output takes the memory of an input that dies at its node
 *   3. place_under_gradients   activations lie in the memory of parameter gradients that are written later
 *   4. place              the rest goes to the step arena: largest first, at the lowest free offset */
#include <stdlib.h>
#include "core/program.h"

/* What is placed: a storage that shares memory over time (id: its number) or the scratch of a node (id: nstorages +
 * node). It lives from node `first` to node `last`. */
typedef struct block {
    size_t  bytes, offset;
    int32_t first, last, id;
    int32_t heir;         /* 1 + the node whose output has taken over this block */
    bool    merged;       /* it lies in the block of an input */
    bool    in_gradients; /* it lies in the memory of parameter gradients */
} block;

static size_t aligned(size_t bytes) { return (bytes + MBA_ALIGN_BYTES - 1) / MBA_ALIGN_BYTES * MBA_ALIGN_BYTES; }

/* True for storages that share memory over time. */
static bool shared(const mba_storage *st) { return st->role >= MBA_ACT; }

/* True for an output that its node does not write (mba_plan.leaves). Its readers know that node's plan
 * (mba_plan.forward) and do not read it, so it needs no memory. */
static bool is_left(const mba_program *p, const mba_tensor *t)
{
    for (int k = 0; t->producer_node && k < MBA_OUT_MAX; k++)
        if (t->producer_node->out[k] == t) return p->plan[t->producer_node->id]->leaves >> k & 1;
    return false;
}

static void lifetimes(const mba_program *p, mba_memory_plan *lay)
{
    const mba_graph *g = p->graph;
    for (int32_t s = 0; s < g->nstorages; s++) lay->first[s] = lay->last[s] = -1;
    for (int32_t i = 0; i < g->nnodes; i++)
        for (int k = 0; k < MBA_IN_MAX + MBA_OUT_MAX; k++) {
            const mba_tensor *t = k < MBA_IN_MAX ? g->nodes[i]->in[k] : g->nodes[i]->out[k - MBA_IN_MAX];
            if (!t || is_left(p, t)) continue;
            if (lay->first[t->st->id] < 0) lay->first[t->st->id] = i;
            lay->last[t->st->id] = i;
        }
    for (int32_t s = 0; s < g->nstorages; s++) { // a compute copy in use needs its master
        const mba_storage *st = g->storages[s];
        if (st->master && lay->first[s] >= 0 && lay->first[st->master->id] < 0)
            lay->first[st->master->id] = lay->last[st->master->id] = lay->first[s];
    }
}

/* Gives an output the memory of an input whose last reader is the output's node, if the operator allows it. */
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
            const bool same = x->st->dtype == y->st->dtype; // so that element i lies in element i
            const bool meet = from->last == i && to->first == i && from->heir != i + 1 && !to->merged;
            if (alone && whole && same && meet && from->bytes == to->bytes) {
                from->last = to->last;
                from->heir = i + 1; // a second output of the node must not take it too
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

/* The lowest offset at which x does not overlap any of the blocks that live at the same time. `near` is scratch. */
static size_t lowest(const block *x, block *const *others, int32_t n, block **near)
{
    int32_t m = 0;
    size_t  at = 0;
    for (int32_t j = 0; j < n; j++)
        if (others[j]->first <= x->last && x->first <= others[j]->last) near[m++] = others[j];
    qsort(near, (size_t)m, sizeof *near, by_offset);
    for (int32_t j = 0; j < m && near[j]->offset < at + x->bytes; j++)
        if (near[j]->offset + near[j]->bytes > at) at = aligned(near[j]->offset + near[j]->bytes);
    return at;
}

/* True if no two blocks overlap both in time and in memory. Takes quadratic time: for debug builds. */
static bool disjoint_blocks(block *const *b, int32_t n)
{
    for (int32_t i = 0; i < n; i++)
        for (int32_t j = 0; j < i; j++) {
            const bool time = b[i]->first <= b[j]->last && b[j]->first <= b[i]->last;
            const bool memory = b[i]->offset < b[j]->offset + b[j]->bytes && b[j]->offset < b[i]->offset + b[i]->bytes;
            if (time && memory) return false;
        }
    return true;
}

/* Places the largest block first, each at the lowest offset that is free for its whole life. Returns the bytes
 * needed. */
static size_t place(block **todo, int32_t n, block **near)
{
    size_t top = 0;
    qsort(todo, (size_t)n, sizeof *todo, by_size);
    for (int32_t i = 0; i < n; i++) {
        todo[i]->offset = lowest(todo[i], todo, i, near);
        mba_assert(todo[i]->offset % MBA_ALIGN_BYTES == 0);
        if (todo[i]->offset + todo[i]->bytes > top) top = todo[i]->offset + todo[i]->bytes;
    }
    mba_debug_assert(disjoint_blocks(todo, n));
    return top;
}

static size_t live_at(block *const *todo, int32_t n, int32_t node)
{
    size_t live = 0;
    for (int32_t k = 0; k < n; k++)
        if (todo[k]->first <= node && node <= todo[k]->last) live += todo[k]->bytes;
    return live;
}

/* ---- activations in the memory of parameter gradients that are not written yet ---- */

/* True for a view of a parameter gradient that the node stores, without adding to what is there. */
static bool stores_gradient(const mba_node *n, int k)
{
    const mba_tensor *t = n->out[k];
    return t && t->st->role == MBA_GRAD && n->pass == MBA_BACKWARD && !mba_adds(n, k) && mba_dense(t);
}

/* Lists which parts of the gradients are in use, and from which node on: a stored view from its node on, all the rest
 * from the start (padding, which is zero, and what is only ever added to). Returns their number, at most 2 nstored +
 * 1. */
static int32_t taken_gradients(const mba_program *p, block *taken, block **order)
{
    const mba_graph *g = p->graph;
    int32_t          n = 0, nstored;
    size_t           at = 0;
    for (int32_t i = 0; i < g->nnodes; i++)
        for (int k = 0; k < MBA_OUT_MAX; k++) {
            const mba_tensor *t = g->nodes[i]->out[k];
            if (!stores_gradient(g->nodes[i], k)) continue;
            const size_t within = (size_t)t->offset * mba_dtype_bytes(t->st->dtype);
            taken[n] = (block){ .bytes = (size_t)mba_tensor_bytes(t),
                                .first = i,
                                .last = g->nnodes,
                                .id = n,
                                .offset = p->layout.offset[t->st->id] + within };
            order[n] = &taken[n];
            n++;
        }
    nstored = n;
    qsort(order, (size_t)nstored, sizeof *order, by_offset);
    for (int32_t i = 0; i <= nstored; i++) {                // the gap before view i
        mba_assert(i == nstored || order[i]->offset >= at); // stored views do not overlap
        const size_t to = i < nstored ? order[i]->offset : p->layout.arena_bytes[MBA_GRAD];
        taken[n] = (block){ .bytes = to - at, .offset = at, .first = -1, .last = g->nnodes, .id = n };
        order[n] = &taken[n];
        n += to > at;
        at = i < nstored ? order[i]->offset + order[i]->bytes : to;
    }
    mba_assert(n <= 2 * nstored + 1);
    return n;
}

static int by_end(const void *x, const void *y)
{
    const block *a = *(block *const *)x, *b = *(block *const *)y;
    return a->last != b->last ? b->last - a->last : by_size(x, y);
}

/* Places activations in the memory of gradients. At the end of the forward pass all activations exist and no gradient
 * does. Activations that live longest come first: they fit only under the gradients that are written last, the others
 * under more of them. Returns how many blocks are left to place; they come first in `todo`. */
static int32_t place_under_gradients(const mba_program *p, block **todo, int32_t n)
{
    const mba_graph *g = p->graph;
    int32_t          peak = 0, left = 0, nstored = 0;
    for (int32_t i = 0; i < g->nnodes; i++)
        for (int k = 0; k < MBA_OUT_MAX; k++) nstored += stores_gradient(g->nodes[i], k);
    if (!nstored) return n;
    block  *taken = mba_arena_new(p->arena, block, 2 * nstored + 1);
    block **order = mba_arena_new(p->arena, block *, 2 * nstored + 1 + n);
    block **near = mba_arena_new(p->arena, block *, 2 * nstored + 1 + n);
    int32_t ntaken = taken_gradients(p, taken, order);
    for (int32_t i = 1; i < g->nnodes; i++)
        if (live_at(todo, n, i) > live_at(todo, n, peak)) peak = i;
    qsort(todo, (size_t)n, sizeof *todo, by_end);
    for (int32_t i = 0; i < n; i++) {
        block *x = todo[i];
        if (x->id < g->nstorages && x->first <= peak && peak <= x->last) { // scratch stays in the step arena
            x->offset = lowest(x, order, ntaken, near);
            x->in_gradients = x->offset + x->bytes <= p->layout.arena_bytes[MBA_GRAD];
        }
        if (x->in_gradients) order[ntaken++] = x;
        else todo[left++] = x;
    }
    mba_debug_assert(disjoint_blocks(order, ntaken));
    return left;
}

/* ---- the memory plan ---- */

/* Creates a block for each storage. Storages that do not share memory over time get consecutive offsets in their
 * arena. */
static void storage_blocks(mba_program *p, block *b, size_t guard)
{
    mba_memory_plan *lay = &p->layout;
    for (int32_t s = 0; s < p->graph->nstorages; s++) {
        const mba_storage *st = p->graph->storages[s];
        b[s] = (block){ .bytes = aligned((size_t)st->elems * mba_dtype_bytes(st->dtype)) + 2 * guard,
                        .first = lay->first[s],
                        .last = lay->last[s],
                        .id = s };
        mba_assert(lay->first[s] <= lay->last[s]);
        if (lay->first[s] < 0) continue; // no node uses it
        lay->role_bytes[st->role] += b[s].bytes;
        if (shared(st)) continue;
        lay->offset[s] = lay->arena_bytes[st->role] + guard;
        lay->arena_bytes[st->role] += b[s].bytes;
    }
}

/* Creates a block for the scratch of each node, after those of the storages. Nodes of the lane MBA_COMM run one after
 * the other and beside the rest: they share the block of the first of them, *lane, which lives until the last of them
 * has joined. */
static void scratch_blocks(mba_program *p, block *b, size_t guard, int32_t *lane)
{
    const mba_graph *g = p->graph;
    *lane = -1;
    for (int32_t i = 0, k = g->nstorages; i < g->nnodes; i++, k++) {
        const size_t bytes = p->plan[i]->work_bytes, room = bytes ? aligned(bytes) + 2 * guard : 0;
        const bool   beside = g->nodes[i]->lane == MBA_COMM;
        b[k] = (block){ .bytes = room, .first = i, .last = i, .id = k };
        if (beside && bytes && *lane < 0) *lane = i;
        if (beside && bytes) {
            block        *shared = &b[g->nstorages + *lane];
            const int32_t joins = mba_node_joins(g, i), last = joins < g->nnodes ? joins : g->nnodes - 1;
            if (i != *lane) b[k].bytes = 0;
            if (room > shared->bytes) shared->bytes = room;
            if (last > shared->last) shared->last = last;
        }
        p->layout.role_bytes[MBA_WORK] += room;
    }
}

/* Writes the offsets into p->layout. root[s] is the block in which storage s lies, `lane` the node whose scratch the
 * lane MBA_COMM shares. */
static void record(mba_program *p, const block *b, const int32_t *root, size_t guard, int32_t lane)
{
    const mba_graph *g = p->graph;
    mba_memory_plan *lay = &p->layout;
    for (int32_t s = 0; s < g->nstorages; s++) {
        const block   *x = &b[root[s]];
        const mba_role at = x->in_gradients ? MBA_GRAD : MBA_ACT;
        lay->arena[s] = (uint8_t)(shared(g->storages[s]) ? at : g->storages[s]->role);
        if (shared(g->storages[s])) lay->offset[s] = x->offset + guard;
    }
    for (int32_t i = 0; i < g->nnodes; i++) {
        const bool beside = g->nodes[i]->lane == MBA_COMM && lane >= 0;
        lay->work_offset[i] = b[g->nstorages + (beside ? lane : i)].offset + guard;
    }
}

void mba__memory_plan(mba_program *p)
{
    const mba_graph *g = p->graph;
    mba_memory_plan *lay = &p->layout;
    const int32_t    n = g->nstorages + g->nnodes;
    const size_t     guard = aligned(p->options.guard_bytes);
    lay->first = mba_arena_new(p->arena, int32_t, g->nstorages);
    lay->last = mba_arena_new(p->arena, int32_t, g->nstorages);
    lay->offset = mba_arena_new(p->arena, size_t, g->nstorages);
    lay->arena = mba_arena_new(p->arena, uint8_t, g->nstorages);
    lay->work_offset = mba_arena_new(p->arena, size_t, g->nnodes);
    block   *b = mba_arena_new(p->arena, block, n);
    block  **todo = mba_arena_new(p->arena, block *, n), **near = mba_arena_new(p->arena, block *, n);
    int32_t *root = mba_arena_new(p->arena, int32_t, n), ntodo = 0, lane;
    for (int32_t s = 0; s < g->nstorages; s++) root[s] = s;
    lifetimes(p, lay);
    storage_blocks(p, b, guard);
    scratch_blocks(p, b, guard, &lane);
    merge_in_place(g, b, root);
    for (int32_t k = 0; k < n; k++)
        if (b[k].bytes && b[k].first >= 0 && !b[k].merged && (k >= g->nstorages || shared(g->storages[k])))
            todo[ntodo++] = &b[k];
    ntodo = place_under_gradients(p, todo, ntodo);
    lay->arena_bytes[MBA_ACT] = place(todo, ntodo, near);
    record(p, b, root, guard, lane);
    for (int32_t i = 0; i < g->nnodes; i++) {
        const size_t live = live_at(todo, ntodo, i);
        if (live > lay->live_bytes_max) {
            lay->live_bytes_max = live;
            lay->peak = i;
        }
    }
    mba_assert(lay->live_bytes_max <= lay->arena_bytes[MBA_ACT]);
}
