// SPDX-License-Identifier: Apache-2.0
/* limiter.c -- see limiter.h. */
#include "study/limiter.h"

const char *mba_limiter_name(mba_limiter l)
{
    mba_assert(l < MBA_LIMITERS);
    return (const char *const[]){ "not counted",       "DRAM",   "L2",  "L1/shared", "issue slots",
                                  "special functions", "tensor", "FMA", "ALU",       "latency" }[l];
}

mba_limiter mba_limiter_of(const mba_analysis *a, const mba_kernel_view *k, double busy)
{
    const mba_counted *c = &k->counted;
    const double       pct[MBA_LIMITERS] = { [MBA_LIMIT_UNKNOWN] = NAN,
                                             [MBA_LIMIT_DRAM] = c->dram_pct,
                                             [MBA_LIMIT_L2] = 100 * c->l2_bytes / c->time_s / a->best.l2,
                                             [MBA_LIMIT_L1] = c->l1_pct,
                                             [MBA_LIMIT_ISSUE] = c->issue_pct,
                                             [MBA_LIMIT_SPECIAL] = c->xu_pct,
                                             [MBA_LIMIT_TENSOR] = c->tensor_pct,
                                             [MBA_LIMIT_FMA] = c->fma_pct,
                                             [MBA_LIMIT_ALU] = c->alu_pct,
                                             [MBA_LIMIT_LATENCY] = NAN };
    int                top = MBA_LIMIT_UNKNOWN;
    for (int i = MBA_LIMIT_DRAM; i < MBA_LIMIT_LATENCY; i++)
        if (!isnan(pct[i]) && (top == MBA_LIMIT_UNKNOWN || pct[i] > pct[top])) top = i;
    if (top == MBA_LIMIT_UNKNOWN) return MBA_LIMIT_UNKNOWN;
    return pct[top] >= busy ? (mba_limiter)top : MBA_LIMIT_LATENCY;
}
