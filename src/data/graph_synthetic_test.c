// SPDX-License-Identifier: Apache-2.0
/* graph_synthetic_test.c -- synthetic collections have the published statistics, and a graph depends only on
 * collection, seed and number. */
#include "tests/test.h"

#include "core/xxh64.h"
#include "data/graph_synthetic.h"

/* What is measured over a collection; distances over its first graphs only. */
typedef struct statistics {
    double nodes, nodes_deviation, nodes_min, nodes_max, edges, degree, diameter, path, sources;
} statistics;

/* Breadth-first distances from node v; `first` and `edge` group the edges by source. */
static void measure_from(int64_t v, int64_t n, const int64_t *first, const uint32_t *edge, int64_t *far, double *sum,
                         int64_t *hops, int64_t *queue)
{
    for (int64_t i = 0; i < n; i++) hops[i] = -1;
    int64_t head = 0, tail = 0;
    hops[queue[tail++] = v] = 0;
    while (head < tail) {
        const int64_t u = queue[head++];
        *sum += (double)hops[u];
        if (hops[u] > *far) *far = hops[u];
        for (int64_t k = first[u]; k < first[u + 1]; k++)
            if (hops[edge[k]] < 0) hops[queue[tail++] = edge[k]] = hops[u] + 1;
    }
    assert_int_equal(tail, n); // connected
}

static void measure_distances(statistics *s, const mba_graph_item *g, double weight)
{
    const int64_t n = g->nodes;
    int64_t      *first = calloc((size_t)n + 2, sizeof *first), far = 0;
    int64_t      *hops = malloc((size_t)n * sizeof *hops), *queue = malloc((size_t)n * sizeof *queue);
    uint32_t     *edge = malloc((size_t)g->edges * sizeof *edge);
    double        sum = 0;
    for (int64_t k = 0; k < g->edges; k++) first[g->src[k] + 2]++;
    for (int64_t v = 0; v < n; v++) first[v + 2] += first[v + 1];
    for (int64_t k = 0; k < g->edges; k++) edge[first[g->src[k] + 1]++] = g->dst[k];
    for (int64_t v = 0; v < n; v++) measure_from(v, n, first, edge, &far, &sum, hops, queue);
    s->diameter += weight * (double)far;
    s->path += weight * sum / ((double)n * (double)(n - 1));
    free(first);
    free(hops);
    free(queue);
    free(edge);
}

static statistics measure(mba_synthetic kind, int64_t graphs, int64_t distances)
{
    mba_graph_store *store;
    statistics       s = { .nodes_min = INFINITY };
    assert_ok(mba_graph_synthetic(&store, kind, 1, graphs));
    const mba_graph_set *t = mba_graph_store_set(store);
    for (int64_t g = 0; g < graphs; g++) {
        const mba_graph_item item = mba_graph_set_item(t, g);
        const double         n = (double)item.nodes;
        s.nodes_deviation += n * n / (double)graphs;
        if (n < s.nodes_min) s.nodes_min = n;
        if (n > s.nodes_max) s.nodes_max = n;
        if (g < distances) measure_distances(&s, &item, 1 / (double)distances);
        uint8_t *hit = calloc((size_t)item.nodes, 1);
        for (int64_t k = 0; k < item.edges; k++) hit[item.dst[k]] = 1;
        for (int64_t v = 0; v < item.nodes; v++) s.sources += !hit[v] / (double)t->nodes;
        free(hit);
    }
    s.nodes = (double)t->nodes / (double)graphs;
    s.edges = (double)t->edges / (double)graphs;
    s.degree = (double)t->edges / (double)t->nodes;
    s.nodes_deviation = sqrt(s.nodes_deviation - s.nodes * s.nodes);
    if (getenv("MBA_TEST_SHOW"))
        print_message("%-15s nodes %.1f +- %.1f (%.0f .. %.0f) edges %.1f degree %.3f diameter %.1f path %.2f "
                      "uncalled %.2f\n",
                      mba_synthetic_name(kind), s.nodes, s.nodes_deviation, s.nodes_min, s.nodes_max, s.edges, s.degree,
                      s.diameter, s.path, s.sources);
    mba_graph_store_destroy(store);
    return s;
}

