// SPDX-License-Identifier: Apache-2.0
/* rmsnorm_cpu.c -- rmsnorm on the CPU: parts of rows in parallel, with the loops of ops/norm_rows.h. */
#include "ops/norm_rows.h"
#include "ops/rmsnorm/rmsnorm_slots.h"

mba_status MBA_CPU_FN(rmsnorm_fwd)(const mba_call *c)
{
    const mba_node      *n = c->node;
    const int64_t        R = mba_rows(n->in[X]);
    const mba__norm_args a = { .x = mba__rows_of(n->in[X], c->in[X]),
                               .y = mba__rows_of(n->out[Y], c->out[Y]),
                               .w = c->in[W],
                               .rstd = c->out[RSTD],
                               .eps = ((const rmsnorm_attr *)n->attr)->eps };
    MBA_PARALLEL_FOR(p, mba__parts(R)) mba__norm_part(&a, false, p * MBA__PART_ROWS, mba__part_end(p, R));
    return MBA_OK;
}

mba_status MBA_CPU_FN(rmsnorm_bwd)(const mba_call *c)
{
    const mba_node           *n = c->node;
    const int64_t             R = mba_rows(n->in[XB]), C = mba_cols(n->in[XB]);
    const mba__norm_grad_args a = { .dy = mba__rows_of(n->in[DY], c->in[DY]),
                                    .x = mba__rows_of(n->in[XB], c->in[XB]),
                                    .dx = mba__rows_of(n->out[DX], c->out[DX]),
                                    .w = c->in[WB],
                                    .rstd = c->in[RSTDB],
                                    .dx_adds = mba_adds(n, DX) };
    float                    *dw = mba__scratch(c, 0);
    MBA_PARALLEL_FOR(p, mba__parts(R)) mba__norm_grad_part(&a, dw + p * C, p * MBA__PART_ROWS, mba__part_end(p, R));
    mba__sum_parts(c->out[DW], dw, mba__parts(R), C, mba_adds(n, DW));
    return MBA_OK;
}
