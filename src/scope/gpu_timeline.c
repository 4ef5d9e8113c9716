// SPDX-License-Identifier: Apache-2.0
/* gpu_timeline.c -- the timeline of captured steps, in two passes: each step as one record, then each kernel as one.
 *
 * A record of a kernel is two stamps that CUPTI puts around it, on the GPU: the next kernel begins a little later for
 * it, which shows where kernels are short; and it makes the launch of the graph longer, on the host. So these steps run
 * one behind the other, as in training, and launching hides behind the step before. A record of a
 * whole graph costs two stamps for all of them. So how long a step is comes from the first pass, what it consists of
 * from the second, and how much longer that is on the GPU, over its records, is what a record costs: gaps between
 * kernels are read less that (analysis_events.c).
 *
 * Both passes capture the step anew: CUPTI crashes on a graph that was made before it was told to record graphs. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/sort.h"
#include "scope/clock.h"
#include "scope/cupti_collect.h"
#include "scope/gpu_profile.h"
#include "scope/nvml.h"
#include "scope/launch_trace.h"

static const double OVERHEAD_MOST = 0.02; // of the timeline; beyond, the store has a note
static const double SETTLED = 0.01;       // how far unwatched steps before and after may be apart, unsaid
static const double WHOLE_S = 0.3;        // how long steps are recorded whole, at least
static const double QUEUED_S = 0.3;       // and how long they run one behind the other, unwatched
/* A step as long as that loads the GPU so that clocks move: after CUPTI has prepared itself, on an idle GPU, they took
 * five steps of 0.12 s to come back (122.8 121.1 119.1 117.6 116.3 ms). */
static const double LONG_S = 0.05;
enum { ALONE = 1, LEAD = 1, LEAD_LONG = 8, QUEUE = 3 }; // steps that do not count; steps of a row

typedef struct job {
    mba_gpu_profile *g;
    mba_program     *p;
    const mba_step  *step;
    int              steps, warm_up; /* recorded kernel by kernel: how many count, how many do not */
    bool             is_long;
    double           plain_s; /* of steps again that nobody watches */
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
    memcpy(sorted, x, (size_t)n * sizeof *x);
    mba_sort(sorted, n);
    return n ? sorted[n / 2] : NAN;
}

static void put_cost(job *j, const char *mode, int passes, double began_s, int64_t records, int64_t dropped)
{
    j->g->cost[j->g->ncosts++] = (mba_gpu_cost){
        .mode = mode, .passes = passes, .seconds = mba_clock_s() - began_s, .launches = records, .dropped = dropped
    };
}

/* The next run but one captures the step anew. */
static mba_status start_anew(job *j)
{
    if (j->p->kept && j->p->device->forget) j->p->device->forget(j->p);
    return mba_gpu_run_step(j->p, j->step, NULL);
}

/* ---- each step as one record ---- */

static mba_status run_whole(job *j)
{
    mba_gpu_profile *g = j->g;
    MBA_TRY(mba_gpu_run_step(j->p, j->step, NULL));
    const double began = mba_clock_s();
    while (g->nwhole < j->steps || (mba_clock_s() - began < WHOLE_S && g->nwhole < MBA_GPU_STEPS_MAX))
        MBA_TRY(mba_gpu_run_step(j->p, j->step, &g->whole_s[g->nwhole++]));
    return mba_gpu_read_clocks(g, j->p, j->step, "graph");
}

/* The first record is of the warm-up. */
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
    MBA_TRY(start_anew(j));
    MBA_TRY(mba_activity_begin_graphs(gather, &to));
    mba_status       st = run_whole(j);
    const mba_status ended = mba_activity_end(&dropped);
    if (st == MBA_OK) st = ended != MBA_OK ? ended : to.st;
    if (st == MBA_OK) st = take_records(j->g, &l);
    put_cost(j, "graph", j->g->nwhole + 1, began, l.n, dropped);
    mba_events_free(&l);
    return st;
}

/* ---- each kernel as one record ---- */

/* One behind the other: the host is ahead of the GPU from the second on. */
static mba_status run_row(job *j, int n, double *took_s)
{
    const double began = mba_clock_s();
    for (int i = 0; i < n; i++) MBA_TRY(mba_program_repeat(j->p, MBA_STEP, j->step));
    MBA_TRY(j->p->device->wait());
    *took_s = mba_clock_s() - began;
    return MBA_OK;
}

/* A launch is nothing to a long step; what moves it is the power limit, by 6 % between a row (104.8 ms) and steps that
 * wait for each other (98.8). So a row is held against rows as long, right before and right behind it. */
