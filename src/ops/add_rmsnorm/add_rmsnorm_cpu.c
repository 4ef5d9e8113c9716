// SPDX-License-Identifier: Apache-2.0
/* add_rmsnorm_cpu.c -- add_rmsnorm on the CPU: parts of 64 rows in parallel, with the loops of ops/norm_rows.h. */
#include "ops/add_rmsnorm/add_rmsnorm_slots.h"
#include "ops/norm_rows.h"

mba_status MBA_CPU_FN(add_rmsnorm_fwd)(const mba_call *c)
{
    const mba_node      *n = c->node;
    const int64_t        R = mba_rows(n->in[RES]);
    const mba__norm_args a = { .x = mba__rows_of(n->in[RES], c->in[RES]),
                               .m = mba__rows_of(n->in[M], c->in[M]),
                               .sum = mba__rows_of(n->out[SUM], c->out[SUM]),
                               .y = mba__rows_of(n->out[Y], c->out[Y]),
                               .w = c->in[W],
                               .rstd = c->out[RSTD],
                               .eps = ((const add_rmsnorm_attr *)n->attr)->eps };
    MBA_PARALLEL_FOR(p, mba__parts(R))
    {
        if (a.m.at) mba__norm_part(&a, true, p * MBA__PART_ROWS, mba__part_end(p, R));
        else mba__norm_part(&a, false, p * MBA__PART_ROWS, mba__part_end(p, R));
    }
    return MBA_OK;
}

mba_status MBA_CPU_FN(add_rmsnorm_bwd)(const mba_call *c)
{
    const mba_node           *n = c->node;
    const int64_t             R = mba_rows(n->in[STREAM]), C = mba_cols(n->in[STREAM]);
    const mba__norm_grad_args a = { .dy = mba__rows_of(n->in[DY], c->in[DY]),
                                    .ds = mba__rows_of(n->in[DSUM], c->in[DSUM]),
                                    .x = mba__rows_of(n->in[STREAM], c->in[STREAM]),
                                    .dx = mba__rows_of(n->out[DRES], c->out[DRES]),
                                    .dm = mba__rows_of(n->out[DM], c->out[DM]),
                                    .w = c->in[WB],
                                    .rstd = c->in[RSTDB],
                                    .dx_adds = mba_adds(n, DRES),
                                    .dm_adds = mba_adds(n, DM) };
    float                    *dw = mba__scratch(c, 0);
    MBA_PARALLEL_FOR(p, mba__parts(R)) mba__norm_grad_part(&a, dw + p * C, p * MBA__PART_ROWS, mba__part_end(p, R));
    mba__sum_parts(c->out[DW], dw, mba__parts(R), C, mba_adds(n, DW));
    return MBA_OK;
}
