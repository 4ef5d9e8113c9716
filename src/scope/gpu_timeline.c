// SPDX-License-Identifier: Apache-2.0
/* gpu_timeline.c -- the timeline of captured steps, in two passes: graph-traced steps (one record per step), then
 * kernel-traced steps (one record per kernel).
 *
 * To trace a kernel, CUPTI puts two timestamps around it on the GPU. The next kernel starts a little later, which
 * matters where kernels are short, and the host takes longer to launch the graph. Kernel-traced steps are therefore
 * queued back to back, as in training, so that the launch overlaps with the previous step. A record of a whole graph
 * costs only two timestamps. So the duration of a step comes from the first pass and its contents from the second. The
 * difference on the GPU, divided by the number of records, is the cost of a record; analysis_events.c subtracts it from
 * gaps.
 *
 * Both passes capture the step again: CUPTI crashes on a graph that was instantiated before it records graphs. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/sort.h"
#include "scope/clock.h"
#include "scope/cupti_collect.h"
#include "scope/gpu_profile.h"
#include "scope/nvml.h"
#include "scope/launch_trace.h"

static const double OVERHEAD_MOST = 0.02; // relative cost of tracing above which the store gets a note
static const double SETTLED = 0.01;       // relative difference of plain steps that needs no note
static const double WHOLE_S = 0.3;        // least seconds of graph-traced steps
static const double QUEUED_S = 0.3;       // least seconds of plain queued steps
/* Steps longer than this load the GPU so much that clocks move. After CUPTI's preparation on an idle GPU, five steps of
 * 0.12 s passed until clocks were back (122.8 121.1 119.1 117.6 116.3 ms). */
static const double LONG_S = 0.05;
enum { ALONE = 1, LEAD = 1, LEAD_LONG = 8, QUEUE = 3 }; // warm-up steps: alone, at the head; steps of a queue

typedef struct job {
    mba_gpu_profile *g;
    mba_program     *p;
    const mba_step  *step;
    int              steps, warm_up; /* kernel-traced steps that count, and that do not */
    bool             is_long;
    double           plain_s; /* seconds of plain steps between the passes */
} job;

typedef struct gathering {
    mba_events *to;
    mba_status  st;
} gathering;

static void gather(void *ctx, const mba_event *e)
{
    gathering *x = ctx;
    if (x->st == MBA_OK) x->st = mba_events_add(x->to, e);
}

static double median(const double *x, int n)
{
    double sorted[MBA_GPU_STEPS_MAX];
    mba_assert(n >= 0 && n <= MBA_GPU_STEPS_MAX);
    memcpy(sorted, x, (size_t)n * sizeof *x);
    mba_sort(sorted, n);
    return n ? sorted[n / 2] : NAN;
}

static void put_cost(job *j, const char *mode, int passes, double began_s, int64_t records, int64_t dropped)
{
    mba_assert(j->g->ncosts < (int)(sizeof j->g->cost / sizeof *j->g->cost));
    j->g->cost[j->g->ncosts++] = (mba_gpu_cost){
        .mode = mode, .passes = passes, .seconds = mba_clock_s() - began_s, .launches = records, .dropped = dropped
    };
}

/* Discards the captured graph and runs one step; the next run captures the step again. */
static mba_status discard_capture(job *j)
{
    if (j->p->kept && j->p->device->forget) j->p->device->forget(j->p);
    return mba_gpu_run_step(j->p, j->step, NULL);
}

/* ---- graph-traced steps ---- */

static mba_status run_whole(job *j)
{
    mba_gpu_profile *g = j->g;
    MBA_TRY(mba_gpu_run_step(j->p, j->step, NULL));
    const double began = mba_clock_s();
    while (g->nwhole < j->steps || (mba_clock_s() - began < WHOLE_S && g->nwhole < MBA_GPU_STEPS_MAX))
        MBA_TRY(mba_gpu_run_step(j->p, j->step, &g->whole_s[g->nwhole++]));
    return mba_gpu_read_clocks(g, j->p, j->step, "graph");
}

