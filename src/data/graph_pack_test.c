// SPDX-License-Identifier: Apache-2.0
/* graph_pack_test.c -- the container GRAPHPK1: written files are read back, damaged files are refused with the
 * reason. */
#include "tests/test.h"
#include "tests/scratch.h"

#include "core/file.h"
#include "data/graph_pack.h"

/* Two graphs: 0 -> 1, 1 -> 0, 2 -> 1 on three nodes; one node without edges. */
static const uint32_t       src[] = { 1, 0, 2 }, dst[] = { 0, 1, 1 };
static const float          node_feat[] = { 1, 2, 3, 4, 5, 6 }, edge_feat[] = { 7, 8, 9 }, label[] = { 1, NAN, 0, 1 };
static const uint8_t        bytes_feat[] = { 1, 2, 3, 4, 5, 6 };
static const mba_graph_form full = {
    .node_width = 2,
    .node_type = MBA_GRAPH_F32,
    .edge_width = 1,
    .edge_type = MBA_GRAPH_F32,
    .label_width = 2,
    .label_type = MBA_GRAPH_F32,
    .classes = 2,
    .has_split = true,
};

static mba_graph_store *make_store(void)
{
    mba_graph_store *s;
    assert_ok(mba_graph_store_create(&s, &full));
    assert_ok(mba_graph_store_add(s, &(mba_graph_item){ .nodes = 3,
                                                        .edges = 3,
                                                        .src = src,
                                                        .dst = dst,
                                                        .node_feat = node_feat,
                                                        .edge_feat = edge_feat,
                                                        .label = label,
                                                        .split = MBA_SPLIT_VALID }));
    assert_ok(mba_graph_store_add(s, &(mba_graph_item){ .nodes = 1, .node_feat = node_feat, .label = label + 2 }));
    float *val, *vec, *rwse;
    assert_ok(mba_graph_store_add_lap(&val, &vec, s, 2));
    assert_ok(mba_graph_store_add_rwse(&rwse, s, 3));
    for (int i = 0; i < 4; i++) val[i] = i == 3 ? NAN : (float)i;
    for (int i = 0; i < 8; i++) vec[i] = i == 7 ? NAN : (float)i / 8;
    for (int i = 0; i < 12; i++) rwse[i] = (float)i / 12;
    return s;
}

/* Field by field: a struct may have padding. */
static void assert_same_form(const mba_graph_form *a, const mba_graph_form *b)
{
    assert_true(a->node_width == b->node_width && a->edge_width == b->edge_width && a->label_width == b->label_width);
    assert_true(a->node_type == b->node_type && a->edge_type == b->edge_type && a->label_type == b->label_type);
    assert_true(a->node_labels == b->node_labels && a->has_split == b->has_split && a->classes == b->classes);
    assert_true(a->lap_k == b->lap_k && a->rwse_k == b->rwse_k);
}

static void assert_same_set(const mba_graph_set *a, const mba_graph_set *b)
{
    const mba_graph_form *f = &a->form;
    assert_same_form(&a->form, &b->form);
    assert_true(a->graphs == b->graphs && a->nodes == b->nodes && a->edges == b->edges);
    assert_true(a->undirected == b->undirected && a->sorted == b->sorted);
    const size_t g = (size_t)a->graphs, v = (size_t)a->nodes, e = (size_t)a->edges;
    assert_memory_equal(a->node_ptr, b->node_ptr, (g + 1) * 8);
    assert_memory_equal(a->edge_ptr, b->edge_ptr, (g + 1) * 8);
    assert_memory_equal(a->src, b->src, e * 4);
    assert_memory_equal(a->dst, b->dst, e * 4);
    assert_memory_equal(a->node_feat, b->node_feat, v * (size_t)f->node_width * 4);
    assert_memory_equal(a->edge_feat, b->edge_feat, e * (size_t)f->edge_width * 4);
    assert_memory_equal(a->label, b->label, g * (size_t)f->label_width * 4);
    assert_memory_equal(a->split, b->split, g);
    assert_memory_equal(a->lap_val, b->lap_val, g * (size_t)f->lap_k * 4);
    assert_memory_equal(a->lap_vec, b->lap_vec, v * (size_t)f->lap_k * 4);
    assert_memory_equal(a->rwse, b->rwse, v * (size_t)f->rwse_k * 4);
}

