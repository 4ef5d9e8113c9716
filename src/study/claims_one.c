// SPDX-License-Identifier: Apache-2.0
/* claims_one.c -- see claims_parts.h: claims that one store can answer. */
#include <string.h>

#include "study/claims_parts.h"
#include "study/limiter.h"

double mba__kind_percent(const mba_analysis *a, int kind)
{
    return a->busy_s > 0 ? 100 * mba_kind_s(a, kind) / a->busy_s : NAN;
}

/* ---- F1, F2: shares of the step ---- */

/* Time of convolutions that run as matrix products on tensor units. */
static double tensor_conv_s(const mba_analysis *a)
{
    double s = 0;
    for (int64_t i = 0; i < a->nkernels; i++) {
        const mba_kernel_view *k = &a->kernel[i];
        if (k->kind == MBA_CONV && (k->cls == MBA_CLASS_TENSOR || k->cls == MBA_CLASS_MIXED)) s += k->step_s;
    }
    return s;
}

/* The largest class but GEMM. `head` and `conv`: percent that left the classes of the loss and of convolutions. */
static int largest_other(const mba_analysis *a, double head, double conv, double *percent)
{
    int top = -1;
    for (int k = 0; k < MBA_BREAKDOWN_KINDS; k++) {
        if (k == MBA_GEMM) continue;
        const double p = mba__kind_percent(a, k) - (k == MBA_EMBED_LOSS ? head : k == MBA_CONV ? conv : 0);
        if (top < 0 || p > *percent) top = k, *percent = p;
    }
    return top;
}

void mba__claim_f1(const claim_stores *all, const claim_rules *r, mba_claim *c)
{
    const mba_analysis *a = all->store[0];
    const double        alone = mba__kind_percent(a, MBA_GEMM);
    double              other, other_conv;
    if (isnan(alone)) {
        NEEDS(c, "a timeline");
        return;
    }
    const double head = r->head > 0 ? 100 * mba_products_s(a) / a->busy_s - alone : 0;
    const double conv = 100 * tensor_conv_s(a) / a->busy_s, gemm = alone + head;
    const int    top = largest_other(a, head, 0, &other);
    largest_other(a, head, conv, &other_conv);
    c->number[0] = gemm;
    CELL(c, "%s", mba__two(gemm).s);
    MEASURED(c, "GEMM %.1f %% of the %s", gemm, mba_step_word(a));
    if (head >= 0.05) MEASURED(c, " (%.1f without the head's products)", alone);
    MEASURED(c, "; next: %s %.1f %%", mba_breakdown_kind_name(top), other);
    if (conv > 0) MEASURED(c, "; with convolutions that run on tensor units %.1f %%", gemm + conv);
    const bool within = gemm <= r->gemm_most + r->gemm_off;
    c->here = gemm > other                           ? within ? MBA_REPRODUCED : MBA_DEPENDS
              : gemm + conv > other_conv && conv > 0 ? MBA_DEPENDS
                                                     : MBA_REFUTED;
}

/* Below the bound by far says little about "up to about 20 %", and above it refutes it. */
void mba__claim_f2(const claim_stores *all, const claim_rules *r, mba_claim *c)
{
    const mba_analysis *a = all->store[0];
    const double        ssm = mba__kind_percent(a, MBA_SSM);
    if (isnan(ssm)) {
        NEEDS(c, "a timeline");
        return;
    }
    c->number[0] = ssm;
    CELL(c, "%s", mba__two(ssm).s);
    MEASURED(c, "SSM operators %.1f %% of the %s", ssm, mba_step_word(a));
    c->here = ssm > r->ssm_most + r->ssm_off   ? MBA_REFUTED
              : ssm < r->ssm_most - r->ssm_off ? MBA_DEPENDS
                                               : MBA_REPRODUCED;
}

/* ---- F3, F4: memory ---- */

