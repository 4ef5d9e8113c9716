// SPDX-License-Identifier: Apache-2.0
/* accumulate.c -- y = x, or y += x: adds a gradient contribution for operators that cannot add themselves. The
 * declaration. */
#include "ops/accumulate/accumulate_slots.h"

static mba_status accumulate_shape(const mba_node *n, mba_type *out)
{
    out[Y] = n->in[X]->type;
    return MBA_OK;
}

const mba_op mba_op_accumulate = {
    .name = "accumulate",
    .doc = "y = x, or y += x",
    .kind = MBA_MEMORY,
    .no_grad = "a gradient",
    .in = { [X] = MBA_SLOT("x") },
    .out = { [Y] = MBA_SLOT("y", .adds = true) },
    .shape = accumulate_shape,
    .cost = mba_cost_io,
    .ref = accumulate_ref,
    .cpu = (const mba_variant[]){ { "rows", NULL, MBA_CPU(accumulate_fwd) }, { 0 } },
    .cuda = (const mba_variant[]){ { "stream", mba_plan_streaming, MBA_CUDA(accumulate_cuda) }, { 0 } },
};
