// SPDX-License-Identifier: Apache-2.0
/* analysis_sums.c -- see analysis.h: sums and means over groups of kernels per step: arithmetic intensity, bandwidth,
 * vector-bound share, and time by bound. */
#include "scope/analysis.h"

const char *mba_group_name(mba_group_of g)
{
    mba_assert(g < MBA_KERNEL_GROUPS);
    return (const char *const[]){ "all", "ssm", "gemm" }[g];
}

bool mba_in_group(const mba_kernel_view *k, mba_group_of g)
{
    return k->launches > 0
           && (g == MBA_ALL_KERNELS || k->kind == (g == MBA_SSM_KERNELS ? (int)MBA_SSM : (int)MBA_GEMM));
}

double mba_kind_s(const mba_analysis *a, int kind)
{
    double s = 0;
    for (int p = 0; p < MBA_PHASES; p++) s += a->time_s[kind][p];
    return s;
}

double mba_products_s(const mba_analysis *a)
{
    double s = 0;
    for (int64_t i = 0; i < a->nkernels; i++)
        if (a->kernel[i].product) s += a->kernel[i].step_s;
    return s;
}

double mba_hardware_ratio(const mba_analysis *a)
{
    return (isnan(a->sheet.tensor) ? a->best.tensor : a->sheet.tensor)
           / (isnan(a->sheet.fma) ? a->best.fma : a->sheet.fma);
}

/* ---- intensity ---- */

mba_intensity mba_intensity_of(const mba_analysis *a, mba_group_of g)
{
    double        flops[3] = { 0 }, bytes[3] = { 0 }, least[3] = { 0 }, least_bytes = 0;
    mba_intensity out;
    for (int64_t i = 0; i < a->nkernels; i++) {
        const mba_kernel_view *k = &a->kernel[i];
        if (!mba_in_group(k, g)) continue;
        const mba_counted *c = &k->counted;
        const double       n = k->per_step, vector = c->fp32_flops + c->half_flops;
        const double       f[3] = { c->tensor_flops, vector, c->tensor_flops + vector },
                     b[3] = { c->dram_bytes, c->l2_bytes, c->l1_bytes };
        const double l[3] = { k->least.tensor_flops, k->least.vector_flops,
                              k->least.tensor_flops + k->least.vector_flops };
        for (int j = 0; j < 3; j++) {
            flops[j] += n * f[j];
            bytes[j] += n * b[j];
            least[j] += n * l[j];
        }
        least_bytes += n * k->least.bytes;
    }
    for (int f = 0; f < 3; f++) {
        for (int b = 0; b < 3; b++) out.executed[f][b] = bytes[b] > 0 ? flops[f] / bytes[b] : NAN;
        out.least[f] = least_bytes > 0 ? least[f] / least_bytes : NAN;
    }
    return out;
}

/* ---- bandwidth ---- */

/* Bytes and time of one launch: counted bytes with the time of the counter run, or least bytes with the time of the
 * timeline. False: not known. */
static bool launch_rate(const mba_kernel_view *k, bool least, double *bytes, double *s)
{
    const mba_counted *c = &k->counted;
    *bytes = least ? k->least.bytes : c->dram_bytes;
    *s = least || isnan(c->time_s) ? k->median_s : c->time_s;
    return *bytes >= 0 && *s > 0;
}

static mba_bandwidth rates_over(const mba_analysis *a, mba_group_of g, bool least)
{
    double launches = 0, rates = 0, all_bytes = 0, all_s = 0, of_s = 0, group_s = 0;
    for (int64_t i = 0; i < a->nkernels; i++) {
        const mba_kernel_view *k = &a->kernel[i];
        double                 bytes, s;
        if (!mba_in_group(k, g)) continue;
        group_s += k->step_s;
        if (!launch_rate(k, least, &bytes, &s)) continue;
        of_s += k->step_s;
        launches += k->per_step;
        rates += k->per_step * bytes / s;
        all_bytes += k->per_step * bytes;
        all_s += k->per_step * s;
    }
    return (mba_bandwidth){ .mean = launches > 0 ? rates / launches : NAN,
                            .weighted = all_s > 0 ? all_bytes / all_s : NAN,
                            .of_time = group_s > 0 ? of_s / group_s : NAN,
                            .least = least };
}

mba_bandwidth mba_bandwidth_of(const mba_analysis *a, mba_group_of g)
{
    const mba_bandwidth counted = rates_over(a, g, false);
    return isnan(counted.mean) ? rates_over(a, g, true) : counted;
}

/* ---- vector-bound ---- */

typedef struct share {
    double part, whole;
} share;

static void add_share(share *s, double time, double vector, double tensor)
{
    if (isnan(vector) || isnan(tensor)) return;
    s->whole += time;
    if (vector > tensor) s->part += time;
}

static double share_of(const share *s) { return s->whole > 0 ? s->part / s->whole : NAN; }

static double most(double x, double y) { return isnan(x) || y > x ? y : x; }

mba_vector_bound mba_vector_bound_of(const mba_analysis *a, mba_group_of g)
{
    share            fa = { 0, 0 }, fb = { 0, 0 }, pf = { 0, 0 }, pa = { 0, 0 };
    mba_vector_bound out = { .mixed_s = 0 };
    const double     ratio = mba_hardware_ratio(a);
    for (int64_t i = 0; i < a->nkernels; i++) {
        const mba_kernel_view *k = &a->kernel[i];
        const mba_counted     *c = &k->counted;
        if (!mba_in_group(k, g) || k->cls != MBA_CLASS_MIXED) continue;
        out.mixed_s += k->step_s;
        add_share(&fa, k->step_s, ratio * (c->fp32_flops + c->half_flops), c->tensor_flops);
        add_share(&fb, k->step_s, ratio * 2 * c->lane_slots, c->tensor_flops);
        add_share(&pf, k->step_s, c->fma_pct, c->tensor_pct);
        add_share(&pa, k->step_s, most(most(c->fma_pct, c->alu_pct), c->xu_pct), c->tensor_pct);
    }
    out.floor_a = share_of(&fa);
    out.floor_b = share_of(&fb);
    out.pipe_fma = share_of(&pf);
    out.pipe_any = share_of(&pa);
    return out;
}

/* ---- bounds ---- */

mba_bounds mba_bounds_of(const mba_analysis *a, mba_group_of g)
{
    mba_bounds out = { .time_s = 0 };
    double     known = 0, least = 0;
    for (int64_t i = 0; i < a->nkernels; i++) {
        const mba_kernel_view *k = &a->kernel[i];
        if (!mba_in_group(k, g)) continue;
        out.time_s += k->step_s;
        if (isnan(k->least_s)) continue;
        known += k->step_s;
        least += k->per_step * k->least_s;
        out.executed |= k->from_counters;
        mba_assert(k->bound < MBA_FLOORS);
        out.share[k->bound] += k->step_s;
    }
    for (int f = 0; f < MBA_FLOORS; f++) out.share[f] = known > 0 ? out.share[f] / known : NAN;
    out.percent_of_floor = known > 0 ? 100 * least / known : NAN;
    return out;
}

/* A floor of executed work includes work that was not necessary, so it cannot be compared with a floor of least
 * work. */
double mba_percent_of_least(const mba_analysis *a, mba_group_of g)
{
    const mba_bounds b = mba_bounds_of(a, g);
    return b.executed ? NAN : b.percent_of_floor;
}
