// SPDX-License-Identifier: Apache-2.0
/* graph_batch_test.c -- a batch has every node and edge of its graphs exactly once; node orders are what their names
 * say. */
#include "tests/test.h"

#include "core/rng.h"
#include "data/graph_batch.h"

enum {
    GRAPHS = 9,
    ROOM_G = 11,
    ROOM_N = 260,
    ROOM_E = 900,
    NODE_REALS = 3,
    EDGE_REALS = 2,
    FIELDS = 2,
    LAP = 4,
    PER_GRAPH = 40,
    EDGES = 130
};
static const int64_t node_rows[FIELDS] = { 7, 4 }, edge_rows[FIELDS] = { 3, 5 };

/* Random graphs: one without edges, one of a single node, one without nodes. */
typedef struct graphs {
    mba_batch_graph item[GRAPHS];
    uint32_t        src[GRAPHS][EDGES], dst[GRAPHS][EDGES];
    float           node_real[GRAPHS][PER_GRAPH * NODE_REALS], edge_real[GRAPHS][EDGES * EDGE_REALS];
    int32_t node_index[GRAPHS][PER_GRAPH * FIELDS], edge_index[GRAPHS][EDGES * FIELDS], label[GRAPHS][PER_GRAPH];
    float   target[GRAPHS][PER_GRAPH * 2], values[GRAPHS][LAP], vectors[GRAPHS][PER_GRAPH * LAP];
} graphs;

static uint32_t dice(uint32_t n)
{
    static uint64_t counter;
    uint32_t        u[4];
    mba_philox(u, 5, 0, counter++);
    return u[0] % n;
}

static void make_graphs(graphs *x)
{
    memset(x, 0, sizeof *x);
    for (int g = 0; g < GRAPHS; g++) {
        const int64_t n = g == 3   ? 1
                          : g == 5 ? 0
                                   : 10 + dice(PER_GRAPH - 10),
                      e = g == 2 || g == 5 ? 0
                          : g == 3         ? 2
                                           : dice(EDGES);
        x->item[g] = (mba_batch_graph){ n,
                                        e,
                                        x->src[g],
                                        x->dst[g],
                                        x->node_real[g],
                                        x->edge_real[g],
                                        x->node_index[g],
                                        x->edge_index[g],
                                        x->label[g],
                                        x->target[g],
                                        x->values[g],
                                        x->vectors[g],
                                        x->node_real[g] };
        for (int64_t k = 0; k < e; k++) x->src[g][k] = dice((uint32_t)n), x->dst[g][k] = dice((uint32_t)n);
        for (int i = 0; i < PER_GRAPH * NODE_REALS; i++) x->node_real[g][i] = (float)dice(1000);
        for (int i = 0; i < EDGES * EDGE_REALS; i++) x->edge_real[g][i] = (float)dice(1000);
        for (int i = 0; i < PER_GRAPH * FIELDS; i++)
            x->node_index[g][i] = (int32_t)dice((uint32_t)node_rows[i % FIELDS]);
        for (int i = 0; i < EDGES * FIELDS; i++) x->edge_index[g][i] = (int32_t)dice((uint32_t)edge_rows[i % FIELDS]);
        for (int i = 0; i < PER_GRAPH; i++) x->label[g][i] = (int32_t)dice(6) - 1;
        for (int i = 0; i < PER_GRAPH * 2; i++) x->target[g][i] = (float)dice(1000);
        for (int i = 0; i < LAP; i++) x->values[g][i] = n > i ? (float)dice(1000) : NAN;
        for (int i = 0; i < PER_GRAPH * LAP; i++) x->vectors[g][i] = (float)dice(1000);
    }
}

typedef struct arrays {
    int32_t graph_ptr[ROOM_G + 1], graph_of[ROOM_N], degree[ROOM_N], in_ptr[ROOM_N + 1], out_ptr[ROOM_N + 1],
        src[ROOM_E], out_edge[ROOM_E];
    int32_t dst[ROOM_E], node_index[ROOM_N * FIELDS], edge_index[ROOM_E * FIELDS], label[ROOM_N];
    float   node_real[ROOM_N * NODE_REALS], edge_real[ROOM_E * EDGE_REALS], target[ROOM_N * 2], phi[ROOM_N * LAP],
        lam[ROOM_N * LAP], walks[ROOM_N * NODE_REALS];
    int32_t guard;
} arrays;

