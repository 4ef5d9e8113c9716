// SPDX-License-Identifier: Apache-2.0
/* autodiff.c -- appends the backward pass: visits the nodes in reverse order and asks each operator for its gradient
 * nodes.
 *
 * One rule suffices: the gradient of a view is the same view of the storage's gradient. Slices, concatenations,
 * reshapes, tied and grouped parameters need nothing else. Only this file decides whether a contribution is
 * stored or added:
 *
 *   disjoint from all views written so far   store
 *   inside one view written before           add
 *   anything else                            add, to a gradient that is filled with zeros first
 *
 * A sum passes its gradient on to both sides without a copy; see mba_grad_pass.
 * Parameter gradients lie in memory that is zero from the start, so padding between parameters and
 * unused parameters need no fill. */
#include <stdio.h>
#include <string.h>
#include "core/op.h"

typedef struct region {
    int64_t offset, run, pitch, rows;
} region;

struct mba_written {
    region            *view; /* what was stored, not added: disjoint */
    int32_t            n;
    int64_t            elems;   /* sum over the views */
    mba_node          *first;   /* the first node that writes the gradient */
    bool               filled;  /* a fill node precedes `first` */
    int                sharers; /* storages that share this gradient and may still need it */
    const mba_storage *owner;   /* the storage that it was created for */
};

static region region_of(const mba_tensor *t)
{
    mba_assert(t->run > 0 && mba_elems(t) % t->run == 0);
    return (region){ t->offset, t->run, t->pitch, mba_elems(t) / t->run };
}

static int64_t region_end(region r) { return r.offset + (r.rows - 1) * r.pitch + r.run; }

/* True if both regions are rectangles of one matrix: rows of the same pitch. Others are compared by their outer
 * bounds. */
static bool rectangles(region a, region b)
{
    return a.rows > 1 && b.rows > 1 && a.pitch == b.pitch && a.offset % a.pitch + a.run <= a.pitch
           && b.offset % b.pitch + b.run <= b.pitch;
}

static bool disjoint(region a, region b)
{
    if (region_end(a) <= b.offset || region_end(b) <= a.offset) return true;
    const int64_t ca = a.offset % a.pitch, cb = b.offset % b.pitch;
    return rectangles(a, b) && (ca + a.run <= cb || cb + b.run <= ca);
}

/* True if a lies inside b. */
static bool inside(region a, region b)
{
    if (b.rows == 1) return b.offset <= a.offset && region_end(a) <= region_end(b);
    return !memcmp(&a, &b, sizeof a);
}

static mba_node *fill(mba_graph *g, mba_type type, double value)
{
    const mba_fill_attr a = { value, type };
    return MBA_APPEND(g, fill, &a, NULL);
}

/* Inserts a node that fills the gradient with zeros before its first writer. The ids of later nodes increase by one. */
static void fill_first(mba_graph *g, mba_storage *gs)
{
    if (gs->role == MBA_GRAD || gs->written->filled) return;
    gs->written->filled = true;
    const int32_t at = gs->written->first->id;
    mba_assert(at >= 0 && at < g->nnodes && g->nodes[at] == gs->written->first);
    mba_node *n = fill(g, MBA_TYPE(gs->dtype, gs->elems), 0);
    if (g->status) return;
    n->out[0]->st = gs;
    memmove(g->nodes + at + 1, g->nodes + at, sizeof *g->nodes * (size_t)(g->nnodes - 1 - at));
    g->nodes[at] = n;
    for (int32_t i = at; i < g->nnodes; i++) g->nodes[i]->id = i;
}

static mba_storage *grad_storage(mba_graph *g, mba_storage *st)
{
    if (st->master) st = st->master;
    if (!st->grad) {
        const bool  param = st->role == MBA_PARAM;
        const char *name = mba_arena_printf(g->arena, "d %s", st->name);
        st->grad = mba__storage(g, param ? MBA_GRAD : MBA_DACT, st->dtype, st->elems, name);
        st->grad->unused = st->unused;
        st->grad->written = mba_arena_new(g->arena, struct mba_written, 1);
        st->grad->written->owner = st;
    }
    return st->grad;
}

