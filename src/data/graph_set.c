// SPDX-License-Identifier: Apache-2.0
/* graph_set.c -- see graph_set.h: access to one graph, the checks of a collection, and a store that grows. */
#include "data/graph_set.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

size_t mba_graph_type_bytes(mba_graph_type t)
{
    static const size_t bytes[MBA_GRAPH_TYPES] = { 0, 4, 4, 1 };
    mba_assert((unsigned)t < MBA_GRAPH_TYPES);
    return bytes[t];
}

static const void *at(const void *base, int64_t row, size_t row_bytes)
{
    return base ? (const char *)base + (size_t)row * row_bytes : NULL;
}

static size_t row_bytes(mba_graph_type t, int64_t width) { return mba_graph_type_bytes(t) * (size_t)width; }

mba_graph_item mba_graph_set_item(const mba_graph_set *s, int64_t g)
{
    mba_assert(g >= 0 && g < s->graphs);
    const mba_graph_form *f = &s->form;
    const int64_t         v = (int64_t)s->node_ptr[g], e = (int64_t)s->edge_ptr[g];
    return (mba_graph_item){
        .nodes = (int64_t)s->node_ptr[g + 1] - v,
        .edges = (int64_t)s->edge_ptr[g + 1] - e,
        .src = at(s->src, e, sizeof *s->src),
        .dst = at(s->dst, e, sizeof *s->dst),
        .node_feat = at(s->node_feat, v, row_bytes(f->node_type, f->node_width)),
        .edge_feat = at(s->edge_feat, e, row_bytes(f->edge_type, f->edge_width)),
        .label = at(s->label, f->node_labels ? v : g, row_bytes(f->label_type, f->label_width)),
        .lap_val = at(s->lap_val, g, row_bytes(MBA_GRAPH_F32, f->lap_k)),
        .lap_vec = at(s->lap_vec, v, row_bytes(MBA_GRAPH_F32, f->lap_k)),
        .rwse = at(s->rwse, v, row_bytes(MBA_GRAPH_F32, f->rwse_k)),
        .split = s->split ? (mba_graph_split)s->split[g] : MBA_SPLIT_TRAIN,
    };
}

/* ---- checking ---- */

/* What is checked, for messages: a collection, or one graph with the number `first`. */
typedef struct checked {
    const char *name;
    int64_t     first;
} checked;

__attribute__((format(printf, 3, 4))) static mba_status refuse(const checked *c, int64_t graph, const char *why, ...)
{
    char    detail[160];
    va_list args;
    va_start(args, why);
    vsnprintf(detail, sizeof detail, why, args);
    va_end(args);
    return mba_fail(MBA_E_FORMAT,
                    "'%s' is not a valid collection of graphs\nwhy: graph %" PRId64 ": %s\n"
                    "fix: make the file again from its source",
                    c->name, c->first + graph, detail);
}

static mba_status check_pointers(const checked *c, const mba_graph_set *s)
{
    for (int k = 0; k < 2; k++) {
        const char     *what = k ? "edges" : "nodes";
        const uint64_t *p = k ? s->edge_ptr : s->node_ptr;
        const uint64_t  all = (uint64_t)(k ? s->edges : s->nodes);
        if (p[0]) return refuse(c, 0, "its %s begin at %" PRIu64 ", not at 0", what, p[0]);
        for (int64_t g = 0; g < s->graphs; g++) {
            if (p[g + 1] < p[g] || p[g + 1] > all)
                return refuse(c, g, "its %s run from %" PRIu64 " to %" PRIu64 " of %" PRIu64, what, p[g], p[g + 1],
                              all);
            if (p[g + 1] - p[g] > INT32_MAX) return refuse(c, g, "it has more than %d %s", INT32_MAX, what);
        }
        if (p[s->graphs] != all)
            return refuse(c, s->graphs - 1, "its %s end at %" PRIu64 ", not at %" PRIu64, what, p[s->graphs], all);
    }
    return MBA_OK;
}

