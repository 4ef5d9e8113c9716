// SPDX-License-Identifier: Apache-2.0
/* why.c -- see cards.h: the card that says why SSM kernels take their time. It summarises Fig. 6, 7 and 8 and the
 * floors over the SSM kernels of a step, weighted by their time. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "report/cards.h"

enum { REASONS = 24, SAID = 3, UNITS = 12 };

/* ---- what warps wait for ---- */

/* Shares of stalled warps by reason, averaged over kernels with their time as weight, the largest first. */
typedef struct waits {
    char   name[REASONS][48];
    double part[REASONS];
    int    n;
} waits;

static void add_wait(waits *w, const mba_stall *s, double part)
{
    int i = 0;
    mba_assert(w->n >= 0 && w->n <= REASONS);
    while (i < w->n && (strlen(w->name[i]) != (size_t)s->length || strncmp(w->name[i], s->name, (size_t)s->length)))
        i++;
    if (i == REASONS || s->length >= (int)sizeof w->name[0]) return;
    if (i == w->n) {
        snprintf(w->name[i], sizeof w->name[i], "%.*s", s->length, s->name);
        w->part[w->n++] = 0;
    }
    w->part[i] += part;
}

static void sort_waits(waits *w)
{
    for (int i = 1; i < w->n; i++)
        for (int j = i; j > 0 && w->part[j - 1] < w->part[j]; j--) {
            const double part = w->part[j];
            char         name[sizeof w->name[0]];
            memcpy(name, w->name[j], sizeof name);
            memcpy(w->name[j], w->name[j - 1], sizeof name);
            memcpy(w->name[j - 1], name, sizeof name);
            w->part[j] = w->part[j - 1], w->part[j - 1] = part;
        }
}

static waits waits_of(const mba_analysis *a)
{
    waits  w = { .n = 0 };
    double counted_s = 0;
    for (int64_t i = 0; i < a->nkernels; i++) {
        const mba_kernel_view *k = &a->kernel[i];
        mba_stall              all[REASONS];
        double                 sum = 0;
        if (!mba_in_group(k, MBA_SSM_KERNELS) || k->launches <= 0) continue;
        const int n = mba_stalls_of(k, all, REASONS);
        for (int j = 0; j < n; j++) sum += all[j].warps;
        if (!(sum > 0)) continue;
        counted_s += k->step_s;
        for (int j = 0; j < n; j++) add_wait(&w, &all[j], k->step_s * all[j].warps / sum);
    }
    for (int i = 0; i < w.n; i++) w.part[i] /= counted_s;
    sort_waits(&w);
    return w;
}

/* ---- which unit is busiest, how much vector work ---- */

/* The unit that is the busiest for the largest part of the counted time, and that part; NULL: not counted. */
typedef struct busiest {
    const char *unit;
    double      part;
} busiest;

static busiest busiest_of(const mba_analysis *a)
{
    const char *unit[UNITS];
    double      s[UNITS], all = 0;
    int         n = 0, top = 0;
    for (int64_t i = 0; i < a->nkernels; i++) {
        const mba_kernel_view *k = &a->kernel[i];
        int                    at = 0;
        if (!mba_in_group(k, MBA_SSM_KERNELS) || k->launches <= 0 || !k->busiest) continue;
        while (at < n && strcmp(unit[at], k->busiest)) at++;
        if (at == UNITS) continue;
        if (at == n) unit[n] = k->busiest, s[n++] = 0;
        s[at] += k->step_s;
        all += k->step_s;
    }
    for (int i = 1; i < n; i++)
        if (s[i] > s[top]) top = i;
    mba_assert(n <= UNITS);
    return n ? (busiest){ unit[top], s[top] / all } : (busiest){ NULL, NAN };
}

/* Tensor FLOPs per vector FLOP of the mixed SSM kernels of a step, by issue slots (rule b); NaN: no such kernels. */
static double ratio_of(const mba_analysis *a)
{
    double tensor = 0, vector = 0;
    for (int64_t i = 0; i < a->nkernels; i++) {
        const mba_kernel_view *k = &a->kernel[i];
        if (!mba_in_group(k, MBA_SSM_KERNELS) || k->cls != MBA_CLASS_MIXED || isnan(k->ratio_b)) continue;
        tensor += k->per_step * k->counted.tensor_flops;
        vector += k->per_step * 2 * k->counted.lane_slots;
    }
    return vector > 0 ? tensor / vector : NAN;
}

