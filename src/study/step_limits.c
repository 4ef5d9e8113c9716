// SPDX-License-Identifier: Apache-2.0
/* step_limits.c -- see step_limits.h. */
#include "study/step_limits.h"

#include <math.h>

const char *mba_limit_name(mba_limit l)
{
    static const char *const names[MBA_LIMITS] = { "matrix products", "DRAM", "on chip", "latency", "host", "unknown" };
    mba_assert(l >= 0 && l < MBA_LIMITS);
    return names[l];
}

static double most_of(const double *v, int n)
{
    double most = NAN;
    for (int i = 0; i < n; i++)
        if (!isnan(v[i]) && !(most >= v[i])) most = v[i];
    return most;
}

mba_limit mba_limit_of(const mba_kernel_view *k, double percent)
{
    const mba_counted *c = &k->counted;
    const double       chip[] = { c->l1_pct, c->issue_pct, c->fma_pct, c->alu_pct, c->xu_pct },
                 on_chip = most_of(chip, sizeof chip / sizeof *chip);
    if (isnan(c->dram_pct) && isnan(on_chip) && isnan(c->tensor_pct)) return MBA_LIMIT_UNKNOWN;
    if (c->tensor_pct >= percent) return MBA_LIMIT_TENSOR;
    if (c->dram_pct >= percent && !(on_chip > c->dram_pct)) return MBA_LIMIT_DRAM;
    return on_chip >= percent ? MBA_LIMIT_CHIP : MBA_LIMIT_LATENCY;
}

/* A step without a profiler, or where it is shorter, what its traced kernels and copies sum to. */
static double step_s(const mba_analysis *a)
{
    const double seen = isnan(a->plain_s) ? a->attached_s : a->plain_s;
    if (isnan(seen)) return a->busy_s + (a->idle_s > 0 ? a->idle_s : 0);
    return seen > a->busy_s ? seen : a->busy_s;
}

mba_limits mba_limits_of(const mba_analysis *a, double percent)
{
    mba_limits   l = { .share = { 0 } };
    const double step = step_s(a);
    double       kernels = 0;
    for (int64_t i = 0; i < a->nkernels; i++) {
        const mba_kernel_view *k = &a->kernel[i];
        if (!(k->step_s > 0)) continue;
        l.share[mba_limit_of(k, percent)] += k->step_s;
        kernels += k->step_s;
    }
    l.share[MBA_LIMIT_HOST] = step > kernels ? step - kernels : 0;
    const double sum = kernels + l.share[MBA_LIMIT_HOST];
    for (int i = 0; i < MBA_LIMITS; i++) {
        l.share[i] = kernels > 0 ? l.share[i] / sum : NAN;
        if (l.share[i] > l.share[l.most]) l.most = (mba_limit)i;
    }
    return l;
}

mba_distance mba_farthest_from_floor(const mba_analysis *a)
{
    mba_distance d = { NULL, 0 };
    for (int64_t i = 0; i < a->nkernels; i++) {
        const mba_kernel_view *k = &a->kernel[i];
        const double           part = (k->step_s - k->per_step * k->least_s) / a->busy_s;
        if (part > d.part && k->row->name) d = (mba_distance){ k, part };
    }
    return d;
}
