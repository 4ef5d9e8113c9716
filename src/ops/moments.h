// SPDX-License-Identifier: Apache-2.0
/* moments.h -- what the optimizers with two moments share: slots over a flat parameter group, what must be true of
 * them, and the operands of a group. Inside of adamw and lamb. */
#ifndef MBA_MOMENTS_H
#define MBA_MOMENTS_H

#include "core/op.h"

enum { P, G, M, V, NORM, COPY }; /* parameters, gradient, moments; the compute copy, if any */
enum { PO, GO, MO, VO, COPYO };

// clang-format off
#define MBA_MOMENTS_IN                                                                                      \
    { [P] = MBA_SLOT("p"), [G] = MBA_SLOT("g"), [M] = MBA_SLOT("m"), [V] = MBA_SLOT("v"),                  \
      [NORM] = MBA_SLOT("norm"), [COPY] = MBA_SLOT("copy", .optional = true) }
#define MBA_MOMENTS_OUT                                                                                     \
    { [PO] = MBA_SLOT("p", .update = MBA_FROM(P)), [GO] = MBA_SLOT("g", .update = MBA_FROM(G)),            \
      [MO] = MBA_SLOT("m", .update = MBA_FROM(M)), [VO] = MBA_SLOT("v", .update = MBA_FROM(V)),            \
      [COPYO] = MBA_SLOT("copy", .update = MBA_FROM(COPY)) }
// clang-format on

typedef struct mba_moments_options {
    double beta1, beta2, eps;
} mba_moments_options;

/* The part of `shape`: averages that are averages, all operands flat fp32 beside the parameters. */
mba_status mba_moments_shape(const mba_node *n, mba_type *out, mba_moments_options o);

/* The operands of group k, with moments "m.decay", "v.decay", .. made for it; false where it has no gradient. */
bool mba_moments_of(mba_tensor *in[MBA_IN_MAX], mba_graph *g, mba_group k, mba_tensor *norm);

#endif
