// SPDX-License-Identifier: Apache-2.0
/* grad_norm.h -- the global gradient norm: sqrt of the sum of squares over all parameters.
 *
 *     MBA_TRY(mba_backward(g, loss));
 *     mba_tensor *norm = mba_grad_norm(g);             // a result of two floats, named "grad_norm"
 *
 * The second value is 1 if the update must be skipped, else 0: norm or loss is not finite, or above step.norm_max or
 * step.loss_max. Optimizers obey it, so that one run of all passes can decide on its own step. mba_adamw_all and
 * mba_lamb_all append it. A graph without gradients fails. */
#ifndef MBA_GRAD_NORM_H
#define MBA_GRAD_NORM_H

#include "core/graph.h"

mba_tensor *mba_grad_norm(mba_graph *g);

extern const mba_op mba_op_grad_norm;

#endif
