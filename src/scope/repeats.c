// SPDX-License-Identifier: Apache-2.0
/* repeats.c -- see repeats.h. Candidates for the period come from repeated sequences of GRAM launches; for each, the
 * longest periodic region is found; the best one gives a step, whose occurrences are found in the whole trace. */
#include "scope/repeats.h"

#include <stdlib.h>
#include <string.h>

#include "core/lookup.h"

/* The distance between two occurrences of GRAM launches in a row may be the period; TRIED distances are tested.
 * AS_GOOD, AS_MUCH: a shorter period wins if it covers this share of the time of a longer one. PART_LEAST: least share
 * of the time or of the launches inside steps. */
enum { GRAM = 4, TRIED = 64 };
static const double AS_GOOD = 0.95, AS_MUCH = 0.9, PART_LEAST = 0.5;

typedef struct region {
    int64_t begin, end, period;
    double  time;
} region; // launches [begin, end)

typedef struct finding {
    const mba_repeated *l;
    int64_t             n;
    double             *until; // (n + 1) sum of the kernel times before each launch
    int64_t            *votes; // (n + 1) per distance
    int64_t            *last;  // per sequence of `place`: its last position
    mba_lookup          place;
} finding;

/* ---- candidates ---- */

static bool same_gram(const mba_repeated *a, const mba_repeated *b)
{
    for (int i = 0; i < GRAM; i++)
        if (a[i].symbol != b[i].symbol) return false;
    return true;
}

static mba_status vote(finding *f)
{
    int64_t grams = 0;
    for (int64_t i = 0; i + GRAM <= f->n; i++) {
        int32_t word[GRAM];
        for (int k = 0; k < GRAM; k++) word[k] = f->l[i + k].symbol;
        const uint64_t hash = mba_hash(MBA_HASH_BEGIN, word, sizeof word);
        int64_t        at = 0, g;
        while ((g = mba_lookup_next(&f->place, hash, &at)) >= 0 && !same_gram(&f->l[f->last[g]], &f->l[i])) continue;
        mba_debug_assert(g < grams);
        if (g >= 0) f->votes[i - f->last[g]]++;
        else if (!mba_lookup_add(&f->place, hash))
            return mba_fail(MBA_E_NOMEM, "no memory for the steps of %lld launches", (long long)f->n);
        else g = grams++;
        f->last[g] = i;
    }
    return MBA_OK;
}

/* The distance with the most votes, weighted by itself; 0: none is left. */
static int64_t next_candidate(finding *f)
{
    int64_t best = 0;
    for (int64_t d = 1; MBA_REPEATS_LEAST * d <= f->n; d++)
        if (f->votes[d] * d > f->votes[best] * best) best = d;
    f->votes[best] = 0;
    return best;
}

/* ---- regions ---- */

/* The longest region, by time, in which every launch equals the one a period before. */
static region longest(const finding *f, int64_t period)
{
    mba_assert(period > 0);
    region  best = { 0, 0, period, 0 };
    int64_t begin = 0;
    for (int64_t i = 0; i + period <= f->n; i++) {
        if (i + period < f->n && f->l[i].symbol == f->l[i + period].symbol) continue;
        const int64_t end = i + period; // launch i does not repeat, so the region ends before i + period
        const double  time = f->until[end] - f->until[begin];
        if (end - begin >= MBA_REPEATS_LEAST * period && time > best.time) best = (region){ begin, end, period, time };
        begin = i + 1;
    }
    return best;
}

/* ---- the start of a step ---- */

static bool is_call(const finding *f, int64_t i) { return i == 0 || f->l[i].correlation != f->l[i - 1].correlation; }

/* After the optimizer: the start of the longest part of the period without it. -1: the period has no optimizer, or
 * nothing else. */
static int64_t behind_updates(const finding *f, const region *g)
{
    int64_t best = -1, best_length = 0;
    for (int64_t i = 0; i < g->period; i++) {
        const int64_t before = g->begin + (i + g->period - 1) % g->period;
        if (!f->l[before].updates || f->l[g->begin + i].updates) continue;
        int64_t length = 0;
        while (!f->l[g->begin + (i + length) % g->period].updates) length++; // ends at `before` at the latest
        mba_debug_assert(length < g->period);
        if (length > best_length) best = i, best_length = length;
    }
    return best;
}

/* The position in the period before which the GPU is idle longest, summed over all repetitions. */
static int64_t behind_wait(const finding *f, const region *g)
{
    int64_t best = -1;
    double  longest_ns = -1;
    for (int64_t i = 0; i < g->period; i++) {
        double ns = 0;
        bool   calls = true;
        for (int64_t k = g->begin + i; k < g->end; k += g->period) {
            calls = calls && is_call(f, k);
            if (k > g->begin && f->l[k].start_ns > f->l[k - 1].end_ns)
                ns += (double)(f->l[k].start_ns - f->l[k - 1].end_ns);
        }
        if (calls && ns > longest_ns) best = i, longest_ns = ns;
    }
    return best;
}

/* The position in the period at which a step starts; -1: the region lies inside one call, a graph with an inner
 * loop. */
static int64_t begin_of_step(const finding *f, const region *g)
{
    const int64_t i = behind_updates(f, g);
    return i >= 0 && is_call(f, g->begin + i + g->period) ? i : behind_wait(f, g);
}

/* ---- all steps ---- */

/* Finds all occurrences in the trace, not only in the region: a loop continues after an interruption.
 * Knuth-Morris-Pratt; occurrences do not overlap. */
