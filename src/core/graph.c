// SPDX-License-Identifier: Apache-2.0
/* graph.c -- see graph.h: creates storages, strided views, names and nodes. autodiff.c appends the backward pass,
 * program.c runs the graph. */
#include "core/graph.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "core/op.h"
#include "core/rng.h"

size_t mba_dtype_bytes(mba_dtype dt) { return dt == MBA_BF16 ? 2 : dt == MBA_NONE ? 0 : 4; }

int64_t mba_type_elems(const mba_type *t)
{
    int64_t n = 1;
    mba_debug_assert(t->rank >= 0 && t->rank <= MBA_RANK_MAX);
    for (int i = 0; i < t->rank; i++) n *= t->dim[i];
    return n;
}

bool mba_type_equal(const mba_type *a, const mba_type *b)
{
    return a->dtype == b->dtype && a->rank == b->rank && !memcmp(a->dim, b->dim, sizeof(int64_t) * (size_t)a->rank);
}

int64_t mba_ld(const mba_tensor *t)
{
    if (mba_dense(t)) return mba_cols(t);
    mba_assert(t->run == mba_cols(t)); // the operator's `shape` refuses other views
    mba_assert(t->pitch >= t->run);
    return t->pitch;
}

/* Returns the array with room for item n. It doubles at 0, 2, 4, 8, ... items; the arena frees the old arrays with the
 * graph. */
void *mba__grow(mba_graph *g, void *array, int32_t n, size_t item_bytes)
{
    mba_assert(n >= 0 && n < INT32_MAX / 2);
    if (n & (n - 1) || n == 1) return array;
    void *bigger = mba_arena_take(g->arena, item_bytes * (size_t)(n ? 2 * n : 2));
    if (n) memcpy(bigger, array, item_bytes * (size_t)n);
    return bigger;
}

mba_storage *mba__storage(mba_graph *g, mba_role role, mba_dtype dtype, int64_t elems, const char *name)
{
    mba_assert((unsigned)role < MBA_ROLES && dtype != MBA_NONE && elems >= 0);
    mba_storage *st = mba_arena_new(g->arena, mba_storage, 1);
    *st = (mba_storage){ .id = g->nstorages, .role = role, .dtype = dtype, .elems = elems, .name = name };
    g->storages = mba__grow(g, g->storages, g->nstorages, sizeof *g->storages);
    g->storages[g->nstorages++] = st;
    return st;
}

mba_tensor *mba__view(mba_graph *g, mba_storage *st, mba_type type, const char *name)
{
    mba_tensor   *t = mba_arena_new(g->arena, mba_tensor, 1);
    const int64_t n = mba_type_elems(&type);
    *t = (mba_tensor){ .id = g->ntensors, .name = name, .type = type, .st = st, .run = n, .pitch = n };
    g->tensors = mba__grow(g, g->tensors, g->ntensors, sizeof *g->tensors);
    g->tensors[g->ntensors++] = t;
    return t;
}

mba_status mba_graph_create(mba_graph **out)
{
    mba_arena *a;
    MBA_TRY(mba_arena_create(&a, (size_t)64 << 20));
    mba_graph *g = mba_arena_new(a, mba_graph, 1);
    *g = (mba_graph){ .arena = a, .scope = "", .pass = MBA_FORWARD, .compute = MBA_F32 };
    g->poison = mba__view(g, mba__storage(g, MBA_STATE, MBA_F32, 1, "poison"), MBA_TYPE(MBA_F32, 1), "poison");
    g->poison_node = mba_arena_new(a, mba_node, 1);
    for (int k = 0; k < MBA_OUT_MAX; k++) g->poison_node->out[k] = g->poison;
    *out = g;
    return MBA_OK;
}

void mba_graph_destroy(mba_graph *g)
{
    if (g) mba_arena_destroy(g->arena);
}

mba_status mba_graph_status(const mba_graph *g) { return g->status; }

mba_status mba_graph_fail(mba_graph *g, mba_status code)
{
    if (g->status == MBA_OK) g->status = mba_where(code, "building %s", *g->scope ? g->scope : "the graph");
    return g->status;
}