/* Bands around the published value: three standard errors of the sample, or what the recipe is known to miss. */
static void superpixels_have_the_published_statistics(void **state)
{
    (void)state;
    const statistics voc = measure(MBA_SYNTHETIC_VOC, 200, 20), coco = measure(MBA_SYNTHETIC_COCO, 100, 0);
    assert_near(voc.nodes, 479.4, 5);
    assert_near(voc.edges, 2710, 40);
    assert_near(voc.degree, 5.65, 0.08);
    assert_near(voc.diameter, 27.6, 1.2);
    assert_near(voc.path, 10.74, 0.3);
    assert_near(coco.nodes, 476.9, 5);
    assert_near(coco.degree, 5.65, 0.08);
}

static void peptides_have_the_published_statistics(void **state)
{
    (void)state;
    const statistics s = measure(MBA_SYNTHETIC_PEPTIDES_FUNC, 600, 300);
    assert_near(s.nodes, 150.9, 11);
    assert_near(s.nodes_deviation, 84, 9);
    assert_near(s.edges, 307.3, 22);
    assert_near(s.degree, 2.04, 0.015);
    assert_near(s.diameter, 57.0, 5);
    assert_near(s.path, 20.9, 1.8);
    assert_true(s.nodes_min >= 9 && s.nodes_max <= 450);
}

static void points_have_the_published_statistics(void **state)
{
    (void)state;
    const statistics mnist = measure(MBA_SYNTHETIC_MNIST, 300, 0), cifar = measure(MBA_SYNTHETIC_CIFAR10, 300, 0);
    assert_near(mnist.nodes, 70.6, 0.8);
    assert_near(cifar.nodes, 117.6, 1.5);
    assert_true(mnist.degree == 8 && cifar.degree == 8);
    assert_true(mnist.nodes_min >= 40 && mnist.nodes_max <= 75 && cifar.nodes_min >= 85 && cifar.nodes_max <= 150);
}

static void block_models_have_the_published_statistics(void **state)
{
    (void)state;
    const statistics pattern = measure(MBA_SYNTHETIC_PATTERN, 600, 0), cluster = measure(MBA_SYNTHETIC_CLUSTER, 600, 0);
    assert_near(pattern.nodes, 118.9, 3);
    assert_near(pattern.edges, 6098.9, 310);
    assert_near(cluster.nodes, 117.2, 3);
    assert_near(cluster.edges, 4303.9, 220);
}

static void call_graphs_have_the_published_statistics(void **state)
{
    (void)state;
    const statistics s = measure(MBA_SYNTHETIC_MALNET, 600, 0);
    assert_near(s.nodes, 1410.3, 160);
    assert_near(s.nodes_deviation, 1283, 130);
    assert_near(s.degree, 2.03, 0.01);
    assert_near(s.sources, 0.42, 0.06); // nodes that nobody calls
    assert_true(s.nodes_min >= 6 && s.nodes_max <= 4990);
}