static void what_is_written_is_read(void **state)
{
    (void)state;
    scratch_make();
    mba_graph_store *s = make_store();
    mba_graph_pack  *p;
    assert_ok(mba_graph_pack_write(scratch("a.graphpk"), mba_graph_store_set(s)));
    assert_ok(mba_graph_pack_open(&p, scratch("a.graphpk")));
    assert_same_set(mba_graph_store_set(s), mba_graph_pack_set(p));
    const mba_graph_item first = mba_graph_set_item(mba_graph_pack_set(p), 0);
    const mba_graph_item g = mba_graph_set_item(mba_graph_pack_set(p), 1);
    assert_true(g.nodes == 1 && g.edges == 0 && ((const float *)g.label)[1] == 1 && isnan(g.lap_val[1]));
    assert_true(g.split == MBA_SPLIT_TRAIN && first.split == MBA_SPLIT_VALID && g.rwse[0] == 9.0f / 12);
    mba_graph_pack_close(p);
    mba_graph_store_destroy(s);
    scratch_remove();
}

/* The smallest collection: no features, no labels, no edges. */
static void a_bare_collection_is_enough(void **state)
{
    (void)state;
    mba_graph_store *s;
    mba_graph_pack  *p;
    scratch_make();
    assert_ok(mba_graph_store_create(&s, &(mba_graph_form){ 0 }));
    assert_fails(mba_graph_pack_write(scratch("b.graphpk"), mba_graph_store_set(s)), MBA_E_FORMAT, "has no graphs");
    assert_ok(mba_graph_store_add(s, &(mba_graph_item){ .nodes = 4 }));
    assert_ok(mba_graph_pack_write(scratch("b.graphpk"), mba_graph_store_set(s)));
    assert_ok(mba_graph_pack_open(&p, scratch("b.graphpk")));
    const mba_graph_set *t = mba_graph_pack_set(p);
    assert_true(t->nodes == 4 && t->edges == 0 && t->undirected && t->sorted && !t->label && !t->split);
    mba_graph_pack_close(p);
    mba_graph_store_destroy(s);
    scratch_remove();
}

/* A file from tools/golden/graph_features.py: the two graphs above, with other features of the second. */
static void a_file_by_python_is_read(void **state)
{
    (void)state;
    mba_graph_pack *p;
    assert_ok(mba_graph_pack_open(&p, "tests/data/graphs/python.graphpk"));
    const mba_graph_set *s = mba_graph_pack_set(p);
    const mba_graph_item a = mba_graph_set_item(s, 0), b = mba_graph_set_item(s, 1);
    assert_same_form(&s->form, &full);
    assert_true(s->graphs == 2 && s->sorted && !s->undirected && a.edges == 3 && b.edges == 0 && b.nodes == 1);
    assert_memory_equal(a.src, src, sizeof src);
    assert_memory_equal(a.dst, dst, sizeof dst);
    assert_memory_equal(a.node_feat, node_feat, sizeof node_feat);
    assert_memory_equal(a.edge_feat, edge_feat, sizeof edge_feat);
    assert_true(isnan(((const float *)a.label)[1]) && ((const float *)b.label)[1] == 1 && a.split == MBA_SPLIT_VALID);
    mba_graph_pack_close(p);
}

static void direction_and_order_are_noticed(void **state)
{
    (void)state;
    mba_graph_store *s;
    assert_ok(mba_graph_store_create(&s, &(mba_graph_form){ .node_width = 3, .node_type = MBA_GRAPH_U8 }));
    const uint32_t a[] = { 1, 0 }, b[] = { 0, 1 };
    mba_graph_item g = { .nodes = 2, .edges = 2, .src = a, .dst = b, .node_feat = bytes_feat };
    assert_ok(mba_graph_store_add(s, &g));
    assert_true(mba_graph_store_set(s)->undirected && mba_graph_store_set(s)->sorted);
    g.src = b;
    g.dst = a;
    assert_ok(mba_graph_store_add(s, &g));
    assert_true(mba_graph_store_set(s)->undirected && !mba_graph_store_set(s)->sorted);
    g.edges = 1;
    assert_ok(mba_graph_store_add(s, &g));
    assert_true(!mba_graph_store_set(s)->undirected);
    mba_graph_store_destroy(s);
}

/* Sorted edges may begin with 0 -> 0 and may repeat, but never decrease. */
static void loops_and_repeated_edges_are_sorted(void **state)
{
    (void)state;
    static const uint64_t node_ptr[] = { 0, 2, 4 }, edge_ptr[] = { 0, 4, 6 };
    static const uint32_t from[] = { 0, 0, 1, 1, 0, 1 }, to[] = { 0, 0, 0, 1, 0, 0 }, back[] = { 0, 1, 0, 1, 0, 1 };
    mba_graph_set         s = { .graphs = 2,
                                .nodes = 4,
                                .edges = 6,
                                .sorted = true,
                                .node_ptr = node_ptr,
                                .edge_ptr = edge_ptr,
                                .src = from,
                                .dst = to };
    assert_ok(mba_graph_set_check(&s, "s"));
    s.src = back;
    assert_fails(mba_graph_set_check(&s, "s"), MBA_E_FORMAT, "graph 0: its edges are not sorted by target and source");
    s.sorted = false;
    assert_ok(mba_graph_set_check(&s, "s"));
}

