// SPDX-License-Identifier: Apache-2.0
/* claims.c -- see claims.h: the claims with their rules and thresholds, and what becomes of a verdict under other
 * thresholds. The judges are in claims_one.c and claims_pairs.c. */
#include "study/claims.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "study/claims_parts.h"

const claim_rules mba__claim_rules = {
    .head = 1,
    .gemm_most = 60,
    .gemm_off = 10,
    .ssm_most = 20,
    .ssm_off = 5,
    .busy = 60,
    .majority = 50,
    .third = 33,
    .bandwidth_least = 33,
    .bandwidth_most = 65,
    .lives_longer = 1.5,
    .rises = 1.1,
    .noise = 1.03,
    .bytes_alike = 0.02,
    .vector_bound = 85,
    .l1_low = 5,
    .l1_high = 20,
    .sizes_alike = 1.5,
    .registers = 0,
};

const char *mba_verdict_name(mba_verdict v)
{
    mba_assert(v < MBA_VERDICTS);
    return (const char *const[]){ "open", "reproduced", "refuted", "depends", "not applicable", "number" }[v];
}

void mba__say(char *text, size_t room, const char *fmt, ...)
{
    const size_t n = strlen(text);
    va_list      ap;
    va_start(ap, fmt);
    vsnprintf(text + n, room - n, fmt, ap);
    va_end(ap);
}

two_digits mba__two(double v)
{
    two_digits t;
    if (isnan(v)) snprintf(t.s, sizeof t.s, "open");
    else snprintf(t.s, sizeof t.s, v >= 9.95 || v == 0 ? "%.0f" : v >= 0.995 ? "%.1f" : "%.2f", v);
    return t;
}

two_digits mba__three(double v)
{
    two_digits t;
    if (isnan(v)) snprintf(t.s, sizeof t.s, "open");
    else snprintf(t.s, sizeof t.s, v >= 99.5 ? "%.0f" : v >= 9.995 ? "%.1f" : v >= 0.9995 ? "%.2f" : "%.3f", v);
    return t;
}

/* ---- the claims ---- */

/* Another value of a threshold, in words. */
typedef struct alternative {
    size_t      at; /* offset in claim_rules */
    double      value;
    const char *words;
} alternative;
enum { ALTERNATIVES = 3 };
#define WITH(field, value, words) \
    { \
        offsetof(claim_rules, field), value, words \
    }

typedef struct claim_row {
    const char  *id, *claim, *target, *rule, *refuted_by, *unit;
    claim_judge *judge;
    bool         of_any, of_suite; /* also about programs without SSM kernels; a statement about several models */
    alternative  other[ALTERNATIVES];
} claim_row;

