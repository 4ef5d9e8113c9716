// SPDX-License-Identifier: Apache-2.0
/* swiglu.h -- the activation of gated MLPs: value * silu(gate), element by element.
 *
 *     mba_tensor *h = mba_linear(g, x, fc1);                       // (.., 2 F): value | gate
 *     mba_tensor *a = mba_swiglu(g, mba_slice(g, h, 2, 0, F), mba_slice(g, h, 2, F, F));
 */
#ifndef MBA_SWIGLU_H
#define MBA_SWIGLU_H

#include "core/graph.h"

mba_tensor *mba_swiglu(mba_graph *g, mba_tensor *value, mba_tensor *gate);

extern const mba_op mba_op_swiglu, mba_op_swiglu_bwd;

#endif
