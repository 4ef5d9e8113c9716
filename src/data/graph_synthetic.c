// SPDX-License-Identifier: Apache-2.0
/* graph_synthetic.c -- see graph_synthetic.h. The generators are in graph_synthetic_*.c. */
#include "data/graph_synthetic.h"

#include <string.h>

#include "data/graph_draft.h"
#include "data/graph_features.h"

/* `same` names the collection that shares the graphs: both kinds of peptides are the same molecules. */
static const struct {
    const char     *name, *same;
    mba_draft_make *make;
    mba_graph_form  form;
} kinds[MBA_SYNTHETICS] = {
// clang-format off
#define FORM(nw, nt, ew, et, lw, lt, ...)                                                                \
    { .node_width = nw, .node_type = MBA_GRAPH_##nt, .edge_width = ew, .edge_type = MBA_GRAPH_##et,      \
      .label_width = lw, .label_type = MBA_GRAPH_##lt, .has_split = true, __VA_ARGS__ }
    // clang-format on
    [MBA_SYNTHETIC_VOC] = { "voc", "voc", mba__draft_superpixels,
                            FORM(14, F32, 2, F32, 1, I32, .classes = 21, .node_labels = true) },
    [MBA_SYNTHETIC_COCO] = { "coco", "coco", mba__draft_superpixels,
                             FORM(14, F32, 2, F32, 1, I32, .classes = 81, .node_labels = true) },
    [MBA_SYNTHETIC_PEPTIDES_FUNC] = { "peptides-func", "peptides", mba__draft_peptide,
                                      FORM(9, I32, 3, I32, 10, F32, .classes = 2) },
    [MBA_SYNTHETIC_PEPTIDES_STRUCT] = { "peptides-struct", "peptides", mba__draft_peptide,
                                        FORM(9, I32, 3, I32, 11, F32, .classes = 0) },
    [MBA_SYNTHETIC_MNIST] = { "mnist", "mnist", mba__draft_points, FORM(3, F32, 1, F32, 1, I32, .classes = 10) },
    [MBA_SYNTHETIC_CIFAR10] = { "cifar10", "cifar10", mba__draft_points, FORM(5, F32, 1, F32, 1, I32, .classes = 10) },
    [MBA_SYNTHETIC_PATTERN] = { "pattern", "pattern", mba__draft_blocks,
                                FORM(3, F32, 0, NONE, 1, I32, .classes = 2, .node_labels = true) },
    [MBA_SYNTHETIC_CLUSTER] = { "cluster", "cluster", mba__draft_blocks,
                                FORM(7, F32, 0, NONE, 1, I32, .classes = 6, .node_labels = true) },
    [MBA_SYNTHETIC_MALNET] = { "malnet", "malnet", mba__draft_calls,
                               FORM(MBA_DEGREE_PROFILE, F32, 0, NONE, 1, I32, .classes = 5) },
    [MBA_SYNTHETIC_BEACON] = { "beacon", "beacon", mba__draft_beacons,
                               FORM(8, F32, 0, NONE, 1, I32, .classes = 4, .node_labels = true) },
    [MBA_SYNTHETIC_BEACONS] = { "beacons", "beacons", mba__draft_beacons,
                                FORM(4, F32, 0, NONE, 1, I32, .classes = 2, .node_labels = true) },
#undef FORM
};

const char *mba_synthetic_name(mba_synthetic kind) { return kinds[kind].name; }

bool mba_synthetic_parse(mba_synthetic *out, const char *name)
{
    for (int k = 0; k < MBA_SYNTHETICS; k++)
        if (!strcmp(name, kinds[k].name)) {
            *out = (mba_synthetic)k;
            return true;
        }
    return false;
}

mba_graph_form mba_synthetic_form(mba_synthetic kind) { return kinds[kind].form; }

mba_status mba_graph_synthetic_add(mba_graph_store *s, mba_synthetic kind, uint64_t seed, int64_t number)
{
    enum { ARENA_BYTES = 1 << 25 }; // untouched pages cost nothing
    mba_draft d = { .key = seed ^ mba_stream(kinds[kind].same), .seed = seed, .number = (uint64_t)number };
    MBA_TRY(mba_arena_create(&d.arena, ARENA_BYTES));
    kinds[kind].make(&d, kind);
    mba_status st = MBA_OK;
    if (kind == MBA_SYNTHETIC_MALNET) st = mba_graph_degree_profile(d.node_feat, d.nodes, d.edges, d.src, d.dst);
    if (st == MBA_OK)
        st = mba_graph_store_add(s, &(mba_graph_item){ .nodes = d.nodes,
                                                       .edges = d.edges,
                                                       .src = d.src,
                                                       .dst = d.dst,
                                                       .node_feat = d.node_feat,
                                                       .edge_feat = d.edge_feat,
                                                       .label = d.label,
                                                       .split = number % 10 < 8    ? MBA_SPLIT_TRAIN
                                                                : number % 10 == 8 ? MBA_SPLIT_VALID
                                                                                   : MBA_SPLIT_TEST });
    mba_arena_destroy(d.arena);
    return st;
}

mba_status mba_graph_synthetic(mba_graph_store **out, mba_synthetic kind, uint64_t seed, int64_t graphs)
{
    mba_graph_store *s;
    mba_assert(graphs > 0);
    MBA_TRY(mba_graph_store_create(&s, &kinds[kind].form));
    mba_status st = MBA_OK;
    for (int64_t g = 0; st == MBA_OK && g < graphs; g++) st = mba_graph_synthetic_add(s, kind, seed, g);
    if (st == MBA_OK) *out = s;
    else mba_graph_store_destroy(s);
    return st;
}
