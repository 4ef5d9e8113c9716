// SPDX-License-Identifier: Apache-2.0
/* claims.c -- see claims.h. All thresholds stand below in one place, so that tests can try values on both sides of
 * them. */
#include "study/claims.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Thresholds, in percentage points unless the name says otherwise. */
static const double GEMM_MOST = 65, SSM_MOST = 25, INTENSITY_MOST = 3.5, BANDWIDTH = 57.5, BANDWIDTH_OFF = 5,
                    H100_BYTES = 3350e9, VECTOR_BOUND_LEAST = 85, L1_HIT_LOW = 10, L1_HIT_HIGH = 25, MAJORITY = 50,
                    RATIO_MOST = 16, LIVES_LONGER = 1.5, RISES = 0.05, BYTES_ALIKE = 0.1, HITS_FALL = 5,
                    SIZES_ALIKE = 1.5;

const char *mba_verdict_name(mba_verdict v)
{
    return (const char *const[]){ "open", "reproduced", "refuted", "depends", "not applicable" }[v];
}

static void say(char *text, size_t room, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static void say(char *text, size_t room, const char *fmt, ...)
{
    const size_t n = strlen(text);
    va_list      ap;
    va_start(ap, fmt);
    vsnprintf(text + n, room - n, fmt, ap);
    va_end(ap);
}
#define MEASURED(c, ...) say((c)->measured, sizeof(c)->measured, __VA_ARGS__)
#define NEEDS(c, ...)    say((c)->needs, sizeof(c)->needs, __VA_ARGS__)

/* The store that is judged, then those beside it. */
typedef struct beside {
    const mba_analysis *store[1 + MBA_BESIDE_MAX];
    int                 n;
} beside;

static bool same_text(const char *a, const char *b) { return !strcmp(a ? a : "", b ? b : ""); }

static bool same_machine(const mba_analysis *a, const mba_analysis *b)
{
    return same_text(mba_env_find(a, "gpu.name"), mba_env_find(b, "gpu.name"));
}

/* One workload on one GPU. What a store does not say (one of an external program has no parameters) counts as equal. */
static bool same_model(const mba_analysis *a, const mba_analysis *b)
{
    const bool both = *a->parameters && *b->parameters;
    return same_text(a->workload, b->workload) && (!both || same_text(a->parameters, b->parameters))
           && same_machine(a, b);
}

/* Steps of both have as many tokens in as many sequences. */
static bool same_size(const mba_analysis *a, const mba_analysis *b)
{
    const bool both = *a->batch && *b->batch;
    return a->units == b->units && (!both || same_text(a->batch, b->batch));
}

static bool same_program(const mba_analysis *a, const mba_analysis *b)
{
    return !mba_env_find(a, "run.foreign") == !mba_env_find(b, "run.foreign");
}

static double kind_percent(const mba_analysis *a, int kind)
{
    double s = 0;
    for (int p = 0; p < MBA_PHASES; p++) s += a->time_s[kind][p];
    return a->busy_s > 0 ? 100 * s / a->busy_s : NAN;
}

static void f1(const beside *all, mba_claim *c)
{
    const mba_analysis *a = all->store[0];
    const double        gemm = kind_percent(a, MBA_GEMM);
    int                 top = 0;
    for (int k = 1; k < MBA_BREAKDOWN_KINDS; k++)
        if (kind_percent(a, k) > kind_percent(a, top)) top = k;
    if (isnan(gemm)) {
        NEEDS(c, "a timeline");
        return;
    }
    MEASURED(c, "GEMM %.1f %%; largest: %s %.1f %%", gemm, mba_breakdown_kind_name(top), kind_percent(a, top));
    c->verdict = top != MBA_GEMM ? MBA_REFUTED : gemm <= GEMM_MOST ? MBA_REPRODUCED : MBA_DEPENDS;
}

static void f2(const beside *all, mba_claim *c)
{
    const mba_analysis *a = all->store[0];
    const double        ssm = kind_percent(a, MBA_SSM);
    if (isnan(ssm)) {
        NEEDS(c, "a timeline");
        return;
    }
    MEASURED(c, "SSM operators %.1f %% of the %s", ssm, mba_step_word(a));
    c->verdict = ssm <= SSM_MOST ? MBA_REPRODUCED : MBA_REFUTED;
}

static void f3(const beside *all, mba_claim *c)
{
    const mba_analysis      *a = all->store[0];
    static const char *const flops[] = { "tensor", "vector", "both" }, *const level[] = { "DRAM", "L2", "L1" };
    const mba_intensity in = mba_intensity_of(a, MBA_ALL_KERNELS);
    const mba_bounds    b = mba_bounds_of(a, MBA_ALL_KERNELS);
    const bool          unknown = isnan(in.least[1]) && isnan(in.executed[1][0]);
    bool                below = false, counted = false;
    if (isnan(b.percent_of_floor)) {
        NEEDS(c, "a timeline and ceilings");
        return;
    }
    MEASURED(c, "%.0f %% of the time in kernels whose floor is memory; FLOP/byte:", 100 * b.share[MBA_BY_MEMORY]);
    if (!isnan(in.least[2])) MEASURED(c, " least, both %.2f, vector %.2f", in.least[2], in.least[1]);
    bool first = isnan(in.least[2]);
    below |= in.least[1] < INTENSITY_MOST || in.least[2] < INTENSITY_MOST;
    for (int f = 0; f < 3; f++)
        for (int l = 0; l < 3; l++) {
            if (isnan(in.executed[f][l])) continue;
            counted = true;
            below |= in.executed[f][l] < INTENSITY_MOST;
            if (f == 0 && !unknown) continue;
            MEASURED(c, "%s %s/%s %.2f", first ? "" : ",", flops[f], level[l], in.executed[f][l]);
            first = false;
        }
    if (!counted || unknown) NEEDS(c, "executed FLOPs and bytes: counters, set roofline");
    if (unknown) return; // no vector FLOPs: nothing shows a low intensity
    const bool memory = 100 * b.share[MBA_BY_MEMORY] > MAJORITY;
    c->verdict = memory && below ? MBA_REPRODUCED : memory || below ? MBA_DEPENDS : MBA_REFUTED;
}

static void f4(const beside *all, mba_claim *c)
{
    const mba_analysis *a = all->store[0];
    const mba_bandwidth w = mba_bandwidth_of(a, MBA_SSM_KERNELS);
    if (isnan(w.mean)) {
        NEEDS(c, "SSM kernels on the timeline");
        return;
    }
    const double own = isnan(a->sheet.dram) ? a->best.dram : a->sheet.dram;
    MEASURED(c, "%s%.0f GB/s mean over launches, %.0f time-weighted: %.1f and %.1f %% of %s, %.1f %% of 3350 GB/s",
             w.least ? "at least " : "", w.mean / 1e9, w.weighted / 1e9, 100 * w.mean / own, 100 * w.weighted / own,
             isnan(a->sheet.dram) ? "the measured copy" : "the data sheet", 100 * w.mean / H100_BYTES);
    if (w.least) {
        NEEDS(c, "bytes that moved: counters, set overview or roofline");
        return;
    }
    const bool here = fabs(100 * w.mean / own - BANDWIDTH) <= BANDWIDTH_OFF,
               there = fabs(100 * w.mean / H100_BYTES - BANDWIDTH) <= BANDWIDTH_OFF;
    c->verdict = here ? MBA_REPRODUCED : there ? MBA_DEPENDS : MBA_REFUTED;
}

/* Mean lifetime of blocks of SSM kernels, weighted by time. */
static double ssm_lifetime(const mba_analysis *a)
{
    double s = 0, life = 0;
    for (int64_t i = 0; i < a->nkernels; i++) {
        const mba_kernel_view *k = &a->kernel[i];
        if (!mba_in_group(k, MBA_SSM_KERNELS) || isnan(k->counted.block_s)) continue;
        s += k->step_s;
        life += k->step_s * k->counted.block_s;
    }
    return s > 0 ? life / s : NAN;
}

static double ssm_bytes(const mba_analysis *a)
{
    double bytes = 0;
    for (int64_t i = 0; i < a->nkernels; i++)
        if (mba_in_group(&a->kernel[i], MBA_SSM_KERNELS) && a->kernel[i].counted.dram_bytes >= 0)
            bytes += a->kernel[i].per_step * a->kernel[i].counted.dram_bytes;
    return bytes;
}

/* How two variants differ: lifetime of blocks, and what else. */
typedef struct intervention {
    double other_s, rate, longer, bytes;
    bool   alone;
} intervention; /* longer: bandwidth of the longer-lived */

/* Two variants of one model at one size whose blocks live at least 1.5 times as long, or as short. */
static bool intervenes(intervention *v, const mba_analysis *a, const mba_analysis *b)
{
    const mba_bandwidth x = mba_bandwidth_of(a, MBA_SSM_KERNELS), y = mba_bandwidth_of(b, MBA_SSM_KERNELS);
    const double        other = ssm_lifetime(b), lives = other / ssm_lifetime(a), rate = y.weighted / x.weighted;
    *v = (intervention){
        .other_s = other, .rate = rate, .bytes = ssm_bytes(b) / ssm_bytes(a), .longer = lives > 1 ? rate : 1 / rate
    };
    v->alone = same_program(a, b) && fabs(v->bytes - 1) <= BYTES_ALIKE;
    return same_model(a, b) && same_size(a, b) && !x.least && !y.least
           && (lives >= LIVES_LONGER || lives <= 1 / LIVES_LONGER);
}

/* A variant shows the cause if its blocks live longer and it moves the same bytes. One that moves fewer bytes, or
 * another program, may be faster for that reason and decides nothing. */
static void f5(const beside *all, mba_claim *c)
{
    const mba_analysis *a = all->store[0];
    const double        life = ssm_lifetime(a);
    intervention        v, best = { 0 };
    bool                found = false;
    if (!isnan(life)) MEASURED(c, "blocks of SSM kernels live %.1f us (time-weighted mean)", 1e6 * life);
    for (int i = 1; i < all->n; i++)
        if (intervenes(&v, a, all->store[i]) && (!found || (v.alone && !best.alone))) best = v, found = true;
    if (found) {
        MEASURED(c, "; in the other variant %.1f us, at %.2f times the bandwidth", 1e6 * best.other_s, best.rate);
        if (!best.alone) MEASURED(c, ", but with %.2f times the bytes: not by lifetime alone", best.bytes);
        c->verdict = best.alone && best.longer >= 1 + RISES ? MBA_REPRODUCED
                     : best.alone && best.longer <= 1       ? MBA_REFUTED
                                                            : MBA_DEPENDS;
    }
    if (!found || !best.alone)
        NEEDS(c, "an intervention on lifetime alone: the same kernels with persistent blocks, same model and size "
                 "(profile --op ssd=persistent,ssd_bwd=persistent; show --compare)");
}

static void f6(const beside *all, mba_claim *c)
{
    const mba_analysis *a = all->store[0];
    int                 n[5] = { 0 };
    bool                counted = false;
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
    const int found = (n[MBA_CLASS_TENSOR] > 0) + (n[MBA_CLASS_VECTOR] > 0) + (n[MBA_CLASS_MIXED] > 0);
    c->verdict = found == 3 ? MBA_REPRODUCED : found == 2 ? MBA_DEPENDS : MBA_REFUTED;
}

static void f7(const beside *all, mba_claim *c)
{
    const mba_analysis      *a = all->store[0];
    const mba_vector_bound   v = mba_vector_bound_of(a, MBA_SSM_KERNELS);
    const double             readings[] = { 100 * v.floor_a, 100 * v.floor_b, 100 * v.pipe_fma, 100 * v.pipe_any };
    static const char *const name[] = { "floors, FLOPs", "floors, slots", "FMA pipe", "busiest vector pipe" };
    int                      known = 0, high = 0;
    double                   lowest = NAN, highest = NAN;
    for (int i = 0; i < 4; i++) {
        if (isnan(readings[i])) continue;
        MEASURED(c, "%s%s %.0f %%", known ? ", " : "vector-bound by ", name[i], readings[i]);
        known++;
        high += readings[i] >= VECTOR_BOUND_LEAST;
    }
    for (int64_t i = 0; i < a->nkernels; i++) {
        const mba_kernel_view *k = &a->kernel[i];
        if (!mba_in_group(k, MBA_SSM_KERNELS) || k->cls != MBA_CLASS_MIXED || isnan(k->ratio_a)) continue;
        if (!(lowest <= k->ratio_a)) lowest = k->ratio_a;
        if (!(highest >= k->ratio_a)) highest = k->ratio_a;
    }
    if (!known) {
        NEEDS(c, "counters of mixed SSM kernels, sets roofline and pipes");
        return;
    }
    if (!isnan(lowest)) MEASURED(c, "; tensor:vector %.1f .. %.1f (hardware %.0f)", lowest, highest, RATIO_MOST);
    c->verdict = high == known ? MBA_REPRODUCED : high ? MBA_DEPENDS : MBA_REFUTED;
}

static void f8(const beside *all, mba_claim *c)
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
    MEASURED(c, "L1 hit rate %.1f %% (time-weighted)", hit / s);
    c->verdict = hit / s <= L1_HIT_LOW ? MBA_REPRODUCED : hit / s <= L1_HIT_HIGH ? MBA_DEPENDS : MBA_REFUTED;
}

