// SPDX-License-Identifier: Apache-2.0
/* gated_gcn_slots.h -- what the files of gated_gcn share: slots by name and the declarations of variants. */
#ifndef MBA_GATED_GCN_SLOTS_H
#define MBA_GATED_GCN_SLOTS_H

#include "ops/rows.h"

enum { A, B, D, E, C, SRC, IN_PTR, OUT_PTR, OUT_EDGE }; /* forward: in, out */
enum { XT, EH, AGG, RDEN };                             /* agg[i] = num / (den + tiny), rden[i] = 1 / (den + tiny) */
enum { DXT, DEH, BB, EHB, AGGB, RDENB, SRCB, IN_PTRB, OUT_PTRB, OUT_EDGEB }; /* backward: in, out */
enum { DA, DB, DD, DE, DC };

#define GATED_GCN_TINY 1e-6

/* CUDA: how a block takes nodes. `lanes` threads with `values` columns each are a thread group; `split` groups share
 * the edges of a node. All groups share a node with more than `hub` edges. All of this depends only on shapes, and so
 * does the order of sums. */
enum { GATED_GCN_THREADS = 256 };
typedef struct gated_gcn_node_loop {
    int     values, lanes, groups, split, nodes, hub; /* nodes: per block */
    int64_t blocks, across;                           /* the grid: over nodes, over columns */
} gated_gcn_node_loop;
gated_gcn_node_loop gated_gcn_node_loop_of(const mba_node *n);

void gated_gcn_ref(const mba_ref_call *c);
void gated_gcn_bwd_ref(const mba_ref_call *c);
MBA_CPU_DECLARE(gated_gcn_fwd);
MBA_CPU_DECLARE(gated_gcn_bwd);
mba_launch_fn gated_gcn_cuda, gated_gcn_bwd_cuda;

#endif
