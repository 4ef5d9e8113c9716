// SPDX-License-Identifier: Apache-2.0
/* graph_synthetic_random.c -- generators of graph_synthetic.h: stochastic block models (pattern, cluster), call graphs
 * (malnet), and the beacon tasks. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "data/graph_draft.h"
#include "data/graph_features.h"

enum { SIZE_MIN = 5, SIZES = 30 }; /* communities have 5 .. 34 nodes */

/* ---- block models ---- */

typedef struct blocks {
    int64_t  n, groups;
    int64_t *group;  // (n): the community; the value `groups` means the pattern
    bool    *joined; // (n, n)
} blocks;

static void join(blocks *b, int64_t u, int64_t v) { b->joined[u * b->n + v] = b->joined[v * b->n + u] = true; }

/* Communities of random sizes, then `more` nodes that belong to none of them. */
static blocks make_blocks(mba_draft *d, int64_t groups, int64_t more)
{
    int64_t size[8], n = more, v = 0;
    for (int64_t g = 0; g < groups; g++) n += size[g] = SIZE_MIN + mba__draw_below(d, SIZES);
    blocks b = { .n = n, .groups = groups };
    b.group = mba_arena_new(d->arena, int64_t, n);
    b.joined = mba_arena_new(d->arena, bool, n *n);
    for (int64_t g = 0; g < groups; g++)
        for (int64_t i = 0; i < size[g]; i++) b.group[v++] = g;
    for (; v < n; v++) b.group[v] = groups;
    return b;
}

static void join_communities(blocks *b, mba_draft *d, double inside, double across)
{
    for (int64_t u = 0; u < b->n; u++)
        for (int64_t v = 0; v < u; v++) {
            if (b->group[u] == b->groups || b->group[v] == b->groups) continue;
            if (mba__draw_unit(d) < (b->group[u] == b->group[v] ? inside : across)) join(b, u, v);
        }
}

/* Writes the graph with its nodes in random order: features one-hot of `width`, labels; edges by target and source. */
static void finish_blocks(blocks *b, mba_draft *d, const int64_t *feature, const int64_t *target, int64_t width)
{
    const int64_t *order = mba__draw_order(d, b->n); // new number -> old number
    float         *feat = mba_arena_new(d->arena, float, b->n *width);
    int32_t       *label = mba_arena_new(d->arena, int32_t, b->n);
    mba__draft_edges(d, b->n * b->n);
    for (int64_t v = 0; v < b->n; v++) {
        feat[v * width + feature[order[v]]] = 1;
        label[v] = (int32_t)target[order[v]];
        for (int64_t u = 0; u < b->n; u++)
            if (b->joined[order[v] * b->n + order[u]]) mba__draft_edge(d, u, v);
    }
    d->nodes = b->n;
    d->node_feat = feat;
    d->label = label;
}

/* One node of each community shows its number + 1; all others show 0. */
static void make_cluster(mba_draft *d)
{
    enum { GROUPS = 6 };
    blocks   b = make_blocks(d, GROUPS, 0);
    int64_t *feature = mba_arena_new(d->arena, int64_t, b.n), first = 0;
    join_communities(&b, d, 0.55, 0.25);
    for (int64_t g = 0; g < GROUPS; g++) {
        int64_t size = 0;
        while (first + size < b.n && b.group[first + size] == g) size++;
        feature[first + mba__draw_below(d, size)] = g + 1;
        first += size;
    }
    finish_blocks(&b, d, feature, b.group, GROUPS + 1);
}

/* Random number i of pattern `pattern`: the same in every graph of the same seed. */
static double pattern_unit(const mba_draft *d, int64_t pattern, int64_t i)
{
    uint32_t u[4];
    mba_philox(u, d->seed ^ mba_stream("patterns"), (uint64_t)pattern, (uint64_t)i);
    return u[0] * (1.0 / 4294967296.0);
}

/* Uses one of 100 patterns: their inner edges and features are drawn once, their sizes are spread evenly. The exponent
 * gives the mean size 21.4 of the published collection, whose hundred draws are above average. */