static double scan_l2_hits(const mba_analysis *a)
{
    for (int64_t i = 0; i < a->nkernels; i++)
        if (a->kernel[i].row->name && strstr(a->kernel[i].row->name, "chunk_scan_fwd")
            && !isnan(a->kernel[i].counted.l2_hit_pct))
            return a->kernel[i].counted.l2_hit_pct;
    return NAN;
}

static void f9(const beside *all, mba_claim *c)
{
    double small = NAN, large = NAN, small_hits = NAN, large_hits = NAN;
    for (int i = 0; i < all->n; i++) {
        const double units = all->store[i]->units, hits = scan_l2_hits(all->store[i]);
        if (isnan(hits) || isnan(units) || !same_model(all->store[i], all->store[0])
            || !same_program(all->store[i], all->store[0]))
            continue;
        if (!(small <= units)) small = units, small_hits = hits;
        if (!(large >= units)) large = units, large_hits = hits;
    }
    if (!isnan(small_hits))
        MEASURED(c, "L2 hit rate of chunk_scan_fwd %.0f %% at %.0f units a step", small_hits, small);
    if (!(large > small)) {
        NEEDS(c, "stores at several batch x length, with set cache, to see where reuse stops (show --compare)");
        return;
    }
    MEASURED(c, ", %.0f %% at %.0f", large_hits, large);
    c->verdict = small_hits - large_hits >= HITS_FALL ? MBA_REPRODUCED
                 : small_hits > large_hits            ? MBA_DEPENDS
                                                      : MBA_REFUTED;
}

