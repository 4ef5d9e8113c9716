// SPDX-License-Identifier: Apache-2.0
/* graph_synthetic.h -- synthetic graphs that resemble nine published collections, and a long-range task of our own.
 *
 *     mba_graph_store *s;
 *     MBA_TRY(mba_graph_synthetic(&s, MBA_SYNTHETIC_VOC, 7, 200));      // seed 7, graphs 0 .. 199
 *     MBA_TRY(mba_graph_store_laplace(s, 10));
 *
 * Sizes, degrees and distances follow the published statistics; features and labels are invented so that a
 * model can learn them. A graph depends only on (collection, seed, number), so each can be generated alone, and a
 * longer collection begins like a shorter one. Of ten graphs, the first eight are for training, one for validation, one
 * for testing.
 *
 * voc, coco        superpixels: jittered cells of an image, joined where their pixels touch; 14 real features (mean,
 *                  deviation, maximum, minimum of R G B, centre), edges: colour distance and boundary length; classes
 *                  of nodes are discs in the image
 * peptides-func    chains of real amino acids; 9 and 3 OGB-coded integers; 10 binary tasks of the composition
 * peptides-struct  the same graphs; 11 standardised targets
 * mnist, cifar10   points with their 8 nearest; intensities are three blobs per class
 * pattern, cluster stochastic block models, the original recipes
 * malnet           call graphs grown by preference; the class changes size, preference and reciprocity
 *
 * beacon           The long-range task. A graph is a long thin tree of 40 to 80 nodes, randomly numbered, about 40
 *                  hops from end to end. Every node has a colour in 0 .. 3. One node at an end of the tree is the
 *                  beacon and shows a value in 0 .. 3. Every node is asked for (its colour + the beacon's value) mod 4.
 *                  Colours and value are uniform and independent, so without seeing the beacon one guess in four is
 *                  right, whatever else one knows; and what L layers of message passing know about a node lies within
 *                  L hops of it. mba_graph_beacon_ceiling says how good the best rule can be with so many hops: about
 *                  0.32 with three. A scan over all nodes carries the value to every node that comes after the beacon
 *                  in its order, and a second scan in another random order reaches the others. Structure says nothing
 *                  about the value, and the beacon's degree is that of many other nodes, so the order by degree finds
 *                  nothing. Labels are per node because a pooled readout would itself look across the graph. Train
 *                  with batches of many graphs: in a batch of one, batch statistics would carry the value too.
 * beacons          The harder one: colours and values are bits, a beacon stands at each end, and the answer is the
 *                  exclusive or of the colour and both values. Nothing within three hops sees both: chance is all. */
#ifndef MBA_GRAPH_SYNTHETIC_H
#define MBA_GRAPH_SYNTHETIC_H

#include "data/graph_set.h"

// clang-format off
#define MBA_SYNTHETIC_LIST(X) \
    X(VOC, "voc") X(COCO, "coco") X(PEPTIDES_FUNC, "peptides-func") X(PEPTIDES_STRUCT, "peptides-struct") \
    X(MNIST, "mnist") X(CIFAR10, "cifar10") X(PATTERN, "pattern") X(CLUSTER, "cluster") X(MALNET, "malnet") \
    X(BEACON, "beacon") X(BEACONS, "beacons")
// clang-format on

typedef enum mba_synthetic {
#define X(name, text) MBA_SYNTHETIC_##name,
    MBA_SYNTHETIC_LIST(X)
#undef X
        MBA_SYNTHETICS
} mba_synthetic;

const char    *mba_synthetic_name(mba_synthetic kind);
bool           mba_synthetic_parse(mba_synthetic *out, const char *name); /* false: no such collection */
mba_graph_form mba_synthetic_form(mba_synthetic kind);

/* Generates graphs 0 .. graphs-1. The caller destroys *out. */
MBA_MUST mba_status mba_graph_synthetic(mba_graph_store **out, mba_synthetic kind, uint64_t seed, int64_t graphs);
/* Adds one graph to a store of the form above. */
MBA_MUST mba_status mba_graph_synthetic_add(mba_graph_store *s, mba_synthetic kind, uint64_t seed, int64_t number);

/* For a collection of kind beacon or beacons: the mean accuracy over its nodes of the best possible rule that sees
 * `hops` hops around each node. */
MBA_MUST mba_status mba_graph_beacon_ceiling(double *out, const mba_graph_set *s, int64_t hops);

#endif