static const claim_row rows[MBA_CLAIMS] = {
    { "F1",
      "GEMM is the largest class",
      "up to about 60 % of the step",
      "share of GPU time in matrix products, the head's among them; largest of all classes, at most 60 +- 10 %",
      "models in which another class is larger",
      "GEMM, % of GPU time",
      mba__claim_f1,
      true,
      true,
      { WITH(head, 0, "the head counted as loss"), WITH(gemm_off, 5, "60 +- 5 %") } },
    { "F2",
      "SSM operators take up to a fifth",
      "up to about 20 % of the step",
      "share of GPU time in SSM operators; the largest of the models is 20 +- 5 %",
      "a model above 25 %, or none above 15 %",
      "SSM, % of GPU time",
      mba__claim_f2,
      false,
      true,
      { WITH(ssm_off, 2, "20 +- 2 %"), WITH(ssm_off, 10, "20 +- 10 %") } },
    { "F3",
      "all workloads are memory-bound",
      "under 3.5 FLOP/byte in some stated convention",
      "DRAM at least 60 % busy, by the bytes that moved, for half of the GPU time, and memory sets the floor, by the "
      "fewest bytes and FLOPs that the work needs (an external program's executed ones), for half of it: both",
      "a model for which neither is so",
      "% of time: DRAM busy (bytes moved) / floor by memory (fewest bytes)",
      mba__claim_f3,
      true,
      true,
      { WITH(busy, 50, "50 % as busy"), WITH(busy, 70, "70 % as busy"), WITH(majority, 33, "a third of the time") } },
    { "F4",
      "SSM kernels use little of the bandwidth though memory-bound",
      "57.5 % of peak (H100: 1926 of 3350 GB/s)",
      "memory sets the floor for half of SSM time, and bytes per second are 33 to 65 % by all of: mean over launches "
      "and "
      "by "
      "time, of the data sheet and of a copy",
      "SSM kernels that are not memory-bound, or none of the four within 33 to 65 %",
      "% of peak: by launch / by time",
      mba__claim_f4,
      false,
      false,
      { WITH(bandwidth_most, 57.5, "33 to 57.5 %"), WITH(bandwidth_most, 75, "33 to 75 %"),
        WITH(bandwidth_least, 45, "45 to 65 %") } },
    { "F5",
      "short lives of thread blocks are the cause",
      "bandwidth rises in a persistent variant",
      "two variants that move the same bytes within 2 %, blocks of one living 1.5 times as long: it has 1.1 times the "
      "bandwidth",
      "such a variant with less than 1.03 times the bandwidth, which is what steps vary by",
      "bandwidth if blocks live longer, ×",
      mba__claim_f5,
      false,
      false,
      { WITH(rises, 1.05, "1.05 times"), WITH(noise, 1, "any gain as a rise"),
        WITH(bytes_alike, 0.1, "bytes within 10 %") } },
    { "F6",
      "three classes of SSM kernels",
      "tensor-only, vector-only, mixed",
      "classes by counted tensor FLOPs and pipe utilisation: all three occur",
      "SSM kernels of one class",
      "kernels: tensor, vector, mixed",
      mba__claim_f6,
      false,
      false,
      { { 0 } } },
    { "F7",
      "mixed kernels are vector-bound",
      "89 - 92 % of their time; tensor:vector below 16",
      "share of mixed kernels' time that is vector-bound, by FLOPs and by issue slots at the ratio of the hardware "
      "(data "
      "sheet), by the FMA pipe and by any vector pipe: at least 85 % by all four",
      "less than 85 % by all four",
      "% of their time, by four rules",
      mba__claim_f7,
      false,
      false,
      { WITH(vector_bound, 50, "50 % of the time"), WITH(vector_bound, 95, "95 %") } },
    { "F8",
      "L1 does not help kernels without tensor work",
      "hit rate near 0",
      "L1 hit rate of vector-only SSM kernels, weighted by time: below 5 %",
      "a rate of 20 % or more",
      "L1 hit rate, %",
      mba__claim_f8,
      false,
      false,
      { WITH(l1_low, 10, "10 % as near 0"), WITH(l1_low, 2, "2 %") } },
    { "F9",
      "C·Bᵀ is reused through L2 while it fits",
      "reuse stops when batch x length grows",
      "of C B^T the scan finds half or more in L2 at the smallest size, and less than half at the largest: by its DRAM "
      "reads in the step and after L2 is emptied",
      "less than half found at the smallest size, or as much at the largest",
      "% of C·Bᵀ in L2: smallest → largest",
      mba__claim_f9,
      false,
      false,
      { WITH(majority, 25, "a quarter"), WITH(majority, 75, "three quarters") } },
    { "F10",
      "scan and matrices trade off",
      "Mamba-1 against Mamba-2 at equal sizes",
      "of one set of kernels (defaults, baseline, mamba_ssm) the fastest scan of Mamba-1 beside the fastest matrices "
      "of "
      "Mamba-2, at equal batches: matrices execute more FLOPs per token, in less time",
      "matrices that take as long or longer",
      "SSM time, Mamba-1 / Mamba-2",
      mba__claim_f10,
      false,
      false,
      { { 0 } } },
    { "F11",
      "memory bandwidth and registers limit, not compute",
      "by utilisation and occupancy limiter",
      "DRAM is the busiest unit of a kernel, at least 60 % busy, for half of SSM time; below 60 % latency limits",
      "DRAM that limits less than a third of SSM time",
      "% of SSM time limited by DRAM",
      mba__claim_f11,
      false,
      false,
      { WITH(busy, 50, "50 % as busy"), WITH(busy, 70, "70 % as busy"),
        WITH(registers, 1, "latency where registers alone limit occupancy") } },
};