/* FLOPs of a launch: the least work, or the executed work of an external program, whose least work is not known. */
static double flops_of(const mba_kernel_view *k, bool *executed)
{
    const double least = k->least.tensor_flops + k->least.vector_flops;
    if (!isnan(least)) return least;
    *executed = true;
    return k->counted.tensor_flops + k->counted.fp32_flops + k->counted.half_flops;
}

/* SSM operators of a step: time and FLOPs per token, image or graph. */
static void ssm_per_unit(const mba_analysis *a, double *s, double *flops, bool *executed)
{
    *s = *flops = 0;
    for (int64_t i = 0; i < a->nkernels; i++) {
        const mba_kernel_view *k = &a->kernel[i];
        if (!mba_in_group(k, MBA_SSM_KERNELS)) continue;
        *s += k->step_s / a->units;
        *flops += k->per_step * flops_of(k, executed) / a->units;
    }
}

static bool has_operator(const mba_analysis *a, const char *name)
{
    for (int i = 0; i < a->nops; i++)
        if (!strncmp(a->op[i]->op, name, strlen(name))) return true;
    return false;
}

/* A language model without attention. Images and graphs scan other lengths, and attention does part of the mixing. */
static bool compares(const mba_analysis *a)
{
    return (!*a->unit || !strcmp(a->unit, "tokens")) && !(kind_percent(a, MBA_ATTENTION) > 0);
}

