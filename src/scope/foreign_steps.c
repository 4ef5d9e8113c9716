// SPDX-License-Identifier: Apache-2.0
/* foreign_steps.c -- see foreign_steps.h: collects launches, tries four ways to find a loop, and maps events to steps.
 */
#include "scope/foreign_steps.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/lookup.h"
#include "scope/analysis.h"

typedef struct launch {
    int64_t  start_ns, end_ns;
    uint64_t graph_node;
    uint32_t correlation;
    int32_t  symbol, name, device, stream;
    bool     updates;
} launch;

/* Correlation ids: of the launch before the step, of its first and last launch, and of the launch after it. */
typedef struct step {
    int64_t before, first, last, behind, end_ns;
    bool    follows;
} step;

struct mba_foreign_steps {
    launch          *launch;
    int64_t          n, room, beyond;
    step            *step;
    mba_foreign_loop loop;
};

mba_status mba_foreign_steps_create(mba_foreign_steps **out)
{
    *out = calloc(1, sizeof **out);
    return *out ? MBA_OK : mba_fail(MBA_E_NOMEM, "no memory for steps");
}

mba_status mba_foreign_steps_add(mba_foreign_steps *s, const mba_event *e, int64_t symbol, int64_t name, bool updates)
{
    if (s->n == MBA_FOREIGN_LAUNCHES_MAX) {
        s->beyond++;
        return MBA_OK;
    }
    launch *more = mba_grow(s->launch, s->n, &s->room, sizeof *more);
    if (!more) return mba_fail(MBA_E_NOMEM, "no memory for %lld launches", (long long)s->n + 1);
    s->launch = more;
    more[s->n++] = (launch){ .start_ns = e->start_ns,
                             .end_ns = e->end_ns,
                             .graph_node = e->graph ? e->graph_node : 0,
                             .correlation = e->correlation,
                             .symbol = (int32_t)symbol,
                             .name = (int32_t)name,
                             .device = e->device,
                             .stream = e->stream,
                             .updates = updates };
    return MBA_OK;
}

/* By call. The nodes of a graph share one call; they are ordered by node number, because branches may overtake each
 * other. */
static int by_call(const void *x, const void *y)
{
    const launch *a = x, *b = y;
    if (a->correlation != b->correlation) return a->correlation < b->correlation ? -1 : 1;
    if (a->graph_node != b->graph_node) return a->graph_node < b->graph_node ? -1 : 1;
    return (a->start_ns > b->start_ns) - (a->start_ns < b->start_ns);
}

/* ---- attempts ---- */

static bool same_stream(const launch *a, const launch *b) { return a->device == b->device && a->stream == b->stream; }

/* A launch of the busiest stream, by majority vote: exact if one stream has the majority, else some busy stream. */
static const launch *busiest(const mba_foreign_steps *s)
{
    const launch *best = NULL;
    int64_t       lead = 0;
    for (int64_t i = 0; i < s->n; i++) {
        if (!lead) best = &s->launch[i];
        lead += same_stream(best, &s->launch[i]) ? 1 : -1;
    }
    return best;
}

typedef struct attempt {
    mba_repeats found;
    int64_t    *place;
    bool        by_name;
} attempt; // place: index of each launch

static mba_status try_one(attempt *t, const mba_foreign_steps *s, const launch *only, bool by_name)
{
    mba_repeated *l = malloc((size_t)(s->n + 1) * sizeof *l);
    int64_t       n = 0;
    *t = (attempt){ .place = malloc((size_t)(s->n + 1) * sizeof *t->place), .by_name = by_name };
    for (int64_t i = 0; l && t->place && i < s->n; i++) {
        const launch *k = &s->launch[i];
        if (only && !same_stream(only, k)) continue;
        t->place[n] = i;
        l[n++] = (mba_repeated){ k->start_ns, k->end_ns, by_name ? k->name : k->symbol, k->correlation, k->updates };
    }
    const mba_status st = l && t->place
                              ? mba_repeats_find(&t->found, l, n)
                              : mba_fail(MBA_E_NOMEM, "no memory for the steps of %lld launches", (long long)s->n);
    free(l);
    return st;
}

static void give_up(attempt *t)
{
    mba_repeats_free(&t->found);
    free(t->place);
    *t = (attempt){ 0 };
}