static mba_status check_edges(const checked *c, const mba_graph_set *s)
{
    for (int64_t g = 0; g < s->graphs; g++) {
        const uint64_t n = s->node_ptr[g + 1] - s->node_ptr[g];
        uint64_t       before = 0;
        for (uint64_t k = s->edge_ptr[g]; k < s->edge_ptr[g + 1]; k++) {
            const uint32_t a = s->src[k], b = s->dst[k];
            if (a >= n || b >= n)
                return refuse(c, g,
                              "an edge goes from node %" PRIu32 " to node %" PRIu32 ", but there are %" PRIu64
                              " nodes, counted from 0",
                              a, b, n);
            const uint64_t key = (uint64_t)b << 32 | a;
            if (s->sorted && key < before)
                return refuse(c, g,
                              "its edges are not sorted by target and source, as the header says "
                              "(%" PRIu32 " -> %" PRIu32 ")",
                              a, b);
            before = key;
        }
    }
    return MBA_OK;
}

/* The graph whose rows contain `row`. */
static int64_t graph_of(const uint64_t *ptr, int64_t graphs, int64_t row)
{
    int64_t low = 0, high = graphs - 1;
    while (low < high) {
        const int64_t mid = (low + high + 1) / 2;
        if (ptr[mid] <= (uint64_t)row) low = mid;
        else high = mid - 1;
    }
    return low;
}

/* The first value that is infinite, or NaN unless values may be missing; -1: none. */
static int64_t first_wild(const float *x, int64_t n, bool may_miss)
{
    for (int64_t i = 0; i < n; i++)
        if (!isfinite(x[i]) && !(may_miss && isnan(x[i]))) return i;
    return -1;
}

/* `ptr` gives the rows of each graph; NULL: a row is a graph. */
static mba_status check_real(const checked *c, const mba_graph_set *s, const char *what, const float *x,
                             const uint64_t *ptr, int64_t rows, int64_t width, bool may_miss)
{
    const int64_t bad = x ? first_wild(x, rows * width, may_miss) : -1;
    if (bad < 0) return MBA_OK;
    const int64_t row = bad / width, g = ptr ? graph_of(ptr, s->graphs, row) : row;
    return refuse(c, g, "%s %" PRId64 " of its row %" PRId64 " is %s", what, bad % width,
                  ptr ? row - (int64_t)ptr[g] : 0, isnan(x[bad]) ? "not a number" : "infinite");
}

/* True for a valid class: an integer, not negative, below the number of classes; or a missing one. */
static bool class_fits(const mba_graph_set *s, int64_t i)
{
    const int64_t classes = s->form.classes;
    switch (s->form.label_type) {
    case MBA_GRAPH_I32: return ((const int32_t *)s->label)[i] >= 0 && ((const int32_t *)s->label)[i] < classes;
    case MBA_GRAPH_U8: return ((const uint8_t *)s->label)[i] < classes;
    default: {
        const float x = ((const float *)s->label)[i];
        return isnan(x) || (x >= 0 && (double)x < (double)classes && x == floorf(x));
    }
    }
}

static mba_status check_labels(const checked *c, const mba_graph_set *s)
{
    const mba_graph_form *f = &s->form;
    const uint64_t       *ptr = f->node_labels ? s->node_ptr : NULL;
    const int64_t         rows = f->node_labels ? s->nodes : s->graphs;
    if (f->label_type == MBA_GRAPH_F32) MBA_TRY(check_real(c, s, "label", s->label, ptr, rows, f->label_width, true));
    for (int64_t i = 0; f->classes && i < rows * f->label_width; i++)
        if (!class_fits(s, i)) {
            const int64_t row = i / f->label_width, g = ptr ? graph_of(ptr, s->graphs, row) : row;
            return refuse(c, g, "label %" PRId64 " of its row %" PRId64 " is not one of %" PRId64 " classes",
                          i % f->label_width, ptr ? row - (int64_t)ptr[g] : 0, f->classes);
        }
    return MBA_OK;
}