/* The first record is that of the warm-up step. */
static mba_status take_records(mba_gpu_profile *g, const mba_events *l)
{
    for (int64_t i = 1; i < l->n && g->nrecords < g->nwhole; i++) {
        const mba_event *e = &l->event[i];
        if (e->start_ns > 0 && e->end_ns > e->start_ns)
            g->record_s[g->nrecords++] = 1e-9 * (double)(e->end_ns - e->start_ns);
    }
    if (g->nrecords) return MBA_OK;
    return mba_fail(MBA_E_DEVICE, "CUPTI has no record of a whole step\nwhy: %lld records of %d steps", (long long)l->n,
                    g->nwhole);
}

static mba_status measure_whole(job *j)
{
    mba_events   l = { 0 };
    gathering    to = { &l, MBA_OK };
    int64_t      dropped = 0;
    const double began = mba_clock_s();
    MBA_TRY(discard_capture(j));
    MBA_TRY(mba_activity_begin_graphs(gather, &to));
    mba_status       st = run_whole(j);
    const mba_status ended = mba_activity_end(&dropped);
    if (st == MBA_OK) st = ended != MBA_OK ? ended : to.st;
    if (st == MBA_OK) st = take_records(j->g, &l);
    put_cost(j, "graph", j->g->nwhole + 1, began, l.n, dropped);
    mba_events_free(&l);
    return st;
}

/* ---- kernel-traced steps ---- */

/* Queues n steps back to back: from the second on the host is ahead of the GPU. */
static mba_status run_queue(job *j, int n, double *took_s)
{
    const double began = mba_clock_s();
    for (int i = 0; i < n; i++) MBA_TRY(mba_program_repeat(j->p, MBA_STEP, j->step));
    MBA_TRY(j->p->device->wait());
    *took_s = mba_clock_s() - began;
    return MBA_OK;
}

/* For long steps the launch does not matter, but the power limit does: 6 % between queued steps (104.8 ms) and steps
 * that wait for each other (98.8). So the traced queue is compared with plain queues of the same length, directly
 * before and after it. */
static mba_status measure_long_queue(job *j, int lead)
{
    double           took;
    mba_gpu_profile *g = j->g;
    if (lead) MBA_TRY(run_queue(j, lead, &took));
    MBA_TRY(run_queue(j, j->steps, &took));
    if (g->nqueued < MBA_GPU_STEPS_MAX) g->queued_s[g->nqueued++] = took / j->steps;
    return MBA_OK;
}

/* Seconds per step of a queue beyond its first step, alternating with single steps. */
static mba_status measure_queued(job *j)
{
    mba_gpu_profile *g = j->g;
    const double     began = mba_clock_s();
    if (j->is_long) return measure_long_queue(j, LEAD_LONG);
    do {
        double one = 0, queue = 0;
        MBA_TRY(run_queue(j, 1, &one));
        MBA_TRY(run_queue(j, QUEUE, &queue));
        g->queued_s[g->nqueued++] = (queue - one) / (QUEUE - 1);
    } while (mba_clock_s() - began < QUEUED_S && g->nqueued < MBA_GPU_STEPS_MAX);
    return MBA_OK;
}

/* Duration of each step: from the end of the previous step to its own end, by the events on the GPU. */
static void time_steps(const job *j)
{
    mba_gpu_profile *g = j->g;
    int64_t          last[MBA_GPU_STEPS_MAX + ALONE + LEAD_LONG] = { 0 };
    if (g->link.steps != j->steps + j->warm_up) return;
    mba_assert(g->link.steps <= (int)(sizeof last / sizeof *last) && j->warm_up > 0);
    for (int64_t i = 0; i < g->events.n; i++) {
        const mba_event *e = &g->events.event[i];
        if (e->step >= 0 && e->step < g->link.steps && e->end_ns > last[e->step]) last[e->step] = e->end_ns;
    }
    for (int i = j->warm_up; i < g->link.steps; i++)
        g->timeline_s[g->ntimeline++] = 1e-9 * (double)(last[i] - last[i - 1]);
}