/* Registers a contribution to the view of x. Returns true if it is to be added, false if it is to be stored. */
static bool claim(mba_graph *g, mba_storage *gs, const mba_tensor *x)
{
    struct mba_written *w = gs->written;
    const region        r = region_of(x);
    bool                meets = false, within = false;
    for (int32_t i = 0; i < w->n; i++) {
        meets |= !disjoint(r, w->view[i]);
        within |= inside(r, w->view[i]);
    }
    if (!meets) {
        w->view = mba__grow(g, w->view, w->n, sizeof *w->view);
        w->view[w->n++] = r;
        w->elems += mba_elems(x);
        mba_assert(w->elems <= gs->elems - gs->unused); // disjoint views fit into the storage
    } else if (!within) {
        fill_first(g, gs);
    }
    return meets || (gs->role == MBA_GRAD && g->accumulate); // the optimizer leaves zeros for the next step
}

static int slot_of(const mba_tensor *t)
{
    for (int k = 0; k < MBA_OUT_MAX; k++)
        if (t->producer_node->out[k] == t) return k;
    mba_assert(!"an output of its producer");
    return -1;
}

/* Gives x a gradient of its own instead of a shared one: it begins with dx, then the shared gradient is added. */
static void leave_shared(mba_graph *g, mba_tensor *x, mba_tensor *dx)
{
    mba_tensor *shared = mba__view(g, x->st->grad, MBA_TYPE(x->st->dtype, x->st->elems), x->st->grad->name);
    mba_tensor *whole = mba__view(g, x->st, shared->type, x->st->name);
    whole->needs_grad = true;
    mba_assert(x->st->grad->written->sharers > 1);
    x->st->grad->written->sharers--;
    x->st->grad = NULL;
    mba_grad_add(g, x, dx);
    mba_grad_add(g, whole, shared);
}

void mba_grad_pass(mba_graph *g, mba_tensor *x, mba_tensor *dy)
{
    if (g->status || !mba_wants(x)) return;
    const bool whole = mba_elems(x) == x->st->elems && mba_elems(dy) == dy->st->elems;
    if (whole && x->st->role == MBA_ACT && !x->st->grad && x->st->dtype == dy->st->dtype) {
        mba_assert(dy->st->written && x->st->elems == dy->st->elems);
        x->st->grad = dy->st;
        dy->st->written->sharers++;
    } else {
        mba_grad_add(g, x, dy);
    }
}

void mba_grad_add(mba_graph *g, mba_tensor *x, mba_tensor *dx)
{
    if (g->status || !mba_wants(x)) return;
    mba_storage *gs = grad_storage(g, x->st);
    if (gs->written->sharers > 1) { // another tensor still needs the shared gradient as it is
        leave_shared(g, x, dx);
        return;
    }
    mba_assert(dx->type.dtype == gs->dtype && mba_elems(dx) == mba_elems(x));
    const bool      adds = claim(g, gs, x);
    const mba_node *by = dx->producer_node;
    const bool      moves = by && by->pass == MBA_BACKWARD && dx->st->role == MBA_DACT && !dx->st->written;
    if (!moves || (adds && !by->op->out[slot_of(dx)].adds)) // its node cannot write there itself
        dx = MBA_APPEND(g, accumulate, NULL, dx)->out[0];
    dx->st = gs;
    dx->offset = x->offset;
    dx->run = x->run;
    dx->pitch = x->pitch;
    if (adds) dx->producer_node->adds |= 1u << slot_of(dx);
    if (!gs->written->first) gs->written->first = dx->producer_node;
}

