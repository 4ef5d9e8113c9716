// SPDX-License-Identifier: Apache-2.0
/* fill.c -- y = value: autodiff uses it where no gradient arrives. The declaration. */
#include "ops/fill/fill_slots.h"

static mba_status fill_shape(const mba_node *n, mba_type *out)
{
    out[Y] = ((const mba_fill_attr *)n->attr)->type;
    return MBA_OK;
}

const mba_op mba_op_fill = {
    .name = "fill",
    .doc = "y = value",
    .kind = MBA_MEMORY,
    .no_grad = "nothing flows into it",
    .out = { [Y] = MBA_SLOT("y") },
    .attr_bytes = sizeof(mba_fill_attr),
    .shape = fill_shape,
    .cost = mba_cost_io,
    .ref = fill_ref,
    .cpu = (const mba_variant[]){ { "elements", NULL, MBA_CPU(fill_fwd) }, { 0 } },
    .cuda = (const mba_variant[]){ { "stream", mba_plan_streaming, MBA_CUDA(fill_cuda) }, { 0 } },
};
