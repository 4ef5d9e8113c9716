// SPDX-License-Identifier: Apache-2.0
/* lamb.h -- LAMB over all parameters: Adam's direction, stretched per tensor to the length of its parameters.
 *
 *     MBA_TRY(mba_backward(g, loss));
 *     mba_lamb_options o = mba_lamb_defaults();
 *     mba_lamb_all(g, &o);
 *
 * Appends the norm (a result named "grad_norm") and one node per parameter group. The learning rate and the step
 * number are those of the step. Parameters of MBA_DECAY decay, and their updates are stretched by |p| / |update| of
 * their tensor, or of their part of one that is cut (mba_param_cut) (1 where either is 0); those of MBA_NO_DECAY get
 * neither: for them it is Adam. With a decay of 0 nothing is stretched. An update whose norm is not finite, or above
 * step.norm_max where that is given, is skipped (grad_norm.h decides): parameters and moments stay as they were. With
 * several micro-batches (g->accumulate) the gradients are left at zero, also by a skipped update.
 *
 * The moments are named and lie as those of mba_adamw_all: "m.decay", "v.decay", "m.no_decay", "v.no_decay". */
#ifndef MBA_LAMB_H
#define MBA_LAMB_H

#include "core/graph.h"

typedef struct mba_lamb_options {
    double beta1, beta2, eps, decay;
    double clip;     /* longest gradient; 0: any length */
    double own_clip; /* LAMB's own, after the first; 0: none */
} mba_lamb_options;

/* What MambaVision-T trains with: 0.9, 0.999, 1e-8, decay 0.05, clip 5, then to 1. */
static inline mba_lamb_options mba_lamb_defaults(void) { return (mba_lamb_options){ 0.9, 0.999, 1e-8, 0.05, 5, 1 }; }

void mba_lamb_all(mba_graph *g, const mba_lamb_options *o);

extern const mba_op mba_op_lamb;

#endif