/* No machine holds a tensor of so many elements, and sums and products of a few such sizes in bytes fit into 64
 * bits. */
static const int64_t ELEMS_MAX = INT64_C(1) << 46;

/* Returns true if a tensor of this type can exist; otherwise marks the graph failed. */
static bool can_be(mba_graph *g, const mba_type *t)
{
    int64_t n = 1;
    bool    fits = true, none = false;
    for (int i = 0; i < t->rank; i++) none |= t->dim[i] < 1;
    for (int i = 0; i < t->rank; i++) fits &= !__builtin_mul_overflow(n, t->dim[i], &n);
    if (fits && !none && n <= ELEMS_MAX) return true;
    const int64_t *d = t->dim;
    mba_graph_fail(g, mba_fail(MBA_E_SHAPE,
                               "cannot create a tensor of shape %lld x %lld x %lld x %lld x %lld\n"
                               "why: %s\nfix: choose a %s batch, length or model",
                               (long long)(t->rank > 0 ? d[0] : 1), (long long)(t->rank > 1 ? d[1] : 1),
                               (long long)(t->rank > 2 ? d[2] : 1), (long long)(t->rank > 3 ? d[3] : 1),
                               (long long)(t->rank > 4 ? d[4] : 1),
                               none ? "a dimension is smaller than 1" : "no machine holds more than 2^46 elements",
                               none ? "larger" : "smaller"));
    return false;
}

/* ---- names ---- */

void mba_enter(mba_graph *g, const char *fmt, ...)
{
    char    part[128];
    va_list ap;
    va_start(ap, fmt);
    const int n = vsnprintf(part, sizeof part, fmt, ap);
    va_end(ap);
    mba_assert(n > 0 && n < (int)sizeof part);
    g->scope = mba_arena_printf(g->arena, "%s%s%s", g->scope, *g->scope ? "/" : "", part);
}

void mba_leave(mba_graph *g)
{
    const char *slash = strrchr(g->scope, '/');
    mba_assert(*g->scope);
    g->scope = slash ? mba_arena_printf(g->arena, "%.*s", (int)(slash - g->scope), g->scope) : "";
}

/* The name of a tensor in checkpoints: "layers.3/mixer" and "D" give "layers.3.mixer.D". */
static const char *full_name(mba_graph *g, const char *name)
{
    char *s = (char *)mba_arena_printf(g->arena, "%s%s%s", g->scope, *g->scope ? "." : "", name);
    for (char *c = s; *c; c++)
        if (*c == '/') *c = '.';
    return s;
}

/* ---- inputs, parameters, states ---- */

mba_tensor *mba_state(mba_graph *g, const char *name, mba_role role, mba_type type)
{
    if (!can_be(g, &type)) return g->poison;
    name = full_name(g, name);
    return mba__view(g, mba__storage(g, role, type.dtype, mba_type_elems(&type), name), type, name);
}

mba_tensor *mba_state_from(mba_graph *g, const char *name, mba_type type, mba_init init)
{
    mba_tensor *t = mba_state(g, name, MBA_STATE, type);
    t->init = init;
    return t;
}

mba_tensor *mba_input(mba_graph *g, const char *name, mba_type type) { return mba_state(g, name, MBA_INPUT, type); }

mba_tensor *mba_index(mba_graph *g, const char *name, mba_type type, int64_t bound)
{
    mba_tensor *t = mba_input(g, name, type);
    t->bound = bound;
    return t;
}

mba_tensor *mba_targets(mba_graph *g, const char *name, mba_type type, int64_t bound)
{
    mba_tensor *t = mba_index(g, name, type, bound);
    t->may_ignore = true;
    return t;
}

void mba_example(mba_graph *g, mba_tensor *t, const double *values)
{
    const size_t bytes = sizeof *values * (size_t)mba_elems(t);
    if (!g->status) t->example = memcpy(mba_arena_take(g->arena, bytes), values, bytes);
}

