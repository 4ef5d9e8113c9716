// SPDX-License-Identifier: Apache-2.0
/* gelu.h -- y = x Phi(x), with the distribution function Phi of the normal distribution, exact or approximated by tanh.
 *
 *     mba_tensor *a = mba_gelu(g, mba_linear_bias(g, x, w, b), false);           // MLPs: exact
 *     mba_tensor *c = mba_gelu(g, mba_batchnorm(..), true);                       // MambaVision's conv blocks
 *
 *     exact   x (1 + erf(x / sqrt 2)) / 2
 *     tanh    x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) / 2
 */
#ifndef MBA_GELU_H
#define MBA_GELU_H

#include "core/graph.h"

mba_tensor *mba_gelu(mba_graph *g, mba_tensor *x, bool tanh_form);

extern const mba_op mba_op_gelu, mba_op_gelu_bwd;

#endif
