// SPDX-License-Identifier: Apache-2.0
/* graph_starvation_test.c -- the n-th allocation fails, for every n: each reader of graph collections, the container
 * and the positional features report it, leak nothing, and never give a wrong result. */
#include "tests/starve.h"
#include "tests/scratch.h"
#include "core/device.h"
#include "data/graph_features.h"
#include "data/graph_pack.h"
#include "data/graph_readers.h"

#if !MBA_STARVE
int main(void) { return 77; }
#else

static mba_graph_store *store;
static int64_t          wanted_graphs, wanted_nodes, wanted_edges;

static void check_store(void)
{
    const mba_graph_set *s = mba_graph_store_set(store);
    assert_true(s->graphs == wanted_graphs && s->nodes == wanted_nodes && s->edges == wanted_edges);
    assert_ok(mba_graph_set_check(s, "again"));
    mba_graph_store_destroy(store);
}

static void expect(int64_t graphs, int64_t nodes, int64_t edges)
{
    wanted_graphs = graphs;
    wanted_nodes = nodes;
    wanted_edges = edges;
}

static void put(const char *name, const char *text)
{
    char path[512];
    snprintf(path, sizeof path, "%s", scratch(name));
    for (char *slash = path + strlen(scratch_dir) + 1; (slash = strchr(slash, '/')); *slash++ = '/') {
        *slash = 0;
        mkdir(path, 0777);
    }
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    assert_int_equal(fclose(f), 0);
}

/* Enough graphs that every array grows more than once. */
static void put_many(const char *name, int n, const char *(*line)(int i))
{
    char  *text;
    size_t bytes;
    FILE  *f = open_memstream(&text, &bytes);
    assert_non_null(f);
    for (int i = 0; i < n; i++) fputs(line(i), f);
    fclose(f);
    put(name, text);
    free(text);
}

enum { GRAPHS = 40, NODES = 3 * GRAPHS }; // each a path of three nodes

static const char *line_of(const char *fmt, int a, int b)
{
    static char text[64];
    snprintf(text, sizeof text, fmt, a, b);
    return text;
}

/* ---- TUDataset ---- */

static const char *tu_edge(int i) { return line_of("%d, %d\n", i / 2 * 3 + i % 2 + 1, i / 2 * 3 + i % 2 + 2); }
static const char *tu_graph(int i) { return line_of("%d\n", i / 3 + 1, 0); }
static const char *parity(int i) { return line_of("%d\n", i % 2, 0); }
static const char *half(int i) { return line_of("%d.5\n", i, 0); }

static mba_status read_tu(void) { return mba_tu_dataset_read(&store, scratch("DS")); }

static void a_tu_dataset_is_right_or_absent(void **state)
{
    (void)state;
    put_many("DS/DS_A.txt", 2 * GRAPHS, tu_edge);
    put_many("DS/DS_graph_indicator.txt", NODES, tu_graph);
    put_many("DS/DS_graph_labels.txt", GRAPHS, parity);
    expect(GRAPHS, NODES, 2 * GRAPHS);
    assert_true(starve(read_tu, check_store, NULL) > 20); // nodes are known by their degrees
    put_many("DS/DS_node_labels.txt", NODES, parity);
    put_many("DS/DS_node_attributes.txt", NODES, half);
    put_many("DS/DS_edge_labels.txt", 2 * GRAPHS, parity);
    assert_true(starve(read_tu, check_store, NULL) > 20);
    put_many("DS/DS_graph_attributes.txt", GRAPHS, half); // targets in place of classes
    assert_true(starve(read_tu, check_store, NULL) > 20);
}

/* ---- OGB ---- */

static const char *three(int i) { return line_of("3\n", i, 0); }
static const char *two(int i) { return line_of("2\n", i, 0); }
static const char *ogb_edge(int i) { return line_of("%d,%d\n", i % 2, i % 2 + 1); }
static const char *number(int i) { return line_of("%d\n", i, 0); }

static mba_status read_ogb(void)
{
    return mba_ogb_csv_read(&store, scratch("ogb"), &(mba_ogb_options){ .scheme = "random", .classes = 2 });
}

