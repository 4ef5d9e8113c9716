// SPDX-License-Identifier: Apache-2.0
/* collect_nodes.c -- the collector for every device (collect.h): one event per node. On the CPU by the host's clock,
 * with the counters of perf_event if the kernel permits; on a GPU by its own clock, inside a captured step.
 *
 * Steps run in four phases, so that no measurement disturbs another: warm-up, plain, timeline, counters. */
#include <stdlib.h>
#include <string.h>

#include "core/print.h"
#include "scope/clock.h"
#include "scope/collect.h"
#include "scope/describe.h"
#include "scope/perf.h"

typedef struct collector {
    mba_collecting *c;
    int64_t        *kernel; /* per node: index of its kernel; nodes that share a plan are one kernel */
    int64_t         kernels, event, step, began_ns, node_ns;
    double          before[MBA_PERF_COUNTERS];
    double (*sum)[MBA_PERF_COUNTERS]; /* per kernel */
    int64_t   *runs;                  /* per kernel, with counters */
    mba_perf   perf;
    mba_status failed;
} collector;

static mba_status wait_for(const mba_program *p) { return p->device->wait ? p->device->wait() : MBA_OK; }

/* ---- kernels and events ---- */

static mba_status put_kernel(collector *w, int32_t i, bool one_phase)
{
    const mba_node *n = w->c->session->graph->nodes[i];
    const char     *variant = w->c->session->program->plan[i]->variant;
    char            shape[1024], symbol[160];
    mba_row_kernel  k = mba_no_kernel;
    mba_node_shape(shape, sizeof shape, n);
    snprintf(symbol, sizeof symbol, "%s/%s", n->op->name, variant ? variant : "");
    k.id = w->kernel[i], k.name = n->op->name, k.symbol = symbol, k.op = n->op->name,
    k.kind = mba_kind_name(n->op->kind), k.shape = shape;
    k.phase = one_phase ? mba_pass_name(n->pass) : NULL;
    return mba_put_kernel(w->c->store, &k);
}

/* Numbers the kernels: one per plan. A kernel has a phase if all its nodes have the same. */
static mba_status number_kernels(collector *w)
{
    const mba_program *p = w->c->session->program;
    for (int32_t i = 0; i < p->graph->nnodes; i++) {
        bool one_phase = true, first = true;
        for (int32_t j = 0; j < p->graph->nnodes; j++) {
            if (p->plan[j] != p->plan[i]) continue;
            one_phase &= p->graph->nodes[j]->pass == p->graph->nodes[i]->pass;
            if (j < i && first) {
                first = false;
                w->kernel[i] = w->kernel[j];
            }
        }
        if (!first) continue;
        w->kernel[i] = w->kernels++;
        MBA_TRY(put_kernel(w, i, one_phase));
    }
    mba_assert(w->kernels <= p->graph->nnodes);
    return MBA_OK;
}

static mba_status put_event(collector *w, const mba_node *n, int64_t start_ns, int64_t duration_ns)
{
    mba_row_event e = mba_no_event;
    mba_assert(duration_ns >= 0);
    e.id = w->event++, e.what = "node", e.start_ns = start_ns, e.duration_ns = duration_ns, e.stream = 0,
    e.step = w->step, e.node = n->id;
    e.kernel = w->kernel[n->id], e.phase = mba_pass_name(n->pass);
    return mba_put_event(w->c->store, &e);
}

/* ---- steps ---- */

static mba_status put_step(collector *w, const char *mode, int64_t place, double seconds)
{
    return mba_put_step(w->c->store,
                        &(mba_row_step){ .mode = mode, .place = place, .seconds = seconds, .units = w->c->units });
}

static mba_status run_steps(collector *w, const char *mode, int64_t steps, const mba_hooks *h)
{
    mba_program *p = w->c->session->program;
    MBA_TRY(mba_world_barrier(w->c->session->world)); // ranks enter their first step together
    for (w->step = 0; w->step < steps; w->step++) {
        const double began = mba_clock_s();
        MBA_TRY(h ? mba_program_run(p, MBA_STEP, &w->c->step, h) : mba_program_repeat(p, MBA_STEP, &w->c->step));
        MBA_TRY(wait_for(p));
        MBA_TRY(w->failed);
        if (mode) MBA_TRY(put_step(w, mode, w->step, mba_clock_s() - began));
    }
    return MBA_OK;
}

static mba_status put_collection(collector *w, const char *mode, const char *set, double began_s)
{
    mba_row_collection r = mba_no_collection;
    r.mode = mode, r.metric_set = set, r.passes = 1, r.seconds = mba_clock_s() - began_s, r.kernels = w->kernels,
    r.dropped = 0;
    return mba_put_collection(w->c->store, &r);
}

/* ---- the timeline ---- */

static void start_clock(void *ctx, const mba_node *n, const mba_plan *plan)
{
    (void)n, (void)plan;
    ((collector *)ctx)->node_ns = mba_clock_ns();
}

static void stop_clock(void *ctx, const mba_node *n, const mba_plan *plan)
{
    collector    *w = ctx;
    const int64_t now = mba_clock_ns();
    (void)plan;
    if (w->failed == MBA_OK) w->failed = put_event(w, n, w->node_ns - w->began_ns, now - w->node_ns);
}