static mba_status check_from(const mba_graph_set *s, const char *name, int64_t first)
{
    const checked         c = { name, first };
    const mba_graph_form *f = &s->form;
    if (!s->graphs)
        return mba_fail(MBA_E_FORMAT,
                        "'%s' has no graphs\nwhy: the collection is empty\n"
                        "fix: check where it came from",
                        name);
    MBA_TRY(check_pointers(&c, s));
    MBA_TRY(check_edges(&c, s));
    if (f->node_type == MBA_GRAPH_F32)
        MBA_TRY(check_real(&c, s, "node feature", s->node_feat, s->node_ptr, s->nodes, f->node_width, false));
    if (f->edge_type == MBA_GRAPH_F32)
        MBA_TRY(check_real(&c, s, "edge feature", s->edge_feat, s->edge_ptr, s->edges, f->edge_width, false));
    MBA_TRY(check_labels(&c, s));
    MBA_TRY(check_real(&c, s, "eigenvalue", s->lap_val, NULL, s->graphs, f->lap_k, true));
    MBA_TRY(check_real(&c, s, "eigenvector entry", s->lap_vec, s->node_ptr, s->nodes, f->lap_k, true));
    MBA_TRY(check_real(&c, s, "return probability", s->rwse, s->node_ptr, s->nodes, f->rwse_k, false));
    for (int64_t g = 0; s->split && g < s->graphs; g++)
        if (s->split[g] >= MBA_SPLITS) return refuse(&c, g, "its split is %d; 0, 1 and 2 exist", s->split[g]);
    return MBA_OK;
}

mba_status mba_graph_set_check(const mba_graph_set *s, const char *name) { return check_from(s, name, 0); }

/* ---- a growing collection ---- */

typedef struct column {
    char  *data;
    size_t used, room;
} column;

enum { NODE_PTR, EDGE_PTR, SRC, DST, NODE_FEAT, EDGE_FEAT, LABEL, SPLIT, LAP_VAL, LAP_VEC, RWSE, COLUMNS };

struct mba_graph_store {
    column        col[COLUMNS];
    mba_graph_set set;
};

/* Updates the set's pointers to the columns, which move when they grow. Even an empty column has memory. */
static void show(mba_graph_store *s)
{
    mba_graph_set *t = &s->set;
    t->node_ptr = (void *)s->col[NODE_PTR].data;
    t->edge_ptr = (void *)s->col[EDGE_PTR].data;
    t->src = (void *)s->col[SRC].data;
    t->dst = (void *)s->col[DST].data;
    t->node_feat = s->col[NODE_FEAT].data;
    t->edge_feat = s->col[EDGE_FEAT].data;
    t->label = s->col[LABEL].data;
    t->split = (void *)s->col[SPLIT].data;
    t->lap_val = (void *)s->col[LAP_VAL].data;
    t->lap_vec = (void *)s->col[LAP_VEC].data;
    t->rwse = (void *)s->col[RWSE].data;
}

static mba_status reserve(column *c, size_t more)
{
    if (c->data && c->used + more <= c->room) return MBA_OK;
    const size_t room = c->used + more + c->room / 2 + 64;
    char        *data = realloc(c->data, room);
    if (!data) return mba_fail(MBA_E_NOMEM, "no memory for %s of graphs", mba_size_of((double)room).text);
    c->data = data;
    c->room = room;
    return MBA_OK;
}

static void append(column *c, const void *bytes, size_t n)
{
    if (n) memcpy(c->data + c->used, bytes, n);
    c->used += n;
}