mba_tensor *mba_input_external(mba_graph *g, const char *name, mba_type type, int64_t offset, int64_t run,
                               int64_t pitch, bool wants)
{
    mba_assert(offset >= 0 && run > 0 && pitch >= run && mba_type_elems(&type) % run == 0);
    const int64_t rows = mba_type_elems(&type) / run;
    mba_storage  *st = mba__storage(g, MBA_INPUT, type.dtype, offset + (rows - 1) * pitch + run, name);
    mba_tensor   *t = mba__view(g, st, type, name);
    t->offset = offset;
    t->run = run;
    t->pitch = pitch;
    t->needs_grad = wants;
    return t;
}

void mba_make_dense(mba_tensor *t)
{
    t->offset = 0;
    t->run = t->pitch = mba_elems(t);
}

void mba_cheap(mba_tensor *t) { t->cheap = true; }

static mba_tensor *view_like(mba_graph *g, mba_tensor *t, mba_type type);

mba_tensor *mba_param(mba_graph *g, const char *name, mba_type type, mba_init init, mba_group group)
{
    static const char *const title[] = { "params.decay", "params.no_decay" };
    mba_assert((unsigned)group < MBA_GROUPS);
    if (!can_be(g, &type)) return g->poison;
    if (!g->params[group]) g->params[group] = mba__storage(g, MBA_PARAM, MBA_F32, 0, title[group]);
    mba_storage *st = g->params[group];
    mba_assert(!st->grad); // the backward pass has not been appended yet
    mba_type master = type;
    master.dtype = MBA_F32;
    mba_tensor *t = mba__view(g, st, master, full_name(g, name));
    t->offset = st->elems;
    t->init = init;
    t->needs_grad = true;
    st->start = mba__grow(g, st->start, st->nstarts, sizeof *st->start);
    st->start[st->nstarts++] = t->offset;
    st->elems += mba_ceil(mba_elems(t), MBA_ALIGN_ELEMS) * MBA_ALIGN_ELEMS;
    if (type.dtype != MBA_F32 && !g->copies[group])
        g->copies[group] = mba__storage(g, MBA_COPY, type.dtype, 0, title[group]);
    if (g->copies[group]) g->copies[group]->elems = st->elems;
    if (type.dtype == MBA_F32) return t;
    g->copies[group]->master = st;
    mba_tensor *copy = mba__view(g, g->copies[group], type, t->name);
    copy->offset = t->offset;
    copy->needs_grad = true;
    return copy;
}

mba_tensor *mba_param_padded(mba_graph *g, const char *name, mba_type type, mba_init init, mba_group group,
                             int64_t rows)
{
    mba_tensor *t = mba_param(g, name, type, init, group);
    if (g->status || rows == type.dim[0]) return t;
    mba_storage *st = g->params[group];
    mba_assert(rows > type.dim[0] && t->offset == st->start[st->nstarts - 1]); // the last one: room follows it
    type.dim[0] = rows;
    if (!can_be(g, &type)) return g->poison;
    mba_tensor *w = view_like(g, t, type);
    w->run = w->pitch = mba_elems(w);
    st->elems = t->offset + mba_ceil(mba_elems(w), MBA_ALIGN_ELEMS) * MBA_ALIGN_ELEMS;
    if (g->copies[group]) g->copies[group]->elems = st->elems;
    return w;
}

void mba_param_cut(mba_graph *g, const mba_tensor *master, int64_t row)
{
    mba_storage  *st = master->st;
    const int64_t at = master->offset + row * (mba_elems(master) / master->type.dim[0]);
    mba_assert(mba_is_param(master) && row > 0 && row < master->type.dim[0]);
    st->start = mba__grow(g, st->start, st->nstarts, sizeof *st->start);
    int32_t i = st->nstarts++;
    for (; st->start[i - 1] > at; i--) st->start[i] = st->start[i - 1]; // ends at the parameter's own start
    mba_assert(i > 0 && st->start[i - 1] < at);
    st->start[i] = at;
}

