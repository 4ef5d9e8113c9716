// SPDX-License-Identifier: Apache-2.0
/* graph_batch.h -- joins several graphs into one batch, and computes the order in which a scan visits their nodes.
 *
 *     mba_graph_batch b = { .graph_ptr = .., .src = .., .node_real = x };     // the caller's arrays, of full capacity
 *     MBA_TRY(mba_graph_batch_fill(&b, &shape, items, 32));                   // sets b.nodes, b.edges, b.graphs
 *     step.count[MBA_NODES] = (int32_t)b.nodes;                               // valid rows; likewise edges, graphs
 *
 *     const mba_order_type *type = mba_order_find("Mamba_Hybrid_Degree_Noise_Bucket");
 *     mba_graph_order(perm, inverse, segment, &(mba_graph_order_args){ .type = type, .batch = &b, .layer = l, .. });
 *
 * A batch is the disjoint union of its graphs: nodes graph after graph, edges grouped by target (and, for the same
 * target, in stored order). Row k of all edge arrays is edge k in this order. After the valid rows, all arrays are
 * padded so that reading them is harmless: features and positions 0, classes -1, targets NaN, row pointers the last
 * value, other indices 0. Nothing is allocated. A batch without edges is fine. */
#ifndef MBA_GRAPH_BATCH_H
#define MBA_GRAPH_BATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "core/status.h"

/* One graph of the caller. Arrays that the shape below does not use may be NULL. */
typedef struct mba_batch_graph {
    int64_t         nodes, edges;
    const uint32_t *src, *dst;               /* (edges): node numbers inside the graph */
    const float    *node_real, *edge_real;   /* (nodes, node_reals), (edges, edge_reals) */
    const int32_t  *node_index, *edge_index; /* (nodes, node_fields), (edges, edge_fields): rows of embedding tables */
    const int32_t  *label;                   /* classes, one per node or one for the graph; negative: none */
    const float    *target;                  /* (nodes or 1, targets); NaN: none */
    const float    *lap_values;              /* (lap): eigenvalues; NaN: missing */
    const float    *lap_vectors;             /* (nodes, lap) */
    const float    *walks;                   /* (nodes, walks): return probabilities */
} mba_batch_graph;

typedef struct mba_graph_shape {
    int64_t        nodes, edges, graphs; /* capacities */
    int64_t        node_reals, edge_reals;
    int64_t        node_fields, edge_fields;
    const int64_t *node_rows, *edge_rows; /* (fields): rows of each table; indices run through all tables */
    int64_t        classes, targets;      /* labels are classes (0: none), or real targets per node or graph */
    bool           node_labels;           /* labels and targets belong to nodes, not to graphs */
    int64_t        lap, walks;            /* eigenvectors; lengths of random walks */
} mba_graph_shape;

typedef struct mba_graph_batch {
    int64_t  nodes, edges, graphs; /* set by mba_graph_batch_fill */
    int32_t *graph_ptr;            /* (graphs + 1): nodes of a graph */
    int32_t *graph_of, *degree;    /* (nodes): graph, and number of edges that start there */
    int32_t *in_ptr, *out_ptr;     /* (nodes + 1) */
    int32_t *src, *out_edge;       /* (edges): source of an edge; edges grouped by source */
    int32_t *dst;                  /* (edges); this and all that follows: NULL: not filled */
    float   *node_real, *edge_real;
    int32_t *node_index, *edge_index;
    int32_t *label;
    float   *target;
    float   *lap_phi, *lap_lam; /* (nodes, lap) each: an eigenvalue is repeated for every node */
    float   *walks;             /* (nodes, walks) */
} mba_graph_batch;

/* Fails with MBA_E_ARG if the graphs do not fit or the batch is empty, MBA_E_FORMAT if a graph contradicts itself. */
MBA_MUST mba_status mba_graph_batch_fill(mba_graph_batch *b, const mba_graph_shape *s, const mba_batch_graph *items,
                                         int64_t n);

/* ---- order ---- */

/* How a layer orders nodes: within a graph by degree or not, then randomly or as stored; in buckets or not. */
typedef struct mba_order_type {
    const char *name; /* of the released configurations */
    bool        degree, random;
    int         buckets;   /* 0: none */
    bool        by_number; /* bucket = row number mod buckets; else random */
    int         draws;     /* orders over which evaluation averages results */
} mba_order_type;

const mba_order_type       *mba_order_find(const char *name); /* NULL: no such type */
extern const mba_order_type mba_order_types[];                /* ends with a NULL name */

/* Random numbers depend only on seed, counter, layer, draw and the key of a node: a node with the same key has the same
 * numbers, wherever it stands in the batch. */
typedef struct mba_graph_order_args {
    const mba_order_type  *type;
    const mba_graph_batch *batch;         /* graph_of, degree, nodes */
    int64_t                capacity;      /* rows of the three results */
    const int64_t         *key;           /* (nodes), 0 <= key < 2^48; NULL: the row number */
    uint64_t               seed, counter; /* mba_step_counter(step) */
    int64_t                layer, draw;   /* below 256 each */
    uint64_t              *work;          /* 3 * nodes words */
} mba_graph_order_args;

/* Row r of the sequence is node perm[r], and node v is row inverse[v]. Rows of one segment (a graph, or a bucket of a
 * graph) are adjacent and have its number, from 0; rows after the nodes map to themselves and form one more segment.
 * Returns the number of segments with nodes. */
int64_t mba_graph_order(int32_t *perm, int32_t *inverse, int32_t *segment, const mba_graph_order_args *a);

#endif