static void check_form(const mba_graph_form *f)
{
    mba_assert((f->node_width > 0) == (f->node_type != MBA_GRAPH_NONE));
    mba_assert((f->edge_width > 0) == (f->edge_type != MBA_GRAPH_NONE));
    mba_assert((f->label_width > 0) == (f->label_type != MBA_GRAPH_NONE));
    mba_assert(f->classes >= 0 && f->lap_k >= 0 && f->rwse_k >= 0);
}

mba_status mba_graph_store_create(mba_graph_store **out, const mba_graph_form *form)
{
    check_form(form);
    mba_graph_store *s = calloc(1, sizeof *s);
    if (!s) return mba_fail(MBA_E_NOMEM, "no memory for a collection of graphs");
    s->set = (mba_graph_set){ .form = *form, .undirected = true, .sorted = true };
    const bool present[COLUMNS] = { true,
                                    true,
                                    true,
                                    true,
                                    form->node_width > 0,
                                    form->edge_width > 0,
                                    form->label_width > 0,
                                    form->has_split,
                                    form->lap_k > 0,
                                    form->lap_k > 0,
                                    form->rwse_k > 0 };
    mba_status st = MBA_OK;
    for (int k = 0; st == MBA_OK && k < COLUMNS; k++)
        if (present[k]) st = reserve(&s->col[k], sizeof(uint64_t));
    if (st != MBA_OK) {
        mba_graph_store_destroy(s);
        return st;
    }
    append(&s->col[NODE_PTR], &(uint64_t){ 0 }, sizeof(uint64_t));
    append(&s->col[EDGE_PTR], &(uint64_t){ 0 }, sizeof(uint64_t));
    show(s);
    *out = s;
    return MBA_OK;
}

void mba_graph_store_destroy(mba_graph_store *s)
{
    if (!s) return;
    for (int k = 0; k < COLUMNS; k++) free(s->col[k].data);
    free(s);
}

static bool is_sorted(const mba_graph_item *g)
{
    for (int64_t k = 1; k < g->edges; k++)
        if (g->dst[k] < g->dst[k - 1] || (g->dst[k] == g->dst[k - 1] && g->src[k] < g->src[k - 1])) return false;
    return true;
}

