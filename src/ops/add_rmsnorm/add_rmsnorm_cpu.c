/* add_rmsnorm_cpu.c -- rows in parallel; the row itself is ops/norm_rows.h. */
#include "ops/add_rmsnorm/add_rmsnorm_slots.h"
#include "ops/norm_rows.h"

mba_status MBA_CPU_FN(add_rmsnorm_fwd)(const mba_call *c)
{
    const mba_node *n   = c->node;
    const int64_t   C   = mba_cols(n->in[RES]);
    const mba__rows res = mba__rows_of(n->in[RES], c->in[RES]), m = mba__rows_of(n->in[M], c->in[M]);
    const mba__rows sum = mba__rows_of(n->out[SUM], c->out[SUM]), y = mba__rows_of(n->out[Y], c->out[Y]);
    const float     eps = ((const add_rmsnorm_attr *)n->attr)->eps, *w = c->in[W];
    float          *rstd = c->out[RSTD];
    MBA_PARALLEL_FOR(r, mba_rows(n->in[RES])) {
        if (m.at) rstd[r] = mba__norm_row(mba__row(y, r), mba__row(sum, r), mba__row(res, r), mba__row(m, r), w, C, eps);
        else      rstd[r] = mba__norm_row(mba__row(y, r), NULL, mba__row(res, r), NULL, w, C, eps);
    }
    return MBA_OK;
}

mba_status MBA_CPU_FN(add_rmsnorm_bwd)(const mba_call *c)
{
    const mba_node *n    = c->node;
    const int64_t   R    = mba_rows(n->in[STREAM]), C = mba_cols(n->in[STREAM]), parts = mba__parts(R);
    const mba__rows dy   = mba__rows_of(n->in[DY], c->in[DY]), dsum = mba__rows_of(n->in[DSUM], c->in[DSUM]);
    const mba__rows x    = mba__rows_of(n->in[STREAM], c->in[STREAM]);
    const mba__rows dres = mba__rows_of(n->out[DRES], c->out[DRES]), dm = mba__rows_of(n->out[DM], c->out[DM]);
    const float    *w    = c->in[WB], *rstd = c->in[RSTDB];
    float          *part = mba__scratch(c, 0);
    const bool      dres_adds = mba_adds(n, DRES), dm_adds = mba_adds(n, DM);
    MBA_PARALLEL_FOR(p, parts) {
        memset(part + p * C, 0, sizeof(float) * (size_t)C);
        for (int64_t r = p * MBA__PART_ROWS; r < R && r < (p + 1) * MBA__PART_ROWS; r++) {
            const mba__norm_grads g = { .dy = mba__row(dy, r), .ds = mba__row(dsum, r), .x = mba__row(x, r), .w = w,
                                        .dx = mba__row(dres, r), .dx_adds = dres_adds, .dm = mba__row(dm, r),
                                        .dm_adds = dm_adds, .dw = part + p * C };
            mba__norm_bwd_row(g, rstd[r], C);
        }
    }
    mba__sum_parts(c->out[DW], part, parts, C, mba_adds(n, DW));
    return MBA_OK;
}