/* ---- one store ---- */

static void begin(mba_claim *c, const claim_row *row)
{
    *c = (mba_claim){ .id = row->id,
                      .claim = row->claim,
                      .target = row->target,
                      .rule = row->rule,
                      .refuted_by = row->refuted_by,
                      .unit = row->unit };
    for (int i = 0; i < MBA_CLAIM_NUMBERS; i++) c->number[i] = NAN;
}

static bool decided(mba_verdict v) { return v == MBA_REPRODUCED || v == MBA_REFUTED || v == MBA_DEPENDS; }

/* Judges again under other thresholds, one at a time. */
static void try_others(const claim_stores *all, const claim_row *row, mba_claim *c)
{
    int same = 0;
    for (int turned = 0; turned < 2; turned++)
        for (int i = 0; i < ALTERNATIVES && row->other[i].words; i++) {
            claim_rules r = mba__claim_rules;
            mba_claim   again;
            memcpy((char *)&r + row->other[i].at, &row->other[i].value, sizeof(double));
            begin(&again, row);
            row->judge(all, &r, &again);
            if ((again.here == c->here) == turned) continue; // those that turn the verdict come second
            char *text = c->sensitivity;
            if (turned)
                mba__say(text, sizeof c->sensitivity, "%s%s with %s", *text ? "; " : "", mba_verdict_name(again.here),
                         row->other[i].words);
            else mba__say(text, sizeof c->sensitivity, "%s%s", same++ ? ", " : "the same with ", row->other[i].words);
        }
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

static void judge(const claim_stores *all, const claim_row *row, mba_claim *c)
{
    const bool gpu = !strcmp(all->store[0]->device, "cuda");
    begin(c, row);
    if (!row->of_any && is_without_ssm(all->store[0])) {
        c->verdict = c->here = MBA_NOT_APPLICABLE;
        snprintf(c->measured, sizeof c->measured, "the run has no SSM kernels");
        snprintf(c->cell, sizeof c->cell, "–");
        return;
    }
    row->judge(all, &mba__claim_rules, c);
    if (!gpu && decided(c->here)) {
        c->here = MBA_OPEN;
        snprintf(c->needs, sizeof c->needs, "a store from a GPU (profile --device cuda): the claim is about GPUs");
    }
    if (decided(c->here)) try_others(all, row, c);
    c->verdict = row->of_suite && decided(c->here) ? MBA_NUMBER : c->here;
    if (!*c->cell) snprintf(c->cell, sizeof c->cell, "%s", c->here == MBA_NOT_APPLICABLE ? "–" : "open");
}

static void judge_all(const mba_analysis *a, bool own, mba_claim out[MBA_CLAIMS])
{
    claim_stores all = { .store = { a }, .n = 1, .own = own };
    for (int i = 0; i < a->nbeside && i < MBA_BESIDE_MAX; i++)
        if (!strcmp(a->beside[i]->device, a->device)) all.store[all.n++] = a->beside[i]; // a CPU decides nothing here
    for (int i = 0; i < MBA_CLAIMS; i++) judge(&all, &rows[i], &out[i]);
}

void mba_claims_judge(const mba_analysis *a, mba_claim out[MBA_CLAIMS]) { judge_all(a, false, out); }

void mba_claims_judge_own(const mba_analysis *a, mba_claim out[MBA_CLAIMS]) { judge_all(a, true, out); }
