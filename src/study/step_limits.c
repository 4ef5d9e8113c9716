// SPDX-License-Identifier: Apache-2.0
/* step_limits.c -- see step_limits.h. */
#include "study/step_limits.h"

#include <math.h>

const char *mba_step_limit_name(mba_step_limit l)
{
    static const char *const names[MBA_STEP_LIMITS] = { "matrix products", "DRAM", "on chip",
                                                        "latency",         "host", "unknown" };
    mba_assert(l < MBA_STEP_LIMITS);
    return names[l];
}

mba_step_limit mba_step_limit_of(const mba_analysis *a, const mba_kernel_view *k, double busy)
{
    switch (mba_limiter_of(a, k, busy)) {
    case MBA_LIMIT_UNKNOWN: return MBA_STEP_UNKNOWN;
    case MBA_LIMIT_DRAM: return MBA_STEP_DRAM;
    case MBA_LIMIT_TENSOR: return MBA_STEP_PRODUCTS;
    case MBA_LIMIT_LATENCY: return MBA_STEP_LATENCY;
    default: return MBA_STEP_CHIP;
    }
}

/* A step without a profiler, or where it is shorter, what its traced kernels and copies sum to. */
static double step_s(const mba_analysis *a)
{
    const double seen = isnan(a->plain_s) ? a->attached_s : a->plain_s;
    if (isnan(seen)) return a->busy_s + (a->idle_s > 0 ? a->idle_s : 0);
    return seen > a->busy_s ? seen : a->busy_s;
}

bool mba_step_limit_is_large(const mba_step_limits *l, int i)
{
    mba_assert(i >= 0 && i < MBA_STEP_LIMITS);
    return 100 * (l->share[l->most] - l->share[i]) <= MBA_LEAD_PCT;
}

mba_step_limits mba_step_limits_of(const mba_analysis *a, double busy)
{
    mba_step_limits l = { .share = { 0 } };
    const double    step = step_s(a);
    double          kernels = 0;
    for (int64_t i = 0; i < a->nkernels; i++) {
        const mba_kernel_view *k = &a->kernel[i];
        if (!(k->step_s > 0)) continue;
        l.share[mba_step_limit_of(a, k, busy)] += k->step_s;
        kernels += k->step_s;
    }
    l.share[MBA_STEP_HOST] = step > kernels ? step - kernels : 0;
    const double sum = kernels + l.share[MBA_STEP_HOST];
    for (int i = 0; i < MBA_STEP_LIMITS; i++) {
        l.share[i] = kernels > 0 ? l.share[i] / sum : NAN;
        if (l.share[i] > l.share[l.most]) l.most = (mba_step_limit)i;
    }
    int large = 0;
    for (int i = 0; i < MBA_STEP_LIMITS; i++) large += mba_step_limit_is_large(&l, i);
    l.clear = large == 1;
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
