// SPDX-License-Identifier: Apache-2.0
/* graph_readers_test.c -- small TUDataset, OGB and MalNet collections: read correctly, damage reported by its kind. */
#include "tests/test.h"
#include "tests/scratch.h"

#include "core/file.h"
#include "data/graph_pack.h"
#include "data/graph_readers.h"

static void put(const char *name, const char *text)
{
    char *dir = strdup(scratch(name));
    *strrchr(dir, '/') = 0;
    assert_ok(mba_mkdirs(dir));
    free(dir);
    FILE *f = fopen(scratch(name), "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, strlen(text), f), strlen(text));
    assert_int_equal(fclose(f), 0);
}

/* ---- tables ---- */

static mba_status table(mba_number_table *t, const char *text, mba_number_table_form form)
{
    return mba_number_table_read(t, &(mba_named_text){ "table", text, strlen(text) }, &form);
}

static void tables_are_read(void **state)
{
    (void)state;
    mba_number_table t;
    assert_ok(table(&t, "1, 2\r\n3,\t-4\n5 6", (mba_number_table_form){ 0 }));
    assert_true(t.rows == 3 && t.columns == 2 && t.whole && t.value[3] == -4 && t.value[5] == 6);
    mba_number_table_free(&t);
    assert_ok(table(&t, "1.5,,2e-3\n,,\n\n\n", (mba_number_table_form){ .missing = true }));
    assert_true(t.rows == 2 && t.columns == 3 && !t.whole && t.value[2] == 0.002);
    assert_true(isnan(t.value[1]) && isnan(t.value[5]));
    mba_number_table_free(&t);
    assert_ok(table(&t, "1\n\n0\n", (mba_number_table_form){ .missing = true }));
    assert_true(t.rows == 3 && t.columns == 1 && isnan(t.value[1]));
    mba_number_table_free(&t);
    assert_ok(table(&t, "# a\n# b\n1 2\n", (mba_number_table_form){ .comment = '#' }));
    assert_true(t.rows == 1 && t.value[1] == 2);
    mba_number_table_free(&t);
    assert_ok(table(&t, "", (mba_number_table_form){ .may_be_empty = true }));
    mba_number_table_free(&t);
    assert_fails(table(&t, "", (mba_number_table_form){ 0 }), MBA_E_FORMAT, "'table' has no values");
    assert_fails(table(&t, "1\n\n2\n", (mba_number_table_form){ 0 }), MBA_E_FORMAT, "line 2, is wrong");
    assert_fails(table(&t, "1 2\n3\n", (mba_number_table_form){ 0 }), MBA_E_FORMAT, "'3' has 1 fields instead of 2");
    assert_fails(table(&t, "1\nx\n", (mba_number_table_form){ 0 }), MBA_E_FORMAT, "'x' is not a number");
    assert_fails(table(&t, "1\nnan\n", (mba_number_table_form){ 0 }), MBA_E_FORMAT, "(NaN)");
    assert_fails(table(&t, "inf\n", (mba_number_table_form){ 0 }), MBA_E_FORMAT, "infinite");
    assert_fails(table(&t, "1e39\n", (mba_number_table_form){ 0 }), MBA_E_FORMAT, "too large");
    assert_fails(table(&t, "1.5\n", (mba_number_table_form){ .whole = true }), MBA_E_FORMAT, "not a whole number");
    assert_fails(table(&t, "1e17\n", (mba_number_table_form){ .whole = true }), MBA_E_FORMAT, "too large");
    assert_fails(table(&t, "1,\n", (mba_number_table_form){ 0 }), MBA_E_FORMAT, "'' is not a number");
    assert_fails(table(&t, "1 2,3\n", (mba_number_table_form){ .missing = true }), MBA_E_FORMAT,
                 "two values in one field");
}

static void compressed_files_are_read_or_refused(void **state)
{
    (void)state;
    static const unsigned char gz[] = {
        // printf '1,2\n3,4\n' | gzip -n
        0x1f, 0x8b, 0x08, 0,    0,    0,    0,    0,    0,    0x03, 0x33, 0xd4, 0x31, 0xe2,
        0x32, 0xd6, 0x31, 0xe1, 0x02, 0x00, 0x47, 0x93, 0x6c, 0xaf, 0x08, 0,    0,    0,
    };
    mba_number_table t;
    scratch_make();
    for (size_t n = 2; n <= sizeof gz; n++) {
        FILE *f = fopen(scratch("t.gz"), "wb");
        assert_int_equal(fwrite(gz, 1, n, f), n);
        fclose(f);
        const mba_status st = mba_number_table_load(&t, scratch("t.gz"), &(mba_number_table_form){ .columns = 2 });
        if (st == MBA_E_UNSUPPORTED) break; // built without zlib
        if (n < sizeof gz) assert_fails(st, MBA_E_FORMAT, "cannot be unpacked");
        if (n < sizeof gz) continue;
        assert_ok(st);
        assert_true(t.rows == 2 && t.value[3] == 4);
        mba_number_table_free(&t);
    }
    scratch_remove();
}

/* A file that expands a thousand times: no table does, and the limit applies before it is unpacked. */
static void a_bomb_is_refused(void **state)
{
    char             line[4096];
    mba_number_table t;
    (void)state;
    scratch_make();
    snprintf(line, sizeof line, "yes 0,0 | head -c 70000000 | gzip -n >'%s'", scratch("bomb.gz"));
    if (system(line) == 0)
        assert_fails(mba_number_table_load(&t, scratch("bomb.gz"), &(mba_number_table_form){ .columns = 2 }),
                     MBA_E_UNSUPPORTED, "");
    scratch_remove();
}

/* ---- TUDataset ---- */

/* Two graphs, of three nodes and of two; one self loop, one duplicate, edges of the graphs mixed. */
static mba_named_text tu[MBA_TU_FILES];

static void reset_tu(void)
{
    static const char *const text[MBA_TU_FILES] = {
        [MBA_TU_EDGES] = "4, 5\n1, 2\n2, 1\n5, 4\r\n3, 3\n1, 2\n2, 3",
        [MBA_TU_INDICATOR] = "1\n1\n1\n2\n2\n",
        [MBA_TU_GRAPH_LABELS] = "1\n-1\n",
        [MBA_TU_NODE_LABELS] = "5,0\n6,0\n5,2\n5,0\n5,0\n",
        [MBA_TU_NODE_ATTRIBUTES] = "0.5\n1.5\n2.5\n3.5\n4.5\n",
        [MBA_TU_EDGE_LABELS] = "1\n2\n1\n1\n1\n1\n3\n",
    };
    static const char *const names[MBA_TU_FILES] = {
        "A", "indicator", "labels", "attributes", "node labels", "node attributes", "edge labels", "edge attributes"
    };
    for (int k = 0; k < MBA_TU_FILES; k++) tu[k] = (mba_named_text){ names[k], text[k], text[k] ? strlen(text[k]) : 0 };
}

/* Reads the collection with one text replaced; NULL: taken away. */
static mba_status tu_with(int file, const char *text)
{
    mba_graph_store *s = NULL;
    reset_tu();
    tu[file].text = text;
    tu[file].bytes = text ? strlen(text) : 0;
    const mba_status st = mba__tu_from_texts(&s, tu);
    mba_graph_store_destroy(s);
    return st;
}

static void a_tu_dataset_is_read(void **state)
{
    (void)state;
    mba_graph_store *s;
    reset_tu();
    assert_ok(mba__tu_from_texts(&s, tu));
    const mba_graph_set *t = mba_graph_store_set(s);
    assert_true(t->graphs == 2 && t->nodes == 5 && t->edges == 5 && t->sorted && !t->undirected);
    assert_true(t->form.classes == 2 && t->form.node_width == 1 + 2 + 3 && t->form.edge_width == 3);
    const int32_t *y = t->label;
    assert_true(y[0] == 1 && y[1] == 0); // -1 becomes 0, 1 becomes 1
    const mba_graph_item  a = mba_graph_set_item(t, 0), b = mba_graph_set_item(t, 1);
    static const uint32_t src[] = { 1, 0, 1 }, dst[] = { 0, 1, 2 };
    assert_true(a.nodes == 3 && a.edges == 3 && b.nodes == 2 && b.edges == 2);
    assert_memory_equal(a.src, src, sizeof src);
    assert_memory_equal(a.dst, dst, sizeof dst);
    assert_true(b.src[0] == 1 && b.dst[0] == 0 && b.src[1] == 0 && b.dst[1] == 1);
    static const float third[] = { 2.5f, 1, 0, 0, 0, 1 }, edges[] = { 1, 0, 0, 0, 1, 0, 0, 0, 1 };
    assert_memory_equal((const float *)a.node_feat + 12, third, sizeof third);
    assert_memory_equal(a.edge_feat, edges, sizeof edges); // of 1 -> 2 the first copy: label 2
    mba_graph_store_destroy(s);
    reset_tu();
    tu[MBA_TU_GRAPH_ATTRIBUTES] = (mba_named_text){ "attributes", "0.5,1\n1.5,2\n", 12 };
    assert_ok(mba__tu_from_texts(&s, tu));
    t = mba_graph_store_set(s);
    assert_true(t->form.classes == 0 && t->form.label_width == 2 && ((const float *)t->label)[2] == 1.5f);
    mba_graph_store_destroy(s);
}

static void damage_of_a_tu_dataset_is_named(void **state)
{
    (void)state;
    assert_fails(tu_with(MBA_TU_EDGES, "1, 2\n2, 6\n"), MBA_E_FORMAT, "lines instead of 2");
    assert_fails(tu_with(MBA_TU_EDGES, "1,2\n1,2\n1,2\n1,2\n1,2\n1,2\n2,6\n"), MBA_E_FORMAT,
                 "'A', line 7, is wrong\nwhy: the edge 2 -> 6 goes to a node that is not there");
    assert_fails(tu_with(MBA_TU_EDGES, "1,2\n1,2\n1,2\n1,2\n1,2\n1,2\n0,1\n"), MBA_E_FORMAT, "0 -> 1");
    assert_fails(tu_with(MBA_TU_EDGES, "1,2\n1,2\n1,2\n1,2\n1,2\n1,2\n3,4\n"), MBA_E_FORMAT,
                 "from one graph to another");
    assert_fails(tu_with(MBA_TU_INDICATOR, "1\n1\n2\n1\n2\n"), MBA_E_FORMAT, "goes down from 2 to 1");
    assert_fails(tu_with(MBA_TU_INDICATOR, "1\n1\n2\n2\n3\n"), MBA_E_FORMAT,
                 "belongs to graph 3, but there are labels for 2");
    assert_fails(tu_with(MBA_TU_INDICATOR, "2\n2\n2\n2\n2\n"), MBA_E_FORMAT, "graph 1 has no nodes");
    assert_fails(tu_with(MBA_TU_INDICATOR, "1\n1\n1\n1\n1\n"), MBA_E_FORMAT, "graph 2 has no nodes");
    assert_fails(tu_with(MBA_TU_NODE_ATTRIBUTES, "0.5\n1.5\nnan\n3.5\n4.5\n"), MBA_E_FORMAT,
                 "'node attributes', line 3");
    assert_fails(tu_with(MBA_TU_NODE_ATTRIBUTES, "0.5\n1.5\n-inf\n3.5\n4.5\n"), MBA_E_FORMAT, "infinite");
    assert_fails(tu_with(MBA_TU_EDGE_ATTRIBUTES, "1\n1\n1\n1\n1\n1\nNaN\n"), MBA_E_FORMAT,
                 "'edge attributes', line 7, is wrong\nwhy: 'NaN' stands for a value that is not a number");
    assert_fails(tu_with(MBA_TU_GRAPH_ATTRIBUTES, "0.5\nnan\n"), MBA_E_FORMAT, "'attributes', line 2");
    assert_fails(tu_with(MBA_TU_NODE_ATTRIBUTES, "0.5\n1.5\n"), MBA_E_FORMAT, "has 2 lines instead of 5");
    assert_fails(tu_with(MBA_TU_NODE_LABELS, "0\n1\n2\n3\n999999\n"), MBA_E_UNSUPPORTED, "too many values");
    assert_fails(tu_with(MBA_TU_GRAPH_LABELS, ""), MBA_E_FORMAT, "'labels' has no values");
    assert_fails(tu_with(MBA_TU_GRAPH_LABELS, NULL), MBA_E_FORMAT, "there is no 'labels'");
    assert_fails(tu_with(MBA_TU_INDICATOR, ""), MBA_E_FORMAT, "'indicator' has no values");
}

static void a_tu_folder_is_read(void **state)
{
    (void)state;
    mba_graph_store *s;
    scratch_make();
    put("DS/DS_A.txt", "1, 2\n2, 1\n");
    put("DS/DS_graph_indicator.txt", "1\n1\n");
    put("DS/DS_graph_labels.txt", "7\n");
    char folder[600];
    snprintf(folder, sizeof folder, "%s/", scratch("DS"));
    assert_ok(mba_tu_dataset_read(&s, folder));
    assert_true(mba_graph_store_set(s)->edges == 2 && mba_graph_store_set(s)->undirected);
    assert_int_equal(mba_graph_store_set(s)->form.node_width, 5); // degrees, where there is nothing else
    static const float around[10] = { 1, 1, 1, 1, 0, 1, 1, 1, 1, 0 };
    assert_memory_equal(mba_graph_store_set(s)->node_feat, around, sizeof around);
    mba_graph_store_destroy(s);
    assert_int_equal(rename(scratch("DS"), scratch("mine")), 0); // renamed
    assert_ok(mba_tu_dataset_read(&s, scratch("mine")));
    mba_graph_store_destroy(s);
    put("geometric/processed/data.pt", "");
    assert_int_equal(rename(scratch("mine"), scratch("geometric/raw")), 0); // as PyTorch Geometric keeps it
    assert_true(mba_is_tu_dataset(scratch("geometric")));
    assert_ok(mba_tu_dataset_read(&s, scratch("geometric")));
    mba_graph_store_destroy(s);
    put("geometric/raw/OTHER_graph_indicator.txt", "1\n1\n"); // which of the two?
    assert_false(mba_is_tu_dataset(scratch("geometric")));
    unlink(scratch("geometric/raw/OTHER_graph_indicator.txt"));
    assert_int_equal(rename(scratch("geometric/raw"), scratch("DS")), 0);
    unlink(scratch("DS/DS_A.txt"));
    assert_fails(mba_tu_dataset_read(&s, scratch("DS")), MBA_E_IO, "DS_A.txt");
    scratch_remove();
}

/* ---- OGB ---- */

static void put_ogb(void)
{
    put("ogb/raw/num-node-list.csv", "3\n2\n");
    put("ogb/raw/num-edge-list.csv", "2\n1\n");
    put("ogb/raw/edge.csv", "0,1\n1,2\n0,1\n");
    put("ogb/raw/node-feat.csv", "5,0\n6,1\n7,2\n5,0\n5,1\n");
    put("ogb/raw/edge-feat.csv", "0.5\n1.5\n2.5\n");
    put("ogb/raw/graph-label.csv", "1,\n0,1\n");
    put("ogb/split/random/train.csv", "1\n");
    put("ogb/split/random/valid.csv", "");
    put("ogb/split/random/test.csv", "0\n");
}

static mba_status read_ogb(mba_graph_store **s, const char *file, const char *text)
{
    put_ogb();
    if (file) put(file, text);
    return mba_ogb_csv_read(s, scratch("ogb"), &(mba_ogb_options){ .scheme = "random", .classes = 2 });
}

static void an_ogb_collection_is_read(void **state)
{
    (void)state;
    mba_graph_store *s;
    scratch_make();
    assert_ok(read_ogb(&s, NULL, NULL));
    const mba_graph_set *t = mba_graph_store_set(s);
    assert_true(t->graphs == 2 && t->nodes == 5 && t->edges == 6 && t->undirected);
    assert_true(t->form.node_type == MBA_GRAPH_I32 && t->form.edge_type == MBA_GRAPH_F32);
    static const uint32_t src[] = { 0, 1, 1, 2 }, dst[] = { 1, 0, 2, 1 };
    const mba_graph_item  a = mba_graph_set_item(t, 0), b = mba_graph_set_item(t, 1);
    assert_memory_equal(a.src, src, sizeof src);
    assert_memory_equal(a.dst, dst, sizeof dst);
    assert_true(((const float *)a.edge_feat)[1] == 0.5f && ((const float *)a.edge_feat)[2] == 1.5f);
    assert_true(((const int32_t *)b.node_feat)[3] == 1 && isnan(((const float *)a.label)[1]));
    assert_true(a.split == MBA_SPLIT_TEST && b.split == MBA_SPLIT_TRAIN);
    mba_graph_store_destroy(s);
    assert_ok(mba_ogb_csv_read(&s, scratch("ogb"), &(mba_ogb_options){ .directed = true }));
    assert_true(mba_graph_store_set(s)->edges == 3 && !mba_graph_store_set(s)->split);
    mba_graph_store_destroy(s);
    scratch_remove();
}

/* OGB does not say whether its labels are classes; their values do. */
static void labels_of_an_ogb_collection_tell_their_classes(void **state)
{
    (void)state;
    static const struct {
        const char    *labels;
        int64_t        classes;
        mba_graph_type type;
    } cases[] = {
        { "1,\n0,1\n", 2, MBA_GRAPH_F32 },  { "1\n0\n", 2, MBA_GRAPH_I32 },    { "0\n36\n", 37, MBA_GRAPH_I32 },
        { "0\n0\n", 2, MBA_GRAPH_I32 },     { "0.5\n1\n", 0, MBA_GRAPH_F32 },  { "-1\n1\n", 0, MBA_GRAPH_F32 },
        { "0,2\n1,1\n", 0, MBA_GRAPH_F32 }, { "0\n1000\n", 0, MBA_GRAPH_F32 },
    };
    mba_graph_store *s;
    scratch_make();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        put_ogb();
        put("ogb/raw/graph-label.csv", cases[i].labels);
        assert_ok(mba_ogb_csv_read(&s, scratch("ogb"), &(mba_ogb_options){ .classes = MBA_OGB_BY_VALUE }));
        assert_int_equal(mba_graph_store_set(s)->form.classes, cases[i].classes);
        assert_int_equal(mba_graph_store_set(s)->form.label_type, cases[i].type);
        mba_graph_store_destroy(s);
    }
    scratch_remove();
}