static mba_graph_batch batch_of(arrays *a)
{
    memset(a, 0xa5, sizeof *a);
    return (mba_graph_batch){ .graph_ptr = a->graph_ptr,
                              .graph_of = a->graph_of,
                              .degree = a->degree,
                              .in_ptr = a->in_ptr,
                              .out_ptr = a->out_ptr,
                              .src = a->src,
                              .out_edge = a->out_edge,
                              .dst = a->dst,
                              .node_real = a->node_real,
                              .edge_real = a->edge_real,
                              .node_index = a->node_index,
                              .edge_index = a->edge_index,
                              .label = a->label,
                              .target = a->target,
                              .lap_phi = a->phi,
                              .lap_lam = a->lam,
                              .walks = a->walks };
}

static mba_graph_shape shape_of(bool node_labels)
{
    return (mba_graph_shape){ .nodes = ROOM_N,
                              .edges = ROOM_E,
                              .graphs = ROOM_G,
                              .node_reals = NODE_REALS,
                              .edge_reals = EDGE_REALS,
                              .node_fields = FIELDS,
                              .edge_fields = FIELDS,
                              .node_rows = node_rows,
                              .edge_rows = edge_rows,
                              .classes = 5,
                              .targets = 2,
                              .node_labels = node_labels,
                              .lap = LAP,
                              .walks = NODE_REALS };
}

/* Edge k of a graph must be the next unused row of its target: storage order is kept within a target. */
static void check_edges(const mba_graph_batch *b, const graphs *x, int g, int32_t *next)
{
    const mba_batch_graph *it = &x->item[g];
    const int32_t          o = b->graph_ptr[g];
    for (int64_t k = 0; k < it->edges; k++) {
        const int32_t row = next[o + (int32_t)it->dst[k]]++;
        assert_int_equal(b->src[row], o + (int32_t)it->src[k]);
        assert_int_equal(b->dst[row], o + (int32_t)it->dst[k]);
        for (int c = 0; c < EDGE_REALS; c++)
            assert_near(b->edge_real[row * EDGE_REALS + c], it->edge_real[k * EDGE_REALS + c], 0);
        for (int f = 0; f < FIELDS; f++)
            assert_int_equal(b->edge_index[row * FIELDS + f], it->edge_index[k * FIELDS + f] + (f ? edge_rows[0] : 0));
    }
}

static void check_nodes(const mba_graph_batch *b, const graphs *x, int g, bool node_labels)
{
    const mba_batch_graph *it = &x->item[g];
    for (int64_t v = 0; v < it->nodes; v++) {
        const int64_t row = b->graph_ptr[g] + v;
        int32_t       degree = 0;
        for (int64_t k = 0; k < it->edges; k++) degree += it->src[k] == v;
        assert_int_equal(b->graph_of[row], g);
        assert_int_equal(b->degree[row], degree);
        for (int c = 0; c < NODE_REALS; c++)
            assert_near(b->node_real[row * NODE_REALS + c], it->node_real[v * NODE_REALS + c], 0);
        for (int c = 0; c < NODE_REALS; c++)
            assert_near(b->walks[row * NODE_REALS + c], it->walks[v * NODE_REALS + c], 0);
        for (int f = 0; f < FIELDS; f++)
            assert_int_equal(b->node_index[row * FIELDS + f], it->node_index[v * FIELDS + f] + (f ? node_rows[0] : 0));
        for (int k = 0; k < LAP; k++) {
            assert_near(b->lap_phi[row * LAP + k], it->lap_vectors[v * LAP + k], 0);
            assert_true(isnan(it->lap_values[k]) ? isnan(b->lap_lam[row * LAP + k])
                                                 : b->lap_lam[row * LAP + k] == it->lap_values[k]);
        }
    }
    for (int64_t i = 0; i < (node_labels ? it->nodes : 1); i++) {
        const int64_t row = node_labels ? b->graph_ptr[g] + i : g;
        assert_int_equal(b->label[row], it->label[i]);
        for (int c = 0; c < 2; c++) assert_near(b->target[row * 2 + c], it->target[i * 2 + c], 0);
    }
}

