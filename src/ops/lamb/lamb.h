// SPDX-License-Identifier: Apache-2.0
/* lamb.h -- LAMB over all parameters: Adam's update, scaled per tensor by its trust ratio |p| / |update|.
 *
 *     MBA_TRY(mba_backward(g, loss));
 *     mba_lamb_options o = mba_lamb_defaults();
 *     mba_lamb_all(g, &o);
 *
 * Appends the norm (a result named "grad_norm") and one node per parameter group. The learning rate and the step
 * number are those of the step. Parameters of MBA_DECAY decay, and their updates are multiplied by |p| / |update| of
 * their tensor, or of their part of a divided one (mba_param_cut); by 1 if either norm is 0. Parameters of MBA_NO_DECAY
 * get neither: for them this is Adam. With a decay of 0 no update is scaled. An update is skipped if the norm is not
 * finite, or above step.norm_max where that is set (grad_norm.h decides): parameters and moments then stay unchanged.
 * With several micro-batches (g->accumulate) the update clears the gradients, even if it is skipped.
 *
 * The moments have the names and the layout of mba_adamw_all: "m.decay", "v.decay", "m.no_decay", "v.no_decay". */
#ifndef MBA_LAMB_H
#define MBA_LAMB_H

#include "core/graph.h"

typedef struct mba_lamb_options {
    double beta1, beta2, eps, decay;
    double clip;     /* clips the global gradient norm; 0 = off */
    double own_clip; /* LAMB's own clip, after the first; 0 = off */
} mba_lamb_options;

/* The settings of MambaVision-T: 0.9, 0.999, 1e-8, decay 0.05, clip 5, then to 1. */
static inline mba_lamb_options mba_lamb_defaults(void) { return (mba_lamb_options){ 0.9, 0.999, 1e-8, 0.05, 5, 1 }; }

void mba_lamb_all(mba_graph *g, const mba_lamb_options *o);

extern const mba_op mba_op_lamb;

#endif