/* A graph can be generated alone, a seed changes it, and both kinds of peptides are the same molecules. */
static void a_graph_depends_on_seed_and_number_only(void **state)
{
    (void)state;
    for (int kind = 0; kind < MBA_SYNTHETICS; kind++) {
        const mba_graph_form form = mba_synthetic_form((mba_synthetic)kind);
        mba_graph_store     *many, *one, *other;
        assert_ok(mba_graph_synthetic(&many, (mba_synthetic)kind, 5, 4));
        assert_ok(mba_graph_store_create(&one, &form));
        assert_ok(mba_graph_store_create(&other, &form));
        assert_ok(mba_graph_synthetic_add(one, (mba_synthetic)kind, 5, 3));
        assert_ok(mba_graph_synthetic_add(other, (mba_synthetic)kind, 6, 3));
        const mba_graph_item a = mba_graph_set_item(mba_graph_store_set(many), 3);
        const mba_graph_item b = mba_graph_set_item(mba_graph_store_set(one), 0);
        const mba_graph_item c = mba_graph_set_item(mba_graph_store_set(other), 0);
        assert_true(a.nodes == b.nodes && a.edges == b.edges);
        assert_memory_equal(a.src, b.src, (size_t)a.edges * 4);
        assert_memory_equal(a.dst, b.dst, (size_t)a.edges * 4);
        assert_memory_equal(a.node_feat, b.node_feat, (size_t)(a.nodes * form.node_width) * 4);
        assert_memory_equal(a.label, b.label, (size_t)(form.node_labels ? a.nodes : 1) * (size_t)form.label_width * 4);
        if (form.edge_width) assert_memory_equal(a.edge_feat, b.edge_feat, (size_t)(a.edges * form.edge_width) * 4);
        const size_t n = (size_t)(a.nodes < c.nodes ? a.nodes : c.nodes) * (size_t)form.node_width * 4;
        assert_true(a.nodes != c.nodes || a.edges != c.edges || memcmp(a.node_feat, c.node_feat, n));
        mba_synthetic again;
        assert_true(mba_synthetic_parse(&again, mba_synthetic_name((mba_synthetic)kind)) && (int)again == kind);
        mba_graph_store_destroy(many);
        mba_graph_store_destroy(one);
        mba_graph_store_destroy(other);
    }
    mba_synthetic none;
    assert_false(mba_synthetic_parse(&none, "imagenet"));
    mba_graph_store *f, *s;
    assert_ok(mba_graph_synthetic(&f, MBA_SYNTHETIC_PEPTIDES_FUNC, 2, 5));
    assert_ok(mba_graph_synthetic(&s, MBA_SYNTHETIC_PEPTIDES_STRUCT, 2, 5));
    assert_int_equal(mba_graph_store_set(f)->nodes, mba_graph_store_set(s)->nodes);
    assert_memory_equal(mba_graph_store_set(f)->node_feat, mba_graph_store_set(s)->node_feat,
                        (size_t)mba_graph_store_set(s)->nodes * 9 * 4);
    mba_graph_store_destroy(f);
    mba_graph_store_destroy(s);
}

/* Sets that are generated without floating-point functions have the same bits on every machine: results of different
 * machines on them are compared. */
static void a_seed_gives_these_edges_and_labels(void **state)
{
    static const struct {
        mba_synthetic kind;
        int64_t       nodes, edges;
        uint64_t      edges_sum, labels_sum;
    } table[] = {
        { MBA_SYNTHETIC_PATTERN, 521, 29768, 0xcdb0fdc8e7946aeau, 0xde21ee0900a72b60u },
        { MBA_SYNTHETIC_CLUSTER, 411, 13296, 0xa4d39b93d8d1db9cu, 0xa7b3d7f3158e5e31u },
    };
    (void)state;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        mba_graph_store *s;
        assert_ok(mba_graph_synthetic(&s, table[i].kind, 5, 4));
        const mba_graph_set *t = mba_graph_store_set(s);
        uint64_t             edges_sum = 0, labels_sum = 0;
        for (int64_t g = 0; g < t->graphs; g++) {
            const mba_graph_item a = mba_graph_set_item(t, g);
            const int64_t        labels = t->form.node_labels ? a.nodes : 1;
            edges_sum = 31 * edges_sum
                        + (mba_xxh64(a.src, (size_t)a.edges * 4) ^ 3 * mba_xxh64(a.dst, (size_t)a.edges * 4));
            labels_sum = 31 * labels_sum + mba_xxh64(a.label, (size_t)(labels * t->form.label_width) * 4);
        }
        assert_true(t->nodes == table[i].nodes && t->edges == table[i].edges);
        assert_true(edges_sum == table[i].edges_sum && labels_sum == table[i].labels_sum);
        mba_graph_store_destroy(s);
    }
}