static void an_ogb_collection_is_right_or_absent(void **state)
{
    (void)state;
    put_many("ogb/raw/num-node-list.csv", GRAPHS, three);
    put_many("ogb/raw/num-edge-list.csv", GRAPHS, two);
    put_many("ogb/raw/edge.csv", 2 * GRAPHS, ogb_edge);
    put_many("ogb/raw/node-feat.csv", NODES, number);
    put_many("ogb/raw/edge-feat.csv", 2 * GRAPHS, half);
    put_many("ogb/raw/graph-label.csv", GRAPHS, parity);
    put_many("ogb/split/random/train.csv", GRAPHS, number);
    put("ogb/split/random/valid.csv", "");
    put("ogb/split/random/test.csv", "");
    expect(GRAPHS, NODES, 4 * GRAPHS);
    assert_true(starve(read_ogb, check_store, NULL) > 20);
}

/* Where the build can unpack. */
static void a_compressed_collection_is_right_or_absent(void **state)
{
    (void)state;
    char line[1024];
    snprintf(line, sizeof line, "gzip '%s' '%s'", scratch("ogb/raw/edge.csv"), scratch("ogb/raw/node-feat.csv"));
    if (system(line) != 0 || read_ogb() == MBA_E_UNSUPPORTED) skip();
    mba_graph_store_destroy(store);
    assert_true(starve(read_ogb, check_store, NULL) > 20);
}

/* ---- MalNet ---- */

static const char *malnet_edge(int i) { return line_of("%d %d\n", i, i / 2); }
static const char *malnet_id(int i) { return line_of("benign/x/%d\n", i % 2, 0); }

static mba_status read_malnet(void)
{
    static char list[MBA_SPLITS][512];
    for (int k = 0; k < MBA_SPLITS; k++)
        snprintf(list[k], sizeof list[k], "%s", scratch(k ? "m/none.txt" : "m/all.txt"));
    return mba_malnet_read(&store, scratch("m"), (const char *[]){ list[0], list[1], list[2] });
}

static void malnet_is_right_or_absent(void **state)
{
    (void)state;
    put_many("m/benign/x/0.edgelist", 100, malnet_edge);
    put_many("m/benign/x/1.edgelist", 30, malnet_edge);
    put_many("m/all.txt", 6, malnet_id);
    put("m/none.txt", "\n");
    expect(6, 3 * 100 + 3 * 30, 3 * 100 + 3 * 30); // the loop of node 0 counts as an edge
    assert_true(starve(read_malnet, check_store, NULL) > 20);
}

/* ---- the container, and features ---- */

static mba_status write_and_open(void)
{
    mba_graph_pack *p = NULL;
    mba_status      st = mba_graph_pack_write(scratch("p/set.graphpk"), mba_graph_store_set(store));
    if (st == MBA_OK) st = mba_graph_pack_open(&p, scratch("p/set.graphpk"));
    if (st == MBA_OK && mba_graph_pack_set(p)->nodes != NODES) st = mba_fail(MBA_E_FORMAT, "it changed");
    mba_graph_pack_close(p);
    return st;
}

static void check_nothing(void) {}
static void check_no_temporary(void) { assert_true(scratch_entries("p") <= 1); }

static void a_container_is_right_or_absent(void **state)
{
    (void)state;
    put("p/x", "");
    unlink(scratch("p/x"));
    assert_ok(read_tu());
    starve(write_and_open, check_nothing, check_no_temporary);
    mba_graph_store_destroy(store);
}

static mba_status read_with_features(void)
{
    MBA_TRY(read_tu());
    mba_status st = mba_graph_store_laplace(store, 4);
    if (st == MBA_OK) st = mba_graph_store_walks(store, 4);
    if (st != MBA_OK) mba_graph_store_destroy(store);
    return st;
}

static void features_are_right_or_absent(void **state)
{
    (void)state;
#ifdef __clang__
    skip(); // its OpenMP takes memory of its own in every parallel region, and aborts where there is none
#endif
    mba_cpu_set_threads(2); // with one thread GCC's OpenMP keeps no team between regions
    expect(GRAPHS, NODES, 2 * GRAPHS);
    assert_true(starve(read_with_features, check_store, NULL) > 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_tu_dataset_is_right_or_absent),
        cmocka_unit_test(an_ogb_collection_is_right_or_absent),
        cmocka_unit_test(a_compressed_collection_is_right_or_absent),
        cmocka_unit_test(malnet_is_right_or_absent),
        cmocka_unit_test(a_container_is_right_or_absent),
        cmocka_unit_test(features_are_right_or_absent),
    };
    scratch_make();
    const int failures = cmocka_run_group_tests(tests, NULL, NULL);
    scratch_remove();
    return failures;
}
#endif