/* Takes the first attempt that finds a loop; a later one must cover 10 % more launches to replace it. */
static mba_status try_all(attempt *best, const mba_foreign_steps *s)
{
    const launch *only[] = { NULL, busiest(s) };
    *best = (attempt){ 0 };
    for (int i = 0; i < 4; i++) {
        attempt          t;
        const mba_status st = try_one(&t, s, only[i / 2], i % 2);
        if (st != MBA_OK) {
            give_up(&t);
            return st;
        }
        const double launches = (double)(t.found.n * t.found.length),
                     before = (double)(best->found.n * best->found.length);
        if (t.found.n && launches > 1.1 * before) {
            give_up(best);
            *best = t;
        } else {
            give_up(&t);
        }
    }
    return MBA_OK;
}

/* ---- the steps ---- */

static step make_step(const mba_foreign_steps *s, const attempt *t, int64_t i)
{
    mba_assert(i >= 0 && i < t->found.n && t->found.length > 0);
    const int64_t first = t->place[t->found.first[i]], last = t->place[t->found.first[i] + t->found.length - 1];
    mba_assert(first >= 0 && first <= last && last < s->n);
    int64_t before = first - 1, behind = last + 1;
    step    x = { .before = -1,
                  .first = s->launch[first].correlation,
                  .last = s->launch[last].correlation,
                  .behind = INT64_MAX,
                  .follows = i > 0 && t->found.first[i] == t->found.first[i - 1] + t->found.length };
    if (before >= 0) x.before = s->launch[before].correlation;
    if (behind < s->n) x.behind = s->launch[behind].correlation;
    for (int64_t k = first; k <= last; k++)
        if (s->launch[k].end_ns > x.end_ns) x.end_ns = s->launch[k].end_ns;
    return x;
}

mba_status mba_foreign_steps_find(mba_foreign_steps *s)
{
    attempt t;
    if (s->n) qsort(s->launch, (size_t)s->n, sizeof *s->launch, by_call);
    mba_status    st = try_all(&t, s);
    const int64_t n = t.found.n < MBA_STEPS_MAX ? t.found.n : MBA_STEPS_MAX;
    if (st == MBA_OK && n && !(s->step = calloc((size_t)n, sizeof *s->step)))
        st = mba_fail(MBA_E_NOMEM, "no memory for %lld steps", (long long)n);
    for (int64_t i = 0; i < n && st == MBA_OK; i++) s->step[i] = make_step(s, &t, i);
    if (st == MBA_OK)
        s->loop = (mba_foreign_loop){ n,         t.found.n,           t.found.length,
                                      s->beyond, t.found.of_launches, t.found.of_time,
                                      t.by_name };
    mba_assert(s->loop.n <= s->loop.found && s->loop.n * s->loop.length <= s->n);
    give_up(&t);
    return st;
}

mba_foreign_loop mba_foreign_steps_loop(const mba_foreign_steps *s) { return s->loop; }

/* The last step that starts at this call or before; -1: none. */
static int64_t last_begun(const mba_foreign_steps *s, int64_t call)
{
    int64_t low = 0, high = s->loop.n;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (s->step[middle].first <= call) low = middle + 1;
        else high = middle;
    }
    return low - 1;
}

int64_t mba_foreign_steps_of(const mba_foreign_steps *s, const mba_event *e)
{
    const int64_t call = e->correlation, k = last_begun(s, call), next = k + 1;
    const bool    serves_next = e->kind == MBA_EVENT_SET
                             || (e->kind == MBA_EVENT_COPY && e->name && strstr(e->name, "HtoD"));
    if (k >= 0 && call <= s->step[k].last) return k;
    if (e->kind == MBA_EVENT_KERNEL) return -1;
    if (serves_next) return next < s->loop.n && call > s->step[next].before ? next : -1;
    return k >= 0 && call < s->step[k].behind ? k : -1;
}

double mba_foreign_steps_seconds(const mba_foreign_steps *s, int64_t i)
{
    mba_assert(i < s->loop.n);
    if (i < 1 || !s->step[i].follows || s->step[i].end_ns <= s->step[i - 1].end_ns) return NAN;
    return 1e-9 * (double)(s->step[i].end_ns - s->step[i - 1].end_ns);
}

void mba_foreign_steps_destroy(mba_foreign_steps *s)
{
    if (!s) return;
    free(s->launch);
    free(s->step);
    free(s);
}
