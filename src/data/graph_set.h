// SPDX-License-Identifier: Apache-2.0
/* graph_set.h -- a collection of graphs: readers produce it, the container stores it, batches are taken from it.
 *
 *     const mba_graph_set *s = mba_graph_pack_set(pack);              // or mba_graph_store_set(store)
 *     mba_graph_item       g = mba_graph_set_item(s, 7);              // lent: one graph, with its own node numbers
 *     for (int64_t k = 0; k < g.edges; k++) use(g.src[k], g.dst[k]);
 *
 *     mba_graph_store *store;                                         // a growing collection in memory
 *     MBA_TRY(mba_graph_store_create(&store, &(mba_graph_form){ .node_width = 5, .node_type = MBA_GRAPH_F32,
 *                                    .label_width = 1, .label_type = MBA_GRAPH_I32, .classes = 5 }));
 *     MBA_TRY(mba_graph_store_add(store, &item));                     // copies and checks
 *     MBA_TRY(mba_graph_pack_write("set.graphpk", mba_graph_store_set(store)));
 *     mba_graph_store_destroy(store);                                 // NULL is fine
 *
 * An undirected edge is stored twice. Real features are finite. Missing entries of real labels are NaN, and so are
 * Laplacian entries that a graph of fewer than K nodes does not have. */
#ifndef MBA_GRAPH_SET_H
#define MBA_GRAPH_SET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/status.h"

typedef enum mba_graph_type {
    MBA_GRAPH_NONE,
    MBA_GRAPH_F32,
    MBA_GRAPH_I32,
    MBA_GRAPH_U8,
    MBA_GRAPH_TYPES
} mba_graph_type;

typedef enum mba_graph_split { MBA_SPLIT_TRAIN, MBA_SPLIT_VALID, MBA_SPLIT_TEST, MBA_SPLITS } mba_graph_split;

/* The features and labels of every graph of a collection. A width of 0 with MBA_GRAPH_NONE: none. */
typedef struct mba_graph_form {
    int64_t        node_width, edge_width, label_width;
    mba_graph_type node_type, edge_type, label_type;
    bool           node_labels; /* one row of labels per node, not per graph */
    bool           has_split;
    int64_t        classes;       /* labels are integers below it; 0: regression */
    int64_t        lap_k, rwse_k; /* positional features (graph_features.h); 0: absent */
} mba_graph_form;

/* The owner of the collection owns all arrays; those that the form declares absent are NULL. */
typedef struct mba_graph_set {
    mba_graph_form  form;
    bool            undirected; /* every edge occurs equally often in both directions */
    bool            sorted;     /* edges by (graph, target, source) */
    int64_t         graphs, nodes, edges;
    const uint64_t *node_ptr, *edge_ptr; // (graphs + 1): prefix sums
    const uint32_t *src, *dst;           // (edges): node numbers within the graph
    const void     *node_feat;           // (nodes, node_width)
    const void     *edge_feat;           // (edges, edge_width)
    const void     *label;               // (graphs or nodes, label_width)
    const uint8_t  *split;               // (graphs): mba_graph_split
    const float    *lap_val;             // (graphs, lap_k)
    const float    *lap_vec;             // (nodes, lap_k)
    const float    *rwse;                // (nodes, rwse_k)
} mba_graph_set;

/* One graph. */
typedef struct mba_graph_item {
    int64_t         nodes, edges;
    const uint32_t *src, *dst;
    const void     *node_feat, *edge_feat, *label;
    const float    *lap_val, *lap_vec, *rwse;
    mba_graph_split split; /* MBA_SPLIT_TRAIN if there is no split */
} mba_graph_item;

size_t         mba_graph_type_bytes(mba_graph_type t);
mba_graph_item mba_graph_set_item(const mba_graph_set *s, int64_t g);

/* Checks what every collection must satisfy: pointers never decrease, edges join nodes of their graph, features are
 * finite, labels are below the number of classes, splits exist. Fails with MBA_E_FORMAT and the first violation; `name`
 * is for the message. */
MBA_MUST mba_status mba_graph_set_check(const mba_graph_set *s, const char *name);

typedef struct mba_graph_store mba_graph_store;

MBA_MUST mba_status mba_graph_store_create(mba_graph_store **out, const mba_graph_form *form);
void                mba_graph_store_destroy(mba_graph_store *s);

/* Appends a copy of one graph. Fails with MBA_E_FORMAT if it violates what mba_graph_set_check requires; a failure adds
 * nothing. */
MBA_MUST mba_status mba_graph_store_add(mba_graph_store *s, const mba_graph_item *g);

/* Lent; valid until the next graph is added. */
const mba_graph_set *mba_graph_store_set(const mba_graph_store *s);

/* Adds an array of positional features for the whole collection, `k` per node, for the caller to fill. The store owns
 * it, and its set has it from then on. */
MBA_MUST mba_status mba_graph_store_add_lap(float **val, float **vec, mba_graph_store *s, int64_t k);
MBA_MUST mba_status mba_graph_store_add_rwse(float **rwse, mba_graph_store *s, int64_t k);

#endif
