// SPDX-License-Identifier: Apache-2.0
/* correlate.c -- see correlate.h: groups events into graph launches, walks the nodes in order beside them, and assigns
 * the copies outside of graphs to steps. */
#include "scope/correlate.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "core/lookup.h"

/* By start; events with the same start in the order of the graph. */
static int by_start(const void *a, const void *b)
{
    const mba_event *x = a, *y = b;
    if (x->start_ns != y->start_ns) return x->start_ns < y->start_ns ? -1 : 1;
    if (x->graph_node != y->graph_node) return x->graph_node < y->graph_node ? -1 : 1;
    return x->end_ns < y->end_ns ? -1 : x->end_ns > y->end_ns;
}

/* One graph launch: all events that share a correlation. */
typedef struct step {
    uint32_t correlation;
    int64_t  n[MBA_EVENT_KINDS], next[MBA_EVENT_KINDS];
} step;

static int32_t step_of(const step *s, int32_t n, uint32_t correlation)
{
    for (int32_t i = n - 1; i >= 0; i--)
        if (s[i].correlation == correlation) return i; // usually the last
    return -1;
}

/* The driver may run a large memset of a graph as a kernel (memset32): it still counts as a memset. */
static bool is_set(const mba_event *e) { return e->kind == MBA_EVENT_KERNEL && !strncmp(e->name, "memset", 6); }

static mba_status find_steps(mba_events *l, step **out, int32_t *n)
{
    int64_t room = 0;
    *out = NULL;
    *n = 0;
    for (int64_t i = 0; i < l->n; i++) {
        mba_event *e = &l->event[i];
        if (!e->graph) continue;
        int32_t k = step_of(*out, *n, e->correlation);
        if (k < 0) {
            step *more = mba_grow(*out, *n, &room, sizeof *more);
            if (!more) return mba_fail(MBA_E_NOMEM, "no memory for %d steps", *n + 1);
            *out = more;
            k = (*n)++;
            (*out)[k] = (step){ .correlation = e->correlation };
        }
        if (is_set(e)) e->kind = MBA_EVENT_SET;
        (*out)[k].n[e->kind]++;
        e->step = k;
    }
    return MBA_OK;
}

/* Position among the events of one kind: the node, and how many of its events are used. */
typedef struct cursor {
    int32_t node;
    int32_t used;
} cursor;

static void advance(cursor *c, const mba_node_counts *counts, int32_t nnodes, mba_event_kind kind)
{
    while (c->node < nnodes && c->used >= counts[c->node].n[kind]) {
        c->node++;
        c->used = 0;
    }
}

/* Blocks of a dependent launch (device/cuda/dependent_launch.cuh) become resident and wait while the previous launch of
 * the same node drains. Its time is counted from the end of that launch. */
static void cut_waiting(mba_event *e, const mba_event *before)
{
    if (!before || before->node != e->node || e->start_ns >= before->end_ns) return;
    e->start_ns = before->end_ns < e->end_ns ? before->end_ns : e->end_ns;
    mba_assert(e->start_ns <= e->end_ns);
}

static void link_step(mba_events *l, int32_t k, const step *s, const mba_node_counts *counts, int32_t nnodes,
                      mba_correlate_report *r)
{
    cursor           at[MBA_EVENT_KINDS] = { { 0, 0 } };
    const mba_event *before = NULL;
    for (int64_t i = 0; i < l->n; i++) {
        mba_event *e = &l->event[i];
        if (!e->graph || e->step != k) continue;
        if (e->kind == MBA_EVENT_SET && s->n[e->kind] < r->expected[e->kind]) continue; // merged memsets
        if (s->n[e->kind] != r->expected[e->kind]) {
            r->unlinked++;
            r->got[e->kind] = s->n[e->kind];
            continue;
        }
        cursor *c = &at[e->kind];
        advance(c, counts, nnodes, e->kind);
        mba_assert(c->node < nnodes); // the numbers agree, so a node is left for each event
        e->node = c->node;
        e->launch = e->kind == MBA_EVENT_KERNEL ? c->used : -1;
        c->used++;
        r->linked++;
        if (e->kind != MBA_EVENT_KERNEL) continue;
        cut_waiting(e, before);
        before = e;
    }
}

/* Assigns the copies outside of graphs: those to the device to the next step, those from it to the previous one. */
static void place_others(mba_events *l, int32_t steps)
{
    int32_t next = steps;
    for (int64_t i = l->n - 1; i >= 0; i--) {
        mba_event *e = &l->event[i];
        if (e->graph) next = e->step < next ? e->step : next;
        else if (e->step < 0 && next < steps && strcmp(e->name, "copy DtoH")) e->step = next;
    }
    int32_t last = -1;
    for (int64_t i = 0; i < l->n; i++) {
        mba_event *e = &l->event[i];
        if (e->graph) last = e->step > last ? e->step : last;
        else if (e->step < 0) e->step = last;
    }
}

mba_status mba_correlate_events(mba_events *l, const mba_node_counts *counts, int32_t nnodes, mba_correlate_report *out)
{
    step *s;
    *out = (mba_correlate_report){ 0 };
    if (l->n) qsort(l->event, (size_t)l->n, sizeof *l->event, by_start);
    for (int32_t i = 0; i < nnodes; i++)
        for (int k = 0; k < MBA_EVENT_KINDS; k++) out->expected[k] += counts[i].n[k];
    memcpy(out->got, out->expected, sizeof out->got);
    const mba_status st = find_steps(l, &s, &out->steps);
    for (int32_t k = 0; st == MBA_OK && k < out->steps; k++) link_step(l, k, &s[k], counts, nnodes, out);
    if (st == MBA_OK) place_others(l, out->steps);
    mba_assert(out->linked + out->unlinked <= l->n);
    free(s);
    return st;
}