static void damage_of_an_ogb_collection_is_named(void **state)
{
    (void)state;
    mba_graph_store *s = NULL;
    scratch_make();
    assert_fails(read_ogb(&s, "ogb/raw/edge.csv", "0,1\n1,3\n0,1\n"), MBA_E_FORMAT,
                 "the edge 1 -> 3 goes to a node that");
    assert_fails(read_ogb(&s, "ogb/raw/edge.csv", "0,1\n1,2\n"), MBA_E_FORMAT, "has 2 lines instead of 3");
    assert_fails(read_ogb(&s, "ogb/raw/num-node-list.csv", "3\n0\n"), MBA_E_FORMAT, "graph 1 cannot have 0 nodes");
    assert_fails(read_ogb(&s, "ogb/raw/num-node-list.csv", ""), MBA_E_FORMAT, "has no values");
    assert_fails(read_ogb(&s, "ogb/raw/num-edge-list.csv", "2\n-1\n"), MBA_E_FORMAT, "cannot have -1 edges");
    assert_fails(read_ogb(&s, "ogb/raw/node-feat.csv", "5,0\n6,1\n7,nan\n5,0\n5,1\n"), MBA_E_FORMAT, "line 3");
    assert_fails(read_ogb(&s, "ogb/raw/edge-feat.csv", "0.5\n1.5\nnan\n"), MBA_E_FORMAT, "edge-feat.csv', line 3");
    assert_fails(read_ogb(&s, "ogb/raw/edge-feat.csv", "0.5\n1e999\n1\n"), MBA_E_FORMAT, "infinite or too large");
    assert_fails(read_ogb(&s, "ogb/raw/graph-label.csv", "1\n2\n"), MBA_E_FORMAT, "is not one of 2 classes");
    assert_fails(read_ogb(&s, "ogb/raw/graph-label.csv", "-1\n0\n"), MBA_E_FORMAT, "is not one of 2 classes");
    assert_fails(read_ogb(&s, "ogb/raw/graph-label.csv", "1,0\n0,2\n"), MBA_E_FORMAT, "is not one of 2 classes");
    assert_fails(read_ogb(&s, "ogb/split/random/test.csv", "2\n"), MBA_E_FORMAT, "there is no graph 2");
    assert_fails(read_ogb(&s, "ogb/split/random/test.csv", "1\n"), MBA_E_FORMAT, "graph 1 is in the split twice");
    assert_fails(read_ogb(&s, "ogb/split/random/test.csv", ""), MBA_E_FORMAT, "graph 0 is in no part");
    assert_fails(
        mba__ogb_from_texts(&s, (const mba_named_text[MBA_OGB_FILES]){ [MBA_OGB_NODE_COUNT] = { .name = "counts" } },
                            &(mba_ogb_options){ 0 }),
        MBA_E_FORMAT, "there is no 'counts'");
    put_ogb();
    assert_fails(mba_ogb_csv_read(&s, scratch("ogb"), &(mba_ogb_options){ .scheme = "scaffold" }), MBA_E_IO,
                 "train.csv");
    unlink(scratch("ogb/raw/edge.csv"));
    assert_fails(mba_ogb_csv_read(&s, scratch("ogb"), &(mba_ogb_options){ 0 }), MBA_E_IO, "edge.csv");
    assert_null(s);
    scratch_remove();
}