static void a_graph_has_no_more_than_fits_an_int(void **state)
{
    (void)state;
    static const uint64_t none[] = { 0, 0 }, most[] = { 0, INT32_MAX }, more[] = { 0, (uint64_t)INT32_MAX + 1 };
    mba_graph_set         s = { .graphs = 1, .nodes = INT32_MAX, .node_ptr = most, .edge_ptr = none };
    assert_ok(mba_graph_set_check(&s, "s"));
    s.nodes++;
    assert_fails(mba_graph_set_check(&s, "s"), MBA_E_FORMAT, "graph 0: its nodes end at 2147483647, not at 2147483648");
    s.node_ptr = more;
    assert_fails(mba_graph_set_check(&s, "s"), MBA_E_FORMAT, "graph 0: it has more than 2147483647 nodes");
    s = (mba_graph_set){ .graphs = 1, .edges = (int64_t)INT32_MAX + 1, .node_ptr = none, .edge_ptr = more };
    assert_fails(mba_graph_set_check(&s, "s"), MBA_E_FORMAT, "graph 0: it has more than 2147483647 edges");
}

/* Classes of every type, of graphs and of nodes. */
static void a_label_is_one_of_the_classes(void **state)
{
    (void)state;
    static const uint64_t node_ptr[] = { 0, 1, 3 }, edge_ptr[] = { 0, 0, 0 };
    int32_t               whole[] = { 0, 1, 2 };
    uint8_t               small[] = { 0, 1, 2 };
    const mba_graph_form  form = { .label_width = 1, .label_type = MBA_GRAPH_I32, .classes = 3, .node_labels = true };
    mba_graph_set         s = {
                .graphs = 2, .nodes = 3, .node_ptr = node_ptr, .edge_ptr = edge_ptr, .label = whole, .form = form
    };
    assert_ok(mba_graph_set_check(&s, "s"));
    s.form.classes = 2;
    assert_fails(mba_graph_set_check(&s, "s"), MBA_E_FORMAT, "graph 1: label 0 of its row 1 is not one of 2 classes");
    s.form.node_labels = false; // one a graph: the third is not looked at
    assert_ok(mba_graph_set_check(&s, "s"));
    whole[0] = -1;
    assert_fails(mba_graph_set_check(&s, "s"), MBA_E_FORMAT, "graph 0: label 0 of its row 0");
    s.form.label_type = MBA_GRAPH_U8;
    s.label = small;
    assert_ok(mba_graph_set_check(&s, "s"));
    small[1] = 2;
    assert_fails(mba_graph_set_check(&s, "s"), MBA_E_FORMAT, "graph 1: label 0 of its row 0 is not one of 2 classes");
    s.form.classes = 0; // no classes but numbers
    assert_ok(mba_graph_set_check(&s, "s"));
}

static mba_status add(float feature, uint32_t target, float class, int split)
{
    mba_graph_store *s;
    const float      f[] = { 0, 0, 0, feature, 0, 0 }, y[] = { 0, class };
    const uint32_t   to[] = { 0, 1, target };
    assert_ok(mba_graph_store_create(&s, &full));
    mba_status st = mba_graph_store_add(s, &(mba_graph_item){ .nodes = 3,
                                                              .edges = 3,
                                                              .src = src,
                                                              .dst = to,
                                                              .node_feat = f,
                                                              .edge_feat = edge_feat,
                                                              .label = y,
                                                              .split = (mba_graph_split)split });
    assert_int_equal(mba_graph_store_set(s)->graphs, st == MBA_OK);
    mba_graph_store_destroy(s);
    return st;
}

