// SPDX-License-Identifier: Apache-2.0
/* moments.h -- shared by the optimizers with two moments, adamw and lamb: slots over a flat parameter group, their
 * shape check, and the operands of a group. */
#ifndef MBA_MOMENTS_H
#define MBA_MOMENTS_H

#include "core/op.h"

enum { P, G, M, V, NORM, COPY }; /* parameters, gradient, moments; the compute copy is optional */
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

/* Common part of `shape`: checks the options (betas in [0, 1), eps > 0) and that all operands are flat fp32 with the
 * layout of the parameters. */
mba_status mba_moments_shape(const mba_node *n, mba_type *out, mba_moments_options o);

/* Fills in the operands of group k and creates its moments "m.decay", "v.decay", ...; returns false if the group has no
 * gradient. */
bool mba_moments_of(mba_tensor *in[MBA_IN_MAX], mba_graph *g, mba_group k, mba_tensor *norm);

/* The same for one of several ranks: its moments have 1/ranks of the elements. */
bool mba_moments_shard(mba_tensor *in[MBA_IN_MAX], mba_graph *g, mba_group k, mba_tensor *norm, int64_t ranks);

#endif