mba_tensor *mba_grad_of(mba_graph *g, mba_tensor *x)
{
    mba_storage *gs = (x->st->master ? x->st->master : x->st)->grad;
    if (!gs || !gs->written->n || !x->needs_grad) return NULL;
    const region r = region_of(x);
    bool         meets = false, within = gs->written->elems == gs->elems - gs->unused;
    for (int32_t i = 0; i < gs->written->n; i++) {
        meets |= !disjoint(r, gs->written->view[i]);
        within |= inside(r, gs->written->view[i]);
    }
    if (!meets) return NULL;
    if (!within) fill_first(g, gs);
    mba_type type = x->type;
    type.dtype = gs->dtype;
    mba_tensor *t = mba__view(g, gs, type, gs->name);
    t->offset = x->offset;
    t->run = x->run;
    t->pitch = x->pitch;
    return t;
}

void mba_node_elide(mba_graph *g, const mba_node *n, const mba_node *b)
{
    bool read = g->status != MBA_OK;
    mba_assert(read || (n->pass == MBA_FORWARD && b->pass == MBA_BACKWARD));
    for (int32_t i = 0; i < g->nnodes && !read; i++)
        for (int k = 0; k < MBA_IN_MAX * MBA_OUT_MAX && g->nodes[i] != b; k++) {
            const mba_tensor *x = g->nodes[i]->in[k / MBA_OUT_MAX], *y = n->out[k % MBA_OUT_MAX];
            read |= x && y && x->st == y->st;
        }
    if (!read) g->nodes[n->id]->elided_in |= b->pass;
}

static bool reads(const mba_node *n, const mba_tensor *t)
{
    bool any = false;
    for (int k = 0; k < MBA_IN_MAX; k++) any |= n->in[k] && n->in[k]->st == t->st;
    return any;
}

static bool meet(const mba_tensor *a, const mba_tensor *b)
{
    return a && b && a->st == b->st && !disjoint(region_of(a), region_of(b));
}

/* True if no node after node i reads or writes its outputs. */
static bool is_last(const mba_graph *g, int32_t i)
{
    bool free = true;
    for (int32_t j = i + 1; j < g->nnodes; j++)
        for (int k = 0; k < MBA_OUT_MAX; k++) {
            for (int m = 0; m < MBA_IN_MAX; m++) free &= !meet(g->nodes[i]->out[k], g->nodes[j]->in[m]);
            for (int m = 0; m < MBA_OUT_MAX; m++) free &= !meet(g->nodes[i]->out[k], g->nodes[j]->out[m]);
        }
    return free;
}

bool mba_grad_can_defer(const mba_graph *g, const mba_tensor *t)
{
    bool some = false, all = t->st->role == MBA_ACT;
    for (int32_t i = 0; i < g->nnodes && all; i++) {
        const mba_node *n = g->nodes[i];
        if (n->pass != MBA_BACKWARD || !reads(n, t)) continue;
        for (int k = 0; k < MBA_IN_MAX; k++) all &= !n->in[k] || n->in[k]->st != t->st || n->in[k] == t;
        all &= is_last(g, i);
        some = true;
    }
    return some && all;
}

void mba_grad_defer(mba_graph *g, const mba_tensor *t, mba_tensor *again)
{
    const mba_node *b = again->producer_node;
    if (g->status || !mba_grad_can_defer(g, t)) return; // b itself may write where they do
    for (int32_t i = 0; g->nodes[i] != b;) {
        mba_assert(i + 1 < g->nnodes); // b is in the graph, and stays behind i
        mba_node *n = g->nodes[i];
        if (n->pass != MBA_BACKWARD || !reads(n, t)) {
            i++;
            continue;
        }
        for (int k = 0; k < MBA_IN_MAX; k++)
            if (n->in[k] == t) n->in[k] = again;
        memmove(g->nodes + i, g->nodes + i + 1, sizeof *g->nodes * (size_t)(g->nnodes - 1 - i));
        g->nodes[g->nnodes - 1] = n;
    }
    for (int32_t i = 0; i < g->nnodes; i++) g->nodes[i]->id = i;
}

/* ---- lanes ---- */