/* Of two presets that belong together: widths and layers alike, while matrices have more groups and heads. */
static bool sizes_alike(const mba_analysis *a, const mba_analysis *b)
{
    const double ratio = strtod(a->parameters, NULL) / strtod(b->parameters, NULL);
    return !*a->parameters || !*b->parameters || (ratio < SIZES_ALIKE && ratio > 1 / SIZES_ALIKE);
}

static bool has_scan(const mba_analysis *a) { return compares(a) && has_operator(a, "selective_scan"); }
static bool has_matrices(const mba_analysis *a)
{
    return compares(a) && (has_operator(a, "ssd") || has_operator(a, "chunk_scan"));
}

/* The first pair of which only that differs. */
typedef struct scan_pair {
    const mba_analysis *scan, *matrix;
} scan_pair;
static scan_pair find_pair(const beside *all)
{
    for (int i = 0; i < all->n; i++)
        for (int j = 0; j < all->n; j++) {
            const mba_analysis *a = all->store[i], *b = all->store[j];
            if (has_scan(a) && has_matrices(b) && sizes_alike(a, b) && same_machine(a, b) && same_program(a, b))
                return (scan_pair){ a, b };
        }
    return (scan_pair){ NULL, NULL };
}

/* Matrices do more arithmetic than the scan and are faster for it, or they are not. */
static void f10(const beside *all, mba_claim *c)
{
    const scan_pair p = find_pair(all);
    double          scan_s, scan_flops, matrix_s, matrix_flops;
    if (!p.scan) {
        MEASURED(c, "this store: %s, SSM %.1f %% of the %s",
                 *all->store[0]->workload ? all->store[0]->workload : "a program", kind_percent(all->store[0], MBA_SSM),
                 mba_step_word(all->store[0]));
        NEEDS(c, "stores of Mamba-1 and Mamba-2 at equal sizes, by one program on one GPU: mambascope show mamba1.db "
                 "claims --compare mamba2.db");
        return;
    }
    bool executed = false;
    ssm_per_unit(p.scan, &scan_s, &scan_flops, &executed);
    ssm_per_unit(p.matrix, &matrix_s, &matrix_flops, &executed);
    if (isnan(scan_flops) || isnan(matrix_flops)) {
        MEASURED(c, "per token: scan %.2f us, matrices %.2f us", 1e6 * scan_s, 1e6 * matrix_s);
        NEEDS(c, "least work: stores of our own models; of a foreign program its units and counters, set roofline");
        return;
    }
    MEASURED(c, "per token: scan %.2f us and %.3g MFLOP, matrices %.2f us and %.3g MFLOP (%s)", 1e6 * scan_s,
             scan_flops / 1e6, 1e6 * matrix_s, matrix_flops / 1e6, executed ? "executed" : "least");
    const bool more = matrix_flops > scan_flops, faster = matrix_s < scan_s;
    c->verdict = more && faster ? MBA_REPRODUCED : more || faster ? MBA_DEPENDS : MBA_REFUTED;
}