mba_tensor *mba_master(const mba_graph *g, mba_tensor *param)
{
    if (!param->st->master) return param;
    for (int32_t i = 0; i < g->ntensors; i++) {
        mba_tensor *t = g->tensors[i];
        if (t->st == param->st->master && t->offset == param->offset && mba_is_param(t)) return t;
    }
    mba_assert(!"a whole parameter"); // a slice of a copy has no counterpart of the master
    return param;
}

static mba_tensor *flat(mba_graph *g, mba_storage *st)
{
    return st ? mba__view(g, st, MBA_TYPE(st->dtype, st->elems), st->name) : NULL;
}

mba_tensor *mba_flat_params(mba_graph *g, mba_group k) { return flat(g, g->params[k]); }
mba_tensor *mba_flat_copies(mba_graph *g, mba_group k) { return flat(g, g->copies[k]); }
mba_tensor *mba_flat_grads(mba_graph *g, mba_group k) { return g->params[k] ? flat(g, g->params[k]->grad) : NULL; }

bool mba_is_param(const mba_tensor *t)
{
    return t->st->role == MBA_PARAM && t->needs_grad && !t->producer_node && !t->base;
}

bool mba_is_state(const mba_tensor *t)
{
    return t->st->role == MBA_STATE && !t->producer_node && !t->base && t->id > 0; // tensor 0 is g->poison
}

mba_tensor *mba_graph_find(const mba_graph *g, const char *name)
{
    for (int32_t i = 0; i < g->ntensors; i++) {
        mba_tensor *t = g->tensors[i];
        if (t->st->role < MBA_ACT && !t->base && t->name && !strcmp(t->name, name)) return t;
    }
    return NULL;
}

/* ---- strided views ---- */

static mba_tensor *view_like(mba_graph *g, mba_tensor *t, mba_type type)
{
    mba_tensor *w = mba__view(g, t->st, type, t->name);
    w->offset = t->offset;
    w->run = t->run;
    w->pitch = t->pitch;
    w->needs_grad = t->needs_grad;
    w->bound = t->bound;
    w->may_ignore = t->may_ignore;
    w->base = t->base ? t->base : t;
    return w;
}

mba_tensor *mba_slice(mba_graph *g, mba_tensor *t, int axis, int64_t from, int64_t count)
{
    int64_t inner = 1;
    if (g->status) return g->poison;
    mba_assert(axis >= 0 && axis < t->type.rank);
    for (int i = axis + 1; i < t->type.rank; i++) inner *= t->type.dim[i];
    const int64_t block = t->type.dim[axis] * inner;
    if (from < 0 || count < 1 || from + count > t->type.dim[axis] || !(mba_dense(t) || t->run == block)) {
        mba_graph_fail(g, mba_fail(MBA_E_SHAPE, "cannot slice %lld..%lld of axis %d of %s", (long long)from,
                                   (long long)(from + count), axis, t->name));
        return g->poison;
    }
    mba_type type = t->type;
    type.dim[axis] = count;
    mba_tensor *w = view_like(g, t, type);
    if (mba_dense(t)) w->pitch = block;
    w->offset += from * inner;
    w->run = count * inner;
    return w;
}

mba_tensor *mba_reshape(mba_graph *g, mba_tensor *t, mba_type shape)
{
    if (g->status) return g->poison;
    if (mba_type_elems(&shape) != mba_elems(t)) {
        mba_graph_fail(g, mba_fail(MBA_E_SHAPE, "a reshape of %s changes the number of elements", t->name));
        return g->poison;
    }
    shape.dtype = t->type.dtype;
    return view_like(g, t, shape);
}

/* True for an output that has no other view yet, so that it may still be moved. */
static bool fresh(const mba_graph *g, const mba_tensor *t)
{
    for (int32_t i = 0; i < g->ntensors; i++)
        if (g->tensors[i] != t && g->tensors[i]->st == t->st) return false;
    return t->producer_node && t->run == t->st->elems;
}

