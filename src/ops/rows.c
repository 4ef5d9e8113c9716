// SPDX-License-Identifier: Apache-2.0
/* rows.c -- see rows.h. */
#include "ops/rows.h"

mba_status mba__need_rows(const char *op, const mba_tensor *t)
{
    MBA_NEED(t->type.dtype == MBA_F32 || t->type.dtype == MBA_BF16, "%s: %s holds no real numbers", op, t->name);
    MBA_NEED(t->run % mba_cols(t) == 0,
             "%s: rows of %lld of %s are split into runs of %lld\n"
             "why: it is a reshaped view whose rows no longer lie in one run each\nfix: normalise before the reshape",
             op, (long long)mba_cols(t), t->name, (long long)t->run);
    return MBA_OK;
}

mba_status mba__plan_f32(mba_plan *p, const mba_node *n, const mba_machine *m)
{
    (void)p;
    (void)m;
    for (int k = 0; k < MBA_IN_MAX + MBA_OUT_MAX; k++) {
        const mba_tensor *t = k < MBA_IN_MAX ? n->in[k] : n->out[k - MBA_IN_MAX];
        MBA_REFUSE_IF(t && t->type.dtype == MBA_BF16,
                      "%s in bf16\nwhy: the CPU computes in fp32\n"
                      "fix: build the model with fp32 as its compute type",
                      t->name);
    }
    return MBA_OK;
}