static void check_padding(const mba_graph_batch *b, bool node_labels)
{
    for (int64_t v = b->nodes; v < ROOM_N; v++) {
        assert_true(b->in_ptr[v + 1] == b->edges && b->out_ptr[v + 1] == b->edges && !b->graph_of[v] && !b->degree[v]);
        for (int c = 0; c < NODE_REALS; c++) assert_true(b->node_real[v * NODE_REALS + c] == 0);
        for (int k = 0; k < LAP; k++) assert_true(b->lap_phi[v * LAP + k] == 0 && b->lap_lam[v * LAP + k] == 0);
    }
    for (int64_t k = b->edges; k < ROOM_E; k++)
        assert_true(!b->src[k] && !b->out_edge[k] && !b->edge_real[k * EDGE_REALS]);
    for (int64_t g = b->graphs; g < ROOM_G; g++) assert_int_equal(b->graph_ptr[g + 1], b->nodes);
    for (int64_t i = node_labels ? b->nodes : b->graphs; i < (node_labels ? ROOM_N : ROOM_G); i++)
        assert_true(b->label[i] == -1 && isnan(b->target[2 * i]));
}

static void graph_batch_holds_what_its_graphs_hold(void **state)
{
    (void)state;
    static graphs x;
    static arrays a;
    for (int trial = 0; trial < 20; trial++) {
        const bool            node_labels = trial % 2;
        const mba_graph_shape s = shape_of(node_labels);
        mba_graph_batch       b = batch_of(&a);
        make_graphs(&x);
        int64_t nodes = 0, edges = 0;
        for (int g = 0; g < GRAPHS; g++) nodes += x.item[g].nodes, edges += x.item[g].edges;
        if (nodes > ROOM_N || edges > ROOM_E) {
            assert_fails(mba_graph_batch_fill(&b, &s, x.item, GRAPHS), MBA_E_ARG, "does not fit");
            assert_int_equal(a.src[0], (int32_t)0xa5a5a5a5); // nothing was written
            continue;
        }
        assert_ok(mba_graph_batch_fill(&b, &s, x.item, GRAPHS));
        assert_true(b.nodes == nodes && b.edges == edges && b.graphs == GRAPHS);
        int32_t next[ROOM_N + 1], seen[ROOM_E] = { 0 };
        memcpy(next, b.in_ptr, sizeof next);
        for (int g = 0; g < GRAPHS; g++) check_edges(&b, &x, g, next), check_nodes(&b, &x, g, node_labels);
        for (int64_t v = 0; v < nodes; v++) {
            assert_int_equal(next[v], b.in_ptr[v + 1]); // every row was used
            for (int32_t p = b.out_ptr[v]; p < b.out_ptr[v + 1]; p++) {
                assert_int_equal(b.src[b.out_edge[p]], v);
                assert_int_equal(seen[b.out_edge[p]]++, 0);
            }
        }
        check_padding(&b, node_labels);
        assert_int_equal(a.guard, (int32_t)0xa5a5a5a5);
    }
}

static void graph_batch_refuses_damaged_graphs(void **state)
{
    (void)state;
    static graphs         x;
    static arrays         a;
    mba_graph_batch       b = batch_of(&a);
    const mba_graph_shape s = shape_of(true);
    uint32_t              ends[2] = { 0, 1 };
    int32_t               one[FIELDS] = { 0, 9 }, label = 5;
    do make_graphs(&x);
    while (!x.item[0].edges);
    mba_batch_graph it = x.item[3]; // one node
    it.edges = 2;
    it.src = ends;
    assert_fails(mba_graph_batch_fill(&b, &s, &it, 1), MBA_E_FORMAT, "from 1 to 0, there are 1 nodes");
    it = x.item[3];
    it.node_index = one;
    assert_fails(mba_graph_batch_fill(&b, &s, &it, 1), MBA_E_FORMAT, "9 in field 1, its table has 4 rows");
    it = x.item[3];
    it.label = &label;
    assert_fails(mba_graph_batch_fill(&b, &s, &it, 1), MBA_E_FORMAT, "is 5, there are 5 classes");
    it = x.item[3];
    it.lap_values = NULL;
    assert_fails(mba_graph_batch_fill(&b, &s, &it, 1), MBA_E_FORMAT, "no positions");
    it = x.item[3];
    it.nodes = INT64_MAX;
    assert_fails(mba_graph_batch_fill(&b, &s, &it, 1), MBA_E_ARG, "does not fit");
    it.nodes = -1;
    assert_fails(mba_graph_batch_fill(&b, &s, &it, 1), MBA_E_FORMAT, "-1 nodes");
    assert_fails(mba_graph_batch_fill(&b, &s, x.item + 5, 1), MBA_E_ARG, "without a node");
    assert_fails(mba_graph_batch_fill(&b, &s, x.item, 0), MBA_E_ARG, "a batch of 0 graphs");
}