/* Percent of the GPU time in kernels whose DRAM is busy; NaN if less than half of the time was counted. */
static double dram_busy_percent(const mba_analysis *a, const claim_rules *r)
{
    double counted = 0, busy = 0;
    for (int64_t i = 0; i < a->nkernels; i++) {
        const mba_kernel_view *k = &a->kernel[i];
        if (isnan(k->counted.dram_pct)) continue;
        counted += k->step_s;
        if (k->counted.dram_pct >= r->busy) busy += k->step_s;
    }
    return 100 * counted > r->majority * a->busy_s ? 100 * busy / a->busy_s : NAN;
}

/* The convention is: least work (executed work of an external program) at measured ceilings. Intensities by other
 * conventions are columns of `show intensity` and decide nothing. */
void mba__claim_f3(const claim_stores *all, const claim_rules *r, mba_claim *c)
{
    const mba_analysis *a = all->store[0];
    const mba_bounds    b = mba_bounds_of(a, MBA_ALL_KERNELS);
    const mba_intensity in = mba_intensity_of(a, MBA_ALL_KERNELS);
    const double        busy = dram_busy_percent(a, r), floor = 100 * b.share[MBA_BY_MEMORY];
    c->number[0] = busy;
    c->number[1] = floor;
    if (isnan(busy) && isnan(floor)) {
        NEEDS(c, "a timeline, ceilings, and counters of DRAM (set overview)");
        return;
    }
    CELL(c, "%s / %s", mba__two(busy).s, mba__two(floor).s);
    if (!isnan(busy)) MEASURED(c, "DRAM is at least %.0f %% busy for %.0f %% of the GPU time; ", r->busy, busy);
    if (!isnan(floor)) MEASURED(c, "memory sets the floor for %.0f %%", floor);
    if (!isnan(in.executed[2][0]))
        MEASURED(c, "; all FLOPs per DRAM byte %.0f, vector FLOPs alone %.1f", in.executed[2][0], in.executed[1][0]);
    if (isnan(busy) || isnan(floor)) {
        NEEDS(c, isnan(busy) ? "utilisation of DRAM: counters, set overview" : "floors: ceilings of the machine");
        return;
    }
    const int ways = (busy >= r->majority) + (floor >= r->majority);
    c->here = ways == 2 ? MBA_REPRODUCED : ways ? MBA_DEPENDS : MBA_REFUTED;
}

/* Four readings: mean over launches and by time, of the data sheet and of the measured copy. Far less than 57.5 % is
 * another finding: such kernels do not wait for bandwidth, whatever their floor. */
void mba__claim_f4(const claim_stores *all, const claim_rules *r, mba_claim *c)
{
    const mba_analysis *a = all->store[0];
    const mba_bandwidth w = mba_bandwidth_of(a, MBA_SSM_KERNELS);
    const double        bound = 100 * mba_bounds_of(a, MBA_SSM_KERNELS).share[MBA_BY_MEMORY];
    if (isnan(w.mean)) {
        NEEDS(c, "SSM kernels on the timeline");
        return;
    }
    const double peak[2] = { a->sheet.dram, a->measured.dram };
    const char  *name[2] = { "the data sheet", "a copy" };
    int          known = 0, little = 0;
    MEASURED(c, "%s%.0f GB/s mean over launches, %.0f by time", w.least ? "at least " : "", w.mean / 1e9,
             w.weighted / 1e9);
    for (int i = 0; i < 2; i++) {
        const double p[2] = { 100 * w.mean / peak[i], 100 * w.weighted / peak[i] };
        if (isnan(p[0])) continue;
        MEASURED(c, "%s %.0f and %.0f %% of %s", known ? "," : ":", p[0], p[1], name[i]);
        if (!known) c->number[0] = p[0], c->number[1] = p[1], CELL(c, "%s / %s", mba__two(p[0]).s, mba__two(p[1]).s);
        known += 2;
        for (int k = 0; k < 2; k++) little += p[k] < r->bandwidth_most && p[k] >= r->bandwidth_least;
    }
    if (!isnan(bound)) MEASURED(c, "; memory sets the floor for %.0f %% of their time", bound);
    if (w.least || !known || isnan(bound)) {
        NEEDS(c, "bytes that moved and ceilings: counters, set overview or roofline");
        *c->cell = 0;
        c->number[0] = c->number[1] = NAN;
        return;
    }
    c->here = bound < r->majority || !little ? MBA_REFUTED : little == known ? MBA_REPRODUCED : MBA_DEPENDS;
}