static void f11(const beside *all, mba_claim *c)
{
    const mba_analysis *a = all->store[0];
    double              s = 0, memory = 0, compute = 0, registers = 0;
    for (int64_t i = 0; i < a->nkernels; i++) {
        const mba_kernel_view *k = &a->kernel[i];
        if (!mba_in_group(k, MBA_SSM_KERNELS) || !k->busiest) continue;
        const bool path = !strcmp(k->busiest, "DRAM") || !strcmp(k->busiest, "L2") || !strcmp(k->busiest, "L1/shared");
        s += k->step_s;
        if (path) memory += k->step_s;
        else compute += k->step_s;
        if (k->row->limiter && strstr(k->row->limiter, "register")) registers += k->step_s;
    }
    if (!(s > 0)) {
        NEEDS(c, "counters of SSM kernels, sets overview, pipes and occupancy");
        return;
    }
    MEASURED(c,
             "SSM time by busiest unit: memory path %.0f %%, compute %.0f %%; occupancy limited by registers %.0f "
             "%%",
             100 * memory / s, 100 * compute / s, 100 * registers / s);
    const bool by_memory = 100 * memory / s > MAJORITY, by_registers = 100 * registers / s > MAJORITY;
    c->verdict = by_memory && by_registers ? MBA_REPRODUCED : by_memory || by_registers ? MBA_DEPENDS : MBA_REFUTED;
}

