// SPDX-License-Identifier: Apache-2.0
/* residual.h -- y = x + f gamma v: adds a branch to the residual stream, scaled per channel, dropped per sample.
 *
 *     x = mba_residual(g, .x = x, .v = branch, .gamma = gamma, .drop = 0.1f, .active = true, .rows = 196);
 *
 * Drop path: a sample is `rows` consecutive rows (0: the rows of one index of the leading axis). In training (.active)
 * the branch of each sample is dropped with probability `drop` and multiplied by 1 / (1 - drop) otherwise. The choice
 * is never stored: it is a function of the step's seed and the node's name. With `factor` nothing is drawn: it holds
 * the f of every sample. Without gamma, drop and factor this is mba_add. */
#ifndef MBA_RESIDUAL_H
#define MBA_RESIDUAL_H

#include "core/graph.h"

typedef struct mba_residual_args {
    mba_tensor *x, *v;  /* (.., C) each, may be columns of a wider matrix */
    mba_tensor *gamma;  /* (C), optional */
    mba_tensor *factor; /* (samples), optional: instead of a draw with `drop` */
    float       drop;   /* 0 <= drop < 1 */
    bool        active;
    int64_t     rows;
} mba_residual_args;

mba_tensor *mba_residual_(mba_graph *g, mba_residual_args a);
#define mba_residual(g, ...) mba_residual_((g), (mba_residual_args){ __VA_ARGS__ })

extern const mba_op mba_op_residual, mba_op_residual_bwd;

#endif