/* Fields stay inside the embedding tables of the model. */
static void peptide_fields_fit_their_tables(void **state)
{
    (void)state;
    static const int32_t rows[] = { 119, 5, 12, 12, 10, 6, 6, 2, 2 }, edge_rows[] = { 5, 6, 2 };
    mba_graph_store     *store;
    assert_ok(mba_graph_synthetic(&store, MBA_SYNTHETIC_PEPTIDES_STRUCT, 3, 400));
    const mba_graph_set *t = mba_graph_store_set(store);
    const int32_t       *x = t->node_feat, *e = t->edge_feat;
    for (int64_t i = 0; i < t->nodes * 9; i++) assert_true(x[i] >= 0 && x[i] < rows[i % 9]);
    for (int64_t i = 0; i < t->edges * 3; i++) assert_true(e[i] >= 0 && e[i] < edge_rows[i % 3]);
    int64_t element[119] = { 0 };
    for (int64_t v = 0; v < t->nodes; v++) element[x[v * 9]]++;
    assert_int_equal(element[5] + element[6] + element[7] + element[15], t->nodes);
    assert_true(element[5] > element[6] && element[6] > element[15] && element[15] > 0);
    const float *y = t->label;
    for (int k = 0; k < 11; k++) { // standardised
        double sum = 0, squares = 0;
        for (int64_t g = 0; g < t->graphs; g++) {
            sum += y[g * 11 + k];
            squares += (double)y[g * 11 + k] * y[g * 11 + k];
        }
        assert_near(sum / 400, 0, 0.2);
        assert_near(squares / 400, 1, 0.35);
    }
    assert_true(t->undirected);
    mba_graph_store_destroy(store);
}

/* Bonds between different atoms, each once in both directions; hydrogens fill what they leave of the valence. Sulphur
 * has two bonds to carbon (methionine), one and a hydrogen, or one and a bridge to another sulphur (cysteine). */
static void peptides_are_molecules(void **state)
{
    (void)state;
    enum { GRAPHS = 400, CARBON = 5, SULPHUR = 15, AROMATIC = 3, ATOMS = 512 };
    static bool      bound[ATOMS][ATOMS];
    static int       halves[ATOMS], bridges[ATOMS];
    mba_graph_store *store;
    int64_t          bridged = 0, with_hydrogen = 0;
    assert_ok(mba_graph_synthetic(&store, MBA_SYNTHETIC_PEPTIDES_FUNC, 3, GRAPHS));
    for (int64_t g = 0; g < GRAPHS; g++) {
        const mba_graph_item a = mba_graph_set_item(mba_graph_store_set(store), g);
        const int32_t       *x = a.node_feat, *e = a.edge_feat;
        assert_true(a.nodes <= ATOMS);
        memset(bound, 0, sizeof bound);
        memset(halves, 0, sizeof halves);
        memset(bridges, 0, sizeof bridges);
        for (int64_t k = 0; k < a.edges; k++) {
            const uint32_t u = a.src[k], v = a.dst[k];
            assert_true(u != v && !bound[u][v]);
            bound[u][v] = true;
            halves[v] += e[3 * k] == AROMATIC ? 3 : 2 * (e[3 * k] + 1);
            if (x[9 * v] == SULPHUR) assert_true(x[9 * u] == SULPHUR || x[9 * u] == CARBON);
            bridges[v] += x[9 * v] == SULPHUR && x[9 * u] == SULPHUR;
        }
        for (int64_t v = 0; v < a.nodes; v++) {
            const int element = x[9 * v], valence = element == CARBON ? 4 : element == CARBON + 1 ? 3 : 2;
            if (!x[9 * v + 7]) assert_int_equal(halves[v] / 2 + x[9 * v + 4], valence);
            assert_true(bridges[v] <= 1);
            bridged += bridges[v];
            with_hydrogen += element == SULPHUR && x[9 * v + 4];
        }
    }
    assert_true(bridged > 20 && bridged % 2 == 0 && with_hydrogen > 20);
    mba_graph_store_destroy(store);
}

static void every_class_occurs(void **state)
{
    (void)state;
    static const mba_synthetic kinds[] = { MBA_SYNTHETIC_VOC,     MBA_SYNTHETIC_MNIST,   MBA_SYNTHETIC_CIFAR10,
                                           MBA_SYNTHETIC_PATTERN, MBA_SYNTHETIC_CLUSTER, MBA_SYNTHETIC_MALNET,
                                           MBA_SYNTHETIC_BEACON };
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        mba_graph_store *store;
        assert_ok(mba_graph_synthetic(&store, kinds[k], 4, 120));
        const mba_graph_set *t = mba_graph_store_set(store);
        int64_t              count[21] = { 0 }, rows = t->form.node_labels ? t->nodes : t->graphs;
        for (int64_t i = 0; i < rows; i++) count[((const int32_t *)t->label)[i]]++;
        for (int64_t c = 0; c < t->form.classes; c++) assert_true(count[c] > 0);
        int64_t split[MBA_SPLITS] = { 0 };
        for (int64_t g = 0; g < t->graphs; g++) split[t->split[g]]++;
        assert_true(split[0] == 96 && split[1] == 12 && split[2] == 12);
        mba_graph_store_destroy(store);
    }
}

