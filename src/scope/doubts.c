// SPDX-License-Identifier: Apache-2.0
/* doubts.c -- see doubts.h: one function per warning, then the explanations of kernels above 100 % of their floor. */
#include "scope/doubts.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const double SPREAD_MOST = 0.10, CLOCK_LEAST = 0.95;
static const double MEASURED = 1.005; /* times have three digits: up to this ratio is not above the floor */

/* ---- clocks ---- */

static void add_reason(mba_clocks *c, const char *text)
{
    const size_t n = strlen(c->reasons);
    mba_assert(n < sizeof c->reasons);
    if (!text || !*text || !strcmp(text, "no") || strstr(c->reasons, text)) return;
    snprintf(c->reasons + n, sizeof c->reasons - n, "%s%s", n ? ", " : "", text);
}

mba_clocks mba_clocks_of(const mba_analysis *a)
{
    mba_clocks c = { NAN, NAN, NAN, mba_env_value(a, "gpu.clock_max"), "" };
    double     sum = 0;
    int        n = 0;
    for (int64_t i = 0; i < a->nsheet; i++) {
        const mba_row_sheet *r = &a->sheet_row[i];
        if (!r->key) continue;
        if (!strncmp(r->key, "throttled.", 10) || !strcmp(r->key, "gpu.throttled")) add_reason(&c, r->text);
        if (strncmp(r->key, "clock.", 6) || !(r->number > 0)) continue;
        if (!n || r->number < c.low) c.low = r->number;
        if (!n || r->number > c.high) c.high = r->number;
        sum += r->number;
        n++;
    }
    if (n) c.mean = sum / n;
    return c;
}

static bool doubt_clocks(mba_doubt *out, const mba_analysis *a)
{
    const mba_clocks c = mba_clocks_of(a);
    if (!*c.reasons && !(c.low < CLOCK_LEAST * c.most)) return false;
    char ran[96] = "", of[40] = "";
    if (!isnan(c.most)) snprintf(of, sizeof of, " of %.0f", c.most);
    if (c.low < c.high) snprintf(ran, sizeof ran, "at %.0f to %.0f%s MHz", c.low, c.high, of);
    else if (!isnan(c.mean)) snprintf(ran, sizeof ran, "at %.0f%s MHz", c.mean, of);
    else snprintf(ran, sizeof ran, "below its highest clock");
    snprintf(out->text, sizeof out->text,
             "clocks were throttled: the GPU ran %s%s%s%s; at other clocks the same kernels take other times", ran,
             *c.reasons ? " (" : "", c.reasons, *c.reasons ? ")" : "");
    return true;
}

/* ---- steps ---- */

static bool doubt_steps(mba_doubt *out, const mba_analysis *a)
{
    const mba_step_spread *s = &a->spread;
    const double           part = (s->high_s - s->low_s) / s->median_s;
    if (!(part > SPREAD_MOST)) return false;
    snprintf(out->text, sizeof out->text,
             "step times spread by %.0f %%: %.4g to %.4g ms around a median of %.4g ms (%s%lld steps %s)", 100 * part,
             1e3 * s->low_s, 1e3 * s->high_s, 1e3 * s->median_s, s->n > 10 ? "10th to 90th percentile of " : "",
             (long long)s->n, s->how);
    return true;
}

/* ---- external programs ---- */

static bool doubt_loop(mba_doubt *out, const mba_analysis *a)
{
    if (a->whole_program)
        snprintf(out->text, sizeof out->text,
                 "whole program: no loop was found in it, so a step here is the whole recorded part");
    else if (a->steps_found)
        snprintf(out->text, sizeof out->text, "steps were detected, not marked: the same %.0f launches, %.0f times",
                 mba_env_value(a, "loop.launches"), mba_env_value(a, "loop.steps"));
    return a->whole_program || a->steps_found;
}

