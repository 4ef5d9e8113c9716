// SPDX-License-Identifier: Apache-2.0
/* ranks.c -- see ranks.h. */
#include "scope/ranks.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "scope/analysis_parts.h"

typedef struct interval {
    int64_t from, to;
} interval;

static int by_start(const void *a, const void *b)
{
    const interval *x = a, *y = b;
    return (x->from > y->from) - (x->from < y->from);
}

/* Sorts intervals and joins those that touch; returns how many are left. */
static int64_t join(interval *v, int64_t n)
{
    int64_t m = 0;
    if (n) qsort(v, (size_t)n, sizeof *v, by_start);
    for (int64_t i = 0; i < n; i++) {
        if (m && v[i].from <= v[m - 1].to) v[m - 1].to = v[i].to > v[m - 1].to ? v[i].to : v[m - 1].to;
        else v[m++] = v[i];
    }
    return m;
}

static int64_t length(const interval *v, int64_t n)
{
    int64_t sum = 0;
    for (int64_t i = 0; i < n; i++) sum += v[i].to - v[i].from;
    return sum;
}

/* The time that two lists of joined intervals have in common. */
static int64_t common(const interval *a, int64_t n, const interval *b, int64_t m)
{
    int64_t sum = 0;
    mba_assert(n >= 0 && m >= 0);
    for (int64_t i = 0, k = 0; i < n && k < m;) {
        const int64_t from = a[i].from > b[k].from ? a[i].from : b[k].from, to = a[i].to < b[k].to ? a[i].to : b[k].to;
        if (to > from) sum += to - from;
        if (a[i].to < b[k].to) i++;
        else k++;
    }
    return sum;
}

static int64_t end_of(const mba_row_rank_event *e) { return e->start_ns + e->duration_ns; }

/* ---- lanes of one rank in one step ---- */

static void take_step(mba_ranks *r, int64_t rank, int64_t step, interval *compute, interval *comm)
{
    mba_rank_view *v = &r->rank[rank];
    int64_t        n = 0, m = 0, from = INT64_MAX, to = INT64_MIN;
    for (int64_t i = 0; i < r->nevents; i++) {
        const mba_row_rank_event *e = &r->event[i];
        if (e->rank != rank || e->step != step) continue;
        *(r->communicates[e->node] ? &comm[m++] : &compute[n++]) = (interval){ e->start_ns, end_of(e) };
        if (e->start_ns < from) from = e->start_ns;
        if (end_of(e) > to) to = end_of(e);
    }
    if (to < from) return;
    mba_assert(n + m <= r->nevents);
    n = join(compute, n), m = join(comm, m);
    const double steps = (double)r->steps;
    v->step_s += 1e-9 * (double)(to - from) / steps;
    v->compute_s += 1e-9 * (double)length(compute, n) / steps;
    v->comm_s += 1e-9 * (double)length(comm, m) / steps;
    v->exposed_s += 1e-9 * (double)(length(comm, m) - common(compute, n, comm, m)) / steps;
    mba_assert(v->exposed_s <= v->comm_s + 1e-9);
}

static mba_status take_lanes(mba_ranks *r)
{
    interval *compute = calloc((size_t)r->nevents + 1, sizeof *compute),
             *comm = calloc((size_t)r->nevents + 1, sizeof *comm);
    mba_status st = compute && comm ? MBA_OK : mba_fail(MBA_E_NOMEM, "no memory for the timelines of all ranks");
    for (int64_t k = 0; k < r->ranks && st == MBA_OK; k++)
        for (int64_t s = 0; s < r->steps; s++) take_step(r, k, s, compute, comm);
    free(compute);
    free(comm);
    return st;
}

/* ---- one collective of one step over all ranks ---- */

static void take_collective(mba_ranks *r, mba_collective_view *c, int64_t step, double *skews)
{
    int64_t first = INT64_MAX, last = INT64_MIN, who = 0, ended = INT64_MAX, found = 0;
    for (int64_t i = 0; i < r->nevents; i++) {
        const mba_row_rank_event *e = &r->event[i];
        if (e->node != c->node->id || e->step != step) continue;
        found++;
        if (e->start_ns < first) first = e->start_ns;
        if (e->start_ns > last) last = e->start_ns, who = e->rank;
        if (end_of(e) < ended) ended = end_of(e);
    }
    if (found != r->ranks) return; // a rank left no record
    const double skew = 1e-9 * (double)(last - first), all = (double)(r->ranks * r->steps);
    mba_assert(skew >= 0 && r->arrivals < r->ncollectives * r->steps);
    skews[r->arrivals++] = skew;
    r->rank[who].last++;
    c->skew_s += skew / (double)r->steps;
    if (skew > c->skew_most_s) c->skew_most_s = skew;
    if (1e-9 * (double)(last - ended) > r->residual_s) r->residual_s = 1e-9 * (double)(last - ended);
    for (int64_t i = 0; i < r->nevents; i++) {
        const mba_row_rank_event *e = &r->event[i];
        if (e->node != c->node->id || e->step != step) continue;
        const double wait = 1e-9 * (double)(last - e->start_ns), rest = 1e-9 * (double)e->duration_ns - wait;
        r->rank[e->rank].wait_s += wait / (double)r->steps;
        c->wait_s += wait / all;
        if (rest > 0) c->transfer_s += rest / all;
    }
}

