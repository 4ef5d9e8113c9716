// SPDX-License-Identifier: Apache-2.0
/* claims_pairs.c -- see claims_parts.h: claims that compare stores: another variant (F5), another size (F9), the other
 * Mamba (F10). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "study/claims_parts.h"

/* ---- which stores may be compared ---- */

static bool same_text(const char *a, const char *b) { return !strcmp(a ? a : "", b ? b : ""); }

/* A GPU under a power limit runs at other clocks: it is another machine. */
static bool same_machine(const mba_analysis *a, const mba_analysis *b)
{
    const double x = mba_env_value(a, "run.power_limit"), y = mba_env_value(b, "run.power_limit");
    return same_text(mba_env_find(a, "gpu.name"), mba_env_find(b, "gpu.name")) && (x == y || (isnan(x) && isnan(y)));
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

static bool has_operator(const mba_analysis *a, const char *name)
{
    for (int i = 0; i < a->nops; i++)
        if (!strncmp(a->op[i]->op, name, strlen(name))) return true;
    return false;
}

bool mba__has_scan(const mba_analysis *a) { return has_operator(a, "selective_scan"); }
bool mba__has_matrices(const mba_analysis *a) { return has_operator(a, "ssd") || has_operator(a, "chunk_scan"); }

bool mba__has_other_ssm(const mba_analysis *a)
{
    bool ssm = false;
    for (int64_t i = 0; i < a->nkernels; i++) ssm |= mba_in_group(&a->kernel[i], MBA_SSM_KERNELS);
    return ssm && !mba__has_matrices(a);
}

static bool has_variant(const mba_analysis *a, const char *op, const char *name)
{
    for (int64_t i = 0; i < a->nnodes; i++)
        if (a->node[i].op && !strncmp(a->node[i].op, op, strlen(op)) && a->node[i].variant
            && !strcmp(a->node[i].variant, name))
            return true;
    return false;
}

static const mba_kernel_view *kernel_named(const mba_analysis *a, const char *name)
{
    for (int64_t i = 0; i < a->nkernels; i++)
        if (a->kernel[i].row->name && strstr(a->kernel[i].row->name, name)) return &a->kernel[i];
    return NULL;
}

mba_kernel_set mba__kernel_set_of(const mba_analysis *a)
{
    static const char *const others[] = { "persistent", "persistent_dynamic", "persistent_prefetch", "bc_fused" };
    if (mba_env_find(a, "run.foreign")) return MBA_OF_MAMBA_SSM;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (has_variant(a, "ssd", others[i])) return MBA_OTHER_VARIANT;
    const bool baseline = mba__has_matrices(a) ? kernel_named(a, "chunk_scan_fwd") != NULL
                                               : has_variant(a, "selective_scan", "tiles");
    return baseline ? MBA_BASELINE : MBA_DEFAULTS;
}

/* ---- F5: block lifetime ---- */

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

/* Persistent blocks that take their tiles dynamically, or prefetch: not only their lifetime differs. */
static bool more_than_persistent(const mba_analysis *a)
{
    return has_variant(a, "ssd", "persistent_dynamic") || has_variant(a, "ssd", "persistent_prefetch");
}

/* Two variants: the one whose blocks live longer against the other. */
typedef struct intervention {
    double short_s, long_s, rate, bytes; /* lifetimes; factors of bandwidth and bytes */
    bool   found, alone;                 /* alone: only the lifetime differs */
    bool   of_others;                    /* neither is the judged store */
} intervention;

/* Two variants of one model at one size whose blocks live at least 1.5 times as long, or as short. A variant that moves
 * other bytes, that takes tiles or inputs in another way, or another program, may be faster for that reason. */
static intervention compare_lives(const mba_analysis *a, const mba_analysis *b, const claim_rules *r)
{
    const bool          first = ssm_lifetime(a) <= ssm_lifetime(b);
    const mba_analysis *brief = first ? a : b, *lasting = first ? b : a;
    const mba_bandwidth x = mba_bandwidth_of(brief, MBA_SSM_KERNELS), y = mba_bandwidth_of(lasting, MBA_SSM_KERNELS);
    intervention        v = { .short_s = ssm_lifetime(brief),
                              .long_s = ssm_lifetime(lasting),
                              .rate = y.weighted / x.weighted,
                              .bytes = ssm_bytes(lasting) / ssm_bytes(brief) };
    v.found = same_model(a, b) && same_size(a, b) && !x.least && !y.least && v.long_s >= r->lives_longer * v.short_s;
    v.alone = v.found && same_program(a, b) && !more_than_persistent(a) && !more_than_persistent(b)
              && fabs(v.bytes - 1) <= r->bytes_alike;
    return v;
}

static void prefer(intervention *best, intervention v)
{
    const bool longer = v.long_s / v.short_s > best->long_s / best->short_s;
    if (v.found && (!best->found || v.alone > best->alone || (v.alone == best->alone && longer))) *best = v;
}

/* Pairs with the judged store first; where none of them isolates the lifetime, all pairs that have its kind of SSM. */
static intervention find_intervention(const claim_stores *all, const claim_rules *r)
{
    intervention best = { .found = false };
    for (int i = 1; i < all->n; i++) prefer(&best, compare_lives(all->store[0], all->store[i], r));
    const bool others = !all->own && !best.alone;
    for (int i = 1; others && i < all->n; i++)
        for (int j = i + 1; j < all->n; j++) {
            const mba_analysis *a = all->store[i], *judged = all->store[0];
            if (mba__has_matrices(a) != mba__has_matrices(judged) || !same_machine(a, judged)) continue;
            intervention v = compare_lives(a, all->store[j], r);
            v.of_others = true;
            if (v.alone) prefer(&best, v);
        }
    return best;
}

void mba__claim_f5(const claim_stores *all, const claim_rules *r, mba_claim *c)
{
    const double       life = ssm_lifetime(all->store[0]);
    const intervention v = find_intervention(all, r);
    if (!isnan(life)) MEASURED(c, "blocks of SSM kernels live %.1f us (time-weighted mean)", 1e6 * life);
    if (v.found)
        MEASURED(c,
                 "; two %s: %.1f and %.1f us, the longer-lived at %s times the bandwidth and %.2f times the "
                 "bytes",
                 v.of_others ? "other stores" : "variants", 1e6 * v.short_s, 1e6 * v.long_s, mba__three(v.rate).s,
                 v.bytes);
    if (!v.alone) {
        if (v.found) MEASURED(c, ": not by lifetime alone");
        NEEDS(c, "an intervention on lifetime alone: the same kernels with persistent blocks, same model and size "
                 "(profile --op ssd=persistent,ssd_bwd=persistent; show --compare)");
        return;
    }
    c->number[0] = v.rate, c->number[1] = v.long_s / v.short_s;
    CELL(c, "%s", mba__three(v.rate).s);
    c->here = v.rate >= r->rises ? MBA_REPRODUCED : v.rate >= r->noise ? MBA_DEPENDS : MBA_REFUTED;
}

/* ---- F9: C B^T in L2 ---- */

/* What of C B^T the scan found in L2, percent: at least and at most; NaN: not known. */
typedef struct found_in_l2 {
    double units, least, most;
    bool   judged; /* of the store that is judged */
} found_in_l2;

/* Bytes of C B^T: what the plan of the operator stores, or what an external program writes to DRAM, which is less. */
static double product_bytes(const mba_analysis *a)
{
    const mba_kernel_view *k = kernel_named(a, "bmm_chunk_fwd");
    int64_t                node = MBA_ABSENT;
    for (int64_t i = 0; i < a->nlaunches; i++)
        if (a->launch[i].kernel && !strcmp(a->launch[i].kernel, "chunk_scan_fwd")) node = a->launch[i].node;
    for (int64_t i = 0; i < a->nlaunches && node != MBA_ABSENT; i++)
        if (a->launch[i].kernel && !strcmp(a->launch[i].kernel, "bmm_chunk_fwd") && a->launch[i].node == node)
            return a->launch[i].store_bytes;
    return k ? mba_counter_value(k, "dram__bytes_write.sum") : NAN;
}

/* At least: every byte that the scan reads from DRAM is charged to C B^T. At most: all that it does not read, though it
 * does if L2 is emptied before it, is C B^T. */
static found_in_l2 find_in_l2(const mba_analysis *a)
{
    const mba_kernel_view *k = kernel_named(a, "chunk_scan_fwd");
    found_in_l2            out = { NAN, NAN, NAN, false };
    const double           size = product_bytes(a);
    if (!k || !(size > 0)) return out;
    const double read = mba_counter_value(k, "dram__bytes_read.sum"),
                 cold = mba_counter_value(k, "settled__dram_bytes_read.sum");
    if (isnan(read)) return out;
    out.units = a->units;
    if (read < size) out.least = 100 * (1 - read / size);
    if (!isnan(cold)) out.most = 100 * fmax(0, fmin(1, (cold - read) / size));
    return out;
}

/* The comparison with an emptied L2 is the direct one. */
static double    found_percent(found_in_l2 f) { return isnan(f.most) ? f.least : f.most; }
static mba_bound found_bound(found_in_l2 f) { return isnan(f.most) ? MBA_BOUND_LEAST : MBA_BOUND_MOST; }

/* "≥78", "≤20"; no part is less than 0, none more than 100. */
static two_digits found_text(found_in_l2 f)
{
    const double     v = found_percent(f);
    const two_digits number = mba__two(v);
    two_digits       t;
    const char      *sign = !(v > 0 && v < 99.5) ? "" : isnan(f.most) ? "≥" : "≤";
    snprintf(t.s, sizeof t.s, "%s%.8s", sign, number.s);
    return t;
}

/* Beyond the other in units (`way` 1: more, -1: fewer); of two at one size the judged store, else the one that found
 * more: never the order of stores. */
static bool takes_place(found_in_l2 x, found_in_l2 of, int way)
{
    if (isnan(of.units) || x.units != of.units) return isnan(of.units) || way * (x.units - of.units) > 0;
    return !of.judged && !isnan(found_percent(x)) && !(found_percent(of) >= found_percent(x));
}

void mba__claim_f9(const claim_stores *all, const claim_rules *r, mba_claim *c)
{
    const mba_analysis *judged = all->store[0];
    found_in_l2         small = { NAN, NAN, NAN, false }, large = small;
    if (mba__has_other_ssm(judged) || (all->own && !kernel_named(judged, "chunk_scan_fwd"))) {
        MEASURED(c, "no kernel passes C B^T on to another one");
        c->here = MBA_NOT_APPLICABLE;
        return;
    }
    for (int i = 0; i < all->n; i++) {
        found_in_l2 f = find_in_l2(all->store[i]);
        f.judged = !i;
        if (isnan(f.units) || !same_model(all->store[i], judged) || !same_program(all->store[i], judged)) continue;
        if (takes_place(f, small, -1)) small = f;
        if (takes_place(f, large, 1)) large = f;
    }
    if (!isnan(small.units) && !isnan(found_percent(small)))
        MEASURED(c, "%sof C B^T the scan finds in L2 %s %.0f %% at %.0f units a step",
                 kernel_named(judged, "chunk_scan_fwd") ? "" : "other stores: ",
                 found_bound(small) == MBA_BOUND_LEAST ? "at least" : "at most", found_percent(small), small.units);
    if (!(large.units > small.units)) {
        NEEDS(c, "stores at several batch x length, to see where reuse stops (show --compare)");
        return;
    }
    c->number[0] = found_percent(small), c->number[1] = found_percent(large);
    c->bound[0] = found_bound(small), c->bound[1] = found_bound(large);
    CELL(c, "%s → %s", found_text(small).s, found_text(large).s);
    if (isnan(found_percent(large))) MEASURED(c, ", not known at %.0f", large.units);
    else
        MEASURED(c, ", %s %.0f %% at %.0f", c->bound[1] == MBA_BOUND_LEAST ? "at least" : "at most",
                 found_percent(large), large.units);
    if (isnan(found_percent(large)) || isnan(found_percent(small))) {
        NEEDS(c, "DRAM bytes of the scan after L2 is emptied (profile of our own model, with counters)");
        return;
    }
    const bool reused = found_percent(small) >= r->majority, stops = found_percent(large) < r->majority,
               falls = found_percent(large) < found_percent(small);
    c->here = reused && stops ? MBA_REPRODUCED : reused && falls ? MBA_DEPENDS : MBA_REFUTED;
}

/* ---- F10: scan against matrices ---- */

/* What the SSM operators of a step take per token: time, and FLOPs as executed. Least work is no measure here, because
 * that of an external program is not known. */
typedef struct ssm_work {
    double s, flops;
} ssm_work;

static ssm_work ssm_per_unit(const mba_analysis *a)
{
    ssm_work w = { 0, 0 };
    for (int64_t i = 0; i < a->nkernels; i++) {
        const mba_kernel_view *k = &a->kernel[i];
        const mba_counted     *c = &k->counted;
        if (!mba_in_group(k, MBA_SSM_KERNELS)) continue;
        w.s += k->step_s / a->units;
        w.flops += k->per_step * (c->tensor_flops + c->fp32_flops + c->half_flops) / a->units;
    }
    return w;
}

/* A language model without attention. Images and graphs scan other lengths, and attention does part of the mixing. */
static bool compares(const mba_analysis *a)
{
    return (!*a->unit || !strcmp(a->unit, "tokens")) && !(mba__kind_percent(a, MBA_ATTENTION) > 0);
}

/* Of two presets that belong together: widths and layers alike, while matrices have more groups and heads. */
static bool sizes_alike(const mba_analysis *a, const mba_analysis *b, const claim_rules *r)
{
    const double ratio = strtod(a->parameters, NULL) / strtod(b->parameters, NULL);
    return !*a->parameters || !*b->parameters || (ratio < r->sizes_alike && ratio > 1 / r->sizes_alike);
}

/* Where both are known, steps have as many tokens in as many sequences. */
static bool batches_alike(const mba_analysis *a, const mba_analysis *b)
{
    const bool both = *a->batch && *b->batch;
    return !(a->units < b->units) && !(a->units > b->units) && (!both || same_text(a->batch, b->batch));
}

/* Two stores of one set of kernels: our defaults, our kernels that divide the work as the study's do, or mamba_ssm's.
 * An optimized scan beside the baseline's matrices would compare what was optimized. */
static bool is_pair(const mba_analysis *scan, const mba_analysis *matrix, const claim_rules *r)
{
    const mba_kernel_set set = mba__kernel_set_of(scan);
    return compares(scan) && mba__has_scan(scan) && compares(matrix) && mba__has_matrices(matrix)
           && set != MBA_OTHER_VARIANT && set == mba__kernel_set_of(matrix) && sizes_alike(scan, matrix, r)
           && same_machine(scan, matrix) && batches_alike(scan, matrix);
}

typedef struct scan_pair {
    const mba_analysis *scan, *matrix;
    ssm_work            of_scan, of_matrix;
    bool                mine; /* the judged store is one of the two */
} scan_pair;

/* Below 0: the first is less; NaN comes last. */
static int order(double a, double b) { return isnan(a) || isnan(b) ? isnan(a) - isnan(b) : (a > b) - (a < b); }

/* Pairs with the judged store first; then the fastest matrices, then the fastest scan: never the order of stores. */
static bool stands_before(const scan_pair *a, const scan_pair *b)
{
    if (!b->scan || a->mine != b->mine) return !b->scan || a->mine;
    const int by[] = { order(a->of_matrix.s, b->of_matrix.s), order(a->of_scan.s, b->of_scan.s),
                       order(a->of_matrix.flops, b->of_matrix.flops), order(a->of_scan.flops, b->of_scan.flops) };
    for (size_t i = 0; i < sizeof by / sizeof *by; i++)
        if (by[i]) return by[i] < 0;
    return false;
}

static scan_pair find_pair(const claim_stores *all, const claim_rules *r)
{
    scan_pair best = { .scan = NULL };
    for (int i = 0; i < all->n; i++)
        for (int j = 0; j < (all->own ? 1 : all->n); j++) {
            const mba_analysis *scan = all->store[i], *matrix = all->store[j];
            if (i == j || !is_pair(scan, matrix, r)) continue;
            const scan_pair p = { scan, matrix, ssm_per_unit(scan), ssm_per_unit(matrix), !i || !j };
            if (stands_before(&p, &best)) best = p;
        }
    return best;
}

static void ask_for_pair(const claim_stores *all, mba_claim *c)
{
    const mba_analysis *judged = all->store[0];
    const bool          side = compares(judged) && mba__has_matrices(judged);
    MEASURED(c, "this store: %s, SSM %.1f %% of the %s", *judged->workload ? judged->workload : "a program",
             mba__kind_percent(judged, MBA_SSM), mba_step_word(judged));
    if (all->own && !side) c->here = MBA_NOT_APPLICABLE;
    else
        NEEDS(c, "stores of Mamba-1 and Mamba-2 at equal sizes and of one set of kernels (defaults, baseline, "
                 "mamba_ssm), on one GPU: mambascope show mamba1.db claims --compare mamba2.db");
}

/* Matrices do more arithmetic than the scan and are faster for it, or they are not. */
void mba__claim_f10(const claim_stores *all, const claim_rules *r, mba_claim *c)
{
    const mba_analysis *judged = all->store[0];
    if (isnan(mba__kind_percent(judged, MBA_SSM))) { // other stores say nothing of this one
        NEEDS(c, "a timeline");
        return;
    }
    const scan_pair p = find_pair(all, r);
    if (!p.scan) {
        ask_for_pair(all, c);
        return;
    }
    const ssm_work scan = p.of_scan, matrix = p.of_matrix;
    c->number[0] = scan.s / matrix.s, c->number[1] = matrix.flops / scan.flops;
    CELL(c, "%s", mba__two(c->number[0]).s);
    if (isnan(c->number[1])) {
        MEASURED(c, "per token: scan %.2f us, matrices %.2f us", 1e6 * scan.s, 1e6 * matrix.s);
        NEEDS(c, "executed FLOPs of both: counters, set roofline");
        return;
    }
    MEASURED(c, "%sper token: scan %.2f us and %.3g MFLOP, matrices %.2f us and %.3g MFLOP (executed)",
             p.mine ? "" : "other stores, ", 1e6 * scan.s, scan.flops / 1e6, 1e6 * matrix.s, matrix.flops / 1e6);
    c->here = matrix.s >= scan.s ? MBA_REFUTED : matrix.flops > scan.flops ? MBA_REPRODUCED : MBA_DEPENDS;
}
