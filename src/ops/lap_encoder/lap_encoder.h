// SPDX-License-Identifier: Apache-2.0
/* lap_encoder.h -- encoder of Laplacian positions of nodes: a small network per eigenvector, summed over eigenvectors.
 *
 *     mba_tensor *pe = mba_lap_encoder(g, .phi = phi, .lam = lam, .wa = wa, .ba = ba, .wb = wb, .bb = bb,
 *                                      .flip = true);
 *
 *     y[v] = sum_k relu(wb relu(wa (phi[v,k], lam[v,k]) + ba) + bb)          over the eigenvectors k of v's graph
 *
 * NaN in phi or lam means that the graph of v is too small to have eigenvector k. With `flip` each eigenvector of the
 * batch is multiplied by +1 or -1, drawn at every step, because an eigenvector has no sign of its own; evaluation does
 * not flip. Positions are inputs: only the weights have gradients. Rows beyond the count are 0. */
#ifndef MBA_LAP_ENCODER_H
#define MBA_LAP_ENCODER_H

#include "core/graph.h"

typedef struct mba_lap_encoder_args {
    mba_tensor *phi, *lam; /* (N, K) */
    mba_tensor *wa, *ba;   /* (2p, 2), (2p) */
    mba_tensor *wb, *bb;   /* (p, 2p), (p) */
    bool        flip;
} mba_lap_encoder_args;

mba_tensor *mba_lap_encoder_of(mba_graph *g, const mba_lap_encoder_args *a); /* (N, p) */
#define mba_lap_encoder(g, ...) mba_lap_encoder_of((g), &(mba_lap_encoder_args){ __VA_ARGS__ })

extern const mba_op mba_op_lap_encoder, mba_op_lap_encoder_bwd;

#endif