/* True if the nodes have an operand in common, of which views may be disjoint. */
static bool touch(const mba_node *a, const mba_node *b)
{
    for (int i = 0; i < MBA_IN_MAX + MBA_OUT_MAX; i++)
        for (int k = 0; k < MBA_IN_MAX + MBA_OUT_MAX; k++)
            if (meet(i < MBA_IN_MAX ? a->in[i] : a->out[i - MBA_IN_MAX],
                     k < MBA_IN_MAX ? b->in[k] : b->out[k - MBA_IN_MAX]))
                return true;
    return false;
}

void mba_node_beside(mba_graph *g, mba_tensor *t)
{
    if (!g->status) g->nodes[t->producer_node->id]->lane = MBA_COMM;
}

void mba_node_advance(mba_graph *g, mba_tensor *t)
{
    if (g->status) return;
    mba_node *n = g->nodes[g->nnodes - 1];
    int32_t   at = n->id;
    mba_assert(t->producer_node == n);
    while (at > 0 && !touch(g->nodes[at - 1], n)) at--;
    memmove(g->nodes + at + 1, g->nodes + at, sizeof *g->nodes * (size_t)(n->id - at));
    g->nodes[at] = n;
    for (int32_t i = at; i < g->nnodes; i++) g->nodes[i]->id = i;
}

int32_t mba_node_joins(const mba_graph *g, int32_t i)
{
    int32_t at = i + 1;
    while (at < g->nnodes && (g->nodes[at]->lane == MBA_COMM || !touch(g->nodes[i], g->nodes[at]))) at++;
    return at;
}

bool mba_should_recompute(mba_graph *g, mba_recompute_kind kind, double bytes)
{
    mba_assert((unsigned)kind < MBA_RECOMPUTE_KINDS && bytes >= 0);
    const bool yes = g->recompute || g->recomputed_bytes[kind] < g->recompute_bytes_max[kind];
    *(yes ? &g->recomputed_bytes[kind] : &g->kept[kind]) += (int64_t)bytes;
    return yes;
}

/* Ends the use of a shared gradient by t: its node has appended its gradient nodes. */
static void drop_share(const mba_tensor *t)
{
    struct mba_written *w = t->st->grad ? t->st->grad->written : NULL;
    if (w && w->sharers && w->owner != t->st && mba_elems(t) == t->st->elems) w->sharers--;
}

mba_status mba_backward_from(mba_graph *g, int n, mba_tensor *const out[], mba_tensor *const seed[])
{
    const int32_t forward = g->nnodes;
    mba_assert(g->pass == MBA_FORWARD); // once for each graph
    g->pass = MBA_BACKWARD;
    for (int i = 0; i < n; i++) mba_grad_add(g, out[i], seed[i] ? seed[i] : fill(g, out[i]->type, 1)->out[0]);
    for (int32_t i = forward - 1; i >= 0 && !g->status; i--) {
        mba_node   *f = g->nodes[i];
        mba_tensor *d[MBA_OUT_MAX] = { 0 };
        bool        any = false;
        g->serves_node = f;
        for (int k = 0; k < MBA_OUT_MAX; k++)
            if (f->out[k] && (d[k] = mba_grad_of(g, f->out[k]))) any = true;
        any |= f->op->remote && mba_wants(f->in[0]);
        if (any && f->op->grad) {
            f->op->grad(g, f, d);
            for (int k = 0; k < MBA_OUT_MAX; k++)
                if (d[k]) drop_share(f->out[k]);
        } else if (any)
            mba_graph_fail(g, mba_fail(MBA_E_UNSUPPORTED, "%s has no gradient\nwhy: %s", f->op->name,
                                       f->op->no_grad ? f->op->no_grad : "it is not implemented"));
    }
    g->serves_node = NULL;
    g->pass = MBA_UPDATE;
    return g->status;
}

mba_status mba_backward(mba_graph *g, mba_tensor *loss)
{
    g->loss = loss;
    return mba_backward_from(g, 1, &loss, (mba_tensor *[]){ NULL });
}