mba_tensor *mba_concat(mba_graph *g, mba_tensor *a, mba_tensor *b)
{
    if (g->status) return g->poison;
    if (mba_rows(a) != mba_rows(b) || a->type.dtype != b->type.dtype || !fresh(g, a) || !fresh(g, b)) {
        mba_graph_fail(g, mba_fail(MBA_E_SHAPE, "cannot concatenate %s and %s", a->name, b->name));
        return g->poison;
    }
    mba_type type = a->type;
    type.dim[type.rank - 1] = mba_cols(a) + mba_cols(b);
    mba_storage *st = mba__storage(g, MBA_ACT, type.dtype, mba_type_elems(&type), a->name);
    mba_tensor  *t = mba__view(g, st, type, a->name);
    t->needs_grad = a->needs_grad || b->needs_grad;
    a->st = b->st = st;
    a->run = mba_cols(a);
    b->run = mba_cols(b);
    a->pitch = b->pitch = mba_cols(t);
    b->offset = a->run;
    mba_assert(a->run + b->run == a->pitch && mba_rows(a) * a->pitch == st->elems);
    return t;
}

mba_tensor *mba_pad_rows(mba_graph *g, mba_tensor *t, int64_t multiple)
{
    if (g->status) return g->poison;
    const int64_t rows = mba_rows(t), cols = mba_cols(t), pitch = mba_ceil(cols, multiple) * multiple;
    mba_assert(fresh(g, t) && !t->cheap); // a recomputed copy would be dense
    if (pitch == cols) return t;
    t->st->elems = rows * pitch;
    t->st->unused = rows * (pitch - cols);
    t->run = cols;
    t->pitch = pitch;
    return t;
}

mba_tensor *mba_result(mba_graph *g, const char *name, mba_tensor *t)
{
    t->name = t->st->name = name;
    if (!g->status) t->st->role = MBA_RESULT;
    return t;
}

/* ---- nodes ---- */

static mba_status check_inputs(const mba_node *n)
{
    for (int k = 0; k < MBA_IN_MAX; k++) {
        const mba_slot *s = &n->op->in[k];
        mba_assert(s->name || !n->in[k]); // the operator names every input that it gets
        if (s->name && !n->in[k] && !s->optional)
            return mba_fail(MBA_E_ARG, "%s needs the input '%s'", n->op->name, s->name);
    }
    return MBA_OK;
}

static mba_tensor *make_output(mba_graph *g, mba_node *n, int k, mba_type type)
{
    const mba_slot *s = &n->op->out[k];
    mba_assert(s->name); // the operator names every output that its `shape` infers
    mba_assert(!s->update || n->in[s->update - 1]);
    const mba_role role = n->pass == MBA_FORWARD ? MBA_ACT : MBA_DACT;
    mba_storage   *st = s->update ? n->in[s->update - 1]->st
                                  : mba__storage(g, role, type.dtype, mba_type_elems(&type), NULL);
    mba_tensor    *t = mba__view(g, st, type, NULL);
    if (s->update) t->offset = n->in[s->update - 1]->offset;
    t->name = mba_arena_printf(g->arena, "%s%s%s.%s", n->scope, *n->scope ? "/" : "", n->op->name, s->name);
    t->producer_node = n;
    t->cheap = s->cheap;
    if (!st->name) st->name = t->name;
    for (int i = 0; i < MBA_IN_MAX && n->pass == MBA_FORWARD && !s->saved && !n->op->no_grad; i++)
        t->needs_grad |= mba_wants(n->in[i]);
    return t;
}

/* The stream of a random node: from its scope, its operator, and how many such nodes precede it in that scope. So
 * changes elsewhere in the model do not change its numbers. */
static uint64_t stream_of(mba_graph *g, const mba_node *n)
{
    int k = 0;
    if (!n->op->random) return 0;
    if (g->serves_node && g->serves_node->op->random)
        return g->serves_node->stream; // a backward node draws the numbers of its forward node
    for (int32_t i = 0; i < g->nnodes; i++) k += g->nodes[i]->op == n->op && !strcmp(g->nodes[i]->scope, n->scope);
    return mba_stream(mba_arena_printf(g->arena, "%s/%s.%d", n->scope, n->op->name, k));
}

