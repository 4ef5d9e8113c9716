// SPDX-License-Identifier: Apache-2.0
/* gated_gcn.h -- message passing with gates: the part of a GatedGCN layer between its linear layers and its norms.
 *
 *     mba_tensor *n4 = mba_bias(g, mba_linear(g, h, w4), b4);                 // (N, 4H): A, B, D, E side by side
 *     mba_gated_gcn_out o = mba_gated_gcn(g, .a = mba_slice(g, n4, 1, 0, H), .b = .., .d = .., .e = .., .c = ce,
 *                                         .src = src, .in_ptr = in_ptr, .out_ptr = out_ptr, .out_edge = out_edge);
 *
 *     eh[k] = d[target] + e[source] + c[k],    gate s[k] = sigmoid(eh[k])
 *     x[i]  = a[i] + sum_k s[k] b[source of k] / (sum_k s[k] + 1e-6)          over the edges k into i
 *
 * Edges are grouped by target: those into node i are in_ptr[i] .. in_ptr[i+1]-1, and src has their sources. For the
 * backward pass they are also listed by source: out_edge[out_ptr[j] .. out_ptr[j+1]-1] are the edges out of j.
 * mba_graph_batch (data/graph_batch.h) makes all four. The batch has in_ptr[nodes] edges. Rows beyond the nodes of the
 * step and beyond these edges are not read and become zero, as do their gradients. */
#ifndef MBA_GATED_GCN_H
#define MBA_GATED_GCN_H

#include "core/graph.h"

typedef struct mba_gated_gcn_args {
    mba_tensor *a, *b, *d, *e;    /* (N, H), may be views of one matrix */
    mba_tensor *c;                /* (E, H) */
    mba_tensor *src, *out_edge;   /* (E) i32, below N and below E */
    mba_tensor *in_ptr, *out_ptr; /* (N + 1) i32, at most E */
} mba_gated_gcn_args;

typedef struct mba_gated_gcn_out {
    mba_tensor *x, *eh;
} mba_gated_gcn_out; /* (N, H), (E, H) */

mba_gated_gcn_out mba_gated_gcn_of(mba_graph *g, const mba_gated_gcn_args *a);
#define mba_gated_gcn(g, ...) mba_gated_gcn_of((g), &(mba_gated_gcn_args){ __VA_ARGS__ })

extern const mba_op mba_op_gated_gcn, mba_op_gated_gcn_bwd;

#endif