static mba_status measure_long_row(job *j, int lead)
{
    double           took;
    mba_gpu_profile *g = j->g;
    if (lead) MBA_TRY(run_row(j, lead, &took));
    MBA_TRY(run_row(j, j->steps, &took));
    if (g->nqueued < MBA_GPU_STEPS_MAX) g->queued_s[g->nqueued++] = took / j->steps;
    return MBA_OK;
}

/* What a row takes beyond its first step, alternating with one alone. */
static mba_status measure_queued(job *j)
{
    mba_gpu_profile *g = j->g;
    const double     began = mba_clock_s();
    if (j->is_long) return measure_long_row(j, LEAD_LONG);
    do {
        double one = 0, row = 0;
        MBA_TRY(run_row(j, 1, &one));
        MBA_TRY(run_row(j, QUEUE, &row));
        g->queued_s[g->nqueued++] = (row - one) / (QUEUE - 1);
    } while (mba_clock_s() - began < QUEUED_S && g->nqueued < MBA_GPU_STEPS_MAX);
    return MBA_OK;
}

/* From the end of the step before to the end of the step, by what ran on the GPU. */
static void time_steps(const job *j)
{
    mba_gpu_profile *g = j->g;
    int64_t          last[MBA_GPU_STEPS_MAX + ALONE + LEAD_LONG] = { 0 };
    if (g->link.steps != j->steps + j->warm_up) return;
    for (int64_t i = 0; i < g->events.n; i++) {
        const mba_event *e = &g->events.event[i];
        if (e->step >= 0 && e->step < g->link.steps && e->end_ns > last[e->step]) last[e->step] = e->end_ns;
    }
    for (int i = j->warm_up; i < g->link.steps; i++)
        g->timeline_s[g->ntimeline++] = 1e-9 * (double)(last[i] - last[i - 1]);
}

/* The first steps with CUPTI are a warm-up, one alone and some at the head of the row: their events go, later
 * ones count from 0. */
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

/* From the first start to the last end of what a step's graph ran, its median over steps; *records: how many that was,
 * *busy_s: the sum of their times. */
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

/* How far unwatched steps are apart among themselves. */
static double spread(const double *x, int n)
{
    double sorted[MBA_GPU_STEPS_MAX];
    memcpy(sorted, x, (size_t)n * sizeof *x);
    mba_sort(sorted, n);
    return n ? sorted[3 * n / 4] - sorted[n / 4] : NAN;
}

/* What a record costs, and the words for a step that it shows in, or that clocks have made another. */
static void judge_overhead(mba_gpu_profile *g)
{
    char         text[480];
    double       records, busy_s;
    const double extent_s = extent_of_steps(g, &records, &busy_s), plain_s = median(g->plain_s, g->nplain);
    const double watched_s = median(g->timeline_s, g->ntimeline);
    const double row_s = g->nqueued ? median(g->queued_s, g->nqueued) : plain_s;
    const double clocks = plain_s > LONG_S ? row_s / plain_s : 1; // a step as a whole was recorded with others
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
    MBA_TRY(start_anew(j));
    MBA_TRY(mba_gpu_run_step(j->p, j->step, NULL)); // captured as in a run that nobody watches
    MBA_TRY(mba_gpu_time_unprofiled(g, j->p, j->step, j->plain_s));
    MBA_TRY(mba_gpu_read_clocks(g, j->p, j->step, "plain_again"));
    MBA_TRY(measure_queued(j));
    MBA_TRY(mba_activity_begin(gather, &to));
    double     row;
    mba_status st = mba_gpu_run_step(j->p, j->step, NULL);
    if (st == MBA_OK) st = run_row(j, j->steps + j->warm_up - ALONE, &row);
    const mba_status ended = mba_activity_end(&dropped);
    if (st == MBA_OK) st = ended != MBA_OK ? ended : to.st;
    for (int i = 0; i < 2 && j->is_long && st == MBA_OK; i++) st = measure_long_row(j, 0);
    if (st == MBA_OK) st = mba_correlate_events(&g->events, mba_launch_trace_counts(), j->p->graph->nnodes, &g->link);
    MBA_TRY(st);
    judge_links(j);
    time_steps(j);
    drop_warm_up(j);
    put_cost(j, "timeline", j->steps + j->warm_up, began, g->events.n, dropped);
    return MBA_OK;
}

/* Steps that nobody watches, before and after those recorded as a whole: were clocks the same? */
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
