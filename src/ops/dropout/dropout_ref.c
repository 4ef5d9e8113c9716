// SPDX-License-Identifier: Apache-2.0
/* dropout_ref.c -- the reference of dropout: fp64; element i takes word i % 4 of counter i / 4. */
#include "core/rng.h"
#include "ops/dropout/dropout_slots.h"

void dropout_ref(const mba_ref_call *c)
{
    const double p = (double)((const dropout_attr *)c->node->attr)->p;
    for (int64_t i = 0; i < mba_elems(c->node->in[X]); i++) {
        uint32_t u[4];
        mba_philox(u, c->step->seed ^ c->node->stream, mba_step_counter(c->step), (uint64_t)i / 4);
        c->out[Y][i] = mba_unit(u[i % 4]) <= p ? 0 : c->in[X][i] / (1 - p);
    }
}
