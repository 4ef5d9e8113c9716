// SPDX-License-Identifier: Apache-2.0
/* diff.c -- see diff.h: collects the rows of both stores by name, then judges and sorts them. */
#include "scope/diff.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/lookup.h"

static const double LEAST_SHARE = 0.01; // of the step

const char *mba_diff_name(mba_diff_what w)
{
    mba_assert(w <= MBA_DIFF_KERNEL);
    return (const char *const[]){ "step", "class", "operator", "kernel" }[w];
}

bool mba_diff_same(const mba_diff_row *r)
{
    return r->what == MBA_DIFF_KERNEL && r->a_s > 0 && r->b_s > 0 && fabs(r->a_launches - r->b_launches) < 0.5;
}

/* The rows, and their index by kind, name and phase. */
typedef struct listing {
    mba_diff_row *row;
    int64_t       n, room;
    mba_lookup    place;
} listing;

static mba_diff_row *row_of(listing *l, mba_diff_what what, const char *name, const char *phase)
{
    const uint64_t hash = mba_hash(mba_hash(MBA_HASH_BEGIN + what, name, strlen(name)), phase, strlen(phase));
    int64_t        at = 0, i;
    while ((i = mba_lookup_next(&l->place, hash, &at)) >= 0) {
        const mba_diff_row *r = &l->row[i];
        if (r->what == what && !strcmp(r->name, name) && !strcmp(r->phase, phase)) return &l->row[i];
    }
    mba_diff_row *more = mba_grow(l->row, l->n, &l->room, sizeof *more);
    if (more) l->row = more;
    if (!more || !mba_lookup_add(&l->place, hash)) return NULL;
    mba_assert(l->n < l->room);
    l->row[l->n] = (mba_diff_row){ what, name, phase, NAN, NAN, 0, 0, 0, 0, false };
    return &l->row[l->n++];
}

static bool add(listing *l, bool second, mba_diff_what what, const char *name, const char *phase, double s,
                double spread_s, double launches)
{
    mba_diff_row *r = row_of(l, what, name, phase);
    if (!r) return false;
    double *to = second ? &r->b_s : &r->a_s;
    *to = (isnan(*to) ? 0 : *to) + s;
    *(second ? &r->b_spread_s : &r->a_spread_s) += spread_s;
    *(second ? &r->b_launches : &r->a_launches) += launches;
    return true;
}

static const char WITHOUT_PROFILER[] = "step time, without profiler";

static bool list_one(listing *l, bool second, const mba_analysis *a)
{
    bool ok = true;
    if (!isnan(a->plain_s))
        ok = add(l, second, MBA_DIFF_STEP, WITHOUT_PROFILER, "all", a->plain_s, a->plain_spread_s, 0);
    if (a->steps > 0) ok = ok && add(l, second, MBA_DIFF_STEP, "kernels and copies", "all", a->busy_s, 0, 0);
    for (int k = 0; k < MBA_BREAKDOWN_KINDS; k++)
        for (int p = 0; p < MBA_PHASES; p++)
            if (a->launches[k][p] > 0)
                ok = ok
                     && add(l, second, MBA_DIFF_CLASS, mba_breakdown_kind_name(k), "all", a->time_s[k][p], 0,
                            a->launches[k][p]);
    for (int i = 0; i < a->nops; i++)
        ok = ok
             && add(l, second, MBA_DIFF_OPERATOR, a->op[i]->op, mba_phase_name(a->op[i]->phase), a->op[i]->median_s,
                    a->op[i]->spread_s, a->op[i]->per_step);
    for (int64_t i = 0; i < a->nkernels; i++) {
        const mba_kernel_view *k = &a->kernel[i];
        if (k->launches > 0)
            ok = ok
                 && add(l, second, MBA_DIFF_KERNEL, k->row->name ? k->row->name : "?", "all", k->step_s, 0,
                        k->per_step);
    }
    return ok;
}

static double longest(const mba_diff_row *r) { return isnan(r->a_s) || r->b_s > r->a_s ? r->b_s : r->a_s; }

static int by_kind_then_time(const void *x, const void *y)
{
    const mba_diff_row *a = x, *b = y;
    if (a->what != b->what) return a->what < b->what ? -1 : 1;
    return (longest(a) < longest(b)) - (longest(a) > longest(b));
}

/* Judges the step without profiler. If a store has none (an external program), judges its kernels and copies. */
static void judge(mba_diff_row *r, double gate, double step_s, bool plain)
{
    const double grown = r->b_s - r->a_s;
    const bool   judged = r->what == MBA_DIFF_OPERATOR
                        || (r->what == MBA_DIFF_STEP && !strcmp(r->name, WITHOUT_PROFILER) == plain);
    r->slower = judged && r->b_s >= LEAST_SHARE * step_s && grown > gate * r->a_s && grown > r->a_spread_s
                && grown > r->b_spread_s;
}

mba_status mba_diff(mba_diff_row **out, int64_t *n, const mba_analysis *a, const mba_analysis *b, double gate)
{
    listing    l = { 0 };
    const bool listed = list_one(&l, false, a) && list_one(&l, true, b);
    *n = 0;
    mba_lookup_free(&l.place);
    if (!listed) {
        free(l.row);
        return mba_fail(MBA_E_NOMEM, "no memory to compare");
    }
    const bool plain = !isnan(a->plain_s) && !isnan(b->plain_s);
    for (int64_t i = 0; i < l.n; i++) judge(&l.row[i], gate, b->busy_s, plain);
    if (l.n) qsort(l.row, (size_t)l.n, sizeof *l.row, by_kind_then_time);
    *out = l.row;
    *n = l.n;
    return MBA_OK;
}
