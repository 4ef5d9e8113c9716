/* bias.h -- y = x + b over the last axis.
 *
 *     y = mba_bias(g, mba_linear(g, x, w), b);
 */
#ifndef MBA_BIAS_H
#define MBA_BIAS_H

#include "core/graph.h"

mba_tensor *mba_bias(mba_graph *g, mba_tensor *x, mba_tensor *b);

extern const mba_op mba_op_bias, mba_op_bias_bwd;

#endif