/* ---- order ---- */

typedef struct ordered {
    int32_t  perm[ROOM_N], inverse[ROOM_N], segment[ROOM_N];
    int64_t  segments;
    uint64_t work[3 * ROOM_N];
} ordered;

static void order(ordered *o, const mba_graph_batch *b, const char *name, const int64_t *key, uint64_t counter,
                  int64_t layer, int64_t draw)
{
    const mba_order_type *t = mba_order_find(name);
    assert_non_null(t);
    o->segments = mba_graph_order(o->perm, o->inverse, o->segment,
                                  &(mba_graph_order_args){ .type = t,
                                                           .batch = b,
                                                           .capacity = ROOM_N,
                                                           .key = key,
                                                           .seed = 3,
                                                           .counter = counter,
                                                           .layer = layer,
                                                           .draw = draw,
                                                           .work = o->work });
}

/* The batch of these tests: 200 nodes, in graphs of 97, 1, 40 and 62; degrees 0 to 4. */
static mba_graph_batch some_batch(arrays *a)
{
    static const int from[5] = { 0, 97, 98, 138, 200 };
    mba_graph_batch  b = batch_of(a);
    b.nodes = 200;
    for (int g = 0; g < 4; g++)
        for (int v = from[g]; v < from[g + 1]; v++) a->graph_of[v] = g;
    for (int v = 0; v < 200; v++) a->degree[v] = (int32_t)dice(5);
    return b;
}

/* For every type: a permutation with its inverse, segments that are whole and in one graph, degrees ascending. */
static void every_order_is_a_permutation_in_segments(void **state)
{
    (void)state;
    static arrays   a;
    static ordered  o;
    mba_graph_batch b = some_batch(&a);
    for (const mba_order_type *t = mba_order_types; t->name; t++) {
        order(&o, &b, t->name, NULL, 7, 2, 1);
        int seen[ROOM_N] = { 0 };
        for (int r = 0; r < ROOM_N; r++) {
            assert_int_equal(seen[o.perm[r]]++, 0);
            assert_int_equal(o.inverse[o.perm[r]], r);
            if (r >= b.nodes) {
                assert_true(o.perm[r] == r && o.segment[r] == o.segments);
                continue;
            }
            if (!r || o.segment[r] != o.segment[r - 1]) {
                assert_int_equal(o.segment[r], r ? o.segment[r - 1] + 1 : 0);
                continue;
            }
            const int v = o.perm[r], u = o.perm[r - 1];
            assert_int_equal(a.graph_of[v], a.graph_of[u]);
            if (t->degree) assert_true(a.degree[v] >= a.degree[u]);
            if (!t->random && (!t->degree || a.degree[v] == a.degree[u])) assert_true(v > u); // as stored
            if (t->by_number) assert_int_equal(v % 3, u % 3);
        }
        assert_int_equal(o.segment[b.nodes - 1], o.segments - 1);
        if (!t->buckets) assert_int_equal(o.segments, 4);
        else assert_true(o.segments > 4 && o.segments <= 10); // the graph of one node is in one bucket
    }
    assert_null(mba_order_find("Mamba_Unknown"));
    order(&o, &b, "Mamba", NULL, 0, 0, 0);
    for (int r = 0; r < 200; r++) assert_int_equal(o.perm[r], r);
}

static int differing(const ordered *x, const ordered *y)
{
    int n = 0;
    for (int r = 0; r < 200; r++) n += x->perm[r] != y->perm[r];
    return n;
}