static mba_status find_all(mba_repeats *out, const finding *f, const mba_repeated *step, int64_t length)
{
    mba_assert(length > 0 && length <= f->n);
    int64_t *border = malloc((size_t)(length + 1) * sizeof *border), room = 0, k = 0;
    if (!border) return mba_fail(MBA_E_NOMEM, "no memory for a step of %lld launches", (long long)length);
    border[0] = border[1] = 0;
    for (int64_t i = 1; i < length; i++) {
        while (k && step[i].symbol != step[k].symbol) k = border[k];
        border[i + 1] = k += step[i].symbol == step[k].symbol;
    }
    k = 0;
    mba_status st = MBA_OK;
    for (int64_t i = 0; i < f->n && st == MBA_OK; i++) {
        while (k && f->l[i].symbol != step[k].symbol) k = border[k];
        k += f->l[i].symbol == step[k].symbol;
        if (k < length) continue;
        k = 0;
        if (!is_call(f, i + 1 - length)) continue;
        int64_t *more = mba_grow(out->first, out->n, &room, sizeof *more);
        mba_debug_assert(k == 0 && i + 1 >= length);
        if (more) out->first = more, more[out->n++] = i + 1 - length;
        else st = mba_fail(MBA_E_NOMEM, "no memory for %lld steps", (long long)out->n + 1);
    }
    free(border);
    out->length = length;
    return st;
}

static void measure(mba_repeats *r, const finding *f)
{
    double time = 0;
    mba_assert(r->n * r->length <= f->n);
    for (int64_t i = 0; i < r->n; i++) time += f->until[r->first[i] + r->length] - f->until[r->first[i]];
    r->of_time = f->until[f->n] > 0 ? time / f->until[f->n] : 0;
    r->of_launches = (double)(r->n * r->length) / (double)f->n;
}

/* All steps, given a region whose period is one; none if the region lies inside one call. */
static mba_status steps_of(mba_repeats *out, const finding *f, const region *g)
{
    const int64_t begin = begin_of_step(f, g);
    *out = (mba_repeats){ 0 };
    if (begin < 0) return MBA_OK;
    MBA_TRY(find_all(out, f, f->l + g->begin + begin, g->period));
    measure(out, f);
    return MBA_OK;
}

static bool has_updates(const finding *f, const region *g)
{
    for (int64_t i = 0; i < g->period; i++)
        if (f->l[g->begin + i].updates) return true;
    return false;
}

/* ---- the choice ---- */

/* The region with the shortest period among those that repeat for nearly the longest time. */
static region longest_of(const region *all, int n)
{
    region best = { 0, 0, 0, 0 };
    double most = 0;
    for (int i = 0; i < n; i++)
        if (all[i].time > most) most = all[i].time;
    for (int i = 0; i < n && most > 0; i++)
        if (all[i].time >= AS_GOOD * most && (!best.period || all[i].period < best.period)) best = all[i];
    return best;
}

/* "Four steps and a log" also repeats, and for longer than steps do. A shorter period that contains an optimizer is the
 * step if its occurrences cover nearly as much of the time. Without an optimizer it may be a layer. */
static mba_status shorten(mba_repeats *out, const finding *f, const region *all, int n, const region *best)
{
    int64_t period = best->period;
    if (!has_updates(f, best)) return MBA_OK;
    const double enough = AS_MUCH * out->of_time;
    for (int i = 0; i < n; i++) {
        mba_repeats shorter;
        if (!(all[i].time > 0) || all[i].period >= period || !has_updates(f, &all[i])) continue;
        const mba_status st = steps_of(&shorter, f, &all[i]);
        const bool       better = st == MBA_OK && shorter.n >= MBA_REPEATS_LEAST && shorter.of_time >= enough;
        if (better) {
            mba_repeats_free(out);
            *out = shorter;
            period = all[i].period;
        } else {
            mba_repeats_free(&shorter);
        }
        MBA_TRY(st);
    }
    return MBA_OK;
}

static mba_status find(mba_repeats *out, finding *f)
{
    region  all[TRIED];
    int64_t period;
    int     n = 0;
    MBA_TRY(vote(f));
    while (n < TRIED && (period = next_candidate(f)) > 0) all[n++] = longest(f, period);
    const region best = longest_of(all, n);
    if (!best.period) return MBA_OK;
    MBA_TRY(steps_of(out, f, &best));
    MBA_TRY(shorten(out, f, all, n, &best));
    const bool enough = out->of_time >= PART_LEAST || out->of_launches >= PART_LEAST;
    if (out->n < MBA_REPEATS_LEAST || !enough) mba_repeats_free(out);
    return MBA_OK;
}

mba_status mba_repeats_find(mba_repeats *out, const mba_repeated *l, int64_t n)
{
    const size_t room = (size_t)n + 1;
    finding      f = { .l = l,
                       .n = n,
                       .until = calloc(room, sizeof *f.until),
                       .votes = calloc(room, sizeof *f.votes),
                       .last = calloc(room, sizeof *f.last) };
    *out = (mba_repeats){ 0 };
    mba_status st = MBA_OK;
    if (!f.until || !f.votes || !f.last)
        st = mba_fail(MBA_E_NOMEM, "no memory for the steps of %lld launches", (long long)n);
    for (int64_t i = 0; i < n && st == MBA_OK; i++) f.until[i + 1] = f.until[i] + (double)(l[i].end_ns - l[i].start_ns);
    if (st == MBA_OK) st = find(out, &f);
    if (st != MBA_OK) mba_repeats_free(out);
    free(f.until);
    free(f.votes);
    free(f.last);
    mba_lookup_free(&f.place);
    return st;
}

void mba_repeats_free(mba_repeats *r)
{
    free(r->first);
    *r = (mba_repeats){ 0 };
}