/* ---- MalNet ---- */

static mba_status read_malnet(mba_graph_store **s, const char *edges, const char *train)
{
    put("g/benign/x/1.edgelist", "# a\n# b\n# c\n# d\n# e\n7 9\n9 9\n3 3\n7 12\n");
    put("g/trojan/y/2.edgelist", edges);
    put("g/train.txt", train);
    put("g/val.txt", "trojan/y/2\n");
    put("g/test.txt", "");
    char a[512], b[512], c[512];
    strcpy(a, scratch("g/train.txt"));
    strcpy(b, scratch("g/val.txt"));
    strcpy(c, scratch("g/test.txt"));
    return mba_malnet_read(s, scratch("g"), (const char *[]){ a, b, c });
}

static void malnet_graphs_are_read(void **state)
{
    (void)state;
    mba_graph_store *s;
    scratch_make();
    assert_ok(read_malnet(&s, "0 1\n", "benign/x/1\r\n\n"));
    const mba_graph_set *t = mba_graph_store_set(s);
    const mba_graph_item a = mba_graph_set_item(t, 0), b = mba_graph_set_item(t, 1);
    assert_true(t->graphs == 2 && a.nodes == 3 && a.edges == 3 && b.nodes == 2); // 3 is gone, 9 keeps its loop
    static const uint32_t src[] = { 0, 1, 0 }, dst[] = { 1, 1, 2 };
    assert_memory_equal(a.src, src, sizeof src);
    assert_memory_equal(a.dst, dst, sizeof dst);
    const float *f = a.node_feat;
    assert_true(f[0] == 2 && f[1] == 0 && f[2] == 1 && f[3] == 0.5f); // neighbours of degree 1 and 0
    assert_near(f[4], sqrt(0.5 / (1 + 1e-6)), 1e-6);
    assert_true(((const int32_t *)a.label)[0] == 2 && ((const int32_t *)b.label)[0] == 4);
    assert_true(a.split == MBA_SPLIT_TRAIN && b.split == MBA_SPLIT_VALID);
    assert_ok(mba_graph_pack_write(scratch("m.graphpk"), t));
    mba_graph_store_destroy(s);
    assert_ok(read_malnet(&s, "0 1\n", "benign/x/1\ntrojan/y/2")); // the last line has no end
    assert_int_equal(mba_graph_store_set(s)->graphs, 3);
    mba_graph_store_destroy(s);
    scratch_remove();
}

