// SPDX-License-Identifier: Apache-2.0
/* batchnorm.h -- y = (x - mean) / sqrt(variance + eps) * w + b per channel, with or without ReLU behind it.
 *
 *     y = mba_batchnorm(g, .x = x, .w = gamma, .b = beta, .name = "norm1", .eps = 1e-5, .momentum = 0.1,
 *                       .train = true);
 *
 * In training, mean and (biased) variance are those of all real rows of the batch, and the running statistics move:
 * state = (1 - momentum) state + momentum batch, with the unbiased variance. In evaluation they are the running
 * statistics themselves, constants to the gradient. Those of a channel whose batch is not finite stay: the step is
 * given up, and they would not recover.
 *
 * They are states of role MBA_STATE, "<scope>.<name>.running_mean" and ".running_var", which start at 0 and 1. Rows of
 * a ragged batch beyond its count take no part: their results and gradients are zeros. */
#ifndef MBA_BATCHNORM_H
#define MBA_BATCHNORM_H

#include "core/graph.h"

typedef struct mba_batchnorm_args {
    mba_tensor *x;     /* (.., C): rows of channels, also columns of a wider matrix */
    mba_tensor *w, *b; /* (C) */
    const char *name;
    double      eps, momentum;
    bool        train, relu;
} mba_batchnorm_args;

mba_tensor *mba_batchnorm_(mba_graph *g, mba_batchnorm_args a);
#define mba_batchnorm(g, ...) mba_batchnorm_((g), (mba_batchnorm_args){ __VA_ARGS__ })

extern const mba_op mba_op_batchnorm_stats, mba_op_batchnorm, mba_op_batchnorm_bwd;

#endif