/* Nothing is known of what not all ranks recorded. */
static void forget(mba_collective_view *c) { c->skew_s = c->skew_most_s = c->wait_s = c->transfer_s = NAN; }

static mba_status take_collectives(mba_ranks *r)
{
    double *skews = calloc((size_t)(r->ncollectives * r->steps) + 1, sizeof *skews);
    if (!skews) return mba_fail(MBA_E_NOMEM, "no memory for the collectives of all ranks");
    for (int64_t k = 0; k < r->ncollectives; k++) {
        mba_collective_view *c = &r->collective[k];
        const double         R = (double)r->ranks, halves = strcmp(c->node->op, "allreduce") ? 1 : 2;
        const int64_t        before = r->arrivals;
        for (int64_t s = 0; s < r->steps; s++) take_collective(r, c, s, skews);
        if (r->arrivals == before) forget(c);
        c->bus_gbs = c->transfer_s > 0 ? 1e-9 * halves * c->bytes * (R - 1) / R / c->transfer_s : NAN;
        if (c->skew_most_s > r->skew_most_s) r->skew_most_s = c->skew_most_s;
    }
    r->skew_s = r->arrivals ? mba__median(skews, r->arrivals) : NAN;
    for (int64_t k = 0; k < r->ranks && !r->arrivals; k++) r->rank[k].wait_s = NAN;
    free(skews);
    for (int64_t k = 0; k < r->ranks; k++)
        if (r->rank[k].last > r->rank[r->straggler].last) r->straggler = k;
    return MBA_OK;
}

/* ---- reading ---- */

static mba_status read_graph(mba_ranks *r, mba_store *s)
{
    mba_row_node    *node;
    mba_row_operand *operand;
    int64_t          n, operands;
    MBA_TRY(mba_load_node(s, &node, &n));
    MBA_TRY(mba_load_operand(s, &operand, &operands));
    r->nnodes = n;
    r->communicates = calloc((size_t)n + 1, sizeof *r->communicates);
    r->collective = calloc((size_t)n + 1, sizeof *r->collective);
    if (!r->communicates || !r->collective) return mba_fail(MBA_E_NOMEM, "no memory for %lld operators", (long long)n);
    for (int64_t i = 0; i < n; i++) {
        r->communicates[i] = node[i].kind && !strcmp(node[i].kind, "collective");
        if (r->communicates[i]) r->collective[r->ncollectives++] = (mba_collective_view){ .node = &node[i] };
    }
    for (int64_t k = 0; k < r->ncollectives; k++)
        for (int64_t i = 0; i < operands; i++)
            if (operand[i].node == r->collective[k].node->id && !operand[i].output)
                r->collective[k].bytes = operand[i].bytes;
    return MBA_OK;
}

/* Fails if an event names a rank or a node that is not there. */
static mba_status check_events(mba_ranks *r, const mba_store *s)
{
    for (int64_t i = 0; i < r->nevents; i++) {
        const mba_row_rank_event *e = &r->event[i];
        if (e->rank < 0 || e->rank >= r->ranks || e->node < 0 || e->node >= r->nnodes || e->step < 0
            || e->step >= MBA_STEPS_MAX || e->duration_ns < 0)
            return mba_fail(MBA_E_FORMAT,
                            "'%s': event %lld of the ranks names what is not there\nwhy: rank %lld, node %lld, step "
                            "%lld\nfix: profile again",
                            mba_store_path(s), (long long)i, (long long)e->rank, (long long)e->node,
                            (long long)e->step);
        if (e->step >= r->steps) r->steps = e->step + 1;
    }
    return MBA_OK;
}

static mba_status read_all(mba_ranks *r, mba_store *s, mba_row_rank *row)
{
    r->rank = calloc((size_t)r->ranks, sizeof *r->rank);
    if (!r->rank) return mba_fail(MBA_E_NOMEM, "no memory for %lld ranks", (long long)r->ranks);
    for (int64_t k = 0; k < r->ranks; k++) r->rank[k].row = &row[k];
    MBA_TRY(mba_load_rank_event(s, &r->event, &r->nevents));
    MBA_TRY(read_graph(r, s));
    MBA_TRY(check_events(r, s));
    MBA_TRY(take_lanes(r));
    return take_collectives(r);
}

mba_status mba_ranks_read(mba_ranks **out, mba_store *s)
{
    mba_row_rank *row;
    int64_t       n;
    *out = NULL;
    MBA_TRY(mba_load_rank(s, &row, &n));
    if (n < 2) return MBA_OK;
    mba_ranks *r = calloc(1, sizeof *r);
    if (!r) return mba_fail(MBA_E_NOMEM, "no memory for the ranks of a store");
    r->ranks = n;
    const mba_status st = read_all(r, s, row);
    if (st == MBA_OK) *out = r;
    else mba_ranks_free(r);
    return st;
}

void mba_ranks_free(mba_ranks *r)
{
    if (!r) return;
    free(r->rank);
    free(r->collective);
    free(r->communicates);
    free(r);
}