/* ---- F6, F7, F8: classes of kernels ---- */

void mba__claim_f6(const claim_stores *all, const claim_rules *r, mba_claim *c)
{
    const mba_analysis *a = all->store[0];
    int                 n[5] = { 0 };
    bool                counted = false;
    (void)r;
    for (int64_t i = 0; i < a->nkernels; i++) {
        const mba_kernel_view *k = &a->kernel[i];
        if (!mba_in_group(k, MBA_SSM_KERNELS)) continue;
        n[k->cls]++;
        counted |= k->cls_counted;
    }
    MEASURED(c, "SSM kernels: %d tensor-only, %d vector-only, %d mixed%s", n[MBA_CLASS_TENSOR], n[MBA_CLASS_VECTOR],
             n[MBA_CLASS_MIXED], counted ? "" : " (as planned, not counted)");
    if (!counted) {
        NEEDS(c, "counters, sets roofline and pipes");
        return;
    }
    CELL(c, "%d·%d·%d", n[MBA_CLASS_TENSOR], n[MBA_CLASS_VECTOR], n[MBA_CLASS_MIXED]);
    c->number[0] = n[MBA_CLASS_TENSOR], c->number[1] = n[MBA_CLASS_VECTOR], c->number[2] = n[MBA_CLASS_MIXED];
    const int found = (n[MBA_CLASS_TENSOR] > 0) + (n[MBA_CLASS_VECTOR] > 0) + (n[MBA_CLASS_MIXED] > 0);
    c->here = found == 3 ? MBA_REPRODUCED : found == 2 ? MBA_DEPENDS : MBA_REFUTED;
}

/* Utilisation of the busiest vector pipe of all mixed kernels; NaN: not counted. */
static double busiest_vector_pct(const mba_analysis *a)
{
    double most = NAN;
    for (int64_t i = 0; i < a->nkernels; i++) {
        const mba_kernel_view *k = &a->kernel[i];
        if (!mba_in_group(k, MBA_SSM_KERNELS) || k->cls != MBA_CLASS_MIXED) continue;
        most = fmax(most, fmax(fmax(k->counted.fma_pct, k->counted.alu_pct), k->counted.xu_pct));
    }
    return most;
}

void mba__claim_f7(const claim_stores *all, const claim_rules *r, mba_claim *c)
{
    const mba_analysis      *a = all->store[0];
    const mba_vector_bound   v = mba_vector_bound_of(a, MBA_SSM_KERNELS);
    const double             rule[4] = { 100 * v.floor_a, 100 * v.floor_b, 100 * v.pipe_fma, 100 * v.pipe_any };
    static const char *const name[4] = { "FLOPs", "issue slots", "FMA pipe", "any vector pipe" };
    int                      known = 0, high = 0;
    double                   least = NAN, most = NAN;
    if (mba__has_other_ssm(a)) {
        MEASURED(c, "the claim is about the kernels of Mamba-2");
        c->here = MBA_NOT_APPLICABLE;
        return;
    }
    for (int i = 0; i < 4; i++) {
        c->number[i] = rule[i];
        if (isnan(rule[i])) continue;
        MEASURED(c, "%s%s %.0f %%", known++ ? ", " : "vector-bound by ", name[i], rule[i]);
        high += rule[i] >= r->vector_bound;
        least = fmin(least, rule[i]), most = fmax(most, rule[i]);
    }
    if (!known) {
        NEEDS(c, "counters of mixed SSM kernels, sets roofline and pipes");
        return;
    }
    CELL(c, "%s–%s", mba__two(least).s, mba__two(most).s);
    MEASURED(c, " (hardware %.0f : 1)", mba_hardware_ratio(a));
    const double busy = busiest_vector_pct(a);
    if (!isnan(busy)) MEASURED(c, "; no vector pipe is over %.0f %% busy", busy);
    c->here = high == known ? MBA_REPRODUCED : high ? MBA_DEPENDS : MBA_REFUTED;
}