static void a_store_refuses_what_a_pack_may_not_hold(void **state)
{
    (void)state;
    assert_ok(add(0, 2, 1, 2));
    assert_fails(add(NAN, 2, 1, 2), MBA_E_FORMAT, "graph 0: node feature 1 of its row 1 is not a number");
    assert_fails(add(INFINITY, 2, 1, 2), MBA_E_FORMAT, "is infinite");
    assert_fails(add(0, 3, 1, 2), MBA_E_FORMAT, "an edge goes from node 2 to node 3, but there are 3 nodes");
    assert_fails(add(0, 2, 2, 2), MBA_E_FORMAT, "label 1 of its row 0 is not one of 2 classes");
    assert_fails(add(0, 2, 0.5f, 2), MBA_E_FORMAT, "is not one of 2 classes");
    assert_fails(add(0, 2, -1, 2), MBA_E_FORMAT, "is not one of 2 classes");
    assert_fails(add(0, 2, 1, 3), MBA_E_FORMAT, "its split is 3");
}

/* ---- damage: changes one word of a sound file, and corrects the checksum of its section ---- */

static unsigned char file[4096] __attribute__((aligned(64)));
static size_t        file_bytes;

static void load(void)
{
    char            *text;
    size_t           n;
    mba_graph_store *s = make_store();
    assert_ok(mba_graph_pack_write(scratch("c.graphpk"), mba_graph_store_set(s)));
    assert_ok(mba_file_read(&text, &n, scratch("c.graphpk"), sizeof file));
    memcpy(file, text, n);
    file_bytes = n;
    free(text);
    mba_graph_store_destroy(s);
}

static mba_status open_file(size_t n)
{
    mba_graph_pack *p = NULL;
    mba_status      st = mba_graph_pack_open_bytes(&p, "file", file, n);
    mba_graph_pack_close(p);
    return st;
}

static unsigned char *entry_of(const char *tag)
{
    for (unsigned char *e = file + 128; e < file + 128 + 11 * 32; e += 32)
        if (!strncmp((char *)e, tag, 8)) return e;
    fail_msg("no section %s", tag);
    return NULL;
}

static mba_status damage_header(size_t at, uint64_t value, size_t bytes)
{
    load();
    memcpy(file + at, &value, bytes);
    return open_file(file_bytes);
}

static mba_status damage_entry(const char *tag, size_t at, uint64_t value, size_t bytes)
{
    load();
    memcpy(entry_of(tag) + at, &value, bytes);
    return open_file(file_bytes);
}

static mba_status damage_section(const char *tag, size_t at, uint64_t value, size_t bytes, bool right)
{
    load();
    unsigned char *e = entry_of(tag);
    uint64_t       offset, n;
    memcpy(&offset, e + 8, 8);
    memcpy(&n, e + 16, 8);
    memcpy(file + offset + at, &value, bytes);
    const uint32_t crc = mba_crc32(0, file + offset, n);
    if (right) memcpy(e + 24, &crc, 4);
    return open_file(file_bytes);
}

static void a_damaged_header_is_refused(void **state)
{
    (void)state;
    scratch_make();
    load();
    assert_ok(open_file(file_bytes));
    for (size_t n = 0; n < file_bytes; n++) // no beginning of a file is a file
        assert_fails(open_file(n), MBA_E_FORMAT, "not a valid file of graphs");
    assert_fails(damage_header(7, '2', 1), MBA_E_FORMAT, "does not begin");
    assert_fails(damage_header(8, 2, 4), MBA_E_UNSUPPORTED, "version 2");
    assert_fails(damage_header(12, 4, 4), MBA_E_FORMAT, "flags");
    assert_fails(damage_header(16, UINT64_MAX, 8), MBA_E_FORMAT, "counts more");
    assert_fails(damage_header(24, UINT64_MAX, 8), MBA_E_FORMAT, "counts more");
    assert_fails(damage_header(32, UINT64_MAX, 8), MBA_E_FORMAT, "counts more");
    assert_fails(damage_header(16, 1, 8), MBA_E_FORMAT, "section NODEPTR has another size");
    assert_fails(damage_header(24, 5, 8), MBA_E_FORMAT, "section NODEFEAT has another size");
    assert_fails(damage_header(32, 2, 8), MBA_E_FORMAT, "section EDGESRC has another size");
    assert_fails(damage_header(40, UINT32_MAX, 4), MBA_E_FORMAT, "node features");
    assert_fails(damage_header(52, 0, 4), MBA_E_FORMAT, "edge features");
    assert_fails(damage_header(64, 4, 4), MBA_E_FORMAT, "labels");
    assert_fails(damage_header(56, 2, 4), MBA_E_FORMAT, "label level");
    assert_fails(damage_header(68, UINT32_MAX, 4), MBA_E_FORMAT, "classes");
    assert_fails(damage_header(76, UINT32_MAX, 4), MBA_E_FORMAT, "positional");
    assert_fails(damage_header(76, 0, 4), MBA_E_FORMAT, "section RWSE is there, though");
    assert_fails(damage_header(80, 12, 4), MBA_E_FORMAT, "number of sections");
    assert_fails(damage_header(80, 10, 4), MBA_E_FORMAT, "section RWSE is missing");
    assert_fails(damage_header(127, 1, 1), MBA_E_FORMAT, "end of its header");
    scratch_remove();
}