static void damage_of_malnet_is_named(void **state)
{
    (void)state;
    mba_graph_store *s = NULL;
    scratch_make();
    assert_fails(read_malnet(&s, "4 4\n", "benign/x/1\n"), MBA_E_FORMAT, "2.edgelist' has no nodes");
    assert_fails(read_malnet(&s, "", "benign/x/1\n"), MBA_E_FORMAT, "2.edgelist' has no values");
    assert_fails(read_malnet(&s, "1 2 3\n", "benign/x/1\n"), MBA_E_FORMAT, "3 fields instead of 2");
    assert_fails(read_malnet(&s, "nan 2\n", "benign/x/1\n"), MBA_E_FORMAT, "2.edgelist', line 1");
    assert_fails(read_malnet(&s, "1 4294967296\n", "benign/x/1\n"), MBA_E_FORMAT, "an impossible edge");
    assert_fails(read_malnet(&s, "-1 2\n", "benign/x/1\n"), MBA_E_FORMAT, "goes from -1 to 2");
    assert_fails(read_malnet(&s, "1 2\n", "goodware/x/1\n"), MBA_E_FORMAT,
                 "'goodware/x/1' does not begin with a class");
    assert_fails(read_malnet(&s, "1 2\n", "benign/../../x\n"), MBA_E_FORMAT, "is not a path below a folder");
    assert_fails(read_malnet(&s, "1 2\n", "benign/x/3\n"), MBA_E_IO, "3.edgelist");
    char empty[512];
    strcpy(empty, scratch("g/test.txt"));
    assert_fails(mba_malnet_read(&s, scratch("g"), (const char *[]){ empty, empty, empty }), MBA_E_FORMAT, "no graphs");
    assert_null(s);
    scratch_remove();
}

MBA_TEST_MAIN(cmocka_unit_test(tables_are_read), cmocka_unit_test(compressed_files_are_read_or_refused),
              cmocka_unit_test(a_bomb_is_refused), cmocka_unit_test(a_tu_dataset_is_read),
              cmocka_unit_test(damage_of_a_tu_dataset_is_named), cmocka_unit_test(a_tu_folder_is_read),
              cmocka_unit_test(an_ogb_collection_is_read),
              cmocka_unit_test(labels_of_an_ogb_collection_tell_their_classes),
              cmocka_unit_test(damage_of_an_ogb_collection_is_named), cmocka_unit_test(malnet_graphs_are_read),
              cmocka_unit_test(damage_of_malnet_is_named))