static mba_tensor *recomputed(mba_graph *g, mba_tensor *t);

mba_node *mba_append(mba_graph *g, const mba_op *op, const void *attr, mba_tensor *const in[MBA_IN_MAX])
{
    mba_type  type[MBA_OUT_MAX] = { { 0 } };
    mba_node *n = mba_arena_new(g->arena, mba_node, 1);
    *n = (mba_node){ .op = op,
                     .pass = g->pass,
                     .tf32 = g->tf32 && op->tf32 > 0,
                     .serves_node = g->serves_node,
                     .scope = g->serves_node ? g->serves_node->scope : g->scope };
    memcpy(n->in, in, sizeof n->in);
    for (int k = 0; k < MBA_IN_MAX; k++)
        if (g->pass == MBA_BACKWARD) n->in[k] = recomputed(g, n->in[k]);
    if (op->attr_bytes) {
        mba_assert(attr);
        n->attr = memcpy(mba_arena_take(g->arena, op->attr_bytes), attr, op->attr_bytes);
    }
    mba_status st = g->status;
    if (st == MBA_OK) st = check_inputs(n);
    if (st == MBA_OK) st = op->shape(n, type);
    if (st != MBA_OK) {
        mba_graph_fail(g, st);
        return g->poison_node;
    }
    for (int k = 0; k < MBA_OUT_MAX; k++)
        if (type[k].dtype && !can_be(g, &type[k])) return g->poison_node;
    n->stream = stream_of(g, n);
    for (int k = 0; k < MBA_OUT_MAX; k++)
        if (type[k].dtype) n->out[k] = make_output(g, n, k, type[k]);
    n->id = g->nnodes;
    g->nodes = mba__grow(g, g->nodes, g->nnodes, sizeof *g->nodes);
    g->nodes[g->nnodes++] = n;
    return n;
}

mba_tensor *mba_save_for_backward(mba_graph *g, const mba_node *n, int k, mba_type type)
{
    mba_node *m = g->nodes[n->id];
    mba_assert(m == n && m->pass == MBA_FORWARD && m->op->out[k].saved && !m->out[k]);
    return m->out[k] = make_output(g, m, k, type);
}

/* Decides once for the forward node m: appends a copy of it to the backward pass, whose outputs become `again` of m's
 * outputs, or saves them, and `again` is the output itself. */
static void recompute_or_save(mba_graph *g, const mba_node *m)
{
    const mba_node *serving = g->serves_node, *source = m;
    double          bytes = 0;
    mba_assert(m->pass == MBA_FORWARD && g->pass == MBA_BACKWARD);
    for (int k = 0; k < MBA_OUT_MAX; k++)
        if (m->out[k]) bytes += mba_tensor_bytes(m->out[k]);
    if (mba_should_recompute(g, MBA_RECOMPUTED_CHEAP, bytes)) {
        g->serves_node = m;
        source = mba_append(g, m->op, m->attr, m->in);
        g->serves_node = serving;
    }
    for (int k = 0; k < MBA_OUT_MAX; k++)
        if (m->out[k]) m->out[k]->again = source->out[k];
}

/* Returns the tensor that a backward node reads for t: t itself, or its copy that is recomputed just before its first
 * use. Whole nodes are repeated, so every output must be cheap; the inputs of the repeated node may be cheap too. */
static mba_tensor *recomputed(mba_graph *g, mba_tensor *t)
{
    if (!t || g->status) return t;
    mba_tensor     *whole = t->base ? t->base : t;
    const mba_node *m = whole->producer_node;
    if (!m || m->pass != MBA_FORWARD) return t;
    for (int k = 0; k < MBA_OUT_MAX; k++)
        if (m->out[k] && !m->out[k]->cheap) return t;
    if (!whole->again) recompute_or_save(g, m);
    mba_assert(whole->again);
    if (whole->again == whole) return t;
    if (t != whole && !t->again) {
        t->again = view_like(g, t, t->type);
        t->again->st = whole->again->st;
    }
    return t->again;
}