/* ---- the card ---- */

static int top_floor(const mba_bounds *b)
{
    int top = 0;
    for (int f = 1; f < MBA_FLOORS; f++)
        if (b->share[f] > b->share[top]) top = f;
    return top;
}

static void say_waits(mba_buf *b, const waits *w)
{
    mba_buf_put(b, "Their warps wait for ");
    for (int i = 0; i < w->n && i < SAID; i++) {
        mba_buf_put(b, i ? ", " : "");
        mba_buf_html(b, mba_stall_words(w->name[i]));
        mba_buf_add(b, " %s %%", mba_num(100 * w->part[i]).s);
    }
    mba_buf_put(b, ". ");
}

static void say_ratio(mba_buf *b, const mba_analysis *a)
{
    const double ratio = ratio_of(a), hardware = mba_hardware_ratio(a);
    if (isnan(ratio) || isnan(hardware)) return;
    mba_buf_add(b,
                " Mixed ones do %s tensor FLOPs per vector FLOP by issue slots, the hardware %s: %s work "
                "takes longer.",
                mba_num(ratio).s, mba_num(hardware).s, ratio < hardware ? "vector" : "tensor");
}

static void say(mba_buf *b, const mba_analysis *a, const waits *w, const mba_bounds *bound)
{
    const busiest unit = busiest_of(a);
    const int     floor = top_floor(bound);
    mba_buf_put(b, "<p>");
    if (w->n) say_waits(b, w);
    if (!isnan(bound->percent_of_floor))
        mba_buf_add(b, "They reach %s %% of their floor, which %s sets for %s %% of their time.",
                    mba_num(bound->percent_of_floor).s, mba_floor_words((mba_floor)floor),
                    mba_num(100 * bound->share[floor]).s);
    if (unit.unit) {
        mba_buf_put(b, " Their busiest unit is ");
        mba_buf_html(b, unit.unit);
        mba_buf_add(b, " for %s %% of it.", mba_num(100 * unit.part).s);
    }
    say_ratio(b, a);
    mba_buf_put(b, "</p>");
}

static void picture(mba_canvas *c, const waits *w)
{
    mba_bar_part p[REASONS];
    for (int i = 0; i < w->n; i++) p[i] = (mba_bar_part){ w->part[i], mba_stall_paint(w->name[i]) };
    mba_spark_strip(c, p, w->n, "stall reasons, largest first, in the colours of Fig. 8");
}

void mba_card_why(mba_canvas *c, const mba_analysis *a)
{
    mba_buf         *b = &c->out;
    const waits      w = waits_of(a);
    const mba_bounds bound = mba_bounds_of(a, MBA_SSM_KERNELS);
    const bool       floors = !isnan(bound.percent_of_floor);
    char             unit[128];
    mba_card_head(b, "Why?", w.n || floors ? "new" : "open", "SSM kernels");
    if (w.n) snprintf(unit, sizeof unit, "%% of stalls: %s", mba_stall_words(w.name[0]));
    else if (floors)
        snprintf(unit, sizeof unit, "%% of SSM time: floor set by %s", mba_floor_words((mba_floor)top_floor(&bound)));
    else snprintf(unit, sizeof unit, "not known");
    mba_card_big(b, w.n ? 100 * w.part[0] : floors ? 100 * bound.share[top_floor(&bound)] : NAN, unit);
    if (w.n || floors) say(b, a, &w, &bound);
    else
        mba_buf_put(b, "<p>Not measured here: it needs SSM kernels with least work or counters (mambascope profile "
                       "--metric-sets stalls,pipes).</p>");
    if (w.n) picture(c, &w);
    mba_card_end(b, w.n ? "fig8" : "roofline_time", w.n ? "Stalls" : "Floors");
}