/* By the device's events, which give durations only: nodes are placed end to end. */
static mba_status device_timeline(collector *w)
{
    mba_program *p = w->c->session->program;
    double      *s = calloc((size_t)p->graph->nnodes + 1, sizeof *s);
    mba_status   st = s ? MBA_OK : mba_fail(MBA_E_NOMEM, "no memory for times");
    int64_t      at = 0;
    for (w->step = 0; w->step < w->c->options->steps && st == MBA_OK; w->step++) {
        const double began = mba_clock_s();
        st = p->device->time_nodes(p, MBA_STEP, s, false);
        if (st == MBA_OK) st = put_step(w, "timeline", w->step, mba_clock_s() - began);
        for (int32_t i = 0; i < p->graph->nnodes && st == MBA_OK; i++) {
            if (!(s[i] > 0)) continue; // a node that does not run in a whole step
            st = put_event(w, p->graph->nodes[i], at, (int64_t)(1e9 * s[i]));
            at += (int64_t)(1e9 * s[i]);
        }
    }
    free(s);
    if (st != MBA_OK) return st;
    return mba_put_note(w->c->store, &(mba_row_note){ .topic = "timeline",
                                                      .severity = "note",
                                                      .text = "durations by the device's events; starts "
                                                              "are laid end to end, gaps are not seen; a step of the "
                                                              "timeline is timed with its capture" });
}

static mba_status timeline(collector *w)
{
    const mba_hooks h = { start_clock, stop_clock, w };
    const double    began = mba_clock_s();
    if (w->c->session->device->time_nodes) MBA_TRY(device_timeline(w));
    else {
        MBA_TRY(mba_world_barrier(w->c->session->world));
        w->began_ns = mba_clock_ns();
        MBA_TRY(mba_env_put_number(w->c->store, "run.timeline_start", "measured", (double)w->began_ns, "ns"));
        MBA_TRY(run_steps(w, "timeline", w->c->options->steps, &h));
    }
    return put_collection(w, "timeline", NULL, began);
}

/* ---- counters of the CPU ---- */

static void start_counters(void *ctx, const mba_node *n, const mba_plan *plan)
{
    collector *w = ctx;
    (void)n, (void)plan;
    mba_perf_read(&w->perf, w->before);
}

static void stop_counters(void *ctx, const mba_node *n, const mba_plan *plan)
{
    collector *w = ctx;
    double     after[MBA_PERF_COUNTERS];
    (void)plan;
    mba_perf_read(&w->perf, after);
    const int64_t k = w->kernel[n->id];
    mba_debug_assert(k >= 0 && k < w->kernels);
    for (int i = 0; i < MBA_PERF_COUNTERS; i++) w->sum[k][i] += after[i] - w->before[i];
    w->runs[k]++;
}

static mba_status put_counters(collector *w)
{
    for (int64_t k = 0; k < w->kernels; k++)
        for (int i = 0; i < MBA_PERF_COUNTERS; i++) {
            if (!w->perf.has[i] || !w->runs[k]) continue;
            const mba_row_counter r = { .kernel = k,
                                        .metric = mba_perf_counters[i].name,
                                        .value = w->sum[k][i] / (double)w->runs[k],
                                        .unit = mba_perf_counters[i].unit,
                                        .metric_set = "cpu",
                                        .launches = w->runs[k] };
            MBA_TRY(mba_put_counter(w->c->store, &r));
        }
    return MBA_OK;
}

static mba_status counters(collector *w)
{
    const mba_hooks h = { start_counters, stop_counters, w };
    const double    began = mba_clock_s();
    char            why[256], fix[256];
    if (w->c->session->device->machine->cc > 0) return MBA_OK;
    if (w->c->options->sets && !*w->c->options->sets) return MBA_OK; // --sets none
    if (w->c->session->world) // ranks take every step together, and some might not be permitted to count
        return mba_note_missing(w->c->store, "counters", "several ranks were profiled: nothing was counted",
                                "profile one rank");
    if (!mba_perf_open(&w->perf, why, sizeof why, fix, sizeof fix))
        return mba_note_missing(w->c->store, "counters", why, fix);
    mba_status st = run_steps(w, "counters", w->c->options->steps, &h);
    if (st == MBA_OK) st = put_counters(w);
    if (st == MBA_OK) st = put_collection(w, "counters", "cpu", began);
    mba_perf_close(&w->perf);
    return st;
}

/* ---- all of it ---- */

static mba_status collect_all(collector *w)
{
    MBA_TRY(number_kernels(w));
    MBA_TRY(run_steps(w, NULL, w->c->options->warmup, NULL));
    const double began = mba_clock_s();
    MBA_TRY(run_steps(w, "plain", w->c->options->steps, NULL));
    MBA_TRY(put_collection(w, "plain", NULL, began));
    MBA_TRY(timeline(w));
    return counters(w);
}

mba_status mba_collect_nodes(mba_collecting *c)
{
    const size_t n = (size_t)c->session->graph->nnodes + 1;
    collector    w = { .c = c,
                       .kernel = calloc(n, sizeof *w.kernel),
                       .sum = calloc(n, sizeof *w.sum),
                       .runs = calloc(n, sizeof *w.runs) };
    mba_status st = w.kernel && w.sum && w.runs ? collect_all(&w) : mba_fail(MBA_E_NOMEM, "no memory for %zu nodes", n);
    free(w.kernel);
    free(w.sum);
    free(w.runs);
    return st;
}
