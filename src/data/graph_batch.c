// SPDX-License-Identifier: Apache-2.0
/* graph_batch.c -- see graph_batch.h: checks the graphs, sorts edges by target and source, fills and pads the arrays,
 * and sorts nodes for scans. */
#include "data/graph_batch.h"

#include <math.h>
#include <string.h>

#include "core/rng.h"

/* ---- checks: all of them before anything is written ---- */

static mba_status check_sizes(mba_graph_batch *b, const mba_graph_shape *s, const mba_batch_graph *items, int64_t n)
{
    int64_t nodes = 0, edges = 0;
    if (n < 1 || n > s->graphs)
        return mba_fail(MBA_E_ARG, "a batch of %lld graphs, room for %lld", (long long)n, (long long)s->graphs);
    for (int64_t g = 0; g < n; g++) {
        if (items[g].nodes < 0 || items[g].edges < 0)
            return mba_fail(MBA_E_FORMAT, "graph %lld of the batch has %lld nodes and %lld edges", (long long)g,
                            (long long)items[g].nodes, (long long)items[g].edges);
        if (items[g].nodes > s->nodes - nodes || items[g].edges > s->edges - edges)
            return mba_fail(MBA_E_ARG,
                            "graph %lld of a batch of %lld does not fit\n"
                            "why: the batch has room for %lld nodes and %lld edges\n"
                            "fix: use a smaller --graphs, or larger --nodes and --edges",
                            (long long)g, (long long)n, (long long)s->nodes, (long long)s->edges);
        nodes += items[g].nodes;
        edges += items[g].edges;
    }
    if (!nodes) return mba_fail(MBA_E_ARG, "a batch of %lld graphs without a node", (long long)n);
    b->nodes = nodes;
    b->edges = edges;
    b->graphs = n;
    return MBA_OK;
}

static mba_status check_ends(const mba_batch_graph *it, int64_t g)
{
    for (int64_t k = 0; k < it->edges; k++)
        if (it->src[k] >= it->nodes || it->dst[k] >= it->nodes)
            return mba_fail(MBA_E_FORMAT,
                            "edge %lld of graph %lld goes from %u to %u, there are %lld nodes\n"
                            "fix: correct the data",
                            (long long)k, (long long)g, it->src[k], it->dst[k], (long long)it->nodes);
    return MBA_OK;
}

static mba_status check_index(const int32_t *index, int64_t rows, int64_t fields, const int64_t *table_rows,
                              const char *what, int64_t g)
{
    for (int64_t i = 0; i < rows * fields; i++)
        if (index[i] < 0 || index[i] >= table_rows[i % fields])
            return mba_fail(MBA_E_FORMAT,
                            "%s %lld of graph %lld has %d in field %lld, its table has %lld "
                            "rows\nfix: --set node_tables=.. or edge_tables=.. with as many rows as the data "
                            "needs",
                            what, (long long)(i / fields), (long long)g, (int)index[i], (long long)(i % fields),
                            (long long)table_rows[i % fields]);
    return MBA_OK;
}

static mba_status check_item(const mba_graph_batch *b, const mba_graph_shape *s, const mba_batch_graph *it, int64_t g)
{
    const int64_t labels = s->node_labels ? it->nodes : 1;
    const struct {
        bool        wanted;
        const void *there;
        const char *what;
    } parts[] = {
        { it->edges > 0, it->src, "sources" },
        { it->edges > 0, it->dst, "targets of edges" },
        { b->node_real && it->nodes, it->node_real, "node features" },
        { b->edge_real && it->edges, it->edge_real, "edge features" },
        { b->node_index && it->nodes, it->node_index, "node indices" },
        { b->edge_index && it->edges, it->edge_index, "edge indices" },
        { b->label && labels, it->label, "labels" },
        { b->target && labels, it->target, "targets" },
        { (b->lap_phi || b->lap_lam) && it->nodes, it->lap_vectors && it->lap_values ? it : NULL, "positions" },
        { b->walks && it->nodes, it->walks, "return probabilities" },
    };
    for (size_t k = 0; k < sizeof parts / sizeof *parts; k++)
        if (parts[k].wanted && !parts[k].there)
            return mba_fail(MBA_E_FORMAT,
                            "graph %lld of the batch has no %s\nfix: use data that has them, or a "
                            "model that does not need them",
                            (long long)g, parts[k].what);
    MBA_TRY(check_ends(it, g));
    if (b->node_index) MBA_TRY(check_index(it->node_index, it->nodes, s->node_fields, s->node_rows, "node", g));
    if (b->edge_index) MBA_TRY(check_index(it->edge_index, it->edges, s->edge_fields, s->edge_rows, "edge", g));
    for (int64_t i = 0; b->label && i < labels; i++)
        if (it->label[i] >= s->classes)
            return mba_fail(MBA_E_FORMAT,
                            "label %lld of graph %lld is %d, there are %lld classes\nfix: --set "
                            "outputs=.. to the number of classes in the data",
                            (long long)i, (long long)g, (int)it->label[i], (long long)s->classes);
    return MBA_OK;
}