/* It ran kernels, and neither graph nor rules know one of them as an SSM kernel. */
static bool is_without_ssm(const mba_analysis *a)
{
    int64_t ran = 0;
    for (int64_t i = 0; i < a->nkernels; i++) {
        if (mba_in_group(&a->kernel[i], MBA_SSM_KERNELS)) return false;
        ran += a->kernel[i].launches;
    }
    return ran > 0;
}

void mba_claims_judge(const mba_analysis *a, mba_claim out[MBA_CLAIMS])
{
    static const struct {
        const char *id, *claim, *target;
        void (*judge)(const beside *, mba_claim *);
        bool of_any;
    } claims[MBA_CLAIMS] = {
        { "F1", "GEMM is the largest class", "up to about 60 % of the step", f1, true },
        { "F2", "SSM operators take up to a fifth", "up to about 20 % of the step", f2, false },
        { "F3", "all workloads are memory-bound", "under 3.5 FLOP/byte in some stated convention", f3, true },
        { "F4", "SSM kernels use little of the bandwidth though memory-bound",
          "57.5 % of peak (H100: 1926 of 3350 GB/s)", f4, false },
        { "F5", "short lives of thread blocks are the cause", "bandwidth rises in a persistent variant", f5, false },
        { "F6", "three classes of SSM kernels", "tensor-only, vector-only, mixed", f6, false },
        { "F7", "mixed kernels are vector-bound", "89 - 92 % of their time; tensor:vector below 16", f7, false },
        { "F8", "L1 does not help kernels without tensor work", "hit rate near 0", f8, false },
        { "F9", "the product of B and C is reused through L2 while it fits", "reuse stops when batch x length grows",
          f9, false },
        { "F10", "scan and matrices trade off", "Mamba-1 against Mamba-2 at equal sizes", f10, false },
        { "F11", "limits are memory bandwidth and registers, not compute", "by utilisation and occupancy limiter", f11,
          false },
    };
    beside all = { { a }, 1 };
    for (int i = 0; i < a->nbeside && i < MBA_BESIDE_MAX; i++) all.store[all.n++] = a->beside[i];
    const bool without = is_without_ssm(a);
    bool       gpu = true;
    for (int i = 0; i < all.n; i++) gpu &= !strcmp(all.store[i]->device, "cuda");
    for (int i = 0; i < MBA_CLAIMS; i++) {
        out[i] = (mba_claim){ .id = claims[i].id, .claim = claims[i].claim, .target = claims[i].target };
        claims[i].judge(&all, &out[i]);
        if (without && !claims[i].of_any) {
            out[i].verdict = MBA_NOT_APPLICABLE;
            *out[i].needs = 0;
            snprintf(out[i].measured, sizeof out[i].measured, "the run has no SSM kernels");
            continue;
        }
        if (!gpu && out[i].verdict != MBA_OPEN) {
            out[i].verdict = MBA_OPEN;
            snprintf(out[i].needs, sizeof out[i].needs,
                     "a store from a GPU (profile --device cuda): the claim is about GPUs");
        }
    }
}