static bool doubt_end(mba_doubt *out, const mba_analysis *a)
{
    const double code = mba_env_value(a, "run.exit_code"), missing_s = mba_env_value(a, "run.missing");
    char         missing[64] = "";
    if (!(code > 0)) return false;
    if (!isnan(missing_s)) snprintf(missing, sizeof missing, "; its last %.3f s are missing", missing_s);
    snprintf(out->text, sizeof out->text, "%sthe program %.64s%s", code > 128 ? "interrupted: " : "",
             mba_env_find(a, "run.ended") ? mba_env_find(a, "run.ended") : "failed", missing);
    return true;
}

static bool (*const doubt_of[MBA_DOUBTS_MAX])(mba_doubt *out, const mba_analysis *a) = { doubt_clocks, doubt_steps,
                                                                                         doubt_loop, doubt_end };

const char *mba_doubt_name(mba_doubt_kind kind)
{
    static const char *const names[] = { "throttled clocks", "steps that spread", "steps that were not marked",
                                         "a program that did not end" };
    mba_assert(kind < MBA_DOUBTS_MAX);
    return names[kind];
}

int mba_doubts_of(mba_doubt out[MBA_DOUBTS_MAX], const mba_analysis *a)
{
    int n = 0;
    for (int kind = 0; kind < MBA_DOUBTS_MAX; kind++) {
        mba_doubt d = { (mba_doubt_kind)kind, 1, 0, "" };
        if (doubt_of[kind](&d, a)) out[n++] = d;
    }
    return n;
}

/* ---- of several stores ---- */

static void see_clocks(mba_clocks *d, const mba_analysis *a)
{
    const mba_clocks c = mba_clocks_of(a);
    d->low = fmin(d->low, c.low);
    d->high = fmax(d->high, c.high);
    d->most = fmax(d->most, c.most);
    add_reason(d, c.reasons);
}

static void see_spread(mba_clocks *d, const mba_analysis *a)
{
    const double percent = 100 * (a->spread.high_s - a->spread.low_s) / a->spread.median_s;
    d->low = fmin(d->low, percent);
    d->high = fmax(d->high, percent);
}

static void say_together(mba_doubt *out, const mba_clocks *d, int n)
{
    char at[96] = "";
    switch (out->kind) {
    case MBA_DOUBT_CLOCKS:
        if (!isnan(d->low)) snprintf(at, sizeof at, " at %.0f to %.0f of %.0f MHz", d->low, d->high, d->most);
        snprintf(out->text, sizeof out->text,
                 "clocks were throttled in %d of %d runs: the GPU ran%s%s%.120s%s; at other clocks the same kernels "
                 "take other times",
                 out->stores, n, *at ? at : " below its highest clock", *d->reasons ? " (" : "", d->reasons,
                 *d->reasons ? ")" : "");
        break;
    case MBA_DOUBT_SPREAD:
        snprintf(out->text, sizeof out->text, "step times spread by %.0f to %.0f %% in %d of %d runs", d->low, d->high,
                 out->stores, n);
        break;
    case MBA_DOUBT_LOOP:
        snprintf(out->text, sizeof out->text,
                 "steps of %d of %d runs were not marked: they were detected, or the whole program counts as one",
                 out->stores, n);
        break;
    default:
        snprintf(out->text, sizeof out->text, "the programs of %d of %d runs failed or were interrupted", out->stores,
                 n);
    }
}

int mba_doubts_together(mba_doubt out[MBA_DOUBTS_MAX], mba_analysis *const *a, int n)
{
    int kinds = 0;
    mba_assert(n >= 0);
    for (int kind = 0; kind < MBA_DOUBTS_MAX; kind++) {
        mba_doubt  all = { (mba_doubt_kind)kind, 0, 0, "" }, d;
        mba_clocks of = { NAN, NAN, NAN, NAN, "" }; // or the lowest and highest spread
        for (int i = 0; i < n; i++) {
            if (!doubt_of[kind](&d, a[i])) continue;
            if (!all.stores++) all.first = i, memcpy(all.text, d.text, sizeof all.text);
            if (kind == MBA_DOUBT_CLOCKS) see_clocks(&of, a[i]);
            if (kind == MBA_DOUBT_SPREAD) see_spread(&of, a[i]);
        }
        if (all.stores > 1) say_together(&all, &of, n);
        if (all.stores) out[kinds++] = all;
    }
    return kinds;
}

