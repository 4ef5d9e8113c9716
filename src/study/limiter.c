// SPDX-License-Identifier: Apache-2.0
/* limiter.c -- see limiter.h. */
#include "study/limiter.h"

#include <string.h>

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

/* Shared memory is given in units, and the driver takes some of every block: src/scope/occupancy.c. */
static bool fills_shared_memory(const mba_analysis *a, const mba_row_kernel *r)
{
    enum { UNIT = 128, OF_DRIVER = 1024 };
    const double of_sm = mba_env_value(a, "gpu.smem_sm");
    if (isnan(of_sm) || r->smem_static_bytes == MBA_ABSENT || r->smem_dynamic_bytes == MBA_ABSENT) return false;
    const int64_t block = r->smem_static_bytes + r->smem_dynamic_bytes + OF_DRIVER;
    return (int64_t)of_sm / ((block + UNIT - 1) / UNIT * UNIT) <= r->blocks_per_sm;
}

const char *mba_occupancy_limiter(const mba_analysis *a, const mba_kernel_view *k)
{
    const mba_row_kernel *r = k->row;
    if (!r->limiter || strcmp(r->limiter, "registers") || r->blocks_per_sm == MBA_ABSENT) return r->limiter;
    const bool shared = fills_shared_memory(a, r), grid = r->waves <= 1; // as many blocks as fit at once
    return shared && grid ? "registers, shared memory and the grid"
           : shared       ? "registers and shared memory"
           : grid         ? "registers and the grid"
                          : r->limiter;
}