static void random_orders_are_drawn_anew_for_every_layer_draw_and_step(void **state)
{
    (void)state;
    static arrays     a;
    static ordered    o, p;
    mba_graph_batch   b = some_batch(&a);
    const char *const names[] = { "Mamba_Permute", "Mamba_Hybrid_Degree_Noise", "Mamba_Hybrid_Degree_Noise_Bucket" };
    for (int k = 0; k < 3; k++) {
        order(&o, &b, names[k], NULL, 1, 0, 0);
        order(&p, &b, names[k], NULL, 1, 0, 0);
        assert_memory_equal(o.perm, p.perm, sizeof o.perm);
        order(&p, &b, names[k], NULL, 1, 1, 0);
        assert_true(differing(&o, &p) > 100);
        order(&p, &b, names[k], NULL, 1, 0, 1);
        assert_true(differing(&o, &p) > 100);
        order(&p, &b, names[k], NULL, 2, 0, 0);
        assert_true(differing(&o, &p) > 100);
    }
    order(&o, &b, "Mamba_Degree", NULL, 1, 0, 0);
    order(&p, &b, "Mamba_Degree", NULL, 2, 3, 4);
    assert_int_equal(differing(&o, &p), 0);
}

/* The same nodes stored in another order, keys and degrees going with them: the same sequence of keys comes out. */
static void an_order_follows_the_keys_of_its_nodes(void **state)
{
    (void)state;
    static arrays   a, c;
    static ordered  o, p;
    mba_graph_batch b = some_batch(&a), d = batch_of(&c);
    int64_t         key[200], moved[200];
    d.nodes = 200;
    for (int v = 0; v < 200; v++) key[v] = 1000 + 3 * v;
    order(&o, &b, "Mamba_Permute", NULL, 9, 9, 9); // any permutation within graphs
    for (int v = 0; v < 200; v++) {
        moved[v] = key[o.perm[v]];
        c.graph_of[v] = a.graph_of[o.perm[v]];
        c.degree[v] = a.degree[o.perm[v]];
    }
    const char *const names[] = { "Mamba_Permute", "Mamba_Hybrid", "Mamba_Hybrid_Degree_Noise",
                                  "Mamba_Hybrid_Degree_Noise_Bucket" };
    for (int k = 0; k < 4; k++) {
        order(&o, &b, names[k], key, 4, 1, 2);
        order(&p, &d, names[k], moved, 4, 1, 2);
        for (int r = 0; r < 200; r++) assert_int_equal(key[o.perm[r]], moved[p.perm[r]]);
        assert_memory_equal(o.segment, p.segment, sizeof o.segment);
    }
}

/* 2000 draws: a node of a graph of 40 stands anywhere equally often, buckets are a third each. Bounds are five
 * standard deviations of fair draws. */
static void random_orders_are_fair(void **state)
{
    (void)state;
    enum { DRAWS = 2000 };
    static arrays   a;
    static ordered  o;
    mba_graph_batch b = some_batch(&a);
    double          place = 0, third = 0, first = 0;
    for (int i = 0; i < DRAWS; i++) {
        order(&o, &b, "Mamba_Hybrid", NULL, (uint64_t)i, 0, 0);
        place += o.inverse[110] - 98;
        first += o.inverse[110] == 98;
        order(&o, &b, "Mamba_Hybrid_Noise", NULL, (uint64_t)i, 0, 0);
        // in the first bucket some 32 nodes stand before it, in the second 99; 58 is five deviations from both
        third += o.inverse[97] < 58;
    }
    assert_near(place / DRAWS, 19.5, 5 * sqrt((40 * 40 - 1) / 12.0 / DRAWS));
    assert_near(first / DRAWS, 1 / 40.0, 5 * sqrt(1 / 40.0 * (1 - 1 / 40.0) / DRAWS));
    assert_near(third / DRAWS, 1 / 3.0, 5 * sqrt(2 / 9.0 / DRAWS));
}

MBA_TEST_MAIN(cmocka_unit_test(graph_batch_holds_what_its_graphs_hold),
              cmocka_unit_test(graph_batch_refuses_damaged_graphs),
              cmocka_unit_test(every_order_is_a_permutation_in_segments),
              cmocka_unit_test(random_orders_are_drawn_anew_for_every_layer_draw_and_step),
              cmocka_unit_test(an_order_follows_the_keys_of_its_nodes), cmocka_unit_test(random_orders_are_fair))