/* ---- edges: counting sorts by target and by source ---- */

/* Turns counts into starts: before, ptr[v + 1] is the count of v; after, ptr[v] is the first position of v. */
static void starts(int32_t *ptr, int64_t n)
{
    for (int64_t v = 0; v < n; v++) ptr[v + 1] += ptr[v];
}

/* Restores the starts: placing has advanced each to the start of the next. */
static void move_back(int32_t *ptr, int64_t n)
{
    memmove(ptr + 1, ptr, sizeof *ptr * (size_t)n);
    ptr[0] = 0;
}

static void copy_indices(int32_t *to, const int32_t *from, int64_t fields, const int64_t *table_rows)
{
    int64_t first = 0;
    for (int64_t f = 0; f < fields; first += table_rows[f++]) to[f] = (int32_t)(from[f] + first);
}

static void place_edge(const mba_graph_batch *b, const mba_graph_shape *s, const mba_batch_graph *it, int64_t k,
                       int64_t node)
{
    const int64_t row = b->in_ptr[node + it->dst[k]]++;
    b->src[row] = (int32_t)(node + it->src[k]);
    if (b->dst) b->dst[row] = (int32_t)(node + it->dst[k]);
    for (int64_t c = 0; b->edge_real && c < s->edge_reals; c++)
        b->edge_real[row * s->edge_reals + c] = it->edge_real[k * s->edge_reals + c];
    if (b->edge_index)
        copy_indices(b->edge_index + row * s->edge_fields, it->edge_index + k * s->edge_fields, s->edge_fields,
                     s->edge_rows);
}

static void place_edges(const mba_graph_batch *b, const mba_graph_shape *s, const mba_batch_graph *items)
{
    memset(b->in_ptr, 0, sizeof *b->in_ptr * (size_t)(b->nodes + 1));
    memset(b->out_ptr, 0, sizeof *b->out_ptr * (size_t)(b->nodes + 1));
    for (int64_t g = 0; g < b->graphs; g++)
        for (int64_t k = 0; k < items[g].edges; k++) {
            b->in_ptr[b->graph_ptr[g] + items[g].dst[k] + 1]++;
            b->out_ptr[b->graph_ptr[g] + items[g].src[k] + 1]++;
        }
    for (int64_t v = 0; v < b->nodes; v++) b->degree[v] = b->out_ptr[v + 1];
    starts(b->in_ptr, b->nodes);
    starts(b->out_ptr, b->nodes);
    for (int64_t g = 0; g < b->graphs; g++)
        for (int64_t k = 0; k < items[g].edges; k++) place_edge(b, s, &items[g], k, b->graph_ptr[g]);
    for (int64_t k = 0; k < b->edges; k++) b->out_edge[b->out_ptr[b->src[k]]++] = (int32_t)k;
    move_back(b->in_ptr, b->nodes);
    move_back(b->out_ptr, b->nodes);
}

/* ---- nodes and graphs ---- */

static void copy_rows(float *to, int64_t row, const float *from, int64_t rows, int64_t width)
{
    if (to && rows > 0 && width > 0) memcpy(to + row * width, from, sizeof *to * (size_t)(rows * width));
}

static void place_graph(const mba_graph_batch *b, const mba_graph_shape *s, const mba_batch_graph *it, int64_t g)
{
    const int64_t node = b->graph_ptr[g], K = s->lap, at = s->node_labels ? node : g,
                  labels = s->node_labels ? it->nodes : 1;
    for (int64_t v = 0; v < it->nodes; v++) b->graph_of[node + v] = (int32_t)g;
    copy_rows(b->node_real, node, it->node_real, it->nodes, s->node_reals);
    for (int64_t v = 0; b->node_index && v < it->nodes; v++)
        copy_indices(b->node_index + (node + v) * s->node_fields, it->node_index + v * s->node_fields, s->node_fields,
                     s->node_rows);
    for (int64_t i = 0; b->label && i < labels; i++) b->label[at + i] = it->label[i] < 0 ? -1 : it->label[i];
    copy_rows(b->target, at, it->target, labels, s->targets);
    copy_rows(b->lap_phi, node, it->lap_vectors, it->nodes, K);
    copy_rows(b->walks, node, it->walks, it->nodes, s->walks);
    for (int64_t v = 0; v < it->nodes; v++) copy_rows(b->lap_lam, node + v, it->lap_values, 1, K);
}

