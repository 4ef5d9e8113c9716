/* rmsnorm_cpu.c -- rows in parallel; the row itself is ops/norm_rows.h. */
#include "ops/norm_rows.h"
#include "ops/rmsnorm/rmsnorm_slots.h"

mba_status MBA_CPU_FN(rmsnorm_fwd)(const mba_call *c)
{
    const mba_node *n = c->node;
    const mba__rows x = mba__rows_of(n->in[X], c->in[X]), y = mba__rows_of(n->out[Y], c->out[Y]);
    const float     eps = ((const rmsnorm_attr *)n->attr)->eps, *w = c->in[W];
    float          *rstd = c->out[RSTD];
    MBA_PARALLEL_FOR(r, mba_rows(n->in[X]))
        rstd[r] = mba__norm_row(mba__row(y, r), NULL, mba__row(x, r), NULL, w, x.cols, eps);
    return MBA_OK;
}

mba_status MBA_CPU_FN(rmsnorm_bwd)(const mba_call *c)
{
    const mba_node *n    = c->node;
    const int64_t   R    = mba_rows(n->in[XB]), C = mba_cols(n->in[XB]), parts = mba__parts(R);
    const mba__rows dy   = mba__rows_of(n->in[DY], c->in[DY]), x = mba__rows_of(n->in[XB], c->in[XB]);
    const mba__rows dx   = mba__rows_of(n->out[DX], c->out[DX]);
    const float    *w    = c->in[WB], *rstd = c->in[RSTDB];
    float          *part = mba__scratch(c, 0);
    const bool      adds = mba_adds(n, DX);
    MBA_PARALLEL_FOR(p, parts) {
        memset(part + p * C, 0, sizeof(float) * (size_t)C);
        for (int64_t r = p * MBA__PART_ROWS; r < R && r < (p + 1) * MBA__PART_ROWS; r++) {
            const mba__norm_grads g = { .dy = mba__row(dy, r), .x = mba__row(x, r), .w = w, .dx = mba__row(dx, r),
                                        .dx_adds = adds, .dw = part + p * C };
            mba__norm_bwd_row(g, rstd[r], C);
        }
    }
    mba__sum_parts(c->out[DW], part, parts, C, mba_adds(n, DW));
    return MBA_OK;
}
