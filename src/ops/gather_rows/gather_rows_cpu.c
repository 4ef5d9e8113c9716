// SPDX-License-Identifier: Apache-2.0
/* gather_rows_cpu.c -- gather_rows on the CPU: rows in parallel. */
#include "ops/gather_rows/gather_rows_slots.h"

mba_status MBA_CPU_FN(gather_rows_fwd)(const mba_call *c)
{
    const mba_node *n = c->node;
    const mba__rows x = mba__rows_of(n->in[X], c->in[X]), y = mba__rows_of(n->out[Y], c->out[Y]);
    const int64_t   real = mba__valid_entries(n->in[X], c->step), C = x.cols;
    const int32_t  *index = c->in[INDEX];
    const bool      adds = mba_adds(n, Y);
    MBA_PARALLEL_FOR(r, mba_rows(n->in[X]))
    {
        const float *from = mba__row(x, r < real ? index[r] : r);
        float       *to = mba__row(y, r);
        if (!adds) {
            memcpy(to, from, sizeof(float) * (size_t)C);
            continue;
        }
        for (int64_t i = 0; i < C; i++) to[i] += from[i];
    }
    return MBA_OK;
}