static void make_pattern(mba_draft *d)
{
    enum { GROUPS = 5, PATTERNS = 100, VALUES = 3, FEATURES_AT = 64, EDGES_AT = 128 };
    const int64_t which = mba__draw_below(d, PATTERNS);
    const int64_t size = SIZE_MIN + (int64_t)(SIZES * pow(((double)which + 0.5) / PATTERNS, 0.775));
    blocks        b = make_blocks(d, GROUPS, size);
    int64_t      *feature = mba_arena_new(d->arena, int64_t, b.n), *target = mba_arena_new(d->arena, int64_t, b.n);
    const int64_t first = b.n - size;
    join_communities(&b, d, 0.5, 0.35);
    for (int64_t i = 0; i < size; i++) {
        for (int64_t j = 0; j < i; j++)
            if (pattern_unit(d, which, EDGES_AT + i * SIZES * 2 + j) < 0.5) join(&b, first + i, first + j);
        for (int64_t v = 0; v < first; v++)
            if (mba__draw_unit(d) < 0.5) join(&b, first + i, v);
    }
    for (int64_t v = 0; v < b.n; v++) {
        target[v] = v >= first;
        feature[v] = v < first ? mba__draw_below(d, VALUES)
                               : (int64_t)(VALUES * pattern_unit(d, which, FEATURES_AT + v - first));
    }
    finish_blocks(&b, d, feature, target, VALUES);
}

void mba__draft_blocks(mba_draft *d, mba_synthetic kind)
{
    if (kind == MBA_SYNTHETIC_CLUSTER) make_cluster(d);
    else make_pattern(d);
}

/* ---- call graphs ---- */

/* A hash set of the edges so far, so that none is added twice. */
typedef struct seen {
    uint64_t *slot;
    uint64_t  mask;
} seen;

static bool add_call(mba_draft *d, seen *s, int64_t src, int64_t dst)
{
    const uint64_t key = ((uint64_t)src << 32 | (uint64_t)dst) + 1;
    uint64_t       at = key * 0x9E3779B97F4A7C15u >> 20 & s->mask;
    if (src == dst) return false;
    for (; s->slot[at]; at = (at + 1) & s->mask)
        if (s->slot[at] == key) return false;
    s->slot[at] = key;
    mba__draft_edge(d, src, dst);
    return true;
}

/* Each node calls a node that was called before, or any. Graphs of later classes are larger, with stronger preference
 * and more reciprocal edges. */
void mba__draft_calls(mba_draft *d, mba_synthetic kind)
{
    enum { NODES_MIN = 6, NODES_MAX = 4990, CLASSES = 5, SLOTS = 1 << 15 };
    (void)kind;
    const int64_t class = mba__draw_below(d, CLASSES);
    const double  tilt = (double)(class - 2), size = exp(6.88 + 0.1 * tilt + mba__draw_normal(d));
    const double  prefer = 0.6 + 0.05 * tilt, answer = 0.05 * (double)class;
    const int64_t n = size < NODES_MIN ? NODES_MIN : size > NODES_MAX ? NODES_MAX : (int64_t)size;
    const int64_t edges = (int64_t)(2.03 * (double)n + mba__draw_unit(d));
    seen          s = { mba_arena_new(d->arena, uint64_t, SLOTS), SLOTS - 1 };
    int32_t      *label = mba_arena_new(d->arena, int32_t, 1);
    mba__draft_edges(d, edges + n);
    for (int64_t i = 1; i < n; i++) {
        const bool    by_target = d->edges && mba__draw_unit(d) < prefer;
        const int64_t j = by_target ? d->dst[mba__draw_below(d, d->edges)] : mba__draw_below(d, i);
        const bool    calls = mba__draw_unit(d) < 0.75;
        add_call(d, &s, calls ? i : j, calls ? j : i);
    }
    for (int64_t tries = 0; d->edges < edges && tries < 64 * edges; tries++) {
        const int64_t k = mba__draw_below(d, d->edges);
        if (mba__draw_unit(d) < answer) {
            add_call(d, &s, d->dst[k], d->src[k]);
            continue;
        }
        const bool by_target = mba__draw_unit(d) < prefer + 0.1;
        add_call(d, &s, mba__draw_below(d, n), by_target ? d->dst[k] : mba__draw_below(d, n));
    }
    *label = (int32_t) class;
    d->nodes = n;
    d->node_feat = mba_arena_new(d->arena, float, n *MBA_DEGREE_PROFILE); // filled by the caller
    d->label = label;
}