/* Removes the events of the warm-up steps (one alone, some at the head of the queue); later steps count from 0. */
static void drop_warm_up(const job *j)
{
    mba_gpu_profile *g = j->g;
    int64_t          n = 0;
    for (int64_t i = 0; i < g->events.n; i++) {
        mba_event e = g->events.event[i];
        if (e.step < j->warm_up) continue;
        e.step -= j->warm_up;
        g->events.event[n++] = e;
    }
    mba_assert(n <= g->events.n);
    g->events.n = n;
}

static void judge_links(job *j)
{
    const mba_correlate_report *r = &j->g->link;
    char                        text[256];
    if (r->steps != j->steps + j->warm_up) {
        snprintf(text, sizeof text, "the timeline shows %d captured steps of %d", r->steps, j->steps + j->warm_up);
        mba_gpu_note_add(j->g, "timeline", text, "");
    }
    if (r->unlinked) {
        snprintf(text, sizeof text,
                 "%lld events have no operator: a step was captured with %lld kernels, %lld copies, %lld sets and ran "
                 "%lld, %lld, %lld",
                 (long long)r->unlinked, (long long)r->expected[0], (long long)r->expected[1],
                 (long long)r->expected[2], (long long)r->got[0], (long long)r->got[1], (long long)r->got[2]);
        mba_gpu_note_add(j->g, "timeline", text, "");
    }
}

/* Median over steps of the time from the first start to the last end of a step's graph; *records: events per step,
 * *busy_s: the sum of their durations per step. */
static double extent_of_steps(const mba_gpu_profile *g, double *records, double *busy_s)
{
    double  extent[MBA_GPU_STEPS_MAX];
    int64_t first[MBA_GPU_STEPS_MAX], last[MBA_GPU_STEPS_MAX], n = 0;
    int     steps = 0;
    *busy_s = 0;
    for (int i = 0; i < g->ntimeline; i++) first[i] = INT64_MAX, last[i] = 0;
    for (int64_t i = 0; i < g->events.n; i++) {
        const mba_event *e = &g->events.event[i];
        if (!e->graph || e->step < 0 || e->step >= g->ntimeline) continue;
        if (e->start_ns < first[e->step]) first[e->step] = e->start_ns;
        if (e->end_ns > last[e->step]) last[e->step] = e->end_ns;
        *busy_s += 1e-9 * (double)(e->end_ns - e->start_ns);
        n++;
    }
    for (int i = 0; i < g->ntimeline; i++)
        if (last[i] > first[i]) extent[steps++] = 1e-9 * (double)(last[i] - first[i]);
    *records = steps ? (double)n / steps : 0;
    *busy_s = steps ? *busy_s / steps : NAN;
    return median(extent, steps);
}

/* Interquartile range. */
static double spread(const double *x, int n)
{
    double sorted[MBA_GPU_STEPS_MAX];
    mba_assert(n >= 0 && n <= MBA_GPU_STEPS_MAX);
    memcpy(sorted, x, (size_t)n * sizeof *x);
    mba_sort(sorted, n);
    return n ? sorted[3 * n / 4] - sorted[n / 4] : NAN;
}

/* Computes the cost of a record, and notes if tracing or clocks changed the duration of a step. */
static void judge_overhead(mba_gpu_profile *g)
{
    char         text[480];
    double       records, busy_s;
    const double extent_s = extent_of_steps(g, &records, &busy_s), plain_s = median(g->plain_s, g->nplain);
    const double watched_s = median(g->timeline_s, g->ntimeline);
    const double row_s = g->nqueued ? median(g->queued_s, g->nqueued) : plain_s;
    const double clocks = plain_s > LONG_S ? row_s / plain_s : 1; // graph-traced steps ran at other clocks
    const double whole_s = clocks * median(g->record_s, g->nrecords);
    const double apart_s = spread(g->plain_s, g->nplain);
    if (records > 1 && g->nrecords) g->record_cost_s = fmax(0, extent_s - whole_s) / (records - 1);
    if (!(watched_s > (1 + OVERHEAD_MOST) * row_s)) return;
    int n = snprintf(text, sizeof text, "a kernel-traced step takes %+.1f %%, back to back",
                     100 * (watched_s / row_s - 1));
    if (!(extent_s - whole_s > 2 * apart_s))
        snprintf(text + n, sizeof text - (size_t)n,
                 "; steps without profiler differ by %.1f %% because of clocks: the overhead of records is smaller "
                 "than that",
                 100 * apart_s / plain_s);
    else
        snprintf(text + n, sizeof text - (size_t)n,
                 ": on the GPU %.3f instead of %.3f ms by CUPTI's timestamps, %.2f us for each of %.0f kernels "
                 "and sets. The kernels add up to %.3f ms. A graph-traced step takes %+.1f %%",
                 1e3 * extent_s, 1e3 * whole_s, 1e6 * g->record_cost_s, records, 1e3 * busy_s,
                 100 * (median(g->whole_s, g->nwhole) / plain_s - 1));
    mba_gpu_note_add(g, "timeline", text,
                     "use the step times of modes plain and graph; gaps are corrected for the cost of records");
}