void mba__claim_f8(const claim_stores *all, const claim_rules *r, mba_claim *c)
{
    const mba_analysis *a = all->store[0];
    double              s = 0, hit = 0;
    for (int64_t i = 0; i < a->nkernels; i++) {
        const mba_kernel_view *k = &a->kernel[i];
        if (!mba_in_group(k, MBA_SSM_KERNELS) || k->cls != MBA_CLASS_VECTOR || isnan(k->counted.l1_hit_pct)) continue;
        s += k->step_s;
        hit += k->step_s * k->counted.l1_hit_pct;
    }
    if (!(s > 0)) {
        NEEDS(c, "counters of vector-only SSM kernels, set cache");
        return;
    }
    c->number[0] = hit / s;
    CELL(c, "%s", mba__two(hit / s).s);
    MEASURED(c, "L1 hit rate %.1f %% (time-weighted)", hit / s);
    c->here = hit / s < r->l1_low ? MBA_REPRODUCED : hit / s < r->l1_high ? MBA_DEPENDS : MBA_REFUTED;
}

/* ---- F11: what limits SSM kernels ---- */

/* 2: registers alone; 1: shared memory or the grid as well, so that fewer registers let no further block fit. */
static int registers_limit(const mba_analysis *a, const mba_kernel_view *k)
{
    const char *by = mba_occupancy_limiter(a, k);
    return !by || strncmp(by, "registers", strlen("registers")) ? 0 : strcmp(by, "registers") ? 1 : 2;
}

/* "Global memory" is DRAM: a kernel that L1 or shared memory limits does not wait for it. */
void mba__claim_f11(const claim_stores *all, const claim_rules *r, mba_claim *c)
{
    const mba_analysis *a = all->store[0];
    double              s = 0, by[MBA_LIMITERS] = { 0 }, registers = 0, tied = 0, stalled = 0;
    for (int64_t i = 0; i < a->nkernels; i++) {
        const mba_kernel_view *k = &a->kernel[i];
        if (!mba_in_group(k, MBA_SSM_KERNELS) || isnan(k->counted.dram_pct)) continue;
        const mba_limiter l = mba_limiter_of(a, k, r->busy);
        s += k->step_s;
        by[l] += k->step_s;
        const int of = registers_limit(a, k);
        if (of == 1) tied += k->step_s;
        if (of == 2) registers += k->step_s;
        if (of == 2 && l == MBA_LIMIT_LATENCY) stalled += k->step_s;
    }
    if (!(s > 0)) {
        NEEDS(c, "counters of SSM kernels, sets overview, pipes and occupancy");
        return;
    }
    const double limits = 100 * (by[MBA_LIMIT_DRAM] + (r->registers > 0 ? stalled : 0)) / s;
    c->number[0] = limits;
    c->number[1] = 100 * by[MBA_LIMIT_LATENCY] / s, c->number[2] = 100 * registers / s;
    CELL(c, "%s", mba__two(limits).s);
    MEASURED(c, "SSM time limited by");
    for (int l = MBA_LIMIT_DRAM, n = 0; l < MBA_LIMITERS; l++)
        if (l == MBA_LIMIT_DRAM || by[l] > 0)
            MEASURED(c, "%s %s %.0f %%", n++ ? "," : "", mba_limiter_name((mba_limiter)l), 100 * by[l] / s);
    MEASURED(c, "; registers alone limit occupancy for %.0f %%", 100 * registers / s);
    if (tied > 0) MEASURED(c, ", registers and shared memory or the grid for %.0f %%", 100 * tied / s);
    c->here = limits >= r->majority ? MBA_REPRODUCED : limits >= r->third ? MBA_DEPENDS : MBA_REFUTED;
}
