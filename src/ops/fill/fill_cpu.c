// SPDX-License-Identifier: Apache-2.0
/* fill_cpu.c -- fill on the CPU. The output is a whole storage, hence dense. */
#include "ops/fill/fill_slots.h"

mba_status MBA_CPU_FN(fill_fwd)(const mba_call *c)
{
    const float v = (float)((const mba_fill_attr *)c->node->attr)->value;
    float      *y = c->out[Y];
    MBA_PARALLEL_FOR(i, mba_elems(c->node->out[Y])) y[i] = v;
    return MBA_OK;
}