static int compare_keys(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Decides whether every edge occurs as often as its reverse. Sorts rather than counts, since nodes may be many and
 * edges few. */
static mba_status find_undirected(bool *out, const mba_graph_item *g)
{
    const size_t e = (size_t)g->edges;
    uint64_t    *there = malloc((2 * e + 1) * sizeof *there);
    if (!there) return mba_fail(MBA_E_NOMEM, "no memory to look at a graph of %" PRId64 " edges", g->edges);
    uint64_t *back = there + e;
    for (size_t k = 0; k < e; k++) {
        there[k] = (uint64_t)g->src[k] << 32 | g->dst[k];
        back[k] = (uint64_t)g->dst[k] << 32 | g->src[k];
    }
    qsort(there, e, sizeof *there, compare_keys);
    qsort(back, e, sizeof *back, compare_keys);
    *out = !memcmp(there, back, e * sizeof *there);
    free(there);
    return MBA_OK;
}

/* Checks one graph as a collection of one, so that the same checks serve both. */
static mba_status check_item(const mba_graph_store *s, const mba_graph_item *g)
{
    const uint64_t node_ptr[] = { 0, (uint64_t)g->nodes }, edge_ptr[] = { 0, (uint64_t)g->edges };
    const uint8_t  split = (uint8_t)g->split;
    mba_assert(g->nodes >= 0 && g->edges >= 0 && g->edges <= INT32_MAX);
    return check_from(
        &(mba_graph_set){
            .form = s->set.form,
            .graphs = 1,
            .nodes = g->nodes,
            .edges = g->edges,
            .node_ptr = node_ptr,
            .edge_ptr = edge_ptr,
            .src = g->src,
            .dst = g->dst,
            .node_feat = g->node_feat,
            .edge_feat = g->edge_feat,
            .label = g->label,
            .split = &split,
            .lap_val = g->lap_val,
            .lap_vec = g->lap_vec,
            .rwse = g->rwse,
        },
        "the new graph", s->set.graphs);
}

mba_status mba_graph_store_add(mba_graph_store *s, const mba_graph_item *g)
{
    const mba_graph_form *f = &s->set.form;
    const uint64_t        node_end = (uint64_t)(s->set.nodes + g->nodes);
    const uint64_t        edge_end = (uint64_t)(s->set.edges + g->edges);
    const uint8_t         split = (uint8_t)g->split;
    const size_t          n = (size_t)g->nodes, e = (size_t)g->edges;
    const struct {
        const void *data;
        size_t      bytes;
    } add[COLUMNS] = {
        { &node_end, sizeof node_end },
        { &edge_end, sizeof edge_end },
        { g->src, 4 * e },
        { g->dst, 4 * e },
        { g->node_feat, n * row_bytes(f->node_type, f->node_width) },
        { g->edge_feat, e * row_bytes(f->edge_type, f->edge_width) },
        { g->label, (f->node_labels ? n : 1) * row_bytes(f->label_type, f->label_width) },
        { &split, f->has_split },
        { g->lap_val, 4 * (size_t)f->lap_k },
        { g->lap_vec, 4 * n * (size_t)f->lap_k },
        { g->rwse, 4 * n * (size_t)f->rwse_k },
    };
    bool undirected = false;
    MBA_TRY(check_item(s, g));
    if (s->set.undirected) MBA_TRY(find_undirected(&undirected, g));
    for (int k = 0; k < COLUMNS; k++)
        if (add[k].bytes) MBA_TRY(reserve(&s->col[k], add[k].bytes));
    for (int k = 0; k < COLUMNS; k++) append(&s->col[k], add[k].data, add[k].bytes);
    s->set.graphs++;
    s->set.nodes += g->nodes;
    s->set.edges += g->edges;
    s->set.undirected = s->set.undirected && undirected;
    s->set.sorted = s->set.sorted && is_sorted(g);
    show(s);
    return MBA_OK;
}

const mba_graph_set *mba_graph_store_set(const mba_graph_store *s) { return &s->set; }

/* ---- positional features ---- */

static void fill_zero(column *c, size_t bytes)
{
    memset(c->data, 0, bytes);
    c->used = bytes;
}

/* Ensures room for `bytes` in total. */
static mba_status resize(column *c, size_t bytes) { return bytes <= c->used ? MBA_OK : reserve(c, bytes - c->used); }

mba_status mba_graph_store_add_lap(float **val, float **vec, mba_graph_store *s, int64_t k)
{
    column      *values = &s->col[LAP_VAL], *vectors = &s->col[LAP_VEC];
    const size_t a = 4 * (size_t)s->set.graphs * (size_t)k, b = 4 * (size_t)s->set.nodes * (size_t)k;
    mba_assert(k > 0 && k <= INT32_MAX);
    mba_status st = resize(values, a);
    if (st == MBA_OK) st = resize(vectors, b);
    show(s);
    if (st != MBA_OK) return st;
    fill_zero(values, a);
    fill_zero(vectors, b);
    s->set.form.lap_k = k;
    *val = (float *)(void *)values->data;
    *vec = (float *)(void *)vectors->data;
    return MBA_OK;
}

mba_status mba_graph_store_add_rwse(float **rwse, mba_graph_store *s, int64_t k)
{
    const size_t bytes = 4 * (size_t)s->set.nodes * (size_t)k;
    mba_assert(k > 0 && k <= INT32_MAX);
    MBA_TRY(resize(&s->col[RWSE], bytes));
    fill_zero(&s->col[RWSE], bytes);
    show(s);
    s->set.form.rwse_k = k;
    *rwse = (float *)(void *)s->col[RWSE].data;
    return MBA_OK;
}