/* ---- the long-range task ---- */

static void beacons_are_out_of_reach(void **state)
{
    (void)state;
    for (int kind = MBA_SYNTHETIC_BEACON; kind <= MBA_SYNTHETIC_BEACONS; kind++) {
        const bool       two = kind == MBA_SYNTHETIC_BEACONS;
        const statistics s = measure((mba_synthetic)kind, 500, 100);
        mba_graph_store *store;
        double           near, all;
        assert_near(s.nodes, 60, 2);
        assert_true(s.diameter > 24);
        assert_ok(mba_graph_synthetic(&store, (mba_synthetic)kind, 1, 500));
        assert_ok(mba_graph_beacon_ceiling(&near, mba_graph_store_set(store), 3));
        assert_ok(mba_graph_beacon_ceiling(&all, mba_graph_store_set(store), 80));
        if (getenv("MBA_TEST_SHOW")) print_message("three hops reach %.3f\n", near);
        assert_true(near < (two ? 0.501 : 0.34) && all == 1);
        mba_graph_store_destroy(store);
    }
}

/* The label is the colour plus what the beacons show; given the colour alone, every label is equally likely. */
static void beacon_labels_are_what_they_say(void **state)
{
    (void)state;
    for (int kind = MBA_SYNTHETIC_BEACON; kind <= MBA_SYNTHETIC_BEACONS; kind++) {
        mba_graph_store *store;
        assert_ok(mba_graph_synthetic(&store, (mba_synthetic)kind, 8, 2000));
        const mba_graph_set *t = mba_graph_store_set(store);
        const int64_t        C = t->form.classes;
        int64_t              joint[4][4] = { { 0 } };
        for (int64_t g = 0; g < t->graphs; g++) {
            const mba_graph_item item = mba_graph_set_item(t, g);
            const float         *x = item.node_feat;
            int64_t              shown = 0, beacons = 0;
            for (int64_t i = 0; i < item.nodes * C; i++)
                if (x[i / C * 2 * C + C + i % C] > 0) {
                    shown += i % C;
                    beacons++;
                }
            assert_int_equal(beacons, kind == MBA_SYNTHETIC_BEACONS ? 2 : 1);
            for (int64_t v = 0; v < item.nodes; v++) {
                int64_t colour = 0;
                while (x[v * 2 * C + colour] == 0) colour++;
                assert_int_equal(((const int32_t *)item.label)[v], (colour + shown) % C);
                joint[colour][(colour + shown) % C]++;
            }
        }
        for (int64_t a = 0; a < C; a++) // 2000 values: five deviations of a share
            for (int64_t b = 0; b < C; b++)
                assert_near((double)joint[a][b] / (double)t->nodes * (double)(C * C), 1, 0.25);
        mba_graph_store_destroy(store);
    }
}

MBA_TEST_MAIN(cmocka_unit_test(superpixels_have_the_published_statistics),
              cmocka_unit_test(peptides_have_the_published_statistics),
              cmocka_unit_test(points_have_the_published_statistics),
              cmocka_unit_test(block_models_have_the_published_statistics),
              cmocka_unit_test(call_graphs_have_the_published_statistics),
              cmocka_unit_test(a_graph_depends_on_seed_and_number_only),
              cmocka_unit_test(a_seed_gives_these_edges_and_labels), cmocka_unit_test(peptide_fields_fit_their_tables),
              cmocka_unit_test(peptides_are_molecules), cmocka_unit_test(every_class_occurs),
              cmocka_unit_test(beacons_are_out_of_reach), cmocka_unit_test(beacon_labels_are_what_they_say))
