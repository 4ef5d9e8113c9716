// SPDX-License-Identifier: Apache-2.0
/* graphmamba.h -- Graph-Mamba: gated message passing in parallel with a Mamba block over the ordered nodes of a graph.
 *
 *     mba_graphnet c = *mba_graphnet_preset("graphmamba-peptides-func");
 *     c.nodes = 6000; c.edges = 14000; c.graphs = 32;            // capacities of a batch; mba_step has the counts
 *     mba_tensor *loss = mba_graphnet_build(g, &c).loss;
 *
 * Graphs of any size are packed one after the other, without padding: segment ids reset the scan at every graph and
 * keep the convolution inside it. Inputs, by the last part of their name (the scope of the network precedes it):
 * "node_x" (N, F) or "node_i" (N, columns), "edge_x" or "edge_i", "src", "in_ptr", "out_ptr", "out_edge", "graph_ptr",
 * "phi", "lam" or "walks", per layer "perm.<l>", "inverse.<l>", "segment.<l>" (with several draws "perm.<l>.<d>" ..),
 * and "labels" (classes) or "targets" (reals). */
#ifndef MBA_GRAPHMAMBA_H
#define MBA_GRAPHMAMBA_H

#include "core/graph.h"
#include "core/program.h"
#include "models/fields.h"

enum { MBA_TABLES_MAX = 16, MBA_ORDER_NAME_MAX = 48 };

typedef enum mba_graph_loss {
    MBA_LOSS_WEIGHTED_CE,
    MBA_LOSS_CE,
    MBA_LOSS_BCE,
    MBA_LOSS_WEIGHTED_BCE,
    MBA_LOSS_L1
} mba_graph_loss;
typedef enum mba_readout { MBA_READ_NODES, MBA_READ_MEAN, MBA_READ_MAX } mba_readout;

/* What the data decides about a model: for a preset, whatever --set does not name; for a checkpoint, nothing. */
enum {
    MBA_FOLLOWS_NODES = 1,
    MBA_FOLLOWS_EDGES = 2,
    MBA_FOLLOWS_OUTPUTS = 4,
    MBA_FOLLOWS_LOSS = 8,
    MBA_FOLLOWS_READOUT = 16,
    MBA_FOLLOWS_ALL = 31
};

typedef struct mba_graphnet {
    const char *name;
    /* The type of activations and matrix products; 0: fp32. Encoders and head have short rows of odd length and always
     * use fp32. */
    mba_dtype compute;
    int64_t   nodes, edges, graphs; /* capacities */
    int64_t   layers, width, state, conv;
    int64_t   node_reals, node_rows;               /* real features, or rows of the stacked tables; one of them is 0 */
    int64_t   node_columns;                        /* number of tables */
    int64_t   edge_reals, edge_rows, edge_columns; /* all 0: one learned vector for all edges */
    int64_t   node_tables[MBA_TABLES_MAX], edge_tables[MBA_TABLES_MAX]; /* rows of each table; sum: .._rows */
    int64_t   pe_count, rw_count; /* LapPE: eigenvectors; or RWSE: steps of a random walk; 0: none */
    int64_t   pe_width;           /* channels of their encoding */
    /* Checkpoints name the encoding and the linear map of real features as one encoder, as in four of the released
     * configurations. */
    bool           pe_alone;
    int64_t        pre_layers, head_layers, outputs;
    mba_readout    readout;
    mba_graph_loss loss;
    double         dropout;
    int64_t        buckets;     /* of the node order; 0 or 1: none */
    int64_t        draws;       /* orders per layer over which evaluation averages; 0 or 1: one */
    bool           no_scan;     /* without the Mamba branch, as a control */
    bool           given_signs; /* trains with the eigenvectors as stored, without random signs */
    bool           train, keep_logits;
    unsigned       follows;                   /* MBA_FOLLOWS_..: train/graph_fit.h changes these fields */
    char           order[MBA_ORDER_NAME_MAX]; /* of data/graph_batch.h; "": degree and noise, in the buckets */
} mba_graphnet;

const mba_graphnet *mba_graphnet_preset(const char *name); /* NULL: no such preset */

extern const mba_field mba_graphnet_fields[]; /* for --set and config.json (fields.h) */

MBA_MUST mba_status mba_graphnet_complete(mba_graphnet *c);

typedef struct mba_graphnet_graph {
    mba_tensor *logits, *loss;
} mba_graphnet_graph;
mba_graphnet_graph mba_graphnet_build(mba_graph *g, const mba_graphnet *c);

/* Call it after mba_program_init: embedding tables are one parameter, but each is initialised in its own range,
 * +- sqrt(6 / (rows + width)). */
MBA_MUST mba_status mba_graphnet_start(mba_program *p, const mba_graphnet *c, uint64_t seed);

/* Message passing alone, for its reference vectors: h (nodes, width) and *e (edges, width), which it replaces. */
typedef struct mba__adjacency {
    mba_tensor *src, *in_ptr, *out_ptr, *out_edge;
} mba__adjacency;
mba_tensor *mba__graphnet_messages(mba_graph *g, const mba_graphnet *c, mba__adjacency edges, mba_tensor *h,
                                   mba_tensor **e);

#endif
