// SPDX-License-Identifier: Apache-2.0
/* batchnorm.h -- y = (x - mean) / sqrt(variance + eps) * w + b per channel, optionally followed by ReLU.
 *
 *     y = mba_batchnorm(g, .x = x, .w = gamma, .b = beta, .name = "norm1", .eps = 1e-5, .momentum = 0.1,
 *                       .train = true);
 *
 * In training, mean and (biased) variance are those of all valid rows of the batch, and the running statistics are
 * updated: state = (1 - momentum) state + momentum batch, with the unbiased variance. In evaluation, mean and variance
 * are the running statistics, which are constants for the gradient. If the batch of a channel is not finite, its
 * running statistics do not change: the step is skipped anyway, and they would not recover.
 *
 * They are states of role MBA_STATE, "<scope>.<name>.running_mean" and ".running_var", which start at 0 and 1. Rows of
 * a ragged batch beyond its count are ignored: their results and gradients are zeros. */
#ifndef MBA_BATCHNORM_H
#define MBA_BATCHNORM_H

#include "core/graph.h"

typedef struct mba_batchnorm_args {
    mba_tensor *x;     /* (.., C); may be columns of a wider matrix */
    mba_tensor *w, *b; /* (C) */
    const char *name;
    double      eps, momentum;
    bool        train, relu;
} mba_batchnorm_args;

mba_tensor *mba_batchnorm_(mba_graph *g, mba_batchnorm_args a);
#define mba_batchnorm(g, ...) mba_batchnorm_((g), (mba_batchnorm_args){ __VA_ARGS__ })

/* The running statistics that a node of mba_op_batchnorm_stats updates. Returns the fraction of the old ones that it
 * keeps, 1 - momentum. */
double mba_batchnorm_running(const mba_node *stats, const mba_tensor **mean, const mba_tensor **var);

extern const mba_op mba_op_batchnorm_stats, mba_op_batchnorm, mba_op_batchnorm_bwd;

#endif