static void pad_f32(float *x, int64_t from, int64_t to, int64_t width, float value)
{
    for (int64_t i = from * width; x && i < to * width; i++) x[i] = value;
}

static void pad_i32(int32_t *x, int64_t from, int64_t to, int64_t width, int64_t value)
{
    for (int64_t i = from * width; x && i < to * width; i++) x[i] = (int32_t)value;
}

static void pad(const mba_graph_batch *b, const mba_graph_shape *s)
{
    const int64_t labels = s->node_labels ? b->nodes : b->graphs, all_labels = s->node_labels ? s->nodes : s->graphs;
    pad_i32(b->graph_ptr, b->graphs + 1, s->graphs + 1, 1, b->nodes);
    pad_i32(b->graph_of, b->nodes, s->nodes, 1, 0);
    pad_i32(b->degree, b->nodes, s->nodes, 1, 0);
    pad_i32(b->in_ptr, b->nodes + 1, s->nodes + 1, 1, b->edges);
    pad_i32(b->out_ptr, b->nodes + 1, s->nodes + 1, 1, b->edges);
    pad_i32(b->src, b->edges, s->edges, 1, 0);
    pad_i32(b->dst, b->edges, s->edges, 1, 0);
    pad_i32(b->out_edge, b->edges, s->edges, 1, 0);
    pad_f32(b->node_real, b->nodes, s->nodes, s->node_reals, 0);
    pad_f32(b->edge_real, b->edges, s->edges, s->edge_reals, 0);
    pad_i32(b->node_index, b->nodes, s->nodes, s->node_fields, 0);
    pad_i32(b->edge_index, b->edges, s->edges, s->edge_fields, 0);
    pad_i32(b->label, labels, all_labels, 1, -1);
    pad_f32(b->target, labels, all_labels, s->targets, NAN);
    pad_f32(b->lap_phi, b->nodes, s->nodes, s->lap, 0);
    pad_f32(b->lap_lam, b->nodes, s->nodes, s->lap, 0);
    pad_f32(b->walks, b->nodes, s->nodes, s->walks, 0);
}

mba_status mba_graph_batch_fill(mba_graph_batch *b, const mba_graph_shape *s, const mba_batch_graph *items, int64_t n)
{
    mba_assert(b->graph_ptr && b->graph_of && b->degree && b->in_ptr && b->out_ptr && b->src && b->out_edge);
    mba_assert(s->nodes < INT32_MAX && s->edges < INT32_MAX);
    MBA_TRY(check_sizes(b, s, items, n));
    for (int64_t g = 0; g < n; g++) MBA_TRY(check_item(b, s, &items[g], g));
    b->graph_ptr[0] = 0;
    for (int64_t g = 0; g < n; g++) b->graph_ptr[g + 1] = (int32_t)(b->graph_ptr[g] + items[g].nodes);
    for (int64_t g = 0; g < n; g++) place_graph(b, s, &items[g], g);
    place_edges(b, s, items);
    pad(b, s);
    return MBA_OK;
}

/* ---- order ---- */

/* The names of the last two contradict the released code; we do what the code does. */
const mba_order_type mba_order_types[] = { { "Mamba", false, false, 0, false, 1 },
                                           { "Mamba_Permute", false, true, 0, false, 1 },
                                           { "Mamba_Degree", true, false, 0, false, 1 },
                                           { "Mamba_Hybrid", false, true, 0, false, 5 },
                                           { "Mamba_Hybrid_Degree", true, true, 0, false, 5 },
                                           { "Mamba_Hybrid_Degree_Noise", true, true, 0, false, 5 },
                                           { "Mamba_Hybrid_Degree_Noise_Bucket", true, true, 3, false, 5 },
                                           { "Mamba_Hybrid_Degree_Bucket", true, true, 3, true, 5 },
                                           { "Mamba_Hybrid_Noise", false, true, 3, false, 5 },
                                           { "Mamba_Hybrid_Noise_Bucket", false, true, 0, false, 5 },
                                           { 0 } };

const mba_order_type *mba_order_find(const char *name)
{
    for (const mba_order_type *t = mba_order_types; t->name; t++)
        if (!strcmp(t->name, name)) return t;
    return NULL;
}