static void a_damaged_section_is_refused(void **state)
{
    (void)state;
    scratch_make();
    assert_fails(damage_entry("LABEL", 0, 'X', 1), MBA_E_FORMAT, "section XABEL does not exist");
    assert_fails(damage_entry("EDGESRC", 4, 0x545344, 3), MBA_E_FORMAT, "section EDGEDST is there twice");
    assert_fails(damage_entry("LABEL", 8, 8, 4), MBA_E_FORMAT, "section LABEL is not inside");
    assert_fails(damage_entry("LABEL", 8, 1 << 20, 8), MBA_E_FORMAT, "section LABEL is not inside");
    assert_fails(damage_entry("LABEL", 16, UINT64_MAX, 8), MBA_E_FORMAT, "section LABEL is not inside");
    assert_fails(damage_entry("LABEL", 16, 8, 8), MBA_E_FORMAT, "section LABEL has another size");
    assert_fails(damage_entry("LABEL", 28, 1, 1), MBA_E_FORMAT, "does not end in zero");
    assert_fails(damage_section("LABEL", 0, 7, 1, false), MBA_E_FORMAT, "section LABEL has a wrong checksum");
    assert_fails(damage_section("NODEPTR", 0, 1, 8, true), MBA_E_FORMAT, "graph 0: its nodes begin at 1");
    assert_fails(damage_section("NODEPTR", 8, 5, 8, true), MBA_E_FORMAT, "graph 0: its nodes run from 0 to 5 of 4");
    assert_fails(damage_section("EDGEPTR", 16, 2, 8, true), MBA_E_FORMAT, "graph 1: its edges run from 3 to 2 of 3");
    assert_fails(damage_section("NODEPTR", 16, 3, 8, true), MBA_E_FORMAT, "graph 1: its nodes end at 3, not at 4");
    assert_fails(damage_section("NODEPTR", 8, 2, 8, true), MBA_E_FORMAT, "graph 0: an edge goes from node 2 to node 1");
    assert_fails(damage_section("EDGESRC", 8, UINT32_MAX, 4, true), MBA_E_FORMAT, "node 4294967295");
    assert_fails(damage_section("EDGEDST", 4, 0, 4, true), MBA_E_FORMAT, "not sorted");
    assert_fails(damage_section("NODEFEAT", 24, 0x7fc00000, 4, true), MBA_E_FORMAT,
                 "graph 1: node feature 0 of its row 0 is not a number");
    assert_fails(damage_section("EDGEFEAT", 8, 0x7f800000, 4, true), MBA_E_FORMAT,
                 "edge feature 0 of its row 2 is infinite");
    assert_fails(damage_section("LABEL", 8, 0x40000000, 4, true), MBA_E_FORMAT, "graph 1: label 0");
    assert_fails(damage_section("SPLIT", 1, 9, 1, true), MBA_E_FORMAT, "graph 1: its split is 9");
    assert_fails(damage_section("LAPVEC", 0, 0x7f800000, 4, true), MBA_E_FORMAT, "eigenvector entry");
    assert_fails(damage_section("RWSE", 0, 0x7fc00000, 4, true), MBA_E_FORMAT, "return probability");
    scratch_remove();
}

static void checksums_are_the_known_ones(void **state)
{
    (void)state;
    assert_true(mba_crc32(0, "123456789", 9) == 0xCBF43926u); // the check value of CRC-32
    assert_true(mba_crc32(mba_crc32(0, "12345", 5), "6789", 4) == 0xCBF43926u);
    assert_true(mba_crc32(0, "", 0) == 0);
}

MBA_TEST_MAIN(cmocka_unit_test(what_is_written_is_read), cmocka_unit_test(a_bare_collection_is_enough),
              cmocka_unit_test(a_file_by_python_is_read), cmocka_unit_test(direction_and_order_are_noticed),
              cmocka_unit_test(loops_and_repeated_edges_are_sorted),
              cmocka_unit_test(a_graph_has_no_more_than_fits_an_int), cmocka_unit_test(a_label_is_one_of_the_classes),
              cmocka_unit_test(a_store_refuses_what_a_pack_may_not_hold), cmocka_unit_test(a_damaged_header_is_refused),
              cmocka_unit_test(a_damaged_section_is_refused), cmocka_unit_test(checksums_are_the_known_ones))