/* ---- beacons ---- */

/* Node i of the tree is attached to one of the two before it; then the nodes are renumbered. */
void mba__draft_beacons(mba_draft *d, mba_synthetic kind)
{
    enum { NODES_MIN = 40, NODES_MAX = 80 };
    const int64_t  C = mba_synthetic_form(kind).classes;
    const int64_t  n = NODES_MIN + mba__draw_below(d, NODES_MAX - NODES_MIN + 1);
    const int64_t *name = mba__draw_order(d, n);
    const int64_t  beacons = kind == MBA_SYNTHETIC_BEACONS ? 2 : 1;
    float         *feat = mba_arena_new(d->arena, float, n * 2 * C);
    int32_t       *label = mba_arena_new(d->arena, int32_t, n);
    int64_t        shown = 0;
    mba__draft_edges(d, 2 * (n - 1));
    for (int64_t i = 1; i < n; i++) {
        const int64_t j = i > 1 ? i - 1 - mba__draw_below(d, 2) : 0;
        mba__draft_edge(d, name[i], name[j]);
        mba__draft_edge(d, name[j], name[i]);
    }
    for (int64_t k = 0; k < beacons; k++) {
        const int64_t value = mba__draw_below(d, C), v = name[k ? n - 1 : 0];
        feat[v * 2 * C + C + value] = 1;
        shown += value;
    }
    for (int64_t v = 0; v < n; v++) {
        const int64_t colour = mba__draw_below(d, C);
        feat[v * 2 * C + colour] = 1;
        label[v] = (int32_t)((colour + shown) % C);
    }
    d->nodes = n;
    d->node_feat = feat;
    d->label = label;
}

/* Marks the nodes within `hops` hops of node v; `within` has room for twice the nodes. */
static void spread(bool *within, const mba_graph_item *g, int64_t v, int64_t hops)
{
    memset(within, 0, (size_t)g->nodes);
    within[v] = true;
    for (int64_t h = 0; h < hops; h++) {
        bool *next = within + g->nodes; // the second half: nodes reached in this hop
        memcpy(next, within, (size_t)g->nodes);
        for (int64_t k = 0; k < g->edges; k++)
            if (within[g->src[k]]) next[g->dst[k]] = true;
        memcpy(within, next, (size_t)g->nodes);
    }
}

static bool is_beacon(const float *feat, int64_t C)
{
    for (int64_t c = C; c < 2 * C; c++)
        if (feat[c] > 0) return true;
    return false;
}

mba_status mba_graph_beacon_ceiling(double *out, const mba_graph_set *s, int64_t hops)
{
    const int64_t C = s->form.classes;
    double        sum = 0;
    mba_assert(s->form.node_width == 2 * C && s->form.node_type == MBA_GRAPH_F32 && s->form.node_labels);
    for (int64_t g = 0; g < s->graphs; g++) {
        const mba_graph_item item = mba_graph_set_item(s, g);
        bool                *work = calloc(3 * (size_t)item.nodes + 1, sizeof *work);
        if (!work) return mba_fail(MBA_E_NOMEM, "no memory to look at a graph of %" PRId64 " nodes", item.nodes);
        bool *all = work + 2 * item.nodes;
        memset(all, 1, (size_t)item.nodes);
        for (int64_t v = 0; v < item.nodes; v++) {
            if (!is_beacon((const float *)item.node_feat + v * 2 * C, C)) continue;
            spread(work, &item, v, hops);
            for (int64_t u = 0; u < item.nodes; u++) all[u] = all[u] && work[u];
        }
        for (int64_t u = 0; u < item.nodes; u++) sum += all[u] ? 1 : 1 / (double)C;
        free(work);
    }
    *out = sum / (double)s->nodes;
    return MBA_OK;
}