/* A sort key: bucket (2 bits) | graph (22) | degree (16) | random (24), or random (40) without degree. The sort is
 * stable: equal keys keep their order. */
enum { RANDOM_BITS = 24, DEGREE_BITS = 16, GRAPH_BITS = 22, SEGMENT_SHIFT = RANDOM_BITS + DEGREE_BITS };

static uint64_t sort_key(const mba_graph_order_args *a, int64_t v)
{
    const mba_order_type *t = a->type;
    const uint64_t        id = a->key ? (uint64_t)a->key[v] : (uint64_t)v, graph = (uint64_t)a->batch->graph_of[v];
    uint64_t              bucket = 0, low = 0;
    uint32_t              u[4];
    mba_assert(graph >> GRAPH_BITS == 0 && id >> 48 == 0);
    mba_philox(u, a->seed ^ mba_stream("graph order"), a->counter,
               (uint64_t)a->layer << 56 | (uint64_t)a->draw << 48 | id);
    if (t->buckets) bucket = (t->by_number ? (uint64_t)v : u[2]) % (uint64_t)t->buckets;
    if (t->random) low = ((uint64_t)u[0] << 32 | u[1]) >> (64 - (t->degree ? RANDOM_BITS : SEGMENT_SHIFT));
    if (t->degree) {
        const int32_t d = a->batch->degree[v];
        low |= (uint64_t)(d < 1 << DEGREE_BITS ? d : (1 << DEGREE_BITS) - 1) << RANDOM_BITS;
    }
    return (bucket << GRAPH_BITS | graph) << SEGMENT_SHIFT | low;
}

enum { DIGITS = 8, BINS = 256 };

/* One pass of the radix sort, from key and row to key2 and row2; count[d] keys have digit d. */
static void sort_digit(uint64_t *key2, uint32_t *row2, const uint64_t *key, const uint32_t *row, int64_t n, int digit,
                       const uint32_t count[BINS])
{
    uint32_t at[BINS], sum = 0;
    for (int d = 0; d < BINS; d++) {
        at[d] = sum;
        sum += count[d];
    }
    for (int64_t i = 0; i < n; i++) {
        const uint32_t to = at[key[i] >> 8 * digit & (BINS - 1)]++;
        key2[to] = key[i];
        row2[to] = row[i];
    }
}

/* Radix sort of n keys, least significant digit first; skips digits that all keys share. Returns the sorted keys, and
 * in
 * *rows their rows. */
static const uint64_t *sort_keys(uint64_t *key, uint64_t *key2, uint32_t *row, uint32_t *row2, const uint32_t **rows,
                                 int64_t n)
{
    uint32_t count[DIGITS][BINS] = { { 0 } };
    for (int64_t i = 0; i < n; i++)
        for (int d = 0; d < DIGITS; d++) count[d][key[i] >> 8 * d & (BINS - 1)]++;
    for (int d = 0; d < DIGITS; d++) {
        if (count[d][key[0] >> 8 * d & (BINS - 1)] == (uint32_t)n) continue;
        sort_digit(key2, row2, key, row, n, d, count[d]);
        uint64_t *k = key;
        uint32_t *r = row;
        key = key2, key2 = k;
        row = row2, row2 = r;
    }
    *rows = row;
    return key;
}

int64_t mba_graph_order(int32_t *perm, int32_t *inverse, int32_t *segment, const mba_graph_order_args *a)
{
    const int64_t n = a->batch->nodes;
    uint32_t     *row = (uint32_t *)(a->work + 2 * n);
    int64_t       segments = 0;
    mba_assert(n > 0 && n <= a->capacity && a->layer >> 8 == 0 && a->draw >> 8 == 0);
    for (int64_t v = 0; v < n; v++) {
        a->work[v] = sort_key(a, v);
        row[v] = (uint32_t)v;
    }
    const uint32_t *rows;
    const uint64_t *key = sort_keys(a->work, a->work + n, row, row + n, &rows, n);
    for (int64_t r = 0; r < n; r++) {
        if (r && key[r] >> SEGMENT_SHIFT != key[r - 1] >> SEGMENT_SHIFT) segments++;
        perm[r] = (int32_t)rows[r];
        inverse[rows[r]] = (int32_t)r;
        segment[r] = (int32_t)segments;
    }
    segments++;
    for (int64_t r = n; r < a->capacity; r++) {
        perm[r] = inverse[r] = (int32_t)r;
        segment[r] = (int32_t)segments;
    }
    return segments;
}