static mba_status measure_kernels(job *j)
{
    mba_gpu_profile *g = j->g;
    gathering        to = { &g->events, MBA_OK };
    int64_t          dropped = 0;
    const double     began = mba_clock_s();
    MBA_TRY(discard_capture(j));
    MBA_TRY(mba_gpu_run_step(j->p, j->step, NULL)); // captures without CUPTI, as in plain steps
    MBA_TRY(mba_gpu_time_unprofiled(g, j->p, j->step, MBA_GPU_PLAIN_MIN, j->plain_s));
    MBA_TRY(mba_gpu_read_clocks(g, j->p, j->step, "plain_again"));
    MBA_TRY(measure_queued(j));
    MBA_TRY(mba_activity_begin(gather, &to));
    double     took;
    mba_status st = mba_gpu_run_step(j->p, j->step, NULL);
    if (st == MBA_OK) st = run_queue(j, j->steps + j->warm_up - ALONE, &took);
    const mba_status ended = mba_activity_end(&dropped);
    if (st == MBA_OK) st = ended != MBA_OK ? ended : to.st;
    for (int i = 0; i < 2 && j->is_long && st == MBA_OK; i++) st = measure_long_queue(j, 0);
    if (st == MBA_OK) st = mba_correlate_events(&g->events, mba_launch_trace_counts(), j->p->graph->nnodes, &g->link);
    MBA_TRY(st);
    judge_links(j);
    time_steps(j);
    drop_warm_up(j);
    put_cost(j, "timeline", j->steps + j->warm_up, began, g->events.n, dropped);
    return MBA_OK;
}

/* Notes if plain steps before and after the graph-traced ones differ, because clocks changed. */
static void judge_clocks(mba_gpu_profile *g)
{
    const double before = median(g->plain_s, g->nbefore),
                 after = median(g->plain_s + g->nbefore, g->nplain - g->nbefore);
    char text[360], words[2][160];
    int  n;
    if (!(fabs(after / before - 1) > SETTLED)) return;
    n = snprintf(text, sizeof text, "steps without profiler took %.3f ms before the recorded ones and %.3f ms after",
                 1e3 * before, 1e3 * after);
    if (g->nclocks < 3) {
        mba_gpu_note_add(g, "clocks", text, "");
        return;
    }
    for (int i = 0; i < 2; i++) mba_nvml_throttle_words(words[i], sizeof words[i], g->clock[2 * i].throttled);
    snprintf(text + n, sizeof text - (size_t)n, ": %d MHz (%s), then %d MHz (%s)", g->clock[0].sm_mhz,
             *words[0] ? words[0] : "not throttled", g->clock[2].sm_mhz, *words[1] ? words[1] : "not throttled");
    mba_gpu_note_add(g, "clocks", text, "profile again on an idle GPU");
}

mba_status mba_gpu_timeline(mba_gpu_profile *g, mba_program *p, const mba_step *step, const mba_gpu_options *o)
{
    const bool is_long = median(g->plain_s, g->nplain) > LONG_S;
    job        j = { g, p, step, o->steps, ALONE + (is_long ? LEAD_LONG : LEAD), is_long, mba_gpu_plain_s(o) };
    if (measure_whole(&j) != MBA_OK) mba_gpu_note_failure(g, "timeline of whole steps");
    MBA_TRY(measure_kernels(&j));
    judge_clocks(g);
    judge_overhead(g);
    return MBA_OK;
}