/* ---- more than 100 % of a floor ---- */

mba_above mba_above_floor(const mba_analysis *a, const mba_kernel_view *k)
{
    if (!(k->least_s > MEASURED * k->median_s)) return MBA_NOT_ABOVE;
    if (k->bound == MBA_BY_TENSOR) return isnan(a->best.tensor) ? MBA_ABOVE_LANES : MBA_ABOVE_PRODUCT;
    if (k->bound != MBA_BY_MEMORY) return MBA_ABOVE_LANES;
    if (isnan(k->counted.dram_bytes)) return MBA_ABOVE_UNCOUNTED;
    // If the DRAM bytes alone take less than the kernel, L2 held the rest.
    const double dram_s = k->counted.dram_bytes / a->best.dram;
    return dram_s > k->median_s ? MBA_ABOVE_COPY : MBA_ABOVE_CACHED;
}

mba_doubt mba_above_words(const mba_analysis *a, mba_above why)
{
    mba_assert(why < MBA_ABOVES);
    mba_doubt    d = { .text = "" };
    char         ceiling[96] = "";
    const bool   tensor = why == MBA_ABOVE_PRODUCT;
    const double best = tensor ? a->best.tensor : a->best.dram, sheet = tensor ? a->sheet.tensor : a->sheet.dram;
    if (best < sheet)
        snprintf(ceiling, sizeof ceiling, ", %.*f of the data sheet's %.*f %s", tensor ? 0 : 2, best / 1e12,
                 tensor ? 0 : 2, sheet / 1e12, tensor ? "TFLOP/s" : "TB/s");
    const bool cpu = isnan(a->best.tensor);
    switch (why) {
    case MBA_ABOVE_CACHED:
        snprintf(d.text, sizeof d.text,
                 "L2 held part of the operands, but the floor counts all of them as DRAM traffic");
        break;
    case MBA_ABOVE_COPY:
        snprintf(d.text, sizeof d.text,
                 "the floor uses the rate of a large copy%s; another mix of reads and writes exceeds it", ceiling);
        break;
    case MBA_ABOVE_PRODUCT:
        snprintf(d.text, sizeof d.text,
                 "the floor uses the rate of an 8192^3 matrix product, whose clock the "
                 "power limit lowers%s; short products run at higher clocks",
                 ceiling);
        break;
    case MBA_ABOVE_LANES:
        snprintf(d.text, sizeof d.text, "the floor uses the rate of a measured loop%s",
                 cpu ? "; roots and quotients count as exponentials but take less time"
                     : ", and this kernel ran at a higher clock");
        break;
    case MBA_ABOVE_UNCOUNTED:
        snprintf(d.text, sizeof d.text,
                 "%s held part of the operands, or they came faster than in the copy "
                 "that sets the ceiling%s: memory traffic was not counted",
                 cpu ? "a cache" : "L2", ceiling);
        break;
    default: break;
    }
    return d;
}

/* The reason of the kernels whose floors exceed their times by the most. */
mba_doubt mba_above_all(const mba_analysis *a)
{
    double excess_s[MBA_ABOVES] = { 0 };
    int    most = MBA_ABOVE_UNCOUNTED;
    for (int64_t i = 0; i < a->nkernels; i++) {
        const mba_kernel_view *k = &a->kernel[i];
        const mba_above        why = mba_above_floor(a, k);
        if (k->launches > 0 && why != MBA_NOT_ABOVE) excess_s[why] += k->per_step * (k->least_s - k->median_s);
    }
    for (int why = 0; why < MBA_ABOVES; why++)
        if (excess_s[why] > excess_s[most]) most = why;
    return mba_above_words(a, (mba_above)most);
}
