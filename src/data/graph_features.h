// SPDX-License-Identifier: Apache-2.0
/* graph_features.h -- positional and structural features of nodes, computed once per graph.
 *
 *     MBA_TRY(mba_graph_lap(val, vec, nodes, edges, src, dst, 10));        // val (K), vec (nodes, K)
 *     MBA_TRY(mba_graph_rwse(out, nodes, edges, src, dst, 16));            // out (nodes, K)
 *     MBA_TRY(mba_graph_degree_profile(out, nodes, edges, src, dst));      // out (nodes, 5)
 *
 *     MBA_TRY(mba_graph_store_laplace(store, 10));                         // the same for a whole collection
 *     MBA_TRY(mba_graph_store_walks(store, 16));
 *
 * Everything is computed in fp64, one graph per thread, and rounded once: the same bits at any number of threads. */
#ifndef MBA_GRAPH_FEATURES_H
#define MBA_GRAPH_FEATURES_H

#include "data/graph_set.h"

enum { MBA_LAP_NODES_MAX = 8192, MBA_DEGREE_PROFILE = 5 };

/* The K smallest eigenvalues of the Laplacian Deg - Adj, with the zero ones, ascending and never negative, and
 * eigenvectors of length 1. The graph is first made undirected, without duplicates and self loops. Entries that a graph
 * of fewer than K nodes does not have are NaN. Signs, and bases of a repeated eigenvalue, are arbitrary.
 * MBA_E_UNSUPPORTED above MBA_LAP_NODES_MAX nodes: the matrix is dense. About 4/3 n^3 FLOPs and 24 n^2 bytes. */
MBA_MUST mba_status mba_graph_lap(float *val, float *vec, int64_t nodes, int64_t edges, const uint32_t *src,
                                  const uint32_t *dst, int64_t K);

/* The probabilities that a random walk along out-edges is back at its start after 1 .. K steps. */
MBA_MUST mba_status mba_graph_rwse(float *out, int64_t nodes, int64_t edges, const uint32_t *src, const uint32_t *dst,
                                   int64_t K);

/* For each node: its out-degree, then minimum, maximum, mean and standard deviation of the out-degrees of its
 * out-neighbours; all zero if it has none. */
MBA_MUST mba_status mba_graph_degree_profile(float *out, int64_t nodes, int64_t edges, const uint32_t *src,
                                             const uint32_t *dst);

MBA_MUST mba_status mba_graph_store_laplace(mba_graph_store *s, int64_t K);
MBA_MUST mba_status mba_graph_store_walks(mba_graph_store *s, int64_t K);

/* Computes the k smallest eigenpairs of a symmetric matrix and overwrites its lower triangle `a` (n, n): val (k)
 * ascending, vec (k, n), one eigenvector per row. Householder tridiagonalisation, then implicit QL, whose rotations are
 * recorded and applied backwards to k unit vectors: orthogonal up to rounding, also for repeated eigenvalues. */
MBA_MUST mba_status mba_symmetric_eigen(double *val, double *vec, double *a, int64_t n, int64_t k);

#endif
